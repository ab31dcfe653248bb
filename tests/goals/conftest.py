"""The family of goals on a person, and poses at which they are tried."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import posable as ps

g = ps.goals


def wide(size):
    """Return a random symmetric positive definite matrix."""
    root = np.random.default_rng(3).normal(size=(size, size))
    return root @ root.T + np.eye(size)


def transform(rotation, position):
    out = np.eye(4)
    out[:3, :3], out[:3, 3] = Rotation.from_euler("xyz", rotation).as_matrix(), position
    return out


def odd_energy(p, d):
    return np.sin(p["hand.L"] @ p["hand.R"]) + d["head"] @ p["hand.L"] + (p["hand.L"][1] - 1.0) ** 3


def odd_gradient(p, d):
    c = np.cos(p["hand.L"] @ p["hand.R"])
    left = c * p["hand.R"] + d["head"] + np.array([0.0, 3.0 * (p["hand.L"][1] - 1.0) ** 2, 0.0])
    return {"hand.L": left, "hand.R": c * p["hand.L"]}, {"head": p["hand.L"]}


CAMERA = ps.Camera.look_at((0.5, 1.2, 3.0), (0.0, 1.0, 0.0), 900.0, (1280, 720), up=(0.0, 1.0, 0.0), name="front")
LENS = ps.Camera(CAMERA.matrix, CAMERA.rotation, CAMERA.translation, distortion=(-0.2, 0.05, 0.002, -0.001, 0.01))
INSIDE = ps.Camera.look_at((0.3, 1.1, 0.1), (0.0, 1.0, 3.0), 900.0, (1280, 720), up=(0.0, 1.0, 0.0))  # amid the figure

# Each is active at every pose of the tests: obstacles are large, walls far on the wrong side.
FAMILY = {
    "position": g.Position("hand.R", (0.4, 1.2, 0.3)),
    "position-matrix": g.Position("hand.R", (0.4, 1.2, 0.3), weight=wide(3), point=(0.1, 0.2, 0.3)),
    "position-robust": g.Position("hand.R", (0.4, 1.2, 0.3), robust=0.1),
    "orientation": g.Orientation("hand.R", Rotation.from_euler("xyz", (1.0, 2.0, 0.5))),
    "orientation-matrix": g.Orientation("hand.R", Rotation.from_euler("xyz", (1.0, 2.0, 0.5)), weight=(1.0, 2.0, 1.5)),
    "pose": g.Pose("foot.L", transform((0.1, 0.2, 0.3), (0.1, 0.4, 0.2))),
    "aim": g.Aim("head", axis="z", at=(0.3, 1.2, 1.0)),
    "aim-robust": g.Aim("head", axis=(0.6, 0.0, 0.8), at=(0.3, 1.2, 1.0), point=(0.0, 0.1, 0.0), robust=0.3),
    "direction": g.Direction("hand.R", "x", (1.0, 2.0, 3.0)),
    "pixel": g.Pixel("hand.R", CAMERA, (500.0, 300.0)),
    "pixel-robust": g.Pixel("hand.R", LENS, (400.0, 500.0, 0.7), point=(0.1, 0.2, 0.0), robust=20.0),
    "pixel-matrix": g.Pixel("foot.L", LENS, (700.0, 100.0), weight=wide(2)),
    "pixel-behind": g.Pixel("hand.L", INSIDE, (100.0, 600.0)),  # the hand is behind the camera or beside it
    "plane": g.Plane("foot.L", (0.0, 0.1, 0.0), (0.0, 1.0, 0.3)),
    "line": g.Line("foot.L", (0.0, 0.1, 0.0), (0.0, 1.0, 0.3)),
    "half-space": g.HalfSpace("foot.L", (0.0, 9.0, 0.0), (0.0, 1.0, 0.3)),
    "distance": g.Distance("hand.L", "hand.R", 0.3),
    "distance-robust": g.Distance("hand.L", "crown", 0.3, robust=0.1),
    "distance-zero": g.Distance("hand.L", "hand.R", 0.0),
    "relative": g.Relative("hand.L", "hand.R", transform((0.1, 0.2, 0.3), (0.1, 0.0, 0.2))),
    "relative-matrix": g.Relative("hand.L", "hand.R", np.eye(4), weight=((1.0, 2.0, 3.0), (1.0, 2.0, 2.0)), robust=0.3),
    "relative-above": g.Relative("hand.L", "pelvis", (0.3, 0.1, 0.2)),
    "center-of-mass": g.CenterOfMass((1.0, 2.0, 3.0), weight=(1.0, 0.0, 2.0)),
    "center-of-mass-robust": g.CenterOfMass((1.0, 2.0, 3.0), robust=0.1),
    "balance": g.Balance([(5.0, 0.0, 5.0), (5.0, 0.0, 6.0), (6.0, 0.0, 5.0)]),
    "avoid-sphere": g.Avoid("elbow.R", g.Sphere((0.1, 1.0, 0.2), 5.0)),
    "avoid-capsule": g.Avoid("elbow.R", g.Capsule((0.1, 0.5, 0.2), (0.5, 1.5, 0.4), 5.0)),
    "avoid-wall": g.Avoid("elbow.R", g.Wall((0.1, 9.5, 0.2), (0.0, 1.0, 0.0))),
    "avoid-body": g.Avoid("elbow.R", "neck", radius=3.0, other_radius=1.0),
    "posture": g.Posture("middle", weight=1.0),
    "coupling": g.Coupling("spine2", "spine1", ratio=0.5, offset=0.1),
    "coupling-across": g.Coupling("elbow.L", "elbow.R", ratio=-0.5, robust=0.2),
    "any-of": g.AnyOf([g.Position("hand.L", (1.0, 1.0, 1.0)), g.Position("hand.R", (1.0, 1.5, 1.0))]),
    "weighted": g.Weighted(
        [g.Position("hand.L", (1, 1, 1)), g.Position("hand.R", (0, 1, 1)), g.Position("foot.R", (0, 1, 0))], wide(9)
    ),
    "custom": g.Custom(odd_energy, points=["hand.L", "hand.R"], directions={"head": "z"}),
    "custom-gradient": g.Custom(
        odd_energy, points=["hand.L", "hand.R"], directions={"head": "z"}, gradient=odd_gradient
    ),
}


@pytest.fixture(scope="session")
def human():
    return ps.figures.human()


@pytest.fixture(scope="session")
def lab(human):
    """The goals by name, and poses: random ones, on the limits, and singular (straight limbs, aligned Euler axes)."""
    rng = np.random.default_rng(0)
    lower, upper = np.maximum(human.lower, -1.0), np.minimum(human.upper, 1.0)
    poses = {f"random-{k}": rng.uniform(lower, upper) for k in range(3)}
    poses["limit"] = np.where(rng.random(human.size) < 0.5, lower, upper)
    straight = np.clip(np.zeros(human.size), lower, upper)
    straight[human.index("shoulder.L")] = (0.4, np.radians(-75.0), 0.1)
    poses["singular"] = straight
    return SimpleNamespace(goals=FAMILY, poses=poses)


@pytest.fixture(scope="session")
def stand(human):
    """Goals that hold both feet where they are at rest."""
    frames = ps.forward(human, human.rest)
    return [g.Pose(foot, frames.matrix(foot)) for foot in ("foot.L", "foot.R")]
