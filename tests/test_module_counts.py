"""How many modules of Posable the common paths involve, and that docs/architecture.md names them on these paths.

Packages count. Lower a bound where a change makes that possible; never raise one.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf8")
FIXTURES = Path(__file__).parent / "fixtures"
COUNT = """
names = sorted(name for name in sys.modules if name.partition(".")[0] == "posable")
print(len(names), *names)
"""

SOLVE = """
import sys
import posable as ps
assert ps.solve(ps.figures.human(), [ps.goals.Position("hand.R", (-0.3, 1.2, 0.4))]).ok
"""

TRACK = f"""
import sys
from posable.cli.main import main
markers, actor = {str(FIXTURES / "walk.c3d")!r}, {str(FIXTURES / "walk.asf")!r}
with open("log", "w") as sys.stdout:
    assert main(["track", markers, "--figure", actor, "-o", "take.bvh"]) == 0
sys.stdout = sys.__stdout__
"""

# Of a drag: modules whose functions run between the target of a handle and the nodes of the page, and compiled ones.
DRAG = """
import os, sys
from posable.studio.server import Studio
from posable.studio.session import Session

names = set()

def note(frame, event, argument):
    name = frame.f_globals.get("__name__", "")
    if event == "call" and name.partition(".")[0] == "posable":
        names.add(name)

session = Session()
session.start_worker = lambda: None  # steps are made here
page = Studio(session, port=8941)
hand = next(handle for handle in session.handles if handle.body == "hand.R")
session.drag("hand.R", hand.position + [0.0, 0.05, 0.05])
session.step()
sys.setprofile(note)
session.drag("hand.R", hand.position + [0.0, 0.1, 0.1])
assert session.step()
session.release()
session.step()
sys.setprofile(None)
names.update(name for name in sys.modules if name.startswith("posable.engine."))
print(len(names), *sorted(names), flush=True)
os._exit(0)
"""


@pytest.mark.parametrize(
    ("script", "most", "title", "rooms"),
    [
        pytest.param(SOLVE + COUNT, 30, "`ps.solve", ("_solve", "problem", "goals", "solvers"), id="solve"),
        pytest.param(TRACK + COUNT, 60, "`posable track", ("cli.main", "cli.track", "mocap"), id="track"),
        pytest.param(DRAG, 50, "A drag", ("studio", "_solve", "solvers.continuous", "solvers.natural"), id="drag"),
    ],
)
def test_a_path_involves_few_modules(script, most, title, rooms, tmp_path):
    if script is DRAG:
        pytest.importorskip("viser")
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    count, *names = done.stdout.split()
    assert int(count) <= most, "\n".join(names)
    assert int(count) > 20  # it did what it says
    told = set(re.findall(r"`([\w/]+)\.py`", PAGE.partition(f"### {title}")[2].partition("\n### ")[0]))
    inside = tuple(f"posable.{room}" for room in rooms)
    met = {name[8:].replace(".", "/") for name in names if name.startswith(inside) and name.count(".") <= 2}
    packages = {"goals", "mocap", "solvers", "studio", "studio/panels"}
    assert not met - told - packages
