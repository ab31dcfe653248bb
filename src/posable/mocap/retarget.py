"""Motion from one figure to another, human or robot: bones point the same way, feet stand, limits hold.

Bone directions and the turns of pelvis, chest, head and feet are what two bodies of different build share; they become
goals, and so does the scaled place of every foot. Contacts found in the source are then locked in the target, feet on
the ground and hands on what they touch, and one optimisation over all frames makes the result smooth.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from posable.engine.layout import OFF, ROBUST, WEIGHT
from posable.errors import PosableError, PosableWarning, unknown
from posable.formats.conventions import turn_up
from posable.goals import Direction, Orientation, Position
from posable.goals.base import Goal
from posable.mocap.contacts import Contacts, find_contacts, held_places, paths_of
from posable.mocap.frame_solver import Pace, Walker
from posable.mocap.gaps import blend_weight
from posable.mocap.hand_contacts import Touch, find_touches, hand_role, nearest_on, touch_weights
from posable.mocap.labels import motion_for
from posable.mocap.parallel import Progress, Stop, pieces, run_pieces
from posable.mocap.report import retarget_page
from posable.mocap.root_align import free_joint, place_root, with_free_root, with_rigid_bones
from posable.mocap.smooth import CAREFUL, LOCK_WEIGHT, STANDS, smooth_goals
from posable.mocap.trajectory import Effort
from posable.mocap.unwrap import same_branch, within_turns
from posable.model.body_plan import ROLES, SIDES, BodyPlan, body_plan
from posable.model.joint_values import Floats
from posable.model.kinematics import Frames, forward
from posable.model.motion import Motion
from posable.model.skeleton import Skeleton
from posable.problem import Problem

PIECE, LEAD = 2048, 96  # frames
SECONDS = 0.06  # [s] of the smoothing
TURNING = {"pelvis": 1.0, "chest": 0.3, "head": 0.1, "ankle.L": 0.3, "ankle.R": 0.3}  # weights, in leg lengths squared
BONES = (
    ("hip", "knee", 0.1), ("knee", "ankle", 0.1), ("shoulder", "elbow", 0.5), ("elbow", "wrist", 0.5),
    ("wrist", "hand", 0.05),
)  # fmt: skip
PELVIS_WEIGHT, FOOT_WEIGHT, TOUCH_WEIGHT = 1.0, 3.0, 60.0
EFFORT = Effort(8, 1e-4)  # of the optimisation over all frames: its targets are no finer
TOUCHING = Effort(4, 1e-4)  # of those in which hands go where they touch
SLIPS = 0.02  # [m]: a foot that slips further is said
LONG = 0.3  # [s] of smoothing beyond which steps are smoothed away
UNLIKELY = 10.0  # times larger or smaller, or the unit is another
PLAINLY = 0.9  # of the way from feet to head that lies along an axis: the figure stands along it
TOUCH_PASSES = 2  # what a hand touches moves a little when the hand goes there

SETTLE = Pace(most=200, gain=1e-7, damping=1e-1, own=True, pull=1e-5)
WALK = Pace(most=20, gain=1e-5, damping=1e-2, pull=1e-4)


@dataclass(frozen=True, eq=False)
class Retargeted(Motion):
    """A motion on another figure. mapping {role: (source joint, target joint)}; contacts of its feet; touches of its
    hands, as frames of the source; scale.
    """

    mapping: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    contacts: Contacts | None = None
    scale: float = 1.0
    notes: tuple[str, ...] = ()
    touches: tuple[Touch, ...] = ()

    def __str__(self) -> str:
        lines = [f"{len(self)} frames at {self.fps:g} fps, scaled by {self.scale:.3f}"]
        if self.contacts is not None and self.contacts.points:
            slips = self.contacts.slips(self)
            if len(slips):
                lines.append(
                    f"  {len(slips)} foot contacts, slipping {slips.mean() * 1e3:.1f} mm on average, "
                    f"{slips.max() * 1e3:.1f} at most"
                )
        if self.touches:
            parts = sorted({_part_name(touch.part) for touch in self.touches})
            lines.append(f"  {len(self.touches)} touches of hands kept: {', '.join(parts)}")
        lines += [f"  {note}" for note in self.notes]
        lines += [f"  {role:11s} {source} -> {target}" for role, (source, target) in self.mapping.items()]
        return "\n".join(lines)

    def save_report(self, path: Any) -> None:
        """Write what happened as one HTML file that needs no other."""
        retarget_page(self, path)


def _part_name(part: tuple[str, str] | str) -> str:
    return part if isinstance(part, str) else f"{part[0]} to {part[1]}"


def infer_mapping(
    source: Skeleton, target: Skeleton, mapping: Mapping[str, str | None] | None = None
) -> dict[str, tuple[str, str]]:
    """Return {role: (source joint, target joint)} by names, topology and rest poses.

    mapping {source joint or role: target joint} puts rows right; None instead of a joint leaves the row out.
    """
    if not isinstance(mapping, Mapping | None):
        raise PosableError(f"retarget: expected mapping={{source joint or role: target joint}}, got {mapping!r}")
    plan, given, dropped = body_plan(source, option=""), {}, set()
    for key, value in (mapping or {}).items():
        role = key if key in ROLES else next((role for role, joint in plan.roles.items() if joint == key), None)
        if role is None:
            raise unknown("source joint or role", key, (*plan.roles.values(), *plan.roles))
        if value is None:
            dropped.add(role)
        else:
            target.index(value)
            given[role] = value
    theirs = body_plan(target, given, option="mapping")
    shared = [role for role in ROLES if role in plan and role in theirs and role not in dropped]
    return {role: (plan[role], theirs[role]) for role in shared}


def retarget(
    motion: Motion,
    skeleton: Skeleton,
    mapping: Mapping[str, str | None] | None = None,
    *,
    contacts: bool = True,
    smooth: float = SECONDS,
    threads: int | None = None,
    progress: Progress = None,
    stop: Stop = None,
) -> Retargeted:
    """Return the motion on another figure: `print(result)` shows the mapping and how far feet slip.

    mapping {source joint or role: target joint}: what `infer_mapping` should see otherwise. Lengths are scaled by the
    legs, the target's limits hold, and feet that stand in the source stand in the result, too, and hands that rest on
    each other, on the body or on a thing that does not move stay there (contacts=False: neither).
    A figure that is bolted down, as robots in files are, is let loose. smooth [s]: what is faster goes.
    """
    if not len(motion_for("retarget", motion)):
        raise PosableError("retarget: expected a motion with frames, got none")
    if not 0.0 <= smooth < np.inf:
        raise PosableError(f"retarget: expected smooth of 0 seconds or more, got {smooth!r}")
    figure = with_free_root(skeleton)
    rows = infer_mapping(motion.skeleton, figure, mapping)
    notes = [] if figure is skeleton else [f"{free_joint(figure)} moves freely: in the file it is fixed to the world"]
    up = _standing_axis(motion.skeleton, rows)
    if up not in (None, motion.skeleton.up):
        notes.append(f"the motion's figure stands along {up}: that is taken for up, not {motion.skeleton.up}")
        motion = Motion(motion.skeleton.replace(up=up), motion.poses, motion.fps, motion.name)
    job = _Job(motion, figure, rows)
    standing = find_contacts(motion, job.source) if contacts else None
    touches = job.touches() if contacts else []
    parts = pieces(len(motion), PIECE, LEAD)

    def work(i: int) -> tuple[np.ndarray, np.ndarray]:
        return job.solve(parts[i][0], parts[i][2], standing, touches, smooth)

    sizes = [end - begin for _, begin, end in parts]
    done = run_pieces(work, sizes, threads=threads, progress=progress, stop=stop, what="retargeting")
    total = parts[len(done) - 1][2] if done else 0
    poses = np.empty((total, figure.size))
    for i, ((first, begin, end), (piece, _)) in enumerate(zip(parts, done, strict=False)):
        if i:
            same_branch(figure, poses[begin - 1], piece, begin - 1 - first)
            poses[first:begin] += blend_weight(begin - first)[:, None] * (piece[: begin - first] - poses[first:begin])
        poses[begin:end] = piece[begin - first :]
    poses = within_turns(figure, poses)
    found = job.contacts(poses, standing) if standing is not None else None
    out = Retargeted(figure, poses, motion.fps, motion.name, rows, found, job.scale, tuple(notes), tuple(touches))
    for doubt in _doubts(out, smooth):
        warnings.warn(f"retarget: {doubt}", PosableWarning, stacklevel=2)
    return out


def _standing_axis(skeleton: Skeleton, rows: Mapping[str, tuple[str, str]]) -> str | None:
    """Return "y" or "z" where a figure whose numbers are all zero plainly stands along it, else None.

    BVH states no axis; it is y by custom, and z in files of programs whose own is z.
    """
    if not {"head", "ankle.L", "ankle.R"} <= set(rows):
        return None
    at = forward(skeleton, np.zeros(skeleton.size))
    feet = 0.5 * (at.position(rows["ankle.L"][0]) + at.position(rows["ankle.R"][0]))
    along = at.position(rows["head"][0]) - feet
    along /= max(np.linalg.norm(along), 1e-12)
    return next((axis for axis, k in (("y", 1), ("z", 2)) if along[k] > PLAINLY), None)


def _doubts(result: Retargeted, smooth: float) -> list[str]:
    """Return what a user should know of a result that is not as asked."""
    out = []
    if not 1.0 / UNLIKELY < result.scale < UNLIKELY:
        out.append(
            f"the figure is {result.scale:.3g} times the motion's: is one of them in another unit? "
            "ps.load(file, unit=...) reads a file that states none"
        )
    slip = result.contacts.slips(result).max(initial=0.0) if result.contacts is not None else 0.0
    if slip > SLIPS:
        long = f"smooth={smooth:g} s is long for its steps"
        why = long if smooth > LONG else "its limits or its build do not let it stand"
        out.append(f"a standing foot slips {slip * 1e3:.0f} mm: {why}; the report lists every contact")
    return out


class _Job:
    """A motion, a figure and the mapping between them, as goals."""

    def __init__(self, motion: Motion, figure: Skeleton, rows: Mapping[str, tuple[str, str]]):
        self.motion, self.figure, self.rows = motion, figure, rows
        self.source = body_plan(motion.skeleton, {role: pair[0] for role, pair in rows.items()})
        self.target = body_plan(figure, {role: pair[1] for role, pair in rows.items()})
        self.solvable = with_rigid_bones(figure)
        self.scale = self.target.leg / self.source.leg
        turn = turn_up(motion.skeleton.up, figure.up)
        self.turn = np.eye(3) if turn is None else turn
        self.rise = self._sole(self.target) - self.scale * self._sole(self.source)

    @staticmethod
    def _sole(plan: BodyPlan) -> float:
        """Return how high the ankles are over the lowest point of a figure at rest [m]."""
        names = (*plan.skeleton.names, *plan.skeleton.site_names)
        lowest = min(float(plan.rest.position(name) @ plan.up) for name in names)
        return float(np.mean([plan.place(f"ankle.{side}") @ plan.up for side in SIDES])) - lowest

    # ------------------------------------------------------------------------------------------------------- goals

    def _places(self, frames: Frames, role: str) -> np.ndarray:
        """Return where a role of the source is (T, 3) [m], in the target's axes."""
        return frames.position(self.source[role]) @ self.turn.T

    def _turns(self, frames: Frames, role: str) -> np.ndarray:
        """Return how the target's joint is to be turned (T, 3, 3): as far off its rest as the source's."""
        rest = self.source.rest.rotation_matrix(self.source[role])
        change = self.turn @ frames.rotation_matrix(self.source[role]) @ rest.T @ self.turn.T
        return change @ self._facing() @ self.target.rest.rotation_matrix(self.target[role])

    def _facing(self) -> np.ndarray:
        """Return the turn (3, 3) from the target's axes at rest to the source's."""
        ours = np.stack([self.target.left, self.target.up, self.target.forward], axis=1)
        theirs = self.turn @ np.stack([self.source.left, self.source.up, self.source.forward], axis=1)
        return theirs @ ours.T

    def goals(self, first: int, end: int) -> list[Goal]:
        """Return the goals of frames first to end, locks not among them."""
        frames = forward(self.motion.skeleton, self.motion.poses[first:end])
        up = self.target.up
        size = self.target.leg**2
        hips = 0.5 * (self._places(frames, "hip.L") + self._places(frames, "hip.R"))
        out: list[Goal] = []
        middle = 0.5 * (self.target.place("hip.L") + self.target.place("hip.R"))
        point = self.target.rest.convert(middle, to=self.target["pelvis"])
        place = self.scale * hips + self.rise * up
        out.append(
            Position(self.target["pelvis"], place, point=point, weight=PELVIS_WEIGHT, tolerance=np.inf, label="pelvis")
        )
        for side in SIDES:
            place = self.scale * self._places(frames, f"ankle.{side}") + self.rise * up
            out.append(
                Position(
                    self.target[f"ankle.{side}"], place, weight=FOOT_WEIGHT, tolerance=np.inf, label=f"foot.{side}"
                )
            )
        for role, weight in TURNING.items():
            if role in self.rows:
                out.append(
                    Orientation(
                        self.target[role], self._turns(frames, role), weight=weight * size, tolerance=np.inf, label=role
                    )
                )
        for side in SIDES:
            for upper, lower, weight in BONES:
                a, b = f"{upper}.{side}", f"{lower}.{side}"
                if a not in self.rows or b not in self.rows:
                    continue
                along = self._places(frames, b) - self._places(frames, a)
                axis = self.target.rest.convert(self.target.place(b), to=self.target[a])
                if np.linalg.norm(axis) > 1e-3 * self.target.leg and (np.linalg.norm(along, axis=-1) > 1e-6).all():
                    axis = axis / np.linalg.norm(axis)
                    out.append(
                        Direction(
                            self.target[a], axis, along, weight=weight * size, tolerance=np.inf, label=f"{a} bone"
                        )
                    )
        return out

    # ------------------------------------------------------------------------------------------------------ solving

    def solve(
        self, first: int, end: int, standing: Contacts | None, touches: list[Touch], seconds: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the poses (t, n) of frames first to end, and the places of its feet that stand."""
        goals = self.goals(first, end)
        problem = Problem(self.solvable, goals)
        problem.broadcast((end - first,))
        walker = Walker(problem)
        start = self._start(goals)
        walker(SETTLE, start, home=start[0])
        poses = np.empty((end - first, self.figure.size))
        walker(WALK, poses, last=start[0])
        places = np.zeros((end - first, 0, 3))
        mine = [touch for touch in touches if touch.first < end and touch.end > first]
        if standing is not None and standing.points:
            held = Contacts(standing.points, standing.standing[first:end], standing.places[first:end])
            locks = self.contacts(poses, held)
            places = locks.places
            poses = self._stand(self._locked(goals, locks), locks, poses, seconds, EFFORT)
            for _ in range(TOUCH_PASSES if mine else 0):
                problem = self._locked(goals, locks, self._touch_goals(mine, poses, first, end))
                poses = self._stand(problem, locks, poses, seconds, TOUCHING)
        elif seconds > 0.0 and len(poses) > 2:
            poses = self._smooth(problem, poses, seconds)
        return poses, places

    def _smooth(self, problem: Problem, poses: np.ndarray, seconds: float, effort: Effort = EFFORT) -> np.ndarray:
        return smooth_goals(problem, poses, self.motion.fps, max(seconds, 1e-3), threads=1, effort=effort)

    def _stand(self, problem: Problem, locks: Contacts, poses: np.ndarray, seconds: float, effort: Effort) -> Floats:
        """Return poses with the feet locked; with more care where limits make a foot slip."""
        stood = self._smooth(problem, poses, seconds, effort)
        if locks.slips(Motion(self.figure, stood, self.motion.fps)).max(initial=0.0) < STANDS:
            return stood
        return self._smooth(problem, poses, seconds, effort._replace(passes=CAREFUL))

    def _start(self, goals: list[Goal]) -> np.ndarray:
        """Return the rest pose (1, n) with its root where the first frame wants it."""
        turned = next(goal for goal in goals if goal.label == "pelvis" and isinstance(goal, Orientation))
        place = next(goal for goal in goals if goal.label == "pelvis" and isinstance(goal, Position))
        pose = np.clip(self.solvable.rest, self.solvable.lower, self.solvable.upper)
        frames = forward(self.figure, pose)
        name, pelvis = free_joint(self.figure), self.target["pelvis"]
        assert name is not None  # the figure was given one
        change = np.asarray(turned.target)[0] @ frames.rotation_matrix(pelvis).T
        return place_root(self.figure, pose, change @ frames.rotation_matrix(name), np.asarray(place.target)[0])[
            None
        ].copy()

    def contacts(self, poses: np.ndarray, standing: Contacts) -> Contacts:
        """Return when and where the target's feet are to stand: when the source's do, where they are in these poses."""
        back = {joint: role for role, (joint, _) in self.rows.items()}
        columns = [k for k, point in enumerate(standing.points) if point in back]
        points = tuple(self.target[back[standing.points[k]]] for k in columns)
        when = standing.standing[: len(poses), columns]
        paths = paths_of(Motion(self.figure, poses, self.motion.fps), points)
        return Contacts(points, when, held_places(paths, when))

    def touches(self) -> list[Touch]:
        """Return what the source's hands touch, as far as the target has the like."""
        both = {role for role in self.source.roles if role in self.target}
        return [
            touch
            for touch in find_touches(self.motion, self.source)
            if isinstance(touch.part, str) or both.issuperset(touch.part)
        ]

    def _touch_goals(
        self, touches: list[Touch], poses: np.ndarray, first: int, end: int
    ) -> list[tuple[Goal, np.ndarray]]:
        """Return, for every touch, the goal of a hand (two for a touch of hands) and its weights (t,) over time."""
        theirs = forward(self.motion.skeleton, self.motion.poses[first:end])
        ours = forward(self.figure, poses)
        out: list[tuple[Goal, np.ndarray]] = []
        for touch in touches:
            weights = touch_weights(touch, len(self.motion), self.motion.fps)[first:end]
            sides = SIDES if touch.part == "hands" else (touch.side,)
            for side in sides:
                role = hand_role(self.source, side) or ""
                if role not in self.target:
                    continue
                hand = self._places(theirs, role)
                place = self._touched(touch, side, role, hand, theirs, ours, first)
                goal = Position(self.target[role], place, weight=TOUCH_WEIGHT, tolerance=np.inf, label=f"hand.{side}")
                out.append((goal, weights))
        return out

    def _touched(self, touch: Touch, side: str, role: str, hand: np.ndarray, theirs, ours, first: int) -> np.ndarray:
        """Return where a hand that touches something goes (t, 3) [m]."""
        if touch.part == "world":
            rows = slice(max(touch.first - first, 0), max(touch.end - first, 0))
            return np.broadcast_to(self.scale * np.median(hand[rows], axis=0), hand.shape)
        if touch.part == "hands":
            far = "R" if side == "L" else "L"
            other = self._places(theirs, role.replace(f".{side}", f".{far}"))
            mine, its = (ours.position(self.target[name]) for name in (role, role.replace(f".{side}", f".{far}")))
            return 0.5 * (mine + its) + 0.5 * self.scale * (hand - other)
        a, b = touch.part
        share, away = nearest_on(self._places(theirs, a), self._places(theirs, b), hand)
        start, stop = ours.position(self.target[a]), ours.position(self.target[b])
        return start + share[:, None] * (stop - start) + self.scale * away

    def _locked(self, goals: list[Goal], locks: Contacts, touched: Sequence[tuple[Goal, np.ndarray]] = ()) -> Problem:
        """Return the problem with a goal for every foot that stands, switched off where it does not, and for hands."""
        targets = np.where(np.isfinite(locks.places), locks.places, 0.0)
        held = [
            Position(point, targets[:, k], weight=LOCK_WEIGHT, tolerance=np.inf, label=f"{point} stands")
            for k, point in enumerate(locks.points)
        ]
        problem = Problem(self.solvable, [*goals, *held, *(goal for goal, _ in touched)])
        problem.broadcast((len(targets),))
        problem.spread(len(targets))  # its feet stand at different times
        feet, hands = len(goals_springs(problem, len(goals))), len(goals_springs(problem, len(goals) + len(held)))
        for k in range(len(locks.points)):
            problem.constants[~locks.standing[:, k], feet + k, ROBUST] = OFF
        for k, (_, weights) in enumerate(touched):
            problem.constants[:, hands + k, WEIGHT : WEIGHT + 6] *= weights[:, None]
            problem.constants[weights <= 0.0, hands + k, ROBUST] = OFF
        return problem


def goals_springs(problem: Problem, count: int) -> list[int]:
    """Return the springs of a problem's first `count` goals."""
    return [k for k, owner in enumerate(problem.owners) if owner < count]


__all__ = ["Retargeted", "infer_mapping", "retarget"]
