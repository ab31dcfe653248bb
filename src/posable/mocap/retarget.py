"""Motion from one figure to another, human or robot: bones point the same way, feet stand, limits hold.

`retarget_goals.py` states the goals of the target, `retarget_solver.py` solves them.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.ndimage import median_filter

from posable.errors import PosableError, PosableWarning, unknown
from posable.mocap.fingers import follow_fingers
from posable.mocap.foot_contacts import Contacts
from posable.mocap.gaps import blend_weight, runs
from posable.mocap.hand_contacts import Touch
from posable.mocap.motion_quality import blocking_limits
from posable.mocap.parallel import Progress, Stop, pieces, run_pieces
from posable.mocap.report import retarget_page
from posable.mocap.retarget_goals import RetargetGoals
from posable.mocap.retarget_solver import RetargetSolver
from posable.mocap.role_frames import RoleFrames, bone_errors, standing_axis
from posable.mocap.root_align import with_free_root
from posable.mocap.supports import read_solids
from posable.mocap.target_body import standing_up
from posable.mocap.unwrap import same_branch, within_turns
from posable.mocap.verdict import why_contacts_slip
from posable.model.body_plan import ROLES, BodyPlan, body_plan
from posable.model.collision import distances
from posable.model.kinematics import forward
from posable.model.motion import Motion, motion_for
from posable.model.skeleton import Skeleton

PIECE, LEAD = 1024, 64  # frames
SECONDS = 0.22  # [s] of the smoothing
SHOWS = 0.01  # [m] of one part inside another that a viewer notices
SLIPS = 0.02  # [m]: a foot that slips further is reported
LONG = 0.3  # [s] of smoothing beyond which steps are smoothed away
NOTED_BONE, FAR_BONE = 10.0, 25.0  # [deg] mean error of a bone beyond which it is noted, or warned of
FIRST, JUMPS, CALM = 8, 0.3, 3.0  # frames; leg lengths of a jump, and how much longer it is than the steps after it
LEAP, AROUND, SOME = 3.0, 0.5, 0.1  # leg lengths that a body is off its place for a moment; [s]; most frames that are
LOW = 0.15  # leg lengths above the ground below which a joint's own thickness counts
UNLIKELY = 10.0  # ratio of sizes beyond which one of the units is probably wrong


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
        skeleton: The target figure. A root that is fixed to the world is freed.
        mapping: {source joint or role: target joint or None}, to correct what `infer_mapping` finds.
        objects: What the figure stands on and avoids: OBJ files, meshes with vertices and faces, or corners
            (V, 3) [m], in the motion's axes. They are scaled with the body.
        terrain: The same, for the ground.
        contacts: Whether feet that stand in the source stand in the result.
        touches: Whether hands keep their contacts with each other, the body and objects at rest.
        smooth: [s]; faster motion is removed.
        device: "cpu", or "cuda": windows of frames are optimised on an NVIDIA GPU, the rest on the CPU.
        threads: Cores to use; all by default.
        progress: True for a progress bar, or a function progress(done, total).
        stop: A function that returns True to stop; what is done is returned.

    Returns:
        The motion, within limits and with feet on their supports. Paths are scaled by the sizes of the bodies (leg,
        trunk and arm), the height of the hips over the feet by their legs.
    """
    if not len(motion_for("retarget", motion)):
        raise PosableError("retarget: expected a motion with frames, got none")
    if not isinstance(skeleton, Skeleton):
        raise PosableError(f"retarget: expected a Skeleton, such as load('g1.xml').skeleton, got {skeleton!r}")
    if not 0.0 <= smooth < np.inf:
        raise PosableError(f"retarget: expected smooth of 0 seconds or more, got {smooth!r}")
    if device not in ("cpu", "cuda"):
        raise PosableError(f"retarget: expected device='cpu' or 'cuda', got {device!r}")
    figure = with_free_root(skeleton)
    notes = [] if figure is skeleton else [f"{figure.free_root} moves freely: in the file it is fixed to the world"]
    rows = infer_mapping(motion.skeleton, figure, mapping)
    raised = standing_up(figure, {role: pair[1] for role, pair in rows.items()})
    if raised is not figure:
        figure = raised
        notes.append(f"the figure's file has it lying: it is stood up along {figure.up}")
    plan = body_plan(motion.skeleton, {role: pair[0] for role, pair in rows.items()})
    motion, noted = _corrected(motion, plan)
    notes += noted
    wanted = RetargetGoals(motion, figure, rows, (*read_solids(objects), *read_solids(terrain)))
    if wanted.seen.raised:
        notes.append(f"the motion's feet are {wanted.seen.raised:.3g} below height 0: that is taken for the ground")
    solver = RetargetSolver(wanted, device)
    touched = wanted.touches() if touches and contacts else []
    parts = pieces(len(motion), PIECE, LEAD)

    def work(i: int) -> np.ndarray:
        return solver.solve(parts[i][0], parts[i][2], contacts, touched, smooth)

    sizes = [end - begin for _, begin, end in parts]
    done = run_pieces(work, sizes, threads=threads, progress=progress, stop=stop, what="retargeting")
    poses = _joined(figure, parts, done)
    for first, begin, _ in parts[1 : len(done)]:
        solver.fix_seam(poses, first, begin, contacts, smooth)
    poses, note = follow_fingers(motion, wanted.source, wanted.target, poses)
    notes += [note] if note else []
    poses = within_turns(figure, solver.within_speed(poses))
    found = wanted.contacts(poses) if contacts else None
    noted, far = _far_bones(wanted, poses, touched)
    notes += [*noted, *_bare(wanted, poses)]
    out = Retargeted(
        figure, poses, motion.fps, motion.name, rows, found, wanted.scale, tuple(touched), motion, notes=tuple(notes)
    )
    for doubt in (*_doubts(out, smooth), *far, *_overlaps(solver, poses)):
        warnings.warn(f"retarget: {doubt}", PosableWarning, stacklevel=2)
    return out


