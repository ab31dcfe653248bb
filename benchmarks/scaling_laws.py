"""What a solve costs against degrees of freedom, depth, goals, batch size and threads, with fitted exponents."""

from __future__ import annotations

import os
import time

import numpy as np
from matplotlib.figure import Figure

import posable as ps
from benchmarks import kinematics
from benchmarks.drawing import plain_logarithmic
from benchmarks.kinematics import exponent
from posable.cli.bench import problem_set

JOBS = {"forward": "forward kinematics", "derivatives": "gradient and exact Hessian", "solve": "factorisation and step"}
COMPARED = {"newton": "tab:red", "levenberg-marquardt": "tab:green", "bfgs": "tab:orange", "lbfgs": "tab:brown"}
PROBLEMS = 32
SAME = 4  # problems that a batch repeats


def evidence(page) -> None:
    """Write the page."""
    page.text(
        "How the cost grows, and with which exponent: the slope of log time over log size, fitted by least squares. "
        "The first section times one evaluation inside a compiled loop. The others time solves from Python, on one "
        "thread unless stated otherwise, and divide by the iterations, so that harder problems do not appear more "
        "expensive."
    )
    evaluations(page)
    chart = Figure(figsize=(12, 7.5), layout="constrained")
    axes = chart.subplots(2, 3).ravel()
    degrees_of_freedom(page, axes[0], axes[1])
    depths(page, axes[2])
    goals(page, axes[3])
    batches(page, axes[4])
    threads(page, axes[5])
    for axis in axes[:5]:
        plain_logarithmic(axis)
    axes[5].grid(alpha=0.25)
    page.plot(
        "solves", chart, "What a solve costs as each size grows, and what threads gain; the exponents are in the labels"
    )


def curve(axis, sizes, times, label: str, colour: str | None = None) -> float:
    """Draw times over sizes on logarithmic axes; return the fitted exponent, which the label shows."""
    slope = float(exponent(sizes, times))
    axis.loglog(sizes, times, "o-", markersize=4, color=colour, label=f"{label}: {slope:.2f}")
    axis.set_xticks(sizes, [str(size) for size in sizes])
    axis.legend(fontsize=8)
    return slope


def microseconds(bench, job: str, runs: int) -> float:
    """Return the least time [us] of one repeat; runs of about two milliseconds fit between other work."""
    about = bench.time(job, repeats=2, runs=3)
    return bench.time(job, repeats=int(np.clip(2000.0 / about, 1, 100)), runs=runs)


def evaluations(page) -> None:
    """One evaluation of chains and trees of hinges, by joints and by markers."""
    page.heading("One evaluation")
    runs = page.pick(200, 20)
    chart = Figure(figsize=(12, 4.2), layout="constrained")
    axes = chart.subplots(1, 3)
    rows = []
    shapes = {"chain": (16, 32, 64, 128, 256), "tree": (15, 31, 63, 127, 255)}
    for axis, (shape, sizes) in zip(axes[:2], shapes.items(), strict=True):
        benches = [kinematics.grown(shape, size, 16) for size in sizes]
        for job, label in JOBS.items():
            times = [microseconds(bench, job, runs) for bench in benches]
            slope = curve(axis, sizes, times, label)
            rows.append(
                [f"joints of a {shape}", label, f"{times[0]:.2f} to {times[-1]:.2f}", f"{slope:.2f}", LAWS[shape, job]]
            )
            page.value(f"{shape}_{job}_exponent", slope)
        axis.set(title=f"a {shape}, 16 markers", xlabel="joints", ylabel="[us]")
    for shape in shapes:
        sizes = (16, 32, 64, 128, 256)
        times = [microseconds(kinematics.grown(shape, 63, size), "derivatives", runs) for size in sizes]
        slope = curve(axes[2], sizes, times, f"{shape} of 63 joints")
        rows.append(
            [
                f"markers on a {shape}",
                JOBS["derivatives"],
                f"{times[0]:.2f} to {times[-1]:.2f}",
                f"{slope:.2f}",
                "at most 1",
            ]
        )
        page.value(f"{shape}_markers_exponent", slope)
    axes[2].set(title="gradient and exact Hessian", xlabel="markers", ylabel="[us]")
    for axis in axes:
        plain_logarithmic(axis)
    page.plot("evaluations", chart, "One evaluation against joints and markers; the exponents are in the labels")
    page.table(
        "Exponents of one evaluation", ["against", "work", "us", "measured", "operations"], rows,
        note="Operations: forward kinematics O(n); the Hessian O(goals) + O(n · depth); the factorisation O(n · "
        "depth²). A chain's depth is n, a binary tree's log n. The papers' algorithm 4 is O(n² · goals).",
    )  # fmt: skip


