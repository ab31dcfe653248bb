"""The built-in figures by name: `posable.figures.human()`, or `posable.figures.get("human")`.

A figure is a function that returns a Skeleton, decorated with its name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from math import pi
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posable.errors import SkeletonError, did_you_mean
from posable.model.joints import (
    Ball,
    Free,
    Joint,
    JointMotion,
    Revolute,
    Site,
    Universal,
    floats_of,
    rotation_about,
    unit_axis,
)
from posable.model.skeleton import Skeleton
from posable.registry import Registry

FIGURES = Registry("figure")


def names() -> tuple[str, ...]:
    """Return the names of all figures."""
    return FIGURES.names()


def get(name: str, **options: Any) -> Skeleton:
    """Return a built-in figure.

    Args:
        name: One of `names()`.
        **options: Arguments of the figure's function.

    Raises:
        UnknownName: With the closest name.
    """
    return FIGURES.get(name)(**options)


# --- The human: tables of anatomy, and the skeleton made from them. The right side mirrors the left. ---

STATURE = 1.80  # [m]
SCAPULAR_PLANE = -40.0  # [deg] about y, left: forward of the plane of the body
WIDE = 720.0  # [deg] the root may turn twice in either direction
ROOM = 10.0  # [m] half the width of the space of the root

_THIGH, _SHANK, _SOLE = 0.441, 0.443, 0.070  # [m] the last is the height of the ankle above the sole
_UPPER_ARM, _FOREARM = 0.335, 0.263  # [m]
_HIP_DROP = 0.026  # [m] from the pelvis down to the hips
# At rest the knees are slightly bent, the feet flat, and the centre of mass is in front of the ankles.
_THIGH_LEAN, _SHANK_LEAN = 2.0, 6.0  # [deg] upper end of the thigh backward, of the shank forward
PELVIS_HEIGHT = (  # [m] at rest
    _HIP_DROP + _THIGH * math.cos(math.radians(_THIGH_LEAN)) + _SHANK * math.cos(math.radians(_SHANK_LEAN)) + _SOLE
)


class Segment(NamedTuple):
    """A joint and its bone. A name without a side stands for the left (.L) and its mirror image (.R)."""

    name: str
    parent: str | None
    motion: JointMotion
    offset: tuple[float, float, float]  # [m] in the parent's frame
    limits: tuple[tuple[float, float], ...]  # [deg], root: [m] and [deg]
    rest: tuple[float, ...]  # likewise
    mass: float = 0.0  # [%] of the body's
    center: tuple[float, float, float] = (0.0, 0.0, 0.0)  # [m] in the joint's frame
    turn: float = 0.0  # [deg] about y, against the parent's frame


class Place(NamedTuple):
    """A site: a point [m] in a joint's frame and, if not those of the joint, its axes x, y, z as columns by rows."""

    name: str
    joint: str
    offset: tuple[float, float, float]
    rotation: tuple[tuple[float, ...], ...] | None = None


# fmt: off
# Balls bend forward and backward first (x; + is forward in spine and neck), then sideways (z), and twist last (y).
MIDDLE = (
    Segment("root", None, Free("yzx"), (0, 0, 0), ((-ROOM, ROOM),) * 3 + ((-WIDE, WIDE),) * 3,
            (0, PELVIS_HEIGHT, 0, 0, 0, 0), 11.17, (0, 0.01, -0.01)),
    Segment("spine1", "root", Ball("xzy"), (0, 0.075, -0.035), ((-18, 40), (-20, 20), (-10, 10)), (0, 0, 0),  # L5/S1
            16.33, (0, 0.08, 0.035)),
    Segment("spine2", "spine1", Ball("xzy"), (0, 0.150, -0.015), ((-15, 30), (-18, 18), (-18, 18)), (0, 0, 0),  # T12/L1
            7.00, (0, 0.07, 0.045)),
    Segment("spine3", "spine2", Ball("xzy"), (0, 0.160, -0.020), ((-12, 20), (-14, 14), (-22, 22)), (0, 0, 0),  # T6/T7
            8.96, (0, 0.07, 0.05)),
    Segment("neck", "spine3", Ball("xzy"), (0, 0.155, 0.015), ((-35, 35), (-30, 30), (-35, 35)), (0, 0, 0),  # C7/T1
            1.10, (0, 0.055, 0.015)),
    Segment("skull", "neck", Ball("xzy"), (0, 0.110, 0.030), ((-30, 25), (-15, 15), (-45, 45)), (0, 0, 0),  # C0/C1
            5.84, (0, 0.07, 0.02)),
)

