"""Put both palms anywhere on a wall: the fifth kind of goal of Tolani et al. (2000)."""

import sys
from pathlib import Path

import posable as ps

g = ps.goals
out = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
human = ps.figures.human()
rest = ps.forward(human, human.rest)
feet = [g.Pose(foot, rest.matrix(foot), label=foot) for foot in ("foot.L", "foot.R")]

wall, normal = (0.0, 1.2, 0.45), (0.0, 0.0, -1.0)
goals = [*feet, *(g.Plane(hand, wall, normal) for hand in ("hand.L", "hand.R"))]
goals += [g.HalfSpace(hand, (0.0, 1.2, 0.0), (0.0, 1.0, 0.0), label=f"{hand} high") for hand in ("hand.L", "hand.R")]
result = ps.solve(human, goals)
print(result)
ps.plots.draw(human, result.pose, goals, ghost=human.rest, path=out / "14_plane_goal.png", title="palms on a wall")
