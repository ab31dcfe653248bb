"""Problems that need several runs of a solver: choices between goals, strict priorities, energies in Python.

AnyOf        every member is solved from the same start, and the best one is taken
priorities   a level is solved, then held by stiff springs at its result while the next one is solved
Custom       the energy is replaced by a quadratic model in its points and directions, solved, and modelled again
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from posable.engine.bounds import EXHAUSTED, STATIONARY
from posable.engine.couplings import hold_springs
from posable.engine.layout import AXES, GOAL, OFF, ROBUST, SPRING_KIND, WEIGHT
from posable.engine.springs import MODEL_SPRING, POINT_SPRING
from posable.goals.energy import (
    VectorEnergy,
    convex_model,
    convex_part,
    fill_model,
    measured_rows,
    place_vectors,
    upper_root,
)
from posable.goals.joint import Posture, joined_pulls
from posable.problem import Problem
from posable.solvers.base import OUT_OF_TIME, RawResult, SolveOptions, Solver
from posable.solvers.result import errors_at, evaluate, judge, unsolved
from posable.solvers.sensitivity import AT_BOUND

# --- Holding the goals of a level ---


def scale_springs(problem: Any, chosen: np.ndarray, factor: float) -> None:
    """Make the springs marked in chosen (g,) stiffer by a factor, in problem.constants (t, g, CONSTANTS)."""
    data = problem.constants
    for k in np.flatnonzero(chosen):
        data[:, k, WEIGHT : WEIGHT + 6] *= factor
        data[:, k, ROBUST] = np.where(data[:, k, ROBUST] > 0.0, data[:, k, ROBUST] * factor, data[:, k, ROBUST])
        if problem.kind[k, SPRING_KIND] in (POINT_SPRING, MODEL_SPRING):
            data[:, k, AXES : AXES + 9] *= np.sqrt(factor)  # the square root of the weight, if it is stored


def hold_goals(
    problem: Problem, chosen: np.ndarray, poses: np.ndarray, errors: np.ndarray, tolerances: np.ndarray
) -> None:
    """Move the targets of missed goals to where their bodies are at poses (t, n).

    chosen (g,) marks the springs of the level; errors (t, g) and tolerances (g,) tell which were missed. A goal within
    its tolerance keeps its target: it can only improve.
    """
    missed = (errors > tolerances) | np.isinf(tolerances)
    held = np.zeros(missed.shape, dtype=bool)
    for goal in np.unique(problem.kind[chosen, GOAL]):
        rows = chosen & (problem.kind[:, GOAL] == goal)
        held[np.ix_(missed[:, rows].any(axis=1), rows)] = True
    hold_springs(
        problem.figure, problem.kind, problem.constants, problem.targets, np.ascontiguousarray(poses),
        np.empty(problem.work_size), problem.depth, held,
    )  # fmt: skip


# --- Choices ---

STIFFNESS = (1e2, 1e4, 1e6, 1e8)  # of higher levels relative to the current one; each stage starts from the last
GROWTH = 1e-6  # [m, rad] by which the error of a held goal may grow
LAST_GAIN = 1e-5  # fraction of the energy: if a Newton step would gain less, a pose counts as stationary
ROUNDS = 60  # of quadratic models of an energy in Python
SETTLED = 1e-10  # fraction of the energy that a round must gain; otherwise it is the last
SUFFICIENT = 1e-4  # fraction of a model's decrease that the energy itself must show (Armijo)


def solve_in_runs(problem: Problem, method: Solver, options: SolveOptions) -> tuple[Problem, RawResult, dict[str, Any]]:
    """Solve any problem; return it with its choices made, its result, and the member (t,) that each AnyOf chose."""
    t = options.starts.shape[0]
    spread = problem.copy()
    spread.spread(t)
    best: tuple[Problem, RawResult] | None = None
    best_rank: list[tuple[bool, float]] = []
    taken = np.zeros((t, len(problem.choices)), dtype=int)
    for combination in problem.combinations():
        if best is not None and options.late:
            break
        trial = spread.copy()
        trial.choose(trial.constants, combination)
        outcome = run_levels(trial, method, options)
        rank = ranks(trial, outcome, options)
        if best is None:
            best, best_rank = (trial, outcome), rank
            taken[:] = combination
            continue
        for k in range(t):
            if rank[k] < best_rank[k]:
                best_rank[k] = rank[k]
                taken[k] = combination
                take_solution(best[0], best[1], trial, outcome, k)
    assert best is not None  # there is always one combination
    chosen = {}
    for column, (goal, _) in enumerate(problem.choices):
        label = problem.labels[problem.goals.index(goal)]
        chosen[label] = np.array([goal.names[member] for member in taken[:, column]], dtype=object)
    return *best, chosen


def with_models(problem: Problem) -> Problem:
    """Return the problem as a solver sees it: with models instead of energies in Python."""
    out = copy.copy(problem)
    out.customs = []
    return out


def ranks(problem: Problem, outcome: RawResult, options: SolveOptions) -> list[tuple[bool, float]]:
    """Return the rank of each solution, lower is better: whether it misses, then its energy.

    Solutions that reach every goal are equally good, unless a soft goal is minimised as well.
    """
    good, poses = judge(problem, outcome, options), outcome.poses
    if problem.customs:
        energies = np.array([problem.evaluate(pose, member=k)[0] for k, pose in enumerate(poses)])
    else:
        energies = evaluate(problem, poses, options)[2]
    if not problem.soft:
        energies[good] = 0.0
    return list(zip((~good).tolist(), energies.tolist(), strict=True))


def take_solution(problem: Problem, outcome: RawResult, other: Problem, answers: RawResult, k: int) -> None:
    """Replace solution k, and its springs, by those of another result."""
    problem.constants[k], problem.targets[k] = other.constants[k], other.targets[k]
    outcome.put(k, answers, k)
    if outcome.traces:
        outcome.traces[k] = answers.traces[k]


# ------------------------------------------------------------------------------------------------------- priorities


def run_levels(problem: Problem, method: Solver, options: SolveOptions) -> RawResult:
    """Solve level by level, each while higher levels keep what they reached."""
    priorities = sorted({goal.priority for goal in problem.goals})
    if len(priorities) == 1:
        return run_models(problem, method, options)
    stays = any(isinstance(goal, Posture) and goal.priority < priorities[-1] for goal in problem.goals)
    if stays and options.starts.shape[0] > 1:  # postures differ, and springs have one home for the batch
        return one_by_one(problem, options, lambda k: run_levels(
            problem.part(k, k + 1), method, options._replace(starts=options.starts[k : k + 1])
        ))  # fmt: skip
    level_of = np.array([problem.goals[owner].priority for owner in problem.owners], dtype=int)
    held = problem.copy()
    tolerances = problem.tolerances.copy()
    outcome: RawResult | None = None
    for priority in priorities:
        if outcome is not None and options.late:
            outcome.codes[:] = OUT_OF_TIME
            break
        now = held.copy()
        now.constants[:, level_of > priority, ROBUST] = OFF
        now.tolerances = tolerances.copy()
        now.customs = [(energy, part) for energy, part in problem.customs if energy.priority == priority]
        set_level_pulls(now, priority)
        if outcome is None:
            outcome = run_models(now, method, options)
            mark_stationary(now, outcome, options)
        else:
            higher = HigherPriority(problem, priority, level_of, outcome.poses)
            solve_level(now, higher, method, options, outcome)
        reached = now.copy()
        reached.constants, reached.targets = held.constants.copy(), held.targets.copy()
        errors = errors_at(now, outcome.poses, options)
        hold_goals(reached, level_of == priority, outcome.poses, errors, tolerances)
        hold_energies(reached, outcome.poses)
        served = level_of == priority
        held.constants[:, served], held.targets[:, served] = reached.constants[:, served], reached.targets[:, served]
        tolerances[level_of == priority] = np.minimum(tolerances[level_of == priority], GROWTH / 2)
    assert outcome is not None
    outcome.errors = errors_at(problem, outcome.poses, options)
    return outcome


def one_by_one(problem: Problem, options: SolveOptions, solve_one: Callable[[int], RawResult]) -> RawResult:
    """Solve the problems of a batch one after another, while there is time."""
    every: list[RawResult] = []
    for k in range(len(options.starts)):
        if k and options.late:
            every.append(unsolved(problem, options, k))
            break
        every.append(solve_one(k))
    return joined(every)


def set_level_pulls(problem: Problem, priority: int) -> None:
    """Set the springs on degrees of freedom to those of one level, and whether it has soft goals."""
    n = problem.skeleton.size
    problem.pull, problem.home = np.zeros(n), np.zeros(n)
    on = (problem.constants[:, :, ROBUST].max(axis=0, initial=OFF) >= 0.0) & ~problem.idle
    problem.soft = bool(np.isinf(problem.tolerances[on]).any())
    for k, goal in enumerate(problem.goals):
        if isinstance(goal, Posture) and goal.priority == priority and k not in problem.off:
            problem._add_posture(goal)


class HigherPriority:
    """What is held while a level is solved: the springs, energies and postures of higher levels."""

    def __init__(self, problem: Problem, priority: int, level_of: np.ndarray, poses: np.ndarray):
        self.springs = level_of < priority  # (g,)
        self.counted = self.springs & ~problem.idle  # (g,): those whose errors must not grow
        self.energies = [(energy, part) for energy, part in problem.customs if energy.priority < priority]
        self.problem, self.home = problem, poses[0]
        self.pull = np.zeros(problem.skeleton.size)
        for k, goal in enumerate(problem.goals):
            if isinstance(goal, Posture) and goal.priority < priority and k not in problem.off:
                self.pull = np.maximum(self.pull, goal.pulls(problem.skeleton)[0])
        self.pull /= max(self.pull.max(initial=0.0), 1e-300)

    def stiffened(self, now: Problem, stiffness: float) -> Problem:
        """Return the problem of a level with everything held by a stiffness."""
        out = now.copy()
        scale_springs(out, self.springs, stiffness)
        out.pull, out.home = joined_pulls(now.pull, now.home, stiffness * self.pull, self.home)
        return out

    def losses(self, now: Problem, poses: np.ndarray, options: SolveOptions) -> np.ndarray:
        """Return what must not grow (t, k) at poses (t, n): errors [m, rad], energies, posture errors [rad, m]."""
        errors = errors_at(now, poses, options)[:, self.counted]
        away = np.abs(poses - self.home)[:, self.pull > 0.0]
        if not self.energies:
            return np.concatenate([errors, away], axis=1)
        values = []
        for k, pose in enumerate(poses):
            vectors = place_vectors(now.skeleton, pose, [energy for energy, _ in self.energies])
            values.append(
                [
                    energy.value(at, measured_rows(self.problem.packed(k), energy, part))
                    for (energy, part), at in zip(self.energies, vectors, strict=True)
                    if self.problem.constants[k, part.start, ROBUST] >= 0.0
                ]
            )
        return np.concatenate([errors, values, away], axis=1)


def solve_level(
    problem: Problem, higher: HigherPriority, method: Solver, options: SolveOptions, outcome: RawResult
) -> None:
    """Solve a level from the poses of the higher ones, and write its solutions into outcome.

    The springs of higher levels grow stiffer in stages. A solution at which the error of a higher goal has grown by
    more than GROWTH is rejected: that problem keeps its pose.
    """
    before = outcome.poses.copy()
    base = higher.losses(problem, before, options)
    reached = np.zeros(len(before), dtype=bool)
    for attempt in (0, 1) if options.restarts else (0,):
        starts, restarts = before, options.restarts if attempt else 0
        found, stiff = outcome, problem
        for stiffness in STIFFNESS:
            stiff = higher.stiffened(problem, stiffness)
            found = run_models(stiff, method, options._replace(starts=starts, restarts=restarts))
            starts, restarts = found.poses, 0
        mark_stationary(stiff, found, options)
        kept = (higher.losses(problem, found.poses, options) - base <= GROWTH).all(axis=1)
        done = kept & judge(problem, found, options)
        for k in np.flatnonzero(kept if attempt == 0 else done & ~reached):
            replace_answer(outcome, found, int(k))
        reached |= done
        if reached.all() or options.late:
            return


def mark_stationary(problem: Problem, outcome: RawResult, options: SolveOptions) -> None:
    """Mark poses as stationary that ran out of iterations but cannot be improved.

    Stiff springs slow down convergence of the last digits. The criterion is what a Newton step within the limits would
    still gain.
    """
    for k in np.flatnonzero(outcome.codes == EXHAUSTED):
        pose = outcome.poses[k]
        energy, gradient, hessian, _ = problem.evaluate(pose, member=int(k))
        held = (pose <= options.lower + AT_BOUND) & (gradient > 0.0)
        held |= (pose >= options.upper - AT_BOUND) & (gradient < 0.0)
        free = np.flatnonzero(~held & (options.lower < options.upper))
        values, vectors = np.linalg.eigh(hessian[np.ix_(free, free)])
        values = np.maximum(np.abs(values), 1e-14 * np.abs(values).max(initial=1e-300))
        gain = 0.5 * float(np.sum((vectors.T @ gradient[free]) ** 2 / values))
        if gain <= LAST_GAIN * abs(energy):
            outcome.codes[k] = STATIONARY


def replace_answer(outcome: RawResult, found: RawResult, k: int) -> None:
    """Replace the solution of a higher level by that of a lower one; iterations add up."""
    found.iterations[k] += outcome.iterations[k]
    found.evaluations[k] += outcome.evaluations[k]
    outcome.put(k, found, k)
    if outcome.traces and found.traces:
        outcome.traces[k] = found.traces[k]


def joined(every: list[RawResult]) -> RawResult:
    """Return the results of the problems of a batch as one."""
    names = ("poses", "codes", "errors", "iterations", "evaluations")
    columns = [np.concatenate([getattr(one, name) for one in every]) for name in names]
    return RawResult(*columns, traces=[trace for one in every for trace in one.traces])


# ------------------------------------------------------------------------------------------------ energies in Python


def run_models(problem: Problem, method: Solver, options: SolveOptions) -> RawResult:
    """Run the solver; energies in Python are replaced by quadratic models until both agree."""
    customs = [(energy, part) for energy, part in problem.customs if problem.constants[0, part.start, ROBUST] >= 0.0]
    if not customs:
        return method.run(problem, options)
    return one_by_one(problem, options, lambda k: model_one(problem, customs, method, options, k))


def model_one(
    problem: Problem, customs: list[tuple[VectorEnergy, slice]], method: Solver, options: SolveOptions, k: int
) -> RawResult:
    """Solve problem k by quadratic models, each at the last pose; steps must pass Armijo's test on the energy."""
    energies = [energy for energy, _ in customs]
    pose = options.starts[k].copy()
    one = with_models(problem.part(k, k + 1))
    constants, targets = one.constants[0], one.targets[0]
    one.soft = True
    best: RawResult | None = None
    energy = true_energy(one, customs, pose)
    damping = 0.0
    iterations = evaluations = 0.0
    found: RawResult | None = None
    for round_ in range(ROUNDS):
        largest = 0.0
        for (each, part), at in zip(customs, place_vectors(problem.skeleton, pose, energies), strict=True):
            _, slope, hessian = each.model(at, measured_rows(one.packed(), each, part))
            step, matrix = convex_model(each, at, slope, hessian, damping)
            largest = max(largest, float(np.abs(matrix).max()))
            aim, none = at + step.reshape(at.shape), np.zeros_like(slope)
            fill_model(constants[part], targets[part], aim, none, matrix, upper_root(matrix))
        before = one._evaluate(pose, one.packed(), False)[0]
        found = method.run(
            one, options._replace(starts=pose.reshape(1, -1), restarts=options.restarts if round_ == 0 else 0)
        )
        iterations += float(found.iterations[0])
        evaluations += float(found.evaluations[0])
        predicted = before - one._evaluate(found.poses[0], one.packed(), False)[0]
        after = true_energy(one, customs, found.poses[0])
        if after <= energy - SUFFICIENT * max(predicted, 0.0):
            gained = energy - after
            pose, energy, best = found.poses[0].copy(), after, found
            damping *= 0.25
            if damping < 1e-9 * largest:
                damping = 0.0
            if gained <= SETTLED * abs(energy):
                break
        elif predicted <= SETTLED * abs(energy):
            best = best or found
            break
        else:
            damping = max(8.0 * damping, 1e-3 * largest)
        if options.late:
            break
    out = best or found
    assert out is not None  # there is at least one round
    out.poses[0] = pose
    out.iterations[:], out.evaluations[:] = iterations, evaluations
    out.errors = problem.evaluate(pose, member=k)[3].reshape(1, -1)
    return out


