"""Our readers against independent ones, in one run: agreement of positions, and seconds.

    python -m benchmarks.formats ../shared/data     needs pip install bvhio pin ezc3d c3d

A peer that is missing is skipped and said so. `bvhio` computes in single precision and PyGLM's double-precision
quaternions have a wrong `rotate`; `double_precision_bvhio` gives it exact arithmetic, so that the comparison is of
the reading, not the rounding.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from benchmarks.recordings import read_markers, read_motion, read_skeleton
from posable.formats import load
from posable.model.kinematics import forward

BVH_FRAMES = 20  # compared per file


def double_precision_bvhio():
    """Return the module bvhio, computing in double precision."""
    import glm

    vector, quaternion, matrix = glm.dvec3, glm.dquat, glm.dmat4

    def make_vector(*values):
        if len(values) == 1 and isinstance(values[0], list):
            values = values[0]  # PyGLM would round a list to single precision
        return vector(*values) if values else vector(0, 0, 0)

    def rotate(q, angle, axis):
        return q * quaternion(math.cos(angle / 2), *(math.sin(angle / 2) * a for a in axis))

    glm.vec3, glm.rotate = make_vector, rotate
    glm.quat = lambda *values: quaternion(*values) if values else quaternion(1, 0, 0, 0)
    glm.mat4 = lambda *values: matrix(*values) if values else matrix(1)
    import bvhio

    return bvhio


def compare_bvh(bvhio, path: Path) -> float:
    """Return the largest difference [file units] of joint positions between our reading and bvhio's."""
    import glm

    container = bvhio.readAsBvh(str(path))
    motion = read_motion(path, unit=1.0)
    frames = forward(motion.skeleton, motion.poses)
    count = min(len(motion), container.FrameCount)
    worst = 0.0
    for frame in range(0, count, max(1, count // BVH_FRAMES)):
        stack = [(container.Root, glm.dvec3(0, 0, 0), glm.dquat(1, 0, 0, 0))]
        while stack:
            joint, position, rotation = stack.pop()
            key = joint.Keyframes[frame]
            position, rotation = position + rotation * key.Position, rotation * key.Rotation
            worst = max(worst, float(np.abs(frames.position(joint.Name)[frame] - np.array(position)).max()))
            stack += [(child, position, rotation) for child in joint.Children]
    return worst


def compare_urdf(pin, path: Path, poses: int = 20) -> float:
    """Return the largest difference [m, and of rotation entries] of link frames between our reading and Pinocchio's."""
    model = pin.buildModelFromUrdf(str(path))
    data = model.createData()
    skeleton = read_skeleton(path)
    generator = np.random.default_rng(0)
    worst = 0.0
    for _ in range(poses):
        pose = generator.uniform(np.maximum(skeleton.lower, -3.0), np.minimum(skeleton.upper, 3.0))
        q = pin.neutral(model)
        for joint in range(1, model.njoints):
            where = skeleton.index(model.names[joint])
            values = pose[where]
            if model.nqs[joint] == 2:  # a continuous joint, as cosine and sine
                values = np.array([math.cos(values[0]), math.sin(values[0])])
            q[model.idx_qs[joint] : model.idx_qs[joint] + model.nqs[joint]] = values
        pin.framesForwardKinematics(model, data, q)
        frames = forward(skeleton, pose)
        for frame in model.frames:
            if frame.type == pin.FrameType.BODY and frame.name != "universe":
                place = data.oMf[model.getFrameId(frame.name)]
                worst = max(worst, float(np.abs(frames.matrix(frame.name) - place.homogeneous).max()))
    return worst


def compare_ezc3d(ezc3d, path: Path) -> float:
    """Return the largest difference [m] of marker positions between our reading and ezc3d's; gaps have to agree."""
    theirs = ezc3d.c3d(str(path))
    points = theirs["data"]["points"][:3].transpose(2, 1, 0) * 1e-3
    markers = read_markers(path)
    if not np.array_equal(np.isnan(points).any(axis=-1), ~markers.seen):
        return np.inf
    return float(np.nanmax(np.abs(points - markers.positions)))


def compare_c3d(c3d, path: Path) -> float:
    """Return the largest difference [m] of the positions that we and the package c3d both take for seen."""
    with path.open("rb") as file:
        points = np.array([frame[:, :4] for _, frame, _ in c3d.Reader(file).read_frames()])
    markers = read_markers(path)
    seen = (points[..., 3] >= 0) & markers.seen
    return float(np.abs(points[..., :3] * 1e-3 - markers.positions)[seen].max())


def speed_bvh(bvhio, path: Path, repeat: int) -> tuple[float, float, float]:
    """Return megabytes, our seconds and theirs for a BVH whose frames are repeated to make it long."""
    text = path.read_bytes()
    head, _, body = text.partition(b"Frame Time:")
    first = body.index(b"\n") + 1
    with tempfile.TemporaryDirectory() as folder:
        long = Path(folder) / "long.bvh"
        long.write_bytes(head + b"Frame Time:" + body[:first] + (body[first:].strip() + b"\n") * repeat)
        size = long.stat().st_size / 1e6
        ours = min(_timed(lambda: load(long)) for _ in range(3))
        theirs = math.nan
        if bvhio is not None:
            short = Path(folder) / "short.bvh"  # one turn is enough of it, and the rate is what is compared
            short.write_bytes(text)
            theirs = _timed(lambda: bvhio.readAsBvh(str(short))) * size / (short.stat().st_size / 1e6)
    return size, ours, theirs


def _timed(work) -> float:
    """Return the processor time: what the wall clock shows on a machine with nothing else to do."""
    start = time.process_time()
    work()
    return time.process_time() - start


def peer(name: str):
    """Return a module, or None with a line that says that it is missing."""
    try:
        return __import__(name)
    except ImportError:
        print(f"{name} is not installed: its comparison is left out")
        return None


SPEED_FILES = (("assimp_Boxing_Toes", 12), ("animdraw_rokoko_jesse_dance", 20), ("threejs_pirouette", 40))


def comparisons(data: Path, bvhio):
    """Yield (peer, file, largest difference, or why there is none) for every file that a peer claims to read."""
    pin, ezc3d, c3d = (peer(name) for name in ("pinocchio", "ezc3d", "c3d"))
    if bvhio is not None:
        bvhio = double_precision_bvhio()  # from here on: it is slower so
    marker_files = [
        p for folder in ("c3d", "cmu", "hdm05") for p in data.glob(f"{folder}/*") if p.suffix.lower() == ".c3d"
    ]
    table = (
        ("bvhio", bvhio, compare_bvh, [*data.glob("bvh/*.bvh"), *data.glob("cmu/*.bvh")]),
        ("pinocchio", pin, compare_urdf, [p for p in data.glob("urdf/*") if p.suffix.lower() == ".urdf"]),
        # ezc3d cannot read SGI
        ("ezc3d", ezc3d, compare_ezc3d, [p for p in marker_files if "sgi" not in p.name and "015s" not in p.name]),
        ("c3d", c3d, compare_c3d, marker_files),
    )
    for name, module, compare, paths in table:
        for path in sorted(paths) if module is not None else []:
            try:
                yield name, path.name, compare(module, path)
            except Exception as problem:
                yield name, path.name, f"does not read it: {str(problem).splitlines()[0][-70:]}"


def evidence(page) -> None:
    """Write the page of this subject: how fast files are read, and, where the peers are installed, agreement."""
    page.text(
        "Every recording and robot, read with `posable.load`. Positions of all joints or markers are compared with "
        "those of the independent readers that are installed (bvhio, Pinocchio, ezc3d, py-c3d)."
    )
    bvhio = peer("bvhio")
    rows = []
    for name, repeat in SPEED_FILES:
        size, ours, theirs = speed_bvh(bvhio, page.data / "bvh" / f"{name}.bvh", page.pick(repeat, 1))
        rows.append([f"{name}.bvh", size, size / ours, size / theirs if bvhio is not None else None])
    page.table("Reading BVH", ["file, repeated", "MB", "ours MB/s", "bvhio MB/s"], rows)
    rows = []
    for path in sorted(page.data.rglob("*")):
        if path.suffix.lower() in (".bvh", ".c3d", ".glb", ".gltf", ".urdf") and "bad" not in path.parts:
            seconds = _timed(lambda path=path: load(path))
            rows.append([path.relative_to(page.data).as_posix(), path.stat().st_size / 1e6, 1e3 * seconds])
    page.value("files", len(rows))
    page.table("Reading every file", ["file", "MB", "ms"], rows)
    rows = list(comparisons(page.data, bvhio))
    if rows:
        page.table("Largest difference from independent readers [file units]", ["reader", "file", "difference"], rows)
    else:
        page.text("No independent reader is installed here, so nothing is compared in this run.")


def main(data: Path) -> int:
    warnings.simplefilter("ignore")
    bvhio = peer("bvhio")
    for name, repeat in SPEED_FILES:
        size, ours, theirs = speed_bvh(bvhio, data / "bvh" / f"{name}.bvh", repeat)
        rates = f"ours {size / ours:5.1f} MB/s, bvhio {size / theirs:5.2f} MB/s, x{theirs / ours:.0f}"
        print(f"speed {name:32} {size:5.1f} MB, {rates}")
    for name, file, gap in comparisons(data, bvhio):
        print(f"{name:10} {file:40} {gap:.2e}" if isinstance(gap, float) else f"{name:10} {file:40} {gap}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("POSABLE_DATA", "../shared/data"))))
