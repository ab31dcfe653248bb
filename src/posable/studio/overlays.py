"""Overlays in the scene: joint ranges, colours of limbs at a limit, swivel circles, errors of handles, markers."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
import viser

import posable as ps
from posable.studio.contacts import DEEP, Balance, balance_of
from posable.studio.meshes import unit
from posable.studio.messages import AT_LIMIT, AtLimit, amount, is_length, joint_of, strip_control
from posable.studio.state import View

# --- Ranges of joints ---
#
# Computed in the parent's frame from the joint alone, so that they are computed once and then only moved.

POINTS = 48  # points on the rim of every arc or cone, so that all meshes have the same faces
COARSE = np.radians(0.5)  # rounding of the other angles of a joint
WIDEST = 1.99 * np.pi  # [rad] wider ranges are not drawn


class Sweep(NamedTuple):
    """A range: its rim (POINTS, 3), directions in the parent's frame; its needle (3,), in the joint's own frame."""

    rim: np.ndarray
    needle: np.ndarray
    kind: str  # "cone", "arc", or "twist": an arc about the bone itself


@lru_cache(maxsize=512)
def single_joint(skeleton: ps.Skeleton, joint: str) -> ps.Skeleton:
    """Return a figure of this one joint, with the parent's frame as the world."""
    own = skeleton.joint(joint)
    return ps.Skeleton([ps.Joint(joint, own.motion, rotation=own.rotation)], name=joint)


@lru_cache(maxsize=512)
def bone_of(skeleton: ps.Skeleton, joint: str) -> tuple[float, float, float]:
    """Return the end of a joint's bone (3,) [m], in its frame: its furthest child, or its furthest site."""
    own = [j.offset for j in skeleton.joints if j.parent == joint]
    own = [o for o in own if np.linalg.norm(o) > 1e-6] or [s.offset for s in skeleton.sites if s.joint == joint]
    far = max((np.asarray(o, dtype=float) for o in own), key=lambda o: float(np.linalg.norm(o)), default=np.zeros(3))
    x, y, z = (far if np.linalg.norm(far) > 1e-6 else np.array([0.0, 0.0, 1e-3])).tolist()
    return x, y, z


def joint_rotations(skeleton: ps.Skeleton, joint: str, values: np.ndarray) -> np.ndarray:
    """Return the rotations (P, 3, 3) of a joint in its parent's frame at its values (P, k)."""
    return ps.forward(single_joint(skeleton, joint), values).rotation_matrix(joint)


@lru_cache(maxsize=512)
def twist_of(skeleton: ps.Skeleton, joint: str) -> int | None:
    """Return the index of the degree of freedom that twists the bone; None if there is none, or only one."""
    size = skeleton.joint(joint).motion.size
    if size < 2:
        return None
    where = skeleton.index(joint)
    middle = np.clip(0.0, skeleton.lower[where], skeleton.upper[where])
    bone = np.array(bone_of(skeleton, joint))
    tips = joint_rotations(skeleton, joint, middle + np.vstack([np.zeros(size), 0.05 * np.eye(size)])) @ bone
    moved = np.linalg.norm(tips[1:] - tips[0], axis=1) / (0.05 * np.linalg.norm(bone))
    least = int(np.argmin(moved))
    return least if moved[least] < 0.5 else None


def range_of(skeleton: ps.Skeleton, joint: str, dof: int, pose: np.ndarray) -> Sweep | None:
    """Return the range of a joint whose degree of freedom `dof` is at a limit; None if there is no limit to draw.

    A swing of a joint with two or three axes gives the cone of all its swings; anything else an arc.
    """
    where = skeleton.index(joint)
    number, values = dof - where.start, np.round(pose[where] / COARSE) * COARSE
    twist = twist_of(skeleton, joint)
    swings = [k for k in range(len(values)) if k != twist]
    if len(swings) == 2 and number in swings:
        values[swings] = 0.0  # they vary along the rim
        return _cone(skeleton, joint, (swings[0], swings[1]), tuple(values.tolist()))
    values[number] = 0.0
    return _arc(skeleton, joint, number, tuple(values.tolist()))


