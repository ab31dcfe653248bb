"""The roles of the joints of a human or humanoid ("knee.L"), from names, topology and the rest pose.

Known names decide (hip, femur, LeftUpLeg, leg_joint_L_1, LKneePitch, ...). Where the names of a limb merely number its
joints, its longest two consecutive bones decide. A role is one joint, so that figures with different numbers of joints
have the same roles.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np

from posable.errors import PosableError, unknown
from posable.model.joints import Ball, Free, Joint, Revolute, frozen_of, unit_axis
from posable.model.kinematics import Frames, forward
from posable.model.skeleton import Skeleton, per_figure

SIDES = ("L", "R")
MIDDLE_ROLES = ("pelvis", "chest", "neck", "head")
SIDE_ROLES = ("hip", "knee", "ankle", "toe", "clavicle", "shoulder", "elbow", "wrist", "hand")
ROLES = (*MIDDLE_ROLES, *(f"{role}.{side}" for side in SIDES for role in SIDE_ROLES))

# For each role of a limb, the words that name its joint, most specific first.
LEG_WORDS = {
    "hip": ("femur", "thigh", "upleg", "upperleg", "hip"),
    "knee": ("knee", "tibia", "shin", "calf", "shank", "lowerleg", "loleg", "leg"),
    "ankle": ("ankle", "ank", "foot"),
    "toe": ("toebase", "toe", "toes"),
}
ARM_WORDS = {
    "clavicle": ("clavicle", "collar", "collarbone", "scapula", "shoulder"),
    "shoulder": ("humerus", "upperarm", "uparm", "arm", "shoulder", "shldr", "sho"),
    "elbow": ("elbow", "forearm", "radius", "lowerarm", "loarm", "el"),
    "wrist": ("wrist", "hand"),
    "hand": ("hand", "fingerbase", "fingers", "gripper", "finger"),
}
LEG, ARM = "leg", "arm"
_LIMB_WORDS = {
    LEG: ("leg", "femur", "thigh", "hip", "knee", "tibia", "shin", "calf", "shank", "ank", "foot", "toe", "sole"),
    ARM: (
        "arm", "humerus", "sho", "shldr", "clavicle", "collar", "scapula", "elbow", "radius", "wrist", "hand",
        "finger", "thumb", "gripper",
    ),
}  # fmt: skip
_PARTS = {"leg": ("hip", "knee", "ankle"), "arm": ("shoulder", "elbow", "wrist")}
_NECK_WORDS, _HEAD_WORDS = ("neck",), ("head", "skull")
_SHORT_SIDE = re.compile(
    r"^([lr])(?=(?:hip|femur|tibia|foot|toe|clav|hum|rad|wrist|hand|fing|thumb|thigh|shin|knee|elb|sho|arm|leg|ank|up|low))"
)
NEAR = 0.03  # fraction of a limb's length below which two joints are at the same place
SHORTEST, TALLEST, USUAL_STATURE = 0.85, 2.30, 1.70  # [m]: of people, from two years on
LEG_OF_STATURE = 0.491  # length of the leg, hip to ankle, as a part of stature (Drillis and Contini)
TOE = 0.05  # least distance of a toe in front of its ankle [leg lengths]
CLUSTER = 0.3  # fraction of a limb's length within which hinges of one name form one joint
BALL = 0.12  # fraction of a limb's length within which the axes of a ball joint made of hinges pass each other
ALONG = 0.9  # cosine of the angle between the axis of a hinge and a bone above which it twists the bone
PARALLEL = 0.3  # sine of the angle between two axes below which they count as parallel
BELOW = 0.25  # fraction of the trunk below the shoulders beyond which nothing is a head
FOREARM = 0.3  # least length of a forearm that ends without a joint [upper arms]
END = 0.15  # fraction of a bone at its end whose middle is taken for the wrist of an arm that has none


def words_of(name: str) -> tuple[str, str]:
    """Return (side, rest of the name) of a joint: side "L", "R" or "", the rest in lower case without separators."""
    text = name.rsplit(":", 1)[-1]
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", text)
    parts = [part for part in re.split(r"[^A-Za-z]+", text) if part]
    side, rest = "", []
    for part in (part.lower() for part in parts):
        short = _SHORT_SIDE.match(part)
        if not side and part in ("left", "l", "right", "r"):
            side = part[0].upper()
        elif not side and part.startswith(("left", "right")):
            side = part[0].upper()
            rest.append(part.removeprefix("left").removeprefix("right"))
        elif not side and short:
            side = short[1].upper()
            rest.append(part[1:])
        else:
            rest.append(part)
    return side, "".join(part for part in rest if part not in ("joint", "jnt", "j", "b", "bone", "skeleton"))


def limb_of(name: str) -> str | None:
    """Return whether a joint's name belongs to an arm or to a leg; None if to neither."""
    word = words_of(name)[1]
    return next((limb for limb in (LEG, ARM) if any(part in word for part in _LIMB_WORDS[limb])), None)


