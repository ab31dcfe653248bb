"""All solutions of six-axis arms beside EAIK's own list, and one pose beside EAIK and the Robotics Toolbox.

    python -m benchmarks solutions

Random poses inside the limits give reachable targets. EAIK's exact solutions that the limits allow, turned by whole
turns, are the list to find. Times are one core's own time, the median over targets, with everything a call does, the
goal included, one call after the other. "search" is what arms without a closed form get: the same arms, with the closed
form left out.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import posable as ps
from benchmarks.page import Page
from posable import _solutions

g = ps.goals
HALF = np.pi / 2
# Denavit-Hartenberg rows (a, alpha, d, theta) and limits [deg]
ARMS = {
    "UR5": ([(0, HALF, 0.0892, 0), (-0.425, 0, 0, 0), (-0.3922, 0, 0, 0), (0, HALF, 0.1092, 0), (0, -HALF, 0.0947, 0),
             (0, 0, 0.0823, 0)], [360] * 6),
    "UR10e": ([(0, HALF, 0.1807, 0), (-0.6127, 0, 0, 0), (-0.57155, 0, 0, 0), (0, HALF, 0.17415, 0),
               (0, -HALF, 0.11985, 0), (0, 0, 0.11655, 0)], [360] * 6),
    "KR16": ([(0.26, -HALF, 0.675, 0), (0.68, 0, 0, 0), (-0.035, HALF, 0, 0), (0, -HALF, 0.67, 0), (0, HALF, 0, 0),
              (0, 0, 0.115, 0)], [185, 155, 154, 350, 130, 350]),
    "PUMA 560": ([(0, HALF, 0, 0), (0.4318, 0, 0, 0), (0.0203, -HALF, 0.15, 0), (0, HALF, 0.4318, 0), (0, -HALF, 0, 0),
                  (0, 0, 0, 0)], [160, 110, 135, 266, 100, 266]),
    "IRB 120": ([(0, -HALF, 0.29, 0), (0.27, 0, 0, -HALF), (0.07, -HALF, 0, 0), (0, HALF, 0.302, 0), (0, -HALF, 0, 0),
                 (0, 0, 0.072, 0)], [165, 110, 110, 160, 120, 400]),
    "LR Mate 200iD": ([(0.05, -HALF, 0.33, 0), (0.33, np.pi, 0, -HALF), (0.035, -HALF, 0, 0), (0, HALF, -0.335, 0),
                       (0, -HALF, 0, 0), (0, np.pi, -0.08, 0)], [170, 120, 140, 190, 125, 360]),
}  # fmt: skip
SEARCHED = ("UR5", "KR16", "PUMA 560")


def arm(name: str) -> ps.Skeleton:
    """Return an arm of the table."""
    rows, limits = ARMS[name]
    return ps.from_dh(rows, limits=np.radians([(-x, x) for x in limits]), name=name)


def gap(poses: np.ndarray, pose: np.ndarray) -> np.ndarray:
    """Return the largest difference (k,) [rad] of poses (k, 6) to a pose, whole turns being the same."""
    difference = np.asarray(poses) - pose
    return np.abs(difference - 2 * np.pi * np.round(difference / (2 * np.pi))).max(axis=-1, initial=0.0)


def listed(skeleton: ps.Skeleton, target: np.ndarray) -> np.ndarray:
    """Return EAIK's exact solutions (k, 6) that the limits allow."""
    made = _solutions._eaik_robot(skeleton, int(skeleton.frame_bodies[skeleton.frame("tool")]))
    assert made is not None
    robot = made[0]
    tool = np.linalg.inv(robot.fwdKin(np.zeros(6))) @ ps.forward(skeleton, np.zeros(6)).matrix("tool")
    answer = robot.IK(target @ np.linalg.inv(tool))
    poses = np.atleast_2d(answer.Q)[~np.atleast_1d(answer.is_LS)]
    poses = poses + 2 * np.pi * np.ceil((skeleton.lower - poses) / (2 * np.pi))
    return poses[(poses <= skeleton.upper).all(axis=1)]


