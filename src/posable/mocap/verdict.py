"""Whether a tracked take is plausible: size, proportions, posture, floor, speed, joint limits, gaps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from posable.errors import PosableError
from posable.formats.conventions import turn_up, unit_hint
from posable.mocap.gaps import MAD, frame_errors, runs
from posable.mocap.marker_sets import base_name, is_cluster, placement_of
from posable.model.body_plan import SHORTEST, TALLEST, USUAL_STATURE, BodyPlan, body_plan
from posable.model.kinematics import forward, path_of
from posable.model.motion import Markers, Motion
from posable.model.skeleton import Skeleton

FIGURES = (0.9, 2.6)  # [m]: stature of a human figure
BONE = 0.20  # fraction of its length by which a bone may differ from the scaled figure's
SIDES = 0.12  # fraction by which a bone may differ from that of the other side
LYING = 0.9  # fraction of the frames in which a lying body suggests a wrong up axis
FLOOR = (-0.15, 0.35)  # [m]: where the lowest feet of a take may be
STANDS = 0.01  # [m] expected spread of the heights of a planted foot on a level floor
TILTS = 0.05  # prior spread of the slope of a floor
RISES = 0.025  # [m] least rise of a floor under the feet that is reported
DRIFTS = 0.1  # [m] prior spread of its rise over a take
DRIFT_SPEED = 0.03  # [m/s] with which no volume drifts: such feet are in the air
STEEP = 0.3  # slope from which the trunk shows whether the floor is tilted
CERTAIN = 4.0  # standard deviations that the rise must exceed to be reported
SLOPES = 5.0  # the same for a slope, whose direction is free: its Mahalanobis distance from a level floor
FEET_RATE = 30.0  # [1/s] rate at which the feet are sampled
SLOW, RESTS = 0.3, 3  # [m/s], frames at that rate: a foot that is slower for that long stands
RAISED = 0.15  # [m] height above the other foot at which it does not stand
PART = 4096  # frames processed at a time
BLOCKS = 4  # of PART frames from which the frame rate is judged
GRAVITY = 9.81  # [m/s^2]
SEGMENTS = (  # share of the mass of a body, and the roles of the joints on whose mean its center is (Winter)
    (0.578, ("hip", "hip", "shoulder", "shoulder", "shoulder")),  # trunk and head, both sides
    (0.200, ("hip", "hip", "hip", "knee", "knee")),
    (0.122, ("knee", "ankle")),
    (0.056, ("shoulder", "elbow")),
    (0.044, ("elbow", "wrist")),
)
FALLS = 0.12  # [s] over which accelerations are measured
FREE, PLUNGES = 1.7, 0.02  # times gravity with which nobody falls, in that fraction of the frames
STILL_FOOT, SWINGS = 0.15, 0.3  # of the feet's fast speeds: below, a foot stands; above, it swings
STEP_FRAMES, STEPS = 5, 3  # least frames on one foot, and least steps, from which sways are measured
SWAYS, TIMES = 0.6, 2.0  # least correlation with a pendulum's, and how many times too fast or slow is reported
AIRBORNE = 0.02  # [m] by which the points of both feet are above where they stand in a flight
FLIGHT_FRAMES, SAG = 5, 0.01  # least frames, and least height above its ends [m], of a flight that is measured
PARABOLA = 40.0  # times its error that the height of a flight's parabola must be
SIDEWAYS = 0.25  # part of the vertical acceleration that the horizontal one of a flight may be
FLIGHT_TIMES = 1.6  # how many times too fast or slow flights must be to be reported
RATE = "is the frame rate right? (fps=, --fps)"
FAR = 0.15  # [m] from a joint: markers nearer than this show where it is
FASTEST = 12.0  # [m/s] of the root
HIDDEN = 0.5  # fraction of the frames between its first and last in which a marker may be hidden
SPINNING = 60.0  # [rad/s] of a joint
RUSHED = 0.05  # fraction of frames that move too fast above which the frame rate is doubted
PINNED = 0.9  # fraction of the frames at a joint limit
GUESSED = 0.25  # [s]: longer gaps are reported
SLIDES = 0.04  # [m] by which the distance of two markers on one bone may change for that long
SLIDES_ACROSS = 0.08  # [m] the same for a marker beside a joint and one on the bone below
MISSED = (
    0.013  # [m] mean marker error above which the figure does not fit or markers are noisy; clean takes have 3 to 9 mm
)
CONTRADICTED = 0.03  # [m] mean error of the markers on one bone that is reported
CONTRADICTED_TIMES = 2.5  # times their usual error that it must exceed
CONTRADICTED_FOR = 0.4  # [s] for which it must last
STILL = "the actor hardly moves, and joint centres may be 2 cm off: calibrate on a take in which every joint moves"
RECOGNISED = 0.8  # fraction of the markers without labels that must be recognised
SAMPLES = 400  # frames
ABOVE = {  # joints of limbs, and beside the bone above, the one whose markers show where they are
    "hip": "pelvis", "knee": "hip.{}", "ankle": "knee.{}", "shoulder": "chest", "elbow": "shoulder.{}",
    "wrist": "elbow.{}",
}  # fmt: skip
JOINTS_AT_MOST = 5  # named in one reason


class Finding(NamedTuple):
    """A reason to check a take: in words, and the frames concerned (empty: all)."""

    text: str
    frames: tuple[tuple[int, int], ...] = ()


def plan_of(figure: Skeleton) -> BodyPlan | None:
    """Return the body plan of a human figure, or None."""
    try:
        return body_plan(figure)
    except PosableError:
        return None


def wrong_size(actor: Skeleton, markers: Markers, generic: Skeleton | None = None) -> str:
    """Return a finding on an implausible stature, with the unit that would explain it; empty if there is none."""
    plan = plan_of(actor)
    if plan is None:
        return ""
    if generic is not None:
        other = plan_of(generic)
        if other is None or not FIGURES[0] < other.stature < FIGURES[1]:
            return ""
    tall = plan.stature
    if SHORTEST < tall < TALLEST:
        return ""
    return f"the actor is {tall:.3g} m tall; {unit_hint(tall, markers.unit)}"


def implausible_size(take: Any) -> str:
    """Return a finding on the size of a take's calibrated actor, or nothing."""
    actor = take.motion.skeleton
    return wrong_size(actor, take.markers) if "calibration" in actor.info else ""


