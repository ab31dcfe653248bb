"""Reproducible problems on the built-in figures, which `posable bench` times and the regression gate counts.

Every problem comes from a pose inside the limits, so it can be reached; every solve starts at the rest pose. Results
are verified with independent forward kinematics.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

import posable as ps

NEAR, TURNED = 1e-3, 1e-2  # [m], [rad] tolerances
LIMIT_SLACK = 1e-9  # [rad, m]

BODIES = {
    "planar_arm": ("tip",),
    "limb": ("hand",),
    "panda": ("hand",),
    "spider": ("foot.1", "foot.2", "foot.3", "foot.4", "foot.5", "foot.6", "foot.7", "foot.8"),
    "tree": ("end1", "end2", "end3", "end4", "end5", "end6"),
    "human": ("hand.L", "hand.R", "foot.L", "foot.R", "head", "pelvis"),
}
SHARE = {
    "planar_arm": 0.5,
    "limb": 1.0,
    "panda": 1.0,
    "spider": 0.5,
    "tree": 0.3,
    "human": 0.5,
}  # of the ranges
TURNS = ("limb", "panda")  # figures with pose goals; the others have positions


@dataclass(frozen=True)
class ProblemSet:
    """Problems on one figure: target frames (t, 4, 4) per body, as poses or as positions."""

    figure: str
    skeleton: ps.Skeleton
    targets: dict[str, np.ndarray]
    turns: bool

    def __len__(self) -> int:
        return len(next(iter(self.targets.values())))

    def goals(self, which: Any = slice(None)) -> list[Any]:
        """Return the goals of problem `which`, or of a batch if it is a slice."""
        if self.turns:
            return [ps.goals.Pose(body, frames[which]) for body, frames in self.targets.items()]
        return [ps.goals.Position(body, frames[which][..., :3, 3]) for body, frames in self.targets.items()]

    def move(self, session: ps.Session, k: int) -> None:
        """Set the goals of a session to those of problem `k`."""
        for body, frames in self.targets.items():
            session.move(body, frames[k] if self.turns else frames[k, :3, 3])

    def reached(self, poses: np.ndarray) -> np.ndarray:
        """Return for poses (t, n), one per problem, whether each reaches its goals inside the limits."""
        skeleton = self.skeleton
        inside = (poses >= skeleton.lower - LIMIT_SLACK) & (poses <= skeleton.upper + LIMIT_SLACK)
        good = np.all(inside & np.isfinite(poses), axis=1)
        frames = ps.forward(skeleton, np.where(np.isfinite(poses), poses, 0.0))
        for body, wanted in self.targets.items():
            got, wanted = frames.matrix(body), wanted[: len(poses)]
            good &= np.linalg.norm(got[:, :3, 3] - wanted[:, :3, 3], axis=1) <= NEAR
            if self.turns:
                good &= np.linalg.norm(got[:, :3, :3] - wanted[:, :3, :3], axis=(1, 2)) <= np.sqrt(2.0) * TURNED
        return good


def problem_set(figure: str, count: int, seed: int = 0) -> ProblemSet:
    """Return `count` problems on a built-in figure; joints are drawn from a fraction of their range around rest."""
    skeleton = ps.figures.get(figure)
    rng = np.random.default_rng(seed)
    lower = np.where(np.isfinite(skeleton.lower), skeleton.lower, skeleton.rest - np.pi)
    upper = np.where(np.isfinite(skeleton.upper), skeleton.upper, skeleton.rest + np.pi)
    if isinstance(skeleton.joints[0].motion, ps.Free):  # keep a free root nearby
        reach = np.array([0.5, 0.5, 0.5, 1.0, 1.0, 1.0])
        lower[:6] = np.maximum(lower[:6], skeleton.rest[:6] - reach)
        upper[:6] = np.minimum(upper[:6], skeleton.rest[:6] + reach)
    poses = skeleton.rest + SHARE[figure] * (rng.uniform(lower, upper, (count, skeleton.size)) - skeleton.rest)
    frames = ps.forward(skeleton, poses)
    targets = {body: frames.matrix(body) for body in BODIES[figure]}
    return ProblemSet(figure, skeleton, targets, figure in TURNS)
