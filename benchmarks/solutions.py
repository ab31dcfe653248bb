"""All solutions of six-axis arms: closed form and search, beside EAIK's own list.

    python -m benchmarks solutions

Random poses inside the limits give reachable targets. EAIK's exact solutions that the limits allow, turned by whole
turns, are the list to find. Times are one core's own time, the median over targets, with everything a call does.
"""

from __future__ import annotations

import time

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
    "KR16": ([(0.26, -HALF, 0.675, 0), (0.68, 0, 0, 0), (-0.035, HALF, 0, 0), (0, -HALF, 0.67, 0), (0, HALF, 0, 0),
              (0, 0, 0.115, 0)], [185, 155, 154, 350, 130, 350]),
    "PUMA 560": ([(0, HALF, 0, 0), (0.4318, 0, 0, 0), (0.0203, -HALF, 0.15, 0), (0, HALF, 0.4318, 0), (0, -HALF, 0, 0),
                  (0, 0, 0, 0)], [160, 110, 135, 266, 100, 266]),
}  # fmt: skip


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
    """Return what share of EAIK's solutions is found, and the median time [us]."""
    rng = np.random.default_rng(3)
    keep, found, wanted, seconds = _solutions._closed_form, 0, 0, []
    if not closed:
        _solutions._closed_form = lambda problem, search: None
    try:
        for _ in range(count):
            target = ps.forward(skeleton, rng.uniform(skeleton.lower, skeleton.upper)).matrix("tool")
            begin = time.process_time()
            mine = ps.solutions(skeleton, g.Pose("tool", target))
            seconds.append(time.process_time() - begin)
            theirs = listed(skeleton, target)
            wanted += len(theirs)
            found += sum(bool((gap(mine, pose) < 1e-3).any()) for pose in theirs)
    finally:
        _solutions._closed_form = keep
    return [wanted, f"{found / max(wanted, 1):.2%}", 1e6 * float(np.median(seconds))]


def evidence(page: Page) -> None:
    """Write the page."""
    page.text((__doc__ or "").split("\n\n", 2)[2])
    count, rows = page.pick(200, 15), []
    for name in ARMS:
        skeleton = arm(name)
        for closed in (True, False):
            number = count if closed else count // 2
            rows.append([name, "closed form" if closed else "search", number, *measured(skeleton, number, closed)])
    page.table(
        "Solutions inside the limits",
        ["arm", "way", "targets", "EAIK's solutions", "found", "median time [us]"],
        rows,
    )
