"""Handles: the points of a figure that users drag, how they are held, and their goals."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import posable as ps
from posable.studio.appearance import root_joint

HOLDS = ("pinned", "held", "free")  # firmly, gently, not at all
MODES = ("position", "orientation", "both")
PINNED, DRAGGED, GENTLE = 1e4, 50.0, 0.01  # weights
TURN = 0.2  # [m^2/rad^2] weight of an angle relative to a distance
REACHED = 1e-3  # [m, rad] within which a firm handle counts as reached
FARTHEST = 100.0  # [m] from the origin; targets beyond are invalid
_HUMAN = ("hand.L", "hand.R", "foot.L", "foot.R", "head", "pelvis")
_ENDS = (r"(hand|wrist)$", r"(foot|ankle)$", r"head$")
_SMALL = re.compile(r"thumb|index|middle|ring|pinky|finger|toe|jaw|eye|marker", re.IGNORECASE)
_JAW = re.compile(r"jaw|gripper", re.IGNORECASE)
_SIDE = re.compile(r"(?<=[._])[LRlr]$")
_SENSOR = re.compile(r"imu|camera|rgb|optical|depth|sensor|laser|sonar|lidar|frame$", re.IGNORECASE)
POSTURE = "posture"  # label of the posture goal
MOST = 10  # default handles of a figure
LONG = 3  # joints of a tail; shorter branches are the helper bones of a rig (twists, muscles)
PICKED = 0.045  # largest distance of a click from a joint or site, relative to the figure's size


@dataclass(frozen=True, eq=False)
class Handle:
    """A handle on a site or joint: how firmly it is held, and its target position (3,) [m] and rotation (3, 3)."""

    body: str
    position: np.ndarray
    rotation: np.ndarray
    hold: str = "held"
    mode: str = "position"
    weight: float = 1.0
    priority: int = 0

    def moved(self, position: Any = None, rotation: Any = None) -> Handle:
        """Return the handle with another target."""
        return replace(
            self,
            position=self.position if position is None else np.array(position, dtype=float),
            rotation=self.rotation if rotation is None else np.array(rotation, dtype=float),
        )

    def at(self, frames: Any) -> Handle:
        """Return the handle with its body's place in some frames as its target."""
        return self.moved(frames.position(self.body), frames.rotation_matrix(self.body))

    def goal(self, *, dragged: bool) -> ps.goals.Goal:
        """Return its goal; a gentle hold never decides whether the goals are reached."""
        pinned = self.hold == "pinned" and not dragged
        weight = self.weight * (PINNED if pinned else DRAGGED if dragged else GENTLE)
        tolerance = REACHED if pinned or dragged else np.inf
        options: dict[str, Any] = {"label": self.body, "priority": self.priority}
        if self.mode == "position":
            return ps.goals.Position(self.body, self.position, weight=weight, tolerance=tolerance, **options)
        if self.mode == "orientation":
            return ps.goals.Orientation(self.body, self.rotation, weight=weight * TURN, tolerance=tolerance, **options)
        return ps.goals.Pose(
            self.body, self.target(), weight=(weight, weight * TURN), tolerance=(tolerance, 5.0 * tolerance), **options
        )

    def target(self) -> np.ndarray:
        """Return its target for `Session.move`: a point, a rotation or a transform, depending on the mode."""
        if self.mode == "position":
            return self.position
        if self.mode == "orientation":
            return self.rotation
        out = np.eye(4)
        out[:3, :3], out[:3, 3] = self.rotation, self.position
        return out


def handle_at(frames: Any, body: str, **options: Any) -> Handle:
    """Return a handle at the current place of a body."""
    return Handle(body, frames.position(body), frames.rotation_matrix(body), **options)


def default_handles(skeleton: ps.Skeleton, frames: Any, limbs: Collection[str] = ()) -> tuple[Handle, ...]:
    """Return the initial handles of a figure: hands, feet, head and pelvis, or the ends of its chains.

    Args:
        skeleton: The figure.
        frames: Its frames now.
        limbs: Middle joints of limbs, which have handles of their own.
    """
    if set(_HUMAN) <= set(skeleton.site_names):
        firm = {"foot.L": "pinned", "foot.R": "pinned"}
        return tuple(
            handle_at(frames, body, hold=firm.get(body, "held"), mode="both" if body in firm else "position")
            for body in _HUMAN
        )
    root = root_joint(skeleton)
    moving = root.motion.size == 6
    roles = _roles(skeleton)
    if roles:
        kept = {role: joint for role, joint in roles.items() if joint not in limbs}
        kept |= {f"tail{k}": body for k, body in enumerate(_tails(skeleton, roles, frames))}
        feet = _feet(skeleton, roles) if moving else ()
        return tuple(
            handle_at(
                frames, body,
                hold="pinned" if role in feet else "free" if role.startswith(("elbow", "knee")) else "held",
                mode="both" if role in feet else "position",
            )
            for role, body in kept.items()
        )  # fmt: skip
    bodies = _named_ends(skeleton) or _apart(skeleton, _leaves(skeleton), frames)
    if moving and root.name not in bodies:
        bodies = [*bodies, root.name]
    feet = re.compile(_ENDS[1], re.IGNORECASE)
    movers = {body: _movers(skeleton, body) for body in bodies[:MOST]}

    def is_tool(body: str) -> bool:
        """Return whether an end is the tool of an arm, whose position and orientation are its own."""
        others = [dofs for other, dofs in movers.items() if other != body]
        own = movers[body].difference(*others) if others else range(skeleton.size)
        return not moving and len(own) >= 6

    return tuple(
        handle_at(
            frames, body, hold="pinned" if moving and feet.search(_plain(body)) else "held",
            mode="both" if is_tool(body) else "position",
        )
        for body in movers
    )  # fmt: skip


