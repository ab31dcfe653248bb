"""The cost of a call of `Session` and `solve`, optionally compared with another version, and of a batch on two cores.

    python -m benchmarks.front_door [--before FOLDER] [--passes 5] [--data ../shared/data]

FOLDER is a checkout of another version (git worktree add FOLDER COMMIT). The two versions alternate, each in its own
process. The time of a problem is the best of all passes, which reduces the influence of other work on the machine.
Results are verified by forward kinematics in NumPy and SciPy that shares no code with the engine.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

NEAR, TURNED = 1e-3, 1e-2  # [m], [rad]: what counts as solved
ROOT = Path(__file__).resolve().parents[1]
TALOS = (
    "arm_left_7_joint", "arm_right_7_joint", "leg_left_6_joint", "leg_right_6_joint", "head_2_joint", "torso_2_joint",
)  # fmt: skip
PLACES = ("hand.L", "hand.R", "foot.L", "foot.R", "head", "pelvis")


# --- Forward kinematics of its own ---


def motion_matrix(motion, values) -> np.ndarray:
    """Return the transform (4, 4) of a joint's motion."""
    from scipy.spatial.transform import Rotation

    from posable.model.joints import unit_axis

    out = np.eye(4)
    kind = type(motion).__name__
    if kind == "Revolute":
        out[:3, :3] = Rotation.from_rotvec(values[0] * unit_axis(motion.axis)).as_matrix()
    elif kind == "Prismatic":
        out[:3, 3] = values[0] * unit_axis(motion.axis)
    elif kind == "Universal":
        out[:3, :3] = Rotation.from_euler(motion.axes.upper(), values).as_matrix()
    elif kind in ("Ball", "Free"):
        if kind == "Free":
            out[:3, 3], values = values[:3], values[3:]
        if motion.order == "rotvec":
            out[:3, :3] = Rotation.from_rotvec(values).as_matrix()
        elif motion.order == "swing-twist":
            k = "xyz".index(str(motion.axis).lstrip("-+"))
            swing, twist = np.zeros(3), np.zeros(3)
            swing[(k + 1) % 3], swing[(k + 2) % 3] = values[0], values[1]
            twist[k] = -values[2] if str(motion.axis).startswith("-") else values[2]
            out[:3, :3] = (Rotation.from_rotvec(swing) * Rotation.from_rotvec(twist)).as_matrix()
        else:
            out[:3, :3] = Rotation.from_euler(motion.order.upper(), values).as_matrix()
    elif kind != "Fixed":
        raise ValueError(f"no forward kinematics for {motion!r}")
    return out


def rigid(rotation, offset) -> np.ndarray:
    """Return a transform (4, 4)."""
    out = np.eye(4)
    if rotation is not None:
        out[:3, :3] = rotation.as_matrix() if hasattr(rotation, "as_matrix") else rotation
    out[:3, 3] = offset
    return out


def frame_of(skeleton, pose, body: str) -> np.ndarray:
    """Return where a joint or a site is in the world (4, 4)."""
    joints = {joint.name: joint for joint in skeleton.joints}
    site = next((site for site in skeleton.sites if site.name == body), None)
    out = np.eye(4) if site is None else rigid(site.rotation, site.offset)
    name = body if site is None else site.joint
    while name is not None:
        joint = joints[name]
        out = rigid(joint.rotation, joint.offset) @ motion_matrix(joint.motion, pose[skeleton.index(name)]) @ out
        name = joint.parent
    return out


def solved(skeleton, poses, targets) -> np.ndarray:
    """Return, for poses (t, n), whether each meets its targets {body: (t, 3) or (t, 4, 4)} inside the limits."""
    good = np.all((poses >= skeleton.lower - 1e-9) & (poses <= skeleton.upper + 1e-9), axis=1)
    for body, wanted in targets.items():
        for k, pose in enumerate(poses):
            got = frame_of(skeleton, pose, body)
            place = wanted[k][:3, 3] if wanted.ndim == 3 else wanted[k]
            good[k] &= np.linalg.norm(got[:3, 3] - place) <= NEAR
            if wanted.ndim == 3:
                cosine = 0.5 * (np.trace(got[:3, :3].T @ wanted[k][:3, :3]) - 1.0)
                good[k] &= np.arccos(np.clip(cosine, -1.0, 1.0)) <= TURNED
    return good


