"""Every goal with every option: weight as a number, a vector and a matrix, tolerance, label, priority, robust."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import posable as ps

g = ps.goals


def two_arms():
    """A small figure with mass: a torso that turns and two arms."""
    joints = [ps.Joint("torso", ps.Ball("zyx"), mass=5.0, center=(0.0, 0.3, 0.0))]
    sites = [ps.Site("head", "torso", (0.0, 0.6, 0.1))]
    for side, x in (("L", 0.2), ("R", -0.2)):
        joints += [
            ps.Joint(f"shoulder.{side}", ps.Ball("xyz"), "torso", offset=(x, 0.5, 0.0), mass=1.0, limits=(-2.0, 2.0)),
            ps.Joint(f"elbow.{side}", ps.Revolute("x"), f"shoulder.{side}", offset=(0.0, -0.3, 0.05), mass=1.0),
        ]
        sites.append(ps.Site(f"hand.{side}", f"elbow.{side}", (0.02, -0.3, 0.0)))
    return ps.Skeleton(joints, sites, up="y")


FIGURE = two_arms()
POSE = np.random.default_rng(4).uniform(-0.8, 0.8, FIGURE.size)
TURN = Rotation.from_euler("xyz", (0.4, -0.5, 0.3))
FRAME = np.eye(4)
FRAME[:3, :3], FRAME[:3, 3] = TURN.as_matrix(), (0.3, 0.2, 0.1)


def half_square(points, directions):
    return 0.5 * np.sum((points["hand.R"] - (0.3, 0.1, 0.2)) ** 2) + 1.0 - directions["head"][2]


def spd(size):
    """A symmetric positive definite matrix that is also diagonally dominant."""
    root = np.random.default_rng(size).uniform(-1.0, 1.0, (size, size))
    matrix = root + root.T
    return matrix + np.diag(np.abs(matrix).sum(axis=1) + 0.5)


CAMERA = ps.Camera.look_at((0.5, 0.6, 2.5), (0.0, 0.3, 0.0), 500.0, (640, 480), up=(0.0, 1.0, 0.0))
PAIR = [g.Position("hand.L", (0.4, 0.1, 0.2)), g.Aim("head", "z", (0.2, 0.4, 1.0))]
# how to make each goal, far from satisfied at POSE, and how many numbers a vector of weights has
GOALS = {
    "Position": (lambda **o: g.Position("hand.R", (0.3, 0.1, 0.2), **o), 3),
    "Orientation": (lambda **o: g.Orientation("hand.R", TURN, **o), 3),
    "Pose": (lambda **o: g.Pose("hand.R", FRAME, **o), 3),
    "Aim": (lambda **o: g.Aim("head", "z", (0.2, 0.4, 1.0), **o), 3),
    "Direction": (lambda **o: g.Direction("hand.R", "y", (1.0, 2.0, 3.0), **o), 3),
    "Pixel": (lambda **o: g.Pixel("hand.R", CAMERA, (300.0, 200.0, 0.8), **o), 2),
    "Plane": (lambda **o: g.Plane("hand.R", (0.0, 0.6, 0.0), (0.2, 1.0, 0.3), **o), 3),
    "Line": (lambda **o: g.Line("hand.R", (0.0, 0.6, 0.0), (0.2, 1.0, 0.3), **o), 3),
    "HalfSpace": (lambda **o: g.HalfSpace("hand.R", (0.0, 3.0, 0.0), (0.2, 1.0, 0.3), **o), 3),
    "Distance": (lambda **o: g.Distance("hand.L", "hand.R", 0.1, **o), 3),
    "Relative": (lambda **o: g.Relative("hand.L", "hand.R", FRAME, **o), 3),
    "CenterOfMass": (lambda **o: g.CenterOfMass((0.1, 0.9, 0.1), **o), 3),
    "Balance": (lambda **o: g.Balance([(2.0, 0.0, 1.0), (2.0, 0.0, 2.0), (3.0, 0.0, 1.0)], **o), 3),
    "Avoid": (lambda **o: g.Avoid("elbow.R", g.Sphere((0.1, 0.4, 0.2), 2.0), radius=0.03, **o), 3),
    "Posture": (lambda **o: g.Posture(FIGURE.rest, **o), FIGURE.size),
    "Coupling": (lambda **o: g.Coupling("shoulder.L", "shoulder.R", ratio=0.5, offset=1.5, **o), 3),
    "Custom": (lambda **o: g.Custom(half_square, points=["hand.R"], directions={"head": "z"}, **o), 1),
    "AnyOf": (lambda **o: g.AnyOf(PAIR, **o), 2),
    "Weighted": (lambda **o: g.Weighted(PAIR, spd(6), **o), 6),
}
DIAGONAL = ("Coupling", "AnyOf")  # whose matrices must be diagonal, and say why
NAMES = sorted(GOALS)


def energy(goal):
    return ps.Problem(FIGURE, goal).energy(POSE)


# Whole-figure goals whose weight is one number; their own tests are in test_no_collision.py and test_natural.py
ONE_WEIGHT = {"NoCollision", "Natural"}


def test_no_goal_is_left_out():
    every = {name for name in g.__all__ if isinstance(getattr(g, name), type) and issubclass(getattr(g, name), g.Goal)}
    assert every - {"Goal"} - ONE_WEIGHT == set(GOALS)


@pytest.mark.parametrize("name", NAMES)
class TestEveryGoal:
    def test_a_number_multiplies_the_energy(self, name):
        make, _ = GOALS[name]
        assert energy(make(weight=2.0)) > 0.0
        assert energy(make(weight=6.0)) == pytest.approx(3.0 * energy(make(weight=2.0)), rel=1e-12)

    def test_a_vector_is_a_diagonal_matrix_and_equal_numbers_are_one(self, name):
        make, size = GOALS[name]
        values = np.linspace(1.0, 2.0, size)
        assert energy(make(weight=values)) == pytest.approx(energy(make(weight=np.diag(values))), rel=1e-12)
        for same in (np.full(size, 2.0), 2.0 * np.eye(size), [2.0]):
            assert energy(make(weight=same)) == pytest.approx(energy(make(weight=2.0)), rel=1e-12)
        # each entry is between what its least and its largest number would give alone
        assert energy(make(weight=1.0)) - 1e-12 <= energy(make(weight=values)) <= energy(make(weight=2.0)) + 1e-12

    def test_a_matrix_and_a_robust_scale_have_derivatives(self, name):
        make, size = GOALS[name]
        matrix = np.diag(np.linspace(1.0, 2.0, size)) if name in DIAGONAL else spd(size)
        for options in ({"weight": matrix}, {"robust": 0.2}, {"weight": np.linspace(1.0, 2.0, size), "robust": 0.2}):
            check = ps.Problem(FIGURE, make(**options)).check_derivatives(POSE)
            assert check.gradient < 1e-8
            assert check.hessian < 1e-6 if name == "Custom" else check.hessian < 1e-7

    def test_robust_pulls_less_from_afar(self, name):
        make, _ = GOALS[name]
        plain, soft = make(weight=2.0), make(weight=2.0, robust=0.01)
        assert 0.0 < energy(soft) < 0.6 * energy(plain)
        wide = 1e7 if name == "Pixel" else 1e4  # [px] or [m, rad]
        assert energy(make(weight=2.0, robust=wide)) == pytest.approx(energy(plain), rel=1e-6)

    def test_tolerance_decides(self, name):
        make, _ = GOALS[name]
        for tolerance, ok in ((1e9, True), (1e-9, False)):
            both = (tolerance, tolerance) if name == "Pose" else tolerance  # one number is its position's alone
            result = ps.solve(FIGURE, make(tolerance=both), start=POSE, max_iterations=0)
            assert result.ok is ok

    def test_label_and_priority(self, name):
        make, _ = GOALS[name]
        goal = make(label="mine", priority=3, tolerance=1e-3)
        assert goal.priority == 3
        problem = ps.Problem(FIGURE, [g.Position("hand.L", (0.4, 0.1, 0.2)), goal])
        assert problem.labels[1] == "mine"
        assert any(key.split(".")[0] == "mine" for key in problem.errors(POSE))
        assert make(tolerance=1e-3).label == make().label != "mine"

    def test_weight_zero_reports_and_decides_nothing(self, name):
        make, _ = GOALS[name]
        asked = ps.Problem(FIGURE, make(tolerance=1e-3)).errors(POSE)
        result = ps.solve(FIGURE, make(weight=0.0, tolerance=1e-3), start=POSE)
        assert np.array_equal(result.pose, POSE)
        if name == "Posture":
            return  # no degree of freedom has a gain: there is nothing to measure
        assert result.errors == pytest.approx(asked, rel=1e-12)
        assert result.ok
        assert "weight 0: reported only" in str(result)

    def test_wrong_weights_are_refused(self, name):
        make, size = GOALS[name]
        for weight in (-1.0, np.nan, np.ones(size + 1), np.ones((size + 1, size)), "heavy"):
            with pytest.raises(ps.errors.GoalError, match="weight"):
                ps.Problem(FIGURE, make(weight=weight))
        for robust in (0.0, -1.0, "soft"):
            with pytest.raises(ps.errors.GoalError, match="robust"):
                make(robust=robust)
        with pytest.raises(ps.errors.GoalError, match="tolerance"):
            make(tolerance=-1.0)

    def test_a_file_keeps_the_options(self, name, tmp_path):
        make, size = GOALS[name]
        if name == "Custom":
            with pytest.raises(ps.errors.GoalError, match="Custom"):  # an energy in Python has no form in a file
                g.save(tmp_path / "goals.toml", make())
            return
        goal = make(weight=np.linspace(1.0, 2.0, size), tolerance=0.02, robust=0.3, priority=2, label="mine")
        g.save(tmp_path / "goals.toml", goal)
        (back,) = g.load(tmp_path / "goals.toml")
        assert (back.label, back.priority, back.robust) == ("mine", 2, 0.3)
        assert energy(back) == pytest.approx(energy(goal), rel=1e-12)
        assert np.array_equal(ps.Problem(FIGURE, back).tolerances, ps.Problem(FIGURE, goal).tolerances)


class TestMeaning:
    """The energies of vectors and matrices, written out by hand."""

    MATRIX = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, 0.2], [0.1, 0.2, 3.0]])

    def test_directions(self):
        frames = ps.forward(FIGURE, POSE)
        u = np.array([0.2, 0.4, 1.0]) - frames.position("head")
        miss = frames.rotation_matrix("head")[:, 2] - u / np.linalg.norm(u)
        assert energy(GOALS["Aim"][0](weight=self.MATRIX)) == pytest.approx(0.5 * miss @ self.MATRIX @ miss)
        along = np.array([1.0, 2.0, 3.0]) / np.sqrt(14.0)
        miss = frames.rotation_matrix("hand.R")[:, 1] - along
        assert energy(GOALS["Direction"][0](weight=self.MATRIX)) == pytest.approx(0.5 * miss @ self.MATRIX @ miss)

    def test_places_and_distances(self):
        frames = ps.forward(FIGURE, POSE)
        n = np.array([0.2, 1.0, 0.3]) / np.linalg.norm([0.2, 1.0, 0.3])
        r = frames.position("hand.R") - (0.0, 0.6, 0.0)
        for name, miss in (("Plane", n * (n @ r)), ("Line", r - n * (n @ r))):
            assert energy(GOALS[name][0](weight=self.MATRIX)) == pytest.approx(0.5 * miss @ self.MATRIX @ miss)
        gap = frames.position("hand.L") - frames.position("hand.R")
        gap = gap * (1.0 - 0.1 / np.linalg.norm(gap))
        gap = frames.rotation_matrix("elbow.R").T @ gap  # in the axes of the other body
        assert energy(GOALS["Distance"][0](weight=self.MATRIX)) == pytest.approx(0.5 * gap @ self.MATRIX @ gap)

    def test_a_full_matrix_over_different_kinds(self):
        frames = ps.forward(FIGURE, POSE)
        position = frames.position("hand.L") - (0.4, 0.1, 0.2)
        turn = Rotation.from_matrix(TURN.as_matrix().T @ frames.rotation_matrix("hand.R"))
        axis = turn.as_rotvec() / turn.magnitude()
        miss = np.concatenate([position, 2.0 * np.sin(turn.magnitude() / 2.0) * axis])
        goals = [g.Position("hand.L", (0.4, 0.1, 0.2)), g.Orientation("hand.R", TURN)]
        goal = g.Weighted(goals, spd(6))
        assert energy(goal) == pytest.approx(0.5 * miss @ spd(6) @ miss)
        assert energy(g.Weighted(goals, np.eye(6))) == pytest.approx(energy(goals[0]) + energy(goals[1]))
        scale = spd(6).diagonal().max() * 0.1**2
        soft = scale * (np.sqrt(1.0 + miss @ spd(6) @ miss / scale) - 1.0)
        assert energy(g.Weighted(goals, spd(6), robust=0.1)) == pytest.approx(soft)

    def test_a_posture_with_a_matrix(self):
        x = POSE - FIGURE.rest
        matrix = spd(FIGURE.size)
        assert energy(g.Posture(weight=matrix)) == pytest.approx(0.5 * x @ matrix @ x)
        gains = np.linspace(0.0, 2.0, FIGURE.size)
        root = np.sqrt(gains)
        expected = 0.5 * (root * x) @ matrix @ (root * x)
        assert energy(g.Posture(gains=gains, weight=matrix)) == pytest.approx(expected)
        far = np.ones((FIGURE.size, FIGURE.size)) + 0.1 * np.eye(FIGURE.size)  # no sum of pairs
        with pytest.raises(ps.errors.GoalError, match="scaled diagonally dominant"):
            ps.Problem(FIGURE, g.Posture(weight=far))

    def test_matrices_that_cannot_be_say_why(self):
        with pytest.raises(ps.errors.GoalError, match="one member counts at a time"):
            g.AnyOf(PAIR, weight=spd(2))
        with pytest.raises(ps.errors.GoalError, match="diagonal matrix"):
            GOALS["Coupling"][0](weight=spd(3))
        with pytest.raises(ps.errors.GoalError, match="Weighted"):
            GOALS["Pose"][0](weight=spd(6))
        for goal in (g.Balance(), g.Posture(), g.Coupling("elbow.L", "elbow.R"), g.AnyOf(PAIR)):
            with pytest.raises(ps.errors.GoalError, match="points and directions of bodies"):
                g.Weighted([goal], np.eye(3))


class TestSolving:
    """What no spring carries is still reached, by every family of solvers, alone and in batches."""

    @pytest.mark.parametrize("solver", ["newton", "dls", "lbfgs"])
    def test_directed_weights_reach(self, solver):
        goals = [
            g.Position("hand.L", ps.forward(FIGURE, POSE).position("hand.L")),
            g.Aim("head", "z", ps.forward(FIGURE, POSE).convert((0.0, 0.0, 2.0), from_="head"), weight=(1.0, 2.0, 3.0)),
        ]
        result = ps.solve(FIGURE, goals, solver=solver, max_iterations=400)
        frames = ps.forward(FIGURE, result.pose)
        assert result.ok
        u = goals[1].target - frames.position("head")
        assert np.linalg.norm(np.cross(frames.rotation_matrix("head")[:, 2], u / np.linalg.norm(u))) < 1e-3

    def test_axes_with_a_full_weight_are_springs(self):
        for goal in (g.Aim("head", "z", (0.3, 1.5, 2.0), weight=spd(3)), g.Direction("head", "z", "x", weight=spd(3))):
            assert ps.Problem(FIGURE, goal).plain
            assert len(ps.Problem(FIGURE, goal).springs) == 1

    def test_a_mixed_matrix_in_a_batch(self):
        poses = POSE + 0.2 * np.random.default_rng(0).uniform(-1.0, 1.0, (2, 2, FIGURE.size))
        frames = ps.forward(FIGURE, poses)
        goals = [
            g.Position("hand.L", frames.position("hand.L")),
            g.Orientation("hand.R", frames.rotation_matrix("hand.R")),
        ]
        result = ps.solve(FIGURE, g.Weighted(goals, spd(6)))
        assert result.ok.all()
        found = ps.forward(FIGURE, result.pose)
        assert np.abs(found.position("hand.L") - goals[0].target).max() < 1e-4
        assert np.abs(found.rotation_matrix("hand.R") - goals[1].target).max() < 2e-3
        alone = ps.solve(FIGURE, g.Weighted([goal.moved(goal.target[1, 0]) for goal in goals], spd(6)))
        assert np.allclose(alone.pose, result.pose[1, 0], atol=1e-9)

    def test_a_session_moves_it(self):
        frames = ps.forward(FIGURE, POSE)
        session = ps.Session(FIGURE, g.Direction("hand.R", "y", (0.0, 1.0, 1.0), weight=(1.0, 2.0, 3.0)))
        session.move("hand.R", frames.rotation_matrix("hand.R")[:, 1])
        result = session.solve()
        assert result.ok
        axis = ps.forward(FIGURE, result.pose).rotation_matrix("hand.R")[:, 1]
        assert np.linalg.norm(axis - frames.rotation_matrix("hand.R")[:, 1]) < 1e-3

    def test_a_choice_scales_and_replaces(self):
        near = ps.forward(FIGURE, POSE).position("hand.L")
        goals = [g.Position("hand.R", (0.0, 5.0, 0.0)), g.Position("hand.L", near + np.array([0.0, 0.0, 2.0]))]
        first = ps.solve(FIGURE, g.AnyOf(goals, label="one", weight=(1.0, 1.0)))
        second = ps.solve(FIGURE, g.AnyOf(goals, label="one", weight=(1e-3, 1.0)))
        assert (first.chosen["one"], second.chosen["one"]) == ("hand.L", "hand.R")
        assert ps.solve(FIGURE, g.AnyOf(goals, label="one", tolerance=(1e-4, 10.0))).chosen["one"] == "hand.L"
        assert ps.solve(FIGURE, g.AnyOf(goals, tolerance=10.0)).ok

    def test_a_posture_with_a_tolerance_decides(self):
        goals = [g.Position("hand.L", ps.forward(FIGURE, POSE).position("hand.L")), g.Posture(tolerance=0.01)]
        result = ps.solve(FIGURE, goals)
        assert not result.ok
        assert result.errors["hand.L"] < 1e-4
        assert result.errors["posture"] == pytest.approx(np.abs(result.pose - FIGURE.rest).max(), rel=1e-9)


def test_transforms_of_other_libraries():
    """pinocchio.SE3 and bodies of MuJoCo by their attributes, and positions with rotations or quaternions wxyz."""
    from types import SimpleNamespace

    turn = Rotation.from_rotvec([0.3, -0.2, 0.5])
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = turn.as_matrix(), (0.1, 0.2, 0.3)
    wxyz = 2.0 * np.roll(turn.as_quat(), 1)
    for target in (
        SimpleNamespace(homogeneous=matrix),
        SimpleNamespace(xpos=matrix[:3, 3], xmat=matrix[:3, :3].ravel()),
        ((0.1, 0.2, 0.3), turn),
        ((0.1, 0.2, 0.3), turn.as_matrix()),
        ((0.1, 0.2, 0.3), wxyz),
        (np.tile((0.1, 0.2, 0.3), (5, 1)), np.tile(wxyz, (5, 1))),
    ):
        goal = ps.goals.Pose("hand.R", target)
        np.testing.assert_allclose(goal.rotation, np.broadcast_to(turn.as_matrix(), goal.rotation.shape), atol=1e-12)
        np.testing.assert_allclose(goal.position, np.broadcast_to((0.1, 0.2, 0.3), goal.position.shape))
        np.testing.assert_array_equal(ps.goals.Pose("hand.R", np.eye(4)).moved(target).target, goal.target)
        np.testing.assert_array_equal(ps.goals.Relative("hand.R", "head", target).rotation, goal.rotation)
    with pytest.raises(ps.errors.GoalError, match="a quaternion wxyz"):
        ps.goals.Pose("hand.R", ((0, 0, 0), (0, 0, 0, 0)))


def test_the_place_and_the_rotation_of_a_transform():
    from types import SimpleNamespace

    turn, place = Rotation.from_rotvec([0.3, -0.2, 0.5]), np.array([0.1, 0.2, 0.3])
    for target in (
        SimpleNamespace(translation=place, rotation=turn.as_matrix()),  # pinocchio.SE3
        SimpleNamespace(translation=place, rotation=turn),  # SciPy's RigidTransform
        SimpleNamespace(xpos=place, xmat=turn.as_matrix().ravel()),  # MuJoCo's data
    ):
        np.testing.assert_array_equal(ps.goals.Position("hand.R", target).target, place)
        np.testing.assert_allclose(ps.goals.Orientation("hand.R", target).target, turn.as_matrix(), atol=1e-15)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ps.goals.Pose("hand.R", np.ones(7)), r"shape \(7,\); .* xyzw \(v\[:3\], v\[\[6, 3, 4, 5\]\]\)"),
        (lambda: ps.goals.Pose("hand.R", (np.ones(4), np.ones(3))), r"pair \(position, quaternion wxyz or Rotation\)"),
        (lambda: ps.goals.Pose("hand.R", Rotation.identity()), r"4, 4\), a RigidTransform, .* got shape \(3, 3\)"),
        (lambda: ps.goals.Position("hand.R", np.eye(4)), r"that is T\[\.\.\., :3, 3\]"),
        (lambda: ps.goals.Orientation("hand.R", np.ones(4)), r"Rotation\.from_quat\(wxyz, scalar_first=True\)"),
        (lambda: ps.goals.Position("hand.R", "x" * 999), "got an object of type str$"),
    ],
)
def test_what_is_no_target_says_what_is(make, says):
    with pytest.raises(ps.errors.GoalError, match=says):
        make()
