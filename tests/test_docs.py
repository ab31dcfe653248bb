"""The pages: every solver and goal has one, their tables are complete, and their code does what they say."""

import ast
import dataclasses
import sys
from pathlib import Path

import pytest

import posable as ps

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
sys.path[:0] = [str(DOCS / "_ext"), str(DOCS / "pictures")]

import pages  # noqa: E402

pytest.importorskip("sphinx")
import plain_docstrings  # noqa: E402
import registers  # noqa: E402


@pytest.mark.parametrize("name", ps.solvers.names())
def test_every_solver_has_a_page(name):
    text = (DOCS / "solvers" / f"{name}.md").read_text(encoding="utf8")
    assert f"```{{solver}} {name}\n" in text
    assert "$$" in text
    assert "**Source.**" in text
    assert (DOCS / "images" / "solvers" / f"{name}.png").stat().st_size > 2000


@pytest.mark.parametrize("name", registers.goal_names())
def test_every_goal_has_a_page(name):
    page = registers.page_of_goal(name)
    text = (DOCS / "goals" / f"{page}.md").read_text(encoding="utf8")
    assert f"```{{goal}} {name}\n" in text
    assert "$$" in text
    assert "**Source.**" in text
    assert (DOCS / "images" / "goals" / f"{page}.png").stat().st_size > 2000


def test_no_page_is_left_over():
    assert {p.stem for p in (DOCS / "solvers").glob("*.md")} == {"index", *ps.solvers.names()}
    assert {p.stem for p in (DOCS / "goals").glob("*.md")} == {
        "index",
        *map(registers.page_of_goal, registers.goal_names()),
    }


@pytest.mark.parametrize("name", ps.solvers.names())
def test_every_option_of_a_solver_is_explained(name):
    cls = ps.solvers.get(name)
    options = [field.name for field in dataclasses.fields(cls)]
    said = registers.said_of_all(cls, options)
    assert [option for option in options if not said.get(option)] == []


@pytest.mark.parametrize("name", registers.goal_names())
def test_every_parameter_of_a_goal_is_explained(name):
    cls = getattr(ps.goals, name)
    options = [p.name for p in registers.parameters(cls)]
    said = registers.said_of_all(cls, options)
    assert [option for option in options if not said.get(option)] == []


def test_options_are_read_from_a_docstring():
    text = 'A method. alpha: how much, Parent (5.27). target (..., 3) [m] in the world. low, high: both "ends": of it.'
    first, said, passing = registers.sentences_on(text, ["alpha", "target", "low", "high", "method"])
    assert first == "A method."
    assert said["alpha"] == "how much, Parent (5.27)."
    assert said["target"] == "(..., 3) [m] in the world."
    assert passing["method"] == "A method."
    assert said["low"] == said["high"] == 'both "ends": of it.'


def test_docstrings_are_shown_as_they_stand():
    lines = ["Solve J* x = |r| for `name_`.", "", "    code * here"]
    assert plain_docstrings.to_rst(lines) == [
        r"Solve J\* x = \|r\| for ``name_``.", "", "::", "", "    code * here",
    ]  # fmt: skip


def test_google_sections_become_lists():
    lines = ["Do it.", "", "Args:", "    theta: (n,) [rad],", "        the pose.", "    *more: J* of it.", "",
             "Returns:", "    A number: how far."]  # fmt: skip
    assert plain_docstrings.to_rst(lines) == [
        "Do it.", "", "**Args**", "", "- ``theta``: (n,) [rad], the pose.", "- ``*more``: J\\* of it.", "",
        "**Returns**", "", "- A number: how far.", "",
    ]  # fmt: skip


def test_help_is_what_the_command_prints():
    assert registers.help_of("solve").startswith("usage: posable solve")
    assert "exit codes" in registers.help_of("")


def test_the_reference_names_everything_public():
    text = "".join(page.read_text(encoding="utf8") for page in (DOCS / "api").glob("*.md"))
    hidden = {"__version__", "errors", "figures", "goals", "plots", "solvers", "PosableError", "PosableWarning"}
    assert [name for name in ps.__all__ if name not in hidden and f"posable.{name}\n" not in text] == []
    assert [name for name in ps.goals.__all__ if f"posable.goals.{name}\n" not in text] == []


@pytest.mark.parametrize("path", pages.runnable(), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_code_of_a_page(path, tmp_path):
    pytest.importorskip("matplotlib")
    _, printed = pages.run(path, tmp_path)
    assert pages.wrong(path, printed) == []


def test_pages_in_python_parse():
    for path in (DOCS / "mathematics.md", *(DOCS / "solvers").glob("*.md")):
        for block in pages.blocks_of(path.read_text(encoding="utf8")):
            ast.parse(block.code)


def test_printed_texts_are_compared():
    assert pages.same(
        "REACHED (newton, 4 iterations, 0.4 ms).\n  a: reached 0.001 mm",
        "REACHED (newton, 5 iterations, 9 ms).\n a: reached 0.9 mm",
    )
    assert pages.same("missed by 280 mm", "missed by 281 mm")
    assert not pages.same("missed by 280 mm", "missed by 380 mm")
    assert not pages.same("REACHED", "STUCK")


def test_pictures_are_small():
    drawn = [path for path in DOCS.rglob("*.png") if not {"_build", "results"} & set(path.parts)]
    assert sum(path.stat().st_size for path in drawn) < 6e6


def rows_of(text):
    """Return the rows of the first table of a text, as cells by the heading of their column."""
    lines = [[cell.strip(" *") for cell in line[1:-1].split("|")] for line in text.splitlines() if line[:1] == "|"]
    heads, _, *rows = lines
    return {row[0]: dict(zip(heads, row, strict=False)) for row in rows}


def test_the_readme_repeats_the_results():
    """The table of other libraries: the share solved, and the time as a multiple of a Session's."""
    readme = (ROOT / "README.md").read_text(encoding="utf8")
    ours = rows_of(readme[readme.index("| | Panda") : readme.index("[Posable alone]")])
    heads = list(next(iter(ours.values())))[1:]
    sections = (DOCS / "results" / "peers.md").read_text(encoding="utf8").split("\n## ")[1:7]
    for head, theirs in zip(heads, map(rows_of, sections), strict=True):
        markers = head == "41 markers"
        for name in (name for name, cells in ours.items() if cells[head]):
            told, factor = ours[name][head].split(", ")
            row = theirs[f"Posable, {'ps.track' if markers else 'Session'}" if name == "Posable" else name]
            if markers:
                assert float(told.removesuffix(" mm")) == pytest.approx(float(row["median error mm"]), abs=0.06)
            else:
                assert told == row["solved"], (name, head)
            if name == "Posable":
                assert factor.split()[0] == row["frames/s" if markers else "median ms"]
            else:
                measured = float(row["x ps.track" if markers else "x Session"])
                assert float(factor.removesuffix("x")) == pytest.approx(measured, abs=0.06 if measured < 10 else 0.51)
