"""Least change: of the poses that reach the goals, the one nearest to a reference in a comfort metric.

It is the lowest priority of a solve: the goals come out as they would without it. The compiled loop (engine/natural.py)
finds most poses at once. Where it does not reach the goals, the solver itself answers, and the loop then settles that
answer without giving up any of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

import numpy as np

from posable.engine.bounds import CONVERGED, STATIONARY
from posable.engine.jit import run_chunks
from posable.engine.joints import SLIDE
from posable.engine.layout import BODY as DOF_BODY
from posable.engine.layout import KIND, ON
from posable.engine.natural import (
    BASE,
    BODY,
    FROM,
    TIGHT,
    TIP,
    UNTIL,
    Comfort,
    Prior,
    natural_batch,
    room_size,
    with_segments,
)
from posable.errors import SolverError
from posable.model.body_plan import BodyPlan, person_plan
from posable.model.kinematics import Part, part_of, place_bodies, scratch
from posable.model.skeleton import Skeleton, per_figure
from posable.problem import Problem
from posable.solvers.base import SMALL, RawResult, SolveOptions, Solver, chunk_size
from posable.solvers.newton import Newton

MOST = 40  # iterations of one problem
# epsilon, relative to the stiffness of the goals: where it begins, where it ends, and where it ends if goals are missed
FIRST, LEAST, LEAST_WHERE_MISSED = 5e-2, 5e-5, 1e-8
FALL = 0.1  # of epsilon after a good step
MERIT = 5e-4  # epsilon of the measure by which steps are accepted
ENOUGH = 7e-3  # part of the change: where a step would gain no more, a pose is natural
EXACT = 0.1  # part of the change that the goals' energy may be where the exact Hessian pays
HARD = 14  # iterations after which a solve that began at the reference may be in the wrong valley
# A drag: how far a dof may move for a target that moves a little, [rad, m] and relative to what the goals alone ask for
HOP, PACE = 0.012, 4.0
GROWTH = 1e-6  # [m, rad] by which the error of a goal that is missed may grow
NO_WORSE, TINY = 1e-9, 1e-14  # part of the energy of missed goals, and energy, by which it may grow


# --- The comfort metric ---
#
# How readily each joint of a figure moves, and so which changes of a pose are small. A person's joints are identified
# by their roles (body_plan.py): every figure with a person's body plan has the same metric, whatever its joints are
# called and however many vertebrae it has. In any figure a stronger joint (`Joint.gain`) moves more readily, by the
# square of it.

# Stiffness of a joint [1/rad^2] in forward bending, lateral bending and twist, and of the position of the root [1/m^2]:
# heavy parts move less readily than light ones. For the spine and the neck it is the stiffness of the whole chain,
# which is distributed over its joints.
TRAVEL, LEG = 12.0, 0.884  # [1/m^2] for a person with legs of this length [m]
TURN = (10.0, 12.0, 3.0)
SPINE, NECK = (3.5, 5.0, 1.5), (0.5, 1.0, 0.3)
LIMBS = {
    "clavicle": (4.0, 3.0, 3.0), "shoulder": (0.15, 0.18, 0.2), "elbow": (0.15, 0.15, 0.15), "wrist": (0.8, 0.8, 0.5),
    "fingers": (2.0, 2.0, 2.0), "hip": (0.5, 1.2, 1.2), "knee": (0.4, 0.4, 0.4), "ankle": (0.8, 1.5, 1.5),
    "toes": (2.5, 2.5, 2.5),
}  # fmt: skip
BONE = 10.0  # of joints without a role
SHARE = 1.0  # fraction of the joint stiffness that keeps neighbours in a chain at the same fraction of their ranges
MARGIN = 0.25  # fraction of the range at either end that is uncomfortable
END = 4.0  # stiffness there, relative to the joint's own


@per_figure
def comfort_of(skeleton: Skeleton) -> Comfort:
    """Return the comfort metric of a figure."""
    slides = skeleton.figure.dof[:, KIND] == SLIDE
    stiffness = np.where(slides, TRAVEL, 1.0)
    pairs: list[tuple[int, int, float, float]] = []
    plan = person_plan(skeleton)
    if plan is not None:
        axes = place_bodies(skeleton, skeleton.rest[None], twists=True)[2][0, :, :3]  # (n, 3), in the world
        shares = (axes @ np.stack([plan.left, plan.forward, plan.up], axis=1)) ** 2  # bend, side, twist
        parts = _parts(plan)
        for joint in skeleton.names:  # joints without a role are no joints of a person: a hip bone, a jaw
            where = skeleton.index(joint)
            stiffness[where] = shares[where] @ LIMBS[parts[joint]] if joint in parts else BONE
        for chain, total in ((_between(plan, "pelvis", "chest"), SPINE), (_between(plan, "chest", "head"), NECK)):
            for joint in chain:
                where = skeleton.index(joint)
                stiffness[where] = len(chain) * shares[where] @ total
            pairs += _shared(skeleton, chain, stiffness)
        root = skeleton.slices[0]
        travel = TRAVEL * (LEG / plan.leg) ** 2 if plan.leg > 0.0 else TRAVEL  # whatever the file's unit
        stiffness[root] = np.where(slides[root], travel, shares[root] @ TURN)
    stiffness = stiffness * np.where(skeleton.gain > 0.0, skeleton.gain, 1.0) ** -2.0  # stronger joints move more
    span = skeleton.upper - skeleton.lower
    bounded = np.isfinite(span) & (span < 2.0 * np.pi) & ~slides
    with np.errstate(invalid="ignore"):
        inner = np.stack([skeleton.lower + MARGIN * span, skeleton.upper - MARGIN * span], axis=1)
    inner = np.where(bounded[:, None], inner, [-np.inf, np.inf])
    inner = np.stack([np.minimum(inner[:, 0], skeleton.rest), np.maximum(inner[:, 1], skeleton.rest)], axis=1)
    return Comfort(
        stiffness,
        np.ascontiguousarray(inner),
        np.where(bounded, END * stiffness, 0.0),
        np.array([pair[:2] for pair in pairs], dtype=np.int64).reshape(-1, 2),
        np.array([pair[2:] for pair in pairs], dtype=float).reshape(-1, 2),
    )


def _path(skeleton: Skeleton, joint: str) -> list[str]:
    """Return the joints from the root to this one."""
    out = [joint]
    while (parent := skeleton.joint(out[-1]).parent) is not None:
        out.append(parent)
    return out[::-1]


def _between(plan: BodyPlan, base: str, tip: str) -> list[str]:
    """Return the moving joints after that of role `base`, up to and including that of role `tip`."""
    if base not in plan or tip not in plan:
        return []
    path = _path(plan.skeleton, plan[tip])
    if plan[base] not in path:
        return []
    after = path[path.index(plan[base]) + 1 :]
    return [name for name in after if plan.skeleton.joint(name).motion.size]


def _parts(plan: BodyPlan) -> dict[str, str]:
    """Return the part of a limb that each of its joints belongs to, given by the last role above it."""
    skeleton = plan.skeleton
    role_of = {joint: role.partition(".")[0] for role, joint in plan.roles.items() if "." in role}
    out: dict[str, str] = {}
    for joint in skeleton.joints:  # parents first
        part = role_of.get(joint.name)
        above = out.get(joint.parent or "")
        if part in ("hand", "toe") or (part is None and above in ("wrist", "ankle")):
            part = "toes" if part == "toe" or above == "ankle" else "fingers"
        if part is None:
            part = above
        if part is not None:
            out[joint.name] = part
    return out


def _shared(skeleton: Skeleton, chain: Iterable[str], stiffness: np.ndarray) -> list[tuple[int, int, float, float]]:
    """Return (dof, dof above, stiffness, ratio) of neighbours in a chain that turn about the same axes."""
    out = []
    for above, below in pairwise(chain):
        if skeleton.joint(above).motion != skeleton.joint(below).motion:
            continue
        a, b = skeleton.index(below), skeleton.index(above)
        for i, j in zip(range(a.start, a.stop), range(b.start, b.stop), strict=True):
            spans = skeleton.upper[[i, j]] - skeleton.lower[[i, j]]
            ratio = spans[0] / spans[1] if np.isfinite(spans).all() and (spans > 0.0).all() else 1.0
            out.append((i, j, SHARE * stiffness[i], float(np.clip(ratio, 0.25, 4.0))))
    return out


# --- Least change below the goals ---


@lru_cache(maxsize=1)
def no_prior() -> Prior:
    """Return a prior without limbs."""
    whole = np.int64
    return Prior(
        np.zeros((0, 7), whole), np.zeros(0), np.zeros((0, 5), whole), np.zeros((0, 3), whole), np.zeros((0, 12)),
        np.zeros(0), np.zeros(0), np.zeros((3, 0)), np.zeros(0), np.zeros((0, 9)), np.zeros((0, 3)),
    )  # fmt: skip


def prior_weight(problem: Problem) -> float:
    """Return the weight of the prior of poses among the goals, 0 where there is none."""
    if not problem.priors:
        return 0.0
    return sum(problem._goals[k].weight for k in problem.priors if k not in problem.off)  # these have no targets


def wants_natural(natural: bool | None, problem: Problem, method: Solver) -> bool:
    """Return whether a solve has least change below its goals: what was asked, or else by the figure.

    Args:
        natural: True, False, or None for people, unless a posture already says what to stay near.
        problem: the goals.
        method: the solver; one that was chosen by name answers as itself.
    """
    if natural is not None and not isinstance(natural, (bool, np.bool_)):
        raise SolverError("natural", expected="True, False or None", got=repr(natural))
    if prior_weight(problem) > 0.0:
        return True
    if natural is not None:
        return bool(natural)
    return type(method) is Newton and not problem.soft and person_plan(problem.skeleton) is not None


def settle(problem: Problem, method: Solver, request: SolveOptions, references: np.ndarray) -> RawResult:
    """Solve a plain problem with least change below its goals.

    Args:
        problem: the goals, all of one priority.
        method: the solver that answers where the loop does not reach.
        request: starts, limits and the rest of what `solve` was asked.
        references: (t or 1, n) [rad, m], the poses to stay near.

    Returns:
        The outcome of every problem of the batch.
    """
    lowest = Lowest(problem, request, references)
    if type(method) is not Newton or request.record or request.time_limit is not None:
        outcome = method.run(problem, request)
        lowest.refine(outcome)
        return outcome
    outcome, values = lowest.run(request.starts.copy(), None, FIRST, LEAST)
    if outcome.iterations.max() >= HARD:
        try_again(problem, method, request, references, outcome, values[:, 1])
    missed = np.flatnonzero(outcome.codes != CONVERGED)
    if missed.size:
        some = rows_of(problem, missed)
        answer = method.run(some, request._replace(starts=request.starts[missed]))
        Lowest(some, request, references if len(references) == 1 else references[missed]).refine(answer)
        outcome.good = None
        for name in ("poses", "codes", "errors"):
            getattr(outcome, name)[missed] = getattr(answer, name)
        outcome.iterations[missed] += answer.iterations
        outcome.evaluations[missed] += answer.evaluations
    return outcome


def try_again(
    problem: Problem, method: Solver, request: SolveOptions, references: np.ndarray, outcome: RawResult,
    costs: np.ndarray,
) -> None:  # fmt: skip
    """Settle hard problems from the solver's own answer too, in place, and keep what changes less.

    Only those that start at their reference: elsewhere, as in a drag, an answer stays on the branch that it is on.

    Args:
        problem: The goals, all of one priority.
        method: The solver.
        request: As for `settle`.
        references: (t or 1, n) [rad, m], the poses to stay near.
        outcome: What was found.
        costs: (t,), what it costs.
    """
    begins = (request.starts == references).all(axis=1)
    hard = np.flatnonzero((outcome.iterations >= HARD) & (outcome.codes == CONVERGED) & begins)
    if not hard.size:
        return
    some = rows_of(problem, hard)
    answer = method.run(some, request._replace(starts=request.starts[hard]))
    lowest = Lowest(some, request, references if len(references) == 1 else references[hard])
    found, values = lowest.run(answer.poses, None, LEAST, LEAST)
    outcome.iterations[hard] += answer.iterations + found.iterations
    outcome.evaluations[hard] += answer.evaluations + found.evaluations
    better = (found.codes == CONVERGED) & (values[:, 1] < costs[hard])
    if better.any():
        outcome.poses[hard[better]], outcome.errors[hard[better]] = found.poses[better], found.errors[better]
        outcome.good = None  # the verdict was on other poses


def ease(problem: Problem, request: SolveOptions, references: np.ndarray, outcome: RawResult) -> RawResult:
    """Return the answer of a drag, held back where it would hop.

    The pose of least change jumps where the branch that it is on ends, however little a target moves. The goals are
    reached on the way there too: the pose goes as far as HOP and PACE allow, and the next solves go on from there.

    Args:
        problem: The goals, all of one priority.
        request: Its starts are the last answer (1, n).
        references: (1, n) [rad, m], the pose to stay near.
        outcome: What `settle` found.
    """
    last = request.starts
    largest = float(np.abs(outcome.poses - last).max(initial=0.0))
    if largest <= HOP or largest > np.pi or outcome.codes[0] != CONVERGED:  # beyond pi: the same turn, written anew
        return outcome
    lowest = Lowest(problem, request, references)
    needed = lowest.restored(last.copy())
    most = HOP + PACE * float(np.abs(needed.poses - last).max())
    if largest <= most or needed.codes[0] != CONVERGED:
        return outcome
    held = lowest.restored(last + most / largest * (outcome.poses - last))
    if held.codes[0] != CONVERGED:
        return outcome
    held.iterations += outcome.iterations + needed.iterations
    held.evaluations += outcome.evaluations + needed.evaluations
    return held


def settle_held(problem: Problem, outcome: RawResult, request: SolveOptions, references: np.ndarray) -> None:
    """Settle, in place, the answers to a problem with priorities, choices or energies in Python.

    Every goal is held at what it has reached, so that no level pays.
    """
    from posable.solvers.hierarchy import hold_energies, hold_goals

    held = problem.copy()
    t = len(outcome.poses)
    held.spread(t)
    everything = np.ones(len(problem.springs), dtype=bool)
    hold_goals(held, everything, outcome.poses, outcome.errors, problem.tolerances)
    hold_energies(held, outcome.poses)
    held.customs = []
    answer = RawResult(
        outcome.poses.copy(), outcome.codes, outcome.errors.copy(), outcome.iterations, outcome.evaluations
    )
    Lowest(held, request, references).refine(answer)
    for k, pose in enumerate(answer.poses):
        errors = problem.evaluate(pose, member=k)[3]
        counted = ~problem.idle
        kept = (errors <= np.maximum(outcome.errors[k] + GROWTH, TIGHT * problem.tolerances))[counted].all()
        if kept:
            outcome.poses[k], outcome.errors[k] = pose, errors


def rows_of(problem: Problem, rows: np.ndarray) -> Problem:
    """Return the problem of some rows of a batch."""
    out = problem.copy()
    out.constants = out.constants if len(out.constants) == 1 else out.constants[rows]
    out.targets = out.targets if len(out.targets) == 1 else out.targets[rows]
    return out


class Lowest:
    """What is minimised below the goals of a problem, ready for the compiled loop."""

    def __init__(self, problem: Problem, request: SolveOptions, references: np.ndarray):
        self.problem, self.request, self.references = problem, request, references
        self.part, self.comfort, self.prior, self.stiff = lowest_of(problem)

    def run(
        self, poses: np.ndarray, rows: np.ndarray | None, first: float, least: float
    ) -> tuple[RawResult, np.ndarray]:
        """Settle poses (t, n) of some rows of the batch, None for all of them, in place.

        Returns:
            The outcome, and (t, 3): the energy of the goals and of what is below them, and the verdict.
        """
        problem, request, t = self.problem, self.request, len(poses)
        key = (first, least, request.max_iterations, self.stiff)
        params = problem.once(key, lambda: self._params(first, least))
        codes, turns = np.zeros(t, dtype=np.int64), np.zeros(t, dtype=np.int64)
        errors, values = np.empty((t, len(problem.springs))), np.empty((t, 3))
        each = (problem.constants, problem.targets, self.references)
        if rows is not None:
            each = tuple(every if len(every) == 1 else every[rows] for every in each)
        loop, part = problem.fitted(natural_batch), self.part
        memory = problem.work_size + room_size(self.prior, self.part.depth)

        def settle_some(some: slice) -> None:
            constants, targets, references = (every if len(every) == 1 else every[some] for every in each)
            loop(
                part.figure, part.order, part.kind, constants, targets, part.pull, part.home, problem.tolerances,
                self.comfort, self.prior, request.lower, request.upper, poses[some], references, part.dofs,
                scratch(memory), problem.work_size, part.depth, params, errors[some], codes[some], turns[some],
                values[some],
            )  # fmt: skip

        if t <= SMALL:
            settle_some(slice(0, t))
        else:
            run_chunks(settle_some, t, chunk_size(t, request.threads), request.threads, [])
        iterations = turns.astype(float)
        return RawResult(poses, codes, errors, iterations, iterations + 1.0, None, values[:, 2]), values

    def restored(self, poses: np.ndarray) -> RawResult:
        """Bring the goals back at poses (t, n), in place, with the least change of them: no step towards comfort."""
        return Lowest(self.problem, self.request._replace(max_iterations=0), self.references).run(
            poses, None, LEAST, LEAST
        )[0]

    def _params(self, first: float, least: float) -> np.ndarray:
        """Return what the loop reads, column by column (engine/natural.py)."""
        most = MOST if self.request.max_iterations is None else min(MOST, self.request.max_iterations)
        return np.array((most, self.problem.coupled, first, least, max(MERIT, least), ENOUGH, EXACT, FALL, self.stiff))

    def refine(self, outcome: RawResult) -> None:
        """Settle the answers of a solver, in place; where goals would pay for it, its answer stays as it is."""
        for code, least in ((CONVERGED, LEAST), (STATIONARY, LEAST_WHERE_MISSED)):
            rows = np.flatnonzero(outcome.codes == code)
            if not rows.size:
                continue
            found, values = self.run(outcome.poses[rows], rows, least, least)
            for i, k in enumerate(rows):
                outcome.iterations[k] += found.iterations[i]
                if code == CONVERGED and not self.problem.soft:
                    better = found.codes[i] == CONVERGED
                else:
                    before = self.problem.evaluate(outcome.poses[k], exact=False, member=int(k))[0]
                    grown = float((found.errors[i] - outcome.errors[k]).max(initial=0.0))
                    better = values[i, 0] <= before * (1.0 + NO_WORSE) + TINY and grown <= GROWTH
                if better:
                    outcome.good = None  # the verdict was on another pose
                    outcome.poses[k], outcome.errors[k] = found.poses[i], found.errors[i]


def lowest_of(problem: Problem) -> tuple[Part, Comfort, Prior, float]:
    """Return the part of the figure that goals and prior move, what is minimised on it, and the whole's stiffness."""
    weight = prior_weight(problem)
    if problem.coupled or np.count_nonzero(problem.pull):
        comfort, prior = lowest_priority(problem.skeleton, weight)
        return problem.whole, comfort, prior, comfort.stiffness.sum()
    return problem.once(("lowest", weight), lambda: _lowest_on_part(problem, weight))


