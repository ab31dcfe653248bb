"""Frames of HDM05 as posed by Erleben & Andrews (2018): 58 degrees of freedom, 41 markers, one problem a frame.

Where a take has markers they are the targets, and a marker's place on its bone is read from the take's own joint angles
frame by frame, so that the recorded pose meets them. Takes without markers carry the places of the first take's.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import posable as ps
from benchmarks.recordings import read_markers, read_motion, read_skeleton
from posable.engine.layout import AT, POINT
from posable.problem import Problem
from posable.solvers.base import SOLVERS, RawResult, SolveOptions

CM2 = 1e4  # the engine's energy [m^2] times this is the paper's f [cm^2], (4)
ENOUGH = 1e-2  # [cm^2]: the paper's stopping tolerance on f
TAKE = ("HDM_dg.asf", "HDM_dg_03-05_02_120")
MARKERS = "HDM_dg_06-03_03_120"
ALONE = {  # takes without markers
    "sneaking": ("HDM_bk.asf", "HDM_bk_sneak2StepsLStart_006_120.AMC"),
    "jogging": ("HDM_tr.asf", "HDM_tr_jogLeftCircle4StepsRstart_014_120.amc"),
    "kicking": ("HDM_bk.asf", "HDM_bk_kickLFront1Reps_007_120.amc"),
}


@dataclass(frozen=True)
class Take:
    """A take: figure, recorded poses (T, 58), targets (T, 41, 3) and places on the bones (T, 41, 3) [m], limits."""

    name: str
    problem: Problem
    poses: np.ndarray
    targets: np.ndarray
    points: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    @property
    def size(self) -> int:
        """Degrees of freedom."""
        return self.problem.skeleton.size

    def solve(self, frame: int, solver: Any, start: np.ndarray, *, limits: bool = False, most: int, record=False):
        """Return the outcome of a solver on one frame from a start; without limits unless they are asked for."""
        self.problem.targets[0, :, AT : AT + 3] = self.targets[frame]
        self.problem.constants[0, :, POINT : POINT + 3] = self.points[frame]
        free = np.full(self.size, np.inf)
        lower, upper = (self.lower, self.upper) if limits else (-free, free)
        lower.flags.writeable = upper.flags.writeable = False
        method = SOLVERS.get(solver)() if isinstance(solver, str) else solver
        first = np.clip(start, lower, upper).reshape(1, -1)
        return method.run(self.problem, SolveOptions(first, lower, upper, max_iterations=most, record=record))


def named_motion(folder: Path, asf: str, amc: str):
    """Return the figure without thumbs, its limits, and the poses of a recording on it."""
    skeleton = read_skeleton(folder / asf)
    motion = read_motion(folder / amc, skeleton=skeleton)
    kept = [i for i, name in enumerate(skeleton.dof_names) if "thumb" not in name]
    still = [
        replace(j, motion=ps.Fixed(), limits=None) if "thumb" in j.name else replace(j, limits=None)
        for j in skeleton.joints
    ]
    poses = np.ascontiguousarray(motion.poses[:, kept])
    return still, skeleton.lower[kept].copy(), skeleton.upper[kept].copy(), poses


def make(name: str, joints, lower, upper, poses, sites: list[tuple[str, str]]) -> tuple[Take, Any]:
    """Return a take whose targets are still to be filled, and its frames."""
    figure = ps.Skeleton(joints, [ps.Site(marker, bone) for marker, bone in sites], up="y")
    goals = [ps.goals.Position(marker, (0, 0, 0), tolerance=1e-9) for marker, _ in sites]
    shape = (len(poses), len(sites), 3)
    take = Take(name, Problem(figure, goals), poses, np.empty(shape), np.empty(shape), lower, upper)
    return take, ps.forward(figure, poses)


def load_takes(data: Path, only: tuple[str, ...] = ()) -> dict[str, Take]:
    """Return the takes by name: "workout" and "short" with recorded markers, the others with markers carried along."""
    folder = data / "hdm05"
    oracle = np.load(data / "oracle" / "HDM_dg_06-03_03_120_frame100.npz")
    names = [str(name) for name in oracle["marker_names"]]
    bones = [str(oracle["bone_names"][int(bone) - 1]) for bone in oracle["marker_bone_id_1based"]]
    sites = list(zip(names, bones, strict=True))
    out = {}
    for name, stem in (("workout", TAKE[1]), ("short", MARKERS)):
        take, frames = make(name, *named_motion(folder, TAKE[0], f"{stem}.amc"), sites)
        markers = read_markers(folder / f"{stem}.c3d").select([f"Daniel:{marker}" for marker in names])
        take.targets[:] = markers.positions[..., [1, 2, 0]]
        for k, marker in enumerate(names):
            row = take.problem.skeleton.frame(marker)
            local = frames.convert(take.targets[:, k], to=marker)
            turn = take.problem.skeleton.frame_rotations[row]
            take.points[:, k] = take.problem.skeleton.frame_positions[row] + local @ turn.T
        out[name] = take
    for name, (asf, amc) in ALONE.items():
        if only and name not in only:
            continue
        take, frames = make(name, *named_motion(folder, asf, amc), sites)
        take.points[:] = out["workout"].points[0]
        for k, (_, bone) in enumerate(sites):
            take.targets[:, k] = frames.convert(take.points[0, k], from_=bone, to="world")
        out[name] = take
    return out


def energies(outcome: RawResult) -> np.ndarray:
    """Return f [cm^2] at the start and after every iteration of a recorded solve."""
    trace = outcome.traces[0]
    return CM2 * np.concatenate([trace["before"][:1], trace["energy"]])


def work_to_tolerance(take: Take, frame: int, solver: str, start, most: int, limits: bool = False) -> dict[str, Any]:
    """Return iterations, evaluations and seconds until f < 1e-2 cm^2 (or all of them), and the f left."""
    recorded = take.solve(frame, solver, start, limits=limits, most=most, record=True)
    f = energies(recorded)
    met = np.flatnonzero(f < ENOUGH)
    count = int(met[0]) if len(met) else len(f) - 1
    evaluations = float(recorded.traces[0]["evaluations"][count - 1]) if count else 1.0
    best = np.inf
    for _ in range(3):
        begin = time.thread_time()
        take.solve(frame, solver, start, limits=limits, most=max(count, 1))
        best = min(best, time.thread_time() - begin)
    return {
        "iterations": count,
        "evaluations": evaluations,
        "seconds": best,
        "f": float(f[count]),
        "met": bool(len(met)),
    }