# In the arm, y points back to the shoulder, z to the thumb, x out of the back of the hand. Hinges flex positively.
LEFT = (
    Segment("clavicle", "spine3", Universal("yz"), (0.025, 0.105, 0.110), ((-28, 22), (-8, 38)), (0, 0)),
    Segment("shoulder", "clavicle", Ball("zxy"), (0.155, 0.002, -0.055), ((-45, 160), (-75, 55), (-55, 120)),
            (14, 2, 22), 2.71, (0, -0.193, 0), turn=SCAPULAR_PLANE),
    Segment("elbow", "shoulder", Revolute("-x"), (0, -_UPPER_ARM, 0), ((0, 150),), (20,), 1.62, (0, -0.120, 0)),
    Segment("wrist", "elbow", Ball("yxz"), (0, -_FOREARM, 0), ((-85, 85), (-22, 32), (-75, 70)), (-12, 0, 0),
            0.41, (0, -0.055, 0)),
    Segment("index1", "wrist", Revolute("-z"), (0, -0.094, 0.026), ((-20, 90),), (18,), 0.03, (0, -0.022, 0)),
    Segment("index2", "index1", Revolute("-z"), (0, -0.045, 0), ((-2, 105),), (22,), 0.02, (0, -0.022, 0)),
    Segment("fingers1", "wrist", Revolute("-z"), (0, -0.092, -0.012), ((-20, 90),), (22,), 0.07, (0, -0.024, 0)),
    Segment("fingers2", "fingers1", Revolute("-z"), (0, -0.047, 0), ((-2, 105),), (26,), 0.04, (0, -0.025, 0)),
    Segment("thumb1", "wrist", Universal("xz"), (-0.010, -0.022, 0.026), ((-15, 40), (-50, 10)), (5, -10),
            0.02, (-0.005, -0.018, 0.014)),
    Segment("thumb2", "thumb1", Revolute("x"), (-0.010, -0.036, 0.028), ((-10, 60),), (12,),
            0.01, (-0.003, -0.014, 0.009)),
    Segment("thumb3", "thumb2", Revolute("x"), (-0.006, -0.028, 0.018), ((-15, 85),), (12,),
            0.01, (-0.002, -0.012, 0.007)),
    Segment("hip", "root", Ball("xzy"), (0.088, -_HIP_DROP, 0), ((-125, 25), (-30, 55), (-45, 50)),
            (-_THIGH_LEAN, 0, 0), 14.16, (0, -0.181, 0)),
    Segment("knee", "hip", Revolute("x"), (0, -_THIGH, 0), ((0, 150),), (_THIGH_LEAN + _SHANK_LEAN,),
            4.33, (0, -0.197, 0)),
    Segment("ankle", "knee", Ball("xyz"), (0, -_SHANK, 0), ((-28, 50), (-22, 28), (-32, 22)), (-_SHANK_LEAN, 0, 0),
            1.20, (0, -0.040, 0.045)),
    Segment("toes", "ankle", Revolute("-x"), (0, -0.052, 0.135), ((-35, 65),), (0,), 0.17, (0, -0.005, 0.030)),
)

# The z of a site points forward and its y up. For a hand, z points along the fingers, y out of the back of the hand.
_ALONG_FINGERS = ((0, 1, 0), (0, 0, -1), (-1, 0, 0))
MIDDLE_SITES = (
    Place("pelvis", "root", (0, 0, 0)),
    Place("head", "skull", (0, 0.055, 0.090)),  # between the eyes
    Place("crown", "skull", (0, 0.170, 0.010)),
)
LEFT_SITES = (
    Place("hand", "wrist", (0, -0.075, 0), _ALONG_FINGERS),  # the middle of the palm
    Place("fingertip", "index2", (0, -0.047, 0), _ALONG_FINGERS),
    Place("thumbtip", "thumb3", (-0.004, -0.024, 0.014), _ALONG_FINGERS),
    Place("forearm", "elbow", (0, -0.1315, 0), _ALONG_FINGERS),
    Place("foot", "ankle", (0, -_SOLE, 0)),  # on the sole, under the ankle
    Place("heel", "ankle", (0, -_SOLE, -0.065)),
    Place("toe", "toes", (0, -0.018, 0.074)),
)

