"""Many effectors under one full weight matrix: Engell-Nørregård & Erleben 2011 (17).

The hands should meet at a point that is out of reach. The off-diagonal blocks weigh the sum of their errors against the
difference: where the sum costs little, both hands miss in the same way and stay together.
"""

import sys
from pathlib import Path

import numpy as np

import posable as ps

g = ps.goals
out = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
human = ps.figures.human()
rest = ps.forward(human, human.rest)
feet = [g.Pose(foot, rest.matrix(foot), label=foot) for foot in ("foot.L", "foot.R")]

seated = human.freeze(["root", "spine1", "spine2", "spine3"])
far, beside = np.array([0.25, 1.2, 1.2]), np.array([0.1, 0.0, 0.0])
hands = [g.Position("hand.L", far + beside), g.Position("hand.R", far - beside)]
one, both = np.eye(3), np.zeros((2, 2)) + 1.0
apart = np.kron(np.eye(2), one)
together = np.kron(0.5 * both, 0.2 * one) + np.kron(np.eye(2) - 0.5 * both, 20.0 * one)
for name, matrix in (("identity", apart), ("coupled", together)):
    goals = [g.Weighted(hands, matrix)]
    result = ps.solve(seated, goals)
    frames = ps.forward(seated, result.pose)
    span = np.linalg.norm(frames.position("hand.L") - frames.position("hand.R") - (0.2, 0, 0))
    print(f"{name}: " + ", ".join(f"{label} {1e3 * error:.0f} mm" for label, error in result.errors.items()))
    print(f"  the hands' own difference is off by {1e3 * span:.0f} mm")
ps.plots.draw(
    seated, result.pose, goals, ghost=human.rest, path=out / "17_weighted_effectors.png", title="coupled weights"
)
