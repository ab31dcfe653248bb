"""Bring a hand to a position and orientation, as for a door handle: the third kind of goal of Tolani et al. (2000)."""

import sys
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

import posable as ps

g = ps.goals
out = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
human = ps.figures.human()
rest = ps.forward(human, human.rest)
feet = [g.Pose(foot, rest.matrix(foot), label=foot) for foot in ("foot.L", "foot.R")]

handle = np.eye(4)
handle[:3, :3] = Rotation.from_euler("xyz", (0.0, 20.0, 0.0), degrees=True).as_matrix()
handle[:3, 3] = (-0.30, 1.05, 0.45)
goals = [*feet, g.Pose("hand.R", handle)]
result = ps.solve(human, goals, restarts=5)
print(result)
ps.plots.draw(human, result.pose, goals, ghost=human.rest, path=out / "12_pose_goal.png", title="a hand at a handle")
