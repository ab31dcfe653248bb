"""A figure as a plain URDF that every peer reads: one hinge or slide per degree of freedom, a link per goal."""

from __future__ import annotations

import warnings
from xml.sax.saxutils import quoteattr

import numpy as np
from scipy.spatial.transform import Rotation

import posable as ps
from posable.engine.joints import SLIDE, TURN
from posable.model.joints import limits_of, rotation_matrix

INERTIA = '<inertial><mass value="1"/><inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial>'
FAR = 1e4  # [rad, m]: stands for no limit, which a URDF's hinge cannot say


def to_urdf(skeleton: ps.Skeleton, bodies: dict[str, str], *, free_root: bool) -> tuple[str, list[int]]:
    """Return the URDF's text and, for each of its joints, its place in the pose.

    bodies {link: body}: a link for each goal, where the joint or site is. free_root: the root joint's own freedom is
    left out, for the peer's floating base to give. Frozen joints are left out with all that hangs on them.
    """
    writer = _Writer(skeleton.name or "figure")
    tails: dict[str, tuple[str, np.ndarray]] = {}  # joint: the link it ends in, and the joint's frame in that link
    columns: list[int] = []
    for joint in skeleton.joints:
        link, here = ("base", np.eye(4)) if joint.parent is None else tails.get(joint.parent, (None, np.eye(4)))
        if link is None or joint.frozen:
            continue
        here = here @ _matrix(joint.offset, rotation_matrix(joint.rotation))
        if joint.parent is None and free_root:
            if np.abs(here - np.eye(4)).max() > 0.0:
                raise ValueError("expected a free root at the origin")
            tails[joint.name] = (link, here)
            continue
        basis, box = joint.motion.basis, limits_of(joint)
        here = here @ _matrix(np.zeros(3), basis)
        first = skeleton.index(joint.name).start
        for k, (dof, limits) in enumerate(zip(joint.motion.dofs, np.asarray(box), strict=True)):
            kind = {SLIDE: "prismatic", TURN: "revolute"}[dof.kind]
            name = _plain(skeleton.dof_names[first + k])
            writer.joint(kind, name, link, here, f"link_{name}", dof.sign * np.eye(3)[dof.axis], limits)
            link, here = f"link_{name}", np.eye(4)
            columns.append(first + k)
        tails[joint.name] = (link, here @ _matrix(np.zeros(3), basis.T))
    sites = {site.name: site for site in skeleton.sites}
    for frame, body in bodies.items():
        site = sites.get(body)
        link, here = tails[site.joint if site else body]
        if site:
            here = here @ _matrix(site.offset, rotation_matrix(site.rotation))
        writer.joint("fixed", f"to_{frame}", link, here, frame)
    return writer.text(), columns


class _Writer:
    """Collects links and joints."""

    def __init__(self, name: str) -> None:
        self.lines = [
            f"<robot name={quoteattr(name)}>",
            '<mujoco><compiler fusestatic="false" balanceinertia="true" angle="radian"/></mujoco>',
            f'<link name="base">{INERTIA}</link>',
        ]

    def joint(self, kind: str, name: str, parent: str, place: np.ndarray, child: str, axis=None, limits=None) -> None:
        """Write a joint and its child link."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # at gimbal lock one of many triples is as good as any
            rpy = Rotation.from_matrix(place[:3, :3]).as_euler("xyz")
        moving = ""
        if axis is not None and limits is not None:
            low, high = np.clip(limits, -FAR, FAR)
            moving = (
                f'<axis xyz="{_row(axis)}"/>'
                f'<limit lower="{float(low)!r}" upper="{float(high)!r}" effort="1000" velocity="1000"/>'
            )
        self.lines += [
            f'<link name="{child}">{INERTIA}</link>',
            f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
            f'<origin xyz="{_row(place[:3, 3])}" rpy="{_row(rpy)}"/>{moving}</joint>',
        ]

    def text(self) -> str:
        return "\n".join([*self.lines, "</robot>", ""])


def _plain(name: str) -> str:
    return name.replace(".", "_")


def _row(values) -> str:
    return " ".join(repr(float(value)) for value in values)


def _matrix(offset, rotation) -> np.ndarray:
    out = np.eye(4)
    out[:3, :3], out[:3, 3] = rotation, offset
    return out
