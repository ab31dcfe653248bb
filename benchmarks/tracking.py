"""Motion after the seeds: seed 004's protocol over a take, and seed 000's, which `seed_000.py` puts on its page.

    python -m benchmarks.tracking [seed004 seed000] [--data DIR] [--plot boxes.png] [--blender [PYTHON]]

Everything runs on one core (threads=1) unless it says otherwise. The data are the recordings of tests/conftest.py.
--blender sets Blender's own solver beside ours in seed 000's protocol: with the Python given, which has the package
bpy, or in an environment that is made for it, outside the project, on first use.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

import posable as ps
from benchmarks.recordings import read_markers, read_motion, read_skeleton
from posable.kernels.fields import AT, POINT
from posable.problem import Problem
from posable.solvers.solver import SOLVERS, Request
from posable.tracking import walking
from posable.tracking.pacing import Pace, Walker

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
TAKE = "hdm05/HDM_dg_03-05_02_120"


# ------------------------------------------------------------------------------------------------------ seed 004


def protocol_004(data: Path):
    """Return figure, problem, targets (T, M, 3), points (T, M, 3) [m]: 58 dofs, 41 markers, offsets from the AMC."""
    asf = read_skeleton(data / "hdm05/HDM_dg.asf")
    motion = read_motion(data / f"{TAKE}.amc", skeleton=asf)
    markers = read_markers(data / f"{TAKE}.c3d")
    oracle = np.load(data / "oracle/HDM_dg_06-03_03_120_frame100.npz")
    names = [str(name) for name in oracle["marker_names"]]
    bones = [str(oracle["bone_names"][int(bone) - 1]) for bone in oracle["marker_bone_id_1based"]]
    joints = [
        replace(j, motion=ps.Fixed(), limits=None) if "thumb" in j.name else replace(j, limits=None) for j in asf.joints
    ]
    figure = ps.Skeleton(joints, [ps.Site(m, b) for m, b in zip(names, bones, strict=True)], up="y")
    kept = [i for i, name in enumerate(asf.dof_names) if "thumb" not in name]
    poses = np.ascontiguousarray(motion.poses[:, kept])
    targets = np.ascontiguousarray(markers.select([f"Daniel:{name}" for name in names]).positions[..., [1, 2, 0]])
    frames = ps.forward(figure, poses)
    points = np.empty_like(targets)
    for k, name in enumerate(names):
        row = figure.frame(name)
        local = frames.convert(targets[:, k], to=name)
        points[:, k] = figure.frame_positions[row] + local @ figure.frame_rotations[row].T
    problem = Problem(figure, [ps.goals.Position(name, (0, 0, 0), tolerance=np.sqrt(1e-6 / 41)) for name in names])
    return figure, problem, targets, points


def seed004(data: Path) -> None:
    """Print table 4 of seed 004 for its first sequence: start zero, then the last solution; stop at f < 1e-2 cm^2."""
    figure, problem, targets, points = protocol_004(data)
    total = len(targets)
    walker = Walker(problem, limits=False)
    pace = Pace(most=10, enough=0.5e-6, gain=1e-9, damping=1e-2, jump=4.0)
    rate, errors, notes = 0.0, np.empty(0), np.empty(0)
    for _ in range(3):
        poses = np.empty((total, figure.size))
        begin = time.perf_counter()
        errors, notes = walker(pace, poses, targets=targets, points=points, last=np.zeros(figure.size))
        rate = max(rate, total / (time.perf_counter() - begin))
    _row("posable walk, at most 10", errors, rate)
    turned = np.flatnonzero(notes[:, walking.TURNED])
    print(f"    iterations a frame {notes[:, walking.ITERATIONS].mean():.2f}, half turns at {turned.tolist()}")
    for most in (10, 100):
        errors, rate = _frame_by_frame(problem, targets, points, "bfgs", most)
        _row(f"quasi-Newton (bfgs), at most {most}", errors, rate)
    print("    seed 004: quasi-Newton 23.78 cm at 10, 1.61 cm at 100; exact Hessian 0.5 cm at 10, 1 frame a second")


def _row(name: str, errors: np.ndarray, rate: float) -> None:
    f = np.square(errors * 100.0).sum(axis=1)
    summed = 100.0 * errors.sum(axis=1).mean()
    print(f"  {name:36s} {summed:9.3f} cm summed, f < 1e-2 in {np.mean(f < 1e-2):7.2%}, {rate:9.0f} frames/s")


def _frame_by_frame(problem: Problem, targets, points, solver: str, most: int) -> tuple[np.ndarray, float]:
    """Return errors (T, M) [m] and frames a second of a solver that starts each frame from its last pose."""
    method = SOLVERS.get(solver)()
    n = problem.skeleton.size
    free = np.full(n, np.inf)
    pose = np.zeros((1, n))
    errors = np.empty(targets.shape[:2])
    begin = time.perf_counter()
    for t in range(len(targets)):
        problem.data[0, :, AT : AT + 3], problem.data[0, :, POINT : POINT + 3] = targets[t], points[t]
        outcome = method.run(problem, Request(pose, -free, free, max_iterations=most))
        pose = outcome.poses.copy()
        errors[t] = outcome.errors[0]
    return errors, len(targets) / (time.perf_counter() - begin)


# ------------------------------------------------------------------------------------------------------ seed 000


SITES_000 = ("hand.L", "hand.R", "foot.L", "foot.R", "pelvis", "head")
INTERVALS_000 = (0.05, 0.7, 1.0)  # [s]
BUDGET_000 = 0.015  # [s] a frame
UNIT_000 = 0.2  # [m]: the seed's, whose 0.05 units are 1 cm; its step of the transpose is 0.005 in them


def protocol_000(data: Path) -> tuple[ps.Motion, dict[float, np.ndarray]]:
    """Return the exercise on the human, and its goals (K, 6, 3) [m] by interval: cartwheels, 71 dofs, 142 limits."""
    figure = ps.figures.human()
    reference = ps.retarget(ps.load(data / "cmu/87_05.bvh").motion, figure, smooth=0.02, threads=1)
    goals = {}
    for interval in INTERVALS_000:
        places = ps.forward(figure, reference.at(np.arange(0.0, reference.duration, interval)))
        goals[interval] = np.stack([places.position(site) for site in SITES_000], axis=1)
    return reference, goals


def iterations_000(reference: ps.Motion, rows: np.ndarray, solver) -> int:
    """Return how many iterations of a solver the budget buys, by the processor's own time.

    Other work on the machine must not count, or the box plots would show it.
    """
    cheapest, start = np.inf, reference.at(0.0)
    for row in rows[:8]:
        goals = [ps.goals.Position(site, row[k], tolerance=0.0) for k, site in enumerate(SITES_000)]
        begin = time.process_time()
        answer = ps.solve(reference.skeleton, goals, start=start, solver=solver, max_iterations=1000)
        cheapest = min(cheapest, (time.process_time() - begin) / max(answer.iterations, 1))
    return max(1, int(BUDGET_000 / cheapest))


def solved_000(reference: ps.Motion, rows: np.ndarray, solver, most: int) -> np.ndarray:
    """Return summed squared errors (K,) [cm^2] of a solver that starts each frame from its last pose.

    The tolerance is next to nothing, so that every method uses the time it is given.
    """
    pose, values = reference.at(0.0), []
    for row in rows:
        goals = [ps.goals.Position(site, row[k], tolerance=1e-9) for k, site in enumerate(SITES_000)]
        answer = ps.solve(reference.skeleton, goals, start=pose, solver=solver, max_iterations=most)
        pose = answer.pose
        values.append(sum(error**2 for error in answer.errors.values()))
    return np.array(values) * 1e4


def seed000(data: Path, plot: str | None = None, blender: str | None = None) -> dict[float, dict[str, np.ndarray]]:
    """Print, and plot as boxes, seed 000's figures 8 to 10: end-effector errors at equal time, by sampling interval."""
    reference, goals = protocol_000(data)
    solvers = {
        "transpose": ps.solvers.get("transpose")(step=0.005 / UNIT_000**2),
        "as printed": ps.solvers.get("projected-gradient")(first_step="one", kicks=0),
        "projected-gradient": "projected-gradient",
        "newton": "newton",
    }
    most = {name: iterations_000(reference, goals[INTERVALS_000[0]], solver) for name, solver in solvers.items()}
    print("  iterations in the time of a frame: " + ", ".join(f"{name} {count}" for name, count in most.items()))
    boxes = {
        interval: {name: solved_000(reference, rows, solver, most[name]) for name, solver in solvers.items()}
        for interval, rows in goals.items()
    }
    if blender:
        for interval, values in blender_000(reference, goals, blender).items():
            boxes[interval] = {"transpose": boxes[interval].pop("transpose"), "Blender": values, **boxes[interval]}
    for interval, values in boxes.items():
        text = "; ".join(
            f"{name} median {np.median(v):.3g}, 75% {np.quantile(v, 0.75):.3g}, worst {v.max():.3g}"
            for name, v in values.items()
        )
        print(f"  every {interval:4.2f} s, {BUDGET_000 * 1e3:g} ms a frame, summed squares [cm^2]: {text}")
    if plot:
        _boxes(boxes, plot)
    return boxes