# --- The work ---


def panda(ps, data):
    """500 random reachable poses of the Panda, from the middle of its range."""
    skeleton = ps.figures.panda()
    rng = np.random.default_rng(1)
    poses = rng.uniform(skeleton.lower, skeleton.upper, size=(500, 7))
    targets = {"hand": ps.forward(skeleton, poses).matrix("hand")}
    return skeleton, targets, (skeleton.lower + skeleton.upper) / 2


def talos(ps, data):
    """100 random reachable six-goal poses of Talos over half of its range, from neutral."""
    loaded = ps.load(str(data / "urdf" / "erd_talos_reduced.urdf")).skeleton
    root, *rest = loaded.joints
    skeleton = loaded.replace(joints=[replace(root, motion=ps.Free("zyx")), *rest])
    skeleton = skeleton.freeze([name for name in skeleton.names if name.startswith("gripper")])
    neutral = np.clip(np.zeros(skeleton.size), skeleton.lower, skeleton.upper)
    ranged = np.isfinite(skeleton.lower)
    low, high = np.where(ranged, skeleton.lower, -0.5), np.where(ranged, skeleton.upper, 0.5)
    poses = neutral + 0.5 * (np.random.default_rng(1).uniform(low, high, size=(100, skeleton.size)) - neutral)
    frames = ps.forward(skeleton, poses)
    return skeleton, {body: frames.matrix(body) for body in TALOS}, neutral


def human(ps, data):
    """100 random reachable places of six bodies of the human, from its rest."""
    skeleton = ps.figures.human()
    rng = np.random.default_rng(5)
    low, high = np.maximum(skeleton.lower, skeleton.rest - 0.6), np.minimum(skeleton.upper, skeleton.rest + 0.6)
    frames = ps.forward(skeleton, rng.uniform(low, high, size=(100, skeleton.size)))
    return skeleton, {body: frames.position(body) for body in PLACES}, skeleton.rest


def goals_of(ps, targets, k):
    """Return the goals of problem k."""
    kind = ps.goals.Pose if next(iter(targets.values())).ndim == 3 else ps.goals.Position
    return [kind(body, wanted[k]) for body, wanted in targets.items()]


def measure(data: Path | None, passes: int) -> dict:
    """Return times [s] and poses of every kind of work, with the Posable that is imported."""
    import posable as ps

    plain: dict[str, Any] = {"natural": False} if "natural" in inspect.signature(ps.solve).parameters else {}
    out = {}
    for work in (panda, talos, human):
        if work is talos and data is None:
            continue
        skeleton, targets, start = work(ps, data)
        count = len(next(iter(targets.values())))
        session = ps.Session(skeleton, goals_of(ps, targets, 0), restarts=100, **plain)
        session.solve(start=start)
        doors = {"session": session, "solve": None} if work is panda else {"session": session}
        for door, used in doors.items():
            best, poses = np.full(count, np.inf), np.empty((count, skeleton.size))
            for _ in range(passes):
                for k in range(count):
                    begin = time.perf_counter()
                    if used is not None:
                        for body, wanted in targets.items():
                            used.move(body, wanted[k])
                        result = used.solve(start=start)
                    else:
                        result = ps.solve(skeleton, goals_of(ps, targets, k), start=start, restarts=100, **plain)
                    best[k] = min(best[k], time.perf_counter() - begin)
                    poses[k] = result.pose
            out[f"{work.__name__}, {door}"] = (best, poses)
    return out


# --- A batch on several cores ---


