"""The six hinges of an arm: where their axes are, and which numbers of a pose turn them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from posable.engine.joints import TURN
from posable.engine.layout import FIRST, KIND, LAST, PARENT
from posable.model.kinematics import forward
from posable.model.skeleton import Skeleton


@dataclass(frozen=True)
class Hinges:
    """The six hinges that carry a joint or site.

    Attributes:
        columns: (6,) where they are in a pose.
        axes: (6, 3), of unit length, at the zero pose.
        places: (6, 3) [m], a point on each axis.
        tool: (4, 4) [m], the joint or site at the zero pose.
    """

    columns: np.ndarray
    axes: np.ndarray
    places: np.ndarray
    tool: np.ndarray


def six_hinges(skeleton: Skeleton, body: str) -> Hinges | None:
    """Return the hinges that move a joint or site; None unless they are six, and nothing else moves it."""
    figure, dofs, at = skeleton.figure, list[int](), int(skeleton.frame_bodies[skeleton.frame(body)])
    while at >= 0:
        dofs = [*range(int(figure.body[at, FIRST]), int(figure.body[at, LAST])), *dofs]
        at = int(figure.body[at, PARENT])
    if len(dofs) != 6 or (figure.dof[dofs, KIND] != TURN).any() or skeleton.frozen[dofs].any():
        return None
    zero = forward(skeleton, np.zeros(skeleton.size))
    axes, places = np.empty((6, 3)), np.empty((6, 3))
    for k, i in enumerate(dofs):
        joint = next(
            joint
            for joint, where in zip(skeleton.joints, skeleton.slices, strict=True)
            if where.start <= i < where.stop
        )
        if joint.motion.size != 1:
            return None
        element = joint.motion.dofs[0]
        axes[k] = zero.rotation_matrix(joint.name) @ joint.motion.basis[:, element.axis] * element.sign
        places[k] = zero.position(joint.name)
    return Hinges(np.array(dofs), axes, places, zero.matrix(body))
