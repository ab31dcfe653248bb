"""A motion for another body: a bow, transferred to a child of 1.20 m. Bones keep their directions, feet stay put."""

import sys
from pathlib import Path

import numpy as np

import posable as ps

out = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
human = ps.figures.human()
child = ps.figures.human(height=1.2)
rest = ps.forward(human, human.rest)
feet = [ps.goals.Pose(foot, rest.matrix(foot), label=foot) for foot in ("foot.L", "foot.R")]
low = [ps.goals.Position("hand.L", (0.2, 0.6, 0.5)), ps.goals.Position("hand.R", (-0.2, 0.6, 0.5))]
bow = ps.keyframes(human, {0: human.rest, 1: [*feet, *low, ps.goals.Posture()], 2: human.rest}, fps=60)

result = ps.retarget(bow, child)
print(result)
middle = len(result) // 2
for side in "LR":
    there, here = ps.forward(human, bow.poses[middle]), ps.forward(result.skeleton, result.poses[middle])
    bones = [frames.position(f"wrist.{side}") - frames.position(f"elbow.{side}") for frames in (there, here)]
    angle = np.degrees(np.arccos(np.dot(*bones) / np.prod(np.linalg.norm(bones, axis=1))))
    print(f"forearm.{side}: {angle:.1f} degrees between person and child")
ps.plots.draw(
    result.skeleton,
    result.poses[middle],
    ghost=result.poses[0],
    path=out / "07_retargeting.png",
    title="the child bows",
    view=(10, 60),
)
