"""A hand and a gaze goal that conflict: the first priority does not give way to the second."""

import sys
from pathlib import Path

import numpy as np

import posable as ps

g = ps.goals
out = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
human = ps.figures.human()
rest = ps.forward(human, human.rest)
feet = [g.Pose(foot, rest.matrix(foot), label=foot) for foot in ("foot.L", "foot.R")]

seated = human.freeze(["root", "hip.L", "hip.R"])
for hand, gaze in ((0, 1), (1, 0)):
    goals = [
        g.Position("hand.R", (-0.1, 0.35, 0.75), priority=hand),
        g.Aim("head", axis="z", at=(0.0, 3.0, -0.6), priority=gaze),
    ]
    result = ps.solve(seated, goals)
    first = "hand" if hand < gaze else "gaze"
    print(
        f"{first} first: hand {1e3 * result.errors['hand.R']:.1f} mm, gaze {np.degrees(result.errors['head']):.2f} deg"
    )
    ps.plots.draw(
        seated, result.pose, goals, ghost=human.rest, path=out / f"21_{first}_first.png", title=f"{first} first"
    )