_WANTED = (
    ("wrist.L", "hand.L"), ("wrist.R", "hand.R"), ("ankle.L",), ("ankle.R",), ("head", "neck"), ("pelvis",),
    ("elbow.L",), ("elbow.R",), ("knee.L",), ("knee.R",),
)  # fmt: skip


def _roles(skeleton: ps.Skeleton) -> dict[str, str]:
    """Return the joints of a figure with two arms and two legs by role; empty for other figures."""
    try:
        plan = ps.body_plan(skeleton)
    except ps.PosableError:
        return {}
    found = {names[0]: plan[role] for names in _WANTED if (role := plan.first(*names)) is not None}
    if not {"wrist.L", "wrist.R", "ankle.L", "ankle.R"} <= found.keys():
        return {}
    if "head" in found and not re.search(_ENDS[2], _plain(found["head"]), re.IGNORECASE):
        heads = [n for n in skeleton.below(found["head"]) if re.search(_ENDS[2], _plain(n), re.IGNORECASE)]
        found["head"] = heads[0] if heads else found["head"]
    if "pelvis" in found and not _moves(skeleton, found["pelvis"]):
        found.pop("pelvis")
    return {role: joint for k, (role, joint) in enumerate(found.items()) if joint not in list(found.values())[:k]}


def _feet(skeleton: ps.Skeleton, roles: Mapping[str, str]) -> list[str]:
    """Return the roles of the ends that a figure stands on: the ankles, and the wrists of an animal on four legs."""
    rest = ps.forward(skeleton, skeleton.rest)
    height = {role: float(rest.position(body) @ skeleton.up_vector) for role, body in roles.items()}
    ankle = min(height["ankle.L"], height["ankle.R"])
    knee = max(height.get("knee.L", ankle), height.get("knee.R", ankle))
    return [
        role for role in roles
        if role.startswith("ankle") or (role.startswith("wrist") and height[role] - ankle < 0.5 * (knee - ankle))
    ]  # fmt: skip


def _tails(skeleton: ps.Skeleton, roles: Mapping[str, str], frames: Any) -> list[str]:
    """Return the ends of long chains without a handle nearby or above, such as a tail."""
    ends = {role: body for role, body in roles.items() if role != "pelvis"}
    taken = {name for body in ends.values() for name in skeleton.below(body)}
    held = set(roles.values())
    size = float(np.linalg.norm(np.ptp(frames.many(skeleton.names)[0], axis=0)))
    places = [frames.position(body) for body in ends.values()]
    others = [
        body for body in _leaves(skeleton)
        if body not in taken and body not in held and _branch(skeleton, body, held) >= LONG
        and not _SMALL.search(body) and not _SENSOR.search(body)
        and all(np.linalg.norm(frames.position(body) - place) > 0.15 * size for place in places)
    ]  # fmt: skip
    return _apart(skeleton, others, frames)[:2] if others else []


def _branch(skeleton: ps.Skeleton, body: str, held: Collection[str]) -> int:
    """Return how many joints an end has to itself, down from the chains of the bodies that are `held`."""
    trunk: set[str | None] = set()
    for joint in reversed(skeleton.joints):  # parents come first
        trunk |= {joint.name, joint.parent} if joint.name in held or joint.name in trunk else set()
    return sum(joint not in trunk for joint in skeleton.path_to(skeleton.carrier(body)))


