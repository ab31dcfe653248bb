"""The limb: its place in the figure, and the solve for a place or a pose (seed 003, 3.2)."""

from __future__ import annotations

import math
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from posable.errors import GoalError
from posable.kernels.fields import FIRST, LAST, PARENT
from posable.kinematics import as_poses, place_bodies
from posable.skeleton import Skeleton

from .anatomy import BALL, TOOL, TOOL_TURN, VECTOR, find_limb
from .answer import BRANCH, MOVED, PLACE_ERROR, REPORT, SLACK, SWIVEL, TURN_ERROR
from .balls import NEVER, NO_LIMIT
from .circle import BLOCKED, NO_SWIVEL, POSE, POSITION, RANGES, REACHED, SCRATCH, TOO_FAR, TOO_NEAR
from .entries import answer_batch, branches_of, circle_of, nearest_batch, ranges_of, swivel_batch
from .reach import distances
from .solution import STATUS, Branch, ElbowCircle, LimbSolution, SwivelRange
from .targets import read_direction, read_target

NONE = np.full(1, np.nan)
NO_ELBOW = np.full((1, 3), np.nan)
PARALLEL_FROM = 2048  # goals in a batch from which on all cores share it
_memory = threading.local()


def scratch_memory() -> np.ndarray:
    """Return this thread's scratch memory for one limb."""
    if not hasattr(_memory, "work"):
        _memory.work = np.zeros(SCRATCH)
    return _memory.work


