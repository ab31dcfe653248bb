"""The controller: limits that hold whatever is asked, calm where it is hard, exact where it is easy."""

import importlib
import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import posable as ps
from posable.engine import boxed_newton, speed_limits
from posable.engine.control import views
from posable.engine.jit import plain
from posable.errors import GoalError, SolverError, UnknownName


def hinge(limits=(-3.0, 3.0)):
    return ps.Skeleton([ps.Joint("hinge", ps.Revolute("z"), limits=limits)], [ps.Site("tip", "hinge", (1.0, 0.0, 0.0))])


def two_link():
    joints = [
        ps.Joint("shoulder", ps.Revolute("z"), limits=(-3.0, 3.0)),
        ps.Joint("elbow", ps.Revolute("z"), "shoulder", offset=(0.5, 0.0, 0.0), limits=(-2.8, 2.8)),
    ]
    return ps.Skeleton(joints, [ps.Site("tip", "elbow", (0.4, 0.0, 0.0))])


def scara():
    joints = [
        ps.Joint("one", ps.Revolute("z"), limits=(-2.9, 2.9)),
        ps.Joint("two", ps.Revolute("z"), "one", offset=(0.4, 0.0, 0.0), limits=(-2.5, 2.5)),
        ps.Joint("lift", ps.Prismatic("z"), "two", offset=(0.3, 0.0, 0.0), limits=(-0.2, 0.0)),
        ps.Joint("turn", ps.Revolute("z"), "lift", limits=(-6.3, 6.3)),
    ]
    return ps.Skeleton(joints, [ps.Site("tool", "turn")])


def on_circle(angle):
    return np.array([math.cos(angle), math.sin(angle), 0.0])


def rates(poses, dt):
    """Return velocities and accelerations of poses (T, n) that begin at rest, by differences."""
    poses = np.vstack([poses[0], poses[0], poses])
    velocity = np.diff(poses, axis=0) / dt
    return velocity, np.diff(velocity, axis=0) / dt


# ------------------------------------------------------------------------------------------------- one joint, by hand


