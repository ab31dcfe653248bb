"""Why a goal is missed: its limb is too short, another goal pulls against it, or limits hold it back.

Every reason is computed, none is a rule of thumb. A limb is too short by the length of its bones. Whether a goal pulls
against another is tested by leaving it out and refining the pose to the new minimum. The cost of a limit is followed
along the path of solutions (sensitivity.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from posable.engine.joints import SLIDE
from posable.engine.layout import (
    AT,
    BODY_A,
    BODY_B,
    FIRST,
    KIND,
    LAST,
    MEASURE,
    OFF,
    PARENT,
    POINT,
    ROBUST,
    SPRING_KIND,
    WEIGHT,
)
from posable.engine.springs import POINT_SPRING
from posable.model.kinematics import forward, path_of
from posable.problem import Problem
from posable.solvers.base import SolveOptions, amount
from posable.solvers.sensitivity import AT_BOUND, Block, ConstrainedMinimum, listed

WHOLE = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
SHARE = 0.05  # relative influence from which another goal is named
MOST = 2  # goals named per missed goal; twice as many limits
HALF = 0.5  # fraction of the error that the length of a limb must account for
STRICTER = 1e4  # stiffness ratio of priority levels that are combined in one energy


# --- Proof that a target is farther away than the chain is long ---


def reach_bound(problem: Problem, body: int, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, float]:
    """Return centre (3,) [m] and radius [m] of a ball that contains every reachable position of a body's origin."""
    figure = problem.skeleton.figure
    radius, centre = 0.0, np.zeros(3)
    while body >= 0:
        parent = int(figure.body[body, PARENT])
        dofs = range(int(figure.body[body, FIRST]), int(figure.body[body, LAST]))
        slides = [max(abs(float(lower[i])), abs(float(upper[i]))) for i in dofs if figure.dof[i, KIND] == SLIDE]
        radius += math.hypot(*slides)  # infinite if the limits overflow
        if parent < 0:
            centre = figure.rest[body, :3]
        else:
            radius += float(np.linalg.norm(figure.rest[body, :3]))
        body = parent
    return centre, radius


def proof_of_distance(problem: Problem, options: SolveOptions, member: int, bounds: dict[int, Any]) -> str | None:
    """Return a sentence that proves a goal out of reach, or None if there is no such proof.

    Every member of an AnyOf must be out of reach: the one that was chosen proves nothing about the others. The `bounds`
    keep the `reach_bound` of each body from one member of a batch to the next.
    """
    packed = problem.packed(member)
    on = packed.constants[:, ROBUST] >= 0.0
    chosen: set[int] = set()
    for _, parts in problem.choices:
        every = [range(part.start, part.stop) for part in parts]
        chosen.update(*every)
        if not any(on[k] for part in every for k in part):
            continue  # the whole goal is disabled
        proofs = [
            next(filter(None, (too_far(problem, options, member, k, bounds) for k in part)), None) for part in every
        ]
        if all(proofs):
            return "; ".join(dict.fromkeys(proof for proof in proofs if proof))
    for k in range(len(problem.springs)):
        if k not in chosen and on[k]:
            proof = too_far(problem, options, member, k, bounds)
            if proof is not None:
                return proof
    return None


def too_far(problem: Problem, options: SolveOptions, member: int, k: int, bounds: dict[int, Any]) -> str | None:
    """Return a sentence that proves the target of spring k out of reach, or None if there is no such proof."""
    if problem.kind[k, SPRING_KIND] != POINT_SPRING or not np.isfinite(problem.tolerances[k]):
        return None
    if problem.kind[k, BODY_A] < 0:
        return None  # on the center of mass
    packed = problem.packed(member)
    if problem.kind[k, BODY_B] >= 0 or not np.array_equal(packed.constants[k, MEASURE : MEASURE + 6], WHOLE):
        return None  # a moving target, or one with a partial weight
    body = int(problem.kind[k, BODY_A])
    if body not in bounds:
        bounds[body] = reach_bound(problem, body, options.lower, options.upper)
    centre, radius = bounds[body]
    radius += math.hypot(*packed.constants[k, POINT : POINT + 3])
    distance = math.dist(packed.targets[k, AT : AT + 3], centre)
    if not distance > radius * (1.0 + 1e-9) + problem.tolerances[k]:
        return None
    return (
        f"{problem.error_names[k]}: the target is {distance:.4g} m from the root of the chain, "
        f"which is {radius:.4g} m long"
    )


# --- Why a goal is missed ---