@dataclass(frozen=True, eq=False)
class BodyPlan:
    """The roles of a figure's joints, and its axes at rest.

    Attributes:
        skeleton: The figure.
        roles: {role: joint} for the roles that were found. For a ball joint made of several hinges it is the last one,
            which carries the bone.
        up: (3,) Unit vector at rest.
        left: (3,) Unit vector at rest.
        forward: (3,) Unit vector at rest.
        rest: Frames of the figure at rest.
        centers: {role: (3,)} [m] For such hinges, the point at rest that is nearest to all of their axes. The wrist of
            an arm that ends without one is the end of its forearm, carried by the joint of the elbow.
    """

    skeleton: Skeleton
    roles: Mapping[str, str]
    up: np.ndarray
    left: np.ndarray
    forward: np.ndarray
    rest: Frames = field(repr=False)
    centers: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)

    def __getitem__(self, role: str) -> str:
        if role not in self.roles:
            raise unknown("role", role, self.roles)
        return self.roles[role]

    def __contains__(self, role: str) -> bool:
        return role in self.roles

    def __str__(self) -> str:
        return "\n".join(f"{role:12s} {self.roles[role]}" for role in ROLES if role in self.roles)

    def place(self, role: str) -> np.ndarray:
        """Return the position of a role's joint at rest; for a ball joint made of hinges, where their axes meet.

        Args:
            role: Name of the role.

        Returns:
            (3,) [m] in the world.
        """
        return self.centers[role] if role in self.centers else self.rest.position(self[role])

    def point(self, role: str) -> np.ndarray:
        """Return the same position as `place`, in the frame of the role's joint.

        Args:
            role: Name of the role.

        Returns:
            (3,) [m] in the joint's frame.
        """
        return self.rest.convert(self.place(role), to=self[role])

    def position(self, frames: Frames, role: str) -> np.ndarray:
        """Return the position of a role's joint in other poses of the figure.

        Args:
            frames: Frames of this figure.
            role: Name of the role.

        Returns:
            (..., 3) [m] in the world.
        """
        joint = self[role]
        if role not in self.centers:
            return frames.position(joint)
        return frames.position(joint) + frames.rotation_matrix(joint) @ self.point(role)

    def first(self, *roles: str) -> str | None:
        """Return the first of the given roles that this figure has, or None.

        Args:
            *roles: Names of roles.
        """
        return next((role for role in roles if role in self.roles), None)

    @property
    def stature(self) -> float:
        """Stature [m], estimated from the length of the legs."""
        return self.leg / LEG_OF_STATURE

    @cached_property
    def leg(self) -> float:
        """Length of a leg [m] from hip to ankle along the bones, the mean of both sides."""
        return float(
            np.mean(
                [
                    np.linalg.norm(self.place(f"hip.{s}") - self.place(f"knee.{s}"))
                    + np.linalg.norm(self.place(f"knee.{s}") - self.place(f"ankle.{s}"))
                    for s in SIDES
                ]
            )
        )


def body_plan(skeleton: Skeleton, roles: Mapping[str, str] | None = None, *, option: str = "roles") -> BodyPlan:
    """Return the roles of a figure's joints.

    Args:
        skeleton: The figure.
        roles: {role: joint} Overrides what is found.
        option: Name of the caller's argument for roles, for error messages; "" if there is none.

    Raises:
        PosableError: The figure does not have two legs, or a given role or joint is unknown.
    """
    return _body_plan(skeleton, tuple((roles or {}).items()), option)