@given(st.floats(-5.0, 5.0), st.floats(1.0, 100.0), st.floats(1e-3, 0.1))
def test_travel_is_the_sum_of_a_braking_figure_and_has_an_inverse(v, accel, dt):
    distance, speed = 0.0, abs(v)
    while speed > 0.0:
        distance += speed * dt
        speed -= accel * dt
    found = plain(speed_limits.travel)(v, accel, dt)
    assert found == pytest.approx(math.copysign(distance, v), rel=1e-9, abs=1e-12)
    assert plain(speed_limits.stopping_speed)(found, accel, dt) == pytest.approx(v, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("dt", [0.01, 0.001])
def test_a_jump_is_reached_in_the_least_time_without_overshoot(dt):
    speed, accel, way = 1.0, 4.0, 1.5
    controller = ps.Controller(
        hinge(), ps.goals.Position("tip", on_circle(0.0)), dt=dt, velocity=speed, acceleration=accel
    )
    least = way / speed + speed / accel  # a trapezoid of speed
    poses = [0.0]
    for _ in range(round(2.0 * least / dt)):
        poses.append(float(controller.step({"tip": on_circle(way)}).pose[0]))
    poses = np.array(poses)
    assert poses.max() <= way + 1e-9
    arrived = np.argmax(np.abs(poses - way) < 1e-6) * dt
    assert least - 2 * dt <= arrived <= 1.15 * least + 3 * dt
    assert np.abs(poses[-10:] - way).max() < 1e-9


def test_a_target_beyond_the_limit_is_stopped_at_the_limit():
    dt = 0.01
    controller = ps.Controller(
        hinge((-1.0, 1.0)), ps.goals.Position("tip", on_circle(0.0)), dt=dt, velocity=2.0, acceleration=5.0
    )
    poses = np.array([[0.0], *(controller.step({"tip": on_circle(1.8)}).pose for _ in range(200))])
    velocity, acceleration = rates(poses, dt)
    assert poses.max() <= 1.0
    assert poses[-1, 0] == pytest.approx(1.0, abs=1e-9)
    assert np.abs(velocity).max() <= 2.0 + 1e-9
    assert np.abs(acceleration).max() <= 5.0 + 1e-9
    (limited,) = controller.step().limited
    assert limited.goal == "tip"
    assert limited.dofs == {"hinge": "joint limit"}


def test_limited_names_the_velocity_limit():
    controller = ps.Controller(
        hinge(), ps.goals.Position("tip", on_circle(0.0)), dt=0.01, velocity=0.5, acceleration=50.0
    )
    for _ in range(20):
        step = controller.step({"tip": on_circle(1.5)})
    assert not step.ok
    assert step.limited[0].dofs == {"hinge": "velocity limit"}
    assert "velocity limit" in str(step)
    for _ in range(400):
        step = controller.step()
    assert step.ok
    assert step.limited == ()
    assert str(step) == "follows every goal"


def test_a_start_that_is_too_fast_to_stop_is_slowed_down():
    controller = ps.Controller(
        hinge((-1.0, 1.0)), ps.goals.Position("tip", on_circle(0.9)), dt=0.01, velocity=9.0, acceleration=5.0
    )
    controller.reset([0.9], velocity=[9.0])
    poses = [controller.step().pose[0] for _ in range(100)]
    assert max(poses) <= 1.0
    assert poses[-1] == pytest.approx(0.9, abs=1e-6)


# ----------------------------------------------------------------------------------------------- where it is easy


@pytest.mark.parametrize("dt", [0.01, 0.001])
def test_a_smooth_target_is_followed_exactly_and_without_stairs(dt):
    skeleton = two_link()
    start = np.array([0.4, 1.0])

    def truth(t):
        return start + 0.3 * np.array([math.sin(t) - t * math.exp(-t), 1.0 - math.cos(1.3 * t)])

    site = lambda q: ps.forward(skeleton, q).position("tip")  # noqa: E731
    controller = ps.Controller(
        skeleton, ps.goals.Position("tip", site(start)), dt=dt, velocity=3.0, acceleration=30.0, start=start
    )
    times = dt * np.arange(1, round(2.0 / dt))
    wanted = np.array([truth(t) for t in times])
    found = np.array([controller.step({"tip": site(q)}).pose for q in wanted])
    late = slice(len(times) // 4, None)
    assert np.abs(found - wanted)[late].max() < 1e-7
    assert np.abs(np.diff(found - wanted, n=2, axis=0)[late]).max() / dt**2 < 0.05


def test_a_slow_target_moves_in_every_step():
    skeleton = ps.figures.panda()
    start = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])
    place = ps.forward(skeleton, start).matrix("tcp")
    controller = ps.Controller(skeleton, ps.goals.Pose("tcp", place), dt=0.01, start=start)
    poses = []
    for _ in range(200):  # 5 mm/s: half of the tolerance in a step
        place = place.copy()
        place[1, 3] += 5e-5
        poses.append(controller.step({"tcp": place}).pose)
    velocity, acceleration = rates(np.array(poses), 0.01)
    assert (np.abs(velocity[3:]).max(axis=1) > 1e-3).all()
    assert np.abs(acceleration[20:-1]).max() < 0.05


# ----------------------------------------------------------------------------------------------- where it is hard


def test_out_of_reach_and_back_keeps_moving_and_keeps_its_side():
    skeleton, dt = two_link(), 0.01
    start = np.array([-0.5, 1.2])
    origin = ps.forward(skeleton, start).position("tip")
    controller = ps.Controller(
        skeleton, ps.goals.Position("tip", origin), dt=dt, velocity=3.0, acceleration=20.0, start=start
    )
    poses, errors = [start], []
    for k in range(1, 900):
        target = origin * (1.0 + math.sin(math.pi * min(k / 800, 1.0)))
        step = controller.step({"tip": target})
        poses.append(step.pose)
        errors.append(step.errors["tip"])
    poses, errors = np.array(poses), np.array(errors)
    velocity, acceleration = rates(poses, dt)
    assert np.abs(velocity).max() <= 3.0 + 1e-9
    assert np.abs(acceleration).max() <= 20.0 + 1e-9
    assert errors[400] > 0.1  # it was out of reach
    assert poses[-20:, 1].min() > 0.1  # and bent its elbow to the same side
    assert errors[-20:].max() < 1e-6
    peak = 800 + np.argmax(poses[800:, 1])  # the target stops at once, the elbow cannot
    assert poses[peak, 1] < 1.25
    assert poses[peak:, 1].min() > 1.2 - 5e-3  # and does not ring