def measured(skeleton: ps.Skeleton, count: int, closed: bool) -> list[object]:
    """Return how many solutions EAIK lists, how many there are here, what share of EAIK's is found, the median [us]."""
    rng = np.random.default_rng(3)
    keep = _solutions._in_closed_form, _solutions._by_eaik
    found, wanted, here, seconds = 0, 0, 0, []
    if not closed:
        _solutions._in_closed_form, _solutions._by_eaik = lambda *arguments: None, lambda problem, search: None
    try:
        poses = rng.uniform(skeleton.lower, skeleton.upper, (count, skeleton.size))
        targets, answers = list(ps.forward(skeleton, poses).matrix("tool")), []
        for target in targets:
            begin = time.process_time()
            answers.append(ps.solutions(skeleton, g.Pose("tool", target)))
            seconds.append(time.process_time() - begin)
        for target, mine in zip(targets, answers, strict=True):
            theirs = listed(skeleton, target)
            wanted, here = wanted + len(theirs), here + len(mine)
            found += sum(bool((gap(mine, pose) < 1e-3).any()) for pose in theirs)
    finally:
        _solutions._in_closed_form, _solutions._by_eaik = keep
    return [wanted, here, f"{found / max(wanted, 1):.2%}", 1e6 * float(np.median(seconds))]


def one_pose(page: Page) -> list[list[object]]:
    """Return the lines of the second table: one pose, by Posable's doors and by two peers, in turn."""
    from benchmarks.peers import works
    from benchmarks.peers.environments import ready
    from benchmarks.peers.run import compete, solved_share

    failures, rows = {}, []
    for name in ("eaik", "roboticstoolbox"):
        try:
            ready(name)
        except RuntimeError as problem:
            failures[name] = str(problem)
    count = page.pick(500, 30)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        drawn = [works.kr16(folder, count)]
        if page.data is not None:
            drawn.insert(0, works.ur5(folder, count, page.data))
        for work in drawn:
            entrants = compete(
                work, failures, folder, passes=page.pick(3, 1), seconds=page.pick(6, 2),
                say=lambda text: print(text, file=sys.stderr), only=("eaik", "roboticstoolbox"),
            )  # fmt: skip
            first = entrants[0].seconds().mean() if entrants[0].passes else np.nan
            for entrant in entrants:
                if not entrant.passes or "batch" in entrant.title:
                    continue
                seconds = entrant.seconds()
                rows.append([f"{work.name.upper()}, {entrant.title}", f"{solved_share(work, entrant):.1%}",
                             1e6 * float(np.mean(seconds)), 1e6 * float(np.median(seconds)),
                             f"{np.mean(seconds) / first:.2f}"])  # fmt: skip
                page.values[f"{work.name}: {entrant.title} [us]"] = 1e6 * float(np.mean(seconds))
    return rows


def evidence(page: Page) -> None:
    """Write the page."""
    page.text((__doc__ or "").split("\n\n", 2)[2])
    count, rows = page.pick(1000, 15), []
    for name in ARMS:
        rows.append([name, "closed form", count, *measured(arm(name), count, True)])
    for name in SEARCHED:
        rows.append([name, "search", count // 10 or 2, *measured(arm(name), count // 10 or 2, False)])
    page.table(
        "Solutions inside the limits",
        ["arm", "way", "targets", "EAIK's solutions", "Posable's", "of EAIK's found", "median time [us]"],
        rows,
    )
    page.text(
        "One pose that reaches the target, inside the limits, as `python -m benchmarks peers` runs it: processor time "
        "of each problem, the median of three passes in turn."
    )
    page.table(
        "One pose", ["arm, solver", "reached", "mean time [us]", "median time [us]", "time, against Session"],
        one_pose(page),
    )  # fmt: skip
