"""Chatter of `Controller`: joints that reverse at more than half of their acceleration limit, tick after tick.

    python -m benchmarks.control_chatter [held-back] [--ticks 0.01 0.002] [--jerk 300]

Six motions on every arm, from random poses: a fast smooth path, a jump, out of reach and back, through a wrist
singularity, into joint limits and back, and a tremor on a slow path. A reversal is a change of sign of the acceleration
of a joint within three ticks, with more than half of its limit on both sides. A motion needs a few of them: full
acceleration, then full braking. The law was made with the arms and seeds of TUNED; those of HELD_BACK only judge it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from scipy.spatial.transform import Rotation

import posable as ps
from benchmarks.solutions import arm

g = ps.goals
TUNED = ("UR5", "UR10e", "KR16", "Panda")
HELD_BACK = ("IRB 120", "LR Mate 200iD", "PUMA 560", "offset wrist (CRX)", "skewed wrist (JACO)", "iiwa 7")
SECONDS, REST = 4.0, 1.0  # [s] of a motion, and at its end
STRONG, WITHIN = 0.5, 3  # part of the acceleration limit, and ticks
WINDOW = 0.5  # [s] in which the worst joint is looked for
IIWA = [(0, -np.pi / 2, 0.34, 0), (0, np.pi / 2, 0, 0), (0, np.pi / 2, 0.4, 0), (0, -np.pi / 2, 0, 0),
        (0, -np.pi / 2, 0.4, 0), (0, np.pi / 2, 0, 0), (0, 0, 0.126, 0)]  # fmt: skip


def figure(name: str) -> tuple[ps.Skeleton, str]:
    """Return an arm and the name of its tool."""
    if name == "Panda":
        return ps.figures.panda(), "tcp"
    if name == "iiwa 7":
        limits = np.radians([(-x, x) for x in (170, 120, 170, 120, 170, 120, 175)])
        return ps.from_dh(IIWA, limits=limits, name=name), "tool"
    return arm(name), "tool"


def motions(
    skeleton: ps.Skeleton, tool: str, rng: np.random.Generator, dt: float
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield (motion, start (n,), targets (T, 4, 4)) from one random pose."""
    t = dt * np.arange(1, round((SECONDS + REST) / dt) + 1)
    s = np.minimum(t / SECONDS, 1.0)
    middle, half = 0.5 * (skeleton.lower + skeleton.upper), 0.5 * (skeleton.upper - skeleton.lower)
    start = middle + np.minimum(0.7 * half, 2.0) * rng.uniform(-1.0, 1.0, skeleton.size)
    start[-2] = middle[-2] + 0.6  # not at the wrist singularity
    place = ps.forward(skeleton, start).matrix(tool)
    reach = np.linalg.norm(place[:3, 3])

    def led(offsets, turns) -> np.ndarray:
        out = np.repeat(place[None], len(t), axis=0)
        out[:, :3, 3] += offsets
        out[:, :3, :3] = Rotation.from_rotvec(turns).as_matrix() @ place[:3, :3]
        return out

    def waves(low: float, high: float) -> np.ndarray:
        """Return smooth random signals (T, 6), each of about unit size, that begin and end at rest."""
        fade = np.sin(np.pi * s)[:, None] ** 2
        rates, phases = rng.uniform(low, high, 6), rng.uniform(0.0, 6.28, 6)
        return fade * np.sin(6.28 * rates * t[:, None] + phases)

    wave = waves(0.4, 1.2)
    yield "fast smooth path", start, led(0.25 * reach * wave[:, :3], 0.5 * wave[:, 3:])
    there = np.clip(start + rng.normal(0.0, 0.5, skeleton.size), skeleton.lower, skeleton.upper)
    yield "jump", start, np.repeat(ps.forward(skeleton, there).matrix(tool)[None], len(t), axis=0)
    way = place[:3, 3] / reach + rng.normal(0.0, 0.2, 3)
    yield "out of reach and back", start, led(0.9 * np.sin(np.pi * s)[:, None] * way, np.zeros((len(t), 3)))
    ease = s * s * (3.0 - 2.0 * s)
    turned = np.repeat(start[None], len(t), axis=0)
    turned[:, -2] -= 1.2 * ease
    path = ps.forward(skeleton, turned).matrix(tool)
    aside = rng.uniform(0.01, 0.06) * np.sin(np.pi * ease)
    path[:, :3, :3] = Rotation.from_rotvec(aside[:, None] * place[:3, 0]).as_matrix() @ path[:, :3, :3]
    yield "wrist singularity", start, path
    beyond = np.repeat(start[None], len(t), axis=0)
    two = rng.choice(skeleton.size - 1, 2, replace=False)
    ends = np.where(start > middle, skeleton.upper + 0.3, skeleton.lower - 0.3)
    beyond[:, two] += np.sin(np.pi * s)[:, None] ** 2 * (ends - start)[two]
    yield "joint limits", start, ps.forward(skeleton, beyond).matrix(tool)
    tremor = 0.004 * np.sin(6.28 * 8.0 * t)[:, None] * rng.normal(size=3)
    yield "tremor", start, led(0.1 * np.sin(np.pi * s)[:, None] ** 2 * way + tremor, 0.2 * waves(0.1, 0.3)[:, 3:])


