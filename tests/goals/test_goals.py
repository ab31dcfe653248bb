"""What each goal means, checked at the answer by forward kinematics and nothing else."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import posable as ps

g = ps.goals


def unit(v):
    return np.asarray(v, dtype=float) / np.linalg.norm(v)


class TestOneBody:
    def test_aim(self, human, stand):
        at = np.array([1.0, 1.0, 2.0])
        result = ps.solve(human, [*stand, g.Aim("head", axis="z", at=at)])
        frames = ps.forward(human, result.pose)
        assert result.ok
        line = unit(at - frames.position("head"))
        assert frames.rotation_matrix("head")[:, 2] @ line == pytest.approx(1.0, abs=1e-6)

    def test_direction_leaves_the_turn_about_it_free(self, human, stand):
        result = ps.solve(human, [*stand, g.Direction("hand.R", "y", along=(0.0, 3.0, 1.0))])
        assert result.ok
        assert ps.forward(human, result.pose).rotation_matrix("hand.R")[:, 1] == pytest.approx(
            unit((0, 3, 1)), abs=2e-3
        )

    def test_plane_line_and_half_space(self, human, stand):
        point, normal = np.array([-0.3, 1.3, 0.3]), unit((0.2, 0.5, 1.0))
        goals = [
            g.Plane("hand.R", point, normal),
            g.Line("hand.L", (0.3, 1.0, 0.3), "y"),
            g.HalfSpace("head", (0, 0, 0.2), "z"),
        ]
        result = ps.solve(human, [*stand, *goals])
        frames = ps.forward(human, result.pose)
        assert result.ok
        assert abs((frames.position("hand.R") - point) @ normal) < 1e-4
        assert np.linalg.norm((frames.position("hand.L") - (0.3, 1.0, 0.3))[[0, 2]]) < 1e-4
        assert frames.position("head")[2] > 0.2 - 1e-4

    def test_orientation_from_half_a_turn_away(self):
        figure = ps.Skeleton([ps.Joint("ball", ps.Ball("rotvec"))], [ps.Site("tip", "ball", (0, 0, 1))])
        for axis in np.eye(3):
            target = Rotation.from_rotvec(np.pi * axis)
            result = ps.solve(figure, g.Orientation("tip", target))
            assert result.ok
            assert (ps.forward(figure, result.pose).rotation("tip") * target.inv()).magnitude() < 1e-3


class TestPairs:
    def test_distance(self, human, stand):
        result = ps.solve(human, [*stand, g.Distance("hand.L", "hand.R", 0.3)])
        frames = ps.forward(human, result.pose)
        assert result.ok
        assert np.linalg.norm(frames.position("hand.L") - frames.position("hand.R")) == pytest.approx(0.3, abs=1e-4)

    def test_relative_is_a_pose_in_the_other_frame(self, human, stand):
        target = np.eye(4)
        target[:3, :3] = Rotation.from_euler("xyz", (0.3, -0.2, 2.5)).as_matrix()
        target[:3, 3] = (0.05, 0.02, 0.1)
        result = ps.solve(
            human, [*stand, g.Relative("hand.L", "hand.R", target), g.Position("hand.R", (0, 1.2, 0.4))], restarts=5
        )
        frames = ps.forward(human, result.pose)
        assert result.ok
        found = np.linalg.inv(frames.matrix("hand.R")) @ frames.matrix("hand.L")
        assert np.allclose(found[:3, 3], target[:3, 3], atol=1e-4)
        assert np.allclose(found[:3, :3], target[:3, :3], atol=2e-3)

    def test_a_hand_that_holds_the_other_wrist_stays_closed(self, human, stand):
        hold = g.Relative("hand.L", "wrist.R", (0.0, 0.0, 0.05), tolerance=1e-7, label="grip")
        session = ps.Session(human, [*stand, hold, g.Position("hand.R", (-0.1, 1.2, 0.4))])
        for k in range(60):
            angle = 0.1 * k
            session.move("hand.R", (-0.1 + 0.15 * np.cos(angle), 1.2 + 0.15 * np.sin(angle), 0.4))
            result = session.solve()
            frames = ps.forward(human, result.pose)
            grip = frames.convert((0.0, 0.0, 0.05), from_="wrist.R", to="world")
            assert result.ok
            assert np.linalg.norm(frames.position("hand.L") - grip) < 1e-6

    def test_a_four_bar_linkage_stays_closed(self):
        bars = ps.Skeleton(
            [
                ps.Joint("ground", ps.Fixed()),
                ps.Joint("crank", ps.Revolute("z"), "ground"),
                ps.Joint("coupler", ps.Revolute("z"), "crank", offset=(0.2, 0, 0)),
                ps.Joint("rocker", ps.Revolute("z"), "ground", offset=(0.5, 0, 0), rest=1.5),
            ],
            [ps.Site("a", "coupler", (0.45, 0, 0)), ps.Site("b", "rocker", (0.35, 0, 0))],
        )
        closed = g.Relative("a", "b", (0, 0, 0), tolerance=1e-8, label="loop")
        session = ps.Session(bars, [closed, g.Direction("crank", "x", (1, 0, 0), tolerance=1e-8)])
        for angle in np.linspace(0, 4 * np.pi, 200):
            session.move("crank", (np.cos(angle), np.sin(angle), 0))
            result = session.solve()
            frames = ps.forward(bars, result.pose)
            assert result.ok
            assert np.linalg.norm(frames.position("a") - frames.position("b")) < 1e-6


def centre(figure, pose):
    """The centre of mass by hand: the sum over joints of mass times place."""
    frames = ps.forward(figure, pose)
    total = sum(joint.mass for joint in figure.joints)
    places = [
        joint.mass * frames.convert(joint.center, from_=joint.name, to="world") for joint in figure.joints if joint.mass
    ]
    return sum(places) / total


class TestWholeFigure:
    def test_center_of_mass(self, human, stand):
        result = ps.solve(human, [*stand, g.CenterOfMass((0.05, 0.8, 0.02))])
        assert result.ok
        assert centre(human, result.pose) == pytest.approx((0.05, 0.8, 0.02), abs=1e-4)

    def test_reaching_down_keeps_the_balance(self, human, stand):
        hands = [g.Position("hand.L", (0.15, 0.08, 0.35)), g.Position("hand.R", (-0.15, 0.08, 0.35))]
        free = ps.solve(human, [*stand, *hands], restarts=10)
        result = ps.solve(human, [*stand, *hands, g.Balance()], restarts=10)
        rest = ps.forward(human, human.rest)
        toes, heels = rest.position("toe.L")[2], rest.position("heel.L")[2]
        assert free.ok
        assert result.ok
        assert heels < centre(human, result.pose)[2] < toes

    def test_posture_is_soft(self, human, stand):
        hand = g.Position("hand.R", (-0.4, 1.2, 0.35))
        lazy = ps.solve(human, [*stand, hand, g.Posture()])
        far = ps.solve(human, [hand, *stand])
        assert lazy.ok
        assert np.linalg.norm(lazy.pose - human.rest) < np.linalg.norm(far.pose - human.rest) + 1e-9
        assert ps.solve(human, [g.Posture({"elbow.R": 1.0}, weight=1.0)]).pose == pytest.approx(
            human.pose({"elbow.R": 1.0}), abs=1e-6
        )

    def test_coupling(self, human, stand):
        spine = [g.Coupling("spine2", "spine1", ratio=0.5), g.Coupling("spine3", "spine1", ratio=0.25)]
        result = ps.solve(human, [*stand, *spine, g.Position("crown", (0.2, 1.5, 0.3))])
        pose = result.pose
        assert result.ok
        assert pose[human.index("spine2")] == pytest.approx(0.5 * pose[human.index("spine1")], abs=1e-6)

    def test_mimic_joints_are_goals_of_the_figure(self):
        finger = ps.Skeleton(
            [ps.Joint("a", ps.Revolute("z")), ps.Joint("b", ps.Revolute("z"), "a", offset=(1, 0, 0))],
            [ps.Site("tip", "b", (1, 0, 0))],
            couplings=[("b", "a", 1.0, 0.0)],
        )
        result = ps.solve(finger, g.Line("tip", (0, 1.5, 0), "x"), start=(0.1, 0.2))
        assert result.ok
        assert result.pose[1] == pytest.approx(result.pose[0], abs=1e-6)


class TestAvoid:
    def depth(self, human, pose, joint, end, radius, ball, ball_radius):
        """How deep the bone is inside a ball, by sampling."""
        frames = ps.forward(human, pose)
        a, b = frames.position(joint), frames.position(end)
        points = a + np.linspace(0, 1, 2001)[:, None] * (b - a)
        return radius + ball_radius - np.linalg.norm(points - ball, axis=1).min()

    def test_reaching_past_a_ball_never_penetrates(self, human, stand):
        rng = np.random.default_rng(5)
        ball, size = np.array([-0.25, 1.15, 0.28]), 0.1
        goals = [
            g.Avoid("elbow.R", g.Sphere(ball, size), radius=0.04),
            g.Avoid("wrist.R", g.Sphere(ball, size), ends=((0, 0, 0), (0, -0.1, 0)), radius=0.04),
        ]
        targets = ball + rng.normal(size=(200, 3)) * (0.12, 0.12, 0.12) + (0, 0, 0.1)
        result = ps.solve(human, [*stand, *goals, g.Position("hand.R", targets)], restarts=4)
        for pose in result.pose:
            assert self.depth(human, pose, "elbow.R", "wrist.R", 0.04, ball, size) < 1e-3
        clear = np.linalg.norm(targets - ball, axis=1) > size + 0.06
        assert result.ok[clear].mean() > 0.95

    def test_wall_capsule_and_other_bones(self, human, stand):
        goals = [
            g.Avoid("elbow.R", g.Wall((0, 0, 0.3), "-z"), radius=0.04),
            g.Avoid("elbow.L", g.Capsule((0.3, 0.0, 0.25), (0.3, 2.0, 0.25), 0.05), radius=0.04),
            g.Avoid("elbow.L", "elbow.R", radius=0.04, other_radius=0.04),
        ]
        hands = [g.Position("hand.R", (-0.2, 1.2, 0.3)), g.Position("hand.L", (0.15, 1.3, 0.3))]
        result = ps.solve(human, [*stand, *goals, *hands], restarts=5)
        frames = ps.forward(human, result.pose)
        assert result.ok
        assert max(frames.position("elbow.R")[2], frames.position("wrist.R")[2]) < 0.26 + 1e-3


class TestWeighted:
    def test_energy_is_the_full_quadratic_form(self, human):
        matrix = np.eye(6) + 0.5 * np.ones((6, 6))
        targets = np.array([(0.4, 1.2, 0.3), (-0.4, 1.0, 0.2)])
        goal = g.Weighted([g.Position("hand.L", targets[0]), g.Position("hand.R", targets[1])], matrix)
        frames = ps.forward(human, human.rest)
        miss = np.concatenate([frames.position("hand.L") - targets[0], frames.position("hand.R") - targets[1]])
        assert ps.Problem(human, goal).energy(human.rest) == pytest.approx(0.5 * miss @ matrix @ miss)
        result = ps.solve(human, goal)
        assert result.ok
        assert set(result.errors) == {"weighted.hand.L", "weighted.hand.R"}


class TestAnyOf:
    def test_the_one_that_reaches_is_taken(self, human):
        seated = human.freeze("root")
        near, far = g.Position("hand.L", (0.4, 1.2, 0.3)), g.Position("hand.R", (5.0, 1.0, 0.0))
        result = ps.solve(seated, [g.AnyOf([far, near], label="reach")])
        assert result.ok
        assert result.chosen == {"reach": "hand.L"}
        assert result.errors["reach"] < 1e-4

    def test_none_reaches_the_nearest_is_taken(self, human):
        seated = human.freeze("root")
        result = ps.solve(
            seated, g.AnyOf([g.Position("hand.R", (3.0, 1.0, 0.0)), g.Position("hand.L", (2.0, 1.0, 0.0))])
        )
        assert not result.ok
        assert result.chosen["hand.R or hand.L"] == "hand.L"

    def test_a_batch_chooses_each_for_itself(self, human):
        seated = human.freeze("root")
        targets = np.array([(0.5, 1.2, 0.3), (-0.5, 1.2, 0.3)])
        far = np.array([(9.0, 0, 0), (0.5, 1.2, 0.3)])
        result = ps.solve(seated, [g.AnyOf([g.Position("hand.R", far), g.Position("hand.L", targets)], label="one")])
        assert list(result.chosen["one"]) == ["hand.L", "hand.R"] or list(result.chosen["one"]) == ["hand.L", "hand.L"]
        assert result.errors["one"].shape == (2,)

    def test_energy_is_the_lowest(self, human):
        a, b = g.Position("hand.R", (3.0, 1.0, 0.0)), g.Position("hand.L", (2.0, 1.0, 0.0))
        energies = [ps.Problem(human, goal).energy(human.rest) for goal in (a, b, g.AnyOf([a, b]))]
        assert energies[2] == min(energies)


class TestBatches:
    @pytest.mark.parametrize(
        "goal",
        [
            lambda t: g.Aim("head", "z", 5.0 * t),
            lambda t: g.Direction("hand.R", "y", t),
            lambda t: g.Plane("hand.R", t, "y"),
            lambda t: g.Line("hand.R", t, t[:, None].mean(axis=1)),
            lambda t: g.HalfSpace("hand.R", t, "z"),
            lambda t: g.Distance("hand.L", "hand.R", np.abs(t[:, 0])),
            lambda t: g.Relative("hand.L", "hand.R", 0.3 * t),
            lambda t: g.CenterOfMass(0.1 * t + (0, 0.9, 0)),
            lambda t: g.Avoid("elbow.R", g.Sphere(t, 0.2)),
            lambda t: g.Coupling("elbow.L", "elbow.R", offset=0.1 * t[:, 0]),
        ],
    )
    def test_targets_with_leading_axes(self, human, stand, goal):
        targets = np.array([(0.3, 1.2, 0.3), (-0.3, 1.1, 0.4), (0.1, 1.4, 0.3)])
        result = ps.solve(human, [*stand, goal(targets)])
        assert result.pose.shape == (3, human.size)
        for k in range(3):
            alone = ps.solve(human, [*stand, goal(targets[k : k + 1])])
            assert np.array_equal(alone.pose[0], result.pose[k])
