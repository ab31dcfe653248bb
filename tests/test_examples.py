"""The numbered examples run, print what the gallery shows, and draw."""

import runpy
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("[0-9][0-9]_*.py"))


def words_of(text: str) -> list[str]:
    """Return the words of a printed text, without its numbers: other machines round otherwise."""
    return pages().NUMBER.sub("#", pages().UNCOMPARED.sub("#", text)).split()


def pages():
    spec = spec_from_file_location("pages", ROOT / "docs" / "pictures" / "pages.py")
    module = module_from_spec(spec)
    sys.modules["pages"] = module  # dataclasses look for it there
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path, tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(sys, "argv", [str(path), str(tmp_path)])
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path), run_name="__main__")
    printed = capsys.readouterr().out
    shown = (ROOT / "docs" / "gallery" / f"{path.stem}.txt").read_text(encoding="utf8")
    assert words_of(printed) == words_of(shown), "the gallery shows another output: make pictures"
    drawn = {picture.name for picture in tmp_path.glob("*.png")}
    assert drawn
    assert drawn == {picture.name for picture in (ROOT / "docs" / "gallery").glob(f"{path.stem[:2]}_*.png")}


def test_numbers_are_unique():
    numbers = [path.stem[:2] for path in EXAMPLES]
    assert len(set(numbers)) == len(numbers)