@dataclass(frozen=True)
class Reason:
    """Why one goal is missed.

    Attributes:
        goal: The name of its error in `result.errors`.
        kind: "reach", "goals", "limits", or "start" where neither a length, a goal nor a limit is in the way.
        text: In words.
        others: The goals or degrees of freedom that it is about.
        amount: [m, rad]: how much of the error it accounts for.
    """

    goal: str
    kind: str
    text: str
    others: tuple[str, ...] = ()
    amount: float = 0.0

    def __str__(self) -> str:
        return f"{self.goal}: {self.text}"


def reasons_for(
    problem: Problem, pose: np.ndarray, errors: np.ndarray, lower: np.ndarray, upper: np.ndarray, blocks: list[Block],
    member: int = 0,
) -> list[Reason]:  # fmt: skip
    """Return why each goal is missed at a pose (n,) with the springs' errors (g,), worst first."""
    missed = np.flatnonzero(~(errors <= problem.tolerances) & np.isfinite(errors))
    if not missed.size or problem.customs:
        return []
    worst = sorted(missed.tolist(), key=lambda k: -errors[k] / max(problem.tolerances[k], 1e-12))
    first = {problem.error_names[k]: k for k in reversed(worst)}
    ordered = [k for k in worst if first[problem.error_names[k]] == k]
    diagnosis = Diagnosis(problem, pose, lower, upper, member)
    out: list[Reason] = []
    for k in ordered:
        name = problem.error_names[k]
        against = diagnosis.opponents(k, errors)
        reach = diagnosis.too_short(k, errors[k], against, blocks)
        told = {(reason.goal, *reason.others) for reason in out if reason.kind == "goals"}
        out += [reach] if reach else []
        out += [one for one in against if (*one.others, name) not in told or not reach]
        every = ((block.gain.get(name, 0.0), block.dof) for block in blocks)
        gains = sorted((gain for gain in every if gain[0] > SHARE * errors[k]), reverse=True)
        if gains:
            names = tuple(dof for _, dof in gains[: 2 * MOST])
            text = f"held back by the {'limits' if len(names) > 1 else 'limit'} of {listed(names)}"
            out.append(Reason(name, "limits", text, names, gains[0][0]))
        if not any(reason.goal == name for reason in out):
            limits = [block.dof for block in blocks if block.gain.get(name, 0.0) > 0.0]
            text = "no single limit and no other goal blocks it; another start may reach it"
            if limits:
                which = "one limit" if len(limits) == 1 else f"{len(limits)} limits"
                text = f"held back by {which}, of which none alone gains much; remedy() says what would help"
            out.append(Reason(name, "limits" if limits else "start", text, tuple(limits[: 2 * MOST])))
    return out


