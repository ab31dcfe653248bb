"""The recipes of CONTRIBUTING.md for a goal, solver, joint type, format, verb and panel, without any other change."""

import sys
from dataclasses import dataclass

import numpy as np
import pytest

import posable as ps
import posable.cli
from posable.cli import main
from posable.engine.bounds import STATIONARY
from posable.engine.joints import SLIDE, TURN
from posable.formats.base import FORMATS, Format
from posable.formats.scene import Scene
from posable.model.joints import Dof, JointMotion
from posable.solvers.base import SOLVERS, RawResult, Solver


class Above(ps.goals.Position):
    """A goal made of existing springs: a point a little above a place."""

    def __init__(self, body, place, *, height=0.1, **options):
        self.height = height
        super().__init__(body, np.add(place, (0.0, 0.0, height)), **options)

    def arguments(self):
        return {"body": self.body, "place": self.target - (0.0, 0.0, self.height), "height": self.height}


def test_a_goal(monkeypatch):
    monkeypatch.setattr(ps.goals, "Above", Above, raising=False)  # its name in goals/__init__.py
    goal = Above("hand", (0.4, 0.1, 0.3), height=0.2, weight=(1.0, 2.0, 3.0))
    again = ps.goals.from_table(ps.goals.to_table(goal))
    assert type(again) is Above
    np.testing.assert_allclose(again.target, goal.target)
    np.testing.assert_array_equal(again.weight, goal.weight)
    result = ps.solve(ps.figures.panda(), Above("hand", (0.4, 0.1, 0.3)))
    assert result.ok
    place = ps.forward(ps.figures.panda(), result.pose).position("hand")
    np.testing.assert_allclose(place, (0.4, 0.1, 0.4), atol=1e-4)


@dataclass(frozen=True)
class Stay(Solver):
    """A solver that stays where it starts."""

    name = "stay"

    def run(self, problem, options):
        poses = options.starts.copy()
        errors = np.array([problem.evaluate(pose, member=k)[3] for k, pose in enumerate(poses)])
        return RawResult(poses, np.full(len(poses), STATIONARY), errors, np.zeros(len(poses)), np.ones(len(poses)))


def test_a_solver(monkeypatch):
    monkeypatch.setattr(SOLVERS, "_entries", dict(SOLVERS._entries))  # known in this test alone
    SOLVERS.register("stay")(Stay)
    arm = ps.figures.planar_arm([1.0, 1.0])
    result = ps.solve(arm, ps.goals.Position("tip", (0.5, 0.5, 0.0)), solver="stay")
    np.testing.assert_array_equal(result.pose, arm.rest)
    assert not result.ok


@dataclass(frozen=True)
class Cylindrical(JointMotion):
    """A joint type made of a slide and a turn about one axis."""

    turns = True

    @property
    def dofs(self):
        return (Dof(SLIDE, 2, 1.0, "slide"), Dof(TURN, 2, 1.0, "turn"))


def test_a_joint_type():
    figure = ps.Skeleton([ps.Joint("screw", Cylindrical())], [ps.Site("tip", "screw", (0.3, 0.0, 0.0))])
    assert figure.dof_names == ("screw.slide", "screw.turn")
    target = (0.3 * np.cos(1.0), 0.3 * np.sin(1.0), 0.2)
    result = ps.solve(figure, ps.goals.Position("tip", target))
    assert result.ok
    np.testing.assert_allclose(result.pose, (0.2, 1.0), atol=1e-3)
    assert ps.Problem(figure, ps.goals.Position("tip", (0.1, 0.2, 0.3))).check_derivatives(np.array([0.1, 0.4])).ok


def test_a_format(tmp_path, monkeypatch):
    def write(scene, suffix, options):
        return {suffix: scene.skeleton.name.encode()}

    def read(source, options):
        return Scene(skeleton=ps.figures.get(source.data.decode()))

    toy = Format("toy", (".toy",), "a figure by name", "none", None, read, write)
    with monkeypatch.context() as patched:
        patched.setattr(FORMATS, "_entries", dict(FORMATS._entries))
        FORMATS.register("toy")(toy)
        ps.save(tmp_path / "a.toy", ps.figures.panda())
        assert ps.load(tmp_path / "a.toy").skeleton.name == "panda"
    with pytest.raises(ps.PosableError):
        ps.load(tmp_path / "a.toy")


VERB = '''
"""`posable joints FIGURE`: the number of joints of a figure."""

import posable as ps

EXAMPLE = "posable joints panda"


def add(parser):
    parser.add_argument("figure")


def run(args):
    print(len(ps.figures.get(args.figure).joints))
    return 0
'''


def test_a_verb(tmp_path, monkeypatch, capsys):
    (tmp_path / "joints.py").write_text(VERB)  # its file in cli/
    monkeypatch.setattr(posable.cli, "__path__", [*posable.cli.__path__, str(tmp_path)])
    monkeypatch.setattr(main, "VERBS", (*main.VERBS, "joints"))  # its name in VERBS
    assert main.main(["joints", "panda"]) == 0
    assert capsys.readouterr().out == f"{len(ps.figures.panda().joints)}\n"
    with pytest.raises(SystemExit):
        main.main(["--help"])
    assert "posable joints panda" in capsys.readouterr().out
    sys.modules.pop("posable.cli.joints")


def test_a_panel(monkeypatch):
    pytest.importorskip("viser")
    from posable.studio import server
    from posable.studio.session import Session

    shown = []

    def height(gui, session, studio):
        """A panel that shows how high the head is."""
        text = gui.add_markdown("")

        def refresh(view):
            text.content = f"{view.frames.position('head')[1]:.2f} m"
            shown.append(text.content)

        return refresh

    monkeypatch.setattr(server, "PANELS", {**server.PANELS, "Height": (height,)})  # its line
    session = Session()
    monkeypatch.setattr(session, "start_worker", lambda: None)
    studio = server.Studio(session, port=8951)
    try:
        studio.refresh_panels()
        assert shown[-1] == f"{session.frames.position('head')[1]:.2f} m"
    finally:
        studio.close()
        session.close()
