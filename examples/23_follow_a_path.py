"""A tool path: a robot draws a circle with its tool upright; each frame starts from the previous one."""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import posable as ps

out = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
panda = ps.figures.panda()
turn = np.linspace(0.0, 2.0 * np.pi, 121)
circle = np.stack([0.45 + 0.15 * np.cos(turn), 0.25 * np.sin(turn), np.full_like(turn, 0.3)], axis=-1)

motion = ps.follow(
    panda,
    [ps.goals.Position("hand", circle), ps.goals.Direction("hand", axis="z", along=(0, 0, -1)), ps.goals.Posture()],
    fps=60,
)
print(f"{motion.ok.sum()} of {len(motion)} frames reached")
drawn = ps.forward(panda, motion.poses).position("hand")
print(f"off the circle by {1e3 * np.linalg.norm(drawn - circle, axis=1).max():.4f} mm at most")
print(f"fastest joint: {np.degrees(np.abs(np.diff(motion.poses, axis=0)).max() * motion.fps):.0f} degrees per second")

picture = Figure(figsize=(7, 3.6), layout="constrained")
left, right = picture.subplots(1, 2)
left.plot(circle[:, 0], circle[:, 1], "--", color="#d1495b", label="wanted")
left.plot(drawn[:, 0], drawn[:, 1], color="#1f6f8b", label="drawn")
left.set(aspect="equal", xlabel="x [m]", ylabel="y [m]", title="the tool, from above")
left.legend(frameon=False, fontsize=8)
right.plot(motion.times, np.degrees(motion.poses))
right.set(xlabel="seconds", ylabel="joints [degrees]", title="all seven joints")
picture.savefig(out / "23_follow_a_path.png", dpi=130)
