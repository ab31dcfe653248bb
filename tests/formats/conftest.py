"""What the tests of the formats share: a small figure in every way a joint can move, and plain forward kinematics."""

import numpy as np
import pytest

from posable.formats.conventions import world_transforms
from posable.model.joints import Ball, Fixed, Free, Joint, Planar, Prismatic, Revolute, Site, Universal
from posable.model.motion import Motion
from posable.model.skeleton import Skeleton


@pytest.fixture(scope="session")
def figure():
    """A figure with every type of joint, constant rotations and sites."""
    tilt = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    joints = [
        Joint("hips", Free("zyx"), offset=(0, 0.9, 0)),
        Joint("spine", Ball("xyz"), "hips", offset=(0, 0.1, 0), limits=[(-1, 1), (-0.5, 0.5), (-2, 2)]),
        Joint("plate", Fixed(), "spine", offset=(0, 0.2, 0), rotation=tilt),
        Joint("arm", Ball("rotvec"), "plate", offset=(0.2, 0, 0.1)),
        Joint("twist", Ball("swing-twist", axis="y"), "plate", offset=(-0.2, 0, 0.1)),
        Joint("elbow", Revolute((1, 2, 0)), "arm", offset=(0, 0.3, 0), limits=(0, 2.5)),
        Joint("slider", Prismatic("-x"), "elbow", offset=(0, 0.2, 0), limits=(0, 0.3)),
        Joint("wrist", Universal("xz"), "slider", offset=(0, 0.1, 0), rotation=tilt),
        Joint("cart", Planar("y"), "hips", offset=(0.3, 0, 0)),
    ]
    sites = [
        Site("hand", "wrist", (0, 0.1, 0)),
        Site("tip", "twist", (0, 0.2, 0.1)),
        Site("wheel", "cart", (0, 0, 0.05)),
    ]
    return Skeleton(joints, sites, "toy", up="y")


@pytest.fixture(scope="session")
def motion(figure):
    """Twenty frames of it, smooth and within a turn."""
    generator = np.random.default_rng(7)
    rate = generator.uniform(-0.6, 0.6, (2, figure.size))
    time = np.linspace(0, 1, 20)[:, None]
    return Motion(figure, np.clip(rate[0] + rate[1] * np.sin(3 * time), figure.lower, figure.upper), 25.0, "wave")


def positions(skeleton, poses):
    """Positions of all joints and sites by name, each (T, 3) [m]."""
    return {name: place for name, (place, _) in world_transforms(skeleton, np.asarray(poses)).items()}


def difference(first, second, rename=lambda name: name):
    """The largest distance between the joints, and sites, that two motions share by name."""
    a, b = positions(first.skeleton, first.poses), positions(second.skeleton, second.poses)
    shared = [name for name in a if rename(name) in b]
    assert set(first.skeleton.names) <= set(shared)
    return max(np.abs(a[name] - b[rename(name)]).max() for name in shared)
