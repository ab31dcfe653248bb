"""Problems that one run of a solver does not answer: choices between goals, strict priorities, energies in Python.

AnyOf        every member is solved for, from the same start, and the best one taken
priorities   a level is solved, then held by stiff springs at what it reached while the next one is served
Custom       the energy is replaced by a quadratic model in its points and directions, solved, and modelled anew
"""

from __future__ import annotations

import copy
import time
from typing import Any

import numpy as np

from posable.goals.custom import Custom
from posable.goals.hold import hold_springs, scale_springs
from posable.goals.model import convex_model, fill_model, place_vectors
from posable.goals.posture import Posture
from posable.kernels.fields import AXES, AXES2, OFF, ROBUST, SIZE, WEIGHT
from posable.problem import Problem
from posable.solvers.result import judge
from posable.solvers.solver import Outcome, Request, Solver

STIFFNESS = (1e2, 1e4, 1e6, 1e8)  # of a held level against the next: each starts where the one before ended
GROWTH = 1e-6  # [m, rad] by which the error of a held goal may grow
ROUNDS = 60  # of models of an energy in Python
SETTLED = 1e-10  # part of the energy: a round that gains no more is the last
SUFFICIENT = 1e-4  # part of a model's decrease that the energy itself must show: seed 000 (39)