def test_a_target_out_of_reach_that_circles_is_followed_along_the_boundary():
    skeleton, dt = two_link(), 0.01
    controller = ps.Controller(skeleton, ps.goals.Position("tip", (1.2, 0.0, 0.0)), dt=dt, start=[0.0, 0.2])
    poses, gaps = [], []
    for k in range(400):
        target = 1.2 * on_circle(0.5 * math.sin(0.02 * k))
        step = controller.step({"tip": target})
        poses.append(step.pose)
        gaps.append(step.errors["tip"] - 0.3)
    velocity, acceleration = rates(np.array(poses), dt)
    turning = np.abs(0.5 * 2.0 * np.cos(0.02 * np.arange(400))) > 0.05
    assert (np.abs(velocity[1:]).max(axis=1)[turning][50:] > 1e-3).all()  # never frozen while the target moves
    assert max(gaps[100:]) < 1e-4  # as near as the arm is long
    assert np.abs(acceleration[100:]).max() < 5.0


def test_a_straight_arm_bends_back_to_the_side_it_came_from():
    for side in (1.0, -1.0):
        skeleton = two_link()
        controller = ps.Controller(
            skeleton, ps.goals.Position("tip", (2.0, 0.0, 0.0)), dt=0.01, velocity=3.0, acceleration=20.0,
            start=[-0.3 * side, 0.6 * side],
        )  # fmt: skip
        for _ in range(300):
            controller.step()
        assert abs(controller.pose[1]) < 1e-6
        for _ in range(300):
            step = controller.step({"tip": np.array([0.7, 0.0, 0.0])})
        assert step.ok
        assert side * step.pose[1] > 0.5


def test_a_wrist_singularity_is_passed_with_a_small_error():
    joints = [
        ps.Joint("a", ps.Revolute("z"), limits=(-3, 3)),
        ps.Joint("b", ps.Revolute("y"), "a", limits=(-3, 3)),
        ps.Joint("c", ps.Revolute("z"), "b", limits=(-3, 3)),
    ]
    skeleton = ps.Skeleton(joints, [ps.Site("tool", "c", (0.0, 0.0, 0.2))])
    from scipy.spatial.transform import Rotation

    dt, off = 0.01, 0.02
    start = np.array([0.0, 0.6, 0.0])
    controller = ps.Controller(
        skeleton, ps.goals.Orientation("tool", Rotation.from_euler("y", 0.6)), dt=dt, velocity=3.0, acceleration=30.0,
        start=start,
    )  # fmt: skip
    errors, poses = [], []
    for k in range(400):
        s = min(k / 300, 1.0)
        s = s * s * (3.0 - 2.0 * s)
        turn = Rotation.from_rotvec([off * math.sin(math.pi * s), 0.0, 0.0]) * Rotation.from_euler("y", 0.6 - 1.2 * s)
        step = controller.step({"tool": turn})
        errors.append(step.errors["tool"])
        poses.append(step.pose)
    velocity, acceleration = rates(np.array(poses), dt)
    assert np.abs(velocity).max() <= 3.0 + 1e-9
    assert np.abs(acceleration).max() <= 30.0 + 1e-9
    assert max(errors) < 2.0 * off  # turning the first axis around in time would need 50 rad/s
    assert errors[-1] < 1e-6


@pytest.mark.parametrize("acceleration", [15.0, np.inf])
@pytest.mark.parametrize(
    ("start", "way"),
    [
        ((0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8), (0.8, 0.24, 0.0)),
        ((0.0, 0.0, 0.0, -1.2, 0.0, 1.7, 0.8), (0.6, 0.0, 0.0)),
    ],
)
def test_an_arm_of_seven_axes_comes_back_on_the_side_it_left(start, way, acceleration):
    panda, dt, start = ps.figures.panda(), 0.01, np.array(start)
    place = ps.forward(panda, start).matrix("tcp")
    goal = ps.goals.Pose("tcp", place, weight=(1.0, 1.0))
    controller = ps.Controller(panda, goal, dt=dt, velocity=2.0, acceleration=acceleration, start=start)
    poses, errors = [start], []
    for k in range(900):
        target = place.copy()
        target[:3, 3] += math.sin(math.pi * min(k / 400, 1.0)) * np.array(way)
        step = controller.step({"tcp": target})
        poses.append(step.pose)
        errors.append(step.errors["tcp"])
    velocity = rates(np.array(poses), dt)[0]
    assert max(errors) > 0.3  # it was out of reach
    assert (np.abs(velocity[3:400]).max(axis=1) > 1e-4).all()  # and never frozen while the target moved
    assert errors[-1] < 1e-6
    assert poses[-1][3] == pytest.approx(start[3], abs=0.05)  # the elbow is bent as before


