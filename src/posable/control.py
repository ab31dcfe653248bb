"""`Controller`: a figure in a control loop, always inside its position, velocity, acceleration and jerk limits."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from posable._solve import box_of, starts_of
from posable.engine import boxed_newton, speed_limits
from posable.engine import control as tick
from posable.engine.control import HELD, NEW, QUIET, Packed, pack, views
from posable.engine.jit import machine_code
from posable.engine.joints import SLIDE
from posable.engine.layout import KIND, OFF, ROBUST
from posable.errors import GoalError, SolverError, unknown
from posable.goals.base import Goal
from posable.goals.energy import convex_model, fill_model, measured_rows, place_vectors
from posable.goals.joint import Posture, joined_pulls
from posable.model.kinematics import path_of
from posable.model.skeleton import Skeleton
from posable.problem import Problem
from posable.solvers.hierarchy import scale_springs

TURN_SPEED, SLIDE_SPEED = np.pi, 1.0  # [rad/s], [m/s]: where neither the caller nor the file states a velocity limit
RAMP = 0.1  # [s] to full speed: sets the acceleration limit where the caller states none
LEVEL = 1e-6  # weight of a priority level against the stricter one before it, where there are two
LAST_LEVEL = 1e-9  # weight of the last of more levels against the first: less would be lost to rounding
CALM = 3e-4  # [s] speed damping where goals need more speed than the limits allow, of joints that reach theirs in RAMP
CALMEST, CALM_QUICK = 1e-3, 1e-4  # [s] the most, of slower joints, and the least, of joints that reach it at once
CALM_STILL = 3e-5  # [s] the same when the targets have come to rest; it fades away afterwards
CALM_BEYOND = 0.7  # fraction of the velocity limit above which it applies
SWITCH = 0.5  # part of the energy of a chosen member below which another one takes its place
STAIRS = 1e-4  # [rad/s^2, m/s^2] largest acceleration error left by the last Newton step of a tick
SMALL_PART = 2e-4  # of the first Newton step of a tick that the last one may leave over
MOST = 4  # Newton steps in a tick
SECONDS = (1e-9, 1e6)  # [s] shortest and longest tick and time limit
LEAST_LIMIT = 1e-12  # of velocity, acceleration and jerk: with less, rounding would keep a joint from ever stopping
REASONS = {
    speed_limits.AT_POSITION: "joint limit", speed_limits.AT_VELOCITY: "velocity limit",
    speed_limits.AT_ACCELERATION: "acceleration limit", speed_limits.AT_JERK: "jerk limit",
}  # fmt: skip


class Limited(NamedTuple):
    """A goal that a step could not follow.

    Attributes:
        goal: the goal's label.
        error: [m, rad] how far the new pose is from the target.
        dofs: what holds it back: degree of freedom -> "joint limit", "velocity limit", "acceleration limit" or
            "jerk limit". Empty where none does: the target is out of reach, or goals contradict each other.
        held: whether the target was not finite, so that the last good one counts.
    """

    goal: str
    error: float
    dofs: dict[str, str]
    held: bool

    def __str__(self) -> str:
        if self.held:
            return f"{self.goal}: the target is not finite; the last one is kept"
        by = ", ".join(f"{dof} ({why})" for dof, why in self.dofs.items())
        return f"{self.goal} misses by {self.error:.3g}: {by or 'out of reach, or goals contradict each other'}"


class Step:
    """What a controller commands for one tick."""

    __slots__ = ("_answer", "_controller", "_held")

    def __init__(self, controller: Controller, answer: np.ndarray, held: tuple[str, ...]):
        self._controller, self._answer, self._held = controller, answer, held

    @property
    def pose(self) -> np.ndarray:
        """(n,) [rad, m] The next pose."""
        n = self._controller.skeleton.size
        return self._answer[-3 * n : -2 * n or None]

    @property
    def velocity(self) -> np.ndarray:
        """(n,) [rad/s, m/s] The velocity with which it is reached."""
        n = self._controller.skeleton.size
        return self._answer[-2 * n : -n or None]

    @property
    def active(self) -> np.ndarray:
        """(n,) Which limit holds each dof back, as in `posable.engine.speed_limits`; negative at its lower side."""
        return self._answer[-self._controller.skeleton.size or None :]

    @property
    def _errors(self) -> np.ndarray:
        return self._answer[: -3 * self._controller.skeleton.size or None]

    @property
    def errors(self) -> dict[str, float]:
        """How far each goal is from its target [m, rad], by label."""
        groups = self._controller.problem.error_groups
        return {name: float(self._errors[springs].max()) for name, springs in groups.items()}

    @property
    def ok(self) -> bool:
        """Whether every goal is within its tolerance and every target was finite."""
        return not self._held and bool((self._errors <= self._controller.problem.tolerances).all())

    @property
    def limited(self) -> tuple[Limited, ...]:
        """What the step could not follow, and why; empty where it followed everything."""
        if self.ok:
            return ()
        controller, problem = self._controller, self._controller.problem
        names = problem.skeleton.dof_names
        out = []
        for goal, label in enumerate(problem.labels):
            rows = [k for k, owner in enumerate(problem.owners) if owner == goal]
            missed = [k for k in rows if not self._errors[k] <= problem.tolerances[k]]
            held = label in self._held
            if not missed and not held:
                continue
            dofs = sorted(set().union(*(controller._movers(k) for k in rows))) if rows else []
            by = {names[i]: REASONS[int(abs(self.active[i]))] for i in dofs if self.active[i] != 0.0}
            error = max((float(self._errors[k]) for k in rows), default=0.0)
            out.append(Limited(label, error, by, held))
        return tuple(out)

    def __str__(self) -> str:
        return "; ".join(map(str, self.limited)) or "follows every goal"


class Controller:
    """A figure that follows moving goals in a control loop.

    Each `step` returns the next pose from the current pose and velocity, always within the joint limits and the
    velocity, acceleration and jerk limits. Only velocities are allowed from which every joint can still stop before its
    limit. Among them the step minimises the energy of the goals at the pose where the figure could come to rest, so
    that the motion stays smooth if a target jumps, at singularities and at the boundary of reach.

    Goals of a stricter priority outweigh later ones: a million to one with two levels, a billion to one
    between the first and the last of more. Each level moves at its own pace, whatever its weight.

    Energies in Python (`Custom`) and choices (`AnyOf`) use a model that is built in Python in each step; all other
    goals stay in compiled code.

    Args:
        skeleton: the figure.
        goals: one goal or several, with targets for one pose.
        dt: [s] the time between two steps.
        velocity: [rad/s, m/s] limits, a number or (n,); by default the skeleton's own, and where it states none, pi
            rad/s for joints that turn and 1 m/s for slides. Infinity lifts the limit.
        acceleration: [rad/s^2, m/s^2] limits, a number or (n,); by default full speed is reached in 0.1 s.
        jerk: [rad/s^3, m/s^3] limits, a number or (n,); None: none.
        start: (n,) the pose to start from, at rest; the skeleton's rest by default. Projected into the limits.
        limits: whether joint limits hold.
        max_iterations: Newton steps in a tick, at most.
        time_limit: [s] for one step. Newton steps are skipped if the last ones took too long; the command stays within
            its limits.

    Raises:
        GoalError: for goals that are a batch.
        SolverError: for limits that are not positive.
    """

    def __init__(
        self,
        skeleton: Skeleton,
        goals: Goal | Iterable[Goal],
        *,
        dt: float,
        velocity: Any = None,
        acceleration: Any = None,
        jerk: Any = None,
        start: Any = None,
        limits: bool = True,
        max_iterations: int = MOST,
        time_limit: float | None = None,
    ):
        self.problem = Problem(skeleton, goals)
        if self.problem.batch_shape:
            raise GoalError("Controller", expected="goals for one pose", got=f"a batch {self.problem.batch_shape}")
        self.dt = _seconds(dt, "dt")
        self.time_limit = None if time_limit is None else _seconds(time_limit, "time_limit")
        if isinstance(max_iterations, bool) or not isinstance(max_iterations, int) or max_iterations < 1:
            raise SolverError("max_iterations", expected="a positive integer", got=repr(max_iterations))
        n = skeleton.size
        starts, _ = starts_of(self.problem, start)
        lower, upper = box_of(skeleton, starts, limits)
        packed = self._pack()
        state = self._state = packed.state
        state[speed_limits.LOWER], state[speed_limits.UPPER] = lower, upper
        speed = default_speed(skeleton) if velocity is None else limit_of(velocity, n, "velocity")
        accel = speed / RAMP if acceleration is None else limit_of(acceleration, n, "acceleration")
        state[speed_limits.SPEED], state[speed_limits.ACCEL], state[speed_limits.JERK] = speed, accel, np.inf
        if jerk is not None:
            state[speed_limits.JERK] = limit_of(jerk, n, "jerk")
            state[speed_limits.ACCEL] = np.minimum(
                accel, most_acceleration(speed, upper - lower, state[speed_limits.JERK])
            )
        self._params = packed.params
        self._params[boxed_newton.DT], self._params[boxed_newton.COUPLED] = self.dt, self.problem.coupled
        self._params[boxed_newton.MOST] = self._most = float(max_iterations)
        self._params[boxed_newton.STILL] = max(STAIRS * self.dt**2, boxed_newton.SETTLED)
        self._params[boxed_newton.PART] = SMALL_PART
        self._params[boxed_newton.CALM], self._params[boxed_newton.CALM_STILL] = calm_of(state), CALM_STILL
        self._params[boxed_newton.CALM_BEYOND] = CALM_BEYOND
        self._cost = 0.0  # [s] of a Newton step, as measured
        self._paths: dict[int, set[int]] = {}
        self._chosen: tuple[int, ...] | None = None
        self._weigh()
        self.reset(starts[0])

    def _pack(self) -> Packed:
        """Put the problem into flat arrays, and return their parts; the problem's targets are one of them from now."""
        problem = self.problem
        owners = problem.owners
        numbers = [math.prod(goal.target_shape) if goal.target_shape else 0 for goal in problem.goals]
        levels = len({goal.priority for goal in problem.goals})
        first = [owners.index(k) if k in owners else 0 for k in range(len(problem.goals))]
        self._ints, self._floats = pack(
            problem.figure, problem.order, problem.skeleton.order, problem.packed(), np.array([first, numbers]).T,
            depth=problem.depth, rows=speed_limits.ROWS, params=boxed_newton.PARAMS, levels=levels if levels > 1 else 0,
            work=problem.work_size,
        )  # fmt: skip
        packed = views(self._ints, self._floats)
        problem.targets = packed.springs.targets[None]
        self._springs, self._levels = packed.springs._replace(kind=problem.kind), packed.levels
        self._answer = self._floats[: len(packed.errors) + 3 * problem.skeleton.size]
        self._asked = packed.asked[:, -1]
        self._advance = self._first_advance
        self._modelled = bool(problem.choices or problem.customs)
        # label -> goal, shape of its target and where to write it, for goals whose targets are numbers
        self._slots = {
            label: (k, goal.target_shape, packed.asked[k, :count].reshape(goal.target_shape))
            for k, (label, goal, count) in enumerate(zip(problem.labels, problem.goals, numbers, strict=True))
            if count
        }
        return packed

    @property
    def skeleton(self) -> Skeleton:
        """The figure."""
        return self.problem.skeleton

    @property
    def pose(self) -> np.ndarray:
        """The last command (n,) [rad, m]."""
        return self._state[speed_limits.POSE].copy()

    @property
    def velocity(self) -> np.ndarray:
        """The velocity of the last command (n,) [rad/s, m/s]."""
        return self._state[speed_limits.VELOCITY].copy()

    @property
    def velocity_limits(self) -> np.ndarray:
        """The velocity limits (n,) [rad/s, m/s]."""
        return self._state[speed_limits.SPEED].copy()

    @property
    def acceleration_limits(self) -> np.ndarray:
        """The acceleration limits (n,) [rad/s^2, m/s^2]; a jerk limit may lower them."""
        return self._state[speed_limits.ACCEL].copy()

    def reset(self, pose: Any = None, velocity: Any = None) -> None:
        """Start again. A velocity from which a joint cannot stop before its limit is reduced to one from which it can.

        Args:
            pose: (n,) [rad, m]; by default the present one.
            velocity: (n,) [rad/s, m/s]; by default at rest.
        """
        state = self._state
        if pose is not None:
            state[speed_limits.POSE] = np.clip(
                starts_of(self.problem, pose)[0][0], state[speed_limits.LOWER], state[speed_limits.UPPER]
            )
        start = np.zeros(self.skeleton.size) if velocity is None else np.asarray(velocity, dtype=float)
        if start.shape != (self.skeleton.size,) or not np.isfinite(start).all():
            raise SolverError("velocity", expected=f"{self.skeleton.size} finite numbers", got=repr(velocity))
        state[speed_limits.VELOCITY] = np.clip(start, -state[speed_limits.SPEED], state[speed_limits.SPEED])
        speed_limits.make_viable(state, self.dt)
        state[speed_limits.ACCELERATION] = state[speed_limits.COURSE] = state[speed_limits.INSIDE] = 0.0
        state[speed_limits.WANTED] = state[speed_limits.ORIGIN] = state[speed_limits.POSE]
        self._params[boxed_newton.DAMPING] = boxed_newton.FIRST_DAMPING

    def step(self, targets: Mapping[str, Any] | None = None) -> Step:
        """Move goals to new targets and return the next command.

        Args:
            targets: goal label -> target, as the goal takes it. Goals that are not named keep theirs. A target that
                is not finite is ignored, and `step.limited` says so.

        Returns:
            The command: pose, velocity, errors, and the limits that held it back.

        Raises:
            UnknownName: for a label that no goal has.
            GoalError: for a target of a wrong shape.
        """
        held: tuple[str, ...] = ()
        if targets:
            slots = self._slots
            for label, target in targets.items():
                if type(target) is not ndarray and hasattr(target, "as_matrix"):
                    target = target.as_matrix()
                if type(target) is ndarray and label in slots and target.shape == slots[label][1]:
                    goal, _, place = slots[label]
                    place[...] = target
                    self._asked[goal] = NEW
                elif not self._move(label, target):
                    held = (*held, label)
        if self._modelled:
            self._model()
        begin = 0.0 if self.time_limit is None else time.perf_counter()
        code = self._advance(self._ints, self._floats)
        if self.time_limit is not None:
            self._pace(time.perf_counter() - begin)
        if code == tick.SOME_HELD:
            held = (*held, *(label for label, slot in self._slots.items() if self._asked[slot[0]] == HELD))
        elif code >= 0:
            self._refuse(code)
        return Step(self, self._answer.copy(), held)

    def _first_advance(self, ints: np.ndarray, floats: np.ndarray) -> int:
        """Advance by one tick, compiling where necessary; later ticks call the machine code directly."""
        compiled = tick.control_step.compiled
        code = compiled(ints, floats)
        self._advance = machine_code(compiled, (ints, floats))
        return code

    def _refuse(self, goal: int) -> None:
        """Raise for a target that is not a rotation."""
        self._asked[:] = QUIET
        label = self.problem.labels[goal]
        self.problem.goals[goal].moved(self._slots[label][2])

    def enable(self, label: str, on: bool = True) -> None:
        """Enable or disable a goal; a disabled one neither pulls nor decides `ok`.

        Args:
            label: The label of the goal.
            on: Whether it is enabled.
        """
        self.problem.enable(self._index(label), on)
        self._weigh()

    def _pace(self, seconds: float) -> None:
        """Choose how many Newton steps the next tick may take from what this one took."""
        assert self.time_limit is not None
        each = seconds / (1.0 + self._params[boxed_newton.ITERATIONS])
        self._cost = max(each, 0.9 * self._cost)
        self._params[boxed_newton.MOST] = min(max(np.floor(self.time_limit / self._cost) - 1.0, 1.0), self._most)

    def _index(self, label: str) -> int:
        k = self.problem.label_index.get(label)
        if k is None:
            raise unknown("goal", label, self.problem.labels)
        return k

    def _move(self, label: str, target: Any) -> bool:
        """Give a goal another target; return whether it was finite."""
        k = self._index(label)
        if not _is_finite(target):
            return False
        self.problem.move(k, self.problem.goals[k].moved(target))
        self._params[boxed_newton.MOVING] = 1.0
        self._weigh()
        return True

    def _weigh(self) -> None:
        """Make the springs of the tick from those of the goals: each level outweighs the ones after it."""
        problem, springs = self.problem, self._springs
        springs.constants[:], springs.pull[:], springs.home[:] = problem.constants[0], problem.pull, problem.home
        priorities = [goal.priority for goal in problem.goals]
        levels = sorted(set(priorities))
        each = LEVEL if len(levels) <= 2 else LAST_LEVEL ** (1.0 / (len(levels) - 1))
        self._factors = [each ** levels.index(priority) for priority in priorities]
        if len(levels) < 2:
            return
        self._level_of = np.array([levels.index(priorities[owner]) for owner in problem.owners], dtype=int)
        weighed = problem.copy()
        parts = self._levels
        parts.pull[:], parts.home[:], parts.weight[:] = 0.0, 0.0, each ** np.arange(len(levels))
        for level in range(len(levels)):
            scale_springs(weighed, self._level_of == level, each**level)
            for k, goal in enumerate(problem.goals):
                if isinstance(goal, Posture) and k not in problem.off and priorities[k] == levels[level]:
                    more, there = goal.pulls(problem.skeleton)
                    parts.pull[level], parts.home[level] = joined_pulls(
                        parts.pull[level], parts.home[level], each**level * more, there
                    )
        pull, home = np.zeros_like(springs.pull), np.zeros_like(springs.home)
        for level in range(len(levels)):
            pull, home = joined_pulls(pull, home, parts.pull[level], parts.home[level])
        springs.constants[:], springs.pull[:], springs.home[:] = weighed.constants[0], pull, home
        self._split()

    def _split(self) -> None:
        """Give each level of strict priorities its own springs."""
        for level, constants in enumerate(self._levels.constants):
            constants[:] = self._springs.constants
            constants[self._level_of != level, ROBUST] = OFF

    def _model(self) -> None:
        """Replace energies in Python by quadratic models at the wanted pose, and keep one member of each choice.

        A member that is chosen stays until another costs less than SWITCH of it: commands do not flicker.
        """
        problem, springs = self.problem, self._springs
        wanted = np.ascontiguousarray(self._state[speed_limits.WANTED])
        customs = [(energy, part) for energy, part in problem.customs if springs.constants[part.start, ROBUST] >= 0.0]
        for (energy, part), at in zip(
            customs, place_vectors(problem.skeleton, wanted, [energy for energy, _ in customs]), strict=True
        ):
            _, slope, hessian = energy.model(at, measured_rows(problem.packed(), energy, part))
            step, matrix = convex_model(energy, at, slope, hessian, 0.0)
            factor = self._factors[problem.owners[part.start]]
            place = at + step.reshape(at.shape)
            fill_model(springs.constants[part], springs.targets[part], place, np.zeros_like(slope), factor * matrix)
        if problem.choices:
            self._choose(wanted)
        if len(self._levels.constants):
            self._split()

    def _choose(self, wanted: np.ndarray) -> None:
        """Switch off all members of each choice but the one that counts at the wanted pose (n,)."""
        problem, springs = self.problem, self._springs
        costs = {}
        for combination in problem.combinations():
            trial = springs._replace(constants=springs.constants.copy())
            problem.choose(trial.constants, combination)
            costs[combination] = problem._evaluate(wanted, trial, False)[0]
        best = min(costs, key=lambda combination: costs[combination])
        chosen = self._chosen
        if chosen is None or costs[best] < SWITCH * costs[chosen]:
            chosen = self._chosen = best
        problem.choose(springs.constants, chosen)

    def _movers(self, spring: int) -> set[int]:
        """Return the degrees of freedom that move a spring."""
        if spring not in self._paths:
            _, body, _, other = map(int, self.problem.kind[spring])
            everything = set(range(self.skeleton.size))
            path = path_of(self.skeleton, body) if body >= 0 else everything
            self._paths[spring] = path | path_of(self.skeleton, other) if other >= 0 else path
        return self._paths[spring]


