"""Gradient and Hessian of every joint type and every spring kind, against differences and against algorithm 4."""

import numpy as np
import pytest

from posable.engine.layout import AT, BODY_B, MEASURE, POINT, WEIGHT
from posable.model.joints import Joint, Revolute
from posable.model.skeleton import Skeleton

POSES = 200
MOTION_NAMES = [
    "fixed", "revolute", "revolute-skew", "prismatic", "prismatic-skew", "universal", "planar", "planar-skew",
    "ball-xyz", "ball-xzy", "ball-yxz", "ball-yzx", "ball-zxy", "ball-zyx",
    "ball-xyx", "ball-xzx", "ball-yxy", "ball-yzy", "ball-zxz", "ball-zyz",
    "ball-rotvec", "ball-swing-twist", "ball-swing-twist-skew", "free-zyx", "free-rotvec", "free-swing-twist",
]  # fmt: skip
ONE_BODY = ("point", "orientation", "direction", "aim", "side")
DIRECT = ("point", "orientation", "direction", "aim", "side", "distance", "clear")


def relative(a, b):
    return np.abs(a - b).max() / max(1.0, np.abs(b).max())


def check_derivatives(lab, skeleton, springs, pose):
    """The gradient is the slope of the energy, the Hessian the slope of the gradient, both by differences."""
    _, gradient, hessian, _ = lab.gathered(skeleton, springs, pose)
    assert relative(gradient, lab.slope(lambda q: lab.gathered(skeleton, springs, q)[0], pose)) < 1e-7
    assert relative(hessian, lab.slope(lambda q: lab.gathered(skeleton, springs, q)[1], pose)) < 1e-6
    assert np.array_equal(hessian, hessian.T)


