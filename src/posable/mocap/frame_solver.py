"""A figure with markers, packed for the compiled walk, and the walk called with names instead of columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from posable.engine.assemble import clear_hessian, derivatives, energy_at, springs_of, total_energy
from posable.engine.bounds import armijo, project, recentre_all
from posable.engine.forward import forward, workspace
from posable.engine.jit import entry, kernel
from posable.engine.joints import ROTVEC, SWING, TURN, parameters_of
from posable.engine.layout import AT, AXIS, BODY, KIND, OFF, PARENT, POINT, ROBUST
from posable.engine.newton import damping_scale, hold_bounds, propose
from posable.goals import Position
from posable.mocap.unwrap import open_box
from posable.model.skeleton import Skeleton
from posable.problem import Problem

# --- One compiled walk over the frames of a clip ---

# What the walk is told: entries of its options
(
    MOST,  # iterations a frame
    ENOUGH,  # energy at which a frame is done
    GAIN,  # part of the energy that a step must gain, or it is the last
    DAMPING,  # of a frame's first step, relative to the mean diagonal of the Hessian
    KEEP,  # part of the last change that the prediction of a frame repeats: 0 starts from the last pose
    EXACT,  # 1: the exact Hessian where it is positive definite; 0: Gauss-Newton's
    COUPLED,  # 1: springs couple branches
    JUMP,  # a frame that starts with so many times the usual energy tries half turns first; 0: never
    OWN,  # 1: each frame starts from its own row of poses and is pulled to `home`; 0: from the prediction, pulled to it
    SWERVE,  # [rad, m] that a dof may be off its prediction; 0: no such limit
) = range(10)
OPTIONS = 10

# What it tells of each frame: columns of its notes
ENERGY, ITERATIONS, EVALUATIONS, SEEN, TURNED = range(5)
NOTES = 5

ALPHA = 1e-4  # of the Armijo test
TRIES = 8  # dampings tried for one step
DAMPING_FLOOR, DAMPING_CEILING = 1e-9, 1e6
HALF_TURNS = 3  # at most, in one frame
CARRIED = 4  # bodies below a turned one that may be turned with it, and one
WORTH = 0.5  # part of the energy that a half turn must leave, or less
USUAL = 0.1  # how fast the usual energy of a start follows


@kernel
def set_targets(row, target, markers, points, robust, t):
    """Put frame t's markers (g, 3) and points (g, 3), if any, into the springs; return how many pull."""
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
def try_step(figure, order, springs, lower, upper, theta, ws, fixed, scale, options, damping, energy, note):
    """Find a damped step from theta (n,) that lowers the energy, and take it; return (energy, damping), -1: no step."""
    n = theta.shape[0]
    for _ in range(TRIES):
        definite, slope, predicted, _ = propose(order, theta, lower, upper, ws, fixed, scale, damping)
        if not definite:
            return -2.0, damping
        if not predicted > 0.25 * options[GAIN] * energy:
            return -1.0, damping
        after = energy_at(figure, springs, ws.trial, ws)
        note[EVALUATIONS] += 1.0
        if after < energy and armijo(energy, after, slope, ALPHA):
            gain = (energy - after) / predicted
            for i in range(n):
                theta[i] = ws.trial[i]
            return after, damping * (0.1 if gain > 0.75 else (0.4 if gain > 0.25 else 2.0))
        damping = max(damping, 1e-5) * 8.0
        hold_bounds(order, theta, lower, upper, ws, fixed)
    return -1.0, damping


@kernel
def descend(figure, order, springs, lower, upper, theta, ws, fixed, scale, options, damping, note):
    """Minimise one frame's energy from theta (n,), in place; return the damping at its end."""
    forward(figure, theta, ws)
    energy = total_energy(figure, springs, theta, ws)
    note[EVALUATIONS], note[ITERATIONS] = 1.0, 0.0
    exact = options[EXACT]
    while note[ITERATIONS] < options[MOST] and energy > options[ENOUGH]:
        note[ITERATIONS] += 1.0
        if options[COUPLED] != 0.0:
            clear_hessian(ws)
        derivatives(figure, order, springs, theta, ws, exact)
        hold_bounds(order, theta, lower, upper, ws, fixed)
        damping_scale(order, ws.hessian, scale)
        after, damping = try_step(
            figure, order, springs, lower, upper, theta, ws, fixed, scale, options, damping, energy, note
        )
        damping = min(max(damping, DAMPING_FLOOR), DAMPING_CEILING)
        if after == -2.0 and exact != 0.0:  # indefinite: Gauss-Newton's Hessian is not
            exact = 0.0
            forward(figure, theta, ws)
            continue
        if after < 0.0:
            energy = energy_at(figure, springs, theta, ws)
            break
        done = energy - after < options[GAIN] * energy
        energy = after
        if done:
            break
    note[ENERGY] = energy
    return damping