LAWS = {
    ("chain", "forward"): "1", ("chain", "derivatives"): "2", ("chain", "solve"): "3",
    ("tree", "forward"): "1", ("tree", "derivatives"): "1, times log n", ("tree", "solve"): "1, times log² n",
}  # fmt: skip


def limbed(limbs: int, joints: int) -> ps.Skeleton:
    """Return a hub with limbs of hinges, a site at the end of each; depth is joints / limbs."""
    members = [ps.Joint("hub", ps.Fixed())]
    for k in range(limbs):
        parent = "hub"
        for i in range(joints // limbs):
            name = f"{k}.{i}"
            offset = (0.3 * np.cos(k), 0.3 * np.sin(k), 0.0) if i == 0 else (0.1, 0.0, 0.0)
            members.append(ps.Joint(name, ps.Revolute("zyx"[i % 3]), parent, offset=offset, limits=(-2.5, 2.5)))
            parent = name
    return ps.Skeleton(members, [ps.Site(f"end{k}", f"{k}.{joints // limbs - 1}", (0.1, 0, 0)) for k in range(limbs)])


def per_iteration(skeleton, places: dict[str, np.ndarray], solver: str = "newton", passes: int = 5) -> float:
    """Return microseconds of one iteration on a batch of reachable targets, from rest, on one thread."""
    goal_list = [ps.goals.Position(site, target) for site, target in places.items()]
    best = np.inf
    for _ in range(passes):
        begin = time.thread_time()  # one thread's own time: other work on the machine does not count
        result = ps.solve(skeleton, goal_list, solver=solver, threads=1)
        best = min(best, (time.thread_time() - begin) / max(1, int(np.sum(result.iterations))))
    return 1e6 * best


def reachable(skeleton, sites, count: int = PROBLEMS, spread: float = 0.6) -> dict[str, np.ndarray]:
    """Return targets (count, 3) of sites at random poses about rest."""
    poses = skeleton.rest + np.random.default_rng(2).uniform(-spread, spread, (count, skeleton.size))
    frames = ps.forward(skeleton, np.clip(poses, skeleton.lower, skeleton.upper))
    return {site: frames.position(site) for site in sites}


def degrees_of_freedom(page, chain_axis, star_axis) -> None:
    """Whole iterations against degrees of freedom, for a chain and for limbs of eight joints."""
    page.heading("Degrees of freedom")
    sizes = (8, 16, 32, 64, 128) if not page.quick else (8, 32)
    rows = []
    for axis, shape in ((chain_axis, "chain"), (star_axis, "limbs of 8")):
        figures = [limbed(1 if shape == "chain" else max(1, n // 8), n) for n in sizes]
        for solver, colour in COMPARED.items():
            times = [per_iteration(f, reachable(f, f.site_names), solver) for f in figures]
            slope = curve(axis, sizes, times, solver, colour)
            rows.append([shape, solver, *times, f"{slope:.2f}"])
            page.value(f"{shape} {solver} exponent", slope)
        axis.set(title=f"{shape}, a goal at each end", xlabel="degrees of freedom", ylabel="one iteration [us]")
    page.table("Microseconds of one iteration", ["figure", "solver", *(f"n = {n}" for n in sizes), "exponent"], rows)


def depths(page, axis) -> None:
    """Iterations of 64 joints arranged ever deeper."""
    page.heading("Depth")
    limbs = (16, 8, 4, 2, 1)
    figures = [limbed(k, 64) for k in limbs]
    sizes = [64 // k for k in limbs]
    times = []
    for figure in figures:  # the same number of goals whatever the shape
        sites = [figure.joints[i].name for i in np.linspace(1, 64, 16).round().astype(int)]
        times.append(per_iteration(figure, reachable(figure, sites)))
    slope = curve(axis, sizes, times, "newton", "tab:red")
    axis.set(title="64 joints, 16 goals", xlabel="depth", ylabel="one iteration [us]")
    page.table(
        "64 joints in limbs, 16 goals", ["depth", "one iteration [us]"], zip(sizes, times, strict=True),
        note=f"Exponent {slope:.2f}; the operations of the Hessian grow with the depth, those of the factorisation "
        "with its square, and those of forward kinematics not at all.",
    )  # fmt: skip
    page.value("depth_exponent", slope)


def goals(page, axis) -> None:
    """Iterations of the human with ever more goals."""
    page.heading("Goals")
    human = ps.figures.human()
    poses = np.random.default_rng(3).uniform(-0.1, 0.1, (PROBLEMS, human.size)) + human.rest
    frames = ps.forward(human, np.clip(poses, human.lower, human.upper))
    counts, times = (4, 8, 16, 32, 64, 128), []
    for count in counts:
        points = np.random.default_rng(4).normal(size=(count, 3)) * 0.05
        bodies = [human.site_names[k % len(human.site_names)] for k in range(count)]
        wanted = [
            ps.goals.Position(body, frames.convert(point, from_=body, to="world"), point=point, label=str(k))
            for k, (body, point) in enumerate(zip(bodies, points, strict=True))
        ]
        packed = ps.solve(human, wanted, threads=1)  # packing is paid once; what repeats is the iteration
        best = np.inf
        for _ in range(5):
            begin = time.thread_time()
            outcome = ps.solvers.get("newton")().run(packed.problem, packed.options)
            best = min(best, (time.thread_time() - begin) / max(1, int(np.sum(outcome.iterations))))
        times.append(1e6 * best)
    slope = curve(axis, counts, times, "newton", "tab:red")
    axis.set(title="the human", xlabel="position goals", ylabel="one iteration [us]")
    page.table(
        "The human of 71 degrees of freedom", ["goals", "one iteration [us]"], zip(counts, times, strict=True),
        note=f"Exponent {slope:.2f}. Ten times as many goals cost less than twice as much: each adds its wrench and "
        "stiffness to a body, and the tree is traversed once.",
    )  # fmt: skip
    page.value("goals_exponent", slope)


def batches(page, axis) -> None:
    """Time a problem against the size of a batch, from Python, on one thread."""
    page.heading("Batch size")
    sizes = (1, 4, 16, 64, 256, 1024, 4096) if not page.quick else (1, 16, 256)
    rows = []
    for figure, colour in (("panda", "tab:blue"), ("human", "tab:red")):
        times = []
        problems = problem_set(figure, SAME)
        for size in sizes:
            wanted = problems.goals(0 if size == 1 else np.arange(size) % SAME)  # the same problems, over and over
            best = np.inf
            for _ in range(5):
                begin = time.thread_time()
                ps.solve(problems.skeleton, wanted, threads=1)
                best = min(best, (time.thread_time() - begin) / size)
            times.append(1e3 * best)
        slope = curve(axis, sizes, np.multiply(times, sizes), figure, colour)
        rows.append([figure, *times, f"{slope:.2f}"])
        page.value(f"{figure}_batch_exponent", slope)
    axis.set(title="one call of solve", xlabel="problems in the batch", ylabel="the whole batch [ms]")
    page.table(
        "Milliseconds a problem, one thread", ["figure", *(f"{size}" for size in sizes), "exponent of the whole"], rows,
        note="The same few problems, repeated. Each call has an overhead of some tens of microseconds, which a batch "
        "shares; beyond that the time is linear.",
    )  # fmt: skip


def threads(page, axis) -> None:
    """Speed-up of a batch by threads."""
    page.heading("Threads")
    cores = os.cpu_count() or 1
    counts = sorted({1, *(2**k for k in range(1, 8) if 2**k <= cores), cores})
    rows, best_gain = [], 0.0
    for figure, colour in (("panda", "tab:blue"), ("human", "tab:red")):
        problems = problem_set(figure, page.pick(2048, 128))
        wanted = problems.goals()
        answers, times = [], []
        for count in counts:
            best, poses = np.inf, np.empty(0)
            for _ in range(7):
                begin = time.perf_counter()
                poses = ps.solve(problems.skeleton, wanted, threads=count).pose
                best = min(best, time.perf_counter() - begin)
            answers.append(poses)
            times.append(best)
        same = all(np.array_equal(answers[0], other) for other in answers)
        gains = times[0] / np.array(times)
        best_gain = max(best_gain, float(gains[-1]))
        axis.plot(counts, gains, "o-", color=colour, label=figure)
        rows.append([figure, *(len(problems) / t for t in times), float(gains[-1]), "yes" if same else "NO"])
        page.value(f"{figure}_threads_gain", float(gains[-1]))
    axis.plot(counts, counts, ":", color="0.6", label="ideal")
    axis.set(title=f"a batch on {cores} cores", xlabel="threads", ylabel="times as fast", xticks=counts)
    axis.legend(fontsize=8)
    page.table(
        "Problems a second", ["figure", *(f"{count} threads" for count in counts), "gain", "same bits"], rows,
        note="Wall-clock times: if the machine was busy (below), the gain says little.",
    )  # fmt: skip
