"""Random limbs with generic offsets, rest rotations, hinge axes, ball joints and limits."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import posable as ps
from posable.model.joints import EULER_ORDERS

BALLS = (*EULER_ORDERS, "rotvec", "swing-twist")


class Case:
    """A limb on a body, and poses of it inside its limits."""

    def __init__(self, skeleton, rng):
        self.skeleton, self.rng = skeleton, rng
        self.limb = ps.Limb(skeleton, "shoulder", "elbow", "wrist", site="hand")

    def pose(self):
        low = np.where(np.isfinite(self.skeleton.lower), self.skeleton.lower, -2.5)
        high = np.where(np.isfinite(self.skeleton.upper), self.skeleton.upper, 2.5)
        return self.rng.uniform(low, high)

    def hand(self, pose):
        return ps.forward(self.skeleton, pose).matrix("hand")

    def holds(self, pose):
        return bool(np.all(pose >= self.skeleton.lower) and np.all(pose <= self.skeleton.upper))


def random_case(seed, first="zyx", last="zyx", *, limits=True, widest=3.0):
    rng = np.random.default_rng(seed)

    def ball(kind):
        return ps.Ball(kind, axis=tuple(rng.normal(size=3))) if kind == "swing-twist" else ps.Ball(kind)

    def box(count):
        if not limits:
            return None
        low = rng.uniform(-2.8, 0.3, count)
        return np.stack([low, low + rng.uniform(0.8, widest, count)], axis=1)

    def place():
        return {"offset": 0.3 * rng.normal(size=3), "rotation": Rotation.random(random_state=rng)}

    joints = [
        ps.Joint("root", ps.Free("zyx"), **place()),
        ps.Joint("clavicle", ps.Revolute("y"), "root", **place()),
        ps.Joint("shoulder", ball(first), "clavicle", limits=box(3), **place()),
        ps.Joint("plate", ps.Fixed(), "shoulder", **place()),
        ps.Joint("elbow", ps.Revolute(tuple(rng.normal(size=3))), "plate", limits=box(1), **place()),
        ps.Joint("wrist", ball(last), "elbow", limits=box(3), **place()),
    ]
    return Case(ps.Skeleton(joints, [ps.Site("hand", "wrist", **place())]), rng)


@pytest.fixture
def make_case():
    return random_case


@pytest.fixture
def balls():
    return BALLS


def arm(first="zyx", last="zyx", upper=0.3, lower=0.25, tool=0.1, bend=(0.0, 2.6), **limits):
    """A plain arm along x: everything in one plane, straight at zero."""
    return ps.Skeleton(
        [
            ps.Joint("shoulder", ps.Ball(first), limits=limits.get("shoulder")),
            ps.Joint("elbow", ps.Revolute("-z"), "shoulder", offset=(upper, 0, 0), limits=bend),
            ps.Joint("wrist", ps.Ball(last), "elbow", offset=(lower, 0, 0), limits=limits.get("wrist")),
        ],
        [ps.Site("hand", "wrist", offset=(tool, 0, 0))],
        up="y",
    )


@pytest.fixture
def make_arm():
    return arm
