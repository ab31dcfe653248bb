"""Reach down with both hands, with and without balance."""

import sys
from pathlib import Path

import posable as ps

g = ps.goals
out = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
human = ps.figures.human()
rest = ps.forward(human, human.rest)
feet = [g.Pose(foot, rest.matrix(foot), label=foot) for foot in ("foot.L", "foot.R")]

hands = [g.Position("hand.L", (0.15, 0.08, 0.35)), g.Position("hand.R", (-0.15, 0.08, 0.35))]
for name, goals in (("anyhow", [*feet, *hands]), ("in balance", [*feet, *hands, g.Balance()])):
    result = ps.solve(human, goals, restarts=10)
    outside = ps.Problem(human, g.Balance()).errors(result.pose)["balance"]
    print(f"{name}: {result.status}, centre of mass {1e3 * outside:.0f} mm outside the feet (less 1 cm)")
ps.plots.draw(human, result.pose, goals, ghost=human.rest, path=out / "19_balance.png", title="down, in balance")
