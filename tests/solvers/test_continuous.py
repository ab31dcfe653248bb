"""Sessions that stay on their branch."""

import numpy as np
import pytest

import posable as ps
from posable.errors import SolverError


def hinge(limits=(-3.2, 3.2)):
    return ps.Skeleton([ps.Joint("hinge", ps.Revolute("z"), limits=limits)], [ps.Site("tip", "hinge", (1.0, 0.0, 0.0))])


def at(angle):
    return np.array([np.cos(angle), np.sin(angle), 0.0])


def test_a_session_stops_at_a_limit_instead_of_turning_around():
    session = ps.Session(hinge(), ps.goals.Position("tip", at(3.0)), start=[3.0], continuous=True)
    poses = []
    for angle in np.linspace(3.0, 3.4, 41):
        session.move("tip", at(angle))
        poses.append(session.solve().pose[0])
    assert np.abs(np.diff(poses)).max() < 0.02
    assert poses[-1] == pytest.approx(3.2)


def test_max_step_is_kept_and_reported():
    session = ps.Session(hinge(), ps.goals.Position("tip", at(0.0)), continuous=True, max_step=0.1)
    session.move("tip", at(0.35))
    poses = []
    for _ in range(5):
        result = session.solve()
        poses.append(result.pose[0])
        if len(poses) == 1:
            assert not result.ok
            assert result.status == "OUT_OF_ITERATIONS"
            assert "max_step holds back hinge" in str(result)
    assert poses == pytest.approx([0.1, 0.2, 0.3, 0.35, 0.35], abs=1e-9)
    assert result.ok


def test_answers_are_continuous_in_the_target():
    skeleton = ps.figures.panda()
    start = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])
    place = ps.forward(skeleton, start).matrix("tcp")

    def accelerations(**options):
        session = ps.Session(skeleton, ps.goals.Pose("tcp", place), start=start, **options)
        poses = []
        for k in range(200):  # 39 mm/s at 1 kHz
            there = place.copy()
            there[1, 3] += 3.9e-5 * k
            session.move("tcp", there)
            poses.append(session.solve().pose)
        return np.abs(np.diff(poses, n=2, axis=0)).max() * 1e6

    assert accelerations(continuous=True) < 0.5
    assert accelerations() > 10.0  # a solve that stops inside its tolerance moves in stairs


def test_priorities_and_choices_are_served():
    skeleton = ps.figures.planar_arm([1.0, 1.0, 1.0])
    goals = [
        ps.goals.Position("tip", (1.5, 1.0, 0.0)),
        ps.goals.Direction("tip", axis="x", along=(0.0, 1.0, 0.0), priority=1, label="up"),
    ]
    session = ps.Session(skeleton, goals, start=[0.3, 0.3, 0.3], continuous=True)
    result = session.solve()
    assert result.errors["tip"] < 1e-6
    assert result.ok


def test_contradicting_options_are_refused():
    goal = ps.goals.Position("tip", at(0.0))
    with pytest.raises(SolverError, match="no restarts"):
        ps.Session(hinge(), goal, continuous=True, restarts=3)
    with pytest.raises(SolverError, match="no restarts"):
        ps.Session(hinge(), goal, continuous=True, solver="dls")
    with pytest.raises(SolverError, match="max_step"):
        ps.Session(hinge(), goal, max_step=0.1)
    with pytest.raises(SolverError, match="positive"):
        ps.Session(hinge(), goal, continuous=True, max_step=0.0)
