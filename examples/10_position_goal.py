"""Bring a hand to a point: the first kind of goal of Tolani et al. (2000)."""

import sys
from pathlib import Path

import posable as ps

g = ps.goals
out = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
human = ps.figures.human()
rest = ps.forward(human, human.rest)
feet = [g.Pose(foot, rest.matrix(foot), label=foot) for foot in ("foot.L", "foot.R")]

goals = [*feet, g.Position("hand.R", (-0.35, 1.45, 0.40))]
result = ps.solve(human, goals)
print(result)
ps.plots.draw(human, result.pose, goals, ghost=human.rest, path=out / "10_position_goal.png", title="a hand at a point")
