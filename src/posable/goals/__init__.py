"""Everything that a person can ask of a figure: one file per goal, each made of the springs in kernels/springs.py."""

from posable.goals.axis import Aim, Direction
from posable.goals.base import Goal, Spring
from posable.goals.collision import Avoid, Box, Capsule, Hull, NoCollision, Sphere, Wall
from posable.goals.compose import AnyOf, Weighted
from posable.goals.custom import Custom
from posable.goals.joint import Coupling, Posture
from posable.goals.mass import Balance, CenterOfMass
from posable.goals.natural import Natural
from posable.goals.orientation import Orientation, Pose
from posable.goals.point import HalfSpace, Line, Plane, Position
from posable.goals.relative import Distance, Relative
from posable.goals.toml import from_table, from_tables, load, save, to_table

__all__ = [
    "Aim", "AnyOf", "Avoid", "Balance", "CenterOfMass", "Coupling", "Custom", "Direction", "Distance", "Goal",
    "HalfSpace", "Line", "Natural", "NoCollision", "Orientation", "Plane", "Pose", "Position", "Posture", "Relative",
    "Spring", "Weighted", "Box", "Capsule", "Hull", "Sphere", "Wall", "from_table", "from_tables", "load", "save",
    "to_table",
]  # fmt: skip