def opening_pose(skeleton: ps.Skeleton, scene: ps.Scene) -> np.ndarray:
    """Return the initial pose (n,) of a figure: its rest pose inside its limits, standing on the floor."""
    pose = np.clip(skeleton.rest, skeleton.lower, skeleton.upper)
    root = skeleton.joints[0]
    up = skeleton.up_axis
    if root.motion.size != 6 or set(_HUMAN) <= set(skeleton.site_names):
        return pose
    frames = ps.forward(skeleton, pose)
    points = [frames.many((*skeleton.names, *skeleton.site_names))[0]]
    points += [
        mesh.vertices @ frames.rotation_matrix(mesh.joint).T + frames.position(mesh.joint)
        for mesh in scene.meshes if mesh.joint is not None and mesh.joint in skeleton.names and len(mesh.vertices)
    ]  # fmt: skip
    for shape in skeleton.shapes:
        if shape.normal is None and shape.joint in skeleton.names:
            turn, place = frames.rotation_matrix(shape.joint), frames.position(shape.joint)
            points.append(shape.points @ turn.T + place - shape.radius * np.eye(3)[up])
    lowest = min(float(part[:, up].min()) for part in points)
    height = skeleton.index(root.name).start + up
    size = float(np.linalg.norm(np.ptp(points[0], axis=0)))
    if abs(lowest) > 0.01 * size and skeleton.dof_names[height].endswith(("tx", "ty", "tz")[up]):
        pose[height] = np.clip(pose[height] - lowest, skeleton.lower[height], skeleton.upper[height])
    return pose


def _plain(name: str) -> str:
    """Return a joint's name without side and prefix of the rig."""
    return re.sub(r"([._](L|R|l|r)|[._]?\d+)$", "", name.rpartition(":")[2])


def _named_ends(skeleton: ps.Skeleton) -> list[str]:
    """Return the joints named hand, foot or head, the last one of each limb."""
    found: list[str] = []
    for pattern in _ENDS:
        hits = [n for n in skeleton.names if re.search(pattern, _plain(n), re.IGNORECASE) and not _SMALL.search(n)]
        found += [n for n in hits if not set(skeleton.below(n)) & set(hits)]
    return found if len(found) >= 3 else []


def _moves(skeleton: ps.Skeleton, joint: str) -> bool:
    """Return whether a joint or one of its ancestors moves."""
    return any(skeleton.joint(name).motion.size for name in skeleton.path_to(joint))


def _grips(skeleton: ps.Skeleton, finger: str, palm: str) -> bool:
    """Return whether a joint is a finger of a gripper; the last axis of a gantry, which slides as well, is none."""
    slides = {j.name for j in skeleton.joints if j.parent == palm and isinstance(j.motion, ps.Prismatic)}
    return bool(_JAW.search(finger)) or (finger in slides and (len(slides) > 1 or bool(_SMALL.search(finger))))


def _leaves(skeleton: ps.Skeleton) -> list[str]:
    """Return one body at the end of each chain of moving joints: the farthest site of its last joint, or the joint.

    Parts fixed to a joint that carries further joints (a camera, a cover) are no ends, nor are rods that close a loop.
    """
    closing = {site for loop in skeleton.loops for site in loop[:2]}
    tied = {site.joint for site in skeleton.sites if site.name in closing}
    above: dict[str, str | None] = {}  # the last moving joint at or above each joint
    for joint in skeleton.joints:
        above[joint.name] = joint.name if joint.motion.size else above.get(joint.parent or "")
    inner = {above[j.parent] for j in skeleton.joints if j.parent is not None and above[j.name] != above[j.parent]}
    parents = {joint.parent for joint in skeleton.joints}
    out = []
    for joint in skeleton.joints:
        moved = above[joint.name]
        if joint.name in parents or moved is None or moved in inner:
            continue
        if joint.name in tied and not re.search("|".join(_ENDS), _plain(joint.name), re.IGNORECASE):
            continue
        palm = skeleton.joint(moved).parent
        if palm is not None and _moves(skeleton, palm) and _grips(skeleton, moved, palm):
            out.append(palm)
            continue
        sites = [site for site in skeleton.sites if site.joint == joint.name and site.name not in closing]
        far = max(sites, key=lambda site: float(np.linalg.norm(site.offset)), default=None)
        out.append(joint.name if far is None else far.name)
    return list(dict.fromkeys(out))


def _apart(skeleton: ps.Skeleton, bodies: list[str], frames: Any) -> list[str]:
    """Return the ends without sensors and similar parts, and only the first of those close together (fingers).

    Ends that are close together are all kept if each moves more by itself than with the other, like the fingers of a
    hand that is not on an arm, and so are a left one and its right counterpart, like the shins of legs without feet.
    """
    plain = [body for body in bodies if not _SENSOR.search(body)] or bodies
    places = {body: frames.position(body) for body in plain}
    size = float(np.linalg.norm(np.ptp([frames.position(name) for name in skeleton.names], axis=0)))
    movers = {body: _movers(skeleton, body) for body in plain}
    kept: list[str] = []
    for body in plain:
        near = [
            other for other in kept
            if np.linalg.norm(places[body] - places[other]) <= 0.12 * size and not _opposite(body, other)
        ]  # fmt: skip
        shared = [len(movers[body] & movers[other]) for other in near]
        if all(2 * count < len(movers[body]) for count in shared):
            kept.append(body)
    return kept