# Markers on the skin. One of HDM05's, RBAC, is on the right shoulder blade only, to distinguish the sides.
MIDDLE_MARKERS = (
    Place("C7", "spine3", (0, 0.165, -0.030)),
    Place("T10", "spine2", (0, 0.075, -0.060)),
    Place("CLAV", "spine3", (0, 0.090, 0.140)),
    Place("STRN", "spine3", (0, -0.055, 0.175)),
    Place("RBAC", "spine3", (-0.095, 0.030, -0.055)),
)
LEFT_MARKERS = (
    Place("FHD", "skull", (0.070, 0.095, 0.085)),
    Place("BHD", "skull", (0.065, 0.075, -0.075)),
    Place("SHO", "clavicle", (0.145, 0.060, -0.055)),
    Place("UPA", "shoulder", (0.050, -0.180, 0)),
    Place("ELB", "shoulder", (0.045, -_UPPER_ARM, 0)),
    Place("FRM", "elbow", (0.040, -0.130, 0)),
    Place("WRA", "wrist", (0.022, 0.016, 0.036)),
    Place("WRB", "wrist", (0.022, 0.016, -0.036)),
    Place("FIN", "wrist", (0.016, -0.085, 0.010)),
    Place("FWT", "root", (0.130, 0.055, 0.095)),
    Place("BWT", "root", (0.115, 0.050, -0.110)),
    Place("THI", "hip", (0.080, -0.230, 0.010)),
    Place("KNE", "hip", (0.058, -_THIGH, 0)),
    Place("SHN", "knee", (0.050, -0.200, -0.010)),
    Place("ANK", "knee", (0.042, -0.430, -0.010)),
    Place("HEE", "ankle", (0, -0.032, -0.065)),
    Place("TOE", "ankle", (-0.012, -0.025, 0.135)),
    Place("MT5", "ankle", (0.045, -0.040, 0.110)),
)
# The order of the C3D files.
HDM05_MARKERS = (
    "LFHD", "RFHD", "LBHD", "RBHD", "C7", "T10", "CLAV", "STRN", "RBAC",
    "LSHO", "LUPA", "LELB", "LFRM", "LWRA", "LWRB", "LFIN", "RSHO", "RUPA", "RELB", "RFRM", "RWRA", "RWRB", "RFIN",
    "LFWT", "RFWT", "LBWT", "RBWT",
    "LTHI", "LKNE", "LSHN", "LANK", "LHEE", "LTOE", "LMT5", "RTHI", "RKNE", "RSHN", "RANK", "RHEE", "RTOE", "RMT5",
)
# fmt: on


MIRROR = np.diag([-1.0, 1.0, 1.0])  # of points and of frames, across the plane x = 0
_SIDED = {segment.name for segment in LEFT}


@FIGURES.register("human")
def human(*, height: float = STATURE, mass: float = 75.0) -> Skeleton:
    """Return a person with 71 degrees of freedom, all with limits, and a mass on every bone; y up, facing z.

    In the rest pose the person stands on the ground y = 0 with the left side at +x, the arms hanging slightly away from
    the body, elbows and knees slightly bent.

    Joints: root (free), spine1, spine2, spine3, neck, skull, and with .L or .R: clavicle, shoulder, elbow, wrist (with
    the forearm's twist), index1, index2, fingers1, fingers2 (three fingers as one), thumb1, thumb2, thumb3, hip, knee,
    ankle, toes. Hinges bend the same way on both sides; the y and z angles of other joints have opposite signs.

    Sites: pelvis, head (between the eyes), crown, and with .L or .R: hand, fingertip, thumbtip, forearm, foot (on the
    sole, under the ankle), heel, toe, with z forward and y up: along the gaze and to the crown, to the toes and out of
    the instep, along the fingers and out of the back of the hand. Then the 41 markers of HDM05, LFHD to RMT5.

    Args:
        height: [m] Scales all lengths.
        mass: [kg] Scales all masses.
    """
    if not (0.0 < height < math.inf and 0.0 < mass < math.inf):
        raise SkeletonError(f"height [m] and mass [kg]: expected positive numbers, got {height!r} and {mass!r}")
    scale = height / STATURE
    joints = [_joint(row, "", scale, mass) for row in MIDDLE]
    joints += [_joint(row, side, scale, mass) for side in (".L", ".R") for row in LEFT]
    sites = [_site(row, row.name, "", scale) for row in MIDDLE_SITES]
    sites += [_site(row, row.name + side, side, scale) for side in (".L", ".R") for row in LEFT_SITES]
    markers = [_site(row, row.name, "", scale) for row in MIDDLE_MARKERS]
    markers += [_site(row, side[1] + row.name, side, scale) for side in (".L", ".R") for row in LEFT_MARKERS]
    markers.sort(key=lambda site: HDM05_MARKERS.index(site.name))
    return Skeleton(joints, sites + markers, "human", up="y")