@pytest.mark.parametrize("acceleration", [15.0, np.inf])
def test_an_arm_that_was_led_out_of_reach_comes_back_to_its_target(acceleration):
    panda, rng = ps.figures.panda(), np.random.default_rng(1)
    for _ in range(25):
        start = np.array([0.0, -0.2, 0.0, -1.7, 0.0, 1.6, 0.8]) + rng.uniform(-0.5, 0.5, 7)
        place = ps.forward(panda, start).matrix("tcp")
        way = place[:3, 3] * (1.0, 1.0, 0.3) + rng.normal(0.0, 0.2, 3)
        way *= rng.uniform(0.4, 0.9) / np.linalg.norm(way)
        goal = ps.goals.Pose("tcp", place, weight=(1.0, 1.0))
        controller = ps.Controller(panda, goal, dt=0.01, velocity=2.0, acceleration=acceleration, start=start)
        for k in range(700):
            target = place.copy()
            target[:3, 3] += math.sin(math.pi * min(k / 400, 1.0)) * way
            step = controller.step({"tcp": target})
        assert step.ok, (start, way, str(step))


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ((0.3, -0.58, 1.43, 0.96, 1.01, -0.22, -1.55), (0.96, -0.08, 2.48, 0.55, 0.68, -0.11, -1.3)),
        ((-0.51, -0.76, 0.29, 0.31, -0.07, -0.6, 1.95), (-0.57, -0.74, -0.34, -0.03, 0.39, -1.08, 1.35)),
    ],
)
def test_a_target_at_rest_is_reached_past_a_singularity(data_dir, start, end):
    """The arm neither creeps along a nearly singular direction nor swings to and fro in front of it."""
    baxter = ps.load(data_dir / "urdf" / "erd_baxter.urdf").skeleton
    arm = [i for i, name in enumerate(baxter.dof_names) if name.startswith("right_")]
    first, last = baxter.rest.copy(), baxter.rest.copy()
    first[arm], last[arm] = start, end
    target = ps.forward(baxter, last).matrix("right_w2")
    controller = ps.Controller(baxter, ps.goals.Pose("right_w2", target), dt=0.01, start=first)
    steps = [controller.step() for _ in range(600)]
    assert max(steps[-1].errors.values()) < 1e-9
    assert max(np.abs(step.velocity).max() for step in steps[-50:]) < 1e-6


