"""Six-axis arms with a closed form: how they are recognised, their poses for a target, and solves that use them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from posable.engine.bounds import CONVERGED
from posable.engine.jit import machine_code, run_chunks, solving_time
from posable.engine.joints import TURN
from posable.engine.layout import FIRST, KIND, LAST, PARENT, TARGETS, WEIGHT
from posable.goals.base import Goal
from posable.goals.orientation import POSE_TOLERANCES, Pose
from posable.limb.six_axis import (
    ARM,
    AXIS,
    CENTER,
    COSINE,
    FAMILY,
    HOME,
    LENGTH,
    MEETING,
    MEMORY,
    MOST,
    NORMAL,
    PARALLEL,
    PLACE,
    REVERSED,
    SINE,
    TRANSFORM,
    WRIST,
    nearest_poses,
    six_axis_poses,
)
from posable.model.kinematics import forward, scratch
from posable.model.skeleton import Skeleton, per_figure
from posable.problem import Problem
from posable.solvers.base import SMALL, RawResult, SolveOptions, limits_of
from posable.solvers.result import Result

CHUNK = 256  # problems per thread and turn
TIGHT = 1e-6  # [m, rad]: tolerance that the closed form always meets
NEARLY = 1e-5  # [m, rad]: error of axes that count as meeting or parallel, as in rounded files
_ONE_ROW = (np.full(1, CONVERGED), np.zeros(1), np.zeros(1))  # codes, iterations and evaluations of a single solve
_TOLERANCES = np.array(POSE_TOLERANCES)
for _array in (*_ONE_ROW, _TOLERANCES):
    _array.flags.writeable = False  # shared by all of them


# --- The hinges of an arm ---


@dataclass(frozen=True)
class Hinges:
    """The six hinges that carry a joint or site.

    Attributes:
        columns: (6,) where they are in a pose.
        axes: (6, 3), of unit length, at the zero pose.
        places: (6, 3) [m], a point on each axis.
        tool: (4, 4) [m], the joint or site at the zero pose.
    """

    columns: np.ndarray
    axes: np.ndarray
    places: np.ndarray
    tool: np.ndarray


def six_hinges(skeleton: Skeleton, body: str) -> Hinges | None:
    """Return the hinges that move a joint or site; None unless they are six, and nothing else moves it."""
    figure, dofs, at = skeleton.figure, list[int](), int(skeleton.frame_bodies[skeleton.frame(body)])
    while at >= 0:
        dofs = [*range(int(figure.body[at, FIRST]), int(figure.body[at, LAST])), *dofs]
        at = int(figure.body[at, PARENT])
    if len(dofs) != 6 or (figure.dof[dofs, KIND] != TURN).any() or skeleton.frozen[dofs].any():
        return None
    zero = forward(skeleton, np.zeros(skeleton.size))
    axes, places = np.empty((6, 3)), np.empty((6, 3))
    for k, i in enumerate(dofs):
        joint = next(
            joint
            for joint, where in zip(skeleton.joints, skeleton.slices, strict=True)
            if where.start <= i < where.stop
        )
        if joint.motion.size != 1:
            return None
        element = joint.motion.dofs[0]
        axes[k] = zero.rotation_matrix(joint.name) @ joint.motion.basis[:, element.axis] * element.sign
        places[k] = zero.position(joint.name)
    return Hinges(np.array(dofs), axes, places, zero.matrix(body))


# --- The closed form ---


@dataclass(frozen=True, eq=False)
class SixAxisArm:
    """An arm with a closed form.

    Attributes:
        packed: (ARM,) as the kernels read it.
        columns: (6,) where the packed axes are in a pose.
        size: n, of a pose.
    """

    packed: np.ndarray
    columns: np.ndarray
    size: int

    def poses(self, target: np.ndarray, lower: np.ndarray, upper: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Return the poses (k, n) [rad, m] that bring the tool to a target, nearest to the start first.

        Args:
            target: (4, 4) [m] of the tool.
            lower: (n,) [rad, m].
            upper: (n,) [rad, m].
            start: (n,) [rad, m]; joints that do not move the tool stay there.
        """
        out = np.empty((MOST, self.size))
        flat, work = target.reshape(TRANSFORM), np.empty(MEMORY)
        count = six_axis_poses(self.packed, self.columns, flat, lower, upper, start, out, work)
        return out[:count]

    def solve(self, problem: Problem, options: SolveOptions) -> tuple[RawResult, np.ndarray | None]:
        """Return the poses nearest to the starts of a problem that is one Pose of this arm.

        Returns:
            The result, without iterations, and the rows that have no pose within the limits; None if all have one.
        """
        t = len(options.starts)
        poses, errors, good = np.empty((t, self.size)), np.empty((t, 2)), np.empty(t, np.int64)
        codes, iterations, evaluations = _ONE_ROW if t == 1 else (np.full(t, CONVERGED), np.zeros(t), np.zeros(t))
        raw = RawResult(poses, codes, errors, iterations, evaluations, None, good)
        if t > SMALL:
            run_chunks(lambda piece: self._solve_chunk(problem, options, raw, piece), t, CHUNK, options.threads)
            missed = t - np.count_nonzero(good)
        else:
            missed = (nearest_poses if t > 1 else nearest_pose)(
                self.packed, self.columns, spring_targets(problem), problem.tolerances, options.lower, options.upper,
                options.starts, poses, errors, good, scratch(MEMORY),
            )  # fmt: skip
        return raw, np.flatnonzero(good == 0) if missed else None

    def _solve_chunk(self, problem: Problem, options: SolveOptions, raw: Any, piece: slice) -> None:
        """Solve some problems of a batch."""
        targets = spring_targets(problem)
        targets = targets if len(targets) == 1 else targets[piece]
        nearest_poses(
            self.packed, self.columns, targets, problem.tolerances, options.lower, options.upper,
            options.starts[piece], raw.poses[piece], raw.errors[piece], raw.good[piece], scratch(MEMORY),
        )  # fmt: skip