def lies(actor: Skeleton, poses: np.ndarray, markers: Markers) -> str:
    """Return a finding on an actor that lies in nearly all poses (T, n), or nothing."""
    plan = plan_of(actor)
    if plan is None or actor.up is None or not len(poses):
        return ""
    frames = forward(actor, poses[:: max(1, len(poses) // SAMPLES)])
    top = frames.position(plan[plan.first("head", "neck", "chest") or "pelvis"])
    feet = 0.5 * (frames.position(plan["ankle.L"]) + frames.position(plan["ankle.R"]))
    body = top - feet
    upright = body[:, actor.up_axis] / np.maximum(np.linalg.norm(body, axis=-1), 1e-9)
    if np.mean(upright < 0.5) < LYING:
        return ""
    other = "y" if markers.up == "z" else "z"
    return f"the actor lies or stands on its head: if the file's up axis is wrong, use up={other!r} (--up {other})"


def unrecognised(calibration: Any) -> str:
    """Return a finding on markers without labels that match no known set."""
    if calibration.recognised >= RECOGNISED:
        return ""
    share = f"only {calibration.recognised:.0%} of the markers without labels were recognised with confidence"
    return f"{share}; joints may be 10 cm off: label them, or give attachments= (--attach MARKER=JOINT)"


def findings(take: Any, statuses: np.ndarray, failed: int, blind: int) -> list[Finding]:
    """Return the reasons to check a take, the most serious first."""
    out = [finding for finding in _whole(take) if finding.text]
    return out + [finding for finding in _frames(take, statuses, failed, blind) if finding.text]


def _whole(take: Any) -> Iterator[Finding]:
    """Return what is implausible about the actor."""
    motion, markers = take.motion, take.markers
    actor = motion.skeleton
    calibration = actor.info.get("calibration")
    if calibration is not None:
        size = implausible_size(take)
        yield Finding(size)
        yield Finding(lies(actor, motion.poses, markers))
        if size:  # it explains everything else
            return
        yield Finding(_proportions(calibration.lengths))
        yield Finding(unrecognised(calibration))
        yield Finding(STILL if STILL in calibration.notes else "")
    seen = take.errors[np.isfinite(take.errors)]
    if seen.size and seen.mean() > MISSED:
        missed = f"markers are missed by {seen.mean() * 1e3:.0f} mm on average"
        yield Finding(
            f"{missed}: they are noisy, or the figure does not fit the actor; joints may be off by centimetres"
        )
    yield Finding(_floor(actor, motion.poses))
    yield Finding(_uneven(motion, markers.up))
    yield Finding(wrong_rate(motion, plan_of(actor)))
    yield Finding(_unmarked_joints(actor, take.names))
    yield Finding(_hidden(take))
    pinned = [name for name, share in _at_limits(actor, motion.poses) if share > PINNED]
    if pinned:
        yield Finding(f"at a joint limit throughout: {_some(pinned)}")


def _proportions(lengths: Any) -> str:
    """Return the bones whose fitted lengths {joint: factor} are implausible."""
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
    up = actor.up_axis
    heights = np.minimum(frames.position(plan["ankle.L"])[:, up], frames.position(plan["ankle.R"])[:, up])
    lowest = float(np.quantile(heights, 0.05)) - 0.07 * plan.stature / USUAL_STATURE
    if FLOOR[0] < lowest < FLOOR[1]:
        return ""
    return f"the feet are {abs(lowest):.2f} m {'above' if lowest > 0 else 'below'} the floor (height 0)"


def _uneven(motion: Motion, file_up: str | None) -> str:
    """Return a finding on a floor that is not level, or that rises or sinks, or nothing.

    file_up: up axis of the markers' file.
    """
    actor = motion.skeleton
    plan = plan_of(actor)
    if plan is None or actor.up is None:
        return ""
    step = max(1, int(motion.fps / FEET_RATE))
    points = [plan[role] for role in ("ankle.L", "ankle.R", "toe.L", "toe.R") if role in plan]
    parts = [motion.poses[start : start + PART * step : step] for start in range(0, len(motion), PART * step)]
    paths = np.concatenate([forward(actor, part).many(points)[0] for part in parts])
    if len(paths) < RESTS:
        return ""
    rests = np.linalg.norm(np.gradient(paths, axis=0), axis=-1) * motion.fps / step < SLOW
    rests &= paths[..., actor.up_axis] - paths[..., actor.up_axis].min(axis=1, keepdims=True) < RAISED
    stands = [(k, a, b) for k in range(len(points)) for a, b in runs(rests[:, k]) if b - a >= RESTS]
    if len(stands) < len(points):
        return ""
    places = np.array([np.median(paths[a:b, k], axis=0) for k, a, b in stands])
    across = np.delete(np.eye(3), actor.up_axis, axis=0)
    which = np.array([k for k, _, _ in stands])
    heights, flat = places[:, actor.up_axis], places @ across.T
    flat = flat - flat.mean(axis=0)
    turn = turn_up(file_up, actor.up)
    top = plan[plan.first("neck", "chest", "head") or "pelvis"]
    trunk = np.concatenate(
        [np.diff(forward(actor, part).many([plan["pelvis"], top])[0], axis=1)[:, 0] for part in parts]
    )
    leans = across @ trunk.mean(axis=0) / max(float(trunk.mean(axis=0)[actor.up_axis]), 1e-9)
    said = _tilt(which, flat, heights, leans, across @ (np.eye(3) if turn is None else turn))
    if said:
        return said
    times = np.array([0.5 * (a + b) for _, a, b in stands]) / len(paths) - 0.5
    found, covariance = _trend(which, np.column_stack([flat, times]), heights, np.array([TILTS, TILTS, DRIFTS]))
    rise, seconds = float(found[-1]), len(motion) / motion.fps
    if abs(rise) < max(RISES, CERTAIN * np.sqrt(covariance[-1, -1])) or abs(rise) > DRIFT_SPEED * seconds:
        return ""
    way = "rise" if rise > 0.0 else "sink"
    return f"standing feet {way} by {1e3 * abs(rise):.0f} mm over {seconds:.0f} s: the volume drifts; recalibrate it"


def _tilt(which: np.ndarray, flat: np.ndarray, heights: np.ndarray, leans: np.ndarray, axes: np.ndarray) -> str:
    """Return a finding on a floor that is not level, or nothing.

    Args:
        which: (S,) Which point of the feet stands.
        flat: (S, 2) [m] Where it stands.
        heights: (S,) [m] How high.
        leans: (2,) How far the trunk leans on average, per unit of height.
        axes: (2, 3) The directions of `flat` in the axes of the file.
    """
    slope, covariance = _trend(which, flat, heights, np.full(2, TILTS))
    steep = float(np.linalg.norm(slope))
    extent = float(np.ptp(flat @ slope)) / max(steep, 1e-12)
    if steep * extent < RISES or slope @ np.linalg.solve(covariance, slope) < SLOPES**2:
        return ""
    if steep > STEEP and -leans @ slope < 0.5 * steep * steep:  # stairs: on a tilted floor the actor is tilted, too
        return ""
    uphill = slope @ axes
    axis = int(np.argmax(np.abs(uphill)))
    end = f"{'-+'[int(uphill[axis] > 0.0)]}{'xyz'[axis]}"
    where = f"{1e3 * steep * extent:.0f} mm higher at the {end} end, over {extent:.1f} m"
    angle = f"{np.degrees(np.arctan(steep)):.1f}°"
    return f"feet stand {where}: unless the floor slopes, level the volume or rotate the markers by {angle}"


def _trend(
    which: np.ndarray, columns: np.ndarray, heights: np.ndarray, usual: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return how heights of standing feet depend on columns: the slopes (C,) and their covariance (C, C).

    Heights are regressed with a mean for each point of the feet and a prior for the slopes, using Cauchy weights
    because a foot may also rest on an object.

    Args:
        which: (S,) Which point of the feet stands.
        columns: (S, C) Such as where, and when.
        heights: (S,) [m] How high.
        usual: (C,) Prior standard deviations of the slopes.
    """
    count = columns.shape[1]
    rows = np.hstack([which[:, None] == np.arange(which.max() + 1), columns])
    prior = np.diag(np.r_[np.full(rows.shape[1] - count, 1e-6), np.square(STANDS / usual)])
    weights, normal, found, spread = np.ones(len(rows)), prior, np.zeros(rows.shape[1]), STANDS
    for _ in range(10):
        normal = rows.T @ (weights[:, None] * rows) + prior
        found = np.linalg.solve(normal, rows.T @ (weights * heights))
        off = heights - rows @ found
        spread = max(STANDS, MAD * float(np.median(np.abs(off))))
        weights = 1.0 / (1.0 + np.square(off / spread))
    return found[-count:], spread**2 * np.linalg.inv(normal)[-count:, -count:]


def wrong_rate(motion: Motion, plan: BodyPlan | None) -> str:
    """Return a finding on a frame rate that contradicts gravity, or nothing.

    Accelerations grow with the square of the rate. In flight, the center of mass falls with g, and nobody falls
    faster. On one foot, the body sways about it as an inverted pendulum: its center of mass accelerates by g times its
    distance from the foot over its height.
    """
    actor = motion.skeleton
    ends = {f"{role}.{side}" for _, roles in SEGMENTS for role in roles for side in "LR"}
    if plan is None or actor.up is None or any(end not in plan for end in ends):
        return ""
    up = actor.up_axis
    parts = min(BLOCKS, -(-len(motion) // PART))
    falls, sways, steps, flights = [], [], 0, []
    for start in np.linspace(0, max(0, len(motion) - PART), parts).astype(int).tolist():
        frames = forward(actor, motion.poses[start : start + PART])
        sides = {
            role: np.stack([frames.position(plan[f"{role}.{side}"]) for side in "LR"], axis=1)
            for role in ("hip", "knee", "ankle", "shoulder", "elbow", "wrist", "toe")
            if f"{role}.L" in plan and f"{role}.R" in plan
        }
        feet, toes = sides["ankle"], sides.get("toe", sides["ankle"])
        center = np.zeros_like(feet[:, 0])
        for share, roles in SEGMENTS:
            center += share * np.mean([sides[role] for role in roles], axis=(0, 2))
        falls.append(_accelerations(center[:, up], max(5, round(FALLS * motion.fps))) * motion.fps**2)
        found = _sways(center, feet, 0.5 * (feet + toes), up)
        steps += len(found) // 4
        sways += found
        flights += _flights(center, np.hstack([feet, toes]), sides["wrist"], up)
    factor = motion.fps * float(np.sqrt(np.median(flights) / GRAVITY)) if flights else 1.0
    if not 1.0 / FLIGHT_TIMES < factor < FLIGHT_TIMES:
        where = "in a jump" if len(flights) == 1 else f"in {len(flights)} jumps"
        right = f"{motion.fps / factor:.0f} Hz would fit gravity: {RATE}"
        return f"{where}, the body falls {_times(factor)}; about {right}"
    factor = 1.0
    if steps >= STEPS:
        measured, expected = np.array(sways).T
        if np.corrcoef(measured, expected)[0, 1] > SWAYS:
            factor = motion.fps * float(np.sqrt(measured @ expected / (expected @ expected)))
    if not 1.0 / TIMES < factor < TIMES:
        return f"the body sways {_times(factor)} for its height: {RATE}"
    falling = np.concatenate(falls)
    if len(falling) and np.quantile(falling, PLUNGES) < -FREE * GRAVITY:
        return f"the body falls with {-np.quantile(falling, PLUNGES) / GRAVITY:.1f} g: {RATE}"
    return ""


def _times(factor: float) -> str:
    """Return how many times too fast or slow a motion is."""
    return f"{factor:.1f} times too fast" if factor > 1.0 else f"{1.0 / factor:.1f} times too slow"


def _flights(center: np.ndarray, feet: np.ndarray, wrists: np.ndarray, up: int) -> list[float]:
    """Return the accelerations [m/frame^2] with which a body falls while nothing supports it.

    Both feet are then in the air, below the hands; both move; and the center of mass is on a parabola.

    Args:
        center: (T, 3) [m]
        feet: (T, F, 3) [m] Ankles and toes.
        wrists: (T, 2, 3) [m]
        up: The axis that points up.
    """
    heights = feet[..., up]
    airborne = (heights > np.quantile(heights, 0.05, axis=0) + AIRBORNE).all(axis=1)
    airborne &= wrists[..., up].min(axis=1) > heights.min(axis=1)
    out: list[float] = []
    for a, b in runs(airborne):
        if b - a < FLIGHT_FRAMES:
            continue
        t = np.linspace(-1.0, 1.0, b - a)
        columns = np.stack([np.ones_like(t), t, t * t], axis=1)
        bend = np.linalg.lstsq(columns, center[a:b], rcond=None)[0]
        error = float(np.std(center[a:b, up] - columns @ bend[:, up]))
        sag, moved = -float(bend[2, up]), np.linalg.norm(np.ptp(feet[a:b], axis=0), axis=-1).min()
        sideways = np.linalg.norm(np.delete(bend[2], up))
        if sag > max(SAG, PARABOLA * error) and sideways < SIDEWAYS * sag < moved * SIDEWAYS:
            out.append(8.0 * sag / (b - a - 1) ** 2)
    return out


def _bump(count: int) -> np.ndarray:
    """Return weights (count,) that vanish smoothly at both ends, so that accelerations can be weighted without noise.

    The weighted sum of a path's second differences is that of the path, weighted by the bump's.
    """
    x = (np.arange(count) + 0.5) / count
    return (x * (1.0 - x)) ** 3


def _accelerations(path: np.ndarray, count: int) -> np.ndarray:
    """Return the mean accelerations [m/frame^2] of a path (T,) [m] over all stretches of count + 2 frames."""
    bump = _bump(count)
    if len(path) < count + 2:
        return np.zeros(0)
    return np.convolve(path, np.convolve(bump, [1.0, -2.0, 1.0]), "valid") / bump.sum()


def _sways(center: np.ndarray, feet: np.ndarray, soles: np.ndarray, up: int) -> list[tuple[float, float]]:
    """Return horizontal accelerations of the center of mass on one foot, as (measured, that of a pendulum / fps^2).

    Args:
        center: (T, 3) [m]
        feet: (T, 2, 3) [m] Ankles.
        soles: (T, 2, 3) [m] Where the feet press on the floor.
        up: The axis that points up.
    """
    speeds = np.linalg.norm(np.gradient(feet, axis=0), axis=-1) if len(feet) > 1 else np.zeros(feet.shape[:2])
    usual = float(np.quantile(speeds.max(axis=1), 0.95))
    out: list[tuple[float, float]] = []
    for k in (0, 1):
        alone = (speeds[:, k] < STILL_FOOT * usual) & (speeds[:, 1 - k] > SWINGS * usual)
        alone &= feet[:, 1 - k, up] > feet[:, k, up] - RAISED
        for a, b in runs(alone):
            if b - a < STEP_FRAMES:
                continue
            foot = soles[a:b, k].mean(axis=0)
            height = float((center[a:b, up] - foot[up]).mean())
            bump = _bump(b - a)
            for weights in (bump, bump * np.linspace(-0.5, 0.5, b - a)):
                jolt = np.convolve(weights, [1.0, -2.0, 1.0])[1:-1] / np.abs(weights).sum()
                lever = weights / np.abs(weights).sum() * GRAVITY / max(height, 1e-3)
                for axis in {0, 1, 2} - {up}:
                    away = center[a:b, axis] - foot[axis]
                    out.append((float(jolt @ away), float(lever @ away)))
    return out


def _hidden(take: Any) -> str:
    """Return a finding on markers that are hidden most of the time."""
    seen, found = np.isfinite(take.markers.positions[..., 0]), {}
    names = [base_name(name) for name in take.markers.names]
    for name in take.names:
        if name in names and (shown := seen[:, names.index(name)]).any():
            first, last = np.flatnonzero(shown)[[0, -1]]
            found[name] = 1.0 - float(shown[first : last + 1].mean())
    often = [f"{name} in {share:.0%}" for name, share in sorted(found.items(), key=lambda i: -i[1]) if share > HIDDEN]
    if not often:
        return ""
    return f"hidden most of the time: {_some(often)} of the frames; joints there may be off: fill the gaps"


def _at_limits(actor: Skeleton, poses: np.ndarray) -> list[tuple[str, float]]:
    """Return (degree of freedom, part of the frames at its limit)."""
    wide = actor.upper > actor.lower
    at = (poses <= actor.lower + 1e-6) | (poses >= actor.upper - 1e-6)
    share = at.mean(axis=0) if len(poses) else np.zeros(actor.size)
    return [(name, float(share[i])) for i, name in enumerate(actor.dof_names) if wide[i]]


def _frames(take: Any, statuses: np.ndarray, failed: int, blind: int) -> Iterator[Finding]:
    """Return what is implausible about single frames."""
    motion = take.motion
    lost = runs(statuses == failed)
    if lost:
        yield Finding(f"{int((statuses == failed).sum())} frames failed", tuple(lost))
    gaps = [(a, b) for a, b in runs(statuses == blind) if (b - a) / motion.fps >= GUESSED]
    if gaps:
        longest = max(b - a for a, b in gaps) / motion.fps
        text = f"{len(gaps)} gap{'s' if len(gaps) > 1 else ''} without markers, the longest {longest:.2f} s"
        yield Finding(f"{text}: the poses there are guesses", tuple(gaps))
    yield _missed(take)
    fast = _too_fast(motion)
    if fast.any():
        count = int(fast.sum())
        moving = "1 frame moves" if count == 1 else f"{count} frames move"
        rate = f": {RATE}" if count > RUSHED * len(fast) else ""
        yield Finding(f"{moving} faster than a person can{rate}", tuple(runs(fast)))


def _missed(take: Any) -> Finding:
    """Return a finding on bones whose markers are far off for a long time: they contradict each other."""
    motion = take.motion
    bone = {site.name: site.joint for site in motion.skeleton.sites}
    columns: dict[str, list[int]] = {}
    for k, name in enumerate(take.names):
        columns.setdefault(bone.get(name, name), []).append(k)
    found: dict[str, list[tuple[int, int]]] = {}
    most = 0.0
    for joint, those in columns.items():
        errors = np.nan_to_num(frame_errors(take.errors[:, those]))
        spans = runs(errors > max(CONTRADICTED, CONTRADICTED_TIMES * float(np.median(errors))))
        spans = [(a, b) for a, b in spans if (b - a) / motion.fps >= CONTRADICTED_FOR]
        if spans:
            found[joint] = spans
            most = max(most, *(float(errors[a:b].mean()) for a, b in spans))
    if not found:
        return Finding("")
    frames = tuple(sorted({span for spans in found.values() for span in spans}))
    longest = max(b - a for a, b in frames) / motion.fps
    text = f"markers at {_some(list(found))} are missed by {1e3 * most:.0f} mm for up to {longest:.2f} s"
    return Finding(f"{text}: joints there may be off by as much", frames)


def _unmarked_joints(actor: Skeleton, sites: Sequence[str]) -> str:
    """Return a finding on joints of limbs between marked bones with no marker near them but those of clusters."""
    plan = plan_of(actor)
    if plan is None or "calibration" not in actor.info:
        return ""
    frames, parent = forward(actor, actor.rest), {joint.name: joint.parent for joint in actor.joints}
    marked = [site for site in actor.sites if site.name in sites]
    unknown = []
    for role, above in ABOVE.items():
        for side in "LR":
            if f"{role}.{side}" not in plan or above.format(side) not in plan:
                continue
            joint = plan[f"{role}.{side}"]
            bones = {joint}, {parent[joint], plan[above.format(side)]}
            beside = [[site.name for site in marked if site.joint in those] for those in bones]
            near = [site for site in (*beside[0], *beside[1]) if not is_cluster(site)]
            off = [np.linalg.norm(frames.position(site) - frames.position(joint)) for site in near]
            if all(beside) and min(off, default=np.inf) > (FAR if role != "hip" else 1.0):
                unknown.append(joint)
    if not unknown:
        return ""
    return f"only clusters or distant markers at {_some(unknown)}, which may be 3 to 10 cm off: mark the joints, too"


def guessed_joints(joints: Mapping[str, Sequence[tuple[int, int]]], blind: np.ndarray, fps: float) -> list[Finding]:
    """Return findings on joints that too few markers determine for long, in frames that show others.

    Args:
        joints: {joint: [(first frame, end), ...]} of the times in which it is not held.
        blind: (T,) bool Frames with almost no markers, which `findings` reports.
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
    text = f"too few markers at {_some(list(lost))} for up to {longest:.2f} s: their poses there are guesses"
    return [Finding(text, tuple(frames))]


def steady_pairs(actor: Skeleton, sites: Sequence[str]) -> dict[tuple[int, int], float]:
    """Return {pair of sites: change of their distance [m] that is implausible}: on one bone, or across one joint.

    A marker that is level with a joint, such as one on an elbow, keeps its distance to those on the bone below.
    """
    plan = plan_of(actor)
    bone = {site.name: site.joint for site in actor.sites}
    level: dict[str, str] = {}
    for name in sites:
        found = placement_of(name)
        role = f"{found[0].center}.{found[1]}" if found is not None else ""
        if plan is not None and role in plan:
            level[name] = plan[role]
    out: dict[tuple[int, int], float] = {}
    for a, first in enumerate(sites):
        for b, second in enumerate(sites):
            if a < b and bone.get(first, first) == bone.get(second, second):
                out[a, b] = SLIDES
            elif level.get(first) == bone.get(second, second) != bone.get(first):
                out.setdefault((min(a, b), max(a, b)), SLIDES_ACROSS)
    return out


def sliding_markers(
    pairs: Sequence[tuple[str, str]], changes: np.ndarray, allowed: np.ndarray, fps: float
) -> list[Finding]:
    """Return a finding on markers that should keep their distance but do not for a long time: one of them slides.

    Args:
        pairs: (P,) Names of two markers.
        changes: (T, P) [m] Difference of their distance from the usual one; NaN where one was not seen or left out.
        allowed: (P,) [m]
        fps: Frames per second.
    """
    found: list[tuple[float, int, list[tuple[int, int]]]] = []
    off = np.abs(changes) > allowed
    for k in np.flatnonzero(off.sum(axis=0) >= GUESSED * fps):
        spans = [(a, b) for a, b in runs(off[:, k]) if (b - a) / fps >= GUESSED]
        if spans:
            found.append((max(float(np.abs(changes[a:b, k]).max()) for a, b in spans), int(k), spans))
    if not found:
        return []
    found.sort(reverse=True)
    shown = _some([f"{' and '.join(pairs[k])} by {1e3 * most:.0f} mm" for most, k, _ in found])
    text = f"markers move apart on one bone: {shown}; one slides or was filled badly, and joints there may be off"
    return [Finding(text, tuple(sorted({span for _, _, spans in found for span in spans})))]


PARTS = {  # parts of the body, and the joints that their markers are on or below
    "head": ("head", "neck"),
    "left arm": ("shoulder.L",),
    "right arm": ("shoulder.R",),
    "left leg": ("hip.L",),
    "right leg": ("hip.R",),
}


def unmarked_parts(actor: Skeleton, sites: Sequence[str]) -> tuple[str, ...]:
    """Return the parts of a human figure without any marker."""
    plan = plan_of(actor)
    if plan is None:
        return ()
    above = {joint.name: joint.parent for joint in actor.joints}
    marked: set[str | None] = set()
    for site in actor.sites:
        joint: str | None = site.joint if site.name in sites else None
        while joint is not None and joint not in marked:
            marked.add(joint)
            joint = above[joint]
    roots = {part: plan.first(*roles) for part, roles in PARTS.items()}
    return tuple(part for part, role in roots.items() if role is not None and plan[role] not in marked)


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
OFTEN = 0.5  # fraction of the frames in which a limit must be active to be named
OFF = 0.015  # [m]: mean error above which a marker is reported
SLIP = 0.01  # [m]: slip above which a contact is reported
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
    """Return a line for each marker that is far off on average: by how much, and the limits that its limb meets there.

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
            f"where the error is largest, {', '.join(met)} is at its limit"
            if met
            else "no limit blocks it: check its position"
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
        why = f"with {', '.join(met)} at its limit" if met else "with no limit of its leg active"
        out.append(f"{point} slips {1e3 * slips[k]:.0f} mm in frames {first} to {end - 1}, {why}")
    return out