def _sided(name: str | None, side: str) -> str | None:
    return f"{name}{side}" if name in _SIDED else name


def _joint(row: Segment, side: str, scale: float, mass: float) -> Joint:
    """Return the joint of a row, on a side, at a scale of the lengths."""
    mirrored = side == ".R"
    limits, rest = np.array(row.limits, dtype=float), np.array(row.rest, dtype=float)
    if mirrored:
        signs = _mirrored_signs(row.motion)
        limits, rest = np.sort(limits * signs[:, None], axis=1), rest * signs
    angles = slice(3, None) if row.parent is None else slice(None)
    limits[angles], rest[angles] = np.radians(limits[angles]), np.radians(rest[angles])
    if row.parent is None:
        rest[:3] *= scale
    flip = MIRROR if mirrored else np.eye(3)
    turn = rotation_about(1, np.radians(row.turn))
    return Joint(
        row.name + side,
        _mirrored_motion(row.motion) if mirrored else row.motion,
        _sided(row.parent, side),
        offset=flip @ row.offset * scale,
        rotation=flip @ turn @ flip if row.turn else None,
        limits=limits,
        rest=rest,
        mass=mass * row.mass / 100.0,
        center=flip @ row.center * scale,
    )


def _site(row: Place, name: str, side: str, scale: float) -> Site:
    """Return the site of a row, on a side, at a scale of the lengths."""
    flip = MIRROR if side == ".R" else np.eye(3)
    rotation = None if row.rotation is None else flip @ np.array(row.rotation, dtype=float) @ flip
    joint = _sided(row.joint, side) or row.joint
    return Site(name, joint, flip @ row.offset * scale, rotation)


def _mirrored_motion(motion: JointMotion) -> JointMotion:
    """Return the motion of the mirror image: a mirrored hinge turns the same way about the mirrored axis."""
    if isinstance(motion, Revolute):
        return Revolute(tuple(-MIRROR @ unit_axis(motion.axis)))
    return motion


def _mirrored_signs(motion: JointMotion) -> np.ndarray:
    """Return the sign (k,) of each angle in the mirror image: minus about y and z, because these axes are kept."""
    if isinstance(motion, Revolute):
        return np.ones(1)
    return np.array([1.0 if dof.axis == 0 else -1.0 for dof in motion.dofs])


# --- Arms: Tolani et al.'s (2000) limb, Parent's planar arm, and the Franka Emika Panda ---


@FIGURES.register("limb")
def limb() -> Skeleton:
    """Return the limb of figure 1 of Tolani et al. (2000), 7 dofs: joints shoulder, elbow and wrist; site hand.

    At the zero pose it lies straight along x, 0.30 m, 0.25 m and 0.10 m long, and the elbow turns about y. The shoulder
    twists last and the wrist first, about the limb's own axis; the angles stay clear of where they degenerate.
    The hand's frame is the wrist's: x points along the fingers.
    """
    joints = [
        Joint("shoulder", Ball("zyx"), limits=np.radians([(-130, 130), (-80, 80), (-100, 100)]), rest=(0.0, 0.5, 0.0)),
        Joint("elbow", Revolute("y"), "shoulder", offset=(0.30, 0, 0), limits=np.radians((0, 150)), rest=0.8),
        Joint("wrist", Ball("xzy"), "elbow", offset=(0.25, 0, 0), limits=np.radians([(-90, 90), (-35, 35), (-75, 75)])),
    ]
    return Skeleton(joints, [Site("hand", "wrist", (0.10, 0, 0))], "limb", up="z")


