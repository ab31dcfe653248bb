"""The limb in its figure, and the solution for a position or a pose (Tolani et al. 2000, 3.2)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np

from posable.engine.jit import run_chunks
from posable.engine.layout import PARENT
from posable.errors import GoalError
from posable.limb.ball_ik import INFEASIBLE
from posable.limb.circle import BLOCKED, NO_SWIVEL, POSE, POSITION, RANGES, REACHED, SCRATCH, TOO_FAR, TOO_NEAR
from posable.limb.kernels import (
    BRANCH,
    MOVED,
    PLACE_ERROR,
    REPORT,
    SLACK,
    SWIVEL,
    TURN_ERROR,
    answer_batch,
    branches_of,
    circle_of,
    distance_batch,
    ranges_of,
    swivel_batch,
)
from posable.limb.nearest import nearest_batch
from posable.limb.solution import STATUS, Branch, ElbowCircle, LimbSolution, SwivelRange
from posable.limb.srs_chain import BACK, BALL, LOWER, TOOL, TOOL_TURN, VECTOR, SrsChain, find_limb
from posable.model.joints import unit_axis
from posable.model.kinematics import as_poses, in_rows, path_of, place_bodies, scratch
from posable.model.skeleton import Skeleton

# --- Reading targets and options ---


def read_target(target: Any) -> tuple[int, np.ndarray, tuple[int, ...]]:
    """Return (task, (t, 12) position and frame by rows, leading axes) of (..., 4, 4), a RigidTransform or (..., 3)."""
    try:
        value = np.asarray(target.as_matrix() if hasattr(target, "as_matrix") else target, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise GoalError(
            "target", expected="a 4x4 matrix, a RigidTransform or three numbers", got=repr(target)
        ) from None
    if value.shape[-2:] == (4, 4):
        lead, task = value.shape[:-2], POSE
        flat = value.reshape(math.prod(lead), 4, 4)
        turns = rotations(flat[:, :3, :3])
        out = np.concatenate([flat[:, :3, 3], turns.reshape(len(flat), 9)], axis=1)
    elif value.shape[-1:] == (3,) and not hasattr(target, "as_matrix"):
        lead, task = value.shape[:-1], POSITION
        out = np.zeros((math.prod(lead), 12))
        out[:, :3] = value.reshape(len(out), 3)
    else:
        raise GoalError("target", expected="shape (..., 4, 4) for a pose or (..., 3) for a position", got=value.shape)
    if not np.all(np.isfinite(out)):
        raise GoalError("target", expected="finite numbers", got="NaN or infinity")
    return task, np.ascontiguousarray(out), lead


def rotations(matrices: np.ndarray) -> np.ndarray:
    """Return rotations (t, 3, 3), orthonormal to rounding; raise GoalError if a matrix is off by more than 1e-5."""
    error = np.abs(matrices @ np.swapaxes(matrices, -1, -2) - np.eye(3)).max(axis=(-1, -2), initial=0.0)
    if not np.all(error < 1e-5) or np.any(np.linalg.det(matrices) < 0.0):
        raise GoalError(
            "target", expected="a rotation in the upper left 3x3 block", got="a matrix that is not orthonormal"
        )
    off = error > 1e-13
    if np.any(off):
        matrices = matrices.copy()
        u, _, vt = np.linalg.svd(matrices[off])
        matrices[off] = u @ vt
    return matrices


def read_numbers(value: Any, what: str, tail: tuple[int, ...] = ()) -> np.ndarray:
    """Return finite numbers of shape (..., *tail): vectors if tail is (3,), scalars if it is ()."""
    wanted = "three finite numbers" if tail else "a finite number"
    try:
        out = np.asarray(value, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise GoalError(what, expected=wanted, got=repr(value)) from None
    if isinstance(value, (bool, str)) or out.shape[out.ndim - len(tail) :] != tail:
        raise GoalError(what, expected=wanted, got=repr(value) if out.ndim < 2 else f"shape {out.shape}")
    if not np.all(np.isfinite(out)):
        raise GoalError(what, expected=wanted, got="NaN or infinity")
    return out


def preferences(value: Any, what: str, lead: tuple[int, ...], tail: tuple[int, ...] = ()) -> np.ndarray:
    """Return an optional preference of each goal, (t, *tail): one row if it is common to all, NaN if not given."""
    if value is None:
        return np.full((1, *tail), np.nan)
    out = read_numbers(value, what, tail)
    shape = out.shape[: out.ndim - len(tail)]
    if shape == ():
        return out.reshape(1, *tail)
    if not fits(shape, lead) or np.broadcast_shapes(shape, lead) != lead:
        raise GoalError(what, expected=f"one, or leading axes that fit the goals' {lead}", got=f"shape {out.shape}")
    return in_rows_of(lead, out, len(tail))


def fits(*shapes: tuple[int, ...]) -> bool:
    """Return whether leading axes broadcast together."""
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        return False
    return True


def common_lead(given: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
    """Return the leading axes to which all arguments broadcast; raise GoalError if they do not."""
    if not fits(*given.values()):
        got = ", ".join(f"{name} {shape}" for name, shape in given.items())
        raise GoalError("goals", expected="leading axes that fit together", got=got)
    return np.broadcast_shapes(*given.values())


def read_direction(value: Any, what: str) -> np.ndarray:
    """Return a unit vector (3,) from "x", "-y", ... or three numbers that are not all zero."""
    out = unit_axis(value)
    if not np.any(out):
        wanted = "'x', 'y', 'z', '-x', ... or three finite numbers that are not all zero"
        raise GoalError(what, expected=wanted, got=repr(value))
    return out


def read_directions(value: Any, what: str) -> np.ndarray:
    """Return unit vectors (..., 3) from one direction, by name or numbers, or from many, by numbers."""
    if isinstance(value, str) or np.ndim(value) < 2:
        return read_direction(value, what)
    out = read_numbers(value, what, (3,))
    length = np.linalg.norm(out, axis=-1, keepdims=True)
    if not np.all(length > 0.0):
        raise GoalError(what, expected="directions (..., 3) that are not zero", got="a zero vector")
    return out / length


# --- Batches ---

PARALLEL_FROM = 2048  # goals: larger batches run on all cores
CHUNK = 256  # goals at a time


def scratch_memory() -> np.ndarray:
    """Return the scratch memory of this thread."""
    return scratch(SCRATCH)


def run_batch(count: int, solve: Callable[..., None], *arguments: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the values (t, 7), reports (t, REPORT) and statuses (t,) of goals: at once, or in chunks on all cores.

    A chunk gets its part of each argument with t rows; no constant of a limb is as long as such a batch.
    """
    results = np.zeros((count, 7)), np.zeros((count, REPORT)), np.zeros(count, dtype=np.int64)
    if count < PARALLEL_FROM:
        solve(*arguments, scratch_memory(), *results)
        return results

    def part(chunk: slice) -> None:
        mine = (given[chunk] if isinstance(given, np.ndarray) and len(given) == count else given for given in arguments)
        solve(*mine, scratch_memory(), *(rows[chunk] for rows in results))

    run_chunks(part, count, CHUNK)
    return results


