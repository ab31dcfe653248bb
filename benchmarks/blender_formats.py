"""Written files in Blender: joint positions of what `save` wrote, as Blender's own importers see them.

    python benchmarks/blender_formats.py ../shared/data        needs Blender as a module (pip install bpy)

Runs in Blender's Python, which need not have Posable: the files are written, and what is expected of them is
computed, by a second Python with Posable, given with --python (by default the one of .venv). Blender's importers turn
y up into z up, which is undone before comparing. Prints the largest difference per file; 1e-4 m is allowed.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TOLERANCE = 1e-4
SOURCES = (
    "cmu/02_01.amc", "cmu/02_01.bvh", "bvh/animdraw_rokoko_jesse_dance.bvh",
    "bvh/pybvh_rotation_first_root.bvh", "bvh/pybvh_bvh_test1.bvh",
    "gltf/khronos_CesiumMan.glb", "gltf/khronos_Fox.glb", "urdf/erd_panda.urdf", "urdf/erd_talos_reduced.urdf",
)  # fmt: skip
FRAMES = 12

WRITER = """
import json, sys, warnings
from pathlib import Path
import numpy as np
warnings.simplefilter("ignore")
from posable.formats import load, save
from posable.model.kinematics import forward
from posable.model.motion import Motion
folder, frames, *sources = sys.argv[1:]
table = {}
skins = {}

def skinned(meshes, frames, t):
    out = []
    for mesh in meshes:
        if not mesh.joints or mesh.weights is None:
            continue
        places = np.tile(np.eye(4), (len(mesh.joints), 1, 1))
        for k, name in enumerate(mesh.joints):
            places[k, :3, :3], places[k, :3, 3] = frames.rotation_matrix(name)[t], frames.position(name)[t]
        corners = np.c_[mesh.vertices, np.ones(len(mesh.vertices))]
        out.append(np.einsum("vk,vkij,vj->vi", mesh.weights, (places @ mesh.inverse_bind)[mesh.bones], corners)[:, :3])
    return np.concatenate(out).tolist() if out else []

for source in sources:
    scene = load(source, up="y")
    skeleton = scene.skeleton
    poses = scene.motion.poses[: int(frames)] if scene.motion is not None else None
    if poses is None:  # a robot: a motion from its rest through its range
        generator = np.random.default_rng(0)
        low, high = np.maximum(skeleton.lower, -1.0), np.minimum(skeleton.upper, 1.0)
        share = np.linspace(0, 1, int(frames))[:, None]
        poses = np.clip(skeleton.rest + share * generator.uniform(low, high), low, high)
    motion = Motion(skeleton, poses, 24.0, "take")
    world = forward(skeleton, poses)
    expected = {name: world.position(name).tolist() for name in skeleton.names}
    skin = {t: skinned(scene.meshes, world, t) for t in (0, int(frames) - 1)}
    for suffix in (".bvh", ".glb", ".usdc"):
        path = Path(folder) / (Path(source).name.replace(".", "_") + suffix)
        save(path, scene.replace(motion=motion, motions={"take": motion}) if skin[0] else motion)
        table[str(path)] = {"joints": expected, "skin": skin if suffix != ".bvh" else {}}
(Path(folder) / "expected.json").write_text(json.dumps(table))
"""


def open_in_blender(bpy, path: Path):
    """Import a file into an empty scene and return the armature."""
    bpy.ops.wm.read_factory_settings(use_empty=True)
    bpy.context.scene.render.fps = 24
    if path.suffix == ".bvh":
        bpy.ops.import_anim.bvh(
            filepath=str(path), global_scale=0.01, frame_start=1, use_fps_scale=False, rotate_mode="NATIVE"
        )
    elif path.suffix == ".usdc":
        bpy.ops.wm.usd_import(filepath=str(path))
    else:
        bpy.ops.import_scene.gltf(filepath=str(path))
    return next(thing for thing in bpy.data.objects if thing.type == "ARMATURE")


def positions(bpy, armature, frame: int) -> dict[str, tuple[float, float, float]]:
    """Return where every bone's head is in a frame, and every other object, turned back to y up."""
    bpy.context.scene.frame_set(frame)
    bpy.context.view_layer.update()
    found = {}
    for bone in armature.pose.bones:
        found[bone.name] = armature.matrix_world @ bone.head
    for thing in bpy.data.objects:
        found.setdefault(thing.name, thing.matrix_world.translation)
    return {name: (p[0], p[2], -p[1]) for name, p in found.items()}


