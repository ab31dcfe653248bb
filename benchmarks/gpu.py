"""Batches on an NVIDIA GPU beside the CPU: checked, timed, one table.

    python -m benchmarks.gpu [--data ../shared/data] [--count 1000000] [sections ...]

Every answer is checked by forward kinematics, apart from the solver. "on the GPU" times calls whose targets are there
already and whose answers stay there; "from the host" times the same call with NumPy arrays. The CPU solves as many of
the same problems as a few seconds allow, on all cores.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import posable as ps
from benchmarks.page import Page, read_tables
from benchmarks.recordings import read_markers, read_skeleton
from benchmarks.retargeting import source
from posable._differentiable import Layer
from posable.formats.conventions import markers_with_up
from posable.gpu.device import Buffer, Stream, gpu, missing
from posable.gpu.differentiable import adjoint, columns
from posable.mocap.marker_sets import base_name

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
g = ps.goals


def there(values: np.ndarray) -> Buffer:
    """Put an array on the GPU, as CuPy or PyTorch would."""
    stream = Stream(gpu())
    out = Buffer(stream, values.shape, values.dtype).take(np.ascontiguousarray(values))
    stream.wait()
    return out


def fastest(call: Callable[[], Any], passes: int = 5) -> tuple[float, Any]:
    """Return the shortest time of a call [s] and what it returned last."""
    best, out = np.inf, call()  # the first call compiles
    for _ in range(passes):
        begin = time.perf_counter()
        out = call()
        gpu().settle()
        best = min(best, time.perf_counter() - begin)
    return best, out


def frame_misses(skeleton, poses, body, targets) -> tuple[np.ndarray, np.ndarray]:
    """Return distance [m] and angle [rad] between a body's frames and its targets (t, 4, 4)."""
    far, turned = [], []
    for k in range(0, len(poses), 50_000):
        frames, wanted = ps.forward(skeleton, poses[k : k + 50_000]).matrix(body), targets[k : k + 50_000]
        turn = np.swapaxes(frames[:, :3, :3], 1, 2) @ wanted[:, :3, :3]
        axis = np.stack(
            [turn[:, 2, 1] - turn[:, 1, 2], turn[:, 0, 2] - turn[:, 2, 0], turn[:, 1, 0] - turn[:, 0, 1]], 1
        )
        turned.append(np.arctan2(np.linalg.norm(axis, axis=1), np.trace(turn, axis1=1, axis2=2) - 1.0))
        far.append(np.linalg.norm(frames[:, :3, 3] - wanted[:, :3, 3], axis=1))
    return np.concatenate(far), np.concatenate(turned)


def held(skeleton, poses) -> bool:
    """Return whether every limit is held exactly."""
    return bool(((poses >= skeleton.lower) & (poses <= skeleton.upper)).all())


def row(work, device, count, seconds, share, note="") -> None:
    """Print a line of the table."""
    print(
        f"| {work} | {device} | {count} | {seconds * 1e3:.2f} | {count / seconds:.3g} | {share * 100:.4f} | {note} |",
        flush=True,
    )


def forward_matrices(skeleton, poses, body) -> np.ndarray:
    """Return the frames (t, 4, 4) of a body at many poses."""
    parts = [ps.forward(skeleton, poses[k : k + 50_000]).matrix(body) for k in range(0, len(poses), 50_000)]
    return np.concatenate(parts)


# ------------------------------------------------------------------------------------------------------------- Panda


def panda_problem(count: int):
    """Return the Panda and random reachable poses of its hand (t, 4, 4)."""
    skeleton = ps.figures.panda()
    rng = np.random.default_rng(11)
    return skeleton, forward_matrices(skeleton, rng.uniform(skeleton.lower, skeleton.upper, (count, 7)), "hand")