@pytest.mark.parametrize(("dt", "most"), [(0.01, 6.0), (0.002, 12.0)])
def test_joints_do_not_chatter_while_others_are_at_their_limits(dt, most, monkeypatch):
    """A joint that compensates for others in every tick reverses up to 25 and 140 times a second."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[1]))
    chatter = importlib.import_module("benchmarks.control_chatter")
    found = chatter.measure(("UR10e", "KR16", "Panda"), [11], dt)
    del found["tremor"]  # shakes the joints by itself
    assert max(row[0] for row in found.values()) < most
    assert max(row[-2] for row in found.values()) < 1e-6  # [mm] at rest at the end


# ------------------------------------------------------------------------------------------------------ hostile


FIGURES = {
    "panda": lambda: (ps.figures.panda(), ["tcp"]),
    "scara": lambda: (scara(), ["tool"]),
    "spider": lambda: (ps.figures.spider(), None),
    "human": lambda: (ps.figures.human(), ["hand.L", "hand.R", "head"]),
}


@pytest.mark.parametrize(("jerk", "levels"), [(None, 1), (300.0, 1), (None, 3)])
@pytest.mark.parametrize("name", FIGURES)
def test_hostile_targets_break_no_limit(name, jerk, levels):
    skeleton, sites = FIGURES[name]()
    sites = sites or list(skeleton.site_names[:3])
    frames = ps.forward(skeleton, skeleton.rest)
    rng = np.random.default_rng(7)
    speed, accel = rng.uniform(0.5, 3.0, skeleton.size), rng.uniform(2.0, 30.0, skeleton.size)
    dt = 0.005
    controller = ps.Controller(
        skeleton,
        [ps.goals.Position(site, frames.position(site), priority=k % levels) for k, site in enumerate(sites)],
        dt=dt, velocity=speed, acceleration=accel, jerk=jerk,
    )  # fmt: skip
    poses = [controller.pose]
    for k in range(400):
        site = sites[k % len(sites)]
        target = frames.position(site) + rng.normal(size=3) * (0.05, 0.5, 30.0)[k % 3]
        if k % 7 == 3:
            target[k % 3] = (np.nan, np.inf, -np.inf, 1e300)[k % 4]
        if k % 31 == 5:
            controller.enable(site, on=k % 62 == 5)
        poses.append(controller.step({site: target} if k % 2 else None).pose)
    poses = np.array(poses)
    assert np.isfinite(poses).all()
    velocity, acceleration = rates(poses, dt)
    assert (poses >= skeleton.lower - 1e-9).all()
    assert (poses <= skeleton.upper + 1e-9).all()
    assert (np.abs(velocity) <= speed + 1e-9).all()
    assert (np.abs(acceleration) <= accel + 1e-9).all()
    assert np.abs(velocity).max() > 0.1
    if jerk is not None:
        assert np.abs(np.diff(acceleration, axis=0)).max() / dt <= jerk + 1e-6


@pytest.mark.parametrize("dt", [0.01, 0.001])
@pytest.mark.parametrize("levels", [1, 2])
def test_a_jump_is_reached_without_ringing_under_a_jerk_limit(dt, levels):
    panda = ps.figures.panda()
    start = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])
    target = ps.forward(panda, start).matrix("tcp")
    goals = [ps.goals.Pose("tcp", target, label="hand"), ps.goals.Posture(start, weight=1e-4, priority=levels - 1)]
    controller = ps.Controller(panda, goals, dt=dt, velocity=2.0, acceleration=15.0, jerk=300.0, start=start)
    target[:3, 3] += (-0.1, 0.35, 0.1)
    steps = [controller.step({"hand": target}) for _ in range(int(2.5 / dt))]
    error = np.array([step.errors["hand"] for step in steps])
    speed = np.array([np.abs(step.velocity).max() for step in steps])
    settled = steps[-1].errors["hand"]
    assert settled < 1e-3
    assert speed[-1] < 1e-4
    assert np.abs(error[int(1.5 / dt) :] - settled).max() < 1e-3
    assert speed[int(2.0 / dt) :].max() < 0.05


@pytest.mark.parametrize("dt", [0.01, 0.001])
def test_a_slow_target_is_followed_without_lag_under_a_jerk_limit(dt):
    panda = ps.figures.panda()
    start = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])
    place = ps.forward(panda, start).matrix("tcp")
    controller = ps.Controller(panda, ps.goals.Pose("tcp", place), dt=dt, acceleration=15.0, jerk=300.0, start=start)
    errors = []
    for _ in range(int(2.0 / dt)):
        place[1, 3] += 0.005 * dt
        errors.append(controller.step({"tcp": place}).errors["tcp"])
    assert max(errors) < 1e-4
    assert max(errors[len(errors) // 2 :]) < 1e-7


def test_a_target_that_is_not_finite_keeps_the_last_one():
    controller = ps.Controller(hinge(), ps.goals.Position("tip", on_circle(0.5)), dt=0.01)
    for _ in range(200):
        step = controller.step({"tip": np.array([np.nan, 0.0, 0.0])})
    assert step.pose[0] == pytest.approx(0.5, abs=1e-9)
    assert not step.ok
    assert step.limited[0].held
    assert "not finite" in str(step)
    assert controller.step({"tip": on_circle(0.5)}).ok


def test_a_target_that_is_not_a_rotation_is_refused_and_moves_nothing():
    skeleton = ps.figures.panda()
    frames = ps.forward(skeleton, skeleton.rest)
    place = frames.matrix("tcp")
    goals = [ps.goals.Pose("tcp", place), ps.goals.Position("panda_joint4", frames.position("panda_joint4"))]
    controller = ps.Controller(skeleton, goals, dt=0.01)
    bent = place.copy()
    bent[0, 0] += 0.1
    with pytest.raises(GoalError, match="rotation"):
        controller.step({"panda_joint4": np.array([0.0, 1.0, 0.0]), "tcp": bent})
    assert (controller.pose == skeleton.rest).all()
    assert controller.step().ok  # neither of the two targets counts
    turned = place.copy()
    turned[:3, :3] = np.nan
    step = controller.step({"tcp": turned})
    assert step.limited[0].held
    assert controller.step({"tcp": place}).ok


def test_steps_of_a_loop_do_not_take_more_memory():
    import tracemalloc

    controller = ps.Controller(ps.figures.panda(), ps.goals.Position("tcp", (0.4, 0.1, 0.5)), dt=0.001)

    def run(count):
        for k in range(count):
            controller.step({"tcp": np.array([0.4, 0.1 * math.sin(0.01 * k), 0.5])})

    tracemalloc.start()
    try:
        run(300)
        before = tracemalloc.get_traced_memory()[0]
        run(2000)
        assert tracemalloc.get_traced_memory()[0] - before < 2000  # less than a byte a step
    finally:
        tracemalloc.stop()


# ------------------------------------------------------------------------------------------------------ every goal


def test_a_stricter_priority_does_not_pay_for_a_later_one():
    skeleton = two_link()
    first, later = np.array([0.6, 0.3, 0.0]), np.array([0.3, 0.45, 0.0])
    goals = [ps.goals.Position("tip", first), ps.goals.Position("elbow", later, priority=1, label="elbow")]
    controller = ps.Controller(skeleton, goals, dt=0.01, start=[0.5, 0.8])
    for _ in range(300):
        step = controller.step()
    assert step.errors["tip"] < 1e-6
    assert step.errors["elbow"] > 0.1


def test_a_later_priority_settles_at_the_pace_of_the_limits():
    panda = ps.figures.panda()
    start = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])
    frames = ps.forward(panda, start)
    elbow = frames.position("panda_joint4") + np.array([0.0, 0.3, -0.1])
    goals = [
        ps.goals.Pose("tcp", frames.matrix("tcp")),
        ps.goals.Position("panda_joint4", elbow, priority=1, label="elbow"),
    ]
    controller = ps.Controller(panda, goals, dt=0.01, start=start, velocity=2.0, acceleration=15.0)
    steps = [controller.step() for _ in range(200)]
    least = ps.solve(panda, goals, start=start).errors["elbow"]
    assert least < 0.15 < steps[0].errors["elbow"] - 0.1
    assert steps[150].errors["elbow"] == pytest.approx(least, abs=1e-4)  # 1.5 s for more than a radian
    assert max(step.errors["tcp"] for step in steps) < 5e-3
    assert steps[-1].errors["tcp"] < 1e-6


@pytest.mark.files("humanoid/humanoid.xml", "mjcf/unitree_g1/g1.xml")
@pytest.mark.parametrize("dt", [0.01, 0.002])
def test_strict_priorities_settle_after_a_jump_out_of_reach(path, dt):
    """A robot whose hands are led far out of reach and back stands on its feet and comes to rest."""
    g1 = ps.load(path).skeleton
    feet, hands = ("left_ankle_roll_joint", "right_ankle_roll_joint"), ("left_wrist_yaw_joint", "right_wrist_yaw_joint")
    places, rng = ps.forward(g1, g1.rest), np.random.default_rng(1)
    goals = [*(ps.goals.Pose(foot, places.matrix(foot)) for foot in feet)]
    goals += [*(ps.goals.Pose(hand, places.matrix(hand), priority=1) for hand in hands), ps.goals.Posture(priority=2)]
    controller = ps.Controller(g1, goals, dt=dt)
    back = {hand: places.matrix(hand) for hand in hands}
    away = {hand: place.copy() for hand, place in back.items()}
    for place in away.values():
        place[:3, 3] += rng.normal(0.0, 0.35, 3)
    steps = [controller.step(targets) for targets in (away, back) for _ in range(round(2.0 / dt))]
    assert max(step.errors[foot] for step in steps for foot in feet) < 5e-3
    assert max(np.abs(step.velocity).max() for step in steps[-round(0.2 / dt) :]) < 1e-6
    assert max(steps[-1].errors[hand] for hand in hands) < 1e-9


def test_three_priorities_of_a_whole_body():
    human = ps.figures.human()
    frames = ps.forward(human, human.rest)
    feet = [ps.goals.Pose(foot, frames.matrix(foot)) for foot in ("foot.L", "foot.R")]
    reach = frames.position("hand.R") + np.array([0.0, 0.3, 0.3])
    goals = [*feet, ps.goals.Position("hand.R", reach, priority=1), ps.goals.Posture(priority=2)]
    controller = ps.Controller(human, goals, dt=0.01)
    steps = [controller.step() for _ in range(100)]
    assert steps[60].errors["hand.R"] < 1e-4
    assert max(step.errors[foot] for step in steps for foot in ("foot.L", "foot.R")) < 2e-3


def half_square(points, directions):
    del directions
    r = points["tip"] - np.array([0.5, 0.5, 0.0])
    return 0.5 * float(r @ r)


@pytest.mark.parametrize(
    "goals",
    [
        [ps.goals.AnyOf([ps.goals.Position("tip", (0.5, 0.5, 0.0)), ps.goals.Position("tip", (5.0, 0.0, 0.0))])],
        [ps.goals.Custom(half_square, points=["tip"])],
        [ps.goals.Plane("tip", (0.5, 0.0, 0.0), "x"), ps.goals.Posture(weight=1e-6)],
    ],
)
def test_every_kind_of_goal_is_served(goals):
    controller = ps.Controller(two_link(), goals, dt=0.01, start=[0.2, 0.6])
    for _ in range(300):
        step = controller.step()
    assert ps.forward(two_link(), step.pose).position("tip")[0] == pytest.approx(0.5, abs=1e-3)


def test_a_balanced_human_reaches():
    skeleton = ps.figures.human()
    frames = ps.forward(skeleton, skeleton.rest)
    feet = [ps.goals.Pose(foot, frames.matrix(foot)) for foot in ("foot.L", "foot.R")]
    reach = frames.position("hand.R") + 0.1
    goals = [*feet, ps.goals.Position("hand.R", frames.position("hand.R")), ps.goals.Posture(weight=1e-4)]
    controller = ps.Controller(skeleton, goals, dt=0.01)
    for _ in range(300):
        step = controller.step({"hand.R": reach})
    assert step.errors["hand.R"] < 1e-2
    for foot in ("foot.L", "foot.R"):
        assert np.linalg.norm(ps.forward(skeleton, step.pose).position(foot) - frames.position(foot)) < 1e-2


def standing_human():
    """Return a human on two feet, goals to hold them, balance and posture, and where its right hand is."""
    skeleton = ps.figures.human()
    frames = ps.forward(skeleton, skeleton.rest)
    corners = frames.center_of_mass() + 0.04 * np.array(list(itertools.product((-1, 1), repeat=3)))
    hand = frames.position("hand.R")
    goals = [
        *(ps.goals.Pose(foot, frames.matrix(foot)) for foot in ("foot.L", "foot.R")),
        ps.goals.Position("hand.R", hand), ps.goals.Balance(corners),
        ps.goals.Posture(skeleton.rest, weight=1e-4),
    ]  # fmt: skip
    return skeleton, goals, hand


def test_an_idle_balance_gives_the_same_commands_as_its_coupled_matrix():
    """The tree of the figure is factorised while the balance couples nothing, the coupled matrix as soon as it does."""
    skeleton, goals, hand = standing_human()
    found, most = [], 0.0
    for coupled in (False, True):
        controller = ps.Controller(skeleton, goals, dt=0.01)
        if coupled:
            views(controller._ints, controller._floats).tree.rows[:] = controller.problem.order.rows
        poses = []
        for k in range(200):
            step = controller.step({"hand.R": hand + k / 200 * np.array([0.3, 0.3, 0.3])})
            poses.append(step.pose)
            most = max(most, step.errors["balance"])
        found.append(np.array(poses))
    assert most > 0.0  # it was reached out of balance
    assert np.ptp(found[0], axis=0).max() > 0.1
    assert found[0] == pytest.approx(found[1], abs=1e-7)


def test_a_hand_of_a_robot_that_stands_is_not_left_behind(data_dir, tmp_path, monkeypatch):
    """Moving targets are met as well as targets at rest, also after a joint limit was met on the way."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[1]))
    control = importlib.import_module("benchmarks.control")
    for case, (robot, start, targets) in control.humanoids(data_dir, tmp_path).items():
        columns = control.judged(robot, start, targets, *control.posable_loop(robot, start, targets))
        rate, acceleration, frozen, _, off, _, turn, *_ = columns
        assert max(rate, acceleration) <= 1.0 + 1e-9
        assert frozen == 0.0
        assert off < 1.1  # [mm] at rest it is 0.16 and 1.02
        assert turn < 0.02, case  # [deg]