@lru_cache(maxsize=2048)
def _cone(skeleton: ps.Skeleton, joint: str, swings: tuple[int, int], others: tuple[float, ...]) -> Sweep | None:
    where = skeleton.index(joint)
    low, high = skeleton.lower[where][list(swings)], skeleton.upper[where][list(swings)]
    if not np.all(high - low < WIDEST):
        return None
    share = np.linspace(0.0, 1.0, POINTS // 4, endpoint=False)
    zero, one = np.zeros_like(share), np.ones_like(share)
    sides = ((share, zero), (one, share), (1.0 - share, one), (zero, 1.0 - share))
    values = np.tile(others, (POINTS, 1))
    values[:, list(swings)] = low + np.concatenate([np.stack(side, axis=1) for side in sides]) * (high - low)
    bone = unit(np.array(bone_of(skeleton, joint)))
    return Sweep(joint_rotations(skeleton, joint, values) @ bone, bone, "cone")


@lru_cache(maxsize=2048)
def _arc(skeleton: ps.Skeleton, joint: str, number: int, others: tuple[float, ...]) -> Sweep | None:
    dof = skeleton.index(joint).start + number
    low, high = skeleton.lower[dof], skeleton.upper[dof]
    if not high - low < WIDEST:
        return None
    values = np.tile(others, (POINTS, 1))
    values[:, number] = np.linspace(low, high, POINTS)
    turns = joint_rotations(skeleton, joint, values)
    bone = unit(np.array(bone_of(skeleton, joint)))
    swept = float(np.linalg.norm(np.diff(turns @ bone, axis=0), axis=1).sum())
    if swept > 0.5 * (high - low):
        return Sweep(turns @ bone, bone, "arc")
    needle = unit(np.cross(bone, np.eye(3)[int(np.argmin(np.abs(bone)))]))  # a twist is drawn across the bone
    return Sweep(turns @ needle, needle, "twist")


# --- Geometry ---

AMBER, RED, GREEN, GREY = (255, 159, 28), (239, 71, 111), (46, 160, 112), (190, 198, 210)
VIOLET = (124, 58, 237)
Lines = tuple[np.ndarray, np.ndarray]
NONE: Lines = (np.zeros((0, 2, 3)), np.zeros((0, 2, 3)))
MOST = 6  # ranges drawn at once, those of the longest bones
SHORT = 0.05  # relative length below which bones (fingers) have no range
NOTES, TELLING = 2, 1e-3  # limits with a note beside them, and what they must be worth [m]
MISSED, MISSED_TURN = 2e-3, np.radians(1.0)  # [m, rad] error above which a firm handle is marked


class Range(NamedTuple):
    """The range of a joint at a limit: centre (3,), rim (P, 3) and tip of the needle (3,), all [m]."""

    joint: str
    kind: str  # "cone", "arc", "twist"
    centre: np.ndarray
    rim: np.ndarray
    tip: np.ndarray


class Miss(NamedTuple):
    """A handle that misses its target: body, position and target (3,) [m], and the error as text."""

    body: str
    place: np.ndarray
    target: np.ndarray
    text: str


def ranges_of(view: Any, size: float) -> list[Range]:
    """Return the ranges of joints at a limit: a cone for swing, an arc for a single axis."""
    skeleton = view.skeleton
    length = {met.joint: float(np.linalg.norm(bone_of(skeleton, met.joint))) for met in view.limits}
    found: dict[tuple[str, str], Range] = {}
    for met in sorted(noteworthy(view), key=lambda met: -length[met.joint]):
        if len(found) >= MOST or length[met.joint] < SHORT * size or is_length(skeleton, met.dof):
            continue
        sweep = range_of(skeleton, met.joint, met.dof, view.pose)
        if sweep is not None and (met.joint, sweep.kind) not in found:
            radius = float(np.clip(0.6 * length[met.joint], 0.05 * size, 0.14 * size))
            found[met.joint, sweep.kind] = _placed(view, met.joint, sweep, radius)
    return list(found.values())


def noteworthy(view: Any) -> list[AtLimit]:
    """Return the limits that are met, except those that the figure meets at rest and that block nothing."""
    skeleton = view.skeleton
    rest = np.clip(skeleton.rest, skeleton.lower, skeleton.upper)
    blocking = {block.dof for block in view.blocking}
    return [met for met in view.limits if abs(met.value - rest[met.dof]) > AT_LIMIT or met.name in blocking]


def _placed(view: Any, joint: str, sweep: Any, radius: float) -> Range:
    """Return a range placed at its joint; for a twist, smaller and halfway along the bone."""
    skeleton, frames = view.skeleton, view.frames
    parent = skeleton.joint(joint).parent
    turn = np.eye(3) if parent is None else frames.rotation_matrix(parent)
    centre, own = frames.position(joint), frames.rotation_matrix(joint)
    if sweep.kind == "twist":
        centre, radius = centre + 0.5 * own @ np.array(bone_of(skeleton, joint)), 0.6 * radius
    rim = centre + radius * sweep.rim @ turn.T
    return Range(joint, sweep.kind, centre, rim, centre + 1.1 * radius * own @ sweep.needle)


def range_lines(ranges: list[Range]) -> Lines:
    """Return lines for the rim of every range, spokes at the ends of an arc, and a red needle at the joint's value."""
    points: list[np.ndarray] = []
    colors: list[np.ndarray] = []
    for one in ranges:
        rim = np.vstack([one.rim, one.rim[:1]]) if one.kind == "cone" else np.vstack([one.centre, one.rim, one.centre])
        segments = np.concatenate([np.stack([rim[:-1], rim[1:]], axis=1), [[one.centre, one.tip]]])
        shade = np.tile(np.array(AMBER, dtype=float), (len(segments), 2, 1))
        shade[-1] = RED
        points.append(segments)
        colors.append(shade)
    return (np.concatenate(points), np.concatenate(colors)) if points else NONE


def limb_colors(view: Any, size: float) -> dict[str, tuple[int, int, int]]:
    """Return the colour of limbs: red at a limit that blocks a goal, violet inside another one, amber at any limit.

    In this order, as only some are shown on a skin. Short bones (fingers) are tinted only if they block a goal; during
    playback limits are not shown.
    """
    inside: dict[str, tuple[int, int, int]] = {
        name: VIOLET for touch in view.contacts if touch.other for name in (touch.joint, touch.other)
    }
    blocked = {joint_of(view.skeleton, block.dof) for block in view.blocking}
    if view.timeline.playing:
        return inside
    limits = [met.joint for met in noteworthy(view) if met.joint not in inside]
    red = {joint: RED for joint in limits if joint in blocked}
    long = {joint: AMBER for joint in limits if np.linalg.norm(bone_of(view.skeleton, joint)) > SHORT * size}
    return red | inside | {joint: color for joint, color in long.items() if joint not in red}


def contact_rings(view: Any, size: float) -> Lines:
    """Return a ring on the floor where a limb touches it: green, or red where it is below the floor."""
    places = [touch for touch in view.contacts if touch.place is not None]
    if not places or view.skeleton.up is None:
        return NONE
    turn = np.linspace(0.0, 2.0 * np.pi, 13)
    up = view.skeleton.up_axis
    rim = np.zeros((len(turn), 3))
    rim[:, [axis for axis in range(3) if axis != up]] = 0.014 * size * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    rim[:, up] = 0.003 * size
    rims = np.array([touch.place + rim for touch in places])
    below = np.array([touch.depth > DEEP * size for touch in places])
    points = np.stack([rims[:, :-1], rims[:, 1:]], axis=2).reshape(-1, 2, 3)
    color = np.repeat(np.where(below[:, None], np.array(RED), np.array(GREEN)), len(turn) - 1, axis=0).astype(float)
    return points, np.repeat(color[:, None], 2, axis=1)


def circle_of(view: Any) -> Lines:
    """Return the swivel circle of the selected elbow or knee: green inside every limit, grey elsewhere."""
    limb = view.limb
    if limb is None or not np.isfinite(limb.circle.radius):
        return NONE
    angles = np.linspace(-np.pi, np.pi, 97)
    rim = limb.circle.point(angles)
    middle = 0.5 * (angles[:-1] + angles[1:])
    good = np.zeros(len(middle), dtype=bool)
    for low, high in limb.ranges:
        good |= (middle - low) % (2.0 * np.pi) <= high - low
    color = np.where(good[:, None], np.array(GREEN), np.array(GREY)).astype(float)
    return np.stack([rim[:-1], rim[1:]], axis=1), np.repeat(color[:, None], 2, axis=1)


def misses_of(view: Any) -> list[Miss]:
    """Return the firmly held handles that miss their position or rotation."""
    out = []
    for handle in view.handles:
        if view.active != handle.body and (handle.hold != "pinned" or handle.body in view.fk_bodies):
            continue
        place, turn = view.frames.position(handle.body), view.frames.rotation_matrix(handle.body)
        target = handle.position if handle.mode != "orientation" else place
        away = float(np.linalg.norm(place - target))
        cosine = 0.5 * (np.trace(turn.T @ handle.rotation) - 1.0)
        angle = float(np.arccos(np.clip(cosine, -1.0, 1.0))) if handle.mode != "position" else 0.0
        told = [amount(away)] if away > MISSED else []
        told += [amount(angle, angle=True)] if angle > MISSED_TURN else []
        if told:
            out.append(Miss(handle.body, place, target, ", ".join(told)))
    return out


def notes_of(view: Any) -> list[Miss]:
    """Return labels for the limits that block most: how much relaxing each of them would gain, beside its joint."""
    out = []
    for block in view.blocking[:NOTES] if view.idle else ():
        joint = joint_of(view.skeleton, block.dof)
        gains = [(name, gain) for name, gain in block.gain.items() if gain > TELLING and name not in block.angles]
        if gains:
            name, gain = max(gains, key=lambda item: item[1])
            more = "5 mm" if block.slides else "5°"
            text = f"{strip_control(block.dof)}: {more} more, {strip_control(name)} {amount(gain)} closer"
            out.append(Miss(f"limit of {joint}", view.frames.position(joint), view.frames.position(joint), text))
    return out


def miss_lines(misses: list[Miss]) -> Lines:
    """Return a red line from every handle that misses to its target."""
    points = np.array([(miss.place, miss.target) for miss in misses]).reshape(-1, 2, 3)
    return points, np.tile(np.array(RED, dtype=float), (len(points), 2, 1))


def balance_lines(balance: Balance | None, size: float) -> Lines:
    """Return the support polygon and a cross below the centre of mass: green, or red if the figure would tip over."""
    if balance is None:
        return NONE
    way = balance.centre - balance.below
    lift = 0.002 * size * way / max(float(np.linalg.norm(way)), 1e-9)
    rim = balance.polygon + lift
    edges = np.stack([rim, np.concatenate([rim[1:], rim[:1]])], axis=1)
    flat = 0.02 * size * np.eye(3)[np.abs(lift) < 1e-12]
    cross = np.stack([balance.below + lift - flat, balance.below + lift + flat], axis=1)
    points = np.concatenate([edges, cross])
    return points, np.tile(np.array(GREEN if balance.steady else RED, dtype=float), (len(points), 2, 1))


def markers_of(view: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return a line (M, 2, 3) from every marker to the site of the same name, and colours."""
    markers = view.timeline.markers
    if markers is None or not len(markers):
        return np.zeros((0, 2, 3)), np.zeros((0, 2, 3))
    known = set(view.skeleton.site_names)
    lines = [
        (place, view.frames.position(name))
        for name, place in zip(markers.names, marker_places(view), strict=True)
        if name in known and np.isfinite(place).all()
    ]
    points = np.array(lines).reshape(-1, 2, 3)
    return points, np.tile(np.array([[[230, 57, 70], [244, 162, 97]]], dtype=float), (len(points), 1, 1))


def marker_places(view: Any) -> np.ndarray:
    """Return the positions (M, 3) [m] of the markers at this frame, NaN where unseen."""
    markers = view.timeline.markers
    if markers is None or not len(markers):
        return np.zeros((0, 3))
    return markers.positions[min(round(view.timeline.frame), len(markers) - 1)]


# --- Nodes ---

BELOW = 1e3  # [m] depth at which unseen markers are hidden
POINT = 0.012  # size of a marker, relative to the figure


class Overlays:
    """The lines, surfaces and labels of one figure; each is sent only when it changes."""

    def __init__(self, scene: viser.SceneApi, size: float):
        self.scene, self.size = scene, size
        self.lines = scene.add_line_segments(
            "/overlays/lines", np.zeros((1, 2, 3)), np.zeros((1, 2, 3)), thickness=0.004 * size, visible=False
        )
        self.markers = scene.add_point_cloud(
            "/overlays/markers", np.zeros((1, 3), dtype=np.float32), colors=(230, 57, 70), point_size=POINT * size,
            point_shape="circle", visible=False,
        )  # fmt: skip
        self.fans: list[Any] = []
        self.labels: dict[str, Any] = {}

    def show(self, view: View, *, balance: bool = True) -> None:
        """Update everything to a view."""
        ranges = ranges_of(view, self.size) if not view.timeline.playing else []
        misses = misses_of(view)
        standing = balance_of(view.skeleton, view.frames, self.size, view.support) if balance else None
        self._show_lines(
            [
                range_lines(ranges),
                circle_of(view),
                miss_lines(misses),
                markers_of(view),
                balance_lines(standing, self.size),
                contact_rings(view, self.size),
            ]
        )
        self._show_fans(ranges)
        self._show_labels([*misses, *notes_of(view)])
        places = marker_places(view)
        if len(places):
            self.markers.points = np.nan_to_num(places, nan=-BELOW).astype(np.float32)
            seen = places[np.isfinite(places).all(axis=1)]
            wide = float(np.ptp(seen, axis=0).max()) if len(seen) else 0.0
            radius = POINT * max(self.size, 0.5 * wide)  # also seen where the figure is tiny
            if self.markers.point_size != radius:
                self.markers.point_size = radius
        self.markers.visible = len(places) > 0

    def _show_lines(self, sets: list[Lines]) -> None:
        sets = [pair for pair in sets if len(pair[0])]
        if sets:
            self.lines.points = np.concatenate([points for points, _ in sets]).astype(np.float32)
            self.lines.colors = np.concatenate([colors for _, colors in sets]).astype(np.uint8)
        self.lines.visible = bool(sets)

    def _show_fans(self, ranges: list[Range]) -> None:
        """Fill the ranges with a translucent surface."""
        k = np.arange(1, POINTS)
        faces = np.stack([np.zeros_like(k), k, k + 1], axis=1)
        while len(self.fans) < min(len(ranges), MOST):
            self.fans.append(
                self.scene.add_mesh_simple(
                    f"/overlays/fan{len(self.fans)}", np.zeros((POINTS + 1, 3)), np.vstack([faces, [[0, POINTS, 1]]]),
                    color=AMBER, opacity=0.16, side="double", cast_shadow=False, receive_shadow=False,
                )
            )  # fmt: skip
        for fan, one in zip(self.fans, ranges, strict=False):
            rim = one.rim if one.kind == "cone" else np.vstack([one.rim[:-2], one.rim[-1:], one.centre])
            fan.vertices = np.vstack([one.centre, rim]).astype(np.float32)
        for number, fan in enumerate(self.fans):
            fan.visible = number < len(ranges)

    def _show_labels(self, misses: list[Any]) -> None:
        """Label every handle that misses with its error."""
        told = {miss.body: miss for miss in misses}
        for body, miss in told.items():
            place = 0.5 * (miss.place + miss.target)
            if body not in self.labels:
                self.labels[body] = self.scene.add_label(
                    f"/overlays/miss/{quote(body, safe='')}", miss.text, position=place, font_screen_scale=1.1,
                    depth_test=False, anchor="bottom-left",
                )  # fmt: skip
            self.labels[body].text, self.labels[body].position = miss.text, place
        for body, label in self.labels.items():
            label.visible = body in told
