"""Limbs in closed form (Tolani et al. 2000): position, orientation, partial orientation, aiming, swivel ranges."""

from posable.limb.limb import Limb
from posable.limb.solution import Branch, ElbowCircle, LimbSolution, SwivelRange
from posable.limb.two_link import two_link

__all__ = ["Branch", "ElbowCircle", "Limb", "LimbSolution", "SwivelRange", "two_link"]