# ------------------------------------------------------------------------------------------------------ wrong calls


def test_wrong_calls_are_refused():
    goal = ps.goals.Position("tip", on_circle(0.0))
    with pytest.raises(SolverError, match="dt"):
        ps.Controller(hinge(), goal, dt=0.0)
    with pytest.raises(SolverError, match="velocity"):
        ps.Controller(hinge(), goal, dt=0.01, velocity=-1.0)
    with pytest.raises(SolverError, match="acceleration"):
        ps.Controller(hinge(), goal, dt=0.01, acceleration=[1.0, 2.0])
    for tiny in ({"dt": 1e-30}, {"dt": 1e200}, {"dt": 0.01, "jerk": 1e-100}):  # would overflow, or never end
        with pytest.raises(SolverError, match=r"expected .*1e-"):
            ps.Controller(hinge(), goal, **tiny)
    with pytest.raises(GoalError, match="one pose"):
        ps.Controller(hinge(), ps.goals.Position("tip", np.zeros((4, 3))), dt=0.01)
    controller = ps.Controller(hinge(), goal, dt=0.01)
    with pytest.raises(UnknownName, match="tipp"):
        controller.step({"tipp": on_circle(0.0)})
    with pytest.raises(GoalError, match="shape"):
        controller.step({"tip": np.zeros(4)})


