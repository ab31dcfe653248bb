"""Turn a hand, wherever it is: the second kind of goal of Tolani et al. (2000)."""

import sys
from pathlib import Path

from scipy.spatial.transform import Rotation

import posable as ps

g = ps.goals
out = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
human = ps.figures.human()
rest = ps.forward(human, human.rest)
feet = [g.Pose(foot, rest.matrix(foot), label=foot) for foot in ("foot.L", "foot.R")]

palm_up = Rotation.from_euler("xyz", (0.0, -20.0, 180.0), degrees=True)
goals = [*feet, g.Orientation("hand.R", palm_up)]
result = ps.solve(human, goals, restarts=5)
print(result)
ps.plots.draw(
    human, result.pose, goals, ghost=human.rest, path=out / "11_orientation_goal.png", title="a palm turned up"
)
