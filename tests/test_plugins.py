"""Entry points: the example plug-in, installed as a user would install it, and packages that are broken."""

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import posable as ps
from posable import registry
from posable.errors import PosableError, PosableWarning
from posable.registry import Registry

EXAMPLE = Path(__file__).parents[1] / "examples" / "plugin"

USE = """
import numpy as np
import posable as ps
from pathlib import Path

arm = ps.figures.planar_arm([1.0, 1.0])
goal = ps.goals.Orbit("tip", (0.5, 0.5, 0.0), 0.6, angle=0.4)
assert "random-search" in ps.solvers.names()
result = ps.solve(arm, goal, solver="random-search")
assert result.ok, result
place = ps.forward(arm, result.pose).position("tip")
assert np.linalg.norm(place - (0.5 + 0.6 * np.cos(0.4), 0.5 + 0.6 * np.sin(0.4), 0.0)) < 1e-4
solver = ps.solvers.get("random-search")(spread=0.2)
assert ps.solve(arm, goal, solver=solver).ok
heavy = ps.goals.Orbit("tip", (0.5, 0.5, 0.0), 0.6, weight=3, tolerance=0.01, priority=2, label="wheel")
ps.goals.save("goals.toml", [goal, heavy])
back, same = ps.goals.load("goals.toml")
assert type(back) is ps.goals.Orbit and np.array_equal(back.target, goal.target)
assert ps.goals.to_table(back) == ps.goals.to_table(goal)
assert ps.goals.to_table(same) == ps.goals.to_table(heavy)
assert (same.tolerance, same.priority, same.label) == (0.01, 2, "wheel")
try:
    ps.goals.to_table(goal.moved((0.0, 0.5, 0.0)))
    raise SystemExit("another target was written")
except ps.errors.GoalError:
    pass
motion = ps.Motion(arm, np.array([arm.rest, result.pose]), 30.0)
ps.save("a.poses", motion)
assert np.array_equal(ps.load("a.poses", skeleton=arm).motion.poses, motion.poses)
Path("a.poses").rename("b.unknown")
assert np.array_equal(ps.load("b.unknown", skeleton=arm).motion.poses, motion.poses)  # by content
Path("bad.poses").write_text("#poses\\n" + arm.dof_names[0] + "=x\\n")
try:
    ps.load("bad.poses", skeleton=arm)
except ps.errors.FormatError as error:
    print(error)
"""


@pytest.fixture(autouse=True)
def allowed(monkeypatch):
    monkeypatch.delenv("POSABLE_PLUGINS")  # conftest.py


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder that the example plug-in is installed into."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation",
               "--disable-pip-version-check", "--target", str(folder), str(EXAMPLE)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def run(installed, folder, *words):
    code = f"import sys; sys.path.append({str(installed)!r}); "
    command = [sys.executable, "-c", code + words[0], *words[1:]]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


def test_the_example_adds_a_goal_a_solver_and_a_format(installed, tmp_path):
    done = run(installed, tmp_path, f"exec({USE!r})")
    assert done.returncode == 0, done.stderr
    assert "bad.poses:2:1: expected joint=number" in done.stdout


def test_the_command_line_knows_them(installed, tmp_path):
    main = "from posable.cli.main import main; sys.exit(main())"
    words = ["solve", "planar_arm", "--reach", "tip=0.5,0.5,0", "--solver", "random-search"]
    done = run(installed, tmp_path, main, *words, "--seed", "1", "--save", "a.poses")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "a.poses").read_text().startswith("#poses")
    done = run(installed, tmp_path, main, "convert", "a.poses", "a.csv", "--skeleton", "planar_arm")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "a.csv").exists()


def test_nothing_of_it_is_imported_before_it_is_used(installed, tmp_path):
    code = "import posable as ps; ps.solvers.names(); ps.solvers.get('newton'); "
    done = run(installed, tmp_path, code + "print([m for m in sys.modules if 'orbit' in m])")
    assert done.stdout.strip() == "[]", done.stderr


def test_the_environment_forbids_them(installed, tmp_path, monkeypatch):
    monkeypatch.setenv("POSABLE_PLUGINS", "never")
    done = run(installed, tmp_path, "import posable as ps; print('random-search' in ps.solvers.names(), dir(ps.goals))")
    assert done.stdout.startswith("False"), done.stderr
    assert "Orbit" not in done.stdout


class Distribution:
    name = "their-package"


def points(**homes):
    return [EntryPoint(name, home, "posable.animals")._for(Distribution()) for name, home in homes.items()]


@pytest.fixture
def animals(monkeypatch):
    def make(**homes):
        monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points(**homes))
        return Registry("animal", "posable.animals")

    return make


def test_a_broken_package_is_one_error_or_one_warning(animals):
    known = animals(dog="no_such_module_at_all:Dog", cat="pathlib:Path.home")
    assert known.names() == ("dog", "cat")
    with pytest.raises(PosableError, match="'dog' of the package 'their-package' cannot be imported: ModuleNotFound"):
        known.get("dog")
    assert known.get("cat") == Path.home
    with pytest.warns(PosableWarning, match="their-package"):
        assert [name for name, _ in known.available()] == ["cat"]
    assert [name for name, _ in known.available()] == ["cat"]


def test_a_plugin_cannot_replace_a_built_in_name(animals):
    known = animals(dog="pathlib:Path", cat="pathlib:Path")
    known.register("dog")(ours := object())
    with pytest.warns(PosableWarning, match="adds the animal 'dog', which already exists"):
        assert known.names() == ("cat", "dog")
    assert known.get("dog") is ours


def test_a_broken_format_does_not_keep_files_from_being_read(tmp_path, monkeypatch):
    from posable.formats.base import FORMATS

    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points(broken="no_such_module_at_all:F"))
    for name in ("_homes", "_entries", "_packages"):
        monkeypatch.setattr(FORMATS, name, dict(getattr(FORMATS, name)))
    monkeypatch.setattr(FORMATS, "_discovered", False)
    with pytest.warns(PosableWarning, match="no_such_module_at_all"):
        ps.save(tmp_path / "a.npz", ps.figures.limb())
    assert ps.load(tmp_path / "a.npz").skeleton.name == "limb"


def test_registries_without_a_group_look_nowhere(monkeypatch):
    def entry_points(group):
        raise AssertionError

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    assert Registry("animal").names() == ()
    assert registry.Registry("animal").group is None


def test_a_plugin_cannot_replace_a_built_in_goal(monkeypatch):
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points(Position="their.package:Position"))
    goals = Registry("goal", "posable.animals", taken="posable.goals")
    with pytest.warns(ps.PosableWarning, match="their-package.*'Position', which already exists"):
        assert "Position" not in goals
