"""Either hand: the disjunctive goals of Tolani et al. (2000)."""

import sys
from pathlib import Path

import posable as ps

g = ps.goals
out = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
human = ps.figures.human()
rest = ps.forward(human, human.rest)
feet = [g.Pose(foot, rest.matrix(foot), label=foot) for foot in ("foot.L", "foot.R")]

seated = human.freeze(["root", "spine1", "spine2", "spine3"])
cup = (0.55, 1.10, 0.35)
goals = [g.AnyOf([g.Position("hand.R", cup), g.Position("hand.L", cup)], label="take the cup")]
result = ps.solve(seated, goals)
print(result)
print(f"taken with {result.chosen['take the cup']}")
ps.plots.draw(seated, result.pose, goals, ghost=human.rest, path=out / "16_disjunctive_goal.png", title="either hand")
