"""The limb: its place in the figure, and the solve for a place or a pose (seed 003, 3.2)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from posable.errors import GoalError
from posable.kernels.fields import FIRST, LAST, PARENT
from posable.kinematics import as_poses, in_rows, place_bodies
from posable.skeleton import Skeleton

from .anatomy import BALL, TOOL, TOOL_TURN, VECTOR, Anatomy, find_limb
from .answer import BRANCH, PLACE_ERROR, REPORT, SLACK, SWIVEL, TURN_ERROR
from .balls import NEVER, NO_LIMIT
from .batch import Goals, around_of, scratch_memory, share_out, spread
from .circle import BLOCKED, NO_SWIVEL, POSE, POSITION, RANGES, REACHED
from .entries import answer_batch, branches_of, circle_of, nearest_batch, ranges_of, swivel_batch
from .reach import distances
from .reasons import SENTENCES, classify, sentence
from .solution import STATUS, Branch, ElbowCircle, LimbSolution, SwivelRange
from .targets import common_lead, read_direction, read_numbers, read_target, wishes


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
        goals = self.goals(target, base, limits=limits, swivel=swivel, elbow=elbow)
        out, reports, status = self.answers(goals, bool(limits), nearest)
        edges = np.full(len(status), np.nan)
        if nearest:
            edges = classify(self, goals, bool(limits), out, reports, status)
        else:
            status[status >= BLOCKED] = NO_SWIVEL
        swivels = reports[:, SWIVEL]
        lost = np.isnan(swivels)
        if np.any(lost):
            swivels[lost] = self.swivels(
                out[lost], goals.roots[lost] if len(goals.roots) > 1 else goals.roots, goals.task
            )
        messages: Any = SENTENCES[status]
        if goals.lead == ():
            said = sentence(self, goals, bool(limits), int(status[0]), reports[0], float(edges[0]), swivel)
            messages = np.array([said], dtype=object)
        return self.solution(goals.lead, goals.poses, out, reports, status, messages)

    def goals(self, target: Any, base: Any, *, limits: bool = True, swivel: Any = None, elbow: Any = None) -> Goals:
        """Return targets with their base and what is wished of them, checked and laid out in rows."""
        task, targets, lead = read_target(target)
        around = around_of(base)
        full = common_lead({"target": lead, "base": around})
        poses, roots, helds = (spread(rows, around, full) for rows in self.placed(base, limits=limits))
        if full != lead:
            targets = np.repeat(targets, math.prod(full), axis=0) if lead == () else spread(targets, lead, full)
        return Goals(
            task, full, targets, poses, roots, helds, wishes(swivel, "swivel", full), wishes(elbow, "elbow", full, (3,))
        )

    def answers(
        self, goals: Goals, limits: bool, nearest: bool, *, anatomy: Anatomy | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the limb's numbers (t, 7), the reports (t, REPORT) and the outcomes (t,) of goals."""
        count = goals.targets.shape[0]
        out, reports, status = np.zeros((count, 7)), np.zeros((count, REPORT)), np.zeros(count, dtype=np.int64)
        constants = self.anatomy if anatomy is None else anatomy

        def part(low: int, high: int) -> None:
            mine = goals.rows(slice(low, high))
            common = (
                *constants, mine.roots, self.directions, mine.targets, mine.helds, mine.task, limits, mine.swivels,
                mine.elbows, scratch_memory(), out[low:high], reports[low:high], status[low:high],
            )  # fmt: skip
            answer_batch(*common)
            if nearest and np.any(status[low:high] != REACHED):
                nearest_batch(*common)

        share_out(count, part)
        return out, reports, status

    def solution(self, lead, poses, out, reports, status, messages, spins=None) -> LimbSolution:
        """Return the answer of many goals with leading axes, or of one."""
        count = out.shape[0]
        pose = np.empty((count, self.skeleton.size))
        pose[:] = poses
        pose[:, self.columns] = out
        ok = status == REACHED
        code = reports[:, BRANCH].astype(int)
        branch = (code // 4, code // 2 % 2, code % 2)
        if lead == ():
            return LimbSolution(
                pose[0], bool(ok[0]), float(reports[0, SWIVEL]), Branch(*(int(part[0]) for part in branch)),
                str(messages[0]), STATUS[status[0]], float(reports[0, PLACE_ERROR]), float(reports[0, TURN_ERROR]),
                self.clearance(pose[0]), None if spins is None else float(spins[0]),
            )  # fmt: skip
        return LimbSolution(
            pose.reshape(*lead, self.skeleton.size), ok.reshape(lead), reports[:, SWIVEL].reshape(lead),
            Branch(*(part.reshape(lead) for part in branch)),  # type: ignore[arg-type]
            messages.reshape(lead), _NAMES[status].reshape(lead), reports[:, PLACE_ERROR].reshape(lead),
            reports[:, TURN_ERROR].reshape(lead),
            np.where(reports[:, SLACK] < NO_LIMIT, reports[:, SLACK], np.inf).reshape(lead),
            None if spins is None else spins.reshape(lead),
        )  # fmt: skip

    def clearance(self, pose: np.ndarray) -> float:
        """Return how far [rad] the limb's joint nearest to its limits stays inside them at a pose (n,)."""
        theta = pose[self.columns]
        return float(
            np.minimum(theta - self.skeleton.lower[self.columns], self.skeleton.upper[self.columns] - theta).min()
        )

    def tool_in_site(self) -> np.ndarray:
        """Return (3,) [m] from the last joint to the site, in the site's frame."""
        place = self.anatomy.place
        return place[TOOL_TURN : TOOL_TURN + 9].reshape(3, 3).T @ place[TOOL : TOOL + 3]

    # --------------------------------------------------------------------------------------- all there is to choose

    def solutions(
        self, target: Any, swivel: float = 0.0, *, limits: bool = True, base: Any = None
    ) -> list[LimbSolution]:
        """Return every solution at a swivel angle: both bends of the middle joint, both families of each ball joint.

        Limits are not enforced: `ok` says which solutions hold them. Equal ones are given once. For a place the last
        joint is held as `solve` holds it, with limits on or off.
        """
        goals, held, _ = self._held(target, base, limits)
        angle = read_numbers(swivel, "swivel")
        if angle.ndim:
            raise GoalError("swivel", expected="one angle", got=f"shape {angle.shape}")
        swivel, task, poses = float(angle), goals.task, goals.poses
        out, reports = np.empty((8, 7)), np.zeros((8, REPORT))
        status = branches_of(
            *self.anatomy, goals.roots[0], self.directions, goals.targets[0], held, task, swivel, scratch_memory(), out,
            reports,
        )  # fmt: skip
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
            if good:  # a rounding error outside is inside
                pose[self.columns] = np.clip(
                    out[row], self.skeleton.lower[self.columns], self.skeleton.upper[self.columns]
                )
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
        goals, held, only = self._held(target, base, True)
        out, report = np.empty((RANGES, 4)), np.empty(REPORT)
        status, count = ranges_of(
            *self.anatomy,
            goals.roots[0],
            self.directions,
            goals.targets[0],
            held,
            goals.task,
            scratch_memory(),
            out,
            report,
        )
        if status != REACHED or count == 0:
            return [] if only is None else [SwivelRange(only, only)]
        rows = out[:count][np.argsort(out[:count, 0], kind="stable")]
        return [SwivelRange(lo, hi, self._limit_name(a), self._limit_name(b)) for lo, hi, a, b in rows]

    def _held(self, target: Any, base: Any, limits: bool) -> tuple[Goals, np.ndarray, float | None]:
        """Return one target, the last joint's raw numbers (3,) as `solve` holds them, and the swivel that it gives.

        For a place that is reached with the last joint as it is in base, that is how it is held.
        """
        goals = self.goals(target, base, limits=limits)
        if goals.targets.shape[0] != 1:
            raise GoalError("target", expected="one target and one base", got=f"{goals.targets.shape[0]} goals")
        if goals.task == POSE:
            return goals, goals.helds[0], None
        out, reports, status = self.answers(goals, limits, True)
        if status[0] != REACHED:
            return goals, goals.helds[0], None
        phi = float(reports[0, SWIVEL])
        if math.isnan(phi):
            phi = float(self.swivels(out, goals.roots, POSITION)[0])
        return goals, np.ascontiguousarray(out[0, 4:] * self.anatomy.sign[4:]), phi

    def _limit_name(self, tag: float) -> str:
        if tag < 0:
            return ""
        number, side = divmod(int(tag), 2)
        if self.anatomy.sign[number] < 0:
            side = 1 - side
        return f"{self.skeleton.dof_names[self.columns[number]]} {('lower', 'upper')[side]}"

    def elbow_circle(self, target: Any, *, limits: bool = True, base: Any = None) -> ElbowCircle:
        """Return the circle of the middle joint's places for a target, in the world; out of reach, the nearest one.

        For a place the last joint is held as `solve` holds it, with limits on or off.
        """
        goals, held, _ = self._held(target, base, limits)
        out, report = np.empty(13), np.empty(REPORT)
        circle_of(
            *self.anatomy,
            goals.roots[0],
            self.directions,
            goals.targets[0],
            held,
            goals.task,
            scratch_memory(),
            out,
            report,
        )
        return ElbowCircle(out[:3].copy(), float(out[3]), out[4:7].copy(), out[7:10].copy(), out[10:13].copy())

    def swivel(self, pose: Any, *, about: str | None = None) -> Any:
        """Return the swivel angle (...) [rad] of poses (..., n).

        about: the last joint (default), as for a pose target, or the site, as for a position target.
        """
        poses = as_poses(self.skeleton, pose)
        if not np.isfinite(poses).all():
            raise GoalError("pose", expected="finite numbers", got="NaN or infinity")
        if about not in (None, self.last, self.site):
            raise GoalError("about", expected=f"{self.last!r} or {self.site!r}", got=repr(about))
        task = POSITION if about == self.site and self.site != self.last else POSE
        flat, roots, _ = self.placed(poses.reshape(-1, self.skeleton.size))
        out = self.swivels(flat[:, self.columns], roots, task)
        return float(out[0]) if poses.ndim == 1 else out.reshape(poses.shape[:-1])

    def swivels(self, numbers: np.ndarray, roots: np.ndarray, task: int) -> np.ndarray:
        """Return the swivel angles (t,) [rad] of the limb's numbers (t, 7) at roots (t, 12) or (1, 12)."""
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

    def placed(self, base: Any, *, limits: bool = True) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return base poses (t, n), the first joint's rest frames (t, 12), the last joint's raw numbers (t, 3)."""
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
        helds = poses[:, self.columns[4:]] * self.anatomy.sign[4:]
        if limits:
            helds = np.clip(helds, self.anatomy.box[4:, 0], self.anatomy.box[4:, 1])
        return poses, roots, np.ascontiguousarray(helds)


_NAMES = np.array(STATUS, dtype=object)


def down_of(skeleton: Skeleton) -> np.ndarray:
    """Return the direction (3,) that points down in a figure: against its `up`; -z where it does not say."""
    return np.array([0.0, -1.0, 0.0]) if skeleton.up == "y" else np.array([0.0, 0.0, -1.0])


def _across(direction: np.ndarray) -> np.ndarray:
    helper = np.eye(3)[int(np.argmin(np.abs(direction)))]
    out = helper - (helper @ direction) * direction
    return out / np.linalg.norm(out)
