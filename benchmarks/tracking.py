"""Motion, measured: seed 004's protocol, a take as a user tracks it, hidden markers, retargeting, seed 000's protocol.

    python benchmarks/tracking.py [seed004 take hidden walk seed000 hour] [--data DIR] [--plot boxes.png]

Everything runs on one core (threads=1) unless it says otherwise. The data are the recordings of tests/conftest.py.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

import posable as ps
from posable.kernels.fields import AT, POINT
from posable.problem import Problem
from posable.solvers.solver import SOLVERS, Request
from posable.tracking import find_contacts, walking
from posable.tracking.pacing import Pace, Walker
from posable.tracking.sources import Source

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
TAKE = "hdm05/HDM_dg_03-05_02_120"


# ------------------------------------------------------------------------------------------------------ seed 004


def protocol_004(data: Path):
    """Return figure, problem, targets (T, M, 3), points (T, M, 3) [m]: 58 dofs, 41 markers, offsets from the AMC."""
    asf = ps.load(data / "hdm05/HDM_dg.asf").skeleton
    motion = ps.load(data / f"{TAKE}.amc", skeleton=asf).motion
    markers = ps.load(data / f"{TAKE}.c3d").markers
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
    rate = 0.0
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


# ------------------------------------------------------------------------------------------------ as a user tracks


def accelerations(poses: np.ndarray, fps: float) -> str:
    """Return joint accelerations in words."""
    bends = np.abs(np.diff(poses, n=2, axis=0)) * fps**2
    return (
        f"mean {bends.mean():.1f}, median {np.median(bends):.2f}, 99% {np.quantile(bends, 0.99):.0f}, "
        f"rms {np.sqrt(np.mean(bends**2)):.0f}, largest {bends.max():.0f} rad/s^2"
    )


def _angles(skeleton: ps.Skeleton) -> list[int]:
    return [i for i, name in enumerate(skeleton.dof_names) if not name.endswith((".tx", ".ty", ".tz"))]


def take(data: Path) -> None:
    """Print a take tracked with nothing but its C3D and ASF, limits on."""
    asf = ps.load(data / "hdm05/HDM_dg.asf").skeleton
    markers = ps.load(data / f"{TAKE}.c3d").markers
    begin = time.perf_counter()
    actor = ps.calibrate(asf, markers)
    print(f"  {time.perf_counter() - begin:.1f} s: {actor.info['calibration']}")
    ps.track(actor, markers, threads=1)
    one = ps.track(actor, markers, threads=1)
    two = ps.track(actor, markers, threads=2)
    print("  " + str(one.report).replace("\n", "\n  "))
    print(f"  the same bits on two threads: {np.array_equal(one.motion.poses, two.motion.poses)}")
    columns = _angles(asf)
    amc = np.unwrap(ps.load(data / f"{TAKE}.amc", skeleton=asf).motion.poses[:, columns], axis=0)
    print(f"  accelerations, AMC:  {accelerations(amc, 120.0)}")
    print(f"  accelerations, ours: {accelerations(one.motion.poses[:, columns], 120.0)}")
    steps = np.abs(np.diff(one.motion.poses[:, columns], axis=0))
    print(f"  largest change of a joint between frames: {steps.max():.3f} rad; beyond a limit: {_outside(one.motion)}")
    smooth = ps.track(actor, markers, threads=1, smooth=0.05)
    contacts = find_contacts(one.motion)
    print(f"  smoothed over 0.05 s: {smooth.report.mean * 1e3:.1f} mm, {smooth.report.seconds:.1f} s in all")
    print(f"  accelerations:       {accelerations(smooth.motion.poses[:, columns], 120.0)}")
    print(
        f"  feet slip {contacts.slips(one.motion).mean() * 1e3:.1f} mm before, "
        f"{contacts.slips(smooth.motion).mean() * 1e3:.1f} after"
    )


def _outside(motion: ps.Motion) -> int:
    figure = motion.skeleton
    return int(((motion.poses < figure.lower - 1e-9) | (motion.poses > figure.upper + 1e-9)).sum())


def hidden(data: Path) -> None:
    """Print how far off hidden markers are: 30% removed at random, and each hidden for half a second in turn."""
    for name, figure, file in (
        ("HDM05 dg", "hdm05/HDM_dg.asf", f"{TAKE}.c3d"),
        ("CMU 02_01", "cmu/02.asf", "cmu/02_01.c3d"),
    ):
        markers = ps.load(data / file).markers
        actor = ps.calibrate(ps.load(data / figure).skeleton, markers)
        source = Source(actor, markers)
        truth = source.read(0, len(markers))
        rng = np.random.default_rng(7)
        gone = rng.random(truth.shape[:2]) < 0.3
        _hidden_row(f"{name}, 30% at random", actor, markers, source, truth, gone)
        gone = np.zeros(truth.shape[:2], dtype=bool)
        length = int(0.5 * markers.fps)
        first = rng.permutation(truth.shape[1])
        for k, marker in enumerate(first):
            start = 10 + (k * (len(markers) - length - 20)) // max(1, len(first) - 1)
            gone[start : start + length, marker] = True
        _hidden_row(f"{name}, each 0.5 s in turn", actor, markers, source, truth, gone)


def _hidden_row(name, actor, markers, source, truth, gone) -> None:
    places = markers.positions.copy()
    for k, column in enumerate(source.columns):
        places[gone[:, k], column] = np.nan
    holed = ps.Markers(markers.names, places, markers.fps, markers.up, markers.unit)
    result = ps.track(actor, holed, threads=1)
    frames = ps.forward(actor, result.motion.poses)
    model = np.stack([frames.position(site) for site in source.sites], axis=1)
    off = np.linalg.norm(model - truth, axis=-1)
    ends = gone & ~np.roll(gone, -1, axis=0)  # the last frame of each gap: where the marker comes back
    steps = np.abs(np.diff(result.motion.poses[:, _angles(actor)], axis=0)).max()
    print(
        f"  {name:28s} hidden {np.median(off[gone]) * 1e3:.1f} mm, 95% {np.quantile(off[gone], 0.95) * 1e3:.1f}; "
        f"coming back: median {np.median(off[ends]) * 1e3:.1f} mm; largest step {steps:.2f} rad; "
        f"{result.report.count(2)} frames failed, {result.report.frames / result.report.seconds:.0f} frames/s"
    )


# ------------------------------------------------------------------------------------------------ a walk, elsewhere


def walk(data: Path) -> None:
    """Print CMU 02_01 tracked from its C3D, against its AMC, and retargeted to a human, a character and a robot."""
    asf = ps.load(data / "cmu/02.asf").skeleton
    markers = ps.load(data / "cmu/02_01.c3d").markers
    actor = ps.calibrate(asf, markers)
    result = ps.track(actor, markers, threads=1)
    print("  " + str(result.report).replace("\n", "\n  "))
    amc = ps.load(data / "cmu/02_01.amc", skeleton=asf).motion
    theirs, ours = ps.forward(asf, amc.poses), ps.forward(actor, result.motion.poses)
    turn = np.array(
        [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]]
    )  # the AMC's floor is turned about the vertical
    for angle in range(4):
        r = np.linalg.matrix_power(turn, angle)
        gaps = {n: np.linalg.norm(ours.position(n) @ r.T - theirs.position(n), axis=-1).mean() for n in asf.names}
        if np.mean(list(gaps.values())) < 0.3:
            print(
                "  joints against the AMC [mm]: "
                + ", ".join(f"{n} {g * 1e3:.0f}" for n, g in gaps.items() if "toes" not in n)
            )
    targets = {
        "human": ps.figures.human(),
        "CesiumMan": ps.load(data / "gltf/khronos_CesiumMan.glb").skeleton,
        "Talos": ps.load(data / "urdf/erd_talos_reduced.urdf").skeleton,
    }
    for name, figure in targets.items():
        begin = time.perf_counter()
        other = ps.retarget(result.motion, figure, threads=1)
        slips = other.contacts.slips(other)
        print(
            f"  to {name:10s} {len(slips)} contacts, slipping {slips.mean() * 1e3:.1f} mm, "
            f"at most {slips.max() * 1e3:.1f}; "
            f"beyond a limit: {_outside(other)}; {len(other) / (time.perf_counter() - begin):.0f} frames/s"
        )


# ------------------------------------------------------------------------------------------------------ seed 000


def seed000(data: Path, plot: str | None = None) -> None:
    """Print, and plot as boxes, seed 000's figures 8 to 10: end-effector errors at equal time, by sampling interval."""
    source = ps.load(data / "cmu/87_05.bvh").motion  # cartwheels
    figure = ps.figures.human()
    reference = ps.retarget(source, figure, smooth=0.02, threads=1)
    sites = ("hand.L", "hand.R", "foot.L", "foot.R", "pelvis", "head")
    budget = 0.015  # [s] a frame, as in the seed
    unit = 0.2  # [m]: the seed's, whose 0.05 units are 1 cm; its step of the transpose is 0.005 in them
    solvers = {
        "transpose": ps.solvers.get("transpose")(step=0.005 / unit**2),
        "projected-gradient": "projected-gradient",
        "newton": "newton",
    }
    boxes: dict[float, dict[str, np.ndarray]] = {}
    for interval in (0.05, 0.7, 1.0):
        rows = np.arange(0.0, reference.duration, interval)
        places = ps.forward(figure, reference.at(rows))
        targets = np.stack([places.position(site) for site in sites], axis=1)
        boxes[interval] = {}
        for name, solver in solvers.items():
            pose, values = reference.at(0.0), []
            for row in targets:
                goals = [ps.goals.Position(site, row[k]) for k, site in enumerate(sites)]
                answer = ps.solve(figure, goals, start=pose, solver=solver, time_limit=budget, max_iterations=100000)
                pose = answer.pose
                values.append(sum(error**2 for error in answer.errors.values()))
            boxes[interval][name] = np.array(values) * 1e4
        text = "; ".join(
            f"{name} median {np.median(v):.3g}, 75% {np.quantile(v, 0.75):.3g}, worst {v.max():.3g}"
            for name, v in boxes[interval].items()
        )
        print(f"  every {interval:4.2f} s, {budget * 1e3:g} ms a frame, summed squares [cm^2]: {text}")
    if plot:
        import matplotlib.pyplot as plt

        chart, axes = plt.subplots(1, 3, figsize=(12, 4))
        for axis, (interval, values) in zip(axes, boxes.items(), strict=True):
            axis.boxplot([np.maximum(v, 1e-6) for v in values.values()], tick_labels=list(values))
            axis.set(yscale="log", title=f"goals every {interval:g} s", ylabel="sum of squared errors [cm²]")
        chart.tight_layout()
        chart.savefig(plot, dpi=120)