# --- One pose, without a packed problem ---


class ArmResult(Result):
    """The result of one Pose that a six-axis arm reaches; everything but the pose is made on access."""

    def __init__(self, arguments: tuple[Any, ...], poses: np.ndarray, errors: np.ndarray, begin: float):
        self._arguments, self._poses, self._errors = arguments, poses, errors
        self.pose, self.ok, self.solver, self.shape = poses[0], True, "newton", ()
        self.chosen, self.searches = {}, {}
        self.seconds = solving_time() - begin

    @cached_property
    def problem(self) -> Problem:
        """The problem."""
        return Problem(*self._arguments[:2])

    @cached_property
    def options(self) -> SolveOptions:
        """The checked arguments of the solve."""
        return SolveOptions(*self._arguments[2:])

    @cached_property
    def outcome(self) -> RawResult:
        """What the closed form returned."""
        return RawResult(self._poses, _ONE_ROW[0], self._errors, _ONE_ROW[1], _ONE_ROW[2], None, np.ones(1))


class LoneArm:
    """A six-axis arm and its limits, for solves of one Pose without a packed problem."""

    def __init__(self, arm: SixAxisArm, skeleton: Skeleton, limits: bool):
        self.arm, self.skeleton = arm, skeleton
        self.lower, self.upper = limits_of(skeleton, limits)[:2]

    def solve(self, goal: Goal, starts: np.ndarray, rest: tuple[Any, ...], begin: float) -> ArmResult | None:
        """Return the pose nearest to a start that reaches a goal; None if there is none.

        Args:
            goal: A Pose that pins the frame.
            starts: (1, n) [rad, m], its own.
            rest: The other `SolveOptions`.
            begin: [s], when the call began.
        """
        arm, lower, upper = self.arm, self.lower, self.upper
        poses, errors = np.empty((1, arm.size)), np.empty((1, 2))
        missed = nearest_pose(
            arm.packed, arm.columns, goal.target.reshape(1, TRANSFORM),
            _TOLERANCES if goal.tolerance is POSE_TOLERANCES else np.array(goal.tolerance),
            lower, upper, starts, poses, errors, np.empty(1, np.int64), scratch(MEMORY),
        )  # fmt: skip
        return None if missed else ArmResult((self.skeleton, goal, starts, lower, upper, *rest), poses, errors, begin)


@per_figure
def lone_arm(skeleton: Skeleton, body: str, limits: bool) -> LoneArm | None:
    """Return the closed form of the arm that carries a body; None if there is none, or a solve needs more."""
    if limits_of(skeleton, limits)[2] is not None or skeleton.couplings or skeleton.loops:
        return None
    if skeleton.free_root is not None or body not in (*skeleton.site_names, *skeleton.names):
        return None
    arm = six_axis_arm(skeleton, body)
    return None if arm is None else LoneArm(arm, skeleton, limits)


# --- Problems ---


_code: list[Any] = []  # of `nearest_poses`


def nearest_pose(*arguments: Any) -> int:
    """Call `nearest_poses` for one problem, by its machine code from the second call on (see `machine_code`)."""
    if _code:
        return _code[0](*arguments)
    missed = nearest_poses(*arguments)
    _code.append(machine_code(nearest_poses.compiled, arguments))
    return missed


