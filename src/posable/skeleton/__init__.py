"""The figure: joints, sites, and the frozen skeleton that they make."""

from posable.kernels.joints import Ball, Fixed, Free, JointMotion, Planar, Prismatic, Revolute, Universal
from posable.skeleton.dh import from_dh
from posable.skeleton.flatten import elimination_order
from posable.skeleton.joint import Joint, Site, limits_of, numbers_of, rotation_matrix
from posable.skeleton.skeleton import Skeleton

__all__ = [
    "Ball", "Fixed", "Free", "Joint", "JointMotion", "Planar", "Prismatic", "Revolute", "Site", "Skeleton", "Universal",
    "elimination_order", "from_dh", "limits_of", "numbers_of", "rotation_matrix",
]  # fmt: skip
