"""One hand holds the other wrist while it moves in a circle: the loop stays closed."""

import sys
from pathlib import Path

import numpy as np

import posable as ps

g = ps.goals
out = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
human = ps.figures.human()
rest = ps.forward(human, human.rest)
feet = [g.Pose(foot, rest.matrix(foot), label=foot) for foot in ("foot.L", "foot.R")]

grip = g.Relative("hand.L", "wrist.R", (0.0, 0.0, 0.05), tolerance=1e-7, label="grip")
session = ps.Session(human, [*feet, grip, g.Position("hand.R", (0.05, 1.2, 0.4))])
worst = 0.0
for angle in np.linspace(0.0, 2.0 * np.pi, 61):
    session.move("hand.R", (-0.1 + 0.15 * np.cos(angle), 1.2 + 0.15 * np.sin(angle), 0.4))
    result = session.solve()
    worst = max(worst, result.errors["grip"])
print(result)
print(f"the grip opened by {worst:.1e} m at most")
ps.plots.draw(
    human, result.pose, session.goals, ghost=human.rest, path=out / "18_closed_loop.png", title="a closed loop"
)
