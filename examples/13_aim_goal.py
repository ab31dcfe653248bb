"""Look at a point: the fourth kind of goal of Tolani et al. (2000). The line of sight passes through it."""

import sys
from pathlib import Path

import posable as ps

g = ps.goals
out = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
human = ps.figures.human()
rest = ps.forward(human, human.rest)
feet = [g.Pose(foot, rest.matrix(foot), label=foot) for foot in ("foot.L", "foot.R")]

goals = [*feet, g.Posture(), g.Aim("head", axis="z", at=(1.2, 0.6, 1.0))]
result = ps.solve(human, goals)
print(result)
ps.plots.draw(human, result.pose, goals, ghost=human.rest, path=out / "13_aim_goal.png", title="a gaze at a point")