def panda(args) -> None:
    """A million random reachable poses of the Panda's hand, 1e-4 m and 1e-3 rad, with limits."""
    skeleton, targets = panda_problem(args.count)
    on_gpu = there(targets.astype(np.float32))
    for precision in ("single", "double"):
        for restarts in (0, 20, 40, 100):
            goal = g.Pose("hand", on_gpu)
            seconds, result = fastest(
                lambda: ps.solve(skeleton, goal, device="cuda", restarts=restarts, precision=precision)
            )
            far, turned = frame_misses(skeleton, result.pose, "hand", targets)
            good = (far <= 1e-4 + 1e-6) & (turned <= 1e-3 + 1e-6)  # targets in single precision are off by 1e-7
            note = f"verdict right: {(good == result.ok).mean():.6f}, limits held: {held(skeleton, result.pose)}"
            note += f", turns {result.outcome.iterations.mean():.1f}"
            row(f"Panda, {precision}, {restarts} restarts", "on the GPU", args.count, seconds, good.mean(), note)
    again = ps.solve(skeleton, goal, device="cuda", restarts=restarts, precision=precision)
    print(f"the same bits again: {np.array_equal(result.pose, again.pose)}")
    seconds, result = fastest(lambda: ps.solve(skeleton, g.Pose("hand", targets), device="cuda", restarts=20), 2)
    row("Panda, single, 20 restarts", "from the host", args.count, seconds, result.ok.mean())
    few = targets[: args.few]
    for restarts in (20, 100):
        seconds, result = fastest(lambda: ps.solve(skeleton, g.Pose("hand", few), restarts=restarts), 3)
        row(f"Panda, {restarts} restarts", f"{os.cpu_count()} cores", len(few), seconds, result.ok.mean())


# ------------------------------------------------------------------------------------------------------------- human


SIX = ("hand.L", "hand.R", "foot.L", "foot.R", "head", "pelvis")


