"""The benchmarks' own machinery: pages, their tables and files, and the list of subjects. Nothing is measured here."""

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def _on_the_path(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


@pytest.fixture
def page(tmp_path):
    return importlib.import_module("benchmarks.page").Page("arm", "An arm", tmp_path)


def test_a_page_becomes_markdown_and_json(page, tmp_path):
    page.text("A sentence.")
    page.table("Times", ["solver", "ms", "solved"], [["newton", np.float64(0.01234), "99.5%"], ["dls", 12.0, "100%"]])
    page.value("median_ms", np.float64(0.5))
    page.write(3.2)
    text = (tmp_path / "arm.md").read_text()
    assert text.startswith("# An arm\n\nA sentence.\n\n**Times**\n\n| solver | ms | solved |\n| --- | ---: | ---: |\n")
    assert "| newton | 0.0123 | 99.5% |" in text
    assert "`python -m benchmarks arm`" in text
    kept = json.loads((tmp_path / "arm.json").read_text())
    assert kept["values"] == {"median_ms": 0.5}
    assert kept["tables"]["Times"]["rows"][0] == ["newton", 0.01234, "99.5%"]
    assert {"processor", "cores", "system"} <= set(kept["machine"])
    assert {"python", "posable", "numpy", "numba"} <= set(kept["versions"])


def test_nothing_on_a_page_names_the_host_or_the_user(page, tmp_path):
    import getpass
    import platform

    page.write(0.0)
    text = (tmp_path / "arm.md").read_text() + (tmp_path / "arm.json").read_text()
    assert str(Path.home()) not in text
    assert str(ROOT) not in text
    assert len(platform.node()) < 4 or platform.node() not in text
    assert f'"{getpass.getuser()}"' not in text


def test_a_row_of_the_wrong_length_is_refused(page):
    with pytest.raises(ValueError, match="expected 2 cells, got 1"):
        page.table("Times", ["solver", "ms"], [["newton"]])


def test_a_plot_lies_beside_the_page(page, tmp_path):
    figure = pytest.importorskip("matplotlib.figure").Figure()
    figure.subplots().plot([1, 2])
    page.plot("line", figure, "A line")
    page.write(0.0)
    assert (tmp_path / "arm_line.png").stat().st_size > 1000
    assert "![A line](arm_line.png)" in (tmp_path / "arm.md").read_text()


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.0, "0"), (1234.5, "1234"), (12.345, "12.3"), (0.012345, "0.0123"), (1e-9, "1.0e-09"), (None, ""), (3, "3")],
)
def test_numbers_show_three_figures(number, text):
    assert importlib.import_module("benchmarks.page").shown(number) == text


@pytest.mark.parametrize(("share", "text"), [(1.0, "100%"), (0.0, "0%"), (0.9999, "99.990%"), (0.955, "95.5%")])
def test_a_share_is_never_rounded_to_all(share, text):
    assert importlib.import_module("benchmarks.page").percent(share) == text


def test_printed_tables_are_read_back():
    read = importlib.import_module("benchmarks.page").read_tables
    printed = (
        "\n## Table 4: place\n\n| | time |\n| --- | --- |\n| limb | 2 us |\n| sqp | 3 ms |\nlater\n| a |\n| --- |\n"
    )
    assert read(printed) == [
        ("Table 4: place", ["", "time"], [["limb", "2 us"], ["sqp", "3 ms"]]),
        ("later", ["a"], []),
    ]


def test_every_subject_has_a_module_with_evidence():
    subjects = importlib.import_module("benchmarks.subjects").SUBJECTS
    assert len({subject.name for subject in subjects}) == len(subjects)
    for subject in subjects:
        path = ROOT.joinpath(*subject.module.split("."))
        source = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
        names = {node.name for node in ast.parse(source.read_text()).body if isinstance(node, ast.FunctionDef)}
        names |= {
            a.name
            for node in ast.parse(source.read_text()).body
            if isinstance(node, ast.ImportFrom)
            for a in node.names
        }
        assert "evidence" in names, subject.name


def test_a_subject_without_its_recordings_says_why(monkeypatch):
    module = importlib.import_module("benchmarks.subject")
    monkeypatch.setenv("POSABLE_DATA", "/nowhere")
    assert "POSABLE_DATA" in module.Subject("a", "A", "a", ("data",)).missing()
    assert "no_such_thing" in module.Subject("a", "A", "a", ("no_such_thing",)).missing()
    assert module.Subject("a", "A", "a", ("numpy",)).missing() == ""


def test_the_command_line_lists_and_refuses():
    listed = subprocess.run(
        [sys.executable, "-m", "benchmarks", "list"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "scaling_laws" in listed.stdout
    wrong = subprocess.run(
        [sys.executable, "-m", "benchmarks", "nought"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert wrong.returncode == 2
    assert "unknown subject 'nought'" in wrong.stderr
