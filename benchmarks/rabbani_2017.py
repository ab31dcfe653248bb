"""Rabbani's (2017) figure 8 as measured: robustness near singularities and speed of every linear solver."""

from __future__ import annotations

import time

import numpy as np
from matplotlib.figure import Figure

import posable as ps
from benchmarks.drawing import plain_logarithmic
from benchmarks.page import percent

RAW = {"best": False, "max_step": np.inf}  # one bare step, unclamped
METHODS = {  # our name: the paper's, its flops, how they grow with n
    "dls": ("Singularity Robust", "2n²", 2),
    "svd": ("SVD", "2n³", 3),
    "qr": ("QR Factorization", "2n³", 3),
    "transpose": ("Jacobian Transpose", "n²", 2),
    "pseudoinverse": ("Pseudo-Inverse", "12n³", 3),
    "sdls": ("(not in the paper) selectively damped", "", None),
}
COLOURS = dict(zip(METHODS, ("tab:blue", "tab:purple", "tab:brown", "tab:orange", "tab:red", "tab:green"), strict=True))
BENDS = np.logspace(-8, 0, 33)  # [rad] of every joint away from the straight arm
PUSH = 0.05  # [m] along the arm, inward: the direction that a straight arm cannot move in


def evidence(page) -> None:
    """Write the page."""
    page.text(
        "Rabbani (2017), figure 8, is a table of five ways to solve Jθ̇ = ṗ, with marks for robustness and speed and "
        "a flop count. It has no measured numbers, and its marks are pictures that our copy of the text lacks. The "
        "text finds the singularity-robust method (damped least squares) very suitable in both respects. Here each "
        "method is measured with Posable's Jacobians. Near the singularity, an arm of three 1 m links, bent less and "
        "less, moves 5 cm along itself with one unclamped step. A step longer than a turn is useless."
    )
    near_singularity(page)
    from_singular_starts(page)
    speed(page)


def near_singularity(page) -> None:
    """One bare step as the arm straightens."""
    page.heading("One step near a singularity")
    arm = ps.figures.planar_arm([1.0, 1.0, 1.0])
    chart = Figure(figsize=(11, 4.2), layout="constrained")
    steps, gains = chart.subplots(1, 2)
    rows = []
    smallest = [np.linalg.svd(ps.jacobian(arm, np.full(3, b), "tip")[:2])[1][-1] for b in BENDS]
    for name in METHODS:
        solver = ps.solvers.get(name)(**RAW)
        lengths, left = [], []
        for bend in BENDS:
            pose = np.full(3, bend)
            tip = ps.forward(arm, pose).position("tip")
            target = tip * (1.0 - PUSH / np.linalg.norm(tip))
            goal = ps.goals.Position("tip", target, tolerance=1e-12)
            answer = ps.solve(arm, goal, start=pose, solver=solver, max_iterations=1, limits=False).pose
            lengths.append(np.linalg.norm(answer - pose))
            left.append(np.linalg.norm(ps.forward(arm, answer).position("tip") - target) / PUSH)
        dashes = "--" if name == "pseudoinverse" else "-"  # it lies on qr
        steps.loglog(smallest, np.maximum(lengths, 1e-12), dashes, color=COLOURS[name], label=name)
        gains.loglog(smallest, np.maximum(left, 1e-6), dashes, color=COLOURS[name], label=name)
        longest = page.value(f"{name}_longest_step_rad", float(np.max(lengths)))
        rows.append([METHODS[name][0], name, longest, float(np.max(left)), "yes" if longest < np.pi else "no"])
    steps.axhline(np.pi, color="0.6", linestyle=":", linewidth=1)
    steps.set(xlabel="smallest singular value of J [m]", ylabel="length of the step [rad]")
    gains.axhline(1.0, color="0.6", linestyle=":", linewidth=1)
    gains.set(xlabel="smallest singular value of J [m]", ylabel="error after the step, of the error before")
    for axis in (steps, gains):
        axis.grid(alpha=0.25)
    steps.legend(fontsize=8)
    page.plot("singular", chart, "One unclamped step of each method; dotted: half a turn, and an unchanged error")
    page.table(
        "The worst step over all bends",
        ["paper's name", "ours", "longest step [rad]", "worst error left", "robust"],
        rows,
        note="*robust*: no step beyond half a turn. `pseudoinverse` and `qr` drop dependent rows only below 1e-12 "
        "and 1e-6, so just above these values their steps are huge; `svd` truncates singular values below a "
        "thousandth of the largest. As the paper says, the damped method stays robust. Differences: the "
        "pseudo-inverse of the paper is Matlab's, by singular values, which is our `svd`; our `pseudoinverse` is "
        "Parent's, by LU.",
    )  # fmt: skip


