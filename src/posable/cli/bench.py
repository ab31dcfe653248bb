"""`posable bench`: measure the speed of this machine, in about a minute.

Measures forward kinematics, the default solver on every built-in figure, and every solver on the limb. Comparisons
with other libraries are made by `python -m benchmarks` in the source repository.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import posable as ps
from posable.cli.progress import ProgressBar

# --- Reproducible problems on the built-in figures; also used by the regression gate ---

NEAR, TURNED = 1e-3, 1e-2  # [m], [rad] tolerances
LIMIT_SLACK = 1e-9  # [rad, m]

BODIES = {
    "planar_arm": ("tip",),
    "limb": ("hand",),
    "panda": ("hand",),
    "spider": ("foot.1", "foot.2", "foot.3", "foot.4", "foot.5", "foot.6", "foot.7", "foot.8"),
    "tree": ("end1", "end2", "end3", "end4", "end5", "end6"),
    "human": ("hand.L", "hand.R", "foot.L", "foot.R", "head", "pelvis"),
}
SHARE = {
    "planar_arm": 0.5,
    "limb": 1.0,
    "panda": 1.0,
    "spider": 0.5,
    "tree": 0.3,
    "human": 0.5,
}  # of the ranges
TURNS = ("limb", "panda")  # figures with pose goals; the others have positions


@dataclass(frozen=True)
class ProblemSet:
    """Problems on one figure: target frames (t, 4, 4) per body, as poses or as positions."""

    figure: str
    skeleton: ps.Skeleton
    targets: dict[str, np.ndarray]
    turns: bool

    def __len__(self) -> int:
        return len(next(iter(self.targets.values())))

    def goals(self, which: Any = slice(None)) -> list[Any]:
        """Return the goals of problem `which`, or of a batch if it is a slice."""
        if self.turns:
            return [ps.goals.Pose(body, frames[which]) for body, frames in self.targets.items()]
        return [ps.goals.Position(body, frames[which][..., :3, 3]) for body, frames in self.targets.items()]

    def move(self, session: ps.Session, k: int) -> None:
        """Set the goals of a session to those of problem `k`."""
        for body, frames in self.targets.items():
            session.move(body, frames[k] if self.turns else frames[k, :3, 3])

    def reached(self, poses: np.ndarray) -> np.ndarray:
        """Return for poses (t, n), one per problem, whether each reaches its goals inside the limits."""
        skeleton = self.skeleton
        inside = (poses >= skeleton.lower - LIMIT_SLACK) & (poses <= skeleton.upper + LIMIT_SLACK)
        good = np.all(inside & np.isfinite(poses), axis=1)
        frames = ps.forward(skeleton, np.where(np.isfinite(poses), poses, 0.0))
        for body, wanted in self.targets.items():
            got, wanted = frames.matrix(body), wanted[: len(poses)]
            good &= np.linalg.norm(got[:, :3, 3] - wanted[:, :3, 3], axis=1) <= NEAR
            if self.turns:
                good &= np.linalg.norm(got[:, :3, :3] - wanted[:, :3, :3], axis=(1, 2)) <= np.sqrt(2.0) * TURNED
        return good


def problem_set(figure: str, count: int) -> ProblemSet:
    """Return `count` problems on a built-in figure; joints are drawn from a fraction of their range around rest."""
    skeleton = ps.figures.get(figure)
    rng = np.random.default_rng(0)
    lower = np.where(np.isfinite(skeleton.lower), skeleton.lower, skeleton.rest - np.pi)
    upper = np.where(np.isfinite(skeleton.upper), skeleton.upper, skeleton.rest + np.pi)
    if isinstance(skeleton.joints[0].motion, ps.Free):  # keep a free root nearby
        reach = np.array([0.5, 0.5, 0.5, 1.0, 1.0, 1.0])
        lower[:6] = np.maximum(lower[:6], skeleton.rest[:6] - reach)
        upper[:6] = np.minimum(upper[:6], skeleton.rest[:6] + reach)
    poses = skeleton.rest + SHARE[figure] * (rng.uniform(lower, upper, (count, skeleton.size)) - skeleton.rest)
    frames = ps.forward(skeleton, poses)
    targets = {body: frames.matrix(body) for body in BODIES[figure]}
    return ProblemSet(figure, skeleton, targets, figure in TURNS)


# --- The verb ---

EXAMPLE = "posable bench"
POSES = 2000  # in one call of forward kinematics
COMPARED = 32  # problems per solver
DRIVEN, DRIVEN_COUNT = ("rate", "sqp"), 4  # driven from Python and slow: fewer problems
POSITIONS_ONLY = ("fabrik",)  # solves positions only
RESTARTS = 50
PASSES = 3  # the fastest counts: other load only adds time


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    parser.add_argument("--count", type=int, default=200, metavar="N", help="problems per figure (default: 200)")


def run(args: argparse.Namespace) -> int:
    """Measure and print; return 0 if the default solver reached every problem of every figure."""
    if args.count < 1:
        raise ps.PosableError(f"--count: expected at least 1, got {args.count}")
    measured = measure(args.count, None if args.json else ProgressBar())
    print(json.dumps(measured) if args.json else as_text(measured))
    return 0 if all(row["reached"] == row["problems"] for row in measured["figures"]) else 1


def measure(count: int, progress: Callable[[float], None] | None = None) -> dict[str, Any]:
    """Return measurements: forward kinematics, the default solver on every figure, every solver on an arm."""
    figures, solvers = list(BODIES), ps.solvers.names()
    steps = 2 + len(figures) + len(solvers)
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done / steps)

    out: dict[str, Any] = {"machine": this_machine(), "first_solve_s": first_solve()}
    tick()
    out["forward_us"] = forward_kinematics()
    tick()
    out["figures"] = []
    for figure in figures:
        out["figures"].append(default_solver(problem_set(figure, count)))
        tick()
    out["solvers"] = []
    arm = problem_set("limb", COMPARED)
    for solver in solvers:
        out["solvers"].append(one_solver(arm, solver))
        tick()
    return out


def this_machine() -> dict[str, Any]:
    """Return what timings depend on, without anything that identifies the host or the user."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count() or 1,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "posable": ps.__version__,
    }


