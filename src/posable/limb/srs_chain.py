"""The spherical-revolute-spherical chain of a limb: how it is found in a figure, and its constants as flat arrays.

A limb is a ball joint, a hinge and a ball joint, each on the bone of the previous one (Tolani et al. 2000, 3.1): T1, A,
Ty, B and T2 of equation (3), and the constant E of section 3.3 from the last joint to the site.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from posable.engine.joints import ROTVEC, SWING, TURN
from posable.engine.layout import AXIS, FIRST, KIND, LAST, PARENT
from posable.errors import SkeletonError
from posable.model.skeleton import Skeleton

# Kinds of ball joints: three different axes, the first axis repeated, a rotation vector, swing and twist
TAIT_BRYAN, PROPER, VECTOR, SWING_TWIST = 0, 1, 2, 3

# Slices of the constant transforms, at the head of SrsChain.constants
UPPER = 0  # 3 [m]: from the first joint to the middle one, in the first body (t_a)
UPPER_TURN = 3  # 9: the middle joint's rest frame in the first body, by rows (R_a)
LOWER = 12  # 3 [m]: from the middle joint to the last one, in the middle body (t_b)
LOWER_TURN = 15  # 9: the last joint's rest frame in the middle body (R_b)
TOOL = 24  # 3 [m]: from the last joint to the site, in the last body (t_e)
TOOL_TURN = 27  # 9: the site's frame in the last body (R_e)
BACK = 36  # 3 [m]: t_a in the middle joint's rest frame

# The blocks of SrsChain.constants: PLACE is the slices above
SENSE = 39  # (2, 6): the signs that go with F, YA, XA, YC, XC of each ball joint, and with the sine of its last angle
BOX = 51  # (7, 2) [rad]: raw limits
WIDE = 65  # (7, 2): no limits
ARC = 79  # (7, 8): the limits as arcs, see the columns below
REST = 135  # (7,) [rad]: raw rest values
SIGN = 142  # (7,)
CONSTANTS = 149

# Columns of SrsChain.shape, for a ball joint
BALL, F, YA, XA, YC, XC, I, J, K = 0, 1, 2, 3, 4, 5, 6, 7, 8
# Columns of ARC: sines and cosines of both limits, of the middle, and of half the width; FULL: no limit at all
SIN_LO, COS_LO, SIN_HI, COS_HI, COS_MID, SIN_MID, COS_HALF, FULL = 0, 1, 2, 3, 4, 5, 6, 7


class SrsChain(NamedTuple):
    """The constants of a limb. Its seven values: 0..2 the first joint, 3 the middle one, 4..6 the last one.

    The values are raw, positive about the positive axis; SIGN converts them to the figure's. Kernels take two flat
    arrays instead of a tuple of many because that compiles in a fraction of the time.
    """

    constants: np.ndarray  # (CONSTANTS,) float64
    # (3, 9) int64: a row per ball joint: BALL kind; where in R the sine of the middle angle (F) and the sines and
    # cosines of the outer ones (YA, XA, YC, XC) are; the axes I, J, K. Row 2: the hinge's axis
    shape: np.ndarray

    @property
    def place(self) -> np.ndarray:
        """(39,) [m, 1]: the constant transforms."""
        return self.constants[:SENSE]

    @property
    def box(self) -> np.ndarray:
        """(7, 2) [rad]: raw limits."""
        return self.constants[BOX:WIDE].reshape(7, 2)

    @property
    def sign(self) -> np.ndarray:
        """(7,): from raw values to the figure's."""
        return self.constants[SIGN:]

    def with_tool(self, offset: np.ndarray, rotation: np.ndarray) -> SrsChain:
        """Return the same limb with the site at another offset (3,) [m] and rotation (3, 3) in the last body."""
        place = self.place.copy()
        place[TOOL : TOOL + 3], place[TOOL_TURN : TOOL_TURN + 9] = offset, rotation.ravel()
        return pack(place, self.constants[SENSE:BOX], self.box, self.constants[REST:SIGN], self.sign, self.shape)

    def with_box(self, box: np.ndarray) -> SrsChain:
        """Return the same limb with other raw limits (7, 2)."""
        return pack(self.place, self.constants[SENSE:BOX], box, self.constants[REST:SIGN], self.sign, self.shape)