def _joined(figure: Skeleton, parts: Sequence[tuple[int, int, int]], done: Sequence[np.ndarray]) -> np.ndarray:
    """Return poses (t, n) of the pieces that are done, blended where they overlap."""
    total = parts[len(done) - 1][2] if done else 0
    poses = np.empty((total, figure.size))
    for i, ((first, begin, end), piece) in enumerate(zip(parts, done, strict=False)):
        if i:
            same_branch(figure, poses[begin - 1], piece, begin - 1 - first)
            poses[first:begin] += blend_weight(begin - first)[:, None] * (piece[: begin - first] - poses[first:begin])
        poses[begin:end] = piece[begin - first :]
    return poses


def _corrected(motion: Motion, plan: BodyPlan) -> tuple[Motion, list[str]]:
    """Return the source motion without a first frame of its own and with the axis that its figure stands along as up.

    Second, what was changed, in words.
    """
    notes = []
    if _starts_apart(motion, plan):
        notes.append("frame 0 is a pose of its own, as the T pose before some recordings: frame 1 is taken instead")
        poses = np.concatenate([motion.poses[1:2], motion.poses[1:]])
        motion = Motion(motion.skeleton, poses, motion.fps, motion.name)
    motion, note = _without_leaps(motion, plan)
    notes += [note] if note else []
    up = standing_axis(motion, plan)
    if up not in (None, motion.skeleton.up):
        notes.append(f"the motion's figure stands along {up}: that is taken for up, not {motion.skeleton.up}")
        motion = Motion(motion.skeleton.replace(up=up), motion.poses, motion.fps, motion.name)
    return motion, notes


def _without_leaps(motion: Motion, plan: BodyPlan) -> tuple[Motion, str]:
    """Return the motion with frames bridged that show the body far from where it is before and after, and a note."""
    at = forward(motion.skeleton, motion.poses).position(plan["pelvis"])
    usual = median_filter(at, size=(2 * round(AROUND * motion.fps) + 1, 1), mode="nearest")
    leaps = np.linalg.norm(at - usual, axis=1) > LEAP * plan.leg
    if not leaps.any() or leaps.mean() > SOME:
        return motion, ""
    good, poses = np.flatnonzero(~leaps), motion.poses.copy()
    for a, b in runs(leaps):
        before, after = good[good < a][-1:], good[good >= b][:1]
        ends = np.concatenate([before, after])
        first, last = poses[ends[0]], poses[ends[-1]].copy()[None]
        same_branch(motion.skeleton, first, last, 0)
        share = (np.arange(a, b) - ends[0]) / max(ends[-1] - ends[0], 1)
        poses[a:b] = first + share[:, None] * (last - first)
    spans = [f"{a} to {b - 1}" if b - a > 1 else f"{a}" for a, b in runs(leaps)]
    more = f" and {len(spans) - 3} more" if len(spans) > 3 else ""
    far = np.linalg.norm(at - usual, axis=1).max() / plan.leg
    note = f"the motion is {far:.0f} leg lengths away for a moment: frames {', '.join(spans[:3])}{more} are bridged"
    return Motion(motion.skeleton, poses, motion.fps, motion.name), note


