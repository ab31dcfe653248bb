"""Everything that a person can ask of a figure: one file per goal, each made of the springs in kernels/springs.py."""

from posable.goals.goal import Goal, Spring
from posable.goals.orientation import Orientation
from posable.goals.pose import Pose
from posable.goals.position import Position

__all__ = ["Goal", "Orientation", "Pose", "Position", "Spring"]