def in_rows_of(lead: tuple[int, ...], given: np.ndarray, axes: int = 1) -> np.ndarray:
    """Return values (..., k), or (...) with axes 0, broadcast to the leading axes of all goals, in rows (t, k)."""
    tail = given.shape[given.ndim - axes :]
    return np.ascontiguousarray(np.broadcast_to(given, (*lead, *tail)).reshape(math.prod(lead), *tail))


def leading_axes(base: Any) -> tuple[int, ...]:
    """Return the leading axes of a base pose."""
    return () if base is None else np.shape(base)[:-1]


def broadcast_rows(rows: np.ndarray, around: tuple[int, ...], lead: tuple[int, ...]) -> np.ndarray:
    """Broadcast rows (t, k) from leading axes `around` to those of all goals; a single row stays single."""
    return rows if around in ((), lead) else in_rows_of(lead, rows.reshape(*around, rows.shape[1]))


class LimbGoals(NamedTuple):
    """The goals of a batch, in rows; a single row applies to all of them."""

    task: int
    lead: tuple[int, ...]
    targets: np.ndarray  # (t, 12)
    poses: np.ndarray  # (., n): the base
    roots: np.ndarray  # (., 12): the first joint's rest frame
    helds: np.ndarray  # (., 3): the last joint's raw values
    swivels: np.ndarray  # (.,) [rad], NaN for none
    elbows: np.ndarray  # (., 3) [m], NaN for none

    def rows(self, which: np.ndarray) -> LimbGoals:
        """Return a selection of the goals."""
        count = len(self.targets)
        parts = (rows[which] if len(rows) == count and count > 1 else rows for rows in self[3:])
        return LimbGoals(self.task, self.lead, self.targets[which], *parts)