def _boxes(boxes: dict[float, dict[str, np.ndarray]], plot: str) -> None:
    import matplotlib.pyplot as plt

    chart, axes = plt.subplots(1, len(boxes), figsize=(13, 4.2))
    for axis, (interval, values) in zip(axes, boxes.items(), strict=True):
        axis.boxplot([np.maximum(v, 1e-6) for v in values.values()], tick_labels=list(values))
        axis.set(yscale="log", title=f"goals every {interval:g} s", ylabel="sum of squared errors [cm²]")
        axis.tick_params(axis="x", labelrotation=15)
    chart.tight_layout()
    chart.savefig(plot, dpi=120)


def blender_000(reference: ps.Motion, goals: dict[float, np.ndarray], python: str) -> dict[float, np.ndarray]:
    """Return summed squared errors (K,) [cm^2] of Blender's solver by interval, and print its times."""
    figure = reference.skeleton
    nothing, start = ps.forward(figure, np.zeros(figure.size)), ps.forward(figure, reference.at(0.0))
    turns = {name: nothing.rotation_matrix(name) for name in figure.names}
    limits, first = np.zeros((len(figure.joints), 3, 2)), []
    for j, joint in enumerate(figure.joints):
        where = figure.index(joint.name)
        for k, dof in list(zip(range(where.start, where.stop), joint.motion.dofs, strict=True))[-3:]:
            ends = dof.sign * np.array([figure.lower[k], figure.upper[k]])
            limits[j, dof.axis] = np.sort(ends)
        up = np.eye(3) if joint.parent is None else turns[joint.parent].T
        now = np.eye(3) if joint.parent is None else start.rotation_matrix(joint.parent).T
        first.append((up @ turns[joint.name]).T @ now @ start.rotation_matrix(joint.name))
    sites = {site.name: site.joint for site in figure.sites}
    given = {
        "names": np.array(figure.names), "parents": np.array([joint.parent or "" for joint in figure.joints]),
        "places": np.array([nothing.position(name) for name in figure.names]),
        "turns": np.array([turns[name] for name in figure.names]), "limits": limits, "start": np.array(first),
        "sites": np.array(SITES_000), "site_joints": np.array([sites[site] for site in SITES_000]),
        "site_places": np.array([nothing.position(site) for site in SITES_000]),
        "pelvis": start.position("pelvis") - start.position(figure.names[0]), "budget": np.array(BUDGET_000),
        **{f"goals {interval}": rows for interval, rows in goals.items()},
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        problem, answer = Path(folder) / "problem.npz", Path(folder) / "answer.npz"
        np.savez(problem, **given)
        script = Path(__file__).with_name("blender_ik.py")
        subprocess.run([python, str(script), str(problem), str(answer)], check=True, stdout=subprocess.DEVNULL)
        found = dict(np.load(answer))
    for interval in goals:
        print(
            f"  Blender {found['version']}, every {interval:4.2f} s: {int(found[f'iterations {interval}'])} iterations "
            f"at most, {np.median(found[f'seconds {interval}']) * 1e3:.1f} ms a frame"
        )
    return {interval: found[f"squares {interval}"].sum(axis=1) * 1e4 for interval in goals}


def blender_python(wanted: str | None) -> str | None:
    """Return a Python that has Blender (package bpy): the one given, or one in an environment made for it."""
    if wanted is None or wanted:
        return wanted
    folder = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "posable" / "blender"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if (
        subprocess.run([python, "-c", "import bpy"], check=False, capture_output=True).returncode
        if python.is_file()
        else 1
    ):
        print(f"  making an environment with Blender in {folder} (some 350 MB) ...", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "bpy", "numpy"], check=True)
    return str(python)


SECTIONS = {"seed004": seed004, "seed000": seed000}


def main() -> None:
    """Run the sections named on the command line, or both."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], default=[])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("POSABLE_DATA", BESIDE)))
    parser.add_argument("--plot", help="where the box plots of seed 000 go")
    parser.add_argument("--blender", nargs="?", const="", metavar="PYTHON", help="beside Blender's own solver")
    args = parser.parse_args()
    warnings.simplefilter("ignore", ps.PosableWarning)
    for name in args.sections or SECTIONS:
        told = (SECTIONS[name].__doc__ or "").splitlines()[0]
        print(f"{name}: {told}")
        if name == "seed000":
            seed000(args.data, args.plot, blender_python(args.blender))
        else:
            SECTIONS[name](args.data)


if __name__ == "__main__":
    main()