def mixed_springs(lab, skeleton, seed, robust=0.0, kinds=ONE_BODY):
    """One spring of each kind, on bodies at the leaf, the branch and the middle."""
    rng = np.random.default_rng(seed)
    last = skeleton.figure.body.shape[0] - 1
    bodies = (last, max(0, last - 1), last // 2)
    rows = [(lab.kinds[kind], bodies[i % 3], lab.spring(lab.kinds[kind], rng, robust)) for i, kind in enumerate(kinds)]
    return lab.springs_on(skeleton, rows, pull=0.3)


def test_every_motion_has_its_sample(lab):
    assert sorted(MOTION_NAMES) == sorted(lab.motions)


@pytest.mark.parametrize("motion", MOTION_NAMES)
def test_derivatives_of_every_joint_type_at_random_poses(lab, motion):
    """Every column, at each of 200 random poses, with all kinds of springs on one body, plain and robust in turn."""
    skeleton = lab.figure_with(lab.motions[motion])
    rng = np.random.default_rng(1)
    for k in range(POSES):
        springs = mixed_springs(lab, skeleton, k, robust=0.0 if k % 2 else 3.0)
        check_derivatives(lab, skeleton, springs, rng.uniform(-3.0, 3.0, skeleton.size))


@pytest.mark.parametrize("robust", [0.0, 2.0])
@pytest.mark.parametrize("kind", ONE_BODY)
def test_derivatives_of_every_spring_kind_at_200_random_poses(lab, kind, robust):
    skeleton = lab.figure_with(lab.motions["ball-rotvec"])
    rng = np.random.default_rng(2)
    for _ in range(POSES):
        row = (
            lab.kinds[kind],
            int(rng.integers(skeleton.figure.body.shape[0])),
            lab.spring(lab.kinds[kind], rng, robust),
        )
        springs = lab.springs_on(skeleton, [row])
        pose = rng.uniform(-3.0, 3.0, skeleton.size)
        direction = rng.normal(size=skeleton.size)  # along one line a pose: all columns would take minutes
        _, gradient, hessian, _ = lab.gathered(skeleton, springs, pose)
        along = lambda t: pose + t[0] * direction  # noqa: B023, E731
        energy_slope = lab.slope(lambda t: lab.gathered(skeleton, springs, along(t))[0], np.zeros(1))[0]  # noqa: B023
        gradient_slope = lab.slope(lambda t: lab.gathered(skeleton, springs, along(t))[1], np.zeros(1))[:, 0]  # noqa: B023
        assert abs(gradient @ direction - energy_slope) < 1e-7 * max(1.0, np.abs(gradient).max())
        assert relative(hessian @ direction, gradient_slope) < 1e-6


HARD = {
    "zero": lambda n, rng: np.zeros(n),
    "gimbal-lock": lambda n, rng: np.full(n, 0.5 * np.pi),
    "gimbal-lock-negative": lambda n, rng: np.full(n, -0.5 * np.pi),
    "tiny": lambda n, rng: 1e-9 * rng.normal(size=n),
    "small": lambda n, rng: 1e-4 * rng.normal(size=n),
    "series-edge": lambda n, rng: np.full(n, 0.5 / np.sqrt(3.0)),
    "near-pi": lambda n, rng: np.full(n, (np.pi - 1e-7) / np.sqrt(3.0)),
    "pi": lambda n, rng: np.full(n, np.pi / np.sqrt(3.0)),
    "beyond-pi": lambda n, rng: np.full(n, 4.0 / np.sqrt(3.0)),
    "near-two-pi": lambda n, rng: np.full(n, (2.0 * np.pi - 1e-4) / np.sqrt(3.0)),
}


@pytest.mark.parametrize("hard", HARD)
@pytest.mark.parametrize("motion", ["ball-zyx", "ball-zyz", "ball-rotvec", "ball-swing-twist", "free-rotvec"])
def test_derivatives_at_hard_poses(lab, motion, hard):
    skeleton = lab.figure_with(lab.motions[motion])
    pose = HARD[hard](skeleton.size, np.random.default_rng(3))
    for robust in (0.0, 1.0):
        check_derivatives(lab, skeleton, mixed_springs(lab, skeleton, 4, robust), pose)


def test_derivatives_of_a_straight_chain(lab):
    joints = [Joint("0", Revolute("z"))]
    joints += [Joint(str(i), Revolute("z"), str(i - 1), offset=(1.0, 0.0, 0.0)) for i in range(1, 6)]
    skeleton = Skeleton(joints)
    row, target = (np.zeros_like(part) for part in lab.spring(0, np.random.default_rng(0)))
    row[POINT] = 1.0  # the tip, straight towards a target beyond it: the gradient is zero and the Hessian is singular
    target[AT] = 9.0
    row[WEIGHT : WEIGHT + 3] = row[MEASURE : MEASURE + 3] = 1.0
    springs = lab.springs_on(skeleton, [(lab.kinds["point"], 5, (row, target))])
    check_derivatives(lab, skeleton, springs, np.zeros(6))


@pytest.mark.parametrize("motion", MOTION_NAMES)
def test_gathered_and_direct_agree(lab, motion):
    skeleton = lab.figure_with(lab.motions[motion])
    rng = np.random.default_rng(5)
    for exact in (0.0, 1.0):
        for robust in (0.0, 1.5):
            springs = mixed_springs(lab, skeleton, 6, robust, DIRECT)
            pose = rng.uniform(-3.0, 3.0, skeleton.size)
            _, gradient, hessian, _ = lab.gathered(skeleton, springs, pose, exact)
            status, direct_gradient, direct_hessian = lab.directly(skeleton, springs, pose, exact)
            assert status == -1
            assert relative(gradient, direct_gradient) < 1e-12
            assert relative(hessian, direct_hessian) < 1e-12


def test_direct_says_which_spring_it_cannot_do(lab):
    skeleton = lab.figure_with(lab.motions["revolute"])
    springs = mixed_springs(lab, skeleton, 7, kinds=("point", "side"))
    springs.kind[1, BODY_B] = 0
    assert lab.directly(skeleton, springs, np.zeros(skeleton.size))[0] == 1


def test_gauss_newton_is_positive_semidefinite(lab):
    skeleton = lab.figure_with(lab.motions["ball-zyx"])
    springs = mixed_springs(lab, skeleton, 8, robust=1.0)
    rng = np.random.default_rng(9)
    for _ in range(20):
        hessian = lab.gathered(skeleton, springs, rng.uniform(-3, 3, skeleton.size), exact=0.0)[2]
        values = np.linalg.eigvalsh(hessian)
        assert values[0] > -1e-10 * values[-1]


def test_far_from_the_world_origin_nothing_is_lost(lab):
    """A root that has wandered 10 km away keeps its digits: positions are relative to it."""
    skeleton = lab.figure_with(lab.motions["free-zyx"])
    springs = mixed_springs(lab, skeleton, 10, kinds=("point", "direction"))
    pose = np.random.default_rng(11).uniform(-2, 2, skeleton.size)
    near = lab.gathered(skeleton, springs, pose)[2]
    # the root's rest rotation turns its slides: move it along them, and the target by the same amount
    shift = np.array([1e4, -2e4, 3e4])
    far_pose = pose.copy()
    far_pose[:3] += shift
    targets = springs.targets.copy()
    targets[:, :3] += skeleton.figure.rest[0, 3:].reshape(3, 3) @ shift
    far = lab.gathered(skeleton, springs._replace(targets=targets), far_pose)[2]
    assert relative(far, near) < 1e-9