def pack(place, sense, box, rest, sign, shape) -> SrsChain:
    """Pack the constants of a limb into read-only arrays, the type that the kernels are compiled for."""
    wide = np.tile([-np.inf, np.inf], 7)
    constants = np.concatenate([place, np.ravel(sense), box.ravel(), wide, arcs_of(box).ravel(), rest, sign])
    constants.flags.writeable = shape.flags.writeable = False
    return SrsChain(constants, shape)


def euler_layout(i: int, j: int, k: int) -> tuple[list[int], list[float]]:
    """Return the row of `shape` and of `sense` of an Euler joint R = R_i(a) R_j(b) R_k(c).

    different  R_ik = e sin b, R_jk = -e sin a cos b, R_kk = cos a cos b, R_ij = -e cos b sin c, R_ii = cos b cos c
    repeated   R_ii = cos b, R_ji = sin a sin b, R_li = -e cos a sin b, R_ij = sin b sin c, R_il = e sin b cos c
    where e is 1 for a cyclic order of the axes and -1 otherwise: the first two forms of Tolani et al. 2000, 3.2.4.
    """
    third = 3 - j - k
    last = -1.0 if j == (k + 1) % 3 else 1.0
    e = 1.0 if j == (i + 1) % 3 else -1.0
    if i != k:
        at = [(i, k), (j, k), (k, k), (i, j), (i, i)]
        kind, sense = TAIT_BRYAN, [e, -e, 1.0, -e, 1.0]
    else:
        at = [(i, i), (j, i), (third, i), (i, j), (i, third)]
        kind, sense = PROPER, [1.0, 1.0, -e, 1.0, e]
    return [kind, *(3 * row + column for row, column in at), i, j, k], [*sense, last]


def find_limb(skeleton: Skeleton, first: str, middle: str, last: str, site: str) -> tuple[SrsChain, np.ndarray]:
    """Return the chain of a limb and its bodies (3,); raise SkeletonError if the joints do not form one."""
    names = (first, middle, last)
    slices = [skeleton.index(name) for name in names]  # raises for an unknown joint
    row = skeleton.frame(site)
    figure = skeleton.figure
    findings = []
    for name, what in zip(names, ("ball", "hinge", "ball"), strict=True):
        kinds = [element.kind for element in skeleton.joint(name).motion.dofs]
        good = [[TURN]] if what == "hinge" else [[TURN] * 3, [ROTVEC, 4, 4], [SWING, 4, TURN]]
        if kinds not in good:
            motion = "Revolute" if what == "hinge" else "Ball"
            findings.append(f"joint {name!r} must be a {what} joint ({motion}), got {skeleton.joint(name).motion!r}")
        elif skeleton.joint(name).frozen:
            findings.append(f"joint {name!r} is frozen")
    if findings:
        raise SkeletonError([_not_a_limb(names), *findings], name=skeleton.name)
    bodies = np.array([_body(skeleton, name) for name in names])
    for upper, lower, body_upper, body_lower in zip(names, names[1:], bodies, bodies[1:], strict=False):
        parent = figure.body[body_lower, PARENT]
        if parent != body_upper:
            findings.append(_between(skeleton, upper, lower, int(body_upper), int(body_lower)))
    if skeleton.frame_bodies[row] != bodies[2]:
        findings.append(f"site {site!r} is not on the bone of {last!r}")
    if findings:
        raise SkeletonError([_not_a_limb(names), *findings], name=skeleton.name)
    chain = _describe(skeleton, slices, bodies, row)
    findings = _degenerate(chain, names)
    if findings:
        raise SkeletonError([_not_a_limb(names), *findings], name=skeleton.name)
    return chain, bodies


