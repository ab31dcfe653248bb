"""A limb in closed form: the hand stays, the elbow turns about the line from shoulder to hand, within exact ranges."""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import posable as ps

out = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
human = ps.figures.human()
arm = ps.Limb(human, "shoulder.R", "elbow.R", "wrist.R", site="hand.R")
target = np.array([-0.30, 1.25, 0.40])

ranges = arm.swivel_ranges(target)
for one in ranges:
    print(one)
circle = arm.elbow_circle(target)
print(f"the elbow's circle: radius {circle.radius:.3f} m")

picture = Figure(figsize=(6, 5.4), layout="constrained")
axes = picture.add_subplot(projection="3d")
turn = np.linspace(-np.pi, np.pi, 200)
ring = circle.point(turn)
axes.plot(ring[:, 2], ring[:, 0], ring[:, 1], color="#d1495b", lw=1, label="the elbow's circle")
for low, high in ranges:
    free = circle.point(np.linspace(low, high, 100))
    axes.plot(free[:, 2], free[:, 0], free[:, 1], color="#2a9d8f", lw=4, label="every limit holds")
for swivel in np.linspace(*ranges[0], 7):
    frames = ps.forward(human, arm.solve(target, swivel=swivel).pose)
    bones = np.array([frames.position(name) for name in ("shoulder.R", "elbow.R", "wrist.R", "hand.R")])
    axes.plot(bones[:, 2], bones[:, 0], bones[:, 1], "o-", color="#2b4c7e", ms=3, lw=2, alpha=0.6)
    print(f"swivel {np.degrees(swivel):7.1f} degrees: hand off by {np.linalg.norm(bones[-1] - target):.1e} m")
axes.set(xlabel="z [m]", ylabel="x [m]", zlabel="y [m]", title="one goal, all elbows", aspect="equal")
axes.legend(loc="upper left", fontsize=8)
axes.view_init(15, -60)
picture.savefig(out / "04_limb_and_swivel.png", dpi=130)
