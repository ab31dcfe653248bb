"""A custom goal in a few lines of Python: hands level and far apart."""

import sys
from pathlib import Path

import posable as ps

g = ps.goals
out = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
human = ps.figures.human()
rest = ps.forward(human, human.rest)
feet = [g.Pose(foot, rest.matrix(foot), label=foot) for foot in ("foot.L", "foot.R")]


def level_and_wide(points, directions):
    left, right = points["hand.L"], points["hand.R"]
    return 0.5 * (left[1] - right[1]) ** 2 + 0.5 * (left[0] - right[0] - 1.4) ** 2 + 0.5 * (left[1] - 1.3) ** 2


goals = [*feet, g.Custom(level_and_wide, points=["hand.L", "hand.R"], tolerance=1e-3, label="level and wide")]
result = ps.solve(human, goals)
print(result)
print(ps.Problem(human, goals).check_derivatives(human.rest))
ps.plots.draw(human, result.pose, ghost=human.rest, path=out / "22_goal_of_your_own.png", title="level and wide")
