"""Coordinates of a free root in which no spin is singular: its rotation relative to a reference that each frame has.

Rotation vectors are singular at a whole turn and Euler angles at a quarter: near these, an optimisation over time
unwinds a pirouette or turns a lying body about. The reference is the root's own path, smoothed; what remains is small.
"""

from __future__ import annotations

import numpy as np
from scipy.ndimage import gaussian_filter1d
from scipy.spatial.transform import Rotation

from posable.engine.joints import SLIDE
from posable.mocap.root_align import root_at_rest
from posable.model.joint_values import Floats, rotation_values
from posable.model.joints import Ball, Free, Joint
from posable.model.kinematics import forward
from posable.model.skeleton import Skeleton

ORDER = "zyx"  # of the reference's Euler angles; they are constants, so that their singularity does not matter


class RootChart:
    """A figure with a free root, and the same figure with its root turning relative to a reference.

    Attributes:
        outer: The figure (n degrees of freedom).
        inner: The one whose root only turns, below a joint for its place and its reference, which is frozen (n + 3).
    """

    def __init__(self, figure: Skeleton):
        self.outer, name = figure, figure.free_root
        assert name is not None
        self.root = root = figure.joint(name)
        self._rotation, self._origin = root_at_rest(root, forward(figure, figure.rest))
        self._name = f"{name} reference"
        while self._name in figure.names or self._name in figure.site_names:
            self._name += "_"
        base = Joint(
            self._name, Free(ORDER), root.parent, offset=root.offset, rotation=root.rotation,
            frozen=[False] * 3 + [True] * 3,
        )  # fmt: skip
        body = Joint(name, Ball("rotvec"), self._name, mass=root.mass, center=root.center, inertia=root.inertia)
        joints = []
        for joint in figure.joints:
            joints += [base, body] if joint.name == name else [joint]
        self.inner = figure.replace(joints=joints, named_poses={})
        others = [joint.name for joint in figure.joints if joint.name != name]
        self._theirs = np.concatenate([np.zeros(0, int), *(np.r_[figure.index(other)] for other in others)])
        self._ours = np.concatenate([np.zeros(0, int), *(np.r_[self.inner.index(other)] for other in others)])
        above, turning = self.inner.index(self._name), self.inner.index(name)
        self._place, self._reference = slice(above.start, above.start + 3), slice(above.start + 3, above.stop)
        self._turn = turning

    def columns(self, values: Floats, place: float = 0.0, turn: float = 0.0) -> Floats:
        """Return values (..., n) for the inner figure (..., n + 3): `place` and `turn` for its root, 0 for the rest."""
        out = np.zeros((*values.shape[:-1], self.inner.size))
        out[..., self._ours] = values[..., self._theirs]
        out[..., self._place], out[..., self._turn] = place, turn
        return out

    def box(self, box: tuple[Floats, Floats], poses: Floats) -> tuple[Floats, Floats]:
        """Return bounds (t, n), (t, n) for the inner figure, whose references are those of poses (t, n + 3)."""
        lower, upper = self.columns(box[0], -np.inf, -np.inf), self.columns(box[1], np.inf, np.inf)
        lower[:, self._reference] = upper[:, self._reference] = poses[:, self._reference]
        return lower, upper

    def enter(self, poses: Floats, deviation: float | None = None) -> Floats:
        """Return poses (t, n) for the inner figure (t, n + 3).

        The reference is the root's rotation, smoothed by a Gaussian with a standard deviation [frames]; none without.
        """
        frames = forward(self.outer, poses)
        turned = frames.rotation_matrix(self.root.name)
        smooth = np.broadcast_to(self._rotation, turned.shape)
        if deviation is not None:
            u, _, vt = np.linalg.svd(gaussian_filter1d(turned, deviation, axis=0, mode="nearest"))
            u[..., 2] *= np.linalg.det(u @ vt)[..., None]
            smooth = u @ vt
        out = self.columns(poses)
        out[:, self._place] = (frames.position(self.root.name) - self._origin) @ self._rotation
        out[:, self._reference] = Rotation.from_matrix(self._rotation.T @ smooth).as_euler(ORDER.upper())
        out[:, self._turn] = Rotation.from_matrix(np.swapaxes(smooth, 1, 2) @ turned).as_rotvec()
        return out

    def leave(self, poses: Floats, near: Floats) -> Floats:
        """Return poses (t, n) of the outer figure, whose root's values are those nearest to `near` (t, n)."""
        frames, motion = forward(self.inner, poses), self.root.motion
        out = near.copy()
        out[:, self._theirs] = poses[:, self._ours]
        where = self.outer.index(self.root.name)
        moved = (frames.position(self.root.name) - self._origin) @ self._rotation @ motion.basis
        for i, dof in zip(range(where.start, where.stop), motion.dofs, strict=True):
            if dof.kind == SLIDE:
                out[:, i] = dof.sign * moved[:, dof.axis]
        turned = Rotation.from_matrix(self._rotation.T @ frames.rotation_matrix(self.root.name))
        last = slice(where.stop - 3, where.stop)
        out[:, last] = rotation_values(motion, turned, near[:, last])
        return out