def answer(problem: Problem, method: Solver, request: Request) -> tuple[Problem, Outcome, dict[str, Any]]:
    """Solve any problem. Return it with its choices made, the outcome, and the member that each AnyOf took (t,)."""
    t = request.starts.shape[0]
    spread = with_data(problem, np.repeat(problem.data, t // problem.data.shape[0], axis=0))
    best: tuple[Problem, Outcome] | None = None
    best_rank: list[tuple[bool, float]] = []
    taken = np.zeros((t, len(problem.choices)), dtype=int)
    for combination in problem.combinations():
        trial = with_data(spread, spread.data.copy())
        trial.choose(trial.data, combination)
        outcome = run_levels(trial, method, request)
        rank = ranks(trial, outcome, request)
        if best is None:
            best, best_rank = (trial, outcome), rank
            taken[:] = combination
            continue
        for k in range(t):
            if rank[k] < best_rank[k]:
                best_rank[k] = rank[k]
                taken[k] = combination
                take(best[0], best[1], trial, outcome, k)
    assert best is not None  # there is always one combination
    chosen = {}
    for column, (goal, _) in enumerate(problem.choices):
        label = problem.labels[problem.goals.index(goal)]
        chosen[label] = np.array([goal.names[member] for member in taken[:, column]], dtype=object)
    return *best, chosen


def stand_in(problem: Problem) -> Problem:
    """Return the problem as the solver will meet it: with models in the place of energies in Python."""
    out = copy.copy(problem)
    out.customs = []
    return out


def with_data(problem: Problem, data: np.ndarray) -> Problem:
    """Return the same problem with other spring data (t, g, WIDTH)."""
    out = copy.copy(problem)
    out.data = data
    return out


def ranks(problem: Problem, outcome: Outcome, request: Request) -> list[tuple[bool, float]]:
    """Return how good each answer is, lower is better: whether it misses, then its energy.

    Answers that reach everything are equally good, unless something soft is minimised beyond that.
    """
    good = judge(problem, outcome, request)
    out = []
    for k, pose in enumerate(outcome.poses):
        energy = 0.0 if good[k] and not problem.soft else problem.evaluate(pose, member=k)[0]
        out.append((not good[k], energy))
    return out


def take(problem: Problem, outcome: Outcome, other: Problem, answers: Outcome, k: int) -> None:
    """Put answer k of another outcome, and its spring data, in the place of this one's."""
    problem.data[k] = other.data[k]
    for name in ("poses", "codes", "errors", "iterations", "evaluations"):
        getattr(outcome, name)[k] = getattr(answers, name)[k]
    if outcome.traces:
        outcome.traces[k] = answers.traces[k]


# ------------------------------------------------------------------------------------------------------- priorities


def run_levels(problem: Problem, method: Solver, request: Request) -> Outcome:
    """Solve level after level, each while the ones before are held at what they reached."""
    priorities = sorted({goal.priority for goal in problem.goals})
    if len(priorities) == 1:
        return run_models(problem, method, request)
    begin = time.perf_counter()
    level_of = np.array([problem.goals[owner].priority for owner in problem.owners], dtype=int)
    held = problem.data.copy()
    tolerances = problem.tolerances.copy()
    outcome: Outcome | None = None
    for priority in priorities:
        now = with_data(problem, held.copy())
        now.data[:, level_of > priority, ROBUST] = OFF
        now.tolerances = tolerances.copy()
        now.customs = [(goal, part) for goal, part in problem.customs if goal.priority == priority]
        pulls_up_to(now, priority, request, outcome)
        if outcome is None:
            outcome = run_models(now, method, request)
        else:
            serve(now, level_of < priority, method, request._replace(time_limit=left(request, begin)), outcome)
        reached = with_data(now, held.copy())
        errors = np.array([now.evaluate(pose, member=k)[3] for k, pose in enumerate(outcome.poses)])
        hold_springs(reached, level_of == priority, outcome.poses, errors, tolerances)
        held[:, level_of == priority] = reached.data[:, level_of == priority]
        tolerances[level_of == priority] = np.minimum(tolerances[level_of == priority], GROWTH / 2)
    assert outcome is not None
    outcome.errors = np.array([problem.evaluate(pose, member=k)[3] for k, pose in enumerate(outcome.poses)])
    return outcome


def left(request: Request, begin: float) -> float | None:
    """Return the time [s] that is left, or None where there is no limit."""
    return None if request.time_limit is None else max(0.0, request.time_limit - (time.perf_counter() - begin))


def pulls_up_to(problem: Problem, priority: int, request: Request, outcome: Outcome | None) -> None:
    """Set the springs on degrees of freedom: those of this level, and those of earlier ones where they came to rest."""
    n = problem.skeleton.size
    problem.pull, problem.home = np.zeros(n), np.zeros(n)
    soft = False
    for k, goal in enumerate(problem.goals):
        if not isinstance(goal, Posture) or k in problem.off:
            continue
        if goal.priority == priority:
            problem._special(goal)
            soft = True
        elif goal.priority < priority and outcome is not None:
            pull, _ = goal.pulls(problem.skeleton)
            stiff = 1e6 * pull
            home = outcome.poses[0]
            total = problem.pull + stiff
            problem.home = np.where(
                total > 0, (problem.pull * problem.home + stiff * home) / np.maximum(total, 1e-300), home
            )
            problem.pull = total
    on = problem.data[:, :, ROBUST].max(axis=0, initial=OFF) >= 0.0
    problem.soft = soft or bool(np.isinf(problem.tolerances[on]).any())


def serve(problem: Problem, earlier: np.ndarray, method: Solver, request: Request, outcome: Outcome) -> None:
    """Solve a level from where the earlier ones, whose springs are marked (g,), have come; put answers into outcome.

    The held springs grow stiffer in steps. An answer at which a held goal's error has grown by more than GROWTH is not
    taken: that problem keeps the pose that it had.
    """
    before = outcome.poses.copy()
    base = held_errors(problem, earlier, before)
    reached = np.zeros(len(before), dtype=bool)
    for attempt in (0, 1) if request.restarts else (0,):
        starts, restarts = before, request.restarts if attempt else 0
        found = outcome
        for stiffness in STIFFNESS:
            stiff = with_data(problem, problem.data.copy())
            scale_springs(stiff, earlier, stiffness)
            found = run_models(stiff, method, request._replace(starts=starts, restarts=restarts))
            starts, restarts = found.poses, 0
        kept = (held_errors(problem, earlier, found.poses) - base <= GROWTH).all(axis=1)
        done = kept & judge(problem, found, request)
        for k in np.flatnonzero(kept if attempt == 0 else done & ~reached):
            put(outcome, found, int(k))
        reached |= done
        if reached.all():
            return


def held_errors(problem: Problem, earlier: np.ndarray, poses: np.ndarray) -> np.ndarray:
    """Return the errors (t, held) of the held springs at poses (t, n)."""
    return np.array([problem.evaluate(pose, member=k)[3][earlier] for k, pose in enumerate(poses)])


def put(outcome: Outcome, found: Outcome, k: int) -> None:
    """Put a later level's answer in the place of an earlier one's; the work adds up."""
    outcome.poses[k], outcome.codes[k], outcome.errors[k] = found.poses[k], found.codes[k], found.errors[k]
    outcome.iterations[k] += found.iterations[k]
    outcome.evaluations[k] += found.evaluations[k]
    if outcome.traces and found.traces:
        outcome.traces[k] = found.traces[k]


# ------------------------------------------------------------------------------------------------ energies in Python


def run_models(problem: Problem, method: Solver, request: Request) -> Outcome:
    """Run the solver; where energies are in Python, on models of them, until the models and the energies agree."""
    customs = [(goal, part) for goal, part in problem.customs if problem.data[0, part.start, ROBUST] >= 0.0]
    if not customs:
        return method.run(problem, request)
    every = [model_one(problem, customs, method, request, k) for k in range(request.starts.shape[0])]
    out = Outcome(
        np.concatenate([one.poses for one in every]),
        np.concatenate([one.codes for one in every]),
        np.concatenate([one.errors for one in every]),
        np.concatenate([one.iterations for one in every]),
        np.concatenate([one.evaluations for one in every]),
        [trace for one in every for trace in one.traces],
    )
    return out


def model_one(
    problem: Problem, customs: list[tuple[Custom, slice]], method: Solver, request: Request, k: int
) -> Outcome:
    """Solve problem k by models, each from the last pose; Armijo's test on the energy itself accepts what it finds."""
    goals = [goal for goal, _ in customs]
    pose = request.starts[k].copy()
    one = stand_in(with_data(problem, problem.data[k : k + 1].copy()))
    one.soft = True
    best: Outcome | None = None
    energy = true_energy(one, customs, pose)
    damping = 0.0
    iterations = evaluations = 0.0
    found: Outcome | None = None
    for round_ in range(ROUNDS):
        largest = 0.0
        for (goal, part), at in zip(customs, place_vectors(problem.skeleton, pose, goals), strict=True):
            _, slope, hessian = goal.model(at)
            step, matrix = convex_model(goal, at, slope, hessian, damping)
            largest = max(largest, float(np.abs(matrix).max()))
            fill_model(one.data[0, part], at + step.reshape(at.shape), np.zeros_like(slope), matrix)
            fill_roots(one.data[0, part], matrix)
        before = one._evaluate(pose, one.data[0], False)[0]
        found = method.run(
            one, request._replace(starts=pose.reshape(1, -1), restarts=request.restarts if round_ == 0 else 0)
        )
        iterations += float(found.iterations[0])
        evaluations += float(found.evaluations[0])
        predicted = before - one._evaluate(found.poses[0], one.data[0], False)[0]
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
    out = best or found
    assert out is not None  # there is at least one round
    out.poses[0] = pose
    out.iterations[:], out.evaluations[:] = iterations, evaluations
    out.errors = problem.evaluate(pose, member=k)[3].reshape(1, -1)
    return out


def true_energy(problem: Problem, customs: list[tuple[Custom, slice]], pose: np.ndarray) -> float:
    """Return the energy at a pose (n,), with the energies in Python themselves and not their models."""
    data = problem.data[0].copy()
    for _, part in customs:
        data[part, ROBUST] = OFF
    total = problem._evaluate(pose, data, False)[0]
    vectors = place_vectors(problem.skeleton, pose, [goal for goal, _ in customs])
    return total + sum(goal.value(at) for (goal, _), at in zip(customs, vectors, strict=True))


def fill_roots(rows: np.ndarray, matrix: np.ndarray) -> None:
    """Write the root of a model's matrix into its springs, for the solvers that go by residuals."""
    k = len(matrix) // 3
    blocks = np.linalg.cholesky(matrix).T.reshape(k, 3, k, 3).swapaxes(1, 2)
    for i in range(k):
        rows[i, AXES : AXES + 9] = blocks[i, i].ravel()
    row = k
    for i in range(k):
        for j in range(i + 1, k):
            rows[row, AXES2 : AXES2 + 9] = blocks[i, j].ravel()
            rows[row, SIZE] = 3 * (k - i)
            rows[row, WEIGHT] = 1.0
            row += 1