# ---------------------------------------------------------------------------------------------------- an hour


def hour(data: Path) -> None:
    """Print time and memory of an hour at 120 Hz: the take walked to and fro until the hour is full."""
    import resource

    asf = ps.load(data / "hdm05/HDM_dg.asf").skeleton
    markers = ps.load(data / f"{TAKE}.c3d").markers
    actor = ps.calibrate(asf, markers)
    there_and_back = np.concatenate([markers.positions, markers.positions[::-1]])
    total = 3600 * 120
    places = np.empty((total, *there_and_back.shape[1:]))
    for start in range(0, total, len(there_and_back)):
        part = places[start : start + len(there_and_back)]
        part[:] = there_and_back[: len(part)]
    del there_and_back
    long = ps.Markers(markers.names, places, 120.0, markers.up)
    begin = time.perf_counter()
    result = ps.track(actor, long)
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"  {total} frames in {seconds:.0f} s ({total / seconds:.0f}/s), {result.report.mean * 1e3:.1f} mm")
    print(f"  peak memory {peak:.2f} GB, {places.nbytes / 1e9:.2f} GB of it the markers themselves")


SECTIONS = {"seed004": seed004, "take": take, "hidden": hidden, "walk": walk, "seed000": seed000, "hour": hour}


def main() -> None:
    """Run the sections named on the command line, or all but the hour."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], default=[])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("POSABLE_DATA", BESIDE)))
    parser.add_argument("--plot", help="where the box plots of seed 000 go")
    args = parser.parse_args()
    warnings.simplefilter("ignore", ps.PosableWarning)
    for name in args.sections or [name for name in SECTIONS if name != "hour"]:
        print(f"{name}: {SECTIONS[name].__doc__.splitlines()[0]}")
        if name == "seed000":
            seed000(args.data, args.plot)
        else:
            SECTIONS[name](args.data)


if __name__ == "__main__":
    main()
