"""Many goals at once: stand, reach with both hands, look at one of them, and otherwise stay near the rest pose."""

import sys
from pathlib import Path

import posable as ps

g = ps.goals
out = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
human = ps.figures.human()
rest = ps.forward(human, human.rest)
feet = [g.Pose(foot, rest.matrix(foot), label=foot) for foot in ("foot.L", "foot.R")]

goals = [
    *feet,
    g.Position("hand.R", (-0.45, 1.60, 0.25)),
    g.Position("hand.L", (0.30, 0.75, 0.45)),
    g.Aim("head", axis="z", at=(-0.45, 1.60, 0.25)),
    g.Posture(),
]
result = ps.solve(human, goals)
print(result)
ps.plots.draw(
    human, result.pose, goals, ghost=human.rest, path=out / "15_multiple_goals.png", title="many goals at once"
)
