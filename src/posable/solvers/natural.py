"""Least change: of the poses that reach the goals, the one nearest to a reference in a comfort metric.

It is the lowest priority of a solve and does not affect how well the goals are met. The compiled loop
(engine/natural.py) finds most poses in one run. If it does not reach the goals, the regular solver is used, and the
loop then improves the comfort of its pose without making any goal worse.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

import numpy as np

from posable.engine.bounds import CONVERGED, STATIONARY
from posable.engine.jit import call_directly, run_chunks
from posable.engine.joints import SLIDE
from posable.engine.layout import BODY as DOF_BODY
from posable.engine.layout import BODY_A, BODY_B, GOAL, KIND, PARENT
from posable.engine.natural import (
    BASE,
    BODY,
    FEATURES,
    FEATURES_END,
    FROM,
    TIGHT,
    TIP,
    UNTIL,
    Comfort,
    Prior,
    natural_batch,
    scratch_size,
    with_segments,
)
from posable.errors import SolverError
from posable.model.body_plan import SIDES, BodyPlan, person_plan
from posable.model.kinematics import Part, part_of, place_bodies, scratch
from posable.model.skeleton import Skeleton, per_figure
from posable.problem import Problem
from posable.solvers.base import LARGEST_CHUNK, SMALL, RawResult, SolveOptions, Solver, chunk_size
from posable.solvers.newton import Newton
from posable.solvers.result import errors_at

MOST = 40  # iterations of one problem
# epsilon, relative to the stiffness of the goals: its first value, its last, and its last if goals are missed
FIRST, LEAST, LEAST_WHERE_MISSED = 5e-2, 5e-5, 1e-8
FALL = 0.1  # of epsilon after a good step
MERIT = 5e-4  # epsilon of the measure by which steps are accepted
ENOUGH = 1.4e-2  # fraction of the change: if a step would gain less, the pose is final
EXACT = 0.1  # ratio of the goals' energy to the change below which the exact Hessian pays off
HARD = 11  # iterations after which a solve from the reference may be in the wrong valley
SCATTER = 0.25  # [rad, m] standard deviation of other starts for those
# A drag: how far a dof may move for a target that moves a little, [rad, m] and relative to what the goals alone ask for
HOP, PACE = 0.012, 4.0
GROWTH = 1e-6  # [m, rad] by which the error of a goal that is missed may grow
NO_WORSE, TINY = 1e-9, 1e-14  # fraction of the energy of missed goals, and energy, by which it may grow


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
        for joint in skeleton.names:  # joints without a role, such as a hip bone or a jaw
            where = skeleton.index(joint)
            stiffness[where] = shares[where] @ LIMBS[parts[joint]] if joint in parts else BONE
        for chain, total in ((_between(plan, "pelvis", "chest"), SPINE), (_between(plan, "chest", "head"), NECK)):
            for joint in chain:
                where = skeleton.index(joint)
                stiffness[where] = len(chain) * shares[where] @ total
            pairs += _shared(skeleton, chain, stiffness)
        root = skeleton.index(skeleton.free_root or skeleton.names[0])
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


def _between(plan: BodyPlan, base: str, tip: str) -> list[str]:
    """Return the moving joints after that of role `base`, up to and including that of role `tip`."""
    if base not in plan or tip not in plan:
        return []
    after = set(plan.skeleton.below(plan[base]))
    path = plan.skeleton.path_to(plan[tip])
    return [name for name in path if name in after and plan.skeleton.joint(name).motion.size]


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
        np.zeros((0, 7), whole), np.zeros(0), np.zeros(0), np.zeros((0, 5), whole), np.zeros((0, 3), whole),
        np.zeros((0, 12)), np.zeros(0), np.zeros(0), np.zeros((3, 0)), np.zeros(0), np.zeros((0, 9)), np.zeros((0, 3)),
    )  # fmt: skip


@per_figure
def usual_prior(skeleton: Skeleton) -> float:
    """Return the weight of the prior of poses where least change is on and no goal states one.

    It is 1 for people whose elbows or knees have no limits, as in most character files: least change alone would bend
    them backwards. It is 0 for other figures.
    """
    plan = person_plan(skeleton)
    if plan is None:
        return 0.0
    hinges = [plan[f"{role}.{side}"] for role in ("elbow", "knee") for side in SIDES if f"{role}.{side}" in plan]
    free = [
        bool((skeleton.upper[where] - skeleton.lower[where] >= 2.0 * np.pi)[~skeleton.frozen[where]].all())
        for where in map(skeleton.index, hinges)
    ]
    return float(any(free))


def prior_weight(problem: Problem) -> float:
    """Return the weight of the prior of poses among the goals, 0 where there is none."""
    if not problem.priors:
        return 0.0
    return sum(problem._goals[k].weight for k in problem.priors if k not in problem.off)  # these have no targets


def uses_natural(natural: bool | None, problem: Problem, method: Solver) -> bool:
    """Return whether a solve minimises the change below its goals: as requested, else by the figure.

    Args:
        natural: True, False, or None: for people, unless a posture already states a pose to stay near.
        problem: the goals.
        method: the solver; one that was chosen by name is used as it is.
    """
    if natural is not None and not isinstance(natural, (bool, np.bool_)):
        raise SolverError("natural", expected="True, False or None", got=repr(natural))
    if prior_weight(problem) > 0.0:
        return True
    if natural is not None:
        return bool(natural)
    return type(method) is Newton and not problem.soft and person_plan(problem.skeleton) is not None


def minimise_change(problem: Problem, method: Solver, options: SolveOptions, references: np.ndarray) -> RawResult:
    """Solve a plain problem with least change below its goals.

    Args:
        problem: the goals, all of one priority.
        method: the solver for problems that the loop does not reach.
        options: starts, limits and the other arguments of `solve`.
        references: (t or 1, n) [rad, m], the poses to stay near.

    Returns:
        The outcome of every problem of the batch.
    """
    lowest = LowestPriority(problem, options, references)
    if type(method) is not Newton or options.record or options.deadline is not None:
        outcome = method.run(problem, options)
        lowest.refine(outcome)
        return outcome
    outcome, values = lowest.run(options.starts.copy(), None, FIRST, LEAST)
    if max(outcome.iterations.tolist()) >= HARD:
        try_other_starts(lowest, outcome, values[:, 1])
    if set(outcome.codes.tolist()) != {CONVERGED}:
        missed = np.flatnonzero(outcome.codes != CONVERGED)
        some = problem.rows(missed)
        answer = method.run(some, options._replace(starts=options.starts[missed]))
        LowestPriority(some, options, references if len(references) == 1 else references[missed]).refine(answer)
        outcome.good = None
        answer.iterations += outcome.iterations[missed]
        answer.evaluations += outcome.evaluations[missed]
        outcome.put(missed, answer)
    return outcome


def try_other_starts(lowest: LowestPriority, outcome: RawResult, costs: np.ndarray) -> None:
    """Solve hard problems also from two poses on either side of the start, in place, and keep the best.

    Only those that start at their reference: elsewhere, as in a drag, a pose stays on its branch.

    Args:
        lowest: The problems.
        outcome: What was found.
        costs: (t,), what it costs; in place too.
    """
    options = lowest.options
    begins = (options.starts == lowest.references).all(axis=1)
    hard = np.flatnonzero((outcome.iterations >= HARD) & (outcome.codes == CONVERGED) & begins)
    if not hard.size:
        return
    rows, apart = np.repeat(hard, 2), opposite_moves(options.starts.shape[1])
    poses = np.clip(options.starts[rows] + np.tile(apart, (len(hard), 1)), options.lower, options.upper)
    found, values = lowest.run(poses, rows, FIRST, LEAST)
    outcome.iterations[hard] += found.iterations.reshape(-1, 2).sum(axis=1)
    outcome.evaluations[hard] += found.evaluations.reshape(-1, 2).sum(axis=1)
    for k, row in enumerate(rows):
        if found.codes[k] == CONVERGED and values[k, 1] < costs[row]:
            outcome.poses[row], outcome.errors[row], costs[row] = found.poses[k], found.errors[k], values[k, 1]
            outcome.good = None  # the verdict was on another pose


@lru_cache(maxsize=64)
def opposite_moves(size: int) -> np.ndarray:
    """Return the moves (2, size) [rad, m] from the start to others: a random one and its opposite."""
    move = np.random.default_rng(0).normal(0.0, SCATTER, size)
    return np.stack([move, -move])


def limit_jump(problem: Problem, options: SolveOptions, references: np.ndarray, outcome: RawResult) -> RawResult:
    """Return the pose of a drag, held back where it would jump.

    The pose of least change jumps where its branch ends, however little a target moves. The goals are
    reached on the way there too: the pose goes as far as HOP and PACE allow, and the next solves go on from there.

    Args:
        problem: The goals, all of one priority.
        options: Its starts are the last answer (1, n).
        references: (1, n) [rad, m], the pose to stay near.
        outcome: What `minimise_change` found.
    """
    last = options.starts
    largest = float(np.abs(outcome.poses - last).max(initial=0.0))
    # beyond pi it is another vector of the same rotation
    if largest <= HOP or largest > np.pi or outcome.codes[0] != CONVERGED:
        return outcome
    lowest = LowestPriority(problem, options, references)
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


def minimise_level_change(problem: Problem, outcome: RawResult, options: SolveOptions, references: np.ndarray) -> None:
    """Minimise the change, in place, for a problem with priorities, choices or energies in Python.

    Every goal keeps the error that it has reached, so that no level gets worse.
    """
    from posable.solvers.hierarchy import hold_energies, hold_goals

    if options.late:
        return
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
    LowestPriority(held, options, references).refine(answer)
    errors = errors_at(problem, answer.poses, options)
    kept = errors <= np.maximum(outcome.errors + GROWTH, TIGHT * problem.tolerances)
    kept = kept[:, ~problem.idle].all(axis=1)
    outcome.poses[kept], outcome.errors[kept] = answer.poses[kept], errors[kept]


class LowestPriority:
    """What is minimised below the goals of a problem, ready for the compiled loop."""

    def __init__(self, problem: Problem, options: SolveOptions, references: np.ndarray):
        self.problem, self.options, self.references = problem, options, references
        self.part, self.comfort, self.prior, self.stiff = lowest_priority_of(problem)

    def run(
        self, poses: np.ndarray, rows: np.ndarray | None, first: float, least: float
    ) -> tuple[RawResult, np.ndarray]:
        """Minimise the change of poses (t, n) of some rows of the batch, None for all of them, in place.

        Returns:
            The outcome, and (t, 3): the energy of the goals and of what is below them, and the verdict.
        """
        problem, options, t = self.problem, self.options, len(poses)
        key = (first, least, options.max_iterations, self.stiff)
        params = problem.once(key, lambda: self._params(first, least))
        codes, turns = np.zeros((2, t), dtype=np.int64)
        errors, values = np.empty((t, len(problem.springs))), np.empty((t, 3))
        constants, targets, references = problem.constants, problem.targets, self.references
        if rows is not None:
            constants, targets, references = (
                every if len(every) == 1 else every[rows] for every in (constants, targets, references)
            )
        loop, part = problem.fitted(natural_batch), self.part
        memory = problem.work_size + scratch_size(self.prior, part.depth)
        arguments = (
            part.figure, part.order, part.kind, constants, targets, part.pull, part.home, problem.tolerances,
            self.comfort, self.prior, options.lower, options.upper, poses, references, part.dofs, scratch(memory),
            part.depth, params, errors, codes, turns, values,
        )  # fmt: skip

        def solve_rows(some: slice) -> None:
            own = [every if len(every) == 1 else every[some] for every in (constants, targets, references)]
            loop(
                *arguments[:3], *own[:2], *arguments[5:12], poses[some], own[2], part.dofs, scratch(memory),
                *arguments[16:18], errors[some], codes[some], turns[some], values[some],
            )  # fmt: skip

        if t > SMALL:
            run_chunks(solve_rows, t, chunk_size(t, options.threads), options.threads, [])
        else:
            varying = (constants, targets, references, options.lower, options.upper)
            call_directly(loop, arguments, problem._kept, varying)
        iterations = turns.astype(float)
        return RawResult(poses, codes, errors, iterations, iterations + 1.0, None, values[:, 2]), values

    def restored(self, poses: np.ndarray) -> RawResult:
        """Reach the goals again from poses (t, n), in place, with the least change: no step towards comfort."""
        return LowestPriority(self.problem, self.options._replace(max_iterations=0), self.references).run(
            poses, None, LEAST, LEAST
        )[0]

    def _params(self, first: float, least: float) -> np.ndarray:
        """Return the params of the loop (engine/natural.py)."""
        most = MOST if self.options.max_iterations is None else min(MOST, self.options.max_iterations)
        return np.array((most, first, least, max(MERIT, least), ENOUGH, EXACT, FALL, self.stiff))

    def refine(self, outcome: RawResult) -> None:
        """Minimise the change of a solver's poses, in place; a pose that would lose a goal is kept."""
        for code, least in ((CONVERGED, LEAST), (STATIONARY, LEAST_WHERE_MISSED)):
            rows = np.flatnonzero(outcome.codes == code)
            size = max(len(rows), 1) if self.options.deadline is None else LARGEST_CHUNK
            for first in range(0, len(rows), size):
                if self.options.late:
                    return
                self._refine_rows(outcome, rows[first : first + size], code, least)

    def _refine_rows(self, outcome: RawResult, rows: np.ndarray, code: int, least: float) -> None:
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


