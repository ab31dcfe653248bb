"""Newton's method frame by frame over a clip, in one compiled call: each frame starts from a prediction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from posable.engine import layout
from posable.engine.assemble import energy_at, springs_of
from posable.engine.bounds import copy_into, project, recentre_all
from posable.engine.jit import entry, kernel
from posable.engine.joints import ROTVEC, SWING, TURN, forward, length3, parameters_of
from posable.engine.layout import (
    AT,
    AXIS,
    BODY,
    BODY_A,
    KIND,
    MAX_ITERATIONS,
    OFF,
    PARENT,
    POINT,
    ROBUST,
    WEIGHT,
    workspace,
)
from posable.engine.newton import ALWAYS, FIRST_DAMPING, NEVER, STATE_WIDTH, iterate, newton_params
from posable.engine.springs import rotated
from posable.goals import Position
from posable.mocap.unwrap import open_box
from posable.model.skeleton import Skeleton
from posable.problem import Problem

# --- Kernels ---


class FrameRules(NamedTuple):
    """How `solve_frames` starts and ends a frame, beside the params of its Newton steps (engine/newton.py)."""

    energy_tolerance: float  # energy below which a frame is done
    min_gain: float  # fraction of the energy that a step must gain; otherwise it is the last
    extrapolation: float  # fraction of the last change that the prediction repeats; 0 starts from the last pose
    half_turn_ratio: float  # ratio to the usual starting energy above which half turns are tried first; 0: never
    # 1: frames start from their own rows of poses, pulled to `home`, 2: pulled to these rows; 0: from the prediction,
    # pulled to it
    independent: float
    max_deviation: float  # [rad, m] largest deviation of a dof from its prediction; 0: unlimited


# Columns of the notes on each frame
ENERGY, ITERATIONS, EVALUATIONS, SEEN, TURNED = range(5)
NOTES = 5

HALF_TURNS = 3  # per frame, at most
MAX_CARRIED = 4  # numbers of bodies below a turned one to turn with it: 0 to 3
HALF_TURN_GAIN = 0.5  # fraction of the energy that may remain after a half turn
USUAL_RATE = 0.1  # rate at which the usual starting energy is updated


@kernel
def set_targets(row, target, markers, points, robust, t):
    """Write the markers (g, 3) and points (g, 3), if any, of frame t into the springs; return how many are active."""
    seen = 0
    for k in range(markers.shape[1]):
        x, y, z = markers[t, k, 0], markers[t, k, 1], markers[t, k, 2]
        if x == x and y == y and z == z:  # noqa: PLR0124 - NaN is not itself
            target[k, AT], target[k, AT + 1], target[k, AT + 2] = x, y, z
            row[k, ROBUST] = robust[k]
            if robust[k] >= 0.0:
                seen += 1
        else:
            row[k, ROBUST] = OFF
        if points.shape[0] > 0:
            row[k, POINT], row[k, POINT + 1], row[k, POINT + 2] = points[t, k, 0], points[t, k, 1], points[t, k, 2]
    return seen


@kernel
def minimize_frame(figure, order, springs, lower, upper, theta, ws, fixed, scale, params, rules, state, note):
    """Minimise the energy of one frame from theta (n,), already evaluated, in place, with Newton steps."""
    state[layout.EVALUATIONS], state[layout.ITERATIONS] = 1.0, 0.0
    trace = ws.hessian[:0]
    while state[layout.ITERATIONS] < params[MAX_ITERATIONS] and state[layout.ENERGY] > rules.energy_tolerance:
        state[layout.ITERATIONS] += 1.0
        before = state[layout.ENERGY]
        if not iterate(figure, order, springs, lower, upper, theta, ws, fixed, scale, state, params, trace):
            state[layout.ENERGY] = energy_at(figure, springs, theta, ws)
            break
        if before - state[layout.ENERGY] < rules.min_gain * before:
            break
    note[ENERGY], note[ITERATIONS] = state[layout.ENERGY], state[layout.ITERATIONS]
    note[EVALUATIONS] = state[layout.EVALUATIONS]


@kernel
def half_turn(figure, theta, j, carried, lower, upper, out):
    """Write into out (n,) the pose with the body of dof j turned by pi about that dof's axis, within the limits.

    The turn comes after the dof: R_j(a) R_k(b) R_j(pi) = R_j(a + pi) R_k(-b). `carried` bodies below it turn in the
    same way, as when a whole limb turns about its length; the others keep their values.
    """
    copy_into(theta, out)
    out[j] += math.pi if out[j] < 0.0 else -math.pi
    for i in range(j + 1, theta.shape[0]):
        b, levels = figure.dof[i, BODY], 0
        while b > figure.dof[j, BODY]:
            b = figure.body[b, PARENT]
            levels += 1
        if b == figure.dof[j, BODY] and levels <= carried and figure.dof[i, AXIS] != figure.dof[j, AXIS]:
            out[i] = -out[i]
    project(out, lower, upper)


@kernel
def try_half_turns(figure, springs, lower, upper, theta, ws, note):
    """Turn limbs by pi about their axes, in place, where that alone greatly lowers the energy."""
    n = theta.shape[0]
    best = energy_at(figure, springs, theta, ws)
    for _ in range(HALF_TURNS):
        target = HALF_TURN_GAIN * best
        chosen, chosen_carried = -1, 0
        for j in range(n):
            if figure.dof[j, KIND] != TURN or lower[j] >= upper[j]:
                continue
            for carried in range(MAX_CARRIED):
                half_turn(figure, theta, j, carried, lower, upper, ws.trial)
                energy = energy_at(figure, springs, ws.trial, ws)
                note[EVALUATIONS] += 1.0
                if energy < target:
                    target, chosen, chosen_carried = energy, j, carried
        if chosen < 0:
            break
        half_turn(figure, theta, chosen, chosen_carried, lower, upper, ws.trial)
        copy_into(ws.trial, theta)
        best = target
        note[TURNED] += 1.0


@kernel
def deviation_box(theta, lower, upper, low, high, swerve):
    """Write the box (n,), (n,) of one frame: the limits, and at most `swerve` from theta."""
    for i in range(theta.shape[0]):
        low[i] = max(lower[i], theta[i] - swerve)
        high[i] = min(upper[i], theta[i] + swerve)


@kernel
def unwrap_last(figure, theta, last):
    """Shift rotation vectors of last (n,) by a whole turn where that is nearer to theta (n,).

    A vector that passed pi was shifted by a whole turn. Without this correction the prediction of the next frame would
    repeat that shift.
    """
    for i in range(theta.shape[0]):
        kind = figure.dof[i, KIND]
        if kind != ROTVEC and kind != SWING:
            continue
        m = parameters_of(kind)
        square, along = 0.0, 0.0
        for k in range(m):
            square += last[i + k] * last[i + k]
            along += last[i + k] * theta[i + k]
        length = math.sqrt(square)
        if along < length * (length - math.pi):  # then theta is nearer to the vector that is 2 pi shorter
            for k in range(m):
                last[i + k] *= (length - 2.0 * math.pi) / length


@entry
def solve_frames(
    figure, order, kind, constants, targets, robust, pull, home, lower, upper, low, high,
    markers, points, poses, last, before, work, d, params, rules, state, errors, notes,
):  # fmt: skip
    """Solve the frames of a clip one after the other.

    constants and targets (T or 1, g, ...) are overwritten by markers (T or 0, g, 3) [m], NaN where unseen, and points
    (T or 0, g, 3) [m] in the bodies. robust (g,): the springs' values of ROBUST. pull (n,): stiffness towards the
    prediction, which is written to home (n,). last, before (n,): the poses of the two frames before the first,
    overwritten by those of the last two. low, high (n,) and state (STATE_WIDTH,) are scratch. Writes poses (T, n),
    errors (T, g) [m, rad] and notes (T, NOTES).
    """
    n, g = figure.dof.shape[0], kind.shape[0]
    ws, own = workspace(figure, g, work, d)
    fixed, scale = own[:n], own[n : 2 * n]
    state[layout.DAMPING] = params[FIRST_DAMPING]
    usual = -1.0
    for t in range(poses.shape[0]):
        theta = poses[t]
        springs = springs_of(kind, constants, targets, t, pull, home)
        row = springs.constants
        notes[t, SEEN] = float(g)
        if markers.shape[0] > 0:
            notes[t, SEEN] = float(set_targets(row, springs.targets, markers, points, robust, t))
        if rules.independent == 0.0:
            for i in range(n):
                home[i] = theta[i] = last[i] + rules.extrapolation * (last[i] - before[i])
        if rules.independent == 2.0:
            copy_into(theta, home)
        project(theta, lower, upper)
        deviation_box(theta, lower, upper, low, high, math.inf)
        notes[t, TURNED] = 0.0
        state[layout.ENERGY] = energy = energy_at(figure, springs, theta, ws)
        if rules.half_turn_ratio > 0.0:
            if usual >= 0.0 and energy > rules.half_turn_ratio * usual:
                try_half_turns(figure, springs, lower, upper, theta, ws, notes[t])
                state[layout.ENERGY] = energy_at(figure, springs, theta, ws)
            if t > 1 or usual >= 0.0:  # the first start is arbitrary and does not count
                usual = energy if usual < 0.0 else usual + USUAL_RATE * (min(energy, 2.0 * usual) - usual)
            elif t == 0:
                usual = -1.0
        state[layout.DAMPING] = min(state[layout.DAMPING], params[FIRST_DAMPING])
        if rules.max_deviation > 0.0 and rules.independent == 0.0 and notes[t, TURNED] == 0.0:
            deviation_box(theta, lower, upper, low, high, rules.max_deviation)
        minimize_frame(figure, order, springs, low, high, theta, ws, fixed, scale, params, rules, state, notes[t])
        for k in range(g):
            errors[t, k] = ws.error[k] if row[k, ROBUST] >= 0.0 else math.nan
        if recentre_all(figure, theta, lower, upper):
            unwrap_last(figure, theta, last)
        copy_into(last, before)
        copy_into(theta, last)


@entry
def marker_errors(figure, kind, constants, poses, markers, work, d, errors):
    """Write how far the points of the springs are from markers (T, g, 3) [m] at poses (T, n): errors (T, g) [m]."""
    g = kind.shape[0]
    ws, _ = workspace(figure, g, work, d)
    for t in range(poses.shape[0]):
        forward(figure, poses[t], ws)
        for k in range(g):
            p, row = ws.position[kind[k, BODY_A]], constants[0, k]
            x, y, z = rotated(ws.rotation[kind[k, BODY_A]], row, POINT)
            x, y, z = ws.origin[0] + p[0] + x, ws.origin[1] + p[1] + y, ws.origin[2] + p[2] + z
            errors[t, k] = length3(x - markers[t, k, 0], y - markers[t, k, 1], z - markers[t, k, 2])


# --- Interface ---

_NONE = np.zeros((0, 0, 3))


@dataclass(frozen=True)
class FrameOptions:
    """Options of a frame solver: those of its Newton steps, and the pull to the prediction [m^2/rad^2]."""

    max_iterations: int = 10
    energy_tolerance: float = 0.0
    min_gain: float = 1e-4
    damping: float = 1e-2
    extrapolation: float = 0.0
    exact_hessian: bool = False
    half_turn_ratio: float = 0.0
    independent: bool = False
    keep: bool = False  # independent frames are pulled to where they start
    pull: float = 0.0
    max_deviation: float = 0.0

    def params(self) -> np.ndarray:
        """Return the params of the Newton steps (engine/newton.py)."""
        return np.array(
            newton_params(
                self.max_iterations, damping=self.damping,
                exact=ALWAYS if self.exact_hessian else NEVER, tries=8.0, stationary_gain=0.25 * self.min_gain,
                shrink=0.1, highest_damping=1e6,
            )
        )  # fmt: skip

    def rules(self) -> FrameRules:
        """Return how `solve_frames` starts and ends a frame."""
        start = 2.0 if self.keep else self.independent
        ends = (self.energy_tolerance, self.min_gain, self.extrapolation, self.half_turn_ratio)
        return FrameRules(*map(float, (*ends, start, self.max_deviation)))


class FrameSolver:
    """A problem whose targets change from frame to frame.

    Its springs are packed once. `lower`, `upper` (n,): the box, unbounded for angles that can make a whole turn.
    `pull` (n,): factors of the options' pull, 1 by default.
    """

    def __init__(self, problem: Problem, *, limits: bool = True):
        self.problem = problem
        skeleton = problem.skeleton
        self.lower, self.upper = open_box(skeleton, limits)
        self.robust = problem.constants[0, :, ROBUST].copy()
        self.pull = np.ones(skeleton.size)

    def __call__(
        self,
        options: FrameOptions,
        poses: np.ndarray,
        *,
        targets: np.ndarray = _NONE,
        points: np.ndarray = _NONE,
        last: np.ndarray | None = None,
        before: np.ndarray | None = None,
        home: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Solve poses (T, n), in place; return errors (T, g) [m, rad] and notes (T, NOTES).

        home (n,): the pose to which independent frames are pulled; by default the rest pose.
        """
        problem = self.problem
        t, g = len(poses), len(problem.springs)
        errors, notes = np.empty((t, g)), np.empty((t, NOTES))
        last = problem.skeleton.rest if last is None else last
        home = problem.skeleton.rest if home is None else home
        before = last if before is None else before
        part = problem.moving
        if options.independent or options.keep or np.delete(last - before, part.dofs).any():
            part = problem.whole  # otherwise, dofs without targets keep the values of the last frame
        n, dofs = len(part.dofs), part.dofs
        own = poses if n == poses.shape[1] else np.empty((t, n))
        problem.fitted(solve_frames)(
            part.figure, part.order, part.kind, problem.constants.copy(), problem.targets.copy(),
            self.robust, self.pull[dofs] * options.pull, home[dofs], self.lower[dofs], self.upper[dofs],
            np.empty(n), np.empty(n), np.ascontiguousarray(targets), np.ascontiguousarray(points), own, last[dofs],
            before[dofs], np.empty(problem.work_size), part.depth,
            options.params(), options.rules(), np.zeros(STATE_WIDTH), errors, notes,
        )  # fmt: skip
        if own is not poses:
            poses[:] = np.clip(last, self.lower, self.upper)
            poses[:, dofs] = own
        return errors, notes

    def assess(self, poses: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return errors (T, g) [m] and notes (T, NOTES) of poses (T, n) that another solver found."""
        errors, notes = self.measure(poses, targets), np.zeros((len(poses), NOTES))
        scale = self.robust[: errors.shape[1]]
        energy = 0.5 * self.problem.constants[0, : errors.shape[1], WEIGHT] * errors**2
        root = np.sqrt(1.0 + 2.0 * energy / np.where(scale > 0.0, scale, 1.0))
        notes[:, ENERGY] = np.nansum(np.where(scale > 0.0, 2.0 * energy / (root + 1.0), energy), axis=1)
        notes[:, SEEN] = np.isfinite(errors).sum(axis=1)
        return errors, notes

    def measure(self, poses: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return how far positions are from targets (T, g, 3) [m] at poses (T, n): (T, g) [m], NaN as targets are."""
        part, errors = self.problem.moving, np.empty(targets.shape[:2])
        marker_errors(
            part.figure, part.kind, self.problem.constants, np.ascontiguousarray(poses[:, part.dofs]),
            np.ascontiguousarray(targets), np.empty(self.problem.work_size), part.depth, errors,
        )  # fmt: skip
        return errors


def marker_frame_solver(
    skeleton: Skeleton, sites: Sequence[str], *, limits: bool = True, robust: float | None = None
) -> FrameSolver:
    """Return the frame solver of sites at markers; robust [m]: error beyond which forces no longer grow."""
    return FrameSolver(
        Problem(skeleton, [Position(site, (0.0, 0.0, 0.0), robust=robust) for site in sites]), limits=limits
    )