@per_figure
def _body_plan(skeleton: Skeleton, given: tuple[tuple[str, str], ...], option: str) -> BodyPlan:
    roles = dict(given)
    rest = forward(skeleton, skeleton.rest)
    stated = skeleton.info.get("roles", {})  # stated by the file, as VRM does
    roles = {**{role: joint for role, joint in stated.items() if joint in skeleton.names}, **roles}
    for role, joint in (roles or {}).items():
        if role not in ROLES:
            raise unknown("role", role, ROLES)
        skeleton.index(joint)
    tree = _Tree(skeleton, rest)
    found: dict[str, str] = {}
    for side in SIDES:
        found |= {
            f"{role}.{side}": joint for role, joint in tree.limb(side, LEG, LEG_WORDS, ("hip", "knee", "ankle")).items()
        }
        arm = tree.limb(side, ARM, ARM_WORDS, ("shoulder", "elbow", "wrist"))
        found |= {f"{role}.{side}": joint for role, joint in arm.items()}
    found |= {role: joint for role, joint in (roles or {}).items() if "." in role}
    missing = [role for role in ("hip.L", "hip.R", "knee.L", "knee.R", "ankle.L", "ankle.R") if role not in found]
    if missing:
        remedy = f"give them as {option}={{{missing[0]!r}: 'joint'}}; " if option else "two legs are needed; "
        raise PosableError(
            f"body plan of {skeleton.name or 'the figure'}: expected joints for {', '.join(missing)}, found none; "
            f"{remedy}joints: {', '.join(skeleton.names[:40])}"
        )
    found |= tree.trunk(found)
    found |= roles or {}
    up, left = _axes(rest, found, skeleton.up_vector)
    for side in SIDES:  # a joint below the ankle and not in front of it is a sole, whatever its name
        ankle, toe = rest.position(found[f"ankle.{side}"]), found.get(f"toe.{side}")
        if toe is not None and f"toe.{side}" not in (roles or {}):
            away = rest.position(toe) - ankle
            if np.linalg.norm(away - (away @ up) * up) < TOE * np.linalg.norm(
                rest.position(found[f"hip.{side}"]) - ankle
            ):
                del found[f"toe.{side}"]
    named = {role: found[role] for role in ROLES if role in found}
    return BodyPlan(skeleton, named, up, left, np.cross(left, up), rest, tree.centers(named))