def batch_times(ps, threads: tuple[int, ...], passes: int, count: int = 20_000) -> dict[int, float]:
    """Return the time [s] of a batch of random reachable Panda poses on each number of threads, the best of all passes.

    The numbers of threads alternate. Every answer must be solved, by forward kinematics, with the same bits each time.
    """
    skeleton = ps.figures.panda()
    poses = np.random.default_rng(2).uniform(skeleton.lower, skeleton.upper, size=(count, skeleton.size))
    wanted = ps.forward(skeleton, poses).matrix("hand")
    goal, start = ps.goals.Pose("hand", wanted), (skeleton.lower + skeleton.upper) / 2
    result = ps.solve(skeleton, goal, start=start, restarts=100, natural=False)
    best, bits = dict.fromkeys(threads, np.inf), {result.pose.tobytes()}
    for _ in range(passes):
        for number in threads:
            begin = time.perf_counter()
            result = ps.solve(skeleton, goal, start=start, restarts=100, natural=False, threads=number)
            seconds = time.perf_counter() - begin
            best[number] = min(best[number], seconds)
            bits.add(result.pose.tobytes())
    assert len(bits) == 1, "the number of threads changed an answer"
    assert result.ok.all()
    some = slice(0, count, 100)
    assert solved(skeleton, result.pose[some], {"hand": wanted[some]}).all()
    return best


# --- Both states in one run ---


def run(source: Path, data: Path | None, passes: int) -> dict:
    """Return what a process measures that imports Posable from a folder."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "measured.npz"
        command = [sys.executable, str(Path(__file__).resolve()), "--measure", str(file), "--passes", str(passes)]
        command += ["--data", str(data)] if data else []
        subprocess.run(command, env=os.environ | {"PYTHONPATH": str(source)}, check=True)
        with np.load(file) as kept:
            return {name[:-2]: (kept[name], kept[name[:-2] + ":p"]) for name in kept.files if name.endswith(":t")}


def compare(before: Path | None, data: Path | None, passes: int, rounds: int = 2) -> list[list]:
    """Return rows: work, share solved, median and 99% [ms] now, the same before, and how much quicker it is now."""
    import posable as ps

    states = {"now": ROOT / "src"} | ({"before": before / "src"} if before else {})
    best: dict = {}
    for _ in range(rounds):
        for state, source in states.items():
            for name, (times, poses) in run(source, data, passes).items():
                old = best.get((state, name))
                best[state, name] = (times if old is None else np.minimum(times, old[0]), poses)
    rows = []
    for state, name in best:
        if state != "now":
            continue
        skeleton, targets, _ = {"panda": panda, "talos": talos, "human": human}[name.split(",")[0]](ps, data)
        row = [name]
        for one in states:
            times, poses = best[one, name]
            share = solved(skeleton, poses, targets).mean()
            row += [f"{share:.1%}", float(np.median(times) * 1e3), float(np.percentile(times, 99) * 1e3)]
        if before:
            row.append(row[5] / row[2])
        rows.append(row)
    return rows


def evidence(page) -> None:
    """Write the page of this subject."""
    given = os.environ.get("POSABLE_BEFORE")
    rows = compare(Path(given) if given else None, page.data, page.pick(5, 1))
    page.text(
        ("Two versions alternate, each in its own process. " if given else "") + "The time of a problem is the best"
        " of all passes, which reduces the influence of other work on the machine. Results are verified by "
        "forward kinematics in NumPy and SciPy that shares no code with the engine."
    )
    columns = ["work", "solved", "median ms", "99% ms"]
    if given:
        columns += ["solved before", "median ms before", "99% ms before", "ratio of medians"]
    page.table("Cost of a call through `Session` and `solve`, with goals moved each time", columns, rows)
    for row in rows:
        page.value(row[0], dict(zip(columns[1:], row[1:], strict=True)))
    import posable as ps

    count = page.pick(20_000, 1_000)
    times = batch_times(ps, (1, 2), page.pick(7, 1), count)
    table = [[number, times[number] * 1e3, times[1] / times[number]] for number in times]
    page.table(f"A batch of {count:,} Panda poses", ["threads", "ms", "times one thread"], table)
    page.value("two threads against one", times[1] / times[2])


def main() -> None:
    """Measure here, or compare two states."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        found = measure(args.data, args.passes)
        np.savez(args.measure, **{f"{name}:t": t for name, (t, _) in found.items()},
                 **{f"{name}:p": p for name, (_, p) in found.items()})  # fmt: skip
        return
    for row in compare(args.before, args.data, args.passes):
        print(json.dumps(row))


if __name__ == "__main__":
    main()
