"""Markers to motion: a synthetic take with noise and gaps, tracked and compared with the true motion."""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import posable as ps

out = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
human = ps.figures.human()
rest = ps.forward(human, human.rest)
feet = [ps.goals.Pose(foot, rest.matrix(foot), label=foot) for foot in ("foot.L", "foot.R")]
wave = [
    [*feet, ps.goals.Position("hand.R", place), ps.goals.Posture()] for place in ((-0.5, 1.6, 0.25), (-0.3, 1.65, 0.25))
]
truth = ps.keyframes(human, {0: human.rest, 1: wave[0], 1.5: wave[1], 2: wave[0], 3: human.rest}, fps=100)

names = [name for name in human.site_names if name.isupper()]  # the 41 markers of the HDM05 set
frames = ps.forward(human, truth.poses)
places = np.stack([frames.position(name) for name in names], axis=1)
rng = np.random.default_rng(4)
seen = places + rng.normal(scale=0.001, size=places.shape)
seen[rng.random(seen.shape[:2]) < 0.2] = np.nan
seen[120:170, names.index("RELB")] = np.nan

take = ps.track(human, ps.Markers(names, seen, fps=100))
print(take.report)
after = ps.forward(human, take.motion.poses)
off = 1e3 * np.linalg.norm(np.stack([after.position(name) for name in names], axis=1) - places, axis=-1)
hidden = np.isnan(seen[..., 0])
print(
    f"\nagainst the truth: seen markers off by {off[~hidden].mean():.2f} mm, unseen ones by {off[hidden].mean():.2f} mm"
)

picture = Figure(figsize=(7, 4.4), layout="constrained")
above, below = picture.subplots(2, 1, sharex=True, height_ratios=(2, 1))
row = human.dof_names.index("elbow.R")
above.plot(truth.times, np.degrees(take.motion.poses[:, row]), color="#1f6f8b", lw=2, label="tracked")
above.plot(truth.times, np.degrees(truth.poses[:, row]), color="#d1495b", lw=1, label="truth")
above.set(ylabel="right elbow [degrees]")
above.legend(frameon=False)
below.imshow(~hidden.T, aspect="auto", cmap="Greys_r", extent=(0, 3, 41, 0), interpolation="nearest")
below.set(xlabel="seconds", ylabel="markers", title="black: unseen")
picture.savefig(out / "06_tracking_a_take.png", dpi=130)