def _opposite(a: str, b: str) -> bool:
    """Return whether the names of two bodies differ in their side alone."""
    return a != b and bool(_SIDE.search(a)) and _SIDE.sub("", a) == _SIDE.sub("", b)


def _movers(skeleton: ps.Skeleton, body: str) -> set[int]:
    """Return the degrees of freedom that move a body."""
    path = skeleton.path_to(skeleton.carrier(body))
    return {dof for name in path for dof in range(skeleton.size)[skeleton.index(name)]}


def is_number(value: Any, low: float, high: float) -> bool:
    """Return whether a value received from a page is a number within bounds."""
    return isinstance(value, float | int | np.floating | np.integer) and low <= float(value) <= high


def checked_target(position: Any, rotation: Any) -> tuple[np.ndarray | None, np.ndarray | None] | None:
    """Return a target received from a page as arrays; None if it is invalid."""
    try:
        place = None if position is None else np.array(position, dtype=float)
        turn = None if rotation is None else np.array(rotation, dtype=float)
    except (TypeError, ValueError, OverflowError):
        return None
    if place is not None and (place.shape != (3,) or not np.all(np.abs(place) <= FARTHEST)):
        return None
    if turn is not None and (turn.shape != (3, 3) or not np.allclose(turn @ turn.T, np.eye(3), atol=1e-3)):
        return None
    return place, turn


def nearest_to_ray(frames: Any, names: tuple[str, ...], eye: np.ndarray, ray: np.ndarray) -> str | None:
    """Return the body nearest to a ray from `eye` (3,) along `ray` (3,), the front one of several, or None."""
    places = frames.many(names)[0]
    size = float(np.linalg.norm(np.ptp(places, axis=0)))
    depth = (places - eye) @ ray / max(float(ray @ ray), 1e-12)
    away = np.linalg.norm(places - eye - depth[:, None] * ray, axis=1)
    near = np.flatnonzero((depth > 0) & (away < PICKED * size))
    if not len(near):
        return None
    return names[min(near, key=lambda k: away[k] + 0.2 * depth[k] * float(np.linalg.norm(ray)))]


def goals_of(
    handles: Iterable[Handle], active: Collection[str], home: np.ndarray, stay: float, gains: np.ndarray | None = None
) -> list[ps.goals.Goal]:
    """Return the goals of all handles, firm for dragged ones, and a posture goal of weight `stay` at `home` (n,)."""
    out = [h.goal(dragged=h.body in active) for h in handles if h.hold != "free" or h.body in active]
    if stay > 0.0 or not out:
        out.append(ps.goals.Posture(home, gains, weight=max(stay, 1e-9), label=POSTURE))
    return out


def relaxed(skeleton: ps.Skeleton, pose: np.ndarray, share: float, rest: np.ndarray) -> np.ndarray:
    """Return a pose (n,) a fraction of the way to `rest` (n,); position and heading of a free root are kept."""
    out = pose + share * (rest - pose)
    root = root_joint(skeleton)
    if root.motion.size == 6:
        kept = skeleton.index(root.name)
        tilts = [i for i in range(kept.start + 3, kept.stop) if skeleton.dof_names[i][-1] != skeleton.up]
        plain = root is skeleton.joints[0] and all(
            skeleton.dof_names[i].rpartition(".")[2] in ("x", "y", "z") for i in range(kept.start + 3, kept.stop)
        )
        keep = [i for i in range(kept.start, kept.stop) if not (plain and i in tilts)]
        out[keep] = pose[keep]
    return out


def posture_weights(skeleton: ps.Skeleton, strength: Mapping[str, float]) -> np.ndarray:
    """Return the weight (n,) of each degree of freedom in the posture goal: the share of the figure that it carries.

    So an arm reaches before the trunk leans, and the trunk leans before the whole figure moves. Weights are multiplied
    by the gain of the joint and by the strength that the user gave it.
    """
    share = {joint.name: max(float(joint.mass), 0.0) for joint in skeleton.joints}
    if not sum(share.values()) > 0.0:
        share = dict.fromkeys(share, 1.0)
    total = sum(share.values())
    for joint in reversed(skeleton.joints):  # parents come first
        if joint.parent is not None:
            share[joint.parent] += share[joint.name]
    out = np.ones(skeleton.size)
    for joint in skeleton.joints:
        out[skeleton.index(joint.name)] = (0.25 + 6.0 * share[joint.name] / total) * strength.get(joint.name, 1.0)
    return out * skeleton.gain