def default_speed(skeleton: Skeleton) -> np.ndarray:
    """Return the velocity limits (n,) [rad/s, m/s] of a figure, with defaults where it states none."""
    slides = skeleton.figure.dof[:, KIND] == SLIDE
    return np.where(np.isfinite(skeleton.velocity), skeleton.velocity, np.where(slides, SLIDE_SPEED, TURN_SPEED))


def most_acceleration(speed: np.ndarray, span: np.ndarray, jerk: np.ndarray) -> np.ndarray:
    """Return the accelerations (n,) that a jerk limit can end in time.

    From the end of its range, at rest but at full acceleration inwards, a joint travels 2/3 a^3 / jerk^2 before it
    rests again: that must fit into its range, and the speed on the way, a^2 / (2 jerk), below its velocity limit.
    """
    return 0.7 * np.minimum(np.cbrt(1.5 * span) * np.cbrt(jerk) ** 2, np.sqrt(2.0 * jerk * speed))


def calm_of(state: np.ndarray) -> float:
    """Return the resistance to motion [s] where goals need more speed than the limits allow.

    Joints that take long to reach full speed need more: they lag, and cannot stop at once.
    """
    moving = np.isfinite(state[speed_limits.SPEED])
    ramps = state[speed_limits.SPEED, moving] / state[speed_limits.ACCEL, moving]  # [s]
    return float(np.clip(CALM * (ramps.max(initial=0.0) / RAMP) ** 2, CALM_QUICK, CALMEST))


def limit_of(value: Any, n: int, what: str) -> np.ndarray:
    """Return limits (n,), positive, infinity allowed, given as a number or (n,); raises SolverError."""
    try:
        out = np.broadcast_to(np.asarray(value, dtype=float), (n,))
    except (TypeError, ValueError, OverflowError):
        raise SolverError(what, expected=f"a positive number or {n} of them", got=repr(value)) from None
    if not (out >= LEAST_LIMIT).all():
        raise SolverError(what, expected=f"positive numbers, at least {LEAST_LIMIT:g}", got=repr(value))
    return out


def _seconds(value: Any, what: str) -> float:
    shortest, longest = SECONDS
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not shortest <= value <= longest:
        raise SolverError(what, expected=f"{shortest:g} to {longest:g} seconds", got=repr(value))
    return float(value)


def _is_finite(target: Any) -> bool:
    """Return whether a target of any goal holds no number that is NaN, infinite or absurdly large."""
    if isinstance(target, (tuple, list)):
        return all(_is_finite(part) for part in target)
    if isinstance(target, (int, float, np.number, np.ndarray)):
        values = np.asarray(target)
        return values.dtype.kind not in "fiu" or bool((np.abs(values) < tick.FARTHEST).all())
    return True