def _starts_apart(motion: Motion, plan: BodyPlan) -> bool:
    """Return whether a motion jumps from its first frame to the second, and is calm from there on."""
    frames = forward(motion.skeleton, motion.poses[:FIRST])
    hips = 0.5 * (plan.position(frames, "hip.L") + plan.position(frames, "hip.R"))
    places = np.stack([plan.position(frames, role) - hips for role in plan.roles])
    steps = np.linalg.norm(np.diff(places, axis=1), axis=-1).max(axis=0) / plan.leg
    return len(steps) > 2 and steps[0] > max(JUMPS, CALM * float(steps[1:].max()))


def _doubts(result: Retargeted, smooth: float) -> list[str]:
    """Return what a user should know about a result that falls short."""
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


def _far_bones(wanted: RetargetGoals, poses: np.ndarray, touched: Sequence[Touch]) -> tuple[list[str], list[str]]:
    """Return a note if bones are off the source's, with what keeps them off, and a warning if they are clearly so."""
    motion = Motion(wanted.figure, poses, wanted.motion.fps)
    errors = bone_errors(RoleFrames(motion, wanted.target, np.eye(3)), wanted.seen, len(poses))
    off = {bone: error for bone, error in errors.items() if error.mean() > NOTED_BONE}
    why = blocking_limits(motion, wanted.target, off)
    for bone, error in off.items():
        kept = np.zeros(len(poses), dtype=bool)
        for touch in touched if bone.startswith(("shoulder", "elbow")) else ():
            if touch.part == "hands" or touch.side == bone[-1]:
                kept[touch.first : touch.end] = True
        if bone not in why and kept[error > NOTED_BONE].mean() > 0.5:
            why[bone] = "its hand keeps a touch; touches=False lets it go"

    def named(bones: list[str]) -> str:
        bones = sorted(bones, key=lambda bone: -off[bone].mean())[:3]
        return ", ".join(
            f"{bone} {off[bone].mean():.0f}° on average, {off[bone].max():.0f}° at worst"
            + (f" ({why[bone]})" if bone in why else "")
            for bone in bones
        )

    far = [bone for bone in off if off[bone].mean() > FAR_BONE]
    near = [bone for bone in off if bone not in far]
    ask = "" if set(far) <= set(why) else "; is the mapping right? print(result) shows it"
    return (
        [f"bones off the motion's: {named(near)}"] if near else [],
        [f"bones point elsewhere than the motion's: {named(far)}{ask}"] if far else [],
    )


def _bare(wanted: RetargetGoals, poses: np.ndarray) -> list[str]:
    """Return a note if more than feet comes to the ground and the figure does not show how thick it is."""
    plan = wanted.target
    if wanted.body.shapes:
        return []
    frames = forward(wanted.figure, poses)
    low = [
        role
        for role in plan.roles
        if role.startswith(("head", "shoulder", "elbow", "wrist", "knee"))
        and float((plan.position(frames, role) @ plan.up).min()) < LOW * plan.leg
    ]
    if not low:
        return []
    return [f"the figure has no collision shapes: its skin may be in the ground at {', '.join(low)}"]


def _overlaps(solver: RetargetSolver, poses: np.ndarray) -> list[str]:
    """Return a line if parts of the result pass through each other."""
    depth = solver.depth(poses)
    deep = depth > SHOWS
    if not deep.any():
        return []
    worst = int(depth.argmax())
    a, b, gap = distances(solver.solvable, poses[worst], within=0.0)[0]
    return [
        f"parts of the figure are inside each other in {int(deep.sum())} of {len(poses)} frames, at worst {a} and {b} "
        f"by {-gap * 1e3:.0f} mm in frame {worst}: a wider stance or other proportions would be needed"
    ]


__all__ = ["Retargeted", "infer_mapping", "retarget"]