def lowest_priority_of(problem: Problem) -> tuple[Part, Comfort, Prior, float]:
    """Return the part of the figure that goals and prior move, what is minimised on it, and the whole's stiffness."""
    weight = prior_weight(problem) if problem.priors else usual_prior(problem.skeleton)
    return problem.once(("lowest", weight, problem.off if weight else None), lambda: _new_lowest(problem, weight))


def with_idle(problem: Problem, prior: Prior) -> Prior:
    """Return the prior of a figure, with the limbs marked that have no goal: the arm that does not reach."""
    if not len(prior.limb):
        return prior
    from posable.goals.natural import TEMPERATURE, USUAL

    counts = np.isfinite(problem.tolerances) & ~np.isin(problem.kind[:, GOAL], list(problem.off))
    parents, held = problem.figure.body[:, PARENT], set()
    for body in problem.kind[counts][:, [BODY_A, BODY_B]].ravel().tolist():
        while body >= 0 and body not in held:
            held.add(body)
            body = int(parents[body])
    idle = np.zeros(len(prior.limb))
    for k, limb in enumerate(prior.limb):
        feature = prior.feature[limb[FEATURES] : limb[FEATURES_END]]
        own = feature[feature[:, BODY] >= 0, BODY].tolist()
        if not held.intersection(own):
            idle[k] = USUAL / TEMPERATURE * len(feature)
    return prior._replace(idle=idle)