def from_singular_starts(page) -> None:
    """Whole solves that start with a straight arm."""
    page.heading("Whole solves from a straight arm")
    arm = ps.figures.limb()
    count = page.pick(500, 40)
    rng = np.random.default_rng(0)
    poses = rng.uniform(arm.lower, arm.upper, (count, arm.size))
    frames = ps.forward(arm, poses)
    start = arm.rest.copy()
    start[arm.index("elbow")] = np.clip(1e-6, arm.lower[3], arm.upper[3])
    rows = []
    for name in (*METHODS, "newton"):
        cells = []
        for goal in (ps.goals.Position("hand", frames.position("hand")), ps.goals.Pose("hand", frames.matrix("hand"))):
            result = ps.solve(arm, goal, start=start, solver=name, threads=1)
            got = ps.forward(arm, result.pose)
            good = np.linalg.norm(got.position("hand") - frames.position("hand"), axis=1) < 1e-3
            good &= ((result.pose >= arm.lower - 1e-9) & (result.pose <= arm.upper + 1e-9)).all(axis=1)
            if isinstance(goal, ps.goals.Pose):
                gap = got.matrix("hand")[:, :3, :3] - frames.matrix("hand")[:, :3, :3]
                good &= np.linalg.norm(gap, axis=(1, 2)) < np.sqrt(2.0) * 1e-2
            cells += [percent(float(good.mean())), float(np.median(result.iterations))]
            page.value(f"{name}_{type(goal).__name__}_reached", float(good.mean()))
        rows.append([name, *cells])
    page.table(
        f"The limb to {count} reachable goals, limits on, from a straight elbow, no restarts",
        ["solver", "places reached", "iterations", "poses reached", "iterations"],
        rows,
        note="With default options: steps clamped to one radian, limits inside the solve (Rabbani 2017, practical "
        "notes), except for `svd`, which projects at the end as Blender does, at a cost. Reached: within 1 mm, 0.01 "
        "rad and the limits, by forward kinematics.",
    )


def speed(page) -> None:
    """Time of one iteration, and how it grows with the degrees of freedom."""
    page.heading("Speed")
    sizes = (8, 16, 32, 64, 128) if not page.quick else (8, 32)
    chart = Figure(figsize=(7, 4.2), layout="constrained")
    axis = chart.subplots()
    rows = []
    for name, (title, flops, grows) in METHODS.items():
        times = [1e6 * iteration_seconds(name, size, page.pick(64, 8)) for size in sizes]
        slope = float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
        axis.loglog(sizes, times, "o-", color=COLOURS[name], label=f"{name}, n^{slope:.2f}")
        rows.append([title, name, flops, *times, f"n^{slope:.2f}", f"n^{grows}" if grows else ""])
        page.value(f"{name}_us", dict(zip(map(str, sizes), times, strict=True)))
        page.value(f"{name}_exponent", slope)
    axis.set(xlabel="degrees of freedom", ylabel="one iteration [us]", xticks=sizes, xticklabels=sizes)
    plain_logarithmic(axis)
    axis.legend(fontsize=8)
    page.plot("speed", chart, "One iteration on a chain with a position goal at its end and another at its middle")
    page.table(
        "Microseconds of one iteration, kinematics included",
        ["paper's name", "ours", "paper's flops", *(f"n = {n}" for n in sizes), "measured", "paper"],
        rows,
        note="The paper counts flops of a square system of n rows. Six rows, as here, lead to a 6 × 6 system JJ' for "
        "any n, so every method grows about as slowly as the Jacobian, and the advantage of the transpose is small.",
    )


def iteration_seconds(name: str, size: int, count: int) -> float:
    """Return the seconds of one iteration on a chain of hinges, from a batch of targets that take many of them."""
    joints = [ps.Joint("0", ps.Revolute("z"))]
    joints += [
        ps.Joint(str(i), ps.Revolute("xyz"[i % 3]), str(i - 1), offset=(1.0 / size, 0, 0)) for i in range(1, size)
    ]
    chain = ps.Skeleton(joints, [ps.Site("end", str(size - 1), (0.1, 0, 0)), ps.Site("middle", str(size // 2))])
    rng = np.random.default_rng(1)
    frames = ps.forward(chain, rng.uniform(-1.0, 1.0, (count, size)))
    goals = [ps.goals.Position(site, frames.position(site), tolerance=1e-15) for site in ("end", "middle")]
    best = np.inf
    for _ in range(3):
        begin = time.thread_time()
        result = ps.solve(chain, goals, solver=name, max_iterations=20, threads=1)
        best = min(best, (time.thread_time() - begin) / max(1, int(np.sum(result.iterations))))
    return best
