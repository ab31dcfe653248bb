"""Sensitivity of a solution: to the limits that block its goals, to targets, weights and the shape of the figure.

At a minimum inside the limits the gradient vanishes on the free dofs F, those that are not at a limit. If a parameter p
of the problem changes, F responds with -H_FF^-1 (d/dp dE/dtheta_F) and the other dofs stay (implicit function theorem),
with the exact Hessian H. The inner derivative is an extrapolated difference of exact gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from posable.engine.joints import SLIDE
from posable.engine.layout import KIND, Springs
from posable.engine.sensitivity import follow_bound, refine_pose
from posable.errors import GoalError, unknown
from posable.model.kinematics import scratch
from posable.model.skeleton import Skeleton
from posable.problem import Problem

# --- Limits that block goals, and what relaxing them would gain ---

AT_BOUND = 1e-7  # [rad, m]
RELAXATION = 1e-5  # [rad, m] by which a limit is relaxed to measure its cost
DEGREE, MILLIMETRE = np.radians(1.0), 1e-3  # [rad], [m] by which a limit is relaxed to measure its cost
SENTENCE = 5  # multiples of these in the text of a limit: 5 degrees, 5 mm
SAME = 0.02  # [rad, m]: a pose that refinement moves further was not a minimum
STEADY = 0.1  # fraction by which a rate may differ from its mean over the first degree
TELLING = 1e-4  # [m, rad] smallest change that is reported


@dataclass(frozen=True)
class Block:
    """A limit that holds the figure back.

    Attributes:
        dof: Name of the degree of freedom.
        side: "lower" or "upper".
        multiplier: How fast the energy of all goals would fall if the limit moved outward.
        cost: {goal: how fast its error would fall} [m or rad per rad or m]; negative where the goal would lose. If
            that changes by a tenth within the first degree or millimetre, the mean over it.
        limit: Where the limit is [rad, m].
        slides: Whether the degree of freedom is a slide [m] and not an angle [rad].
        angles: The goals whose errors are angles [rad].
        gain: {goal: by how much its error would fall} [m, rad] if the limit were 5 degrees, or 5 mm, wider.
        ends: Whether the solution jumps to another pose before the limit has given that much: `gain` then says what is
            gained before.
        pixels: The goals whose errors are in pixels.
    """

    dof: str
    side: str
    multiplier: float
    cost: dict[str, float] = field(default_factory=dict)
    limit: float = np.nan
    slides: bool = False
    angles: frozenset[str] = frozenset()
    gain: dict[str, float] = field(default_factory=dict)
    ends: bool = False
    pixels: frozenset[str] = frozenset()

    def __str__(self) -> str:
        changes = {name: value for name, value in self.gain.items() if abs(value) > TELLING}
        told = sorted(changes.items(), key=lambda item: -abs(item[1]))[:3]
        closer = [f"{name} {self._amount(name, value)}" for name, value in told if value > 0.0]
        away = [f"{name} {self._amount(name, -value)}" for name, value in told if value < 0.0]
        parts = [f"bring {listed(closer)} closer"] if closer else []
        parts += [f"move {listed(away)} away"] if away else []
        where = "" if np.isnan(self.limit) else f" ({self._place()})"
        text = f"{self.dof} is at its {self.side} limit{where}"
        more = f"{SENTENCE} mm" if self.slides else f"{SENTENCE}°"
        return f"{text}; {more} more would {' and '.join(parts)}" if parts else text

    def _place(self) -> str:
        return f"{1e3 * self.limit:.0f} mm" if self.slides else f"{np.degrees(self.limit):.0f}°"

    def _amount(self, goal: str, change: float) -> str:
        if goal in self.pixels:
            return f"{change:.2g} px"
        return f"{np.degrees(change):.2g}°" if goal in self.angles else f"{1e3 * change:.2g} mm"


class ConstrainedMinimum:
    """A minimum of the energy inside the limits, and its path while a limit moves.

    Attributes:
        pose: (n,) [rad, m].
        errors: (g,) of the springs there [m, rad].
    """

    def __init__(self, problem: Problem, pose: np.ndarray, lower: np.ndarray, upper: np.ndarray, member: int = 0):
        self.problem, self.lower, self.upper = problem, lower.copy(), upper.copy()
        self.springs: Springs = problem.packed(member)
        self.pose, self.errors = np.clip(pose, lower, upper), np.empty(len(problem.springs))
        refine_pose(
            problem.figure, problem.order, self.springs, self.lower, self.upper, self.pose, scratch(problem.work_size),
            problem.depth, 40, self.errors,
        )  # fmt: skip

    def relaxed(self, dof: int, outward: float, steps: int) -> tuple[ConstrainedMinimum, bool]:
        """Return the minimum after a bound of one dof has moved outward [rad, m], and whether the path ended.

        The path of solutions is followed in steps, so that limits may become active or inactive on the way.
        """
        out = object.__new__(ConstrainedMinimum)
        out.problem, out.springs = self.problem, self.springs
        out.lower, out.upper, out.pose = self.lower.copy(), self.upper.copy(), self.pose.copy()
        out.errors = np.empty_like(self.errors)
        problem = self.problem
        ended = follow_bound(
            problem.figure, problem.order, self.springs, out.lower, out.upper, out.pose, scratch(problem.work_size),
            problem.depth, dof, float(outward), steps, out.errors,
        )  # fmt: skip
        return out, bool(ended)

    def gains(self, dof: int, sense: float, unit: float) -> tuple[np.ndarray, np.ndarray, bool] | None:
        """Return the effect of relaxing a bound: rate and gain of each spring (g,), and whether the path ends early.

        None where it ends within the first unit [rad, m].
        """
        at_once = (self.errors - self.relaxed(dof, sense * RELAXATION, 1)[0].errors) / RELAXATION
        near, ended = self.relaxed(dof, sense * unit, 2)
        if ended:
            return None
        mean = (self.errors - near.errors) / unit
        rate = np.where(np.abs(mean - at_once) < STEADY * np.abs(at_once), at_once, mean)
        far, ends = near.relaxed(dof, sense * (SENTENCE - 1) * unit, SENTENCE - 1)
        return rate, self.errors - (near if ends else far).errors, ends


def blocking_limits(
    problem: Problem, pose: np.ndarray, lower: np.ndarray, upper: np.ndarray, member: int = 0
) -> list[Block]:
    """Return the limits that hold back the goals at a pose (n,), worst first.

    The gradient on an active bound is its multiplier (Karush-Kuhn-Tucker; Engell-Nørregård & Erleben 2011, 3). What
    each goal would gain is found by letting the bound move and following the path of solutions.
    """
    _, gradient, hessian, _ = problem.evaluate(pose, member=member)
    at_lower = (pose <= lower + AT_BOUND) & (gradient > 0.0) & (lower < upper)
    at_upper = (pose >= upper - AT_BOUND) & (gradient < 0.0) & (lower < upper)
    active = np.flatnonzero(at_lower | at_upper)
    scale = np.abs(gradient).max(initial=0.0)
    significant = 1e-9 * max(1.0, np.abs(np.diag(hessian)).max(initial=0.0))
    active = active[np.abs(gradient[active]) > max(1e-6 * scale, significant)]
    if active.size == 0:
        return []
    minimum = ConstrainedMinimum(problem, pose, lower, upper, member)
    # the springs alone do not describe energies in Python and choices
    settled = not (problem.customs or problem.choices) and float(np.abs(minimum.pose - pose).max()) < SAME
    counted = np.flatnonzero(np.isfinite(problem.tolerances))
    names = problem.error_names
    angles = frozenset(name for k, name in enumerate(names) if problem.measures_angle(k))
    pixels = frozenset(name for k, name in enumerate(names) if problem.measures_pixels(k))
    held = at_lower | at_upper | (lower >= upper)
    blocks = []
    for i in active.tolist():
        slides = bool(problem.skeleton.figure.dof[i, KIND] == SLIDE)
        unit = MILLIMETRE if slides else DEGREE
        sense = -1.0 if at_lower[i] else 1.0
        found = minimum.gains(i, sense, unit) if settled else None
        if found is None:
            rate = linear_response(problem, pose, hessian, held, i, sense, member)
            found = rate, SENTENCE * unit * rate, True
        cost, gain = ({names[k]: float(value[k]) for k in counted} for value in found[:2])
        side, limit = ("lower", lower[i]) if at_lower[i] else ("upper", upper[i])
        name, force = problem.skeleton.dof_names[i], float(abs(gradient[i]))
        blocks.append(Block(name, side, force, cost, float(limit), slides, angles, gain, found[2], pixels))
    return sorted(blocks, key=lambda block: (-block.multiplier, block.dof))


def linear_response(
    problem: Problem, pose: np.ndarray, hessian: np.ndarray, held: np.ndarray, dof: int, sense: float, member: int
) -> np.ndarray:
    """Return how fast each spring's error falls (g,) while a bound moves outward, at a pose that is not a minimum."""
    answer = np.zeros_like(pose)
    answer[dof] = sense
    free = np.flatnonzero(~held)
    if free.size:
        matrix = hessian[np.ix_(free, free)]
        small = 1e-9 * max(np.trace(np.abs(matrix)) / free.size, 1e-300)
        move = np.linalg.lstsq(matrix + small * np.eye(free.size), -hessian[free, dof] * sense, rcond=1e-12)[0]
        answer[free] = move / max(1.0, np.abs(move).max() * RELAXATION / 0.05)
    before = problem.evaluate(pose, member=member)[3]
    return (before - problem.evaluate(pose + RELAXATION * answer, member=member)[3]) / RELAXATION