class LimbCore:
    """What every task of a limb rests on; `Limb` is the one to use."""

    def __init__(
        self, skeleton: Skeleton, first: str, middle: str, last: str, site: str | None = None, *, reference: Any = None
    ):
        self.skeleton = skeleton
        self.first, self.middle, self.last = first, middle, last
        self.site = last if site is None else site
        self.anatomy, self.bodies = find_limb(skeleton, first, middle, last, self.site)
        where = [skeleton.index(name) for name in (first, middle, last)]
        self.columns = np.concatenate([np.arange(part.start, part.stop) for part in where])
        self.reference = down_of(skeleton) if reference is None else read_direction(reference, "reference")
        self.down = down_of(skeleton)
        self.directions = np.concatenate([self.reference, _across(self.reference)])

    def __repr__(self) -> str:
        return f"<Limb {self.first!r}, {self.middle!r}, {self.last!r} to {self.site!r}>"

    # ------------------------------------------------------------------------------------------------- solving

    def reach_for(
        self, target: Any, *, swivel: Any, elbow: Any, limits: bool, base: Any, nearest: bool = True
    ) -> LimbSolution:
        """Solve for one target or for many: see `Limb.solve`. nearest: come near to what is out of reach."""
        task, targets, lead = read_target(target)
        poses, roots, helds = self.placed(base)
        if poses.shape[0] > 1 and lead == ():
            targets, lead = np.repeat(targets, poses.shape[0], axis=0), np.shape(base)[:-1]
        count = targets.shape[0]
        wanted = (
            NONE
            if swivel is None
            else np.ascontiguousarray(np.broadcast_to(np.asarray(swivel, dtype=float), lead).reshape(-1))
        )
        elbows = NO_ELBOW
        if elbow is not None:
            elbows = np.ascontiguousarray(np.broadcast_to(np.asarray(elbow, dtype=float), (*lead, 3)).reshape(-1, 3))
        if poses.shape[0] not in (1, count):
            raise GoalError("base", expected=f"one pose or {count} poses", got=poses.shape[0])
        out, reports, status = np.zeros((count, 7)), np.zeros((count, REPORT)), np.zeros(count, dtype=np.int64)
        arguments = (targets, poses, roots, helds, wanted, elbows, out, reports, status)
        self._answer(task, bool(limits), nearest, arguments)
        if not nearest:
            status[status >= BLOCKED] = NO_SWIVEL
        return self._solution(task, targets, lead, poses, roots, helds, out, reports, status, bool(limits), swivel)

    def _answer(self, task: int, limits: bool, nearest: bool, arguments: tuple[np.ndarray, ...]) -> None:
        targets, _, roots, helds, wanted, elbows, out, reports, status = arguments
        count = targets.shape[0]

        def part(low: int, high: int) -> None:
            def mine(rows: np.ndarray) -> np.ndarray:
                return rows[low:high] if rows.shape[0] == count and count > 1 else rows

            common = (
                *self.anatomy, mine(roots), self.directions, targets[low:high], mine(helds), task, limits, mine(wanted),
                mine(elbows), scratch_memory(), out[low:high], reports[low:high], status[low:high],
            )  # fmt: skip
            answer_batch(*common)
            if nearest and np.any(status[low:high] != REACHED):
                nearest_batch(*common)

        workers = min(os.cpu_count() or 1, count // (PARALLEL_FROM // 2))
        if count < PARALLEL_FROM or workers < 2:
            part(0, count)
            return
        part(0, 1)  # compiles before the threads start
        edges = np.linspace(1, count, 4 * workers + 1).astype(int)
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(part, edges[:-1], edges[1:]))

    def _solution(self, task, targets, lead, poses, roots, helds, out, reports, status, limits, swivel) -> LimbSolution:
        count = out.shape[0]
        pose = np.empty((count, self.skeleton.size))
        pose[:] = poses
        pose[:, self.columns] = out
        ok = status == REACHED
        swivels = reports[:, SWIVEL]
        lost = np.isnan(swivels)
        if np.any(lost):
            swivels[lost] = self._swivels(out[lost], roots[lost] if len(roots) > 1 else roots, task)
        if lead == ():
            code = int(reports[0, BRANCH])
            message = self._message(task, targets[0], roots[0], helds[0], int(status[0]), reports[0], limits, swivel)
            return LimbSolution(
                pose[0], bool(ok[0]), float(swivels[0]), Branch(code // 4, code // 2 % 2, code % 2), message,
                STATUS[status[0]], float(reports[0, PLACE_ERROR]), float(reports[0, TURN_ERROR]),
                self.clearance(pose[0]),
            )  # fmt: skip
        code = reports[:, BRANCH].astype(int).reshape(lead)
        return LimbSolution(
            pose.reshape(*lead, -1),
            ok.reshape(lead),
            swivels.reshape(lead),
            Branch(code // 4, code // 2 % 2, code % 2),  # type: ignore[arg-type]
            _SENTENCES[status].reshape(lead),
            _NAMES[status].reshape(lead),
            reports[:, PLACE_ERROR].reshape(lead),
            reports[:, TURN_ERROR].reshape(lead),
            np.where(reports[:, SLACK] < NO_LIMIT, reports[:, SLACK], np.inf).reshape(lead),
        )

    def clearance(self, pose: np.ndarray) -> float:
        """Return how far [rad] the limb's joint nearest to its limits stays inside them at a pose (n,)."""
        theta = pose[self.columns]
        return float(
            np.minimum(theta - self.skeleton.lower[self.columns], self.skeleton.upper[self.columns] - theta).min()
        )

    def _message(self, task, target, root, held, status, report, limits, swivel) -> str:
        what = self.last if task == POSE else self.site
        if status == REACHED:
            note = ""
            if swivel is not None and abs(math.sin(0.5 * (report[SWIVEL] - float(np.asarray(swivel))))) > 1e-9:
                wish, got = float(np.asarray(swivel)), report[SWIVEL]
                note = f"; the swivel angle moved from {wish:.4f} to {got:.4f} rad to hold the limits"
            if report[MOVED]:
                note += f"; {self.last!r} had to move"
            return f"reached{note}"
        near, far = self.reach_of(held if task == POSITION else None, limits=limits)
        place = target[:3] if task == POSITION else target[:3] - target[3:].reshape(3, 3) @ self.tool_in_site()
        distance = float(np.linalg.norm(place - root[:3]))
        if status in (TOO_FAR, TOO_NEAR):
            word = "far" if status == TOO_FAR else "near"
            reach = f"it reaches from {near:.4f} to {far:.4f} m"
            return f"too {word}: {what!r} would have to be {distance:.4f} m from {self.first!r}; {reach}"
        blame = self._to_blame(task, target, root, held)
        return f"no swivel angle holds every limit{'; in the way: ' + ', '.join(blame) if blame else ''}"

    def tool_in_site(self) -> np.ndarray:
        """Return (3,) [m] from the last joint to the site, in the site's frame."""
        place = self.anatomy.place
        return place[TOOL_TURN : TOOL_TURN + 9].reshape(3, 3).T @ place[TOOL : TOOL + 3]

    def _to_blame(self, task: int, target: np.ndarray, root: np.ndarray, held: np.ndarray) -> list[str]:
        """Name the degrees of freedom whose limits alone, taken away, would leave a swivel angle."""
        found = []
        for number in (0, 1, 2, 4, 5, 6):
            box = self.anatomy.box.copy()
            box[number] = -np.inf, np.inf
            out, report = np.empty((RANGES, 4)), np.empty(REPORT)
            freed = self.anatomy.with_box(box)
            status, count = ranges_of(*freed, root, self.directions, target, held, task, scratch_memory(), out, report)
            if status == REACHED and count:
                found.append(self.skeleton.dof_names[self.columns[number]])
        return found

    # --------------------------------------------------------------------------------------- all there is to choose

    def solutions(self, target: Any, swivel: float = 0.0, *, base: Any = None) -> list[LimbSolution]:
        """Return every solution at a swivel angle: both bends of the middle joint, both families of each ball joint.

        Limits are not enforced: `ok` says which solutions hold them. Equal ones are given once.
        """
        task, targets, _ = read_target(target)
        poses, roots, helds = self._single(targets, base)
        out, reports = np.empty((8, 7)), np.zeros((8, REPORT))
        status = branches_of(
            *self.anatomy,
            roots[0],
            self.directions,
            targets[0],
            helds[0],
            task,
            float(swivel),
            scratch_memory(),
            out,
            reports,
        )
        found: list[LimbSolution] = []
        if status != REACHED:
            return found
        for row in range(8):
            slack = reports[row, SLACK]
            if slack <= NEVER or self._long_way(row, slack):
                continue
            pose = poses[0].copy()
            pose[self.columns] = out[row]
            if any(np.abs(pose - other.pose).max() < 1e-12 for other in found):
                continue
            good = bool(slack >= -1e-12)
            found.append(
                LimbSolution(
                    pose, good, float(swivel), Branch(row // 4, row // 2 % 2, row % 2),
                    "reached" if good else "reached, outside the limits", "REACHED", float(reports[row, PLACE_ERROR]),
                    float(reports[row, TURN_ERROR]), self.clearance(pose),
                )
            )  # fmt: skip
        return found

    def _long_way(self, row: int, slack: float) -> bool:
        """Say whether a solution turns a rotation vector or a swing beyond pi without the limits asking for it."""
        for ball, family in ((0, row // 2 % 2), (1, row % 2)):
            free = not np.any(np.isfinite(self.anatomy.box[4 * ball : 4 * ball + 3]))
            if self.anatomy.shape[ball, BALL] >= VECTOR and family == 1 and (free or slack < 0.0):
                return True
        return False

    def swivel_ranges(self, target: Any, *, base: Any = None) -> list[SwivelRange]:
        """Return all ranges [(lo, hi), ...] of swivel angles [rad] at which some solution holds every limit, by lo.

        A range across pi is one range, with hi beyond pi; the whole circle is (-pi, pi). Euler joints in closed form;
        the limits of rotation vectors and swings have none: their ends are bracketed, then refined to rounding, and a
        range narrower than 5e-4 rad can be missed. Empty where the target cannot be reached.
        """
        task, targets, _ = read_target(target)
        _, roots, helds = self._single(targets, base)
        out, report = np.empty((RANGES, 4)), np.empty(REPORT)
        status, count = ranges_of(
            *self.anatomy, roots[0], self.directions, targets[0], helds[0], task, scratch_memory(), out, report
        )
        if status != REACHED:
            return []
        rows = out[:count][np.argsort(out[:count, 0], kind="stable")]
        return [SwivelRange(lo, hi, self._limit_name(a), self._limit_name(b)) for lo, hi, a, b in rows]

    def _limit_name(self, tag: float) -> str:
        if tag < 0:
            return ""
        number, side = divmod(int(tag), 2)
        if self.anatomy.sign[number] < 0:
            side = 1 - side
        return f"{self.skeleton.dof_names[self.columns[number]]} {('lower', 'upper')[side]}"

    def elbow_circle(self, target: Any, *, base: Any = None) -> ElbowCircle:
        """Return the circle of the middle joint's places for a target, in the world; out of reach, the nearest one."""
        task, targets, _ = read_target(target)
        _, roots, helds = self._single(targets, base)
        out, report = np.empty(13), np.empty(REPORT)
        circle_of(*self.anatomy, roots[0], self.directions, targets[0], helds[0], task, scratch_memory(), out, report)
        return ElbowCircle(out[:3].copy(), float(out[3]), out[4:7].copy(), out[7:10].copy(), out[10:13].copy())

    def swivel(self, pose: Any, *, about: str | None = None) -> Any:
        """Return the swivel angle (...) [rad] of poses (..., n).

        about: the last joint (default), as for a pose target, or the site, as for a position target.
        """
        poses = as_poses(self.skeleton, pose)
        if about not in (None, self.last, self.site):
            raise GoalError("about", expected=f"{self.last!r} or {self.site!r}", got=repr(about))
        task = POSITION if about == self.site and self.site != self.last else POSE
        flat, roots, _ = self.placed(poses.reshape(-1, self.skeleton.size))
        out = self._swivels(flat[:, self.columns], roots, task)
        return float(out[0]) if poses.ndim == 1 else out.reshape(poses.shape[:-1])

    def _swivels(self, numbers: np.ndarray, roots: np.ndarray, task: int) -> np.ndarray:
        out = np.empty(numbers.shape[0])
        swivel_batch(*self.anatomy, roots, self.directions, numbers * self.anatomy.sign, task, scratch_memory(), out)
        return out

    def reach_of(self, held: Any = None, *, limits: bool = True) -> tuple[float, float]:
        """Return how near and how far [m] the last joint gets from the first; the site, where held (3,) is given."""
        return distances(self.anatomy, held, limits)

    # ------------------------------------------------------------------------------------------------- the base

    def with_tool(self, offset: Any, rotation: Any) -> LimbCore:
        """Return the same limb with another point (3,) [m] and frame (3, 3) of its last body for a site."""
        out = object.__new__(type(self))
        out.__dict__.update(self.__dict__)
        out.anatomy = self.anatomy.with_tool(np.asarray(offset, dtype=float), np.asarray(rotation, dtype=float))
        out.site = f"a point of {self.last}"
        return out

    def dofs_above(self) -> list[int]:
        """Return the degrees of freedom of the figure that move the first joint."""
        body, found = int(self.skeleton.figure.body[self.bodies[0], PARENT]), []
        while body >= 0:
            found += range(*(int(i) for i in self.skeleton.figure.body[body, FIRST : LAST + 1]))
            body = int(self.skeleton.figure.body[body, PARENT])
        return found

    def parent_frame(self, pose: np.ndarray, body: int) -> np.ndarray:
        """Return (3, 3) the frame in the world of one of the figure's bodies before its own motion, at a pose (n,)."""
        rest = self.skeleton.figure.rest[body, 3:].reshape(3, 3)
        parent = self.skeleton.figure.body[body, PARENT]
        return rest if parent < 0 else place_bodies(self.skeleton, pose[None])[1][0, parent] @ rest

    @staticmethod
    def is_position(target: Any) -> bool:
        """Say whether a target is a place alone."""
        return read_target(target)[0] == POSITION

    def placed(self, base: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return base poses (t, n), the first joint's rest frames (t, 12), the last joint's raw numbers (t, 3)."""
        poses = as_poses(self.skeleton, self.skeleton.rest if base is None else base, "base").reshape(
            -1, self.skeleton.size
        )
        rest = self.skeleton.figure.rest[self.bodies[0]]
        parent = self.skeleton.figure.body[self.bodies[0], PARENT]
        roots = np.empty((poses.shape[0], 12))
        if parent < 0:
            roots[:] = rest
        else:
            positions, turns, _ = place_bodies(self.skeleton, poses)
            roots[:, :3] = positions[:, parent] + turns[:, parent] @ rest[:3]
            roots[:, 3:] = (turns[:, parent] @ rest[3:].reshape(3, 3)).reshape(-1, 9)
        helds = poses[:, self.columns[4:]] * self.anatomy.sign[4:]
        helds = np.clip(helds, self.anatomy.box[4:, 0], self.anatomy.box[4:, 1])
        return poses, roots, np.ascontiguousarray(helds)

    def _single(self, targets: np.ndarray, base: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        placed = self.placed(base)
        if targets.shape[0] != 1 or placed[0].shape[0] != 1:
            raise GoalError(
                "target", expected="one target and one base", got=f"{targets.shape[0]} and {placed[0].shape[0]}"
            )
        return placed


_NAMES = np.array(STATUS, dtype=object)
_SENTENCES = np.array(["reached", "too far", "too near", "no swivel angle holds every limit"], dtype=object)


def down_of(skeleton: Skeleton) -> np.ndarray:
    """Return the direction (3,) that points down in a figure: against its `up`; -z where it does not say."""
    return np.array([0.0, -1.0, 0.0]) if skeleton.up == "y" else np.array([0.0, 0.0, -1.0])


def _across(direction: np.ndarray) -> np.ndarray:
    helper = np.eye(3)[int(np.argmin(np.abs(direction)))]
    out = helper - (helper @ direction) * direction
    return out / np.linalg.norm(out)
