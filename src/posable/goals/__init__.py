"""Everything that a person can ask of a figure: one file per goal, each made of the springs in kernels/springs.py."""

from posable.goals.anyof import AnyOf
from posable.goals.avoid import Avoid
from posable.goals.balance import Balance, CenterOfMass
from posable.goals.coupling import Coupling
from posable.goals.custom import Custom
from posable.goals.directions import Aim, Direction
from posable.goals.file import from_table, from_tables, load, save, to_table
from posable.goals.goal import Goal, Spring
from posable.goals.orientation import Orientation
from posable.goals.pairs import Distance, Relative
from posable.goals.places import HalfSpace, Line, Plane
from posable.goals.pose import Pose
from posable.goals.position import Position
from posable.goals.posture import Posture
from posable.goals.shapes import Capsule, Sphere, Wall
from posable.goals.weighted import Weighted

__all__ = [
    "Aim", "AnyOf", "Avoid", "Balance", "CenterOfMass", "Coupling", "Custom", "Direction", "Distance", "Goal",
    "HalfSpace", "Line", "Orientation", "Plane", "Pose", "Position", "Posture", "Relative", "Spring", "Weighted",
    "Capsule", "Sphere", "Wall", "from_table", "from_tables", "load", "save", "to_table",
]  # fmt: skip