@FIGURES.register("planar_arm")
def planar_arm(lengths: Sequence[float] = (15, 10, 5), *, limits: Any = None, rest: Any = 0.0) -> Skeleton:
    """Return an arm in the plane z = 0: hinges joint1, joint2, ... about z, links [m] along x, site "tip".

    Args:
        lengths: (k,) [m]; by default those of Parent's worked example.
        limits: None for free turning, one (lower, upper) [rad] for all joints, or (k, 2).
        rest: One angle [rad] for all joints, or (k,).
    """
    given = floats_of(lengths)
    links = np.atleast_1d(np.nan if given is None else given)
    k = links.size
    if links.ndim != 1 or k == 0 or not np.all(np.isfinite(links) & (links > 0.0)):
        raise SkeletonError(f"lengths: expected one positive number [m] per link, got {lengths!r}", name="planar_arm")
    try:
        box = np.broadcast_to(np.array((-np.inf, np.inf) if limits is None else limits, dtype=float), (k, 2))
        rests = np.broadcast_to(np.array(rest, dtype=float), (k,))
    except ValueError:
        raise SkeletonError(
            f"expected limits (lower, upper) or ({k}, 2) and rest a number or ({k},), got {limits!r} and {rest!r}",
            name="planar_arm",
        ) from None
    starts = [0.0, *links[:-1]]
    joints = [
        Joint(
            f"joint{i + 1}",
            Revolute("z"),
            f"joint{i}" if i else None,
            offset=(starts[i], 0.0, 0.0),
            limits=tuple(box[i]),
            rest=float(rests[i]),
        )
        for i in range(k)
    ]
    return Skeleton(joints, [Site("tip", f"joint{k}", (links[-1], 0.0, 0.0))], "planar_arm")


# The maker's table of modified Denavit-Hartenberg parameters, limits, and ready pose:
#    a [m]     alpha [rad]  d [m]  lower, upper [rad]  ready [rad]
PANDA = (
    (0.0,      0.0,     0.333,  -2.8973,  2.8973,   0.0),
    (0.0,     -pi / 2,  0.0,    -1.7628,  1.7628,  -pi / 4),
    (0.0,      pi / 2,  0.316,  -2.8973,  2.8973,   0.0),
    (0.0825,   pi / 2,  0.0,    -3.0718, -0.0698,  -3 * pi / 4),
    (-0.0825, -pi / 2,  0.384,  -2.8973,  2.8973,   0.0),
    (0.0,      pi / 2,  0.0,    -0.0175,  3.7525,   pi / 2),
    (0.088,    pi / 2,  0.0,    -2.8973,  2.8973,   pi / 4),
)  # fmt: skip
PANDA_FLANGE = 0.107  # [m] from the last joint's frame along its z
PANDA_GRASP = 0.1034  # [m] from the hand's frame along its z to between the fingertips


@FIGURES.register("panda")
def panda() -> Skeleton:
    """Return the Franka Emika Panda arm: panda_joint1 ... panda_joint7, at rest in its ready pose, z up.

    Sites: flange (panda_link8), hand (panda_hand: the flange turned by -45 degrees about z), tcp (between the fingers).
    """
    from posable.model.dh import from_dh

    table = np.array(PANDA)
    rows = [(a, alpha, d, 0.0) for a, alpha, d in table[:, :3]]
    names = [f"panda_joint{i + 1}" for i in range(len(rows))]
    arm = from_dh(rows, "modified", limits=table[:, 3:5], names=names, name="panda")
    joints = [replace(joint, rest=float(rest)) for joint, rest in zip(arm.joints, table[:, 5], strict=True)]
    hand = rotation_about(2, -pi / 4)
    sites = [
        Site("flange", names[-1], (0.0, 0.0, PANDA_FLANGE)),
        Site("hand", names[-1], (0.0, 0.0, PANDA_FLANGE), hand),
        Site("tcp", names[-1], (0.0, 0.0, PANDA_FLANGE + PANDA_GRASP), hand),
    ]
    return arm.replace(joints=joints, sites=sites, up="z")


# --- Branching figures: a spider, and Rabbani's (2017) abstract tree ---

SPIDER_BODY = 0.10  # [m] radius at which the legs begin
SPIDER_LEG = (0.15, 0.20, 0.20)  # [m] hip to knee, knee to ankle, ankle to foot
SPIDER_STANCE = np.radians((40.0, -80.0, -35.0))  # [rad] lift of the hip, bend of knee and ankle, at rest
SPIDER_HEADINGS = (45, 15, -15, -45)  # [deg] forward of straight left, of the left legs from front to back