@kernel
def half_turn(figure, theta, j, carried, lower, upper, out):
    """Write into out (n,) the pose with the body of dof j turned by pi about that dof's axis, within the limits.

    Turned after the dof, not by it: R_j(a) R_k(b) R_j(pi) = R_j(a + pi) R_k(-b). So many bodies below are carried along
    in the same way, as where all of a limb turns about its length; the others keep their values.
    """
    for i in range(theta.shape[0]):
        out[i] = theta[i]
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
def turn_around(figure, springs, lower, upper, theta, ws, note):
    """Turn limbs by pi about their axes, in place, where that alone lowers the energy by much."""
    n = theta.shape[0]
    best = energy_at(figure, springs, theta, ws)
    for _ in range(HALF_TURNS):
        target = WORTH * best
        chosen, chosen_carried = -1, 0
        for j in range(n):
            if figure.dof[j, KIND] != TURN or lower[j] >= upper[j]:
                continue
            for carried in range(CARRIED):
                half_turn(figure, theta, j, carried, lower, upper, ws.trial)
                energy = energy_at(figure, springs, ws.trial, ws)
                note[EVALUATIONS] += 1.0
                if energy < target:
                    target, chosen, chosen_carried = energy, j, carried
        if chosen < 0:
            break
        half_turn(figure, theta, chosen, chosen_carried, lower, upper, ws.trial)
        for i in range(n):
            theta[i] = ws.trial[i]
        best = target
        note[TURNED] += 1.0


@kernel
def narrow(theta, lower, upper, low, high, swerve):
    """Write the box (n,), (n,) of one frame: the limits, and no farther from theta than `swerve`."""
    for i in range(theta.shape[0]):
        low[i] = max(lower[i], theta[i] - swerve)
        high[i] = min(upper[i], theta[i] + swerve)