def skin_gap(bpy, frame: int, expected: list[list[float]]) -> float:
    """Return how far the vertices of a deformed skin are from the nearest of Blender's [m], the largest."""
    from mathutils import kdtree

    bpy.context.scene.frame_set(frame)
    bpy.context.view_layer.update()
    graph = bpy.context.evaluated_depsgraph_get()
    places = []
    for thing in bpy.data.objects:
        if thing.type == "MESH" and thing.find_armature() is not None:
            seen = thing.evaluated_get(graph)
            places += [thing.matrix_world @ vertex.co for vertex in seen.to_mesh().vertices]
    tree = kdtree.KDTree(len(places))
    for k, p in enumerate(places):
        tree.insert((p[0], p[2], -p[1]), k)
    tree.balance()
    return max((tree.find(p)[2] for p in expected), default=0.0) if places else math.inf


def evidence(page) -> None:
    """Write the page of this subject; Blender is the one among the peers."""
    page.text(
        f"Files written by `save`, opened with Blender's importers: joint positions over {FRAMES} frames compared "
        f"with forward kinematics. A difference over {TOLERANCE:g} m or a missing joint ends the run."
    )
    from benchmarks.peers.environments import ready

    words = [str(ready("bpy")), __file__, str(page.data), f"--python={sys.executable}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    found = re.findall(r"^(\S+) +(\d+) of +(\d+) joints.*: (\S+) m(?:; skin (\S+) m)?$", done.stdout, re.MULTILINE)
    if done.returncode or not found:
        raise RuntimeError(done.stdout[-1000:] + done.stderr[-2000:])
    page.value("worst_m", max(float(row[3]) for row in found))
    page.value("worst_skin_m", max(float(row[4]) for row in found if row[4]))
    page.table(
        f"As seen by {done.stdout.splitlines()[0]}",
        ["file", "joints found", "of", "largest difference [m]", "of the skin [m]"],
        [
            [name, int(seen), int(total), float(gap), float(skin) if skin else None]
            for name, seen, total, gap, skin in found
        ],
        note="A file is named after its source: `02_01_amc.bvh` is CMU 02_01.amc, written as BVH. Robots perform a "
        "synthetic motion over their range. Blender computes in single precision, which explains the remaining "
        "differences.",
    )


def main(data: Path, python: str) -> int:
    import bpy

    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        sources = [str(data / source) for source in SOURCES]
        subprocess.run([python, "-c", WRITER, folder, str(FRAMES), *sources], check=True)
        table = json.loads((Path(folder) / "expected.json").read_text())
        print(f"Blender {'.'.join(map(str, bpy.app.version))}")
        for name, expected in table.items():
            path = Path(name)
            expected, skin = expected["joints"], expected["skin"]
            armature = open_in_blender(bpy, path)
            first = 1 if path.suffix == ".bvh" else 0
            largest, seen = 0.0, set()
            for frame in range(FRAMES):
                found = positions(bpy, armature, first + frame)
                for joint, track in expected.items():
                    if joint in found and frame < len(track):
                        seen.add(joint)
                        largest = max(largest, *(abs(a - b) for a, b in zip(found[joint], track[frame], strict=True)))
            gaps = [skin_gap(bpy, first + int(frame), places) for frame, places in skin.items() if places]
            words = f"; skin {max(gaps):.1e} m" if gaps else ""
            print(f"{path.name:45} {len(seen):3} of {len(expected):3} joints, {FRAMES} frames: {largest:.1e} m{words}")
            worst = max(worst, *gaps, 0.0)
            if len(seen) < len(expected):
                print(f"not in Blender: {', '.join(sorted(set(expected) - seen))}")
                worst = math.inf
            worst = max(worst, largest)
    print("within" if worst <= TOLERANCE else "NOT within", f"{TOLERANCE} m")
    return 0 if worst <= TOLERANCE else 1


if __name__ == "__main__":
    arguments = [word for word in sys.argv[1:] if not word.startswith("--python=")]
    given = [word.partition("=")[2] for word in sys.argv[1:] if word.startswith("--python=")]
    here = Path(__file__).resolve().parents[1]
    sys.exit(
        main(
            Path(arguments[0] if arguments else "../shared/data").resolve(),
            given[0] if given else str(here / ".venv/bin/python"),
        )
    )