class Diagnosis:
    """A stuck pose, and how it changes when goals are left out."""

    def __init__(self, problem: Problem, pose: np.ndarray, lower: np.ndarray, upper: np.ndarray, member: int):
        self.pose, self.lower, self.upper = pose, lower, upper
        self.problem = problem.alone(member)
        self.owners = np.array(problem.owners, dtype=int)
        levels = sorted({goal.priority for goal in problem.goals})
        if len(levels) > 1:  # combined into one energy in which stricter goals are stiffer
            for k, owner in enumerate(problem.owners):
                factor = STRICTER ** (len(levels) - 1 - levels.index(problem.goals[owner].priority))
                self.problem.constants[:, k, WEIGHT : WEIGHT + 6] *= factor
            self.pose = ConstrainedMinimum(self.problem, pose, lower, upper).pose  # where the forces balance
        self.frames = forward(problem.skeleton, pose)
        self._gradients: dict[int, np.ndarray] = {}

    def without(self, goals: set[int]) -> Problem:
        """Return the problem with some goals disabled."""
        out = self.problem.copy()
        out.constants[:, np.isin(self.owners, list(goals)), ROBUST] = OFF
        return out

    def gradient(self, goal: int) -> np.ndarray:
        """Return the gradient (n,) of one goal."""
        if goal not in self._gradients:
            alone = self.without(set(range(len(self.problem.goals))) - {goal})
            alone.pull, alone.home = np.zeros_like(self.pose), np.zeros_like(self.pose)
            self._gradients[goal] = alone.evaluate(self.pose)[1]
        return self._gradients[goal]

    def opponents(self, k: int, errors: np.ndarray) -> list[Reason]:
        """Return the goals that pull against that of spring k: without them its error would be smaller."""
        mine = int(self.owners[k])
        total = self.problem.evaluate(self.pose)[1]
        held = (self.lower >= self.upper) | ((self.pose <= self.lower + AT_BOUND) & (total > 0.0))
        free = ~(held | ((self.pose >= self.upper - AT_BOUND) & (total < 0.0)))
        pull = self.gradient(mine) * free
        size = float(pull @ pull)
        if not size > 1e-18:
            return []
        others = [o for o in sorted(set(self.owners.tolist())) if o != mine and o not in self.problem.off]
        shares = {o: -float(self.gradient(o) @ pull) / size for o in others}
        candidates = sorted((o for o in others if shares[o] > SHARE), key=lambda o: -shares[o])[:MOST]
        out = []
        for o in candidates:
            left = ConstrainedMinimum(self.without({o}), self.pose, self.lower, self.upper).errors[k]
            if errors[k] - left > max(SHARE * errors[k], self.problem.tolerances[k]):
                out.append(self.conflict(k, o, errors, float(left)))
        return out

    def conflict(self, k: int, other: int, errors: np.ndarray, left: float) -> Reason:
        """Return the reason that a goal pulls against that of spring k, whose error would be `left` without it."""
        problem = self.problem
        name, label = problem.error_names[k], problem.labels[other]
        angle = problem.measures_angle(k)
        rows = [j for j, owner in enumerate(problem.owners) if owner == other and problem.measures_angle(j) == angle]
        both = errors[k] + max((errors[j] for j in rows), default=0.0)
        then = "reached" if left <= problem.tolerances[k] else f"missed by {amount(left, problem, k)}"
        together = ""
        if rows and both > errors[k] + problem.tolerances[k]:
            together = f": their errors add up to at least {amount(both, problem, k)}"
        text = f"{label} and {name} conflict{together}; without {label}, {name} would be {then}"
        return Reason(name, "goals", text, (label,), float(errors[k] - left))

    def too_short(self, k: int, error: float, against: list[Reason], blocks: list[Block]) -> Reason | None:
        """Return the reason that the limb of spring k is too short, from the highest joint for which it is."""
        problem, figure = self.problem, self.problem.skeleton.figure
        row = problem.constants[0, k]
        if problem.kind[k, SPRING_KIND] != POINT_SPRING or problem.kind[k, BODY_A] < 0 or problem.kind[k, BODY_B] >= 0:
            return None
        if not np.array_equal(row[MEASURE : MEASURE + 6], WHOLE):
            return None
        target, body = problem.targets[0, k, AT : AT + 3], int(problem.kind[k, BODY_A])
        length, found, bodies = float(np.linalg.norm(row[POINT : POINT + 3])), None, 0
        while body >= 0:
            joint = self.joint(body)
            distance = float(np.linalg.norm(target - self.frames.position(joint)))
            lacks = distance - length
            if bodies > 0 and lacks > max(problem.tolerances[k], HALF * error):
                found = (body, joint, length, distance, lacks)
            first, last = int(figure.body[body, FIRST]), int(figure.body[body, LAST])
            slides = [i for i in range(first, last) if figure.dof[i, KIND] == SLIDE]
            length += float(np.hypot.reduce([self.span(i) for i in slides], initial=0.0))
            length += float(np.linalg.norm(figure.rest[body, :3]))
            body, bodies = int(figure.body[body, PARENT]), bodies + 1
        if found is None or not np.isfinite(found[2]):
            return None
        body, joint, length, distance, lacks = found
        digits = 2 if lacks > 0.02 else 4
        tip = getattr(problem.goals[problem.owners[k]], "body", problem.error_names[k])
        text = (
            f"{joint} to {tip} is {length:.{digits}f} m at full stretch; "
            f"the target is {distance:.{digits}f} m from {joint}, {self.holder(body, joint, against, blocks)}"
        )
        return Reason(problem.error_names[k], "reach", text, (joint,), lacks)

    def holder(self, body: int, joint: str, against: list[Reason], blocks: list[Block]) -> str:
        """Return what keeps a joint in place: the base, limits of joints above it, other goals."""
        skeleton = self.problem.skeleton
        figure = skeleton.figure
        first, last = int(figure.body[body, FIRST]), int(figure.body[body, LAST])
        above = {i for i in range(first, last) if figure.dof[i, KIND] == SLIDE}
        above |= path_of(skeleton, int(figure.body[body, PARENT]))
        if not any(self.lower[i] < self.upper[i] for i in above):
            return "which does not move"
        names = {skeleton.dof_names[i] for i in above}
        goals = [other for reason in against for other in reason.others][:2]
        limits = [block.dof for block in blocks if block.dof in names][:2]
        what = [f"the goal {label}" for label in goals] + [f"the limit of {dof}" for dof in limits]
        hold = "holds" if len(what) == 1 else "hold"
        return f"with {joint} where {listed(what)} {hold} it" if what else f"the closest that {joint} gets"

    def joint(self, body: int) -> str:
        """Return the joint that moves a body."""
        skeleton = self.problem.skeleton
        return next(
            name
            for row, name in enumerate(skeleton.names)
            if skeleton.frame_bodies[row] == body and not skeleton.frame_positions[row].any()
        )

    def span(self, i: int) -> float:
        """Return the travel of a slide [m]."""
        return max(abs(float(self.lower[i])), abs(float(self.upper[i])))