@FIGURES.register("spider")
def spider() -> Skeleton:
    """Return a spider of 38 degrees of freedom: eight legs on a free body, every joint with limits, y up, z forward.

    Each leg has a hip (turn about y, lift about z), a knee and an ankle that bend about z; its frame's x points away
    from the body. Legs 1 to 4 are the left ones (+x) from front to back, 5 to 8 the right ones. Sites: body, and
    foot.1 ... foot.8, which stand on the ground y = 0 at rest.
    """
    drop = float(np.dot(SPIDER_LEG, np.sin(np.cumsum(SPIDER_STANCE))))
    joints = [
        Joint("root", Free("yzx"), limits=[(-10.0, 10.0)] * 3 + [(-4 * np.pi, 4 * np.pi)] * 3,
              rest=(0.0, -drop, 0.0, 0.0, 0.0, 0.0), mass=1.0)
    ]  # fmt: skip
    sites = [Site("body", "root")]
    turns = [-heading for heading in SPIDER_HEADINGS] + [180 + heading for heading in SPIDER_HEADINGS]
    for leg, turn in enumerate(turns, start=1):
        joints += _spider_leg(leg, rotation_about(1, np.radians(turn)))
        sites.append(Site(f"foot.{leg}", f"ankle.{leg}", (SPIDER_LEG[2], 0.0, 0.0)))
    return Skeleton(joints, sites, "spider", up="y")


def _spider_leg(leg: int, outward: np.ndarray) -> list[Joint]:
    upper, middle, lower = SPIDER_LEG
    lift, knee, ankle = SPIDER_STANCE
    return [
        Joint(f"hip.{leg}", Universal("yz"), "root", offset=outward @ (SPIDER_BODY, 0.0, 0.0), rotation=outward,
              limits=np.radians([(-50, 50), (-40, 80)]), rest=(0.0, lift), mass=0.03, center=(upper / 2, 0.0, 0.0)),
        Joint(f"knee.{leg}", Revolute("z"), f"hip.{leg}", offset=(upper, 0.0, 0.0), limits=np.radians((-140, 5)),
              rest=knee, mass=0.02, center=(middle / 2, 0.0, 0.0)),
        Joint(f"ankle.{leg}", Revolute("z"), f"knee.{leg}", offset=(middle, 0.0, 0.0), limits=np.radians((-100, 30)),
              rest=ankle, mass=0.01, center=(lower / 2, 0.0, 0.0)),
    ]  # fmt: skip


# joint: its parent, its offset from there [m], and, for the last joint of a branch, the offset of its end site.
TREE = (
    ("joint1", "root", (0.0, 0.4, 0.0), None),
    ("joint2", "joint1", (0.1, 0.4, 0.1), None),
    ("joint3", "joint1", (-0.3, 0.2, 0.0), (-0.3, 0.1, 0.1)),
    ("joint4", "joint1", (0.2, 0.1, -0.3), (0.1, 0.2, -0.2)),
    ("joint5", "joint2", (0.3, 0.2, 0.0), (0.3, 0.0, 0.1)),
    ("joint6", "joint2", (-0.1, 0.3, 0.0), (0.0, 0.3, -0.1)),
    ("joint7", "joint2", (0.0, 0.1, 0.3), (0.1, 0.1, 0.3)),
    ("joint8", "root", (-0.2, -0.3, 0.1), (-0.1, -0.3, 0.0)),
)


@FIGURES.register("tree")
def tree() -> Skeleton:
    """Return the model of figure 1 of Rabbani (2017): 30 dofs, floating base, 8 spherical joints, 6 end sites.

    Joints root and joint1 ... joint8, no limits; sites end1 ... end6.
    """
    joints = [Joint("root", Free("xyz"))]
    joints += [Joint(name, Ball("xyz"), parent, offset=offset) for name, parent, offset, _ in TREE]
    ends = [(name, end) for name, _, _, end in TREE if end is not None]
    sites = [Site(f"end{i}", name, end) for i, (name, end) in enumerate(ends, start=1)]
    return Skeleton(joints, sites, "tree", up="y")


if not TYPE_CHECKING:
    __all__ = ["FIGURES", "get", "names", *FIGURES.names()]  # noqa: PLE0604

    def __getattr__(name: str) -> Any:
        raise AttributeError(f"module 'posable.figures' has no attribute {name!r}{did_you_mean(name, __all__)}")