def _lowest_on_part(problem: Problem, weight: float) -> tuple[Part, Comfort, Prior, float]:
    """Return what `lowest_of` does, for the bodies of goals and prior and for those that share a bend with them."""
    comfort, prior = lowest_priority(problem.skeleton, weight)
    bodies = {*problem.kind[:, ON].tolist(), *prior.feature[:, [BASE, BODY]].ravel().tolist()}
    body_of = problem.figure.dof[:, DOF_BODY]
    while True:
        part = part_of(problem.whole, bodies)
        inside = np.isin(comfort.pair, part.dofs)
        joined = inside.any(axis=1) & ~inside.all(axis=1)
        if not joined.any():
            break
        bodies.update(body_of[comfort.pair[joined]].ravel().tolist())
    new_dof, new_body = np.full(problem.skeleton.size + 1, -1), np.full(len(problem.figure.body) + 1, -1)
    new_dof[part.dofs], new_body[part.bodies] = np.arange(len(part.dofs)), np.arange(len(part.bodies))  # of -1: -1
    limb, feature = prior.limb.copy(), prior.feature.copy()
    limb[:, TIP] = new_dof[limb[:, TIP]]
    feature[:, [BASE, BODY]], feature[:, [FROM, UNTIL]] = (
        new_body[feature[:, [BASE, BODY]]],
        new_dof[feature[:, [FROM, UNTIL]]],
    )
    kept = inside.all(axis=1)
    own = Comfort(
        comfort.stiffness[part.dofs], comfort.inner[part.dofs], comfort.end[part.dofs], new_dof[comfort.pair[kept]],
        comfort.pair_data[kept],
    )  # fmt: skip
    prior = with_segments(prior._replace(limb=limb, feature=feature), part.figure, part.order)
    return part, own, prior, comfort.stiffness.sum()


@per_figure
def lowest_priority(skeleton: Skeleton, weight: float) -> tuple[Comfort, Prior]:
    """Return what is minimised below the goals of a figure: least change, and a prior of that weight."""
    comfort = comfort_of(skeleton)
    if not weight > 0.0:
        return comfort, no_prior()
    from posable.goals.natural import CHANGE, TEMPERATURE, prior_of  # its table of recorded poses, only where asked for

    scaled = comfort.pair_data * [CHANGE, 1.0]
    less = comfort._replace(stiffness=CHANGE * comfort.stiffness, end=CHANGE * comfort.end, pair_data=scaled)
    return less, prior_of(skeleton, weight, TEMPERATURE)
