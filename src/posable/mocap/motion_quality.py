"""Quality measures of a motion: limits, penetration, foot slip, smoothness, similarity to a source.

They include the usual ones (holosoma's share of frames deeper than 1 cm, contacts kept, slip of standing feet) and what
a viewer notices: directions of bones compared with the source, soles on their support, joints that jump.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from posable.errors import PosableError
from posable.formats.conventions import turn_up
from posable.mocap.role_frames import BONES, RoleFrames, bone_errors, standing_axis
from posable.mocap.supports import FootSteps, Solid, nearest_face, read_solids
from posable.mocap.target_body import TargetBody, with_all_solid
from posable.model.body_plan import SIDES, BodyPlan, body_plan
from posable.model.joint_values import Floats
from posable.model.kinematics import forward
from posable.model.motion import Motion, motion_for

DEEP = 0.01  # [m]: deeper is penetration
BEYOND = 1e-3  # [rad, m] past a limit
FAR_BONE = 6.0  # [deg] mean error above which the limits of a bone are reported
AT_LIMIT = 1e-2  # [rad, m], or fraction of a velocity limit
OFTEN = 0.2  # fraction of the frames
JUMP = 0.5  # [rad] of one joint from one frame to the next


class Quality(Mapping[str, float]):
    """Measures by name, with their units in the name; `print(quality)` is a table.

    Attributes:
        errors: {bone: (T,)} [deg], how far each bone points away from the source's over time.
        residuals: {bone: (mean, worst)} [deg] of them.
        blocked: {bone: what limits it}, for bones more than 6 degrees off on average.
    """

    def __init__(
        self, values: Mapping[str, float], errors: Mapping[str, Floats], blocked: Mapping[str, str] | None = None
    ):
        self._values, self.errors, self.blocked = dict(values), dict(errors), dict(blocked or {})
        self.residuals = {bone: (float(angle.mean()), float(angle.max())) for bone, angle in errors.items()}

    def __getitem__(self, name: str) -> float:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __str__(self) -> str:
        lines = [f"  {name:44s} {value:10.4g}" for name, value in self._values.items()]
        lines += [
            f"  {bone:44s} {mean:6.1f}° off, {worst:.0f}° worst{self._why(bone)}"
            for bone, (mean, worst) in self.residuals.items()
        ]
        return "\n".join(lines)

    def _why(self, bone: str) -> str:
        return f": {self.blocked[bone]}" if bone in self.blocked else ""


def motion_quality(
    motion: Motion, source: Motion | None = None, *, objects: Any = (), terrain: Any = None, scale: float | None = None
) -> Quality:
    """Return measures of a motion of a person or a humanoid robot.

    Args:
        motion: The motion to evaluate.
        source: The motion that it was made from; without it, similarity and the contacts of the source are omitted.
        objects: As in `retarget`, in the axes and size of the source.
        terrain: The same, for the ground.
        scale: Of the source to the motion; by default a Retargeted motion's own, or the ratio of the legs.

    Returns:
        A mapping of measures, with units in their names.
    """
    if len(motion_for("motion_quality", motion)) < 3:
        raise PosableError(f"motion_quality: expected three frames or more, got {len(motion)}")
    body = TargetBody(body_plan(motion.skeleton))
    ours = RoleFrames(motion, body.plan, np.eye(3))
    solids = (*read_solids(objects), *read_solids(terrain))
    theirs = None
    if source is not None:
        plan = body_plan(source.skeleton)
        up = standing_axis(source, plan)
        if up not in (None, source.skeleton.up):
            source = Motion(source.skeleton.replace(up=up), source.poses, source.fps, source.name)
            plan = body_plan(source.skeleton)
        turn = turn_up(source.skeleton.up, motion.skeleton.up)
        theirs = RoleFrames(source, plan, np.eye(3) if turn is None else turn, grounded=not solids)
        scale = scale or getattr(motion, "scale", None) or body.plan.leg / plan.leg
        solids = tuple(one.turned(theirs.turn) for one in solids)
    factor = 1.0 if scale is None else scale
    scaled = [one.scaled(factor) for one in solids]
    values = _joints(motion) | _depths(motion, body, scaled)
    seen = ours if theirs is None else theirs
    leg = seen.plan.leg
    steps = FootSteps(seen, leg, body.plan.up, solids if theirs is not None else scaled)
    values |= _feet(motion, body, steps, 1.0 if theirs is None else factor)
    errors: dict[str, Floats] = {}
    if theirs is not None:
        errors = bone_errors(ours, theirs, len(motion))
        for limb, bones in (("arm", BONES[:2]), ("leg", BONES[2:])):
            means = [errors[f"{a}.{s}"].mean() for a, _ in bones for s in SIDES if f"{a}.{s}" in errors]
            values[f"{limb} bones off [deg]"] = float(np.mean(means)) if means else np.nan
        values["tracking error [mm]"] = 1e3 * tracking(ours, theirs, len(motion)).error
    return Quality(values, errors, blocking_limits(motion, body.plan, errors))


def blocking_limits(motion: Motion, plan: BodyPlan, errors: Mapping[str, Floats]) -> dict[str, str]:
    """Return, for bones that are far off, the limits of their limb that are met while they are."""
    skeleton, poses = motion.skeleton, motion.poses
    parent = {joint.name: joint.parent for joint in skeleton.joints}
    steps = np.abs(np.diff(poses, axis=0, prepend=poses[:1])) * motion.fps
    out = {}
    for bone, error in errors.items():
        if error.mean() <= FAR_BONE:
            continue
        far, met = error > FAR_BONE, []
        tip = {"shoulder": "wrist", "elbow": "wrist"}.get(bone[:-2], "ankle") + bone[-2:]
        end: str | None = plan[tip] if tip in plan else plan[bone]  # a limb makes up for what its end cannot do
        trunk = (plan["pelvis"], plan.roles.get("chest"))
        while end is not None and end not in trunk:
            for i in range(skeleton.size)[skeleton.index(end)]:
                rows = poses[far, i]
                for bound, at in (
                    (skeleton.lower[i], rows <= skeleton.lower[i] + AT_LIMIT),
                    (skeleton.upper[i], rows >= skeleton.upper[i] - AT_LIMIT),
                ):
                    met.append((float(at.mean()), f"{end} is at its limit of {np.degrees(bound):.0f}°"))
                fast = steps[far, i] >= (1.0 - AT_LIMIT) * skeleton.velocity[i]
                met.append((float(fast.mean()), f"{end} is at its velocity limit of {skeleton.velocity[i]:.3g} rad/s"))
            end = parent[end]
        share, why = max(met, default=(0.0, ""))
        if share > OFTEN:
            out[bone] = f"{why} in {100.0 * share:.0f}% of the frames in which it is off"
    return out


def _joints(motion: Motion) -> dict[str, float]:
    """Return how limits are held and how calm the joints are."""
    skeleton, poses = motion.skeleton, motion.poses
    root = np.zeros(skeleton.size, dtype=bool)
    first = next(joint for joint in skeleton.joints if joint.motion.dofs)
    root[skeleton.index(first.name)] = first.motion.size >= 6
    over = np.maximum(skeleton.lower - poses, poses - skeleton.upper)
    speeds = np.abs(np.diff(poses[:, ~root], axis=0)) * motion.fps
    fast = speeds > skeleton.velocity[~root] * (1.0 + 1e-9)
    return {
        "frames": float(len(motion)),
        "joint limits exceeded [% of frames]": 100.0 * float((over > BEYOND).any(axis=1).mean()),
        "velocity limits exceeded [% of frames]": 100.0 * float(fast.any(axis=1).mean()),
        "jumps over 0.5 rad [frames]": float((speeds > JUMP * motion.fps).any(axis=1).sum()),
        "mean acceleration [rad/s2]": float(np.abs(np.diff(poses[:, ~root], n=2, axis=0)).mean() * motion.fps**2),
    }


def _depths(motion: Motion, body: TargetBody, solids: list[Solid]) -> dict[str, float]:
    """Return how deep the body is in itself, in the ground and in objects."""
    frames = forward(motion.skeleton, motion.poses)
    ground, inside = np.zeros(len(motion)), np.zeros(len(motion))
    for probe in body.probes:
        path = frames.position(probe.joint) + frames.rotation_matrix(probe.joint) @ probe.point
        ground = np.maximum(ground, probe.radius - path @ body.plan.up)
        if solids and not motion.skeleton.shapes:
            inside = np.maximum(inside, probe.radius - nearest_face(solids, path)[2])
    out = _shares("ground", ground)
    if motion.skeleton.shapes:
        from posable.goals.collision import Hull, obstacle_shape
        from posable.model.collision import measure, pair_tables

        figure, poses = with_all_solid(motion.skeleton), np.ascontiguousarray(motion.poses)
        tables = pair_tables(figure, figure.collision_pairs, ())
        if tables.pairs:
            out |= _shares("self", np.maximum(-measure(tables, poses, 0.05).min(axis=1), 0.0))
        if solids:  # by the shapes themselves: probes reach a little beyond the feet
            tables = pair_tables(figure, (), tuple(obstacle_shape(Hull(solid.vertices)) for solid in solids))
            inside = np.maximum(-measure(tables, poses, 0.0).min(axis=1, initial=0.0), 0.0)
    if solids:
        out |= _shares("objects", inside)
    return out


def _shares(what: str, depth: Floats) -> dict[str, float]:
    return {
        f"{what} penetration over 1 cm [% of frames]": 100.0 * float((depth > DEEP).mean()),
        f"{what} penetration, deepest [mm]": 1e3 * float(max(depth.max(), 0.0)),
    }


def _feet(motion: Motion, body: TargetBody, steps: FootSteps, scale: float) -> dict[str, float]:
    """Return how far standing feet slip and how far their soles are from what they stand on."""
    frames = forward(motion.skeleton, motion.poses)
    up, slips, gaps = body.plan.up, [], []
    for side in SIDES:
        joint = body.plan[f"ankle.{side}"]
        sole = frames.position(joint)[:, None] + body.soles[side] @ np.swapaxes(frames.rotation_matrix(joint), 1, 2)
        low, height = sole[:, 0], (sole @ up).min(axis=1)
        flat = steps.flat(side)[: len(motion)]
        for a, b, level in steps.stands(side):
            rows = np.flatnonzero(flat[a:b]) + a
            if len(rows) > 2:
                path = low[rows] - np.outer(low[rows] @ up, up)
                slips.append(np.linalg.norm(path - np.median(path, axis=0), axis=1).max())
                gaps.append(np.abs(height[rows] - scale * level).mean())
    return {
        "stands": float(len(slips)),
        "slip of standing feet, mean [mm]": 1e3 * float(np.mean(slips)) if slips else 0.0,
        "slip of standing feet, largest [mm]": 1e3 * float(np.max(slips)) if slips else 0.0,
        "soles from their support, mean [mm]": 1e3 * float(np.mean(gaps)) if gaps else 0.0,
    }


class Tracking(NamedTuple):
    """How well places of a body follow the source's after one scale and one shift (3,) [m] for the clip.

    groups: the places of pelvis, head, hands and feet; each group counts the same. theirs: {place: (T, 3)} [m].
    """

    groups: list[list[str]]
    theirs: dict[str, Floats]
    scale: float
    shift: Floats
    error: float  # [m], the mean


def tracking(ours: RoleFrames, theirs: RoleFrames, count: int) -> Tracking:
    """Return how well the first frames of a body follow the source.

    A pelvis ("hip") is where the middle of its hips is: its own frame may be anywhere. A head ("crown") that one of
    them does not show is the upper end of the trunk.
    """
    groups = (("hip",), ("crown",), ("wrist.L", "wrist.R"), ("ankle.L", "ankle.R", "toe.L", "toe.R"))
    crown = "crown" in ours.places and "crown" in theirs.places
    mine, its = (
        {**frames.places, "hip": frames.middle("hip"), **({} if crown else {"crown": frames.trunk})}
        for frames in (ours, theirs)
    )
    shared = [found for names in groups if (found := [name for name in names if name in mine and name in its])]
    one, other = (np.stack([path[name][:count] for names in shared for name in names]) for path in (mine, its))
    a, b = other.reshape(-1, 3).mean(axis=0), one.reshape(-1, 3).mean(axis=0)
    scale = ((other - a) * (one - b)).sum() / ((other - a) ** 2).sum()
    errors = iter(np.linalg.norm(one - b - scale * (other - a), axis=-1).mean(axis=1))
    error = float(np.mean([np.mean([next(errors) for _ in names]) for names in shared]))
    paths = {name: its[name][:count] for names in shared for name in names}
    return Tracking(shared, paths, float(scale), b - scale * a, error)
