"""Whether a tracked take is plausible: size, proportions, posture, floor, speed, joint limits, gaps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from posable.errors import PosableError
from posable.formats.conventions import LENGTH_UNITS
from posable.mocap.gaps import runs
from posable.mocap.marker_sets import LEG_OF_STATURE
from posable.model.body_plan import BodyPlan, body_plan
from posable.model.kinematics import forward, path_of
from posable.model.motion import Markers, Motion
from posable.model.skeleton import Skeleton

SHORTEST, TALLEST = 1.10, 2.30  # [m]: stature of a person
USUAL_STATURE = 1.70  # [m]
FIGURES = (0.9, 2.6)  # [m]: stature of a figure that stands for a person
BONE = 0.20  # part of its length by which a bone may differ from the figure's, beyond the whole figure's scale
SIDES = 0.12  # part by which a bone may differ from that of the other side
LYING = 0.9  # part of the frames in which a body that lies suggests a wrong up axis
FLOOR = (-0.15, 0.35)  # [m]: where the lowest feet of a take may be
FASTEST = 12.0  # [m/s] of the root
SPINNING = 60.0  # [rad/s] of a joint
PINNED = 0.9  # part of the frames at a joint limit
GUESSED = 0.25  # [s]: a gap that is longer is worth a word
MISSED = 0.013  # [m]: mean marker error of a figure that does not fit, or of noise; clean takes have 3 to 9 mm
RECOGNISED = 0.8  # part of the markers without labels that must be recognised
SAMPLES = 400  # frames
JOINTS_AT_MOST = 5  # named in one reason


class Finding(NamedTuple):
    """One reason to look at a take: in words, and the frames concerned (empty: all of them)."""

    text: str
    frames: tuple[tuple[int, int], ...] = ()


def plan_of(figure: Skeleton) -> BodyPlan | None:
    """Return the body plan of a figure that stands for a person, or None."""
    try:
        return body_plan(figure)
    except PosableError:
        return None


def stature(plan: BodyPlan) -> float:
    """Return the stature [m] of a figure by the length of its legs."""
    return plan.leg / LEG_OF_STATURE


def wrong_size(actor: Skeleton, markers: Markers, generic: Skeleton | None = None) -> str:
    """Return what to say of an actor that no person is as tall as, with the unit that would explain it; or nothing."""
    plan = plan_of(actor)
    if plan is None:
        return ""
    if generic is not None:
        other = plan_of(generic)
        if other is None or not FIGURES[0] < stature(other) < FIGURES[1]:
            return ""
    tall = stature(plan)
    if SHORTEST < tall < TALLEST:
        return ""
    return f"the actor is {tall:.3g} m tall; {unit_hint(tall, markers.unit)}"


def unit_hint(tall: float, unit: float) -> str:
    """Return which unit of the file would make an actor of `tall` [m], at `unit` [m], a person."""
    options = {name: tall * metres / unit for name, metres in LENGTH_UNITS.items()}
    best = min(options, key=lambda name: abs(np.log(options[name] / USUAL_STATURE)))
    if SHORTEST < options[best] < TALLEST:
        return f"with unit={best!r} (--unit {best}) it would be {options[best]:.2f} m"
    return "state the file's unit with unit= (--unit)"


def lies(actor: Skeleton, poses: np.ndarray, markers: Markers) -> str:
    """Return what to say of an actor that lies in nearly all poses (T, n), or nothing."""
    plan = plan_of(actor)
    if plan is None or actor.up is None or not len(poses):
        return ""
    frames = forward(actor, poses[:: max(1, len(poses) // SAMPLES)])
    top = frames.position(plan[plan.first("head", "neck", "chest") or "pelvis"])
    feet = 0.5 * (frames.position(plan["ankle.L"]) + frames.position(plan["ankle.R"]))
    body = top - feet
    upright = body[:, 2 if actor.up == "z" else 1] / np.maximum(np.linalg.norm(body, axis=-1), 1e-9)
    if np.mean(upright < 0.5) < LYING:
        return ""
    other = "y" if markers.up == "z" else "z"
    return f"the actor lies or stands on its head: if the file's up axis is wrong, use up={other!r} (--up {other})"


def unrecognised(calibration: Any) -> str:
    """Return what to say of an actor whose markers have no labels and are not where those of a known set are."""
    if calibration.recognised >= RECOGNISED:
        return ""
    share = f"only {calibration.recognised:.0%} of the markers without labels were recognised for certain"
    return f"{share}, joints may be 10 cm off: label them, or give attachments={{marker: joint}}"


def findings(take: Any, statuses: np.ndarray, failed: int, blind: int) -> list[Finding]:
    """Return the reasons to look at a take, the gravest first."""
    out = [finding for finding in _whole(take) if finding.text]
    return out + [finding for finding in _frames(take, statuses, failed, blind) if finding.text]


def _whole(take: Any) -> Iterator[Finding]:
    """Return what is implausible of the actor."""
    motion, markers = take.motion, take.markers
    actor = motion.skeleton
    calibration = actor.info.get("calibration")
    if calibration is not None:
        size = wrong_size(actor, markers)
        yield Finding(size)
        if size:  # whatever else is odd follows from it
            return
        yield Finding(lies(actor, motion.poses, markers))
        yield Finding(_proportions(calibration.lengths))
        yield Finding(unrecognised(calibration))
    seen = take.errors[np.isfinite(take.errors)]
    if seen.size and seen.mean() > MISSED:
        missed = f"markers are missed by {seen.mean() * 1e3:.0f} mm on average"
        yield Finding(f"{missed}: they are noisy, or the figure is not theirs; joints may be off by centimetres")
    yield Finding(_floor(actor, motion.poses))
    pinned = [name for name, share in _at_limits(actor, motion.poses) if share > PINNED]
    if pinned:
        yield Finding(f"at a joint limit throughout: {_some(pinned)}")


def _proportions(lengths: Any) -> str:
    """Return the bones whose fitted lengths {joint: factor} no person has."""
    odd = [f"{name} {factor:.2f}" for name, factor in lengths.items() if abs(factor - 1.0) > BONE]
    for name, factor in lengths.items():
        other = name.replace(".L", ".R")
        if other != name and other in lengths and abs(factor / lengths[other] - 1.0) > SIDES:
            odd.append(f"{name} {factor / lengths[other]:.2f} of {other}")
    return f"unusual bone lengths: {_some(odd)}" if odd else ""


def _floor(actor: Skeleton, poses: np.ndarray) -> str:
    plan = plan_of(actor)
    if plan is None or actor.up is None or not len(poses):
        return ""
    frames = forward(actor, poses[:: max(1, len(poses) // SAMPLES)])
    up = 2 if actor.up == "z" else 1
    heights = np.minimum(frames.position(plan["ankle.L"])[:, up], frames.position(plan["ankle.R"])[:, up])
    lowest = float(np.quantile(heights, 0.05)) - 0.07 * stature(plan) / USUAL_STATURE
    if FLOOR[0] < lowest < FLOOR[1]:
        return ""
    return f"the feet are {abs(lowest):.2f} m {'above' if lowest > 0 else 'below'} the floor (height 0)"


def _at_limits(actor: Skeleton, poses: np.ndarray) -> list[tuple[str, float]]:
    """Return (degree of freedom, part of the frames at its limit)."""
    wide = actor.upper > actor.lower
    at = (poses <= actor.lower + 1e-6) | (poses >= actor.upper - 1e-6)
    share = at.mean(axis=0) if len(poses) else np.zeros(actor.size)
    return [(name, float(share[i])) for i, name in enumerate(actor.dof_names) if wide[i]]


def _frames(take: Any, statuses: np.ndarray, failed: int, blind: int) -> Iterator[Finding]:
    """Return what is implausible of single frames."""
    motion = take.motion
    lost = runs(statuses == failed)
    if lost:
        yield Finding(f"{int((statuses == failed).sum())} frames failed", tuple(lost))
    gaps = [(a, b) for a, b in runs(statuses == blind) if (b - a) / motion.fps >= GUESSED]
    if gaps:
        longest = max(b - a for a, b in gaps) / motion.fps
        text = f"{len(gaps)} gap{'s' if len(gaps) > 1 else ''} without markers, the longest {longest:.2f} s"
        yield Finding(f"{text}: the poses there are a guess", tuple(gaps))
    fast = _too_fast(motion)
    if fast.any():
        count = int(fast.sum())
        moving = "1 frame moves" if count == 1 else f"{count} frames move"
        yield Finding(f"{moving} faster than a person can", tuple(runs(fast)))


def guessed_joints(joints: Mapping[str, Sequence[tuple[int, int]]], blind: np.ndarray, fps: float) -> list[Finding]:
    """Return what to say of joints that too few markers hold for long, in frames that show others.

    Args:
        joints: {joint: [(first frame, end), ...]} of the times in which it is not held.
        blind: (T,) bool Frames that show next to nothing, of which `findings` speaks.
        fps: Frames per second.
    """
    lost: dict[str, list[tuple[int, int]]] = {}
    for name, spans in joints.items():
        for a, b in spans:
            b = min(b, len(blind))
            if b > a and (b - a) / fps >= GUESSED and not blind[a:b].all():
                lost.setdefault(name, []).append((a, b))
    if not lost:
        return []
    frames = sorted({span for spans in lost.values() for span in spans})
    longest = max(b - a for a, b in frames) / fps
    text = f"too few markers at {_some(list(lost))} for up to {longest:.2f} s: their poses in this gap are a guess"
    return [Finding(text, tuple(frames))]


def _too_fast(motion: Any) -> np.ndarray:
    """Return (T,) bool: frames after which the root or a joint moves implausibly fast."""
    out = np.zeros(len(motion), dtype=bool)
    if len(motion) < 2:
        return out
    slides = np.array([name.endswith((".tx", ".ty", ".tz")) for name in motion.skeleton.dof_names])
    for start in range(0, len(motion) - 1, 1 << 14):
        steps = np.diff(motion.poses[start : start + (1 << 14) + 1], axis=0) * motion.fps
        turns = np.abs(steps[:, ~slides])
        turns = np.minimum(turns, np.abs(turns - 2.0 * np.pi * motion.fps))  # the same angle, one turn on
        fast = np.linalg.norm(steps[:, slides], axis=1) > FASTEST
        out[start : start + len(steps)] = fast | (turns > SPINNING).any(axis=1)
    return out


def _some(names: list[str]) -> str:
    more = f" and {len(names) - JOINTS_AT_MOST} more" if len(names) > JOINTS_AT_MOST else ""
    return ", ".join(names[:JOINTS_AT_MOST]) + more


# --- Why a marker or a foot is off ---

AT_LIMIT = 1e-4  # [rad, m]
OFTEN = 0.5  # part of the frames that a limit must be met in to be named
OFF = 0.015  # [m]: mean error from which on a marker is told
SLIP = 0.01  # [m]: from which on a contact is told
MOST = 3  # lines, and limits in a line


def limits_met(skeleton: Skeleton, poses: np.ndarray, name: str) -> list[str]:
    """Return the limits, such as "knee.L (upper)", that the limb of a joint or site is at in most of poses (t, n)."""
    above = sorted(path_of(skeleton, int(skeleton.frame_bodies[skeleton.frame(name)])), reverse=True)
    out = []
    for i in above:
        if not skeleton.lower[i] < skeleton.upper[i] or not len(poses):
            continue
        for side, at in (
            ("lower", poses[:, i] <= skeleton.lower[i] + AT_LIMIT),
            ("upper", poses[:, i] >= skeleton.upper[i] - AT_LIMIT),
        ):
            if at.mean() >= OFTEN:
                out.append(f"{skeleton.dof_names[i]} ({side})")
    return out[:MOST]


def why_markers_are_off(motion: Motion, sites: Sequence[str], errors: np.ndarray) -> list[str]:
    """Return a line for each marker that is far off on average: by how much, and what its limb stands at where it is.

    errors: (T, M) [m], NaN where a marker was not seen.
    """
    seen = np.isfinite(errors)
    means = np.where(seen, errors, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    out = []
    order: list[int] = np.argsort(-means).tolist()
    for k in [k for k in order if means[k] > OFF][:MOST]:
        worst = np.flatnonzero(seen[:, k] & (np.nan_to_num(errors[:, k]) >= np.nanquantile(errors[:, k], 0.75)))
        met = limits_met(motion.skeleton, motion.poses[worst], sites[k])
        why = (
            f"where it is worst {', '.join(met)} is at its limit" if met else "no limit is in the way: check its place"
        )
        out.append(f"{sites[k]} is {1e3 * means[k]:.0f} mm off; {why}")
    return out


def why_contacts_slip(motion: Motion, steps: Sequence[tuple[str, int, int]], slips: np.ndarray) -> list[str]:
    """Return a line for each point whose contacts (point, first frame, end) slip [m]: the worst of each point."""
    worst: dict[str, int] = {}
    for k, (point, _, _) in enumerate(steps):
        if slips[k] > SLIP and slips[k] > slips[worst.get(point, k)] - 1e-12:
            worst[point] = k
    out = []
    for point, k in sorted(worst.items(), key=lambda item: -slips[item[1]])[:MOST]:
        _, first, end = steps[k]
        met = limits_met(motion.skeleton, motion.poses[first:end], point)
        why = f"with {', '.join(met)} at its limit" if met else "with no limit of its leg in the way"
        out.append(f"{point} slips {1e3 * slips[k]:.0f} mm in frames {first} to {end - 1}, {why}")
    return out
