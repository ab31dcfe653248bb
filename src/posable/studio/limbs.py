"""The limbs of a figure with a closed form: arms and legs with a swivel angle, its ranges and branches."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

import posable as ps

MEETING = 1e-4  # [m] tolerance for axes that intersect
SQUARE = 1e-6  # tolerance for perpendicular axes


@dataclass(frozen=True, eq=False)
class LimbView:
    """The current state of a limb: swivel [rad], its feasible ranges, the elbow's circle, the number of branches."""

    name: str
    swivel: float
    ranges: tuple[tuple[float, float], ...]
    circle: Any
    branches: int


def find_limbs(skeleton: ps.Skeleton) -> dict[str, ps.Limb]:
    """Return every chain ball - hinge - ball of a figure as a limb, by the name of its middle joint.

    A ball may be one joint, or hinges whose axes meet in a point, as in the arm of a robot with seven axes.
    """
    out: dict[str, ps.Limb] = {}
    for last in skeleton.joints:
        chain = _moving_chain(skeleton, last)
        lower = _ball_at_end(chain)
        middle = chain[-len(lower) - 1] if lower and len(chain) > len(lower) else None
        upper = _ball_at_end(chain[: -len(lower) - 1]) if middle is not None and middle.motion.size == 1 else []
        if middle is None or not upper:
            continue
        whole: ps.Skeleton | None = skeleton
        for group in (upper, lower):
            whole = with_ball(whole, [joint.name for joint in group]) if whole is not None and group[1:] else whole
        if whole is None:
            continue
        sites = [site.name for site in skeleton.sites if site.joint == last.name]
        site = next((name for name in sites if name.startswith(("hand", "foot"))), last.name)
        try:
            out[middle.name] = ps.Limb(whole, ball_name(upper), middle.name, ball_name(lower), site=site)
        except ps.PosableError:
            continue
    upper_ends = {limb.first for limb in out.values()}  # a collarbone between chest and shoulder is not a limb
    return {name: limb for name, limb in out.items() if limb.last not in upper_ends}


def _moving_chain(skeleton: ps.Skeleton, joint: ps.Joint) -> list[ps.Joint]:
    """Return the moving joints from a joint upward that a limb could have, uppermost first."""
    path = [skeleton.joint(name) for name in skeleton.path_to(joint.name)]
    return [one for one in path if one.motion.size][-7:] if joint.motion.size else []


def _ball_at_end(chain: list[ps.Joint]) -> list[ps.Joint]:
    """Return the joints at the end of a chain with three angles together, or none."""
    group: list[ps.Joint] = []
    for joint in reversed(chain):
        group.insert(0, joint)
        size = sum(one.motion.size for one in group)
        if size == 3:
            return group
        if size > 3 or any(dof.kind != ps.Revolute.kind for dof in joint.motion.dofs):
            break
    return []


def with_ball(skeleton: ps.Skeleton, names: list[str]) -> ps.Skeleton | None:
    """Return an equivalent figure in which hinges with three axes through one point are one ball joint.

    Each axis is perpendicular to the next one; returns None otherwise, or if the axes do not intersect. With the axes
    u1, u2, u3 and the point p at angle 0, the hinges apply T(p) R(u1, a) R(u2, b) R(u3, c) T(-p).
    """
    frames = ps.forward(skeleton, np.zeros(skeleton.size))
    joints = [skeleton.joint(name) for name in names]
    axes, places = [], []
    for joint in joints:
        basis = frames.rotation_matrix(joint.name) @ np.asarray(joint.motion.basis)
        axes += [dof.sign * basis[:, dof.axis] for dof in joint.motion.dofs]
        places += [frames.position(joint.name)] * joint.motion.size
    order = [skeleton.index(name) for name in names]
    together = all(a.stop == b.start for a, b in pairwise(order))
    point = _meeting_point(np.array(places), np.array(axes))
    layout = _euler_axes(axes)
    if point is None or layout is None or not together:
        return None
    letters, turn = layout
    parent = joints[0].parent
    base, origin = (np.eye(3), np.zeros(3)) if parent is None else (
        frames.rotation_matrix(parent), frames.position(parent)
    )  # fmt: skip
    where = slice(order[0].start, order[-1].stop)
    ball = ps.Joint(
        ball_name(joints), ps.Ball(letters), parent, offset=base.T @ (point - origin), rotation=base.T @ turn,
        limits=np.stack([skeleton.lower[where], skeleton.upper[where]], axis=1), rest=skeleton.rest[where],
    )  # fmt: skip
    carried = turn.T @ frames.rotation_matrix(names[-1])
    shift = turn.T @ (frames.position(names[-1]) - point)
    still = {name: ps.Joint(name, ps.Fixed(), ball.name) for name in names[:-1]}  # they carry no part of the limb
    still[names[-1]] = ps.Joint(names[-1], ps.Fixed(), ball.name, offset=shift, rotation=carried)
    made: list[ps.Joint] = []
    for joint in skeleton.joints:
        made += [ball] if joint.name == names[0] else []
        made.append(still.get(joint.name, joint))
    return ps.Skeleton(made, skeleton.sites, skeleton.name, up=skeleton.up)