def spring_targets(problem: Problem) -> np.ndarray:
    """Return the targets of a problem as `nearest_poses` reads them."""
    return problem.targets.reshape(-1, 2 * TARGETS)


def arm_of(problem: Problem) -> SixAxisArm | None:
    """Return the arm of a problem whose only goal is a full Pose of its tool; otherwise None."""
    skeleton, goal = problem.skeleton, problem.goals[0]
    if not isinstance(goal, Pose) or not problem.plain or problem.soft or len(problem.springs) != 2:
        return None
    weights = problem.constants[:, :, WEIGHT : WEIGHT + 3]
    if goal.point is not None or not (weights > 0.0).all() or not (problem.tolerances >= TIGHT).all():
        return None
    return six_axis_arm(skeleton, goal.body)


@lru_cache(maxsize=64)
def six_axis_arm(skeleton: Skeleton, body: str) -> SixAxisArm | None:
    """Return the closed form of the six hinges that move a joint or site; None if there is none."""
    hinges = six_hinges(skeleton, body)
    if hinges is None:
        return None
    axes, places, columns = hinges.axes, hinges.places, hinges.columns
    home = np.linalg.inv(hinges.tool)
    for back in (False, True):
        h, p = (-axes[::-1], places[::-1]) if back else (axes, places)
        packed = _wrist(h, p) if (center := _meeting(h[3:], p[3:])) is not None else None
        if packed is None and (center := _meeting(h[4:], p[4:])) is not None:
            packed = _parallel(h, p)
        if packed is not None and center is not None:
            packed[HOME : HOME + 9], packed[HOME + 9 : HOME + 12] = home[:3, :3].ravel(), home[:3, 3]
            packed[REVERSED], packed[CENTER : CENTER + 3] = float(back), center
            for k in range(6):  # move the point of each axis close to the centre, for accuracy
                if k > 3 or (k == 3 and packed[FAMILY] == WRIST):
                    packed[PLACE + 3 * k : PLACE + 3 * k + 3] = p[k] + h[k] * (h[k] @ (center - p[k]))
            packed.flags.writeable = False
            return SixAxisArm(packed, columns[::-1].copy() if back else columns, skeleton.size)
    return None


def _meeting(axes: np.ndarray, places: np.ndarray) -> np.ndarray | None:
    """Return the point (3,) where lines (k, 3) meet; None if they do not, or are parallel."""
    across = np.eye(3) - axes[:, :, None] * axes[:, None, :]
    normal = across.sum(axis=0)
    if np.linalg.eigvalsh(normal)[0] < NEARLY:
        return None
    point = np.linalg.solve(normal, np.einsum("kij,kj->i", across, places))
    off = np.einsum("kij,kj->ki", across, point - places)
    return point if np.linalg.norm(off, axis=1).max() < NEARLY else None


def _packed(family: float, axes: np.ndarray, places: np.ndarray) -> np.ndarray:
    out = np.zeros(ARM)
    out[FAMILY], out[AXIS : AXIS + 18], out[PLACE : PLACE + 18] = family, axes.ravel(), places.ravel()
    return out


def _wrist(axes: np.ndarray, places: np.ndarray) -> np.ndarray | None:
    """Return an arm whose last three axes meet, with its first two axes at the feet of their common normal."""
    one, two, places = axes[0], axes[1], places.copy()
    normal, between = np.cross(one, two), places[1] - places[0]
    sine = float(np.linalg.norm(normal))
    if sine > MEETING:
        normal /= sine
        s, t = np.linalg.lstsq(np.stack([one, -two], axis=-1), between, rcond=None)[0]
        places[0], places[1] = places[0] + s * one, places[1] + t * two
    else:
        places[1] -= two * (two @ between)
    between = places[1] - places[0]
    length = float(np.linalg.norm(between))
    if length > MEETING:
        normal = between / length
    elif sine <= MEETING:
        return None  # two joints on one axis
    else:
        length = 0.0
    out = _packed(WRIST, axes, places)
    out[NORMAL : NORMAL + 3], out[LENGTH] = normal, length
    out[COSINE], out[SINE] = one @ two, one @ np.cross(two, normal)
    return out


def _parallel(axes: np.ndarray, places: np.ndarray) -> np.ndarray | None:
    """Return an arm whose axes 2, 3 and 4 are parallel; None if they are not."""
    if np.linalg.norm(np.cross(axes[1], axes[2:4]), axis=1).max() > NEARLY:
        return None
    return _packed(PARALLEL, axes, places)