def listed(names: Sequence[str]) -> str:
    """Return names as an English list."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


# --- Derivatives of the pose ---

STEP = 1e-3  # [m, rad, 1] step of the differences
FLAT = 1e-9  # relative eigenvalue below which a direction is left free by the goals
UNPUSHED = 1e-8  # relative to the stiffness: a limit with a smaller multiplier is degenerate
MOVED = 1e-2  # [rad, m]: a pose that refinement moves further was not a minimum
CHOICES = ("target", "weight", "length", "offset")


@dataclass(frozen=True)
class Sensitivity:
    """A derivative of a pose.

    Attributes:
        matrix: (n, k), None where there is none.
        reason: Why there is none; empty where there is.
        least_motion: Whether the goals leave the pose some freedom, and the derivative is that of the least motion.
    """

    matrix: np.ndarray | None
    reason: str = ""
    least_motion: bool = False


def pose_derivative(
    problem: Problem, pose: np.ndarray, lower: np.ndarray, upper: np.ndarray, name: str, wrt: str
) -> Sensitivity:
    """Return the derivative of a solution (n,) of one problem with respect to a goal's or a joint's numbers."""
    columns = parameter(problem, name, wrt)
    if problem.customs or problem.choices or len({goal.priority for goal in problem.goals}) > 1:
        return Sensitivity(None, "goals with priorities, choices or energies in Python have no single energy")
    theta = ConstrainedMinimum(problem, pose, lower, upper).pose
    if np.abs(theta - pose).max(initial=0.0) > MOVED:
        return Sensitivity(None, "the pose is not a minimum: the solve ended before it got there")
    energy, gradient, hessian, errors = problem.evaluate(theta)
    on_lower, on_upper = theta <= lower + 1e-9, theta >= upper - 1e-9
    held = (on_lower & (gradient > 0.0)) | (on_upper & (gradient < 0.0)) | (lower >= upper)
    stiff = max(float(np.abs(np.diag(hessian)).max(initial=0.0)), 1e-300)
    idle = (gradient == 0.0) & ~hessian.any(axis=0)  # dofs that no goal depends on
    loose = (on_lower | on_upper) & (lower < upper) & (np.abs(gradient) <= UNPUSHED * stiff) & ~idle
    if loose.any():
        dof = problem.skeleton.dof_names[int(np.flatnonzero(loose)[0])]
        return Sensitivity(None, f"{dof} is at its limit without being pushed against it: the two sides differ")
    free = np.flatnonzero(~(held | idle))
    out = np.zeros((theta.size, len(columns)))
    if not free.size:
        return Sensitivity(out)
    values, vectors = np.linalg.eigh(hessian[np.ix_(free, free)])
    if values[0] < -FLAT * values[-1]:
        return Sensitivity(None, "the pose is at a saddle, not at a minimum")
    flat = values <= FLAT * values[-1]
    mixed = np.stack([extrapolated(column, theta)[free] for column in columns], axis=-1)
    if np.abs(vectors[:, flat].T @ mixed).max(initial=0.0) > 1e-6 * max(np.abs(mixed).max(initial=0.0), 1e-300):
        return Sensitivity(None, "the pose is at a fold: a small change of the parameter moves it without bound")
    if flat.any() and (errors <= problem.tolerances).all():
        # reached: if the free dofs cannot follow to first order, the target is at a fold
        lost = np.array([second_difference(column, theta, energy) for column in columns])
        followed = ((vectors[:, ~flat].T @ mixed) ** 2 / values[~flat, None]).sum(axis=0)
        if (lost - followed > 1e-4 * np.maximum(lost, 1e-12)).any():
            return Sensitivity(None, "the pose is at a fold: it is singular, and cannot follow every small change")
    inverse = np.where(flat, 0.0, 1.0 / np.where(flat, 1.0, values))
    out[free] = -vectors @ (inverse[:, None] * (vectors.T @ mixed))
    return Sensitivity(out, least_motion=bool(flat.any()))


def extrapolated(problem_at: Callable[[float], Problem], theta: np.ndarray) -> np.ndarray:
    """Return the derivative (n,) of the gradient at theta (n,) with respect to a parameter of the problem."""
    at = {h: problem_at(h).evaluate(theta)[1] for h in (STEP, -STEP, 0.5 * STEP, -0.5 * STEP)}
    wide, near = ((at[STEP] - at[-STEP]) / (2.0 * STEP), (at[0.5 * STEP] - at[-0.5 * STEP]) / STEP)
    return (4.0 * near - wide) / 3.0


def second_difference(problem_at: Callable[[float], Problem], theta: np.ndarray, energy: float) -> float:
    """Return the second derivative of the energy along a parameter, at a fixed pose theta (n,)."""
    return (problem_at(STEP).evaluate(theta)[0] - 2.0 * energy + problem_at(-STEP).evaluate(theta)[0]) / STEP**2


def single(problem: Problem, member: int) -> Problem:
    """Return one problem of a batch as a problem of its own."""
    goals = []
    for goal in problem.given_goals:
        target = getattr(goal, "target", None)
        if goal.target_shape:
            every = np.broadcast_to(goal.target, (*problem.batch_shape, *goal.target_shape))
            goal = goal.moved(every.reshape(-1, *goal.target_shape)[member])
        elif target is not None and np.ndim(target) > 1:
            raise GoalError(f"jacobian: {goal}", expected="a target for one pose", got=f"shape {np.shape(target)}")
        goals.append(goal)
    return Problem(problem.skeleton, goals)


def parameter(problem: Problem, name: str, wrt: str) -> list[Callable[[float], Problem]]:
    """Return, for each number of a parameter, the problem as it is when that number changes by h.

    Raises:
        GoalError: for an unknown `wrt`, or a goal without a target that moves.
        UnknownName: for an unknown label, joint or site.
    """
    if wrt not in CHOICES:
        raise GoalError("jacobian: wrt", expected=" or ".join(map(repr, CHOICES)), got=repr(wrt))
    if wrt in ("target", "weight"):
        if name not in problem.label_index:
            raise unknown("goal", name, problem.labels)
        k = problem.label_index[name]
        goal = problem.goals[k]
        changes = moved_targets(goal) if wrt == "target" else [lambda h: reweighted(goal, h)]
        goals = problem.given_goals
        before, after = goals[:k], goals[k + 1 :]
        return [lambda h, change=change: Problem(problem.skeleton, (*before, change(h), *after)) for change in changes]
    shapes = reshaped(problem.skeleton, name, wrt)
    return [lambda h, shape=shape: Problem(shape(h), problem.given_goals) for shape in shapes]


def moved_targets(goal: Any) -> list[Callable[[float], Any]]:
    """Return, for each number by which a target can change, the goal after it has changed by h.

    A point, a direction or a length changes by its own numbers; a rotation by a rotation vector in world axes; a
    transform by its place and then its rotation.
    """
    target = getattr(goal, "target", None)
    value = None if target is None else np.asarray(target, dtype=float)
    if value is None or value.ndim > 2:
        raise GoalError(f"jacobian: {goal}", expected="a goal with a target", got="one without")

    def shifted(i: int) -> Callable[[float], Any]:
        return lambda h: goal.moved(value + h * np.eye(value.size)[i].reshape(value.shape))

    def turned(i: int) -> Callable[[float], Any]:
        def change(h: float) -> Any:
            out, rows = value.copy(), slice(0, 3)
            out[rows, rows] = rotation_about(i, h) @ value[rows, rows]
            return goal.moved(out)

        return change

    def carried(i: int) -> Callable[[float], Any]:
        return lambda h: goal.moved(value + h * np.outer(np.eye(4)[i], np.eye(4)[3]))

    if value.shape == (3, 3):
        return [turned(i) for i in range(3)]
    if value.shape == (4, 4):
        return [*(carried(i) for i in range(3)), *(turned(i) for i in range(3))]
    return [shifted(i) for i in range(value.size)]


def rotation_about(axis: int, angle: float) -> np.ndarray:
    """Return the rotation (3, 3) about a world axis."""
    out = np.eye(3)
    a, b = (axis + 1) % 3, (axis + 2) % 3
    out[a, a] = out[b, b] = np.cos(angle)
    out[b, a], out[a, b] = np.sin(angle), -np.sin(angle)
    return out


def reweighted(goal: Any, h: float) -> Any:
    """Return a goal whose weight is increased by h if it is one number, and multiplied by 1 + h otherwise."""
    weight = np.ravel(np.asarray(goal.weight, dtype=float)) if not isinstance(goal.weight, tuple) else np.zeros(0)
    one = weight.size in (1, 6) and weight[0] > 0.0 and (weight[:3] == weight[0]).all() and not weight[3:].any()
    return goal.changed(factor=1.0 + h / (float(weight[0]) if one else 1.0))


def reshaped(skeleton: Skeleton, name: str, wrt: str) -> list[Callable[[float], Skeleton]]:
    """Return, for each coordinate of an offset, or for its length, the figure with it increased by h."""
    parts = {part.name: part for part in (*skeleton.joints, *skeleton.sites)}
    if name not in parts:
        raise unknown("joint or site", name, tuple(parts))
    part = parts[name]
    offset = np.asarray(part.offset, dtype=float)
    length = float(np.linalg.norm(offset))
    if wrt == "length" and not length > 0.0:
        raise GoalError(f"jacobian: {name!r}", expected="a joint or site with a length", got="an offset of zero")
    directions = [offset / length] if wrt == "length" else list(np.eye(3))

    def change(direction: np.ndarray, h: float) -> Skeleton:
        moved = replace(part, offset=tuple(offset + h * direction))
        if any(part is joint for joint in skeleton.joints):
            return skeleton.replace(joints=[moved if joint is part else joint for joint in skeleton.joints])
        return skeleton.replace(sites=[moved if site is part else site for site in skeleton.sites])

    return [lambda h, direction=direction: change(direction, h) for direction in directions]