def _body(skeleton: Skeleton, joint: str) -> int:
    return int(skeleton.frame_bodies[skeleton.names.index(joint)])  # joints come first among the frames


def _not_a_limb(names: tuple[str, ...]) -> str:
    return (
        f"{', '.join(map(repr, names))} are not a limb (a ball joint, a hinge on its bone, a ball joint on that bone)"
    )


def _between(skeleton: Skeleton, upper: str, lower: str, body_upper: int, body_lower: int) -> str:
    owners = {_body(skeleton, name): name for name in reversed(skeleton.names)}
    chain, body = [], int(skeleton.figure.body[body_lower, PARENT])
    while body >= 0 and body != body_upper:
        chain.append(owners[body])
        body = int(skeleton.figure.body[body, PARENT])
    if body < 0:
        return f"joint {lower!r} is not below {upper!r}"
    return f"other joints move between {upper!r} and {lower!r}: {', '.join(map(repr, reversed(chain)))}"


def _describe(skeleton: Skeleton, slices: list[slice], bodies: np.ndarray, row: int) -> SrsChain:
    figure = skeleton.figure
    rest = figure.rest
    upper, lower = rest[bodies[1]], rest[bodies[2]]
    tool, tool_turn = skeleton.frame_positions[row], skeleton.frame_rotations[row]
    back = upper[3:].reshape(3, 3).T @ upper[:3]
    place = np.concatenate([upper, lower, tool, tool_turn.ravel(), back])
    shape = np.zeros((3, 9), dtype=np.int64)
    sense = np.ones((2, 6))
    for ball, body in enumerate((bodies[0], bodies[2])):
        dofs = figure.dof[figure.body[body, FIRST] : figure.body[body, LAST]]
        if dofs[0, KIND] == ROTVEC:
            shape[ball, BALL] = VECTOR
        elif dofs[0, KIND] == SWING:
            shape[ball, BALL], shape[ball, I] = SWING_TWIST, dofs[0, AXIS]
        else:
            i, j, k = (int(axis) for axis in dofs[:, AXIS])
            shape[ball], sense[ball] = euler_layout(i, j, k)
    shape[2, 0] = figure.dof[figure.body[bodies[1], FIRST], AXIS]
    where = np.concatenate([np.arange(part.start, part.stop) for part in slices])
    sign = figure.sign[where]
    low, high = skeleton.lower[where], skeleton.upper[where]
    box = np.stack([np.where(sign > 0, low, -high), np.where(sign > 0, high, -low)], axis=1)
    return pack(place, sense, box, skeleton.rest[where] * sign, sign, shape)


def arcs_of(box: np.ndarray) -> np.ndarray:
    """Return the limits (m, 2) [rad] as arcs of the unit circle, (m, 8)."""
    full = ~((box[:, 1] - box[:, 0]) < 2.0 * np.pi)
    low, high = np.where(full[:, None], 0.0, box).T
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    columns = [np.sin(low), np.cos(low), np.sin(high), np.cos(high), np.cos(middle), np.sin(middle), np.cos(half), full]
    return np.ascontiguousarray(np.stack(columns, axis=1))


def _degenerate(chain: SrsChain, names: tuple[str, ...]) -> list[str]:
    """Return why bending does not change the reach: the hinge's axis passes through the first or the last joint."""
    k = chain.shape[2, 0]
    across = [(k + 1) % 3, (k + 2) % 3]
    size = np.linalg.norm(chain.place[:3]) + np.linalg.norm(chain.place[LOWER : LOWER + 3])
    found = []
    for start, name in ((BACK, names[0]), (LOWER, names[2])):
        if not np.linalg.norm(chain.place[start : start + 3][across]) > 1e-9 * size:
            found.append(f"the axis of {names[1]!r} passes through {name!r}: bending it does not change the reach")
    return found