def reversals(velocity: np.ndarray, accel: np.ndarray, dt: float) -> np.ndarray:
    """Return (T, n) where the acceleration of a joint reverses strongly; velocities (T, n) begin at rest."""
    a = np.diff(np.vstack([np.zeros(velocity.shape[1]), velocity]), axis=0) / (dt * accel)
    strong = np.where(np.abs(a) > STRONG, np.sign(a), 0.0)
    out = np.zeros(a.shape, dtype=bool)
    for back in range(1, WITHIN + 1):
        out[back:] |= strong[back:] * strong[:-back] < 0.0
    return out


def run(
    skeleton: ps.Skeleton, tool: str, start: np.ndarray, targets: np.ndarray, dt: float, **limits
) -> dict[str, np.ndarray]:
    """Return what a controller does: poses and velocities (T, n), errors (T, 2) [mm, deg], reversals (T, n)."""
    goal = g.Pose(tool, targets[0], weight=(1.0, 0.3))
    controller = ps.Controller(skeleton, goal, dt=dt, start=start, **limits)
    steps = [controller.step({tool: target}) for target in targets]
    poses, velocity = np.array([step.pose for step in steps]), np.array([step.velocity for step in steps])
    there = ps.forward(skeleton, poses).matrix(tool)
    off = 1e3 * np.linalg.norm(there[:, :3, 3] - targets[:, :3, 3], axis=1)
    turn = Rotation.from_matrix(there[:, :3, :3].swapaxes(-1, -2) @ targets[:, :3, :3]).magnitude()
    return {
        "poses": poses, "velocity": velocity, "errors": np.stack([off, np.degrees(turn)], axis=1),
        "reversals": reversals(velocity, controller.acceleration_limits, dt),
    }  # fmt: skip


def measure(names, seeds, dt: float, **limits) -> dict[str, list[float]]:
    """Return for each motion: reversals per joint and second, of the worst joint in WINDOW, and mean errors [mm, deg].

    The last two are the error at the end, after REST: [mm, deg], the median over the runs.
    """
    found: dict[str, list[list[float]]] = {}
    window = round(WINDOW / dt)
    for name in names:
        skeleton, tool = figure(name)
        for seed in seeds:
            for motion, start, targets in motions(skeleton, tool, np.random.default_rng(seed), dt):
                out = run(skeleton, tool, start, targets, dt, **limits)
                total = np.cumsum(out["reversals"], axis=0)
                worst = (total[window:] - total[:-window]).max() / WINDOW
                mean, end = out["errors"].mean(axis=0), out["errors"][-1]
                row = [total[-1].mean() / (SECONDS + REST), worst, *mean, *end]
                found.setdefault(motion, []).append([float(x) for x in row])
    out = {}
    for motion, rows in found.items():
        every = np.array(rows)
        out[motion] = [
            every[:, 0].mean(), every[:, 1].max(), float((every[:, 1] > 10.0).mean()), *every[:, 2:4].mean(axis=0),
            *np.median(every[:, 4:], axis=0),
        ]  # fmt: skip
    return out


COLUMNS = (
    "motion", "reversals / joint / s", "worst joint in 0.5 s [1/s]", "runs beyond 10/s", "mean error [mm]",
    "mean turn error [deg]", "end [mm]", "end [deg]",
)  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("family", nargs="?", default="tuned", choices=["tuned", "held-back"])
    parser.add_argument("--ticks", type=float, nargs="+", default=[0.01, 0.002])
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--jerk", type=float)
    parser.add_argument("--acceleration", type=float)
    options = parser.parse_args()
    tuned = options.family == "tuned"
    for tick in options.ticks:
        print(f"dt {tick:g}: {', '.join(COLUMNS[1:])}")
        seeds = range(options.seeds) if tuned else range(100, 100 + options.seeds)
        table = measure(
            TUNED if tuned else HELD_BACK, seeds, tick, acceleration=options.acceleration, jerk=options.jerk
        )
        for motion, row in table.items():
            print(f"{motion:24s}", *(f"{value:10.4g}" for value in row), flush=True)