@kernel
def come_round(figure, theta, last):
    """Write rotation vectors of last (n,) the other way round where that is nearer to theta (n,).

    A vector that passed pi was brought back by a whole turn: the change since the last frame, which the prediction of
    the next one repeats, is then that of the motion, not of the numbers.
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
def walk(
    figure, order, kind, constants, targets, robust, pull, home, lower, upper, low, high,
    markers, points, poses, last, before, work, d, options, errors, notes,
):  # fmt: skip
    """Follow the targets of a clip frame by frame.

    constants and targets (T or 1, g, ...) are overwritten: markers (T or 0, g, 3) [m], NaN where unseen, and points
    (T or 0, g, 3) [m] in the bodies replace what they hold. robust (g,): what the springs have in ROBUST. pull (n,):
    stiffness towards the prediction, which is written into home (n,). last, before (n,): the poses of the two frames
    before the first, overwritten with those of the last two. low, high (n,): scratch. Writes poses (T, n), errors
    (T, g) [m, rad] and notes (T, NOTES).
    """
    n, b, g = figure.dof.shape[0], figure.body.shape[0], kind.shape[0]
    ws = workspace(work, n, b, g, d)
    fixed = work[work.shape[0] - 2 * n : work.shape[0] - n]
    scale = work[work.shape[0] - n :]
    damping = options[DAMPING]
    usual = -1.0
    for t in range(poses.shape[0]):
        theta = poses[t]
        springs = springs_of(kind, constants, targets, t, pull, home)
        row = springs.constants
        notes[t, SEEN] = float(g)
        if markers.shape[0] > 0:
            notes[t, SEEN] = float(set_targets(row, springs.targets, markers, points, robust, t))
        if options[OWN] == 0.0:
            for i in range(n):
                home[i] = theta[i] = last[i] + options[KEEP] * (last[i] - before[i])
        project(theta, lower, upper)
        narrow(theta, lower, upper, low, high, math.inf)
        notes[t, TURNED] = 0.0
        if options[JUMP] > 0.0:
            energy = energy_at(figure, springs, theta, ws)
            if usual >= 0.0 and energy > options[JUMP] * usual:
                turn_around(figure, springs, lower, upper, theta, ws, notes[t])
            if t > 1 or usual >= 0.0:  # the first start is any pose: it says nothing of the take
                usual = energy if usual < 0.0 else usual + USUAL * (min(energy, 2.0 * usual) - usual)
            elif t == 0:
                usual = -1.0
        damping = min(damping, options[DAMPING])
        if options[SWERVE] > 0.0 and options[OWN] == 0.0 and notes[t, TURNED] == 0.0:
            narrow(theta, lower, upper, low, high, options[SWERVE])
        damping = descend(figure, order, springs, low, high, theta, ws, fixed, scale, options, damping, notes[t])
        for k in range(g):
            errors[t, k] = ws.error[k] if row[k, ROBUST] >= 0.0 else math.nan
        if recentre_all(figure, theta, lower, upper):
            come_round(figure, theta, last)
        for i in range(n):
            before[i] = last[i]
            last[i] = theta[i]


# --- A figure with markers ---

_NONE = np.zeros((0, 0, 3))


@dataclass(frozen=True)
class Pace:
    """How a walk goes: `walking`'s options, and the stiffness of the pull to the prediction [m^2/rad^2]."""

    most: int = 10
    enough: float = 0.0
    gain: float = 1e-4
    damping: float = 1e-2
    keep: float = 0.0
    exact: bool = False
    jump: float = 0.0
    own: bool = False
    pull: float = 0.0
    swerve: float = 0.0

    def options(self, coupled: bool) -> np.ndarray:
        """Return the numbers that `walk` reads."""
        out = np.zeros(OPTIONS)
        out[MOST], out[ENOUGH], out[GAIN] = self.most, self.enough, self.gain
        out[DAMPING], out[KEEP], out[EXACT] = self.damping, self.keep, self.exact
        out[COUPLED], out[JUMP], out[OWN] = coupled, self.jump, self.own
        out[SWERVE] = self.swerve
        return out


class Walker:
    """A problem whose targets change from frame to frame.

    Its springs are packed once. `lower`, `upper` (n,): the box, open where an angle can come round. `pull` (n,):
    shares of a pace's pull, one by default.
    """

    def __init__(self, problem: Problem, *, limits: bool = True):
        self.problem = problem
        skeleton = problem.skeleton
        self.lower, self.upper = open_box(skeleton, limits)
        self.robust = problem.constants[0, :, ROBUST].copy()
        self.pull = np.ones(skeleton.size)

    def __call__(
        self,
        pace: Pace,
        poses: np.ndarray,
        *,
        targets: np.ndarray = _NONE,
        points: np.ndarray = _NONE,
        last: np.ndarray | None = None,
        before: np.ndarray | None = None,
        home: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Walk over poses (T, n), in place; return errors (T, g) [m, rad] and notes (T, NOTES).

        home (n,): what frames that start from their own rows are pulled to; at rest by default.
        """
        problem = self.problem
        t, n, g = len(poses), problem.skeleton.size, len(problem.springs)
        errors, notes = np.empty((t, g)), np.empty((t, NOTES))
        last = problem.skeleton.rest.copy() if last is None else last.copy()
        before = last.copy() if before is None else before.copy()
        home = (problem.skeleton.rest if home is None else home).copy()  # the walk writes into it
        walk(
            problem.figure, problem.order, problem.kind, problem.constants.copy(), problem.targets.copy(),
            self.robust, self.pull * pace.pull, home, self.lower, self.upper,
            np.empty(n), np.empty(n), np.ascontiguousarray(targets), np.ascontiguousarray(points), poses, last, before,
            np.empty(problem.work_size), problem.depth, pace.options(problem.coupled), errors, notes,
        )  # fmt: skip
        assert poses.shape == (t, n)
        return errors, notes


def marker_walker(
    skeleton: Skeleton, sites: Sequence[str], *, limits: bool = True, robust: float | None = None
) -> Walker:
    """Return the walker of sites that are to be at markers; robust [m]: beyond, one pulls no harder."""
    return Walker(Problem(skeleton, [Position(site, (0.0, 0.0, 0.0), robust=robust) for site in sites]), limits=limits)
