"""All solutions of six-axis arms beside EAIK's own list, and one pose beside EAIK and the Robotics Toolbox.

    python -m benchmarks solutions

Random poses inside the limits give reachable targets. EAIK's exact solutions that the limits allow, turned by whole
turns, are the list to find; for arms that EAIK cannot solve, it is the poses that the targets were made from and what a
search from random starts finds. Times are one core's own time, the median over targets, with everything a call does,
the goal included, one call after the other. "elimination" is what arms without a closed form get: first the same arms,
with the closed form left out, then arms that have none.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import posable as ps
from benchmarks.page import Page
from posable import _solutions
from posable.limb.six_axis_arm import six_hinges

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
LEFT_OUT = ("UR5", "KR16", "PUMA 560")  # arms that are also solved without their closed form
# arms without a closed form: an offset wrist, a wrist of 60 degrees, and no axis that meets another
GENERAL = {
    "offset wrist (CRX)": ([(0, -HALF, 0.245, 0), (0.54, 0, 0, -HALF), (0, -HALF, 0, 0), (0, HALF, 0.54, 0),
                            (0, -HALF, 0.15, 0), (0, 0, 0.16, 0)], [190, 180, 180, 190, 180, 225]),
    "skewed wrist (JACO)": ([(0, HALF, 0.2755, 0), (0.41, np.pi, 0, 0), (0, HALF, -0.0098, 0),
                             (0, np.pi / 3, -0.2501, 0), (0, np.pi / 3, -0.0856, 0), (0, np.pi, -0.2228, 0)],
                            [180] * 6),
    "no axes that meet": ([(0.1, 1.2, 0.2, 0), (0.3, -0.9, 0.1, 0), (0.05, 1.7, 0.3, 0), (0.02, 1.1, 0.1, 0),
                           (0.04, -1.4, 0.08, 0), (0, 0.3, 0.1, 0)], [170] * 6),
}  # fmt: skip


def arm(name: str) -> ps.Skeleton:
    """Return an arm of the table."""
    rows, limits = {**ARMS, **GENERAL}[name]
    return ps.from_dh(rows, limits=np.radians([(-x, x) for x in limits]), name=name)


def gap(poses: np.ndarray, pose: np.ndarray) -> np.ndarray:
    """Return the largest difference (k,) [rad] of poses (k, 6) to a pose, whole turns being the same."""
    difference = np.asarray(poses) - pose
    return np.abs(difference - 2 * np.pi * np.round(difference / (2 * np.pi))).max(axis=-1, initial=0.0)


def eaik_robot(skeleton: ps.Skeleton) -> Any:
    """Return EAIK's robot of a six-axis arm."""
    from eaik.IK_HP import HPRobot

    hinges = six_hinges(skeleton, "tool")
    assert hinges is not None
    return HPRobot(hinges.axes, np.vstack([np.diff(hinges.places, axis=0, prepend=0.0), np.zeros(3)]))


def listed(skeleton: ps.Skeleton, target: np.ndarray) -> np.ndarray:
    """Return EAIK's exact solutions (k, 6) that the limits allow."""
    robot = eaik_robot(skeleton)
    tool = np.linalg.inv(robot.fwdKin(np.zeros(6))) @ ps.forward(skeleton, np.zeros(6)).matrix("tool")
    answer = robot.IK(target @ np.linalg.inv(tool))
    poses = np.atleast_2d(answer.Q)[~np.atleast_1d(answer.is_LS)]
    poses = poses + 2 * np.pi * np.ceil((skeleton.lower - poses) / (2 * np.pi))
    return poses[(poses <= skeleton.upper).all(axis=1)]


def searched(skeleton: ps.Skeleton, target: np.ndarray) -> np.ndarray:
    """Return the solutions (k, 6) that a search from random starts finds."""
    with without("_in_closed_form", "_by_elimination"):
        return np.asarray(ps.solutions(skeleton, g.Pose("tool", target)))


@contextmanager
def without(*ways: str) -> Iterator[None]:
    """Leave out ways to find solutions."""
    kept = {way: getattr(_solutions, way) for way in ways}
    try:
        for way in ways:
            setattr(_solutions, way, lambda *_: None)
        yield
    finally:
        for way, function in kept.items():
            setattr(_solutions, way, function)


def measured(skeleton: ps.Skeleton, count: int, *, closed: bool, by_eaik: bool = True) -> list[object]:
    """Return how many solutions are to be found, how many there are here, the share found, and the median time [us]."""
    rng = np.random.default_rng(3)
    found, wanted, here, seconds = 0, 0, 0, []
    poses = rng.uniform(skeleton.lower, skeleton.upper, (count, skeleton.size))
    targets, answers = list(ps.forward(skeleton, poses).matrix("tool")), []
    with without() if closed else without("_in_closed_form"):
        ps.solutions(skeleton, g.Pose("tool", targets[0]))  # an arm is recognised once
        for target in targets:
            begin = time.process_time()
            answers.append(ps.solutions(skeleton, g.Pose("tool", target)))
            seconds.append(time.process_time() - begin)
    for k, (target, pose, mine) in enumerate(zip(targets, poses, answers, strict=True)):
        listed_ones = listed(skeleton, target) if by_eaik else pose[None]
        if not by_eaik and k % 10 == 0:  # a search takes long
            others = searched(skeleton, target)
            listed_ones = np.vstack([listed_ones, others[gap(others, pose) > 1e-3]])
        wanted, here = wanted + len(listed_ones), here + len(mine)
        found += sum(bool((gap(mine, one) < 1e-3).any()) for one in listed_ones)
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
        rows.append([name, "closed form", count, *measured(arm(name), count, closed=True)])
    for name in LEFT_OUT:
        rows.append([name, "elimination", count, *measured(arm(name), count, closed=False)])
    for name in GENERAL:
        rows.append([name, "elimination", count, *measured(arm(name), count, closed=True, by_eaik=False)])
    page.table(
        "Solutions inside the limits",
        ["arm", "way", "targets", "solutions to find", "Posable's", "found", "median time [us]"],
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
