"""A thousand problems at once: a robot arm finds the joint angles of random reachable poses, on all cores."""

import sys
import time
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import posable as ps

out = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
panda = ps.figures.panda()
rng = np.random.default_rng(1)
poses = rng.uniform(panda.lower, panda.upper, size=(1000, panda.size))
targets = ps.forward(panda, poses).matrix("hand")  # (1000, 4, 4): the leading axis is the batch

ps.solve(panda, ps.goals.Pose("hand", targets[:32]), restarts=100)  # loads or compiles the engine, once
begin = time.perf_counter()
result = ps.solve(panda, ps.goals.Pose("hand", targets), restarts=100)
taken = time.perf_counter() - begin
found = ps.forward(panda, result.pose).matrix("hand")
print(f"{result.ok.sum()} of {result.ok.size} reached in {1e3 * taken:.0f} ms")
print(f"positions off by {1e3 * np.linalg.norm((found - targets)[:, :3, 3], axis=1).max():.3f} mm at most")
print(f"iterations: median {np.median(result.iterations):.0f}, maximum {result.iterations.max()}")

picture = Figure(figsize=(7, 3.6), layout="constrained")
place, bars = picture.subplots(1, 2)
across = np.hypot(targets[:, 0, 3], targets[:, 1, 3])
dots = place.scatter(across, targets[:, 2, 3], c=result.iterations, s=6, norm="log", cmap="viridis")
place.set(xlabel="distance from the axis [m]", ylabel="height [m]", aspect="equal", title="where the targets are")
picture.colorbar(dots, ax=place, label="iterations")
bars.hist(result.iterations, bins=np.geomspace(1, result.iterations.max() + 1, 30), color="#1f6f8b")
bars.set(xscale="log", xlabel="iterations, restarts included", ylabel="poses", title="how long it took")
picture.savefig(out / "02_batches.png", dpi=130)
