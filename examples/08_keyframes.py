"""Keyframes of goals: give positions of the hand at certain times; the poses are solved and interpolated."""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import posable as ps

out = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
human = ps.figures.human()
rest = ps.forward(human, human.rest)
feet = [ps.goals.Pose(foot, rest.matrix(foot), label=foot) for foot in ("foot.L", "foot.R")]
places = {0.5: (-0.55, 1.55, 0.20), 1.0: (0.10, 1.25, 0.45), 1.5: (-0.30, 0.55, 0.40)}
keys = {0.0: human.rest, 2.0: human.rest}
keys |= {t: [*feet, ps.goals.Position("hand.R", place), ps.goals.Posture()] for t, place in places.items()}

motion = ps.keyframes(human, keys, fps=30)
print(motion)
path = ps.forward(human, motion.poses).position("hand.R")
for seconds, place in places.items():
    frame = round(seconds * motion.fps)
    print(f"at {seconds} s the hand is {1e3 * np.linalg.norm(path[frame] - place):.3f} mm from its key")
ps.save(out / "08_keyframes.bvh", motion)

picture = Figure(figsize=(6, 6), layout="constrained")
axes = picture.add_subplot()
for k in range(0, len(motion), 5):
    frames = ps.forward(human, motion.poses[k])
    for joint in human.joints:
        if joint.parent is not None:
            bone = np.array([frames.position(joint.parent), frames.position(joint.name)])
            axes.plot(bone[:, 0], bone[:, 1], color="#2b4c7e", lw=1.5, alpha=0.15 + 0.6 * k / len(motion))
axes.plot(path[:, 0], path[:, 1], ".-", color="#d1495b", lw=1, ms=4, label="the right hand, frame by frame")
axes.plot(*np.array(list(places.values()))[:, :2].T, "x", color="#d1495b", ms=11, mew=2.5, label="keys")
axes.set(aspect="equal", xlabel="x [m]", ylabel="y [m]", title="a motion through keys, seen from the front")
axes.invert_xaxis()
axes.legend(frameon=False, fontsize=8, loc="lower right")
picture.savefig(out / "08_keyframes.png", dpi=130)