def test_limits_come_from_the_figure_and_have_defaults():
    joint = ps.Joint("hinge", ps.Revolute("z"), velocity=0.7)
    stated = ps.Skeleton([joint, ps.Joint("slide", ps.Prismatic("x"), "hinge")], [ps.Site("tip", "slide", (1, 0, 0))])
    controller = ps.Controller(stated, ps.goals.Position("tip", (0.0, 3.0, 0.0)), dt=0.01)
    velocity = np.array([controller.step().velocity for _ in range(60)])
    assert np.abs(velocity[:, 0]).max() == pytest.approx(0.7)
    assert np.abs(velocity[:, 1]).max() == pytest.approx(1.0)
    assert controller.velocity_limits.tolist() == [0.7, 1.0]
    assert controller.acceleration_limits == pytest.approx([7.0, 10.0])


def test_a_time_limit_leaves_steps_out_but_keeps_the_limits():
    controller = ps.Controller(hinge(), ps.goals.Position("tip", on_circle(2.0)), dt=0.01, time_limit=1e-9)
    poses = np.array([controller.step().pose for _ in range(300)])
    assert controller._params[boxed_newton.MOST] == 1.0
    assert np.abs(rates(poses, 0.01)[0]).max() <= math.pi + 1e-9
    assert poses[-1, 0] == pytest.approx(2.0, abs=1e-6)


def test_a_weak_posture_does_not_lag():
    """What only a weak posture decides is where it belongs after one tick, not after many."""
    skeleton = ps.figures.human()
    hand = ps.forward(skeleton, skeleton.rest).position("hand.R")
    goals = [ps.goals.Position("hand.R", hand), ps.goals.Posture(skeleton.rest, weight=1e-4)]
    controller = ps.Controller(skeleton, goals, dt=0.01, velocity=np.inf, acceleration=np.inf)
    pose = controller.step({"hand.R": hand + np.array([0.0, 0.002, 0.001])}).pose
    for _ in range(5):
        settled = controller.step().pose
    assert np.abs(settled - skeleton.rest).max() > 1e-4
    assert np.abs(settled - pose).max() < 1e-8