def human(args) -> None:
    """The human, six position goals at reachable places, 71 degrees of freedom, all with limits, from rest."""
    skeleton = ps.figures.human()
    count = args.count
    rng = np.random.default_rng(5)
    low, high = np.maximum(skeleton.lower, skeleton.rest - 2.0), np.minimum(skeleton.upper, skeleton.rest + 2.0)
    low[:3], high[:3] = skeleton.rest[:3] - 0.5, skeleton.rest[:3] + 0.5
    base = min(count, 50_000)  # poses drawn; the rest repeats them with another start
    poses = skeleton.rest + 0.5 * (rng.uniform(low, high, (base, skeleton.size)) - skeleton.rest)
    frames = ps.forward(skeleton, poses)
    places = {b: frames.position(b) for b in SIX}
    many = {b: np.tile(p, (-(-count // base), 1))[:count] for b, p in places.items()}
    on_gpu = {b: there(p.astype(np.float32)) for b, p in many.items()}
    for restarts in (0, 10):
        goals = [g.Position(b, on_gpu[b]) for b in SIX]
        seconds, result = fastest(lambda: ps.solve(skeleton, goals, device="cuda", restarts=restarts), 3)
        some = result.pose[:base]
        frames = ps.forward(skeleton, some)
        good = np.all(
            [np.linalg.norm(frames.position(b) - places[b][: len(some)], axis=1) <= 1.01e-4 for b in SIX], axis=0
        )
        note = f"verdict right: {(good == result.ok[:base]).mean():.6f}, limits held: {held(skeleton, some)}"
        row(
            f"human, six goals, {restarts} restarts",
            "on the GPU",
            count,
            seconds,
            good.mean(),
            note + f", turns {result.outcome.iterations.mean():.1f}",
        )
    few = {b: p[: args.few // 5] for b, p in places.items()}
    seconds, result = fastest(lambda: ps.solve(skeleton, [g.Position(b, few[b]) for b in SIX], restarts=10), 2)
    row("human, six goals, 10 restarts", f"{os.cpu_count()} cores", args.few // 5, seconds, result.ok.mean())


# ------------------------------------------------------------------------------------------------------------- HDM05


def frames(args) -> None:
    """Frames of HDM05, each from the frame before it, with at most ten iterations as in Erleben & Andrews (2018)."""
    work, actor, names, places, poses = load_take(args.data)
    n = min(len(poses) - 1, args.count)
    repeat = -(-args.count // n)
    goals = [
        g.Position(name, there(np.tile(places[1 : n + 1, k], (repeat, 1))[: args.count]), tolerance=np.inf)
        for k, name in enumerate(names)
    ]
    begin = there(np.tile(poses[:n], (repeat, 1))[: args.count])
    seconds, result = fastest(lambda: ps.solve(actor, goals, start=begin, device="cuda", max_iterations=MOST), 3)
    off = marker_misses(actor, result.pose[:n], names, places[1 : n + 1])
    here = [g.Position(name, places[1 : n + 1, k], tolerance=np.inf) for k, name in enumerate(names)]
    cpu, reference = fastest(lambda: ps.solve(actor, here, start=poses[:n], max_iterations=MOST), 2)
    same = marker_misses(actor, reference.pose, names, places[1 : n + 1])
    note = f"markers off {off.mean() * 1e3:.2f} mm, limits held: {held(actor, result.pose[:n])}"
    share = (off <= same + 1e-3).mean()  # frames whose markers are within a millimetre of the CPU's answer, or nearer
    row(work, "on the GPU", args.count, seconds, share, f"{note}, turns {result.outcome.iterations.mean():.1f}")
    note = f"markers off {same.mean() * 1e3:.2f} mm, iterations {reference.iterations.mean():.1f}"
    row(work, f"{os.cpu_count()} cores", n, cpu, 1.0, note)


MOST = 10


def marker_misses(figure, poses, names, places) -> np.ndarray:
    """Return how far the markers are from their places (t, m, 3), the mean of each frame [m]."""
    at = ps.forward(figure, poses)
    return np.mean([np.linalg.norm(at.position(name) - places[:, k], axis=1) for k, name in enumerate(names)], axis=0)


def load_take(data: Path):
    """Return a name, the figure, its markers, their places (t, m, 3) [m] and poses (t, n): HDM05, or made up."""
    asf = data / "hdm05/HDM_dg.asf"
    if asf.exists():
        skeleton = read_skeleton(asf)
        markers = markers_with_up(read_markers(data / "hdm05/HDM_dg_03-05_02_120.c3d"), skeleton.up)
        actor = ps.calibrate(skeleton, markers)
        tracked = ps.track(actor, markers)
        sites = {site.name for site in actor.sites}
        kept = [k for k, name in enumerate(markers.names) if base_name(name) in sites]
        names = [base_name(markers.names[k]) for k in kept]
        return f"HDM05 frame, {len(kept)} markers", actor, names, markers.positions[:, kept], tracked.motion.poses
    skeleton = ps.figures.human()
    names = [site.name for site in skeleton.sites][:41]
    t = np.linspace(0.0, 40.0, 2000)[:, None]
    rng = np.random.default_rng(3)
    swing = 0.2 * (skeleton.upper - skeleton.lower).clip(max=2.0) * np.sin(t * rng.uniform(0.3, 2.0, skeleton.size))
    poses = np.clip(skeleton.rest + swing, skeleton.lower, skeleton.upper)
    at = ps.forward(skeleton, poses)
    places = np.stack([at.position(name) for name in names], axis=1)
    return "made-up take, human, 41 markers", skeleton, names, places, poses


# ------------------------------------------------------------------------------------------------------- batch sizes


def sizes(args) -> None:
    """Time against batch size, Panda, 20 restarts: where the GPU overtakes the CPU."""
    skeleton, targets = panda_problem(args.count)
    print("| batch | CPU ms | GPU, from the host, ms | GPU, targets there, ms |")
    print("| --- | --- | --- | --- |")
    count = 1
    while count <= args.count:
        some = targets[:count]
        cpu = np.nan
        if count <= args.few * 5:
            cpu, _ = fastest(lambda: ps.solve(skeleton, g.Pose("hand", some), restarts=20), 3)
        host, _ = fastest(lambda: ps.solve(skeleton, g.Pose("hand", some), restarts=20, device="cuda"), 3)
        array = there(some.astype(np.float32))
        here, _ = fastest(lambda: ps.solve(skeleton, g.Pose("hand", array), restarts=20, device="cuda"), 5)
        alone = f"{cpu * 1e3:.3g}" if np.isfinite(cpu) else "not run"
        print(f"| {count} | {alone} | {host * 1e3:.3g} | {here * 1e3:.3g} |", flush=True)
        count *= 10


def cores(args) -> None:
    """A batch on 1, 2, 4 ... threads of the CPU, Panda, 20 restarts: how well it scales, and that the bits agree."""
    skeleton, targets = panda_problem(args.few)
    threads, alone, bits = 1, 0.0, set()
    print("| threads | ms | against one | reached % | same bits |")
    print("| --- | --- | --- | --- | --- |")
    while threads <= (os.cpu_count() or 1):
        result = ps.solve(skeleton, g.Pose("hand", targets), restarts=20, threads=threads)
        seconds = np.inf
        for _ in range(5):
            begin = time.perf_counter()
            result = ps.solve(skeleton, g.Pose("hand", targets), restarts=20, threads=threads)
            seconds = min(seconds, time.perf_counter() - begin)
        alone = alone or seconds
        bits.add(result.pose.tobytes())
        share = 100.0 * np.mean(result.ok)
        print(
            f"| {threads} | {seconds * 1e3:.3g} | {alone / seconds:.2f} | {share:.2f} | {len(bits) == 1} |", flush=True
        )
        threads *= 2


def layers(args) -> None:
    """A differentiable layer: a tenth of the problems, solved, brought to the minimum, and carried back."""
    print("| figure and goals | problems | solve ms | forward ms | backward ms | backward / solve | gap to the CPU |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    count = args.count // 10
    for skeleton, goal, label in (
        (ps.figures.limb(), g.Position("hand", (0.0, 0.0, 0.0)), "limb, a place"),
        (ps.figures.panda(), g.Pose("hand", np.eye(4)), "Panda, a pose"),
    ):
        rng = np.random.default_rng(5)
        poses = np.clip(skeleton.rest + 0.4 * rng.normal(size=(count, skeleton.size)), skeleton.lower, skeleton.upper)
        targets = forward_matrices(skeleton, poses, "hand")
        targets = targets if goal.target_shape == (4, 4) else targets[:, :3, 3]
        layer = Layer(skeleton, [goal, g.Posture(weight=1e-3)], ["hand"])
        array, slopes = there(targets), rng.normal(size=poses.shape)
        rows = there(slopes)
        goals = [goal.moved(array), layer.goals[1]]
        alone, _ = fastest(lambda: ps.solve(skeleton, goals, device="cuda", natural=False))
        whole, solved = fastest(lambda: layer.forward_on_gpu([array]))
        back, found = fastest(lambda: adjoint(solved, rows))
        some = slice(0, min(count, 500))
        reference = layer.forward([targets[some]], [])
        same = np.abs(reference.poses - solved.poses.numpy()[some]).max(axis=1) < 1e-6  # not at another minimum
        elements, where = columns(solved, "hand")
        expected = layer.backward(reference, slopes[some])[0][0].reshape(len(same), -1)[:, elements]
        got = found.numpy()[some][:, where]
        gap = (np.abs(got - expected) / (1.0 + np.abs(expected).max(axis=1, keepdims=True)))[same].max()
        times = f"{alone * 1e3:.3g} | {whole * 1e3:.3g} | {back * 1e3:.3g} | {back / alone:.3g}"
        print(f"| {label} | {count} | {times} | {gap:.1e} of {same.mean() * 100:.0f}% |", flush=True)


# ------------------------------------------------------------------------------------------------------------- clips

QUALITY = {
    "self penetration over 1 cm [% of frames]": "self over 1 cm [%]",
    "ground penetration over 1 cm [% of frames]": "ground over 1 cm [%]",
    "slip of standing feet, mean [mm]": "slip [mm]",
    "mean acceleration [rad/s2]": "acceleration [rad/s²]",
    "joint limits exceeded [% of frames]": "past limits [%]",
    "velocity limits exceeded [% of frames]": "too fast [%]",
    "jumps over 0.5 rad [frames]": "jumps",
    "tracking error [mm]": "tracking [mm]",
    "arm bones off [deg]": "arms [°]",
    "leg bones off [deg]": "legs [°]",
}


def there_and_back(poses: np.ndarray, count: int) -> np.ndarray:
    """Return poses (count, n) that run through a clip forwards and backwards, again and again."""
    both = np.concatenate([poses, poses[-2:0:-1]])
    return np.tile(both, (-(-count // len(both)), 1))[:count]


def workspace(args) -> None:
    """The workspace of the Panda's hand on a grid, with the clearance of every point."""
    print("| reach of the Panda | points | s | points/s | reached | median clearance [rad] |")
    print("| --- | --- | --- | --- | --- | --- |")
    skeleton, grid = ps.figures.panda(), 0.04 if args.count > 100_000 else 0.15
    for device, where in (("cpu", f"{os.cpu_count()} cores"), ("cuda", "GPU")):
        seconds, found = fastest(lambda: ps.reach(skeleton, "hand", grid=grid, device=device), 1)
        print(
            f"| {where} | {len(found.points)} | {seconds:.2f} | {len(found.points) / seconds:.3g} | "
            f"{found.reachable.sum()} | {np.nanmedian(found.clearance):.3f} |",
            flush=True,
        )


def takes(args) -> None:
    """A take of HDM05, played forwards and backwards, tracked with everything included."""
    _, actor, names, places, _ = load_take(args.data)
    count = 100_000 if args.count > 100_000 else 2000
    flat = there_and_back(places.reshape(len(places), -1), count)
    markers = ps.Markers(tuple(names), flat.reshape(count, -1, 3), 120.0, actor.up)
    print("| track, HDM05 | frames | s | frames/s | markers off, mean [mm] | acceleration [rad/s²] |")
    print("| --- | --- | --- | --- | --- | --- |")
    for device, threads in (("cpu", 1), ("cpu", None), ("cuda", None)):
        some = (
            markers if threads is None else ps.Markers(tuple(names), markers.positions[: count // 10], 120.0, actor.up)
        )
        seconds, take = fastest(lambda: ps.track(actor, some, device=device, threads=threads), 1)
        bend = np.abs(np.diff(take.motion.poses, n=2, axis=0)).mean() * 120.0**2
        where = "GPU" if device == "cuda" else f"{threads or os.cpu_count()} cores"
        off = 1e3 * np.nanmean(take.errors)
        print(
            f"| {where} | {len(some)} | {seconds:.2f} | {len(some) / seconds:.0f} | {off:.3f} | {bend:.2f} |",
            flush=True,
        )


def robot_and_clip(data: Path, count: int) -> tuple[ps.Skeleton, ps.Motion]:
    """Return the Unitree G1 and a clip of `count` frames at 30 Hz: a person climbs down from boxes, and back."""
    stored = data / "g1.npz"  # for a machine that cannot read MJCF
    robot = ps.load(stored if stored.exists() else data / "mjcf/unitree_g1/g1.xml").skeleton
    motion, _ = source(data, "climb_0")
    assert robot is not None
    return robot, ps.Motion(motion.skeleton, there_and_back(motion.poses, count), motion.fps)


def clips(args) -> None:
    """A long clip, and many short ones, on the Unitree G1: windows of frames on the GPU beside the CPU alone."""
    count = 10_000 if args.count > 100_000 else 300
    robot, motion = robot_and_clip(args.data, count)
    print(f"| retarget to the G1 | frames | s | frames/s | {' | '.join(QUALITY.values())} |")
    print("| --- | --- | --- | --- |" + " --- |" * len(QUALITY))

    def line(where: str, frames: int, seconds: float, result: Any, of: ps.Motion) -> None:
        quality = ps.motion_quality(result, of, scale=result.scale)
        cells = " | ".join(f"{quality.get(key, np.nan):.3g}" for key in QUALITY)
        print(f"| {where} | {frames} | {seconds:.2f} | {frames / seconds:.0f} | {cells} |", flush=True)

    few = ps.Motion(motion.skeleton, motion.poses[: count // 10], motion.fps)
    for device, threads in (("cpu", 1), ("cpu", None), ("cuda", None)):
        some = motion if threads is None else few
        ps.retarget(few, robot, device=device, threads=threads)  # compiles
        seconds, result = fastest_once(lambda: ps.retarget(some, robot, device=device, threads=threads))
        line("GPU" if device == "cuda" else f"{threads or os.cpu_count()} cores", len(some), seconds, result, some)
    size, number = (1000, 64) if count > 1000 else (100, 2)
    many = [ps.Motion(motion.skeleton, np.roll(motion.poses, 37 * k, axis=0)[:size], motion.fps) for k in range(number)]
    workers = os.cpu_count() or 1
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_prepare, initargs=(robot, many)) as pool:
        list(pool.map(_wait, [2.0] * workers))  # every worker has started and compiled
        seconds, results = fastest_once(lambda: list(pool.map(_retarget_one, range(number))))
    line(f"{number} clips, CPU, {workers} processes", size * number, seconds, results[1], many[1])
    with ThreadPoolExecutor(8) as pool:
        seconds, results = fastest_once(
            lambda: list(pool.map(lambda one: ps.retarget(one, robot, device="cuda", threads=1), many))
        )
    line(f"{number} clips, GPU, 8 threads", size * number, seconds, results[1], many[1])


_work: dict[str, Any] = {}  # of a process: the robot and the clips


def _prepare(robot: ps.Skeleton, many: list[ps.Motion]) -> None:
    _work.update(robot=robot, many=many)
    warnings.simplefilter("ignore", ps.PosableWarning)
    few = ps.Motion(many[0].skeleton, many[0].poses[:100], many[0].fps)
    ps.retarget(few, robot, threads=1)


def _wait(seconds: float) -> None:
    time.sleep(seconds)


def _retarget_one(k: int) -> ps.Motion:
    return ps.retarget(_work["many"][k], _work["robot"], threads=1)


def fastest_once(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the shorter time of two calls [s] and what the last returned."""
    best, out = np.inf, None
    for _ in range(2):
        begin = time.perf_counter()
        out = call()
        best = min(best, time.perf_counter() - begin)
    return best, out


COLUMNS = ("work", "where", "problems", "ms", "a second", "reached %", "checks")
SECTIONS = {"panda": panda, "human": human, "frames": frames, "sizes": sizes, "layers": layers, "cores": cores}
LONG = {"workspace": workspace, "takes": takes, "clips": clips}
SECTIONS |= LONG


CAPTIONS = {
    "workspace": "`ps.reach`, everything included",
    "takes": "`ps.track`, everything included",
    "clips": "`ps.retarget`, everything included; measures of `ps.motion_quality`",
}


def evidence(page: Page) -> None:
    """Write the page of this subject."""
    page.text(
        f"On one {gpu().name}, beside the {os.cpu_count()} cores of its machine, which solve a part of the same "
        "problems with the same call. *On the GPU*: targets and answers stay there; *from the host*: NumPy arrays. The "
        "time is that of the whole call, the best of a few. *Reached* is judged by forward kinematics, apart from the "
        "solver; for the frames, where nothing can be reached, it is the share whose markers are as near as the CPU "
        "brings them, to a millimetre."
    )
    args = argparse.Namespace(data=page.data or BESIDE, count=page.pick(1_000_000, 10_000), few=page.pick(20_000, 500))
    rows, said = [], []
    for section in (panda, human, frames):
        _, printed = page.captured(section, args)
        rows += [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines() if line[:1] == "|"]
        said += [line for line in printed.splitlines() if line[:1] != "|"]
    page.table(f"{args.count} problems at once", COLUMNS, rows, note=", ".join(said))
    _, printed = page.captured(sizes, args)
    for _, named, found in read_tables(printed):
        page.table("Batch sizes, Panda, 20 restarts", named, found)
    _, printed = page.captured(layers, args)
    for _, named, found in read_tables(printed):
        note = "the gap is relative, between the gradients of 500 problems here and on the CPU that end at one minimum"
        page.table("A differentiable layer, with a posture", named, found, note=note)
    for name, section in LONG.items():
        _, printed = page.captured(section, args)
        for _, named, found in read_tables(printed):
            page.table(CAPTIONS[name], named, found)
    _, printed = page.captured(cores, args)
    for _, named, found in read_tables(printed):
        note = "the virtual cores of a shared machine differ in speed, so the ratio depends on the one that ran alone"
        page.table(f"{args.few} Pandas on the cores of the CPU, 20 restarts", named, found, note=note)


def main() -> None:
    """Run the sections named on the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], default=[])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("POSABLE_DATA", BESIDE)))
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--few", type=int, default=20_000, help="problems that the CPU solves")
    args = parser.parse_args()
    warnings.simplefilter("ignore", ps.PosableWarning)
    reason = missing()
    if reason is not None:
        raise SystemExit(f"no GPU: {reason}")
    print(f"{gpu().name}; NumPy {np.__version__}; {os.cpu_count()} cores\n")
    print(f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}")
    for name in args.sections or SECTIONS:
        SECTIONS[name](args)


if __name__ == "__main__":
    main()