def ball_name(joints: list[ps.Joint]) -> str:
    """Return the name of a ball made of one joint, or of several."""
    return joints[0].name if len(joints) == 1 else f"{joints[0].name} to {joints[-1].name}"


def _meeting_point(places: np.ndarray, axes: np.ndarray) -> np.ndarray | None:
    """Return the intersection (3,) [m] of three lines at places (3, 3) along axes (3, 3), or None."""
    across = np.eye(3) - axes[:, :, None] * axes[:, None, :]
    point = np.linalg.lstsq(across.sum(axis=0), np.einsum("kij,kj->i", across, places), rcond=None)[0]
    away = np.linalg.norm(np.einsum("kij,kj->ki", across, point - places), axis=1)
    return point if away.max() < MEETING else None


def _euler_axes(axes: list[np.ndarray]) -> tuple[str, np.ndarray] | None:
    """Return an Euler order and the frame (3, 3) whose axes are those of three hinges, or None."""
    u1, u2, u3 = axes
    if abs(u1 @ u2) > SQUARE or abs(u2 @ u3) > SQUARE:
        return None
    u4 = np.cross(u1, u2)
    for third, letters, columns in (
        (u4, "xyz", (u1, u2, u4)), (-u4, "xzy", (u1, -u4, u2)), (u1, "xyx", (u1, u2, u4)),
    ):  # fmt: skip
        if u3 @ third > 1.0 - SQUARE:
            return letters, np.stack(columns, axis=1)
    return None


def dofs_of(limb: ps.Limb) -> np.ndarray:
    """Return the seven degrees of freedom (7,) of a limb in the pose of its figure."""
    slices = [limb.skeleton.index(name) for name in (limb.first, limb.middle, limb.last)]
    return np.concatenate([np.arange(part.start, part.stop) for part in slices])


def ends_of(skeleton: ps.Skeleton, limb: ps.Limb) -> frozenset[str]:
    """Return the joints and sites at the end of a limb: its last joint and its descendants."""
    last = skeleton.names[int(np.flatnonzero([part.stop == dofs_of(limb)[-1] + 1 for part in skeleton.slices])[0])]
    joints = {last, *skeleton.below(last)}
    return frozenset(joints | {site.name for site in skeleton.sites if site.joint in joints})


def blended(skeleton: ps.Skeleton, limb: ps.Limb, fk: np.ndarray, ik: np.ndarray, share: float) -> np.ndarray:
    """Return the pose `ik` (n,) with the joints of a limb interpolated from `fk` (n,) by `share`."""
    out, dofs = ik.copy(), dofs_of(limb)
    out[dofs] = ps.Motion(skeleton, np.stack([fk, ik]), 1.0).at(share)[dofs]
    return out


def limb_target(limb: ps.Limb, pose: np.ndarray) -> np.ndarray:
    """Return the transform (4, 4) of the limb's end at a pose."""
    return ps.forward(limb.skeleton, pose).matrix(limb.site)


def limb_view(limb: ps.Limb, pose: np.ndarray) -> LimbView:
    """Return the data of the limb panel at a pose (n,)."""
    target = limb_target(limb, pose)
    swivel = float(limb.swivel(pose))
    ranges = tuple((float(r[0]), float(r[1])) for r in limb.swivel_ranges(target, base=pose))
    branches = limb.solutions(target, swivel=swivel, base=pose)
    return LimbView(limb.middle, swivel, ranges, limb.elbow_circle(target, base=pose), len(branches))


def at_swivel(limb: ps.Limb, pose: np.ndarray, swivel: float, *, limits: bool) -> Any:
    """Return the solution of a limb with its end fixed and a given swivel angle [rad]."""
    return limb.solve(limb_target(limb, pose), swivel=swivel, limits=limits, base=pose)


def with_elbow_near(limb: ps.Limb, pose: np.ndarray, point: np.ndarray, *, limits: bool) -> Any:
    """Return the solution of a limb with its end fixed and the middle joint as close to a point (3,) as possible."""
    return limb.solve(limb_target(limb, pose), elbow=point, limits=limits, base=pose)


def branch_poses(limb: ps.Limb, pose: np.ndarray) -> list[np.ndarray]:
    """Return the poses of every branch at the current swivel angle."""
    swivel = float(limb.swivel(pose))
    found = limb.solutions(limb_target(limb, pose), swivel=swivel, base=pose)
    return [np.asarray(solution.pose) for solution in found]