def _new_lowest(problem: Problem, weight: float) -> tuple[Part, Comfort, Prior, float]:
    """Do as `lowest_priority_of`: for the bodies of goals and prior and for those that share a bend with them.

    For all bodies if dofs are coupled or have springs.
    """
    comfort, prior = comfort_and_prior(problem.skeleton, weight)
    prior = with_idle(problem, prior)
    if problem.coupled or np.count_nonzero(problem.pull):
        return problem.whole, comfort, prior, comfort.stiffness.sum()
    bodies = {*problem.kind[:, BODY_A].tolist(), *prior.feature[:, [BASE, BODY]].ravel().tolist()}
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
def comfort_and_prior(skeleton: Skeleton, weight: float) -> tuple[Comfort, Prior]:
    """Return what is minimised below the goals of a figure: least change, and a prior of that weight."""
    comfort = comfort_of(skeleton)
    if not weight > 0.0:
        return comfort, no_prior()
    from posable.goals.natural import CHANGE, TEMPERATURE, prior_of  # loads recorded poses

    scaled = comfort.pair_data * [CHANGE, 1.0]
    less = comfort._replace(stiffness=CHANGE * comfort.stiffness, end=CHANGE * comfort.end, pair_data=scaled)
    return less, prior_of(skeleton, weight, TEMPERATURE)