def first_solve() -> float:
    """Return the seconds of the first solve of this process, which loads or compiles the engine."""
    begin = time.perf_counter()
    skeleton = ps.figures.human()
    ps.solve(skeleton, ps.goals.Position("hand.R", (0.4, 1.2, 0.3)))
    return time.perf_counter() - begin


def forward_kinematics() -> float:
    """Return microseconds per pose of the human, all frames, in a batch; the fastest of several passes."""
    skeleton = ps.figures.human()
    poses = np.random.default_rng(0).uniform(-0.5, 0.5, (POSES, skeleton.size))
    best = np.inf
    for _ in range(5):
        begin = time.perf_counter()
        ps.forward(skeleton, poses).position("hand.R")
        best = min(best, time.perf_counter() - begin)
    return 1e6 * best / POSES


def default_solver(problems: ProblemSet) -> dict[str, Any]:
    """Return one row: problems reached, time per solve in a Session, and solves per second in a batch."""
    skeleton, count = problems.skeleton, len(problems)
    session = ps.Session(skeleton, problems.goals(0), restarts=RESTARTS)
    session.solve(start=skeleton.rest)
    poses, seconds, batch = np.empty((count, skeleton.size)), np.full(count, np.inf), np.inf
    for _ in range(PASSES):
        for k in range(count):
            problems.move(session, k)
            begin = time.perf_counter()
            poses[k] = session.solve(start=skeleton.rest).pose
            seconds[k] = min(seconds[k], time.perf_counter() - begin)
        begin = time.perf_counter()
        ps.solve(skeleton, problems.goals(), restarts=RESTARTS)
        batch = min(batch, time.perf_counter() - begin)
    return {
        "figure": problems.figure,
        "dofs": skeleton.size,
        "goals": len(problems.targets),
        "problems": count,
        "reached": int(problems.reached(poses).sum()),
        "median_ms": 1e3 * float(np.median(seconds)),
        "p99_ms": 1e3 * float(np.percentile(seconds, 99)),
        "batch_per_s": count / batch,
    }


def one_solver(problems: ProblemSet, solver: str) -> dict[str, Any]:
    """Return one row: one solver on the limb's problems, without restarts, on one core."""
    if solver in POSITIONS_ONLY:
        problems = replace(problems, turns=False)
    count = DRIVEN_COUNT if solver in DRIVEN else len(problems)
    skeleton, goals = problems.skeleton, problems.goals(slice(0, count))
    result = ps.solve(skeleton, problems.goals(slice(0, 1)), solver=solver, threads=1)
    seconds = np.inf
    for _ in range(1 if solver in DRIVEN else PASSES):
        begin = time.perf_counter()
        result = ps.solve(skeleton, goals, solver=solver, threads=1)
        seconds = min(seconds, time.perf_counter() - begin)
    return {
        "solver": solver,
        "goals": "poses" if problems.turns else "positions",
        "problems": count,
        "reached": int(problems.reached(result.pose).sum()),
        "median_iterations": float(np.median(result.iterations)),
        "mean_ms": 1e3 * seconds / count,
    }


def as_text(measured: dict[str, Any]) -> str:
    """Return the tables as text for a terminal."""
    machine = measured["machine"]
    lines = [
        f"posable {machine['posable']} on {machine['system']}, {machine['cores']} cores, "
        f"Python {machine['python']}, NumPy {machine['numpy']}",
        f"first solve of this process {measured['first_solve_s']:.2f} s; "
        f"forward kinematics of the human {measured['forward_us']:.2f} us per pose",
        "",
        "Default solver, reachable goals, from rest; results verified by forward kinematics",
        f"{'figure':12s}{'dofs':>5s}{'goals':>7s}{'reached':>11s}{'median ms':>12s}{'99% ms':>9s}{'batch / s':>12s}",
    ]
    for row in measured["figures"]:
        reached = f"{row['reached']}/{row['problems']}"
        lines.append(
            f"{row['figure']:12s}{row['dofs']:5d}{row['goals']:7d}{reached:>11s}"
            f"{row['median_ms']:12.3f}{row['p99_ms']:9.2f}{row['batch_per_s']:12,.0f}"
        )
    lines += [
        "",
        "Every solver on poses of the limb (positions if it cannot orient), from one start",
        f"{'solver':22s}{'goals':10s}{'reached':>9s}{'iterations':>12s}{'mean ms':>10s}",
    ]
    for row in measured["solvers"]:
        reached = f"{row['reached']}/{row['problems']}"
        lines.append(
            f"{row['solver']:22s}{row['goals']:10s}{reached:>9s}{row['median_iterations']:12.0f}{row['mean_ms']:10.3f}"
        )
    return "\n".join(lines)