def true_energy(problem: Problem, customs: list[tuple[VectorEnergy, slice]], pose: np.ndarray) -> float:
    """Return the energy at a pose (n,), with energies in Python instead of their models."""
    springs = problem.packed()
    constants = springs.constants.copy()
    for _, part in customs:
        constants[part, ROBUST] = OFF
    total = problem._evaluate(pose, springs._replace(constants=constants), False)[0]
    vectors = place_vectors(problem.skeleton, pose, [energy for energy, _ in customs])
    return total + sum(
        energy.value(at, measured_rows(springs, energy, part))
        for (energy, part), at in zip(customs, vectors, strict=True)
    )


def hold_energies(problem: Problem, poses: np.ndarray) -> None:
    """Make the models of energies in Python springs that hold their vectors where they are at poses.

    They hold only what the energy depends on: the positive semidefinite part of its Hessian.
    """
    for k, pose in enumerate(poses if problem.customs else ()):
        places = place_vectors(problem.skeleton, pose, [energy for energy, _ in problem.customs])
        for (energy, part), at in zip(problem.customs, places, strict=True):
            constants, targets = problem.constants[k, part], problem.targets[k, part]
            if constants[0, ROBUST] >= 0.0:
                matrix = convex_part(energy.model(at, measured_rows(problem.packed(k), energy, part))[2])
                fill_model(constants, targets, at, np.zeros(at.size), matrix, upper_root(matrix))