def _axes(rest: Frames, found: Mapping[str, str], up: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return up and left (3,) at rest; the stated up axis is used even if the figure is lying."""
    across = rest.position(found["hip.L"]) - rest.position(found["hip.R"])
    left = across - (across @ up) * up
    if not np.linalg.norm(left) > 0.5 * np.linalg.norm(across):
        tall = rest.position(found["hip.L"]) - rest.position(found["ankle.L"])
        up = np.sign(tall) * (np.abs(tall) == np.abs(tall).max())
        left = across - (across @ up) * up
    length = np.linalg.norm(left)
    return up, left / length if length > 0.0 else np.roll(up, 1)


def _meeting_point(lines: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return the point (3,) nearest to lines (origin, axis); if it is not unique, the one nearest to their origins."""
    matrix, right = 1e-3 * np.eye(3), 1e-3 * np.mean([origin for origin, _ in lines], axis=0)
    for origin, axis in lines:
        across = np.eye(3) - np.outer(axis, axis)
        matrix, right = matrix + across, right + across @ origin
    return np.linalg.solve(matrix, right)


class _Tree:
    """The joints of a figure by name, with their children, sides and words."""

    def __init__(self, skeleton: Skeleton, rest: Frames):
        self.skeleton = skeleton
        self.rest = rest
        self.parent = {joint.name: joint.parent for joint in skeleton.joints}
        self.children: dict[str, list[str]] = {name: [] for name in skeleton.names}
        for name, parent in self.parent.items():
            if parent is not None:
                self.children[parent].append(name)
        self.words = {name: words_of(name) for name in skeleton.names}
        self.ends: dict[str, tuple[str, np.ndarray]] = {}  # {role: (joint, place (3,) [m] at rest)} that no joint has

    def limb(
        self, side: str, kind: str, vocabulary: Mapping[str, Sequence[str]], three: tuple[str, str, str]
    ) -> dict[str, str]:
        """Return {role: joint} of one limb, by words or else by geometry."""
        chain = self._chain(side, kind)
        if not chain:
            return {}
        found: dict[str, str] = {}
        for role in (*three, *(role for role in vocabulary if role not in three)):
            options = [name for name in chain if name not in found.values()] if role not in three else chain
            joint = self._named(options, vocabulary[role], last=role == three[2], bends=role == three[1])
            if joint is not None and joint not in found.values():
                found[role] = joint
        order = [chain.index(found[role]) for role in three if role in found]
        if kind == ARM and set(three[:2]) <= found.keys() and three[2] not in found and order == sorted(order):
            found |= self._without_wrist(chain, side, found[three[0]], found[three[1]])
        elif len(order) < 3 or order != sorted(order):
            found = self._longest(chain, three)
        if "clavicle" in found and (
            chain.index(found["clavicle"]) >= chain.index(found["shoulder"])
            or all(self.words[found[role]][1].startswith("shoulder") for role in ("clavicle", "shoulder"))
        ):
            del found["clavicle"]
        last = found.get(three[2])
        beyond = chain[chain.index(last) + 1 :] if last in chain else []
        for role in ("toe", "hand"):
            if role in vocabulary and found.get(role) not in beyond:
                found.pop(role, None)
                if beyond:
                    found[role] = beyond[0] if role == "hand" else beyond[-1]
        for role, joint in found.items():
            moving = self._mover(joint, NEAR * self._length(chain))
            if moving not in found.values():
                found[role] = moving
        if set(three[:2]) <= found.keys():
            found[three[0]] = self._carrier(chain, found[three[0]], found[three[1]])
        return found

    def _mover(self, joint: str, near: float) -> str:
        """Return the joint that moves a frame fixed to it at the same place, which carries no shapes; or itself."""
        name: str | None = joint
        while name is not None and np.linalg.norm(self.rest.position(name) - self.rest.position(joint)) <= near:
            if self.skeleton.joint(name).motion.dofs:
                return name
            name = self.parent[name]
        return joint

    def _carrier(self, chain: Sequence[str], upper: str, lower: str) -> str:
        """Return the last of the hinges from one joint of a limb to the next: it carries the bone between them."""
        between = chain[chain.index(upper) : chain.index(lower)]
        moving = [name for name in between if self.skeleton.joint(name).motion.dofs]
        end, near = self.rest.position(lower), NEAR * self._length(chain)
        moving = [name for name in moving if np.linalg.norm(self.rest.position(name) - end) > near]
        if moving and all(self._axis(name) is not None for name in moving):
            return moving[-1]
        return upper

    def _without_wrist(self, chain: Sequence[str], side: str, shoulder: str, elbow: str) -> dict[str, str]:
        """Return {"wrist": joint} of an arm without a wrist by name: its last joint, at the end of its forearm.

        Shapes show where that is, or else what is fixed to the forearm; where nothing does there is no wrist.
        """
        start = self.rest.position(elbow)
        below = {elbow, *self.skeleton.below(elbow)}
        points = [start[None]]
        for shape in self.skeleton.shapes:
            if shape.joint in below and shape.normal is None:
                points.append(self.rest.convert(shape.points, from_=shape.joint, to="world"))
        if len(points) == 1:
            ends = [site.name for site in self.skeleton.sites if site.joint in below]
            points.append(np.array([self.rest.position(name) for name in (*below, *ends)]))
        away = np.concatenate(points) - start
        far = away[int(np.linalg.norm(away, axis=1).argmax())]
        length = float(np.linalg.norm(far))
        if length <= FOREARM * np.linalg.norm(start - self.rest.position(shoulder)):
            return {}
        beyond = chain[chain.index(elbow) :]
        last = [name for name in beyond if name == elbow or self.skeleton.joint(name).motion.dofs][-1]
        along = away @ far / length
        if np.linalg.norm(self.rest.position(last) - start) < 0.5 * length:
            self.ends[f"wrist.{side}"] = last, start + away[along > (1.0 - END) * along.max()].mean(axis=0)
        return {"wrist": last}

    def _chain(self, side: str, kind: str) -> list[str]:
        """Return the joints of a limb from its first to its farthest leaf."""
        mine: list[str] = []
        told = {
            name for name, (where, word) in self.words.items()
            if where == side and any(limb in word for limb in _LIMB_WORDS[kind])
        }  # fmt: skip
        for name, (where, _) in self.words.items():  # parents come first; any joint may continue a limb
            parent = self.parent[name]
            goes_on = parent in mine and where == side and not told.intersection(self.children[parent])
            if name in told or (goes_on and self.skeleton.joint(name).motion.dofs):
                mine.append(name)
        if not mine:
            return []
        best: list[str] = []
        length = -1.0
        for name in mine:
            path = [joint for joint in self.skeleton.path_to(name) if joint in mine]
            places = [self.rest.position(joint) for joint in path]
            total = sum(float(np.linalg.norm(b - a)) for a, b in pairwise(places))
            thumb = 0.5 if any("thumb" in self.words[joint][1] for joint in path) else 1.0
            if total * thumb > length + 1e-9 or (len(path) > len(best) and total * thumb > length - 1e-9):
                best, length = path, total * thumb
        return best

    def _named(self, chain: Sequence[str], words: Iterable[str], last: bool = False, bends: bool = False) -> str | None:
        """Return the joint of a chain that one of the words names.

        last: a limb ends at the last of its hinges. bends: hinges that only twist the bone beyond are no elbow or knee.
        """
        for word in words:
            hits = [name for name in chain if self.words[name][1] == word]
            hits = hits or [
                name for name in chain if self.words[name][1].startswith(word) and word not in ("leg", "arm", "hip")
            ]
            hits = hits or [name for name in chain if word == "hip" and self.words[name][1].startswith("hip")]
            if hits:  # yaw, roll and pitch of one joint: the last one moves the bone
                size = self._length(chain)
                hinges = [name for name in hits if self.skeleton.joint(name).motion.size == 1]
                if last and hinges:
                    return hinges[-1]
                while len(hinges) == len(hits) > 1 and self._twists(hits[0], hits[1], size):
                    hits = hinges = hits[1:]
                while bends and len(hinges) == len(hits) > 1 and self._twists(hits[-1], chain[-1], size):
                    hits = hinges = hits[:-1]
                while len(hits) > 1 and self._in_the_middle(hits[0], size):
                    hits = hits[1:]  # LHipJoint, at the place of the pelvis, above LeftHip
                hinges = [name for name in hinges if name in hits]
                start = self.rest.position(hits[0])
                near = CLUSTER if len(hinges) == len(hits) else NEAR
                return [name for name in hits if np.linalg.norm(self.rest.position(name) - start) <= near * size][-1]
        return None

    def _in_the_middle(self, joint: str, size: float) -> bool:
        """Return whether a joint is at the place of its counterpart: it carries the limb and is not part of it."""
        side, word = self.words[joint]
        likes = [name for name, (other, said) in self.words.items() if other not in ("", side) and said == word]
        here = self.rest.position(joint)
        return any(float(np.linalg.norm(self.rest.position(name) - here)) < 1e-6 * size for name in likes)

    def _twists(self, joint: str, beyond: str, size: float) -> bool:
        """Return whether a hinge only twists the bone from it to a joint beyond, as a forearm's roll does."""
        axis, way = self._axis(joint), self.rest.position(beyond) - self.rest.position(joint)
        length = float(np.linalg.norm(way))
        return axis is not None and length > NEAR * size and abs(float(axis @ way)) > ALONG * length

    def centers(self, found: Mapping[str, str]) -> dict[str, np.ndarray]:
        """Return {role: (3,)} [m] for hips, shoulders, ankles and wrists made of two or three hinges."""
        out = {}
        for role, joint in found.items():
            kind = role.partition(".")[0]
            if kind not in ("hip", "shoulder", "ankle", "wrist"):
                continue
            if role in self.ends and self.ends[role][0] == joint:
                out[role] = self.ends[role][1]
                continue
            limb = "leg" if kind in ("hip", "ankle") else "arm"
            names = [n for r, n in found.items() if r.endswith(role[-2:]) and r.partition(".")[0] in _PARTS[limb]]
            size = self._length([n for n in self.skeleton.path_to(names[-1]) if self.words[n][0]] if names else [])
            lines = [(self.rest.position(joint), self._axis(joint))]
            above = self.parent[joint]
            while above is not None and above not in found.values() and len(lines) < 3:
                if self._apart(above, joint) > BALL * size:
                    break  # a collar, as of Talos: it carries the shoulder
                if self.skeleton.joint(above).motion.dofs:
                    lines.append((self.rest.position(above), self._axis(above)))
                above = self.parent[above]
            hinges = [(origin, axis) for origin, axis in lines if axis is not None]
            if len(hinges) == len(lines) > 1:
                out[role] = _meeting_point(hinges)
        for side in SIDES:
            for limb in _PARTS.values():
                three = [f"{role}.{side}" for role in limb]
                if found.keys() >= set(three):
                    out |= self._in_line(found, out, three)
        return out

    def _in_line(
        self, found: Mapping[str, str], centers: Mapping[str, np.ndarray], three: Sequence[str]
    ) -> dict[str, np.ndarray]:
        """Return {role: (3,)} [m] of a hip, and of a knee or elbow, that files put beside the line of their limb.

        Where along its axis the last hinge of a hip or that of a knee lies is up to a file's author: a hip is taken
        where it is straight above the ankle, a knee or an elbow between the ends of its limb.
        """
        first, middle, last = three
        at = {role: centers.get(role, self.rest.position(found[role])) for role in three}
        out = {}
        for role in (first, middle) if first.startswith("hip") else (middle,):
            axis = self._axis(found[role])
            if axis is None or (role == first and role not in centers):
                continue
            toward = at[last] if role == first else 0.5 * (out.get(first, at[first]) + at[last])
            away, length = float(axis @ (toward - at[role])), float(np.linalg.norm(at[first] - at[last]))
            if NEAR * length < abs(away) < 0.5 * length:  # beyond, the axis is along the limb
                out[role] = at[role] + away * axis
        return out

    def _apart(self, one: str, other: str) -> float:
        """Return the distance [m] of two joints; of their axes for hinges, which may lie anywhere along them."""
        way, a, b = self.rest.position(one) - self.rest.position(other), self._axis(one), self._axis(other)
        if a is None or b is None:
            return float(np.linalg.norm(way))
        normal = np.cross(a, b)
        if np.linalg.norm(normal) < PARALLEL:  # nearly parallel lines pass each other far away
            return float(np.linalg.norm(way - (way @ a) * a))
        return abs(float(way @ normal)) / float(np.linalg.norm(normal))

    def _axis(self, joint: str) -> np.ndarray | None:
        """Return the world axis (3,) of a hinge at rest; None for any other joint."""
        motion = self.skeleton.joint(joint).motion
        if not isinstance(motion, Revolute):
            return None
        return self.rest.rotation_matrix(joint) @ unit_axis(motion.axis)

    def _length(self, chain: Sequence[str]) -> float:
        places = [self.rest.position(name) for name in chain]
        return sum(float(np.linalg.norm(b - a)) for a, b in pairwise(places)) or 1.0

    def _longest(self, chain: list[str], three: tuple[str, str, str]) -> dict[str, str]:
        """Return the three joints at the ends of a limb's longest two consecutive bones."""
        size = self._length(chain)
        groups: list[list[str]] = []
        for name in chain:
            if groups and np.linalg.norm(self.rest.position(name) - self.rest.position(groups[-1][0])) <= NEAR * size:
                groups[-1].append(name)
            else:
                groups.append([name])
        if len(groups) < 3:
            return {}
        places = [self.rest.position(group[0]) for group in groups]
        bones = [float(np.linalg.norm(b - a)) for a, b in pairwise(places)]
        i = int(np.argmax([a + b for a, b in pairwise(bones)]))
        return {three[0]: groups[i][-1], three[1]: groups[i + 1][-1], three[2]: groups[i + 2][-1]}

    def trunk(self, found: Mapping[str, str]) -> dict[str, str]:
        """Return {role: joint} of pelvis, chest, neck and head: where the limbs meet, and what is above."""
        out = {"pelvis": self._meeting(found["hip.L"], found["hip.R"])}
        arms = [found.get(f"clavicle.{s}") or found.get(f"shoulder.{s}") for s in SIDES]
        if arms[0] and arms[1]:
            out["chest"] = self._meeting(arms[0], arms[1])
        neck = [name for name, (_, word) in self.words.items() if any(w in word for w in _NECK_WORDS)]
        head = [  # also "CC_Base_Head"; what hangs on it, such as a forehead, comes later
            name for name, (_, word) in self.words.items() if word.startswith(_HEAD_WORDS) or word.endswith(_HEAD_WORDS)
        ]
        head = [name for name in head if self.skeleton.joint(name).motion.dofs] or head
        neck, head = ([name for name in names if not self._below_shoulders(name, found)] for names in (neck, head))
        if neck or head:
            chain = self.skeleton.path_to((head or neck)[0])
            out["neck"] = neck[0] if neck else (head[0])
            out["head"] = self._last_place(head, chain) if head else neck[-1]
        return out

    def _below_shoulders(self, joint: str, found: Mapping[str, str]) -> bool:
        """Return whether a joint is clearly below the shoulders: a link called head may begin at the trunk's origin."""
        if not all(f"shoulder.{side}" in found for side in SIDES):
            return False
        hips, shoulders = (
            0.5 * (self.rest.position(found[f"{role}.L"]) + self.rest.position(found[f"{role}.R"]))
            for role in ("hip", "shoulder")
        )
        along = shoulders - hips
        return float((self.rest.position(joint) - shoulders) @ along) < -BELOW * float(along @ along)

    def _last_place(self, head: Sequence[str], chain: Sequence[str]) -> str:
        """Return the last of the head's joints at the place of its first (yaw, pitch and roll of one neck)."""
        start = self.rest.position(head[0])
        size = max(self._length(chain), 1e-9)
        return [name for name in head if np.linalg.norm(self.rest.position(name) - start) <= NEAR * size][-1]

    def _meeting(self, a: str, b: str) -> str:
        """Return the last common ancestor of two joints."""
        common = [
            x for x, y in zip(self.skeleton.path_to(a)[:-1], self.skeleton.path_to(b)[:-1], strict=False) if x == y
        ]
        return common[-1] if common else self.skeleton.names[0]


ACROSS, ALONG = 0.5, 0.8  # cosines of limbs that point across the trunk, and as each other


@per_figure
def person_plan(skeleton: Skeleton) -> BodyPlan | None:
    """Return the body plan of a person; None for other figures.

    A person has a head, two arms and two legs, a free root, and ball joints as hips and shoulders. A humanoid robot has
    one motor per axis instead.
    """
    if skeleton.free_root is None or sum(map(_is_ball, skeleton.joints)) < 4:  # most robots, before forward kinematics
        return None
    try:
        plan = body_plan(skeleton)
    except PosableError:
        return None
    if "head" not in plan:
        return None
    for role in ("hip", "shoulder"):
        for side in SIDES:
            name = f"{role}.{side}"
            if name not in plan or not _is_ball(skeleton.joint(plan[name])):
                return None
    return None if _has_four_legs(plan) else plan


def _has_four_legs(plan: BodyPlan) -> bool:
    """Return whether the arms of a figure are forelegs: at rest they point as the legs do, across the trunk."""
    if not {"wrist.L", "wrist.R", "ankle.L", "ankle.R"} <= set(plan.roles):
        return False
    hips, shoulders, ankles, wrists = (
        np.sum([plan.rest.position(plan[f"{role}.{side}"]) for side in SIDES], axis=0)
        for role in ("hip", "shoulder", "ankle", "wrist")
    )
    trunk, leg, arm = shoulders - hips, ankles - hips, wrists - shoulders
    across = abs(trunk @ leg) < ACROSS * np.linalg.norm(trunk) * np.linalg.norm(leg)
    return bool(across and arm @ leg > ALONG * np.linalg.norm(arm) * np.linalg.norm(leg))


def _is_ball(joint: Joint) -> bool:
    """Return whether a joint only turns, in any direction; character files add frozen translations to such joints."""
    frozen = frozen_of(joint)
    held = isinstance(joint.motion, Free) and frozen is not None and bool(frozen[:3].all())
    return isinstance(joint.motion, Ball) or held
