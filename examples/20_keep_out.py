"""Reach past a ball without touching it."""

import sys
from pathlib import Path

import posable as ps

g = ps.goals
out = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
human = ps.figures.human()
rest = ps.forward(human, human.rest)
feet = [g.Pose(foot, rest.matrix(foot), label=foot) for foot in ("foot.L", "foot.R")]

ball = g.Sphere((-0.27, 1.12, 0.22), 0.10)
goals = [
    *feet,
    g.Position("hand.R", (-0.20, 1.10, 0.42)),
    g.Posture(),
    g.Avoid("elbow.R", ball, radius=0.04),
    g.Avoid("wrist.R", ball, ends=((0.0, 0.0, 0.0), (0.0, -0.15, 0.0)), radius=0.04),
]
through = ps.solve(human, goals[:4])
for bone, depth in ps.Problem(human, goals[4:]).errors(through.pose).items():
    print(f"without avoidance, {bone}: {1e3 * depth:.0f} mm inside")
result = ps.solve(human, goals)
print(result)
ps.plots.draw(human, result.pose, goals, ghost=human.rest, path=out / "20_keep_out.png", title="past a ball")
