"""Goals on joint values: one joint follows another, a posture to stay near."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from posable.engine.layout import AT, BODY, CONSTANTS, FOLLOWER, LEADER, RATIO, ROBUST, TARGETS, WEIGHT
from posable.engine.springs import COUPLING_SPRING
from posable.errors import GoalError
from posable.goals.base import Goal, Spring, nonneg, numbers, square_weight
from posable.model.motion import Motion
from posable.model.skeleton import Skeleton

# --- Degrees of freedom that follow others ---

COUPLING_TOLERANCE = 1e-6  # [rad, m]


class Coupling(Goal):
    """Make one joint follow another: energy w/2 (follower - ratio leader - offset)^2 for each degree of freedom.

    The error is the largest difference [rad, m].

    Args:
        follower: A degree of freedom ("finger2", "spine2.x"), or a joint, all of whose degrees of freedom follow.
        leader: The degree of freedom or joint that it follows, with equally many degrees of freedom.
        ratio: Of the follower's motion to the leader's.
        offset: (...,) [rad, m] Of the follower where the leader is at 0.
        weight: A number, or one per degree of freedom; a matrix must be diagonal.
        tolerance: [rad, m] Error below which the goal counts as reached.
        label: Name in results; "finger2 follows finger1" by default.
        priority: Level of the goal. Lower levels are solved first and never give way to higher ones.
        robust: [rad, m] Error beyond which the force no longer grows; None: it always grows.
    """

    def __init__(
        self,
        follower: str,
        leader: str,
        *,
        ratio: float = 1.0,
        offset: Any = 0.0,
        weight: Any = 1.0,
        tolerance: float = COUPLING_TOLERANCE,
        label: str | None = None,
        priority: int = 0,
        robust: float | None = None,
    ):
        self.follower, self.leader = follower, leader
        super().__init__(label, nonneg(tolerance, f"{self}: tolerance"), priority, robust)
        self.weight = numbers(weight, (), f"{self}: weight")
        if self.weight.ndim > 2 or (self.weight < 0.0).any() or not _is_diagonal(self.weight):
            expected = "a number, one per degree of freedom, or a diagonal matrix, all non-negative"
            raise GoalError(f"{self}: weight", expected=expected, got=repr(weight))
        factor = numbers(ratio, (), f"{self}: ratio")
        if factor.ndim:
            raise GoalError(f"{self}: ratio", expected="one number", got=repr(ratio))
        self.ratio = float(factor)
        self.set_target(offset)

    def default_label(self) -> str:
        """Return "finger2 follows finger1"."""
        return f"{self.follower} follows {self.leader}"

    def set_target(self, target: Any) -> None:
        """Set the offset (...,) [rad, m]."""
        self.offset = numbers(target, (), f"{self}: offset")

    @property
    def target(self) -> np.ndarray:
        """The offset (...,) [rad, m]."""
        return self.offset

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """One COUPLING spring per degree of freedom; they share one error."""
        followers, leaders = _dofs(skeleton, self.follower), _dofs(skeleton, self.leader)
        if len(followers) != len(leaders):
            raise GoalError(
                f"{self}", expected=f"{len(followers)} degrees of freedom of {self.leader!r}", got=f"{len(leaders)}"
            )
        if followers == leaders:
            raise GoalError(f"{self}", expected="two different joints", got=f"{self.leader!r} twice")
        weights = np.diag(square_weight(self.weight, len(followers), f"{self}: weight"))
        out = []
        for a, b, weight in zip(followers, leaders, weights, strict=True):
            data = coupling_data(a, b, self.ratio)
            data[WEIGHT] = weight
            data[ROBUST] = 0.0 if self.robust is None else weight * self.robust**2
            body = int(skeleton.figure.dof[a, BODY])
            out.append(Spring(COUPLING_SPRING, body, data, offset_row(self.offset), self.tolerance))
        return out


def coupling_data(follower: int, leader: int, ratio: float) -> np.ndarray:
    """Return the constants (CONSTANTS,) of a COUPLING spring without its weight."""
    data = np.zeros(CONSTANTS)
    data[FOLLOWER], data[LEADER], data[RATIO] = follower, leader, ratio
    return data


def offset_row(offset: Any) -> np.ndarray:
    """Return the targets (..., TARGETS) of a COUPLING spring with offsets (...,) [rad, m]."""
    out = np.zeros((*np.shape(offset), TARGETS))
    out[..., AT] = offset
    return out


def _is_diagonal(weight: np.ndarray) -> bool:
    square = weight.ndim == 2 and weight.shape[0] == weight.shape[1]
    return weight.ndim < 2 or (square and not np.count_nonzero(weight - np.diag(np.diag(weight))))


def _dofs(skeleton: Skeleton, name: str) -> list[int]:
    """Return the indices in a pose of a joint, or of one degree of freedom."""
    if name in skeleton.names:
        where = skeleton.index(name)
        return list(range(where.start, where.stop))
    return [skeleton.dof(name)]


# --- A posture to stay near ---


class Posture(Goal):
    """Stay near a posture as far as the other goals leave a choice: energy w/2 k_i (theta_i - home_i)^2.

    The linear term that Parent intends in (5.27). It is soft: it never decides `ok` unless it has a tolerance. Its
    default weight moves a hand that can reach its target by micrometres, well inside the hand's tolerance.

    Args:
        pose: (n,) [rad, m]; {"elbow.R": 0.3, ...}, with the other joints at rest; "rest" (None), or "middle" of the
            limits. A motion, or poses (..., n): one for each problem of a batch, each frame of `follow`.
        gains: Deprecated name of `stiffness`.
        stiffness: k, a number, (n,), or {joint: number} for those joints only. By default 1 / gain^2, so that a
            stronger joint moves more readily.
        weight: A number, (n,), or a symmetric positive definite matrix (n, n): energy 1/2 x'G W G x, G the roots of
            the stiffness. Springs couple pairs of degrees of freedom, so the matrix must be a sum of such pairs
            (scaled diagonally dominant).
        tolerance: [rad, m] Deviation that no degree of freedom with stiffness may exceed; infinite by default.
        label: Name in results; "posture" by default.
        priority: Level of the goal. Lower levels are solved first and never give way to higher ones.
        robust: [rad, m] Deviation beyond which a degree of freedom is pulled no harder; None: no such bound.
    """

    plain: ClassVar[bool] = False
    is_posture: ClassVar[bool] = True

    def __init__(
        self,
        pose: Any = None,
        gains: Any = None,
        *,
        stiffness: Any = None,
        weight: Any = 1e-6,
        tolerance: float = np.inf,
        label: str | None = None,
        priority: int = 0,
        robust: float | None = None,
    ):
        super().__init__(label, nonneg(tolerance, "Posture: tolerance"), priority, robust)
        if gains is not None and stiffness is not None:
            raise GoalError("Posture", expected="either stiffness or gains, its older name", got="both")
        self.weight = numbers(weight, (), "Posture: weight")
        if self.weight.ndim > 2 or (self.weight.ndim < 2 and (self.weight < 0.0).any()):
            raise GoalError("Posture: weight", expected="a number, (n,) or (n, n), all non-negative", got=repr(weight))
        self.gains = gains if stiffness is None else stiffness
        self.set_target(pose)

    def set_target(self, target: Any) -> None:
        """Set the posture."""
        if isinstance(target, str) and target not in ("rest", "middle"):
            raise GoalError("Posture: pose", expected="'rest', 'middle', (n,) or a pose by name", got=repr(target))
        self.pose = target.poses if isinstance(target, Motion) else target

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """Return the springs beyond what `pulls` can express; none in the plain case.

        With a robust scale or several poses, one per degree of freedom that pulls; with a tolerance, one that measures;
        with a full weight matrix, one per coupled pair.
        """
        matrix, home = self._matrix(skeleton), self._home(skeleton)
        gains = np.diag(matrix)
        out = []
        if self.robust is not None or home.ndim > 1:
            what = "Posture: robust" if self.robust is not None else "Posture: several poses"
            if np.count_nonzero(matrix - np.diag(gains)):
                raise GoalError(what, expected="a diagonal weight", got="a full matrix")
            for i in np.flatnonzero(gains):
                out.append(dof_spring(skeleton, int(i), home[..., i], float(gains[i]), self.tolerance, self.robust))
            return out
        pairs, _, ratios = pairs_of(matrix, "Posture: weight")
        for i, j in zip(*np.nonzero(pairs), strict=True):
            data = coupling_data(int(i), int(j), float(ratios[i, j]))
            data[WEIGHT], offset = pairs[i, j], offset_row(home[i] - ratios[i, j] * home[j])
            out.append(Spring(COUPLING_SPRING, int(skeleton.figure.dof[i, BODY]), data, offset, np.inf, "pairs"))
        if np.isfinite(self.tolerance):
            for i in np.flatnonzero(gains):
                out.append(dof_spring(skeleton, int(i), home[i], 0.0, self.tolerance, None)._replace(measures=True))
        return out

    def pulls(self, skeleton: Skeleton) -> tuple[np.ndarray, np.ndarray]:
        """Return the stiffness (n,) of the spring on each degree of freedom, and its home (n,)."""
        home = self._home(skeleton)
        if self.robust is not None or home.ndim > 1:
            return np.zeros(skeleton.size), skeleton.rest.copy()
        return pairs_of(self._matrix(skeleton), "Posture: weight")[1], home

    def _matrix(self, skeleton: Skeleton) -> np.ndarray:
        """Return the stiffness matrix (n, n): G W G, G the roots of the stiffness of the joints."""
        root = np.sqrt(self._gains(skeleton))
        if self.weight.shape == (skeleton.size, skeleton.size) and skeleton.size > 1:
            return root[:, None] * square_weight(self.weight, skeleton.size, "Posture: weight") * root
        return np.diag(np.diag(square_weight(self.weight, skeleton.size, "Posture: weight")) * root * root)

    def _home(self, skeleton: Skeleton) -> np.ndarray:
        if self.pose is None or (isinstance(self.pose, str) and self.pose == "rest"):
            return skeleton.rest.copy()
        if isinstance(self.pose, str):
            bounded = np.isfinite(skeleton.lower) & np.isfinite(skeleton.upper)
            both = np.where(bounded, skeleton.lower, 0.0) + np.where(bounded, skeleton.upper, 0.0)
            return np.where(bounded, 0.5 * both, skeleton.rest)
        if isinstance(self.pose, dict):
            return skeleton.pose(self.pose)
        return numbers(self.pose, (skeleton.size,), "Posture: pose")

    def _gains(self, skeleton: Skeleton) -> np.ndarray:
        if self.gains is None:
            return np.where(skeleton.gain > 0.0, skeleton.gain, 1.0) ** -2.0
        if isinstance(self.gains, dict):
            out = np.zeros(skeleton.size)
            for joint, gain in self.gains.items():
                out[skeleton.index(joint)] = nonneg(gain, f"Posture: stiffness of {joint!r}")
            return out
        gains = numbers(self.gains, (), "Posture: stiffness")
        if gains.shape not in ((), (1,), (skeleton.size,)):
            raise GoalError("Posture: stiffness", expected=f"one number or {skeleton.size}", got=f"shape {gains.shape}")
        if (gains < 0.0).any():
            raise GoalError("Posture: stiffness", expected="non-negative numbers", got=f"{gains.min():g}")
        return np.broadcast_to(gains, (skeleton.size,)).copy()


def dof_spring(
    skeleton: Skeleton, dof: int, home: Any, weight: float, tolerance: float, robust: float | None
) -> Spring:
    """Return a COUPLING spring on one degree of freedom: the ratio of its leader is 0."""
    if skeleton.size < 2 and weight:
        raise GoalError("Posture", expected="a figure with two degrees of freedom or more", got="one")
    data = coupling_data(dof, (dof + 1) % skeleton.size, 0.0)
    data[WEIGHT] = weight
    data[ROBUST] = 0.0 if robust is None else weight * robust**2
    return Spring(COUPLING_SPRING, int(skeleton.figure.dof[dof, BODY]), data, offset_row(home), tolerance)


def pairs_of(matrix: np.ndarray, what: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (pairs (n, n), rest (n,), ratios (n, n)): x'M x = sum pairs_ij (x_i - ratio_ij x_j)^2 + sum rest_i x_i^2.

    With x > 0 the eigenvector of the smallest eigenvalue of the comparison matrix (the diagonal minus the absolute
    values off it), weights |M_ij| x_j / x_i and ratios -+ x_i / x_j leave that eigenvalue on every x_i^2. It is
    non-negative exactly where M is scaled diagonally dominant.
    """
    n = len(matrix)
    pairs, ratios, rest = np.zeros((n, n)), np.zeros((n, n)), np.diag(matrix).copy()
    off = np.abs(matrix - np.diag(rest))
    joined = np.flatnonzero(off.any(axis=0))
    if joined.size == 0:
        return pairs, rest, ratios
    for block in _connected(off[np.ix_(joined, joined)] > 0.0):
        part = joined[block]
        values, vectors = np.linalg.eigh(np.diag(rest[part]) - off[np.ix_(part, part)])
        if values[0] < -1e-12 * np.abs(values).max():
            raise GoalError(
                what, expected="a matrix that is a sum of pairs (scaled diagonally dominant)",
                got=f"a remainder of {values[0]:.3g} on one degree of freedom",
            )  # fmt: skip
        x = np.abs(vectors[:, 0])
        for a, i in enumerate(part):
            for b, j in enumerate(part[a + 1 :], start=a + 1):
                if matrix[i, j] != 0.0:
                    pairs[i, j] = abs(matrix[i, j]) * x[b] / x[a]
                    ratios[i, j] = -np.sign(matrix[i, j]) * x[a] / x[b]
        rest[part] = max(0.0, values[0])
    return pairs, rest, ratios


def _connected(joined: np.ndarray) -> list[np.ndarray]:
    """Return the connected components of a symmetric relation (n, n), as arrays of indices."""
    left, groups = set(range(len(joined))), []
    while left:
        group, new = set(), {min(left)}
        while new:
            group |= new
            new = {int(j) for i in new for j in np.flatnonzero(joined[i])} - group
        groups.append(np.array(sorted(group)))
        left -= group
    return groups


def joined_pulls(
    pull: np.ndarray, home: np.ndarray, more: np.ndarray, there: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sum of two sets of springs (n,) on degrees of freedom, and their homes (n,)."""
    total = pull + more
    some = total > 0.0
    return total, np.where(some, (pull * home + more * there) / np.where(some, total, 1.0), there)
