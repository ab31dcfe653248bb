"""Motion as a subject: takes tracked as a user does, markers hidden or without names, a walk given to other figures."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import posable as ps
from benchmarks.page import Page
from benchmarks.recordings import read_markers, read_motion, read_skeleton
from posable.mocap.foot_contacts import find_contacts
from posable.mocap.take import MarkerSource

FIGURE, TAKE = "hdm05/HDM_dg.asf", "hdm05/HDM_dg_03-05_02_120"
MM = 1e3


def evidence(page: Page) -> None:
    """Write the page, section by section; a quick run has the walk alone."""
    assert page.data is not None  # it is among this subject's needs
    page.text(
        "Recordings of HDM05 and CMU, tracked from only their marker and skeleton files, with limits, on one core "
        "unless stated otherwise. Errors are distances from the recorded markers; the slip of a foot is how far it "
        "moves while it stands."
    )
    if not page.quick:
        take(page, page.data)
        unnamed(page, page.data)
        hidden(page, page.data)
    walk(page, page.data)
    if not page.quick:
        hour(page, page.data)


# ------------------------------------------------------------------------------------------------ as a user tracks


def bends(poses: np.ndarray, fps: float) -> dict[str, float]:
    """Return the sizes of the joint accelerations [rad/s²] of poses (T, n)."""
    sizes = np.abs(np.diff(poses, n=2, axis=0)) * fps**2
    return {
        "mean": float(sizes.mean()), "median": float(np.median(sizes)), "99%": float(np.quantile(sizes, 0.99)),
        "root of mean square": float(np.sqrt(np.mean(sizes**2))), "largest": float(sizes.max()),
    }  # fmt: skip


def angles(skeleton: ps.Skeleton) -> list[int]:
    """Return which degrees of freedom are turns."""
    return [i for i, name in enumerate(skeleton.dof_names) if not name.endswith((".tx", ".ty", ".tz"))]


def outside(motion: ps.Motion) -> int:
    """Return how many numbers of a motion are beyond a limit."""
    figure = motion.skeleton
    return int(((motion.poses < figure.lower - 1e-9) | (motion.poses > figure.upper + 1e-9)).sum())


def take(page: Page, data: Path) -> None:
    """A take tracked with nothing but its C3D and ASF, limits on, beside the angles that were recorded with it."""
    page.heading("A take as a user tracks it")
    asf, markers = read_skeleton(data / FIGURE), read_markers(data / f"{TAKE}.c3d")
    ps.calibrate(asf, markers)  # compiles
    begin = time.process_time()
    actor = ps.calibrate(asf, markers)
    seconds = time.process_time() - begin
    ps.track(actor, markers, threads=1)
    one, two = ps.track(actor, markers, threads=1), ps.track(actor, markers, threads=2)
    smooth = ps.track(actor, markers, threads=1, smooth=0.05)
    recorded, columns = read_motion(data / f"{TAKE}.amc", skeleton=asf), angles(asf)
    contacts, fps = find_contacts(one.motion), markers.fps
    bent = [bends(np.unwrap(recorded.poses[:, columns], axis=0), fps)]
    bent += [bends(motion.poses[:, columns], fps) for motion in (one.motion, smooth.motion)]
    rows: list[list[Any]] = [
        ["mean marker error [mm]", None, MM * one.report.mean, MM * smooth.report.mean],
        ["numbers beyond a limit", outside(recorded), outside(one.motion), outside(smooth.motion)],
        *([f"joint accelerations, {name} [rad/s²]", *(b[name] for b in bent)] for name in bent[0]),
        ["slip of a standing foot, mean [mm]", None, *(MM * _slip(contacts, m) for m in (one.motion, smooth.motion))],
        ["frames a second", None, *(r.frames / r.seconds for r in (one.report, smooth.report))],
    ]
    page.table(
        f"HDM05 {Path(TAKE).name}: {one.report.frames} frames at {fps:g} Hz",
        ["", "recorded angles (AMC)", "tracked", "tracked, smooth=0.05"],
        rows,
        note=f"Calibrating takes {seconds:.1f} s of one core. On two threads the motion is "
        f"{'bitwise identical' if np.array_equal(one.motion.poses, two.motion.poses) else 'DIFFERENT'}. The limits in "
        "the skeleton file are narrower than the actor's own recorded angles, mostly at shoulders, wrists and feet: "
        "most of the remaining error is there. `print(take.report)`:",
    )
    page.text(f"```text\n{one.report}\n```")
    page.value("take_mean_mm", MM * one.report.mean)
    page.value("take_frames_a_second", one.report.frames / one.report.seconds)
    page.value("take_accelerations", dict(zip(("amc", "ours", "smooth"), bent, strict=True)))


def _slip(contacts, motion: ps.Motion) -> float:
    return float(contacts.slips(motion).mean())


# ------------------------------------------------------------------------------------------- markers without names


UNNAMED = (
    (f"{TAKE}.c3d", FIGURE),
    ("hdm05/HDM_dg_06-03_03_120.c3d", FIGURE),
    ("cmu/02_01.c3d", "cmu/02.asf"),
    ("cmu/85_12.c3d", "cmu/02.asf"),
    ("c3d/Gait.c3d", "human"),
)


def joints_of(motion: ps.Motion, names: Sequence[str]) -> np.ndarray:
    """Return the places (T, J, 3) [m] of joints."""
    frames = ps.forward(motion.skeleton, motion.poses)
    return np.stack([frames.position(name) for name in names], axis=1)


def unnamed(page: Page, data: Path) -> None:
    """Takes calibrated with their names removed and their markers shuffled, against the answer by name."""
    page.heading("Markers without names")
    rows = []
    for file, figure in UNNAMED:
        skeleton = ps.figures.human() if figure == "human" else read_skeleton(data / figure)
        markers = read_markers(data / file)
        order = np.random.default_rng(0).permutation(len(markers.names))
        names = tuple(f"m{k:02d}" for k in range(len(order)))
        nameless = ps.Markers(names, markers.positions[:, order], markers.fps, markers.up, markers.unit)
        known, actor = ps.calibrate(skeleton, markers), ps.calibrate(skeleton, nameless)
        theirs, ours = known.info["calibration"].markers, actor.info["calibration"].markers
        parent = {joint.name: joint.parent for joint in skeleton.joints}
        same = near = count = 0
        for name, k in zip(names, order, strict=True):
            base = markers.names[k].rsplit(":", 1)[-1]
            if base not in theirs:
                continue
            a, b = ours[name][0] if name in ours else "", theirs[base][0]
            count += 1
            same += a == b
            near += a == b or parent.get(a) == b or parent.get(b) == a
        takes = [ps.track(who, what, threads=1) for who, what in ((known, markers), (actor, nameless))]
        errors = [MM * take.report.mean for take in takes]
        joints = [joints_of(take.motion, skeleton.names) for take in takes]
        moved = MM * float(np.linalg.norm(joints[1] - joints[0], axis=-1).mean())
        sure = f"{actor.info['calibration'].recognised:.0%}"
        rows.append([Path(file).stem, Path(figure).stem, count, same, near, errors[1], errors[0], moved, sure])
    page.table(
        "Names removed, markers shuffled",
        [
            "take",
            "figure",
            "markers",
            "same bone as by name",
            "that or its neighbour",
            "tracked [mm]",
            "by name [mm]",
            "joints off those by name [mm]",
            "confidence",
        ],
        rows,
        note="CMU 85_12 uses the skeleton of another subject, because its own is not available.",
    )
    page.value("unnamed", {row[0]: row[2:] for row in rows})


# -------------------------------------------------------------------------------------------------- hidden markers


def hidden(page: Page, data: Path) -> None:
    """How far off hidden markers are: 30% removed at random, and each hidden for half a second in turn."""
    page.heading("Hidden markers")
    rows = []
    for name, figure, file in (
        ("HDM05 dg_03-05_02", FIGURE, f"{TAKE}.c3d"),
        ("CMU 02_01", "cmu/02.asf", "cmu/02_01.c3d"),
    ):
        markers = read_markers(data / file)
        actor = ps.calibrate(read_skeleton(data / figure), markers)
        source = MarkerSource(actor, markers)
        truth = source.read(0, len(markers))
        rng = np.random.default_rng(7)
        gone = rng.random(truth.shape[:2]) < 0.3
        rows.append([name, "30% at random", *_hidden_row(actor, markers, source, truth, gone)])
        gone = np.zeros(truth.shape[:2], dtype=bool)
        length = int(0.5 * markers.fps)
        first = rng.permutation(truth.shape[1])
        for k, marker in enumerate(first):
            start = 10 + (k * (len(markers) - length - 20)) // max(1, len(first) - 1)
            gone[start : start + length, marker] = True
        rows.append([name, "each for 0.5 s in turn", *_hidden_row(actor, markers, source, truth, gone)])
    page.table(
        "Markers taken away, and how far the figure's own are from where they were",
        ["take", "hidden", "median [mm]", "95% [mm]", "coming back, median [mm]", "largest step of a joint [rad]",
         "frames failed", "frames a second"],
        rows,
        note="*Coming back*: in the last frame of a gap. The largest step is between consecutive frames: no joint "
        "jumps when a marker disappears or returns. The actor was calibrated with all of the markers.",
    )  # fmt: skip
    page.value("hidden", {f"{row[0]}, {row[1]}": row[2:] for row in rows})


def _hidden_row(actor, markers, source, truth, gone) -> list[Any]:
    places = markers.positions.copy()
    for k, column in enumerate(source.columns):
        places[gone[:, k], column] = np.nan
    holed = ps.Markers(markers.names, places, markers.fps, markers.up, markers.unit)
    result = ps.track(actor, holed, threads=1)
    frames = ps.forward(actor, result.motion.poses)
    model = np.stack([frames.position(site) for site in source.sites], axis=1)
    off = MM * np.linalg.norm(model - truth, axis=-1)
    ends = gone & ~np.roll(gone, -1, axis=0)  # the last frame of each gap: where the marker comes back
    steps = np.abs(np.diff(result.motion.poses[:, angles(actor)], axis=0)).max()
    report = result.report
    return [
        float(np.median(off[gone])), float(np.quantile(off[gone], 0.95)), float(np.median(off[ends])), float(steps),
        report.count(2), report.frames / report.seconds,
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------------ a walk, elsewhere


WALKS = {  # other walks and steps: (motion, figure)
    "CMU 05_01, walk": ("cmu/05_01.amc", "cmu/05.asf"),
    "CMU 16_15, walk": ("cmu/16_15.amc", "cmu/16.asf"),
    "HDM05 bk, sneak": ("hdm05/HDM_bk_sneak2StepsLStart_006_120.AMC", "hdm05/HDM_bk.asf"),
    "HDM05 tr, jog": ("hdm05/HDM_tr_jogLeftCircle4StepsRstart_014_120.amc", "hdm05/HDM_tr.asf"),
}
QUARTER = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])  # the AMC's floor is turned about y
ASKED = 5.0  # [mm]: the slip that is allowed


def walk(page: Page, data: Path) -> None:
    """CMU 02_01 tracked from its C3D, against its AMC, and retargeted to a human, a character and a robot."""
    page.heading("A walk, tracked and retargeted to other figures")
    asf, markers = read_skeleton(data / "cmu/02.asf"), read_markers(data / "cmu/02_01.c3d")
    actor = ps.calibrate(asf, markers)
    ps.track(actor, markers, threads=1)
    result = ps.track(actor, markers, threads=1)
    report = result.report
    gaps = against(asf, read_motion(data / "cmu/02_01.amc", skeleton=asf), actor, result.motion)
    page.text(
        f"CMU 02_01, {report.frames} frames: tracked with a mean marker error of {MM * report.mean:.1f} mm at "
        f"{report.frames / report.seconds:.0f} frames a second. Its joints are "
        f"{MM * np.median(list(gaps.values())):.0f} mm from those of the recorded AMC (median over the joints of the "
        "mean over the frames): the AMC has the bone lengths of the skeleton file, ours has lengths fitted to the "
        "markers."
    )
    page.value("walk_joints_mm", {name: MM * gap for name, gap in gaps.items()})
    targets = {
        "human": ps.figures.human(),
        "CesiumMan": read_skeleton(data / "gltf/khronos_CesiumMan.glb"),
        "Talos": read_skeleton(data / "urdf/erd_talos_reduced.urdf"),
    }
    motions = {"CMU 02_01, tracked": result.motion}
    for name, (file, figure) in WALKS.items():
        motions[name] = read_motion(data / file, skeleton=read_skeleton(data / figure))
    rows: list[list[Any]] = []
    for name, motion in motions.items():
        for to, figure in targets.items():
            begin = time.process_time()
            other = ps.retarget(motion, figure, threads=1)
            rate = len(other) / (time.process_time() - begin)
            slips = MM * (other.contacts or find_contacts(other)).slips(other)
            rows.append([
                name, to, len(slips), float(slips.mean()), float(slips.max()), len(other.touches), outside(other), rate,
            ])  # fmt: skip
    far = ", ".join(f"{name} to {to} ({slip:.0f} mm)" for name, to, _, _, slip, *_ in rows if slip > ASKED)
    page.table(
        "Retargeted",
        ["motion", "to", "foot contacts", "slip, mean [mm]", "slip, largest [mm]", "touches of hands",
         "numbers beyond a limit", "frames a second"],
        rows,
        note=f"A slip of {ASKED:g} mm is allowed. {f'More: {far}.' if far else 'No foot slips farther.'}",
    )  # fmt: skip
    page.value("retargeted", {f"{row[0]} to {row[1]}": row[2:] for row in rows})


def against(asf: ps.Skeleton, amc: ps.Motion, actor: ps.Skeleton, motion: ps.Motion) -> dict[str, float]:
    """Return the mean distance [m] of each joint from the recorded one, floors turned to where they fit best."""
    theirs, ours = ps.forward(asf, amc.poses), ps.forward(actor, motion.poses)
    turned = []
    for quarters in range(4):
        r = np.linalg.matrix_power(QUARTER, quarters)
        gaps = {n: np.linalg.norm(ours.position(n) @ r.T - theirs.position(n), axis=-1).mean() for n in asf.names}
        turned.append({name: float(gap) for name, gap in gaps.items() if "toes" not in name})
    return min(turned, key=lambda gaps: sum(gaps.values()))


# ---------------------------------------------------------------------------------------------------------- an hour


def hour(page: Page, data: Path) -> None:
    """Time and memory of an hour at 120 Hz, in processes of their own: the take walked to and fro until it is full."""
    page.heading("An hour")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        own = [sys.executable, "-m", "benchmarks.takes"]
        subprocess.run([*own, "track", str(data), str(folder / "hour.npy")], check=True)
        seconds, total, mean, peak, given = np.load(folder / "hour.npy").tolist()
        subprocess.run([*own, "write", str(data), str(folder / "hour.c3d")], check=True)
        verb = [
            "track",
            "hour.c3d",
            "--figure",
            str(data.resolve() / FIGURE),
            "-o",
            "hour.bvh",
            "--report",
            "hour.html",
        ]
        begin = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "posable", *verb, "--json"], cwd=folder, stdout=subprocess.PIPE
        )
        said = json.loads(process.stdout.read())  # pyright: ignore[reportOptionalMemberAccess]
        _, status, usage = os.wait4(process.pid, 0)
        typed = time.perf_counter() - begin
        code = os.waitstatus_to_exitcode(status)  # 1: written, and the verdict asks to look at it
        if code not in (0, 1) or not (folder / "hour.bvh").stat().st_size:
            raise RuntimeError(f"posable track: exit code {code}, {said['verdict']}")
    peak = usage.ru_maxrss / 1e6
    page.table(
        f"{int(total)} frames at 120 Hz, 41 markers, all cores",
        ["", "s", "frames a second", "peak memory [GB]"],
        [
            ["`ps.track` of markers in memory", seconds, total / seconds, peak],
            ["`posable track` from C3D to BVH, calibrated, with a report", typed, total / typed, peak],
        ],
        note=f"The markers are {given:.2f} GB of the first; its mean marker error is {MM * mean:.2f} mm. "
        f"The verdict on the second: {said['verdict']}.",
    )
    page.value("hour_peak_GB", peak)
    page.value("hour_by_command_line_peak_GB", peak)


def hour_of_markers(data: Path) -> ps.Markers:
    """Return an hour at 120 Hz made of one take."""
    markers = read_markers(data / f"{TAKE}.c3d")
    there_and_back = np.concatenate([markers.positions, markers.positions[::-1]])
    total = 3600 * 120
    places = np.empty((total, *there_and_back.shape[1:]))
    for start in range(0, total, len(there_and_back)):
        part = places[start : start + len(there_and_back)]
        part[:] = there_and_back[: len(part)]
    return ps.Markers(markers.names, places, 120.0, markers.up)


def track_hour(data: Path, out: Path) -> None:
    """Track the hour and save seconds, frames, mean error [m], peak memory [GB] and the markers' own [GB]."""
    actor = ps.calibrate(read_skeleton(data / FIGURE), read_markers(data / f"{TAKE}.c3d"))
    markers = hour_of_markers(data)
    begin = time.perf_counter()
    result = ps.track(actor, markers)
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    np.save(out, [seconds, len(markers), result.report.mean, peak, markers.positions.nbytes / 1e9])


if __name__ == "__main__":
    if sys.argv[1] == "track":
        track_hour(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        ps.save(sys.argv[3], hour_of_markers(Path(sys.argv[2])))
