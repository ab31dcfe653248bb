"""What is drawn beside the figure: ranges as the limits are, misses as far as they are, colours where they belong."""

import numpy as np
import pytest

import posable as ps

pytest.importorskip("viser", reason="no viser: pip install 'posable[studio]'")
from posable.studio.overlays import (
    AMBER,
    POINTS,
    RED,
    bone_of,
    limb_colors,
    misses_of,
    range_lines,
    range_of,
    ranges_of,
    twist_of,
)
from posable.studio.session import Session

from .test_session import come_to_rest

SIZE = 1.5  # [m]


@pytest.fixture(scope="module")
def human():
    return ps.figures.human()


def angle(a, b):
    return float(np.arccos(np.clip(a @ b / np.linalg.norm(a) / np.linalg.norm(b), -1.0, 1.0)))


def test_the_arc_of_an_elbow_spans_its_limits(human):
    sweep = range_of(human, "elbow.R", human.dof("elbow.R"), human.rest)
    assert sweep is not None
    assert sweep.kind == "arc"
    assert angle(sweep.rim[0], sweep.rim[-1]) == pytest.approx(np.radians(150.0))
    assert np.linalg.norm(sweep.rim, axis=1) == pytest.approx(np.ones(POINTS))


def test_the_cone_of_a_ball_joint_is_where_its_bone_points_at_the_limits(human):
    where = human.index("shoulder.R")
    twist = twist_of(human, "shoulder.R")
    assert human.dof_names[where.start + twist] == "shoulder.R.y"  # about the upper arm
    pose = human.pose({"shoulder.R": np.radians([-160.0, 10.0, 20.0])})
    sweep = range_of(human, "shoulder.R", where.start, pose)
    assert sweep.kind == "cone"
    lower, upper = human.lower[where], human.upper[where]
    for k, edge in enumerate(([lower[0], lower[1]], [upper[0], lower[1]], [upper[0], upper[1]], [lower[0], upper[1]])):
        frames = ps.forward(human, human.pose({"shoulder.R": (*edge, np.radians(20.0))}))
        bone = frames.rotation_matrix("clavicle.R").T @ (frames.position("elbow.R") - frames.position("shoulder.R"))
        assert sweep.rim[k * POINTS // 4] == pytest.approx(bone / np.linalg.norm(bone), abs=1e-9)


def test_no_swing_within_the_limits_leaves_the_cone(human):
    sweep = range_of(human, "hip.L", human.dof("hip.L.x"), human.rest)
    where, rng = human.index("hip.L"), np.random.default_rng(0)
    rim = sweep.rim
    middle = rim.mean(axis=0) / np.linalg.norm(rim.mean(axis=0))
    u = np.cross(middle, [0.0, 0.0, 1.0])
    u /= np.linalg.norm(u)
    v = np.cross(middle, u)
    around = np.arctan2(rim @ v, rim @ u)
    order = np.argsort(around)
    widest = np.arccos(rim @ middle)[order]
    for values in rng.uniform(human.lower[where], human.upper[where], size=(50, 3)):
        frames = ps.forward(human, human.pose({"hip.L": values}))
        bone = frames.rotation_matrix("root").T @ frames.rotation_matrix("hip.L") @ np.array(bone_of(human, "hip.L"))
        bone /= np.linalg.norm(bone)
        allowed = np.interp(np.arctan2(bone @ v, bone @ u), around[order], widest, period=2 * np.pi)
        assert np.arccos(bone @ middle) < allowed + 0.08  # [rad]: between points of the rim it is drawn straight


def test_a_twist_is_an_arc_about_the_bone(human):
    sweep = range_of(human, "wrist.L", human.dof("wrist.L.y"), human.rest)
    assert sweep.kind == "twist"
    assert abs(sweep.needle @ np.array(bone_of(human, "wrist.L"))) < 1e-9


def test_what_has_no_limits_has_no_range():
    arm = ps.Skeleton([ps.Joint("a", ps.Ball("zyx")), ps.Joint("b", ps.Revolute("x"), "a", offset=(0, 0, 1))])
    assert range_of(arm, "a", 0, arm.rest) is None


def test_the_needle_points_along_the_bone_and_rims_are_lines(human):
    session = Session(human)
    session.set_pose(human.pose({"elbow.L": np.radians(150.0), "shoulder.L": np.radians([160.0, 0.0, 0.0])}))
    ranges = {(one.joint, one.kind): one for one in ranges_of(session.view(), SIZE)}
    assert set(ranges) == {("elbow.L", "arc"), ("shoulder.L", "cone")}
    for joint, child in (("elbow.L", "wrist.L"), ("shoulder.L", "elbow.L")):
        one = next(r for r in ranges.values() if r.joint == joint)
        assert angle(one.tip - one.centre, session.frames.position(child) - one.centre) < 1e-6
        nearest = np.linalg.norm(one.rim - one.tip, axis=1).min()
        assert nearest < 0.12 * np.linalg.norm(one.tip - one.centre)  # at a limit it stands at the rim
    points, colors = range_lines(list(ranges.values()))
    assert points.shape == colors.shape
    assert np.isfinite(points).all()
    assert limb_colors(session.view(), SIZE) == {"elbow.L": AMBER, "shoulder.L": AMBER}
    session.close()


def test_a_miss_is_reported_with_its_distance_and_blocking_limits_are_red(human):
    session = Session(human)
    session.set_handle("pelvis", "pinned")
    target = session.frames.position("hand.R") + np.array([-1.0, 0.6, 0.3])
    session.drag("hand.R", target)
    session.step()
    miss = next(m for m in misses_of(session.view()) if m.body == "hand.R")
    away = np.linalg.norm(session.frames.position("hand.R") - target)
    assert miss.text == f"{away * 100:.1f} cm"
    come_to_rest(session)
    assert RED in limb_colors(session.view(), SIZE).values()
    session.close()


def test_a_turn_that_is_missed_is_reported_in_degrees(human):
    session = Session(human)
    session.set_handle("pelvis", "pinned", "both")
    session.set_handle("head", "pinned", "orientation")
    turn = session.frames.rotation_matrix("head") @ np.diag([-1.0, -1.0, 1.0])  # upside down
    session.drag("head", rotation=turn)
    session.step()
    miss = next(m for m in misses_of(session.view()) if m.body == "head")
    missed = angle_of(session.frames.rotation_matrix("head").T @ turn)
    assert miss.text == f"{np.degrees(missed):.1f}°"
    session.close()


def angle_of(turn):
    return float(np.arccos(np.clip(0.5 * (np.trace(turn) - 1.0), -1.0, 1.0)))


def test_limits_that_a_figure_meets_at_rest_are_not_coloured():
    """The knees of a robot that stands straight are at a limit: nothing to warn of, until it blocks or is reached."""
    from posable.studio.overlays import limb_colors, ranges_of
    from posable.studio.session import Session

    robot = ps.Skeleton(
        [
            ps.Joint("base", ps.Fixed()), ps.Joint("knee", ps.Revolute("y"), "base", limits=(0.0, 2.0)),
            ps.Joint("shin", ps.Fixed(), "knee", offset=(0.0, 0.0, 0.5)),
        ],
        [ps.Site("foot", "shin", (0.0, 0.0, 0.5))], up="z",
    )  # fmt: skip
    session = Session(robot)
    assert [met.joint for met in session.view().limits] == ["knee"]
    assert not limb_colors(session.view(), 1.0)
    assert not ranges_of(session.view(), 1.0)
    session.set_dof("knee", 2.0)
    assert list(limb_colors(session.view(), 1.0)) == ["knee"]
    session.close()
