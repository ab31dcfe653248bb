"""Six solvers on one problem: a robot arm reaches twenty random poses; the plot shows how the energy decreases."""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import posable as ps

out = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
SOLVERS = ("newton", "levenberg-marquardt", "dls", "bfgs", "projected-gradient", "transpose")
panda = ps.figures.panda()
rng = np.random.default_rng(3)
near = np.clip(panda.rest + rng.normal(scale=0.4, size=(20, panda.size)), panda.lower, panda.upper)
targets = ps.forward(panda, near).matrix("hand")

picture = Figure(figsize=(7, 4), layout="constrained")
axes = picture.add_subplot()
print(f"{'solver':20s} reached   iterations")
for color, name in enumerate(SOLVERS):
    runs = [
        ps.solve(panda, ps.goals.Pose("hand", one), solver=name, max_iterations=400, record=True) for one in targets
    ]
    print(f"{name:20s} {sum(run.ok for run in runs):2d} of 20   {np.median([run.iterations for run in runs]):.0f}")
    for k, run in enumerate(runs):
        energy = np.maximum(run.trace["energy"], 1e-18)
        axes.loglog(np.arange(1, len(energy) + 1), energy, color=f"C{color}", lw=1, alpha=0.7, label="" if k else name)
axes.set(xlabel="iterations", ylabel="energy", title="a Panda to twenty poses near rest")
axes.legend(fontsize=8, frameon=False)
picture.savefig(out / "09_solver_comparison.png", dpi=130)
