"""The numbered examples of goals run, print and draw."""

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("[12][0-9]_*.py"))
MINE = [path for path in EXAMPLES if "g = ps.goals" in path.read_text(encoding="utf8")]


@pytest.mark.parametrize("path", MINE, ids=lambda path: path.stem)
def test_example(path, tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(sys, "argv", [str(path), str(tmp_path)])
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out
    assert list(tmp_path.glob("*.png"))
