"""The protocol of Engell-Nørregård & Erleben (2011): a gymnastics exercise, every method given equal time a frame."""

from __future__ import annotations

import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import posable as ps
from benchmarks.recordings import read_motion

SITES = ("hand.L", "hand.R", "foot.L", "foot.R", "pelvis", "head")
INTERVALS = (0.05, 0.7, 1.0)  # [s]
BUDGET = 0.015  # [s] a frame
UNIT = 0.2  # [m]: the paper's, whose 0.05 units are 1 cm; its step of the transpose is 0.005 in them


def protocol(data: Path) -> tuple[ps.Motion, dict[float, np.ndarray]]:
    """Return the exercise on the human, and its goals (K, 6, 3) [m] by interval: cartwheels, 71 dofs, 142 limits."""
    figure = ps.figures.human()
    reference = ps.retarget(read_motion(data / "cmu/87_05.bvh"), figure, smooth=0.02, threads=1)
    goals = {}
    for interval in INTERVALS:
        places = ps.forward(figure, reference.at(np.arange(0.0, reference.duration, interval)))
        goals[interval] = np.stack([places.position(site) for site in SITES], axis=1)
    return reference, goals


@dataclass(frozen=True)
class Ran:
    """A method on the exercise: iterations allowed a frame; by interval, summed squares (K,) [cm^2], seconds (K,)."""

    iterations: int
    sums: dict[float, np.ndarray]
    seconds: dict[float, np.ndarray]


def fitting_iterations(reference: ps.Motion, rows: np.ndarray, solver: Any) -> int:
    """Return how many iterations of a solver the budget buys, by the processor's own time.

    Other work on the machine must not count, or the box plots would show it.
    """
    cheapest, start = np.inf, reference.at(0.0)
    for row in rows[:8]:
        goals = [ps.goals.Position(site, row[k], tolerance=0.0) for k, site in enumerate(SITES)]
        begin = time.process_time()
        answer = ps.solve(reference.skeleton, goals, start=start, solver=solver, max_iterations=1000, natural=False)
        cheapest = min(cheapest, (time.process_time() - begin) / max(answer.iterations, 1))
    return max(1, int(BUDGET / cheapest))


def run(reference: ps.Motion, goals: dict[float, np.ndarray], solver: Any) -> Ran:
    """Return what a solver makes of the goals, each frame from its last pose, in the time of a frame.

    The tolerance is next to nothing, so that every method uses the time it is given.
    """
    most = fitting_iterations(reference, goals[INTERVALS[0]], solver)
    ran = Ran(most, {}, {})
    for interval, rows in goals.items():
        pose, sums, seconds = reference.at(0.0), [], []
        for row in rows:
            held = [ps.goals.Position(site, row[k], tolerance=1e-9) for k, site in enumerate(SITES)]
            begin = time.process_time()
            answer = ps.solve(reference.skeleton, held, start=pose, solver=solver, max_iterations=most, natural=False)
            seconds.append(time.process_time() - begin)
            pose = answer.pose
            sums.append(1e4 * sum(error**2 for error in answer.errors.values()))
        ran.sums[interval], ran.seconds[interval] = np.array(sums), np.array(seconds)
    return ran


def run_blender(reference: ps.Motion, goals: dict[float, np.ndarray], python: Path) -> tuple[str, Ran]:
    """Return Blender's version and what its own solver makes of the goals; python: one that has the package bpy."""
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
        "sites": np.array(SITES), "site_joints": np.array([sites[site] for site in SITES]),
        "site_places": np.array([nothing.position(site) for site in SITES]),
        "pelvis": start.position("pelvis") - start.position(figure.names[0]), "budget": np.array(BUDGET),
        **{f"goals {interval}": rows for interval, rows in goals.items()},
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        problem, answer = Path(folder) / "problem.npz", Path(folder) / "answer.npz"
        np.savez(problem, **given)  # pyright: ignore[reportArgumentType]
        script = Path(__file__).with_name("blender_ik.py")
        subprocess.run([str(python), str(script), str(problem), str(answer)], check=True, stdout=subprocess.DEVNULL)
        found = dict(np.load(answer))
    sums = {interval: 1e4 * found[f"squares {interval}"].sum(axis=1) for interval in goals}
    seconds = {interval: found[f"seconds {interval}"] for interval in goals}
    return str(found["version"]), Ran(int(found["iterations"]), sums, seconds)
