"""Forward kinematics in plain NumPy from a URDF, apart from every solver: what decides who reached what.

Needs NumPy and the standard library alone, for it runs in the environment of every peer.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

NEAR, TURNED, HELD = 1e-3, 1e-2, 1e-6  # [m], [rad], [rad or m]: what counts as solved
FIXED, TURN, SLIDE = 0, 1, 2


@dataclass(frozen=True)
class Chain:
    """A tree of links, parents first; link 0 is the root.

    names: the moving joints. links: every link. parents (L,): each link's parent, -1 for the root.
    places (L, 4, 4): the joint's frame in the parent link. axes (L, 3), kinds (L,), columns (L,): the joint before
    each link, and which of `names` it is. lower, upper (n,) [rad, m].
    """

    names: tuple[str, ...]
    links: tuple[str, ...]
    parents: np.ndarray
    places: np.ndarray
    axes: np.ndarray
    kinds: np.ndarray
    columns: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    def frames(self, joints: np.ndarray, roots: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Return {link: (K, 4, 4)} for joint values (K, n), the root link at roots (K, 4, 4) or at the origin."""
        joints = np.atleast_2d(joints)
        start = np.eye(4) if roots is None else roots
        found = [np.broadcast_to(start, (len(joints), 4, 4))]
        for link in range(1, len(self.links)):
            here = found[self.parents[link]] @ self.places[link]
            if self.kinds[link] != FIXED:
                here = here @ moved(self.kinds[link], self.axes[link], joints[:, self.columns[link]])
            found.append(here)
        return dict(zip(self.links, found, strict=True))


def moved(kind: int, axis: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the motion (K, 4, 4) of a hinge (Rodrigues' formula) or a slide along its axis (3,) by values (K,)."""
    out = np.broadcast_to(np.eye(4), (len(values), 4, 4)).copy()
    if kind == SLIDE:
        out[:, :3, 3] = values[:, None] * axis
        return out
    cross = np.array([[0.0, -axis[2], axis[1]], [axis[2], 0.0, -axis[0]], [-axis[1], axis[0], 0.0]])
    sine, versine = np.sin(values)[:, None, None], (1.0 - np.cos(values))[:, None, None]
    out[:, :3, :3] += sine * cross + versine * (cross @ cross)
    return out


def read_urdf(path: str | Path) -> Chain:
    """Return the chain of a URDF whose joints are revolute, prismatic or fixed, written parents first."""
    robot = ElementTree.parse(path).getroot()
    joints = robot.findall("joint")
    children = {said(joint, "child", "link") for joint in joints}
    links = [link.get("name", "") for link in robot.findall("link") if link.get("name") not in children]
    if len(links) != 1:
        raise ValueError(f"expected one root link, got {links}")
    names, limits = [], []
    table = [(-1, np.eye(4), np.zeros(3), FIXED, -1)]
    for joint in joints:
        kind = {"fixed": FIXED, "revolute": TURN, "prismatic": SLIDE}[joint.get("type", "")]
        parent = links.index(said(joint, "parent", "link"))
        axis, column = np.zeros(3), -1
        if kind != FIXED:
            axis, column = numbers(said(joint, "axis", "xyz")), len(names)
            names.append(joint.get("name", ""))
            limits.append([float(said(joint, "limit", side)) for side in ("lower", "upper")])
        table.append((parent, placed(joint.find("origin")), axis, kind, column))
        links.append(said(joint, "child", "link"))
    parents, places, axes, kinds, columns = (np.array(row) for row in zip(*table, strict=True))
    box = np.array(limits).reshape(-1, 2)
    return Chain(tuple(names), tuple(links), parents, places, axes, kinds, columns, box[:, 0], box[:, 1])


def said(joint: ElementTree.Element, tag: str, attribute: str) -> str:
    """Return what a joint's tag says."""
    found = joint.find(tag)
    if found is None or found.get(attribute) is None:
        raise ValueError(f"joint {joint.get('name')!r}: expected <{tag} {attribute}=...>")
    return found.get(attribute, "")


def placed(origin: ElementTree.Element | None) -> np.ndarray:
    """Return a URDF origin as (4, 4): roll, pitch, yaw about the fixed x, y, z, then the offset."""
    out = np.eye(4)
    if origin is not None:
        for axis, angle in zip(np.eye(3), numbers(origin.get("rpy", "0 0 0")), strict=True):
            out = moved(TURN, axis, np.array([angle]))[0] @ out
        out[:3, 3] = numbers(origin.get("xyz", "0 0 0"))
    return out


def numbers(text: str) -> np.ndarray:
    """Return the numbers of a text."""
    return np.array([float(word) for word in text.split()])


@dataclass(frozen=True)
class Verdict:
    """What an answer missed by, worst over its goals: far (K,) [m], turned (K,) [rad], beyond (K,) the limits."""

    far: np.ndarray
    turned: np.ndarray
    beyond: np.ndarray

    @property
    def solved(self) -> np.ndarray:
        """(K,): whether every goal is within 1 mm and 0.01 rad and every limit is held to 1e-6."""
        return (self.far <= NEAR) & (self.turned <= TURNED) & (self.beyond <= HELD)  # NaN is no success


def judge(chain: Chain, frames: list[str], targets: np.ndarray, kind: str, joints, roots) -> Verdict:
    """Return the verdict on answers: joints (K, n), roots (K, 4, 4) or None, against targets (K, F, 4, 4).

    kind "position" leaves the targets' rotation out.
    """
    found = chain.frames(joints, roots)
    got = np.stack([found[name] for name in frames], axis=1)
    far = np.linalg.norm(got[..., :3, 3] - targets[..., :3, 3], axis=-1)
    turned = np.zeros_like(far) if kind == "position" else angle_between(got[..., :3, :3], targets[..., :3, :3])
    outside = np.maximum(chain.lower - joints, joints - chain.upper)
    beyond = np.maximum(outside.max(axis=1, initial=0.0), 0.0)
    if roots is not None:  # a root that is no rigid motion has no business being right
        spoilt = np.abs(np.swapaxes(roots[:, :3, :3], 1, 2) @ roots[:, :3, :3] - np.eye(3)).max(axis=(1, 2))
        beyond = np.where(spoilt <= HELD, beyond, np.inf)
    return Verdict(far.max(axis=1), turned.max(axis=1), beyond)


def angle_between(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the angle (...) [rad] between rotations (..., 3, 3), exact for small ones too."""
    turn = np.swapaxes(one, -1, -2) @ other
    skew = np.stack(
        [turn[..., 2, 1] - turn[..., 1, 2], turn[..., 0, 2] - turn[..., 2, 0], turn[..., 1, 0] - turn[..., 0, 1]],
        axis=-1,
    )
    return np.arctan2(np.linalg.norm(skew, axis=-1), np.trace(turn, axis1=-2, axis2=-1) - 1.0)
