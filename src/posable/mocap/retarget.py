"""Motion from one figure to another, human or robot: bones point the same way, feet stand, limits hold.

Bone directions and the turns of pelvis, chest, head and feet are what two bodies of different build share; they become
goals, and so does the scaled place of every foot. Contacts found in the source are then locked in the target, feet on
the ground and hands on what they touch, and one optimisation over all frames makes the result smooth.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from typing import Any

import numpy as np
from scipy.ndimage import maximum_filter1d

from posable.engine.layout import OFF, ROBUST, WEIGHT
from posable.errors import PosableError, PosableWarning, unknown
from posable.formats.conventions import turn_up
from posable.goals import Direction, HalfSpace, Hull, NoCollision, Orientation, Position
from posable.goals.base import Goal
from posable.goals.collision import obstacle_shape
from posable.mocap.contacts import Contacts, held_places, paths_of
from posable.mocap.foot_steps import FootSteps
from posable.mocap.frame_solver import FrameOptions, FrameSolver
from posable.mocap.gaps import blend_weight, runs
from posable.mocap.hand_contacts import Touch, find_touches, hand_role, nearest_on, touch_weights
from posable.mocap.parallel import Progress, Stop, pieces, run_pieces
from posable.mocap.report import retarget_page
from posable.mocap.retime import slowed, within_steps
from posable.mocap.role_frames import RoleFrames, bone_angles, frame_of, standing_axis, unit
from posable.mocap.root_align import free_joint, place_root, with_free_root, with_rigid_bones
from posable.mocap.screen import motion_for
from posable.mocap.smooth import CAREFUL, HOLD, STANDS, box_of, goal_stiffness, reach_of, smooth_goals
from posable.mocap.supports import Solid, nearest_face, read_solids
from posable.mocap.target_body import TargetBody, standing_up, with_all_solid
from posable.mocap.trajectory import Effort
from posable.mocap.unwrap import same_branch, within_turns
from posable.mocap.verdict import why_contacts_slip
from posable.model.body_plan import ROLES, SIDES, body_plan
from posable.model.collision import distances, measure, pair_tables
from posable.model.joint_values import Floats
from posable.model.kinematics import Frames, forward
from posable.model.motion import Motion
from posable.model.shapes import Shape
from posable.model.skeleton import Skeleton
from posable.problem import Problem

PIECE, LEAD = 1024, 64  # frames
SEAM = 32  # frames on either side of where two pieces are blended that may change with it
SECONDS = 0.21  # [s] of the smoothing
TURNING = {
    "pelvis": 1.0,
    "chest": 0.3,
    "head": 0.05,
    "ankle.L": 0.01,
    "ankle.R": 0.01,
}  # weights, in leg lengths squared
BONES = (
    ("hip", "knee", 0.5), ("knee", "ankle", 0.5), ("shoulder", "elbow", 0.5), ("elbow", "wrist", 0.5),
    ("wrist", "tip", 0.05),
)  # fmt: skip
PELVIS_WEIGHT, FOOT_WEIGHT, TOUCH_WEIGHT, CLEAR_WEIGHT = 0.3, 2.0, 20.0, 2000.0
HAND_WEIGHT, TOE_WEIGHT, CROWN_WEIGHT = 1.0, 0.5, 2.0  # of places that follow the source's, scaled
STAND_WEIGHT = 8000.0  # of a point of a sole that stands
APART_WEIGHT = 500.0  # of shapes that come too near one another
PASSES = 2  # what is near the ground and objects is looked up anew from pass to pass
CALMINGS, CALMER = 3, 8.0  # times joints that are too fast are made stiffer, and how much
SLOWINGS, CORNER = 3, 0.05  # times what is still too fast is held to its limits; [s] over which corners are rounded
MOVED = 1e-4  # [rad] by which a joint is moved for that: frames in which it is not stay as they are
FREEINGS, DEEP = 4, 0.005  # times shapes deeper in each other than so many metres are pushed out again
SHOWS = 0.01  # [m] of one part inside another that a viewer sees
CLEAR_FEET, SAME_LEVEL, SWEEPS = 0.015, 0.05, 3  # [m] between standing feet; [m]; times they are moved apart
JUMP = 0.45  # [rad] of a joint from one frame to the next
LEAN = 0.06  # [rad] by which legs may lean in where the hips are wider than the source's, scaled
SCALES = 0.9, 1.15  # of the ratio of the legs: how far that of the bodies may differ from it
NEAR_GROUND = 0.1  # leg lengths from the ground or an object within which a body is kept out of it
NEAR_SHAPES, LOOK = 0.1, 2  # [m] within which shapes are kept apart; every so many frames are looked at for them
EFFORT = Effort(4, 1e-4)  # of the optimisation over all frames: its targets are no finer
REFINING = Effort(8, 3e-4)  # of those that follow, with what is near the ground, objects and hands looked up anew
CARE = Effort(6, 3e-4, CAREFUL)  # of those about single frames: limits are what makes feet slip there
STANDINGS = 2  # times the steps that slip even so are solved again
SLIPS = 0.02  # [m]: a foot that slips further is said
LONG = 0.3  # [s] of smoothing beyond which steps are smoothed away
FAR_BONE = 25.0  # [deg] on average by which a bone's direction may be off before it is said
UNLIKELY = 10.0  # times larger or smaller, or the unit is another

Held = list[tuple[Goal, np.ndarray]]  # goals with their weights (t,) over time; 0: switched off

SETTLE = FrameOptions(max_iterations=200, min_gain=1e-7, damping=1e-1, independent=True, pull=1e-5)
WALK = FrameOptions(max_iterations=20, min_gain=1e-5, damping=1e-2, pull=1e-4)


@dataclass(frozen=True, eq=False)
class Retargeted(Motion):
    """A motion on another figure. mapping {role: (source joint, target joint)}; contacts of its feet; touches of its
    hands, as frames of the source; scale; source: the motion that it was made from.
    """

    mapping: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    contacts: Contacts | None = None
    scale: float = 1.0
    touches: tuple[Touch, ...] = ()
    source: Motion | None = field(default=None, repr=False)

    def __str__(self) -> str:
        lines = [f"{len(self)} frames at {self.fps:g} fps, scaled by {self.scale:.3f}"]
        if self.contacts is not None and self.contacts.points:
            slips = self.contacts.slips(self)
            if len(slips):
                lines.append(
                    f"  {len(slips)} foot contacts, slipping {slips.mean() * 1e3:.1f} mm on average, "
                    f"{slips.max() * 1e3:.1f} at most"
                )
                lines += [f"    {line}" for line in why_contacts_slip(self, self.contacts.steps(), slips)]
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
    objects: Any = (),
    terrain: Any = None,
    contacts: bool = True,
    touches: bool = True,
    smooth: float = SECONDS,
    device: str = "cpu",
    threads: int | None = None,
    progress: Progress = None,
    stop: Stop = None,
) -> Retargeted:
    """Return the motion on another figure; `print(result)` shows the mapping and how far feet slip.

    Args:
        motion: The motion of a person or a robot with two legs.
        skeleton: The figure that takes it. A robot that its file bolts down is let loose.
        mapping: {source joint or role: target joint or None}, to correct what `infer_mapping` finds.
        objects: What the figure stands on and keeps out of: OBJ files, meshes with vertices and faces, or corners
            (V, 3) [m], in the motion's axes. They are scaled with the body.
        terrain: The same, for the ground.
        contacts: Whether feet that stand in the source stand in the result.
        touches: Whether hands that rest on each other, on the body or on a thing that does not move stay there.
        smooth: [s]; faster motion is removed.
        device: "cpu", the only one so far: frames are optimised together, which the GPU's batches cannot do yet.
        threads: Cores to use; all by default.
        progress: Whether to show a bar, or a function that is told (done, total).
        stop: A function that says when to stop; what is done is returned.

    Returns:
        The motion, with limits held and feet on their supports. Ways are scaled by the sizes of the two bodies (leg,
        trunk and arm), the height of the hips over the feet by their legs.
    """
    if not len(motion_for("retarget", motion)):
        raise PosableError("retarget: expected a motion with frames, got none")
    if not 0.0 <= smooth < np.inf:
        raise PosableError(f"retarget: expected smooth of 0 seconds or more, got {smooth!r}")
    if device != "cpu":
        raise PosableError(f"retarget: expected device='cpu', got {device!r}: only `solve` runs on a GPU")
    figure = with_free_root(skeleton)
    notes = [] if figure is skeleton else [f"{free_joint(figure)} moves freely: in the file it is fixed to the world"]
    rows = infer_mapping(motion.skeleton, figure, mapping)
    raised = standing_up(figure, {role: pair[1] for role, pair in rows.items()})
    if raised is not figure:
        figure = raised
        notes.append(f"the figure's file has it lying: it is stood up along {figure.up}")
    up = standing_axis(motion, body_plan(motion.skeleton, {role: pair[0] for role, pair in rows.items()}))
    if up not in (None, motion.skeleton.up):
        notes.append(f"the motion's figure stands along {up}: that is taken for up, not {motion.skeleton.up}")
        motion = Motion(motion.skeleton.replace(up=up), motion.poses, motion.fps, motion.name)
    job = _Job(motion, figure, rows, (*read_solids(objects), *read_solids(terrain)))
    touched = job.touches() if touches and contacts else []
    parts = pieces(len(motion), PIECE, LEAD)

    def work(i: int) -> np.ndarray:
        return job.solve(parts[i][0], parts[i][2], contacts, touched, smooth)

    sizes = [end - begin for _, begin, end in parts]
    done = run_pieces(work, sizes, threads=threads, progress=progress, stop=stop, what="retargeting")
    total = parts[len(done) - 1][2] if done else 0
    poses = np.empty((total, figure.size))
    for i, ((first, begin, end), piece) in enumerate(zip(parts, done, strict=False)):
        if i:
            same_branch(figure, poses[begin - 1], piece, begin - 1 - first)
            poses[first:begin] += blend_weight(begin - first)[:, None] * (piece[: begin - first] - poses[first:begin])
        poses[begin:end] = piece[begin - first :]
    for first, begin, _ in parts[1 : len(done)]:
        job.mend_seam(poses, first, begin, contacts, smooth)
    poses = within_turns(figure, job.within_speed(poses))
    found = job.contacts(poses) if contacts else None
    out = Retargeted(
        figure, poses, motion.fps, motion.name, rows, found, job.scale, tuple(touched), motion, notes=tuple(notes)
    )
    for doubt in (*_doubts(out, smooth), *_far_bones(job, poses), *_overlaps(job, poses)):
        warnings.warn(f"retarget: {doubt}", PosableWarning, stacklevel=2)
    return out


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


def _far_bones(job: _Job, poses: np.ndarray) -> list[str]:
    """Return a line where bones of the result point plainly elsewhere than the source's."""
    own = RoleFrames(Motion(job.figure, poses, job.motion.fps), job.target, np.eye(3))
    off = bone_angles(own, job.seen, len(poses))
    far = sorted((-mean, bone, worst) for bone, (mean, worst) in off.items() if mean > FAR_BONE)
    if not far:
        return []
    named = ", ".join(f"{bone} {-mean:.0f}° on average, {worst:.0f}° at worst" for mean, bone, worst in far[:3])
    return [f"bones point elsewhere than the motion's: {named}; is the mapping right? print(result) shows it"]