# --- Diagnostics ---

SENTENCES = np.array(["reached", "too far", "too near", "no swivel angle holds every limit"], dtype=object)


def classify(limb: Any, goals: LimbGoals, limits: bool, out: np.ndarray, reports: np.ndarray, status: np.ndarray):
    """Correct the status (t,) of positions that are not reached, in place; return (t,) [m] the reach towards them.

    The last joint moves too, so the reach at one of its configurations says little. Each missed position is solved
    again without the limits of the first joint: if it is then reached, those limits are the cause, otherwise the
    distance is, and the remaining distance gives the reach.
    """
    edges = np.full(len(status), np.nan)
    missed = np.flatnonzero(status != REACHED)
    if goals.task == POSE or not missed.size:
        return edges
    numbers, errors = out[missed], reports[missed, PLACE_ERROR]
    if limits:
        box = limb.chain.box.copy()
        box[:3] = -np.inf, np.inf
        numbers, freed, found = limb.solve_batch(goals.rows(missed), True, True, chain=limb.chain.with_box(box))
        errors = np.where(found == REACHED, 0.0, freed[:, PLACE_ERROR])
    reached = np.empty(len(missed))
    distance_batch(*limb.chain, numbers * limb.chain.sign, scratch_memory(), reached)
    roots = goals.roots[missed] if len(goals.roots) > 1 else goals.roots
    wanted = np.linalg.norm(goals.targets[missed, :3] - roots[:, :3], axis=1)
    status[missed] = np.where(errors == 0.0, NO_SWIVEL, np.where(wanted > reached, TOO_FAR, TOO_NEAR))
    edges[missed] = reached
    return edges


def message_of(limb: Any, goals: LimbGoals, limits: bool, status: int, report: np.ndarray, edge: float, swivel: Any):
    """Return the message of one goal; edge [m]: the reach of the site towards it, from `classify`."""
    target, root = goals.targets[0], goals.roots[0]
    if status == REACHED:
        note = ""
        if swivel is not None:
            wish, got = float(np.asarray(swivel).reshape(-1)[0]), float(report[SWIVEL])
            if abs(math.sin(0.5 * (got - wish))) > 1e-9:
                note = f"; the swivel angle moved from {wish:.4f} to {got:.4f} rad to stay within the limits"
        if report[MOVED]:
            note += f"; {limb.last!r} had to move"
        return f"reached{note}"
    if status in (TOO_FAR, TOO_NEAR):
        place = target[:3]
        if goals.task == POSE:
            edge = limb.reach_of(limits=limits)[1 if status == TOO_FAR else 0]
            place = place - target[3:].reshape(3, 3) @ limb.tool_in_site()
        return distance_message(limb, status, goals.task, float(np.linalg.norm(place - root[:3])), edge)
    blame = blocking_dofs(limb, goals)
    return f"no swivel angle satisfies every limit{'; blocked by ' + ', '.join(blame) if blame else ''}"


def distance_message(limb: Any, status: int, task: int, distance: float, edge: float) -> str:
    """Return the message of a target that is too far or too near."""
    what = limb.last if task == POSE else limb.site
    word, reach = ("far", "at most") if status == TOO_FAR else ("near", "no less than")
    return (
        f"too {word}: {what!r} would have to be {distance:.4f} m from {limb.first!r}; in that direction it can be "
        f"{reach} {edge:.4f} m away"
    )


def blocking_dofs(limb: Any, goals: LimbGoals) -> list[str]:
    """Return the degrees of freedom without whose limits, one at a time, the goal would be reached."""
    found = []
    for number in range(7):
        box = limb.chain.box.copy()
        box[number] = -np.inf, np.inf
        nearest = goals.task == POSITION
        _, _, status = limb.solve_batch(goals, True, nearest, chain=limb.chain.with_box(box))
        if status[0] == REACHED:
            found.append(limb.skeleton.dof_names[limb.columns[number]])
    return found


# --- The limb ---


class LimbCore:
    """The base of `Limb`: its chain, solutions for positions and poses, ranges of the swivel angle."""

    def __init__(
        self, skeleton: Skeleton, first: str, middle: str, last: str, site: str | None = None, *, reference: Any = None
    ):
        self.skeleton = skeleton
        self.first, self.middle, self.last = first, middle, last
        self.site = last if site is None else site
        self.chain, self.bodies = find_limb(skeleton, first, middle, last, self.site)
        where = [skeleton.index(name) for name in (first, middle, last)]
        self.columns = np.concatenate([np.arange(part.start, part.stop) for part in where])
        self.reference = down_of(skeleton) if reference is None else read_direction(reference, "reference")
        self.down = down_of(skeleton)
        self.directions = np.concatenate([self.reference, _across(self.reference)])

    def __repr__(self) -> str:
        return f"<Limb {self.first!r}, {self.middle!r}, {self.last!r} to {self.site!r}>"

    # ------------------------------------------------------------------------------------------------- solving

    def solve_target(
        self, target: Any, *, swivel: Any, elbow: Any, limits: bool, base: Any, nearest: bool = True
    ) -> LimbSolution:
        """Solve for one target or many (see `Limb.solve`). nearest: approach targets that are out of reach."""
        goals = self.goals(target, base, limits=limits, swivel=swivel, elbow=elbow)
        out, reports, status = self.solve_batch(goals, bool(limits), nearest)
        edges = np.full(len(status), np.nan)
        if nearest:
            edges = classify(self, goals, bool(limits), out, reports, status)
        else:
            status[status >= BLOCKED] = NO_SWIVEL
        self.fill_swivels(out, reports, goals.roots, goals.task)
        messages: Any = SENTENCES[status]
        if goals.lead == ():
            said = message_of(self, goals, bool(limits), int(status[0]), reports[0], float(edges[0]), swivel)
            messages = np.array([said], dtype=object)
        return self.solution(goals.lead, goals.poses, out, reports, status, messages)

    def goals(self, target: Any, base: Any, *, limits: bool = True, swivel: Any = None, elbow: Any = None) -> LimbGoals:
        """Return targets with their base and preferences, checked and in rows."""
        task, targets, lead = read_target(target)
        around = leading_axes(base)
        full = common_lead({"target": lead, "base": around})
        poses, roots, helds = self.base_rows(base, full, limits)
        if full != lead:
            targets = in_rows_of(full, targets.reshape(*lead, 12))
        wishes = preferences(swivel, "swivel", full), preferences(elbow, "elbow", full, (3,))
        return LimbGoals(task, full, targets, poses, roots, helds, *wishes)

    def solve_batch(
        self, goals: LimbGoals, limits: bool, nearest: bool, *, chain: SrsChain | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the values (t, 7) of the limb, the reports (t, REPORT) and the statuses (t,) of goals."""

        def solve(*arguments: Any) -> None:
            answer_batch(*arguments)
            if nearest and np.any(arguments[-1] != REACHED):
                nearest_batch(*arguments)

        return run_batch(
            len(goals.targets), solve, *(chain or self.chain), goals.roots, self.directions, goals.targets, goals.helds,
            goals.task, limits, goals.swivels, goals.elbows,
        )  # fmt: skip

    def solution(self, lead, poses, out, reports, status, messages, spins=None) -> LimbSolution:
        """Return the solution of one goal, or of many with leading axes."""
        pose = np.empty((len(out), self.skeleton.size))
        pose[:] = poses
        pose[:, self.columns] = out

        def shaped(rows: np.ndarray) -> Any:
            return rows.reshape(lead) if lead else rows.tolist()[0]

        return LimbSolution(
            pose.reshape(*lead, self.skeleton.size), shaped(status == REACHED), shaped(reports[:, SWIVEL]),
            Branch(*(shaped(part) for part in families_of(reports[:, BRANCH].astype(int)))),
            shaped(messages), shaped(np.array(STATUS, dtype=object)[status]), shaped(reports[:, PLACE_ERROR]),
            shaped(reports[:, TURN_ERROR]), shaped(self.clearance(pose)), None if spins is None else shaped(spins),
        )  # fmt: skip

    def clearance(self, poses: np.ndarray) -> np.ndarray:
        """Return the distances (t,) [rad] of the limb's joints to their nearest limit at poses (t, n); < 0 outside."""
        low, high = self.bounds
        return np.minimum(poses[:, self.columns] - low, high - poses[:, self.columns]).min(axis=1)

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """The limits (7,) [rad] of the limb's joints."""
        return self.skeleton.lower[self.columns], self.skeleton.upper[self.columns]

    def listed(self, pose: np.ndarray, out: np.ndarray, reports: np.ndarray) -> list[LimbSolution]:
        """Return the different solutions among the rows out (t, 7) that exist, in a base pose (n,)."""
        found: list[LimbSolution] = []
        for numbers, report in zip(out, reports, strict=True):
            if report[SLACK] <= INFEASIBLE:
                continue
            good = bool(report[SLACK] >= -1e-12)
            solved = pose.copy()
            solved[self.columns] = np.clip(numbers, *self.bounds) if good else numbers  # outside by rounding at most
            if any(np.abs(solved - other.pose).max() < 1e-12 for other in found):
                continue
            found.append(
                LimbSolution(
                    solved, good, float(report[SWIVEL]), Branch(*families_of(int(report[BRANCH]))),
                    "reached" if good else "reached, outside the limits", "REACHED", float(report[PLACE_ERROR]),
                    float(report[TURN_ERROR]), float(self.clearance(solved[None])[0]),
                )
            )  # fmt: skip
        return found

    def named_ranges(self, rows: np.ndarray) -> list[SwivelRange]:
        """Return ranges (r, 4) of swivel angles, with the tags of their limits, in increasing order."""
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
        return [SwivelRange(lo, hi, self.limit_name(a), self.limit_name(b)) for lo, hi, a, b in rows]

    def tool_in_site(self) -> np.ndarray:
        """Return the vector (3,) [m] from the last joint to the site, in the site's frame."""
        place = self.chain.place
        return place[TOOL_TURN : TOOL_TURN + 9].reshape(3, 3).T @ place[TOOL : TOOL + 3]

    # ------------------------------------------------------------------------------------- branches and ranges

    def solutions(
        self, target: Any, swivel: float = 0.0, *, limits: bool = True, base: Any = None
    ) -> list[LimbSolution]:
        """Return every solution at a swivel angle: both bends of the middle joint, both families of each ball joint.

        Limits are not enforced: `ok` says which solutions respect them. Equal solutions are listed once. For a
        position, the last joint stays as `solve` leaves it, with or without limits.

        Args:
            target: (4, 4) or RigidTransform for a pose, (3,) [m] for a position.
            swivel: [rad].
            limits: Whether the last joint is that of `solve` with limits; for positions only.
            base: (n,) The pose of the rest of the figure; by default the rest pose.

        Returns:
            The solutions; empty if the target is out of reach.
        """
        goals, held, _ = self._held(target, base, limits)
        angle = read_numbers(swivel, "swivel")
        if angle.ndim:
            raise GoalError("swivel", expected="one angle", got=f"shape {angle.shape}")
        out, reports = np.empty((8, 7)), np.zeros((8, REPORT))
        if branches_of(*self._one_goal(goals, held), float(angle), out, reports) != REACHED:
            return []
        for row, report in enumerate(reports):
            if self._is_long_way(row, report[SLACK]):
                report[SLACK] = INFEASIBLE
        return self.listed(goals.poses[0], out, reports)

    def _is_long_way(self, row: int, slack: float) -> bool:
        """Return whether a solution turns a rotation vector or a swing beyond pi although no limit requires it."""
        for ball, family in ((0, row // 2 % 2), (1, row % 2)):
            free = not np.any(np.isfinite(self.chain.box[4 * ball : 4 * ball + 3]))
            if self.chain.shape[ball, BALL] >= VECTOR and family == 1 and (free or slack < 0.0):
                return True
        return False

    def swivel_ranges(self, target: Any, *, base: Any = None) -> list[SwivelRange]:
        """Return all ranges of swivel angles at which some solution respects every limit.

        A range across pi is one range, with hi beyond pi; the whole circle is (-pi, pi). The ends are in closed form
        for Euler joints. Limits of rotation vectors and swings have no closed form: their ends are bracketed and
        refined to rounding, and a range narrower than 5e-4 rad can be missed.

        Args:
            target: (4, 4) or RigidTransform for a pose, (3,) [m] for a position.
            base: (n,) The pose of the rest of the figure; by default the rest pose.

        Returns:
            Ranges (lo, hi) [rad] in increasing order; empty if the target is out of reach.
        """
        goals, held, only = self._held(target, base, True)
        out, report = np.empty((RANGES, 4)), np.empty(REPORT)
        status, count = ranges_of(*self._one_goal(goals, held), out, report)
        if status != REACHED or count == 0:
            return [] if only is None else [SwivelRange(only, only)]
        return self.named_ranges(out[:count])

    def _one_goal(self, goals: LimbGoals, held: np.ndarray) -> tuple[Any, ...]:
        """Return the arguments of a kernel for one goal, with the raw values (3,) of the last joint."""
        target = goals.targets[0]
        return *self.chain, goals.roots[0], self.directions, target, held, goals.task, scratch_memory()

    def _held(self, target: Any, base: Any, limits: bool) -> tuple[LimbGoals, np.ndarray, float | None]:
        """Return one target, the raw values (3,) of the last joint in its solution, and the swivel angle of that.

        A position that is reached with the last joint as in `base` leaves it there.
        """
        goals = self.goals(target, base, limits=limits)
        if goals.targets.shape[0] != 1:
            raise GoalError("target", expected="one target and one base", got=f"{goals.targets.shape[0]} goals")
        if goals.task == POSE:
            return goals, goals.helds[0], None
        out, reports, status = self.solve_batch(goals, limits, True)
        if status[0] != REACHED:
            return goals, goals.helds[0], None
        phi = float(reports[0, SWIVEL])
        if math.isnan(phi):
            phi = float(self.swivels(out, goals.roots, POSITION)[0])
        return goals, np.ascontiguousarray(out[0, 4:] * self.chain.sign[4:]), phi

    def limit_name(self, tag: float) -> str:
        """Return the limit of a kernel's tag, such as "shoulder.y upper"."""
        if tag < 0:
            return ""
        number, side = divmod(int(tag), 2)
        if self.chain.sign[number] < 0:
            side = 1 - side
        return f"{self.skeleton.dof_names[self.columns[number]]} {('lower', 'upper')[side]}"

    def elbow_circle(self, target: Any, *, limits: bool = True, base: Any = None) -> ElbowCircle:
        """Return the circle on which the middle joint can lie, in the world; the nearest circle if out of reach.

        For a position, the last joint stays as `solve` leaves it, with or without limits.

        Args:
            target: (4, 4) or RigidTransform for a pose, (3,) [m] for a position.
            limits: Whether the last joint is that of `solve` with limits; for positions only.
            base: (n,) The pose of the rest of the figure; by default the rest pose.
        """
        goals, held, _ = self._held(target, base, limits)
        out, report = np.empty(13), np.empty(REPORT)
        circle_of(*self._one_goal(goals, held), out, report)
        return ElbowCircle(out[:3].copy(), float(out[3]), out[4:7].copy(), out[7:10].copy(), out[10:13].copy())

    def swivel(self, pose: Any, *, about: str | None = None) -> Any:
        """Return the swivel angle of poses.

        Args:
            pose: (..., n) [rad, m].
            about: The name of the last joint (default), as for a pose target, or of the site, as for a position.

        Returns:
            (...) [rad] array; a float for one pose.
        """
        poses = as_poses(self.skeleton, pose)
        if not np.isfinite(poses).all():
            raise GoalError("pose", expected="finite numbers", got="NaN or infinity")
        if about not in (None, self.last, self.site):
            raise GoalError("about", expected=f"{self.last!r} or {self.site!r}", got=repr(about))
        task = POSITION if about == self.site and self.site != self.last else POSE
        flat, roots, _ = self.base_frames(poses.reshape(-1, self.skeleton.size))
        out = self.swivels(flat[:, self.columns], roots, task)
        return float(out[0]) if poses.ndim == 1 else out.reshape(poses.shape[:-1])

    def fill_swivels(self, out: np.ndarray, reports: np.ndarray, roots: np.ndarray, task: int) -> None:
        """Write the swivel angles that a search left open, NaN in reports (t, REPORT), from the values out (t, 7)."""
        lost = np.isnan(reports[:, SWIVEL])
        if np.any(lost):
            reports[lost, SWIVEL] = self.swivels(out[lost], roots[lost] if len(roots) > 1 else roots, task)

    def swivels(self, numbers: np.ndarray, roots: np.ndarray, task: int) -> np.ndarray:
        """Return the swivel angles (t,) [rad] of the limb's values (t, 7) at roots (t, 12) or (1, 12)."""
        out = np.empty(numbers.shape[0])
        swivel_batch(*self.chain, roots, self.directions, numbers * self.chain.sign, task, scratch_memory(), out)
        return out

    def reach_of(self, *, limits: bool = True) -> tuple[float, float]:
        """Return the least and greatest distance [m] from the first joint to the last one."""
        k = int(self.chain.shape[2, 0])
        u, v = (k + 1) % 3, (k + 2) % 3
        a, b = self.chain.place[BACK : BACK + 3], self.chain.place[LOWER : LOWER + 3]
        along, p, q = a[k] + b[k], np.hypot(a[u], a[v]), np.hypot(b[u], b[v])
        near, far = np.hypot(along, p - q), np.hypot(along, p + q)
        low, high = self.chain.box[3]
        if not limits or not high - low < 2.0 * np.pi:
            return float(near), float(far)
        straight = np.arctan2(a[v] * b[u] - a[u] * b[v], a[u] * b[u] + a[v] * b[v])
        turns = (low + (turn - low) % (2.0 * np.pi) for turn in (straight, straight + np.pi))
        angles = np.array([low, high, *(angle for angle in turns if angle <= high)])
        reach = np.sqrt(near**2 + (far**2 - near**2) * np.cos(0.5 * (angles - straight)) ** 2)
        return float(reach.min()), float(reach.max())

    # ------------------------------------------------------------------------------------------------- the base

    def with_tool(self, offset: Any, rotation: Any) -> Self:
        """Return the same limb with its site at another point (3,) [m] and frame (3, 3) of the last body."""
        out = object.__new__(type(self))
        out.__dict__.update(self.__dict__)
        out.chain = self.chain.with_tool(np.asarray(offset, dtype=float), np.asarray(rotation, dtype=float))
        out.site = f"a point of {self.last}"
        return out

    def dofs_above(self) -> list[int]:
        """Return the degrees of freedom of the figure that move the first joint."""
        return sorted(path_of(self.skeleton, int(self.skeleton.figure.body[self.bodies[0], PARENT])))

    def parent_frame(self, pose: np.ndarray, body: int) -> np.ndarray:
        """Return the world frame (3, 3) of a body before the motion of its own joint, at a pose (n,)."""
        rest = self.skeleton.figure.rest[body, 3:].reshape(3, 3)
        parent = self.skeleton.figure.body[body, PARENT]
        return rest if parent < 0 else place_bodies(self.skeleton, pose[None])[1][0, parent] @ rest

    @staticmethod
    def is_position(target: Any) -> bool:
        """Return whether a target is a position without orientation."""
        return read_target(target)[0] == POSITION

    def base_rows(self, base: Any, lead: tuple[int, ...], limits: bool) -> tuple[np.ndarray, ...]:
        """Return `base_frames`, a row for each goal with leading axes `lead`, or one row for all."""
        return tuple(broadcast_rows(rows, leading_axes(base), lead) for rows in self.base_frames(base, limits=limits))

    def base_frames(self, base: Any, *, limits: bool = True) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return base poses (t, n), rest frames (t, 12) of the first joint, raw values (t, 3) of the last joint."""
        poses = in_rows(as_poses(self.skeleton, self.skeleton.rest if base is None else base, "base"))
        if not np.isfinite(poses).all():
            row, column = np.argwhere(~np.isfinite(poses))[0]
            name = self.skeleton.dof_names[column]
            raise GoalError("base", expected="finite numbers", got=f"{poses[row, column]} at {name!r}")
        rest = self.skeleton.figure.rest[self.bodies[0]]
        parent = self.skeleton.figure.body[self.bodies[0], PARENT]
        roots = np.empty((poses.shape[0], 12))
        if parent < 0:
            roots[:] = rest
        else:
            positions, turns, _ = place_bodies(self.skeleton, poses)
            roots[:, :3] = positions[:, parent] + turns[:, parent] @ rest[:3]
            roots[:, 3:] = (turns[:, parent] @ rest[3:].reshape(3, 3)).reshape(-1, 9)
        helds = poses[:, self.columns[4:]] * self.chain.sign[4:]
        if limits:
            helds = np.clip(helds, self.chain.box[4:, 0], self.chain.box[4:, 1])
        return poses, roots, np.ascontiguousarray(helds)


def families_of(code: Any) -> tuple[Any, Any, Any]:
    """Return the branch of a kernel's code: the side of the elbow and the families of both ball joints."""
    return code // 4, code // 2 % 2, code % 2


def down_of(skeleton: Skeleton) -> np.ndarray:
    """Return the downward direction (3,) of a figure, opposite to its `up`; -z if that is not set."""
    return np.array([0.0, -1.0, 0.0]) if skeleton.up == "y" else np.array([0.0, 0.0, -1.0])


def _across(direction: np.ndarray) -> np.ndarray:
    helper = np.eye(3)[int(np.argmin(np.abs(direction)))]
    out = helper - (helper @ direction) * direction
    return out / np.linalg.norm(out)