def _overlaps(job: _Job, poses: np.ndarray) -> list[str]:
    """Return a line where parts of the result pass through each other."""
    depth = job.depth(poses)
    deep = depth > SHOWS
    if not deep.any():
        return []
    worst = int(depth.argmax())
    a, b, gap = distances(job.solvable, poses[worst], within=0.0)[0]
    return [
        f"parts of the figure are inside each other in {int(deep.sum())} of {len(poses)} frames, at worst {a} and {b} "
        f"by {-gap * 1e3:.0f} mm in frame {worst}: a wider stance or other proportions would be needed"
    ]


@lru_cache(maxsize=8)
def _solvable(figure: Skeleton) -> Skeleton:
    """Return the figure that is solved for: rigid bones, and nothing that passes through anything else."""
    return with_all_solid(with_rigid_bones(figure))


@lru_cache(maxsize=8)
def _target_body(figure: Skeleton, roles: tuple[tuple[str, str], ...]) -> TargetBody:
    """Return a figure with roles, kept from clip to clip."""
    return TargetBody(body_plan(figure, dict(roles)))


class _Job:
    """A motion, a figure and the mapping between them, as goals."""

    def __init__(
        self, motion: Motion, figure: Skeleton, rows: Mapping[str, tuple[str, str]], solids: Sequence[Solid] = ()
    ):
        self.motion, self.figure, self.rows = motion, figure, rows
        self.source = body_plan(motion.skeleton, {role: pair[0] for role, pair in rows.items()})
        self.body = _target_body(figure, tuple((role, pair[1]) for role, pair in rows.items()))
        self.target = self.body.plan
        self.solvable = _solvable(figure)
        self.leg_ratio = self.target.leg / self.source.leg
        turn = turn_up(motion.skeleton.up, figure.up)
        self.turn = np.eye(3) if turn is None else turn
        self.seen = RoleFrames(motion, self.source, self.turn)
        ratio = self.body.rest.size / self.seen.size
        low, high = (k * self.leg_ratio for k in SCALES)
        self.scale = min(max(ratio, low), high)
        self.source_solids = [solid.turned(self.turn) for solid in solids]
        self.solids = [solid.scaled(self.scale) for solid in self.source_solids]
        shapes = (obstacle_shape(Hull(one.vertices)) for one in self.solids)
        self.obstacles = tuple(shape for shape in shapes if isinstance(shape, Shape))
        root = free_joint(figure)
        self.turning = np.ones(figure.size, dtype=bool)
        self.turning[figure.index(root or figure.joints[0].name)] = False  # a root may go and turn as it likes
        self.most_step = np.minimum(figure.velocity / motion.fps, JUMP)
        below = {name for side in SIDES for name in self.body.below[self.target[f"hip.{side}"]]}
        names = {name for joint in below if joint in figure.names for name in self._up_to_trunk(joint)}
        self.legs = np.zeros(figure.size, dtype=bool)
        for joint in figure.joints:
            if joint.name in names and joint.motion.dofs:
                self.legs[figure.index(joint.name)] = True
        self.steps = FootSteps(self.seen, self.source.leg, self.target.up, self.source_solids)
        self.feet = {side: self._foot_path(side) for side in SIDES}

    def _up_to_trunk(self, joint: str) -> list[str]:
        """Return a joint and those above it, up to the pelvis."""
        parent = {one.name: one.parent for one in self.figure.joints}
        out: list[str] = []
        name: str | None = joint
        while name is not None and name != self.target["pelvis"] and name != free_joint(self.figure):
            out.append(name)
            name = parent[name]
        return out

    # ------------------------------------------------------------------------------------------------------- goals

    def _foot_path(self, side: str) -> tuple[Floats, Floats | None]:
        """Return where the target's ankle is wanted (T, 3) [m], and the frames of its foot (T, 3, 3)."""
        up = self.target.up
        frames = self.seen.frame(f"ankle.{side}", self.steps.flat)
        above = np.broadcast_to(up, (len(self.motion), 3)) if frames is None else frames[:, :, 2]
        sole = self.seen.places[f"ankle.{side}"] - self.steps.ankle_height[side] * above
        return self.scale * sole + self.body.sole_height(side) * above + self._wider(side), frames

    def _wider(self, side: str) -> Floats:
        """Return how much farther out a foot goes than the source's, scaled (T, 3) [m]: as wide as the hips are.

        Up to LEAN the legs lean in instead, so that feet are where the source's are.
        """
        ours, theirs = (frames.places["hip.L"] - frames.places["hip.R"] for frames in (self.body.rest, self.seen))
        half = 0.5 * (np.linalg.norm(ours[0]) - self.scale * np.median(np.linalg.norm(theirs, axis=-1)))
        left = unit(theirs - (theirs @ self.target.up)[:, None] * self.target.up)
        return max(half - LEAN * self.target.leg, 0.0) * (left if side == "L" else -left)

    def goals(self, first: int, end: int) -> list[Goal]:
        """Return the goals of frames first to end; contacts, ground and objects not among them."""
        rows, size, plan = slice(first, end), self.target.leg**2, self.target
        middle = 0.5 * (plan.place("hip.L") + plan.place("hip.R"))
        point = plan.rest.convert(middle, to=plan["pelvis"])
        hips = self.seen.middle("hip")
        over_feet = (hips - self.seen.middle("ankle")) @ plan.up  # scaled as legs are, whatever the rest of the body
        rise = (self.leg_ratio - self.scale) * over_feet + self._rise()
        place = (self.scale * hips + rise[:, None] * plan.up)[rows]
        out: list[Goal] = [
            Position(plan["pelvis"], place, point=point, weight=PELVIS_WEIGHT, tolerance=np.inf, label="pelvis")
        ]
        for side in SIDES:
            ankle, frames = self.feet[side]
            role = f"ankle.{side}"
            out.append(
                Position(
                    plan[role], ankle[rows], point=plan.point(role), weight=FOOT_WEIGHT, tolerance=np.inf,
                    label=f"foot.{side}",
                )
            )  # fmt: skip
            if frames is not None:
                turn = self.body.turn(role, frames[rows])
                out.append(Orientation(plan[role], turn, weight=TURNING[role] * size, tolerance=np.inf, label=role))
        for role in ("pelvis", "chest", "head"):
            frames = self.seen.frame(role) if role in self.rows and role in self.body.rest.turns else None
            if frames is not None and self.body.rest.frame(role) is not None:
                turn = self.body.turn(role, frames[rows])
                out.append(Orientation(plan[role], turn, weight=TURNING[role] * size, tolerance=np.inf, label=role))
        return out + self._ends(rows, place) + self._bones(rows, size)

    def _ends(self, rows: slice, hips: Floats) -> list[Goal]:
        """Return goals for the places of hands and toes, and of the crown over the hips' places (t, 3) [m]."""
        plan, rest, out = self.target, self.body.rest.places, []
        for side in SIDES:
            for role, end, weight in (("wrist", "wrist", HAND_WEIGHT), ("ankle", "toe", TOE_WEIGHT)):
                joint, end = f"{role}.{side}", f"{end}.{side}"
                if joint not in self.rows or end not in self.seen.places or end not in rest:
                    continue
                point, place = plan.rest.convert(rest[end][0], to=plan[joint]), self.scale * self.seen.places[end][rows]
                if role == "ankle":
                    place = place + self._wider(side)[rows]
                out.append(Position(plan[joint], place, point=point, weight=weight, tolerance=np.inf, label=end))
        top = plan.first("head", "neck", "chest")
        if "crown" in self.seen.places and top is not None:
            crown, middle = self.body.crown(), self.body.rest.middle("hip")[0]
            along = unit(self.seen.places["crown"] - self.seen.middle("hip"))[rows]
            out.append(
                Position(
                    plan[top], hips + np.linalg.norm(crown - middle) * along,
                    point=plan.rest.convert(crown, to=plan[top]),
                    weight=CROWN_WEIGHT, tolerance=np.inf, label="crown",
                )
            )  # fmt: skip
        return out

    def _rise(self) -> float:
        """Return how much higher the target's hips are than the source's, scaled: their ankles differ [m]."""
        ours = np.mean([self.body.sole_height(side) for side in SIDES])
        return float(ours - self.scale * np.mean([self.steps.ankle_height[side] for side in SIDES]))

    def _bones(self, rows: slice, size: float) -> list[Goal]:
        """Return a goal for the direction of every bone of arms and legs."""
        plan, out = self.target, []
        for side in SIDES:
            for upper, lower, weight in BONES:
                a, b = f"{upper}.{side}", f"{lower}.{side}"
                if a not in self.rows or b not in self.seen.places or b not in self.body.rest.places:
                    continue
                along = (self.seen.places[b] - self.seen.places[a])[rows]
                axis = plan.rest.convert(self.body.rest.places[b][0], to=plan[a]) - plan.point(a)
                if np.linalg.norm(axis) > 1e-2 * plan.leg and (np.linalg.norm(along, axis=-1) > 1e-6).all():
                    axis = axis / np.linalg.norm(axis)
                    goal = Direction(plan[a], axis, along, weight=weight * size, tolerance=np.inf, label=f"{a} bone")
                    out.append(goal)
        return out

    # ------------------------------------------------------------------------------------------------------ solving

    def solve(self, first: int, end: int, contacts: bool, touches: list[Touch], seconds: float) -> np.ndarray:
        """Return the poses (t, n) of frames first to end."""
        goals = self.goals(first, end)
        problem = Problem(self.solvable, goals)
        problem.broadcast((end - first,))
        frame_solver = FrameSolver(problem)
        start = self._start(goals)
        frame_solver(SETTLE, start, home=start[0])
        poses = np.empty((end - first, self.figure.size))
        frame_solver(WALK, poses, last=start[0])
        if len(poses) < 3:
            return poses
        stiffness = goal_stiffness(problem, poses, np.full(self.figure.size, HOLD))
        locks = self._locks(poses, first) if contacts else []
        mine = [touch for touch in touches if touch.first < end and touch.end > first]
        for k in range(PASSES):
            apart = [(goal, np.ones(len(poses))) for goal in (self._apart(poses) if k else ())]
            held = [*locks, *self._clearances(poses), *apart]
            if k and mine:
                held += self._touch_goals(mine, poses, first, end)
            problem = self._with(goals, held, len(poses))
            effort = REFINING if k else EFFORT
            if k and contacts and self._slipping(poses, first).any():
                effort = effort._replace(passes=2)  # limits keep a foot from standing: ask again with what they hold
            poses = self._smoothed(problem, poses, seconds, effort, stiffness)
        touched = self._touch_goals(mine, poses, first, end) if mine else []
        for _ in range(STANDINGS if contacts else 0):
            slipping = self._slipping(poses, first)
            if not slipping.any():
                break
            locks = self._locks(poses, first)
            poses = self._mended(goals, [*locks, *touched], poses, seconds, stiffness, slipping)
        poses = self._freed(goals, [*locks, *touched], poses, seconds, stiffness)
        for _ in range(CALMINGS):
            fast = self._too_fast(poses)
            if not fast.any():
                break
            dofs = fast.any(axis=0)
            stiffness = np.where(dofs, np.where(self.legs, 2.0, CALMER) * stiffness, stiffness)  # feet stand first
            held, asked = [*locks, *touched], np.asarray(fast.any(axis=1))
            poses = self._mended(goals, held, poses, seconds, stiffness, asked)
            poses = self._freed(goals, held, poses, seconds, stiffness)
        return self._slowed(goals, [*locks, *touched], poses, seconds, stiffness)

    def _slowed(
        self, goals: list[Goal], held: Held, poses: np.ndarray, seconds: float, stiffness: np.ndarray
    ) -> np.ndarray:
        """Return poses (t, n) in which what is still too fast moves as fast as it may; the rest makes up for it."""
        slow = np.zeros(self.figure.size, dtype=bool)
        lower, upper = (np.tile(bound, (len(poses), 1)) for bound in box_of(self.solvable, True))
        for _ in range(SLOWINGS):
            fast = self._too_fast(poses).any(axis=0) & ~slow
            if not fast.any():
                break
            slow |= fast
            paths = slowed(poses[:, fast], self.most_step[fast], CORNER * self.motion.fps)
            paths = np.clip(paths, lower[:, fast], upper[:, fast])
            lower[:, fast] = upper[:, fast] = paths
            asked = np.asarray((np.abs(np.clip(poses, lower, upper) - poses) > MOVED).any(axis=1))
            poses = self._mended(goals, held, poses, seconds, stiffness, asked, (lower, upper))
        return self.within_speed(poses)

    def within_speed(self, poses: np.ndarray) -> np.ndarray:
        """Return poses (t, n) with steps made shorter where they break a velocity limit, whatever that costs."""
        fast = self._too_fast(poses).any(axis=0)
        if not fast.any():
            return poses
        out = poses.copy()
        out[:, fast] = within_steps(poses[:, fast], self.most_step[fast])
        return out

    def _smoothed(
        self,
        problem: Problem,
        poses: np.ndarray,
        seconds: float,
        effort: Effort,
        stiffness: np.ndarray,
        asked: np.ndarray | None = None,
        box: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> np.ndarray:
        """Return poses (t, n) that are optimal for a problem over all frames, or about those asked (t,) for."""
        return smooth_goals(
            problem, poses, self.motion.fps, max(seconds, 1e-3), threads=1,  # a piece has one thread
            effort=effort, stiffness=stiffness, asked=asked, box=box,
        )  # fmt: skip

    def _freed(
        self, goals: list[Goal], held: Held, poses: np.ndarray, seconds: float, stiffness: np.ndarray
    ) -> np.ndarray:
        """Return poses (t, n) whose shapes are pushed out of each other once more, where they are still inside."""
        deep = self.depth(poses, self.obstacles) > DEEP
        for _ in range(FREEINGS):
            if not deep.any():
                break
            before, poses = poses, self._mended(goals, held, poses, seconds, stiffness, deep)
            moved = np.flatnonzero((poses != before).any(axis=1))
            deep[moved] = self.depth(poses[moved], self.obstacles) > DEEP
        return poses

    def _mended(
        self, goals: list[Goal], held: Held, poses: np.ndarray, seconds: float, stiffness: np.ndarray,
        asked: np.ndarray, box: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> np.ndarray:  # fmt: skip
        """Return poses (t, n) solved again about the frames asked (t,) for, with what limits hold; the others stay.

        What is near in poses keeps off each other, ground and objects. held: goals with their weights (t,) over time,
        such as those of feet that stand and hands that touch. box: bounds (t, n) instead of the limits.
        """
        out = poses.copy()
        margin = reach_of(seconds, self.motion.fps) + 2  # a frame meets the two on either side of it
        for a, b in runs(maximum_filter1d(asked, 2 * margin + 1)):
            part, rows = out[a:b], slice(a, b)
            near = [*self._clearances(part), *((goal, np.ones(b - a)) for goal in self._apart(part))]
            some = [(goal.moved(goal.target[rows]), weights[rows]) for goal, weights in held if weights[rows].any()]
            problem = self._with([goal.moved(goal.target[rows]) for goal in goals], [*some, *near], b - a)
            bounds = None if box is None else (box[0][rows], box[1][rows])
            out[a:b] = self._smoothed(problem, part, seconds, CARE, stiffness, asked[rows], bounds)
        return out

    def mend_seam(self, poses: np.ndarray, first: int, begin: int, contacts: bool, seconds: float) -> None:
        """Push shapes out of each other where two pieces were blended, from frame `first` to `begin`, in place.

        On either side of the seam an arm may have gone another way round the body: what lies between passes through.
        """
        a, b = max(first - SEAM, 0), min(begin + SEAM, len(poses))
        part = poses[a:b]
        if self.depth(part).max(initial=0.0) < DEEP:
            return
        goals = self.goals(a, b)
        problem = Problem(self.solvable, goals)
        problem.broadcast((b - a,))
        stiffness = goal_stiffness(problem, part, np.full(self.figure.size, HOLD))
        better = self._freed(goals, self._locks(part, a) if contacts else [], part, seconds, stiffness)
        weight = np.ones(b - a)
        if a:
            weight[: first - a] = blend_weight(first - a)
        if b < len(poses):
            weight[begin - a :] = blend_weight(b - begin)[::-1]
        poses[a:b] += weight[:, None] * (better - part)

    def depth(self, poses: np.ndarray, obstacles: tuple[Shape, ...] = ()) -> np.ndarray:
        """Return how deep shapes of the figure are in each other and in obstacles (t,) [m] in poses (t, n)."""
        tables = pair_tables(self.solvable, self.solvable.collision_pairs, obstacles)
        if not tables.pairs:
            return np.zeros(len(poses))
        return np.maximum(-measure(tables, np.ascontiguousarray(poses), 0.0).min(axis=1), 0.0)

    def _too_fast(self, poses: np.ndarray) -> np.ndarray:
        """Return where (t, n) a degree of freedom breaks its velocity limit or jumps from the frame before."""
        step = np.abs(np.diff(poses, axis=0, prepend=poses[:1]))
        return (step > self.most_step * (1.0 + 1e-9)) & self.turning

    def _slipping(self, poses: np.ndarray, first: int) -> np.ndarray:
        """Return where (t,) a standing foot slips plainly, of poses of frames from `first` on: its whole step."""
        found = self.contacts(poses, first)
        slips = found.slips(Motion(self.figure, poses, self.motion.fps))
        out = np.zeros(len(poses), dtype=bool)
        for (_, start, end), slip in zip(found.steps(), slips, strict=True):
            out[start:end] |= slip > STANDS
        return out

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

    def _locks(self, poses: np.ndarray, first: int) -> Held:
        """Return a goal for each point of the soles, and its weights (t,): 1 where it stands, else 0."""
        out, rows = [], slice(first, first + len(poses))
        frames = forward(self.figure, poses)
        stands = {side: self._stands(side, frames, first, len(poses)) for side in SIDES}
        self._spread(stands, first, len(poses))
        for side in SIDES:
            places = stands[side]
            heel, toe = self.steps.heel[side][rows], self.steps.toe[side][rows]
            labels = (("heel", heel), ("outer toe", toe), ("inner toe", toe), ("ankle", heel & toe))
            ankle = (self.target[f"ankle.{side}"], self.target.point(f"ankle.{side}"))  # or a narrow foot could roll
            points = [*self.body.standing_points(side), ankle]
            if not self.body.rolls(side):  # a leg to the side stands on an edge: its toes are held in their middle
                points = [points[0], (points[1][0], 0.5 * (points[1][1] + points[2][1]))]
                places = np.stack([places[:, 0], 0.5 * (places[:, 1] + places[:, 2])], axis=1)
            for k, (joint, point) in enumerate(points):
                label, standing = labels[k]
                if standing.any():
                    goal = Position(
                        joint, places[:, k], point=point, weight=STAND_WEIGHT, tolerance=np.inf,
                        label=f"{label}.{side} stands",
                    )  # fmt: skip
                    out.append((goal, standing.astype(float)))
        return out

    def _stands(self, side: str, frames: Frames, first: int, count: int) -> Floats:
        """Return where heel, toes and ankle of a foot stand (t, 4, 3) [m]: flat, one place through each stand.

        A foot stands where it comes to by itself, and as it is turned there: its limits may not let it turn as the
        source's foot does. Its height is the surface's.
        """
        role, up = f"ankle.{side}", self.target.up
        joint, point = self.target[role], self.target.point(role)
        ankle = frames.position(joint) + frames.rotation_matrix(joint) @ point
        shown = self.body.rest.frame(role)
        assert shown is not None  # a target always has a toe
        own = self.target.rest.rotation_matrix(joint).T @ shown[0]  # the foot's frame in its joint's
        ahead = frames.rotation_matrix(joint) @ own[:, 0]
        offsets = own.T @ (np.vstack([self.body.soles[side], point]) - point).T  # (3, points): forward, left, up
        places = np.zeros((count, 4, 3))
        for a, b, level in self.steps.stands(side):
            a, b = max(a - first, 0), min(b - first, count)
            if a < b:
                foot = frame_of(np.cross(up, ahead[a:b].mean(axis=0)), up)
                middle = np.median(ankle[a:b], axis=0)
                middle = middle + (self.scale * level + self.body.sole_height(side) - middle @ up) * up
                places[a:b] = middle + (foot @ offsets).T
        return places

    def _spread(self, places: dict[str, Floats], first: int, count: int) -> None:
        """Move feet that stand in each other apart, in place: soles may be wider than the source's feet.

        Args:
            places: {side: (t, 4, 3)} [m] of heel, outer toe, inner toe and ankle.
            first: The frame of the first row.
            count: How many rows there are.
        """
        up = self.target.up
        spans = {
            side: [(max(a - first, 0), min(b - first, count), level) for a, b, level in self.steps.stands(side)]
            for side in SIDES
        }
        pairs = [
            (one, other)
            for one in spans["L"]
            for other in spans["R"]
            if max(one[0], other[0]) < min(one[1], other[1]) and abs(one[2] - other[2]) * self.scale < SAME_LEVEL
        ]
        for _ in range(SWEEPS):
            for (a, b, _), (c, d, _) in pairs:
                left, right = places["L"][a], places["R"][c]
                across = (left[1] - left[2]) + (right[2] - right[1])  # from the inner to the outer toe of the left foot
                across = unit(across - (across @ up) * up)
                ahead = np.cross(across, up)
                widths = [0.5 * abs(float((foot[1] - foot[2]) @ across)) for foot in (left, right)]
                inner_left = min(float((left[1:3] @ across).min()), float(left[0] @ across) - widths[0])
                inner_right = max(float((right[1:3] @ across).max()), float(right[0] @ across) + widths[1])
                beside = (left[:3] @ ahead).max() > (right[:3] @ ahead).min() - CLEAR_FEET
                beside &= (right[:3] @ ahead).max() > (left[:3] @ ahead).min() - CLEAR_FEET
                lacking = inner_right + CLEAR_FEET - inner_left
                if beside and lacking > 0.0:
                    places["L"][a:b] += 0.5 * lacking * across
                    places["R"][c:d] -= 0.5 * lacking * across

    def _apart(self, poses: np.ndarray) -> list[Goal]:
        """Return the goal that keeps shapes off each other and out of objects: those that come near in poses (t, n)."""
        figure = self.solvable
        if not figure.shapes:
            return []
        tables = pair_tables(figure, figure.collision_pairs, ())
        near: list[tuple[str, str]] = []
        if tables.pairs:
            close = measure(tables, np.ascontiguousarray(poses[::LOOK]), NEAR_SHAPES).min(axis=0) < NEAR_SHAPES
            joints = [shape.joint for shape in tables.rows]
            near = list(
                dict.fromkeys((joints[a], joints[b]) for (a, b), c in zip(tables.pairs, close, strict=True) if c)
            )
        if not near and not self.obstacles:
            return []
        return [NoCollision(near, self.obstacles, weight=APART_WEIGHT, tolerance=np.inf)]

    def _clearances(self, poses: np.ndarray) -> Held:
        """Return goals that keep the body above the ground and out of objects, in frames where it comes near them."""
        up, near = self.target.up, NEAR_GROUND * self.target.leg
        frames = forward(self.figure, poses)
        out: Held = []
        for joint, probes in groupby(self.body.probes, key=lambda probe: probe.joint):
            probes = list(probes)
            place, turn = frames.position(joint), frames.rotation_matrix(joint)
            points, radii = np.array([probe.point for probe in probes]), np.array([probe.radius for probe in probes])
            close = (place @ up)[:, None] + (up @ turn) @ points.T - radii < near
            for k in np.flatnonzero(close.any(axis=0)):
                probe = probes[k]
                goal = HalfSpace(joint, probe.radius * up, up, at=probe.point, weight=CLEAR_WEIGHT, tolerance=np.inf)
                out.append((goal, close[:, k].astype(float)))
            for probe in probes if self.solids and not self.figure.shapes else ():
                face, normal, gap = nearest_face(self.solids, place + turn @ probe.point)
                close = gap - probe.radius < near
                if close.any():
                    goal = HalfSpace(
                        joint, face + probe.radius * normal, normal, at=probe.point, weight=CLEAR_WEIGHT,
                        tolerance=np.inf,
                    )  # fmt: skip
                    out.append((goal, close.astype(float)))
        return out

    def contacts(self, poses: np.ndarray, first: int = 0) -> Contacts:
        """Return when and where the target's feet stand: its ankles where a foot is flat, and its toes."""
        rows = [(self.target[f"ankle.{side}"], self.steps.flat(side)) for side in SIDES]
        rows += [(self.target[f"toe.{side}"], self.steps.toe[side]) for side in SIDES if f"toe.{side}" in self.target]
        points = tuple(point for point, _ in rows)
        when = np.stack([standing[first : first + len(poses)] for _, standing in rows], axis=1)
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

    def _touch_goals(self, touches: list[Touch], poses: np.ndarray, first: int, end: int) -> Held:
        """Return, for every touch, the goal of a hand (two for a touch of hands) and its weights (t,) over time."""
        ours = forward(self.figure, poses)
        out: Held = []
        for touch in touches:
            weights = touch_weights(touch, len(self.motion), self.motion.fps)[first:end]
            sides = SIDES if touch.part == "hands" else (touch.side,)
            for side in sides:
                role = hand_role(self.source, side) or ""
                if role not in self.target:
                    continue
                place = self._touched(touch, side, role, ours, slice(first, end))
                point, label = self.target.point(role), f"hand.{side}"
                goal = Position(
                    self.target[role], place, point=point, weight=TOUCH_WEIGHT, tolerance=np.inf, label=label
                )
                out.append((goal, weights))
        return out

    def _touched(self, touch: Touch, side: str, role: str, ours: Frames, rows: slice) -> np.ndarray:
        """Return where a hand that touches something goes (t, 3) [m]."""
        places = {name: path[rows] for name, path in self.seen.places.items()}
        hand = places[role]
        if touch.part == "world":
            held = slice(max(touch.first - rows.start, 0), max(touch.end - rows.start, 0))
            return np.broadcast_to(self.scale * np.median(hand[held], axis=0), hand.shape)
        if touch.part == "hands":
            other = role.replace(f".{side}", ".R" if side == "L" else ".L")
            mine, its = (self.target.position(ours, name) for name in (role, other))
            return 0.5 * (mine + its) + 0.5 * self.scale * (hand - places[other])
        a, b = touch.part
        share, away = nearest_on(places[a], places[b], hand)
        start, stop = self.target.position(ours, a), self.target.position(ours, b)
        return start + share[:, None] * (stop - start) + self.scale * away

    def _with(self, goals: list[Goal], extra: Held, count: int) -> Problem:
        """Return the problem of all goals; each of `extra` comes with its weights (t,) over time, 0: switched off."""
        problem = Problem(self.solvable, [*goals, *(goal for goal, _ in extra)])
        problem.broadcast((count,))
        problem.spread(count)  # its feet stand at different times
        for k, owner in enumerate(problem.owners):
            if len(goals) <= owner < len(goals) + len(extra):  # the rest are couplings and loops of the figure
                weights = extra[owner - len(goals)][1]
                problem.constants[:, k, WEIGHT : WEIGHT + 6] *= weights[:, None]
                problem.constants[weights <= 0.0, k, ROBUST] = OFF
        return problem


__all__ = ["Retargeted", "infer_mapping", "retarget"]
