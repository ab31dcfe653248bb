"""Fuzz the readers: python benchmarks/fuzz_formats.py bvh --runs 200000 --data ../shared/data

With atheris installed, libFuzzer drives (coverage-guided); without it, plain mutations of the seeds do. Either way a
reader may return or raise FormatError and nothing else, within a second of processor time and 1.5 GB of memory. Seeds
are the real files of --data, cut to --max-length, and small ones written here.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

atheris: Any = import_module("atheris") if find_spec("atheris") else None

if atheris is not None:
    with atheris.instrument_imports(include=["posable.formats", "posable.model.motion", "posable.model.skeleton"]):
        from posable import formats
        from posable.formats import amc, asf, bvh, c3d, csv, gltf, npz, trc, urdf  # noqa: F401
else:
    from posable import formats

from posable.errors import FormatError  # noqa: E402  (after the readers that are instrumented)
from posable.formats.base import FORMATS, Options  # noqa: E402
from posable.formats.source import Source  # noqa: E402

SECONDS = 1.0
FIXTURES = Path(__file__).resolve().parents[1] / "tests" / "fixtures"
WORDS = {
    "bvh": "HIERARCHY ROOT JOINT End Site OFFSET CHANNELS MOTION Frames: Frame Time: Xposition Yrotation { } 6 3 nan",
    "asf": ":units :root :bonedata :hierarchy begin end id name direction length axis XYZ dof rx l limits ( ) deg root",
    "amc": ":FULLY-SPECIFIED :DEGREES :RADIANS :SAMPLES-PER-SECOND root lfemur 1 2 1e-014 nan",
    "gltf": '"nodes" "children" "skins" "joints" "bufferView" "count" "byteOffset" "sparse" -1 99999999999 []',
    "srdf": "<robot <group <chain <joint <link <group_state <disable_collisions name= link1= link2= value= base_link=",
    "urdf": '<robot <link <joint <parent <child <axis <limit <mimic <origin name=" type=" xyz=" planar &amp; <!DOCTYPE',
    "trc": "PathFileType DataRate CameraRate NumFrames NumMarkers Units mm Frame# Time nan",
    "csv": "time , ; \" a.x a.y a.z nan root.tx",
    "npz": "PK \\x93NUMPY {'descr': '<f8', 'fortran_order': False, 'shape': ( poses.npy skeleton.npy object",
    "c3d": "POINT ANALOG TRIAL LABELS UNITS FRAMES SCALE RATE",
    "fbx": "Kaydara FBX Binary Objects Model Deformer AnimationCurve FBXHeaderExtension: FBXVersion: 7400 { } ;",
    "usd": "#usda 1.0 ( upAxis = ) def Skeleton SkelAnimation uniform token[] joints = [ ] matrix4d[] { } PXR-USDC",
    "mjcf": '<mujoco <worldbody <body <joint <geom <include file=" type=" range=" size=" hinge free <equality <connect',
    "keypoints": "\\x93NUMPY {'descr': '<f8', 'fortran_order': False, 'shape': (2, 17, 3), } |O",
}  # fmt: skip
TRC = b"""PathFileType\t4\t(X/Y/Z)\ta.trc
DataRate\tCameraRate\tNumFrames\tNumMarkers\tUnits\tOrigDataRate\tOrigDataStartFrame\tOrigNumFrames
100\t100\t2\t2\tmm\t100\t1\t2
Frame#\tTime\tA\t\t\tB\t\t
\t\tX1\tY1\tZ1\tX2\tY2\tZ2

1\t0.00\t1\t2\t3\t4\t5\t6
2\t0.01\t1\t2\t3\t\t\t
"""


SMALL = """HIERARCHY
ROOT a
{
OFFSET 0 0 0
CHANNELS 6 Xposition Yposition Zposition Zrotation Xrotation Yrotation
JOINT b
{
OFFSET 0 1 0
CHANNELS 1 Xrotation
End Site
{
OFFSET 0 1 0
}
}
}
MOTION
Frames: 2
Frame Time: 0.1
0 0 0 0 0 0 1
1 2 3 4 5 6 7
"""
MJCF = """<mujoco model="small">
  <default><joint damping="1" range="-1 1"/></default>
  <worldbody>
    <body name="a"><freejoint/><geom type="box" size=".1 .1 .1" mass="1"/>
      <body name="b" pos="0 0 .2"><joint name="b" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 .2" size=".05"/>
        <site name="tip" pos="0 0 .2"/>
        <body name="c" pos="0 0 .2"><joint name="c" type="slide" axis="0 0 1"/><geom size=".04"/></body>
      </body>
    </body>
  </worldbody>
  <equality><joint joint1="b" joint2="c" polycoef="0 1 0 0 0"/></equality>
  <contact><exclude body1="a" body2="c"/></contact>
  <keyframe><key name="home" qpos="0 0 0 1 0 0 0 .1 .1"/></keyframe>
</mujoco>
"""
FBX = """; FBX 7.4.0 project file
FBXHeaderExtension:  { FBXHeaderVersion: 1003 FBXVersion: 7400 }
GlobalSettings:  { Version: 1000
  Properties70:  { P: "UpAxis", "int", "Integer", "",1
    P: "UnitScaleFactor", "double", "Number", "",1 } }
Objects:  {
  Model: 1, "Model::a", "LimbNode" { Version: 232
    Properties70:  { P: "Lcl Translation", "Lcl Translation", "", "A",0,0,100 } }
  NodeAttribute: 101, "NodeAttribute::a", "LimbNode" { TypeFlags: "Skeleton" }
  Model: 2, "Model::b", "LimbNode" { Version: 232
    Properties70:  { P: "Lcl Translation", "Lcl Translation", "", "A",30,0,0 } }
  NodeAttribute: 102, "NodeAttribute::b", "LimbNode" { TypeFlags: "Skeleton" }
}
Connections:  {
  C: "OO",101,1
  C: "OO",102,2
  C: "OO",1,0
  C: "OO",2,1
}
"""
POINTS = "time,a.x,a.y,a.z\n0,1,2,3\n0.1,,,\n0.2,1,2,3\n"


def small_scene(folder: str):
    """Return a figure of two joints with two frames."""
    path = Path(folder) / "figure.bvh"
    path.write_text(SMALL)
    return formats.load(path)


def keypoints() -> list[bytes]:
    """Return two frames of 17 joints that wander, as NPY with and without confidences."""
    steps = np.random.default_rng(0).normal(size=(2, 17, 4))
    out = []
    for positions in (steps[..., :3], np.abs(steps)):
        file = io.BytesIO()
        np.save(file, positions)
        out.append(file.getvalue())
    return out


def amass() -> list[bytes]:
    """Return two frames of SMPL-H and of SMPL-X in the layouts of AMASS, as NPZ."""
    step = np.random.default_rng(0).normal(size=(2, 165))
    path = {"trans": step[:, :3], "mocap_framerate": np.float64(60.0), "betas": np.zeros(16), "gender": "neutral"}
    layouts = [{"poses": step[:, :156]}, {"root_orient": step[:, :3], "pose_body": step[:, 3:66]}]
    out = []
    for layout in layouts:
        file = io.BytesIO()
        np.savez(file, **layout, **path)
        out.append(file.getvalue())
    return out


def vrm() -> list[bytes]:
    """Return a figure with the humanoid bones of VRM 0 and of VRM 1, as glTF."""
    bones = ("hips", "leftUpperLeg", "leftLowerLeg", "leftFoot")
    nodes = [{"name": f"b{k}", "translation": [0, 0.5, 0], "children": [k + 1]} for k in range(3)] + [{"name": "b3"}]
    old = {"VRM": {"humanoid": {"humanBones": [{"bone": bone, "node": k} for k, bone in enumerate(bones)]}}}
    new = {"VRMC_vrm": {"humanoid": {"humanBones": {bone: {"node": k} for k, bone in enumerate(bones)}}}}
    base = {"asset": {"version": "2.0"}, "scene": 0, "scenes": [{"nodes": [0]}], "nodes": nodes}
    return [json.dumps({**base, "extensions": one}).encode() for one in (old, new)]


def seeds(name: str, data: Path | None, limit: int) -> list[bytes]:
    """Return the inputs to start from: real files, whole where they are small, and two frames of each written anew."""
    known = FORMATS.get(name)
    own = {
        "trc": [TRC],
        "csv": [POINTS.encode()],
        "mjcf": [MJCF.encode()],
        "fbx": [FBX.encode()],
        "keypoints": keypoints(),
        "npz": amass(),
        "gltf": vrm(),
    }
    found = list(own.get(name, []))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scenes = [] if name == "c3d" else [small_scene(folder)]
        folders = [folder for folder in (data, FIXTURES) if folder is not None]
        for path in [path for folder in folders for path in sorted(folder.rglob("*"))]:
            if path.suffix.lower() in known.suffixes and path.is_file():
                found.append(path.read_bytes()[:limit])
                if known.write is not None:
                    with suppress(FormatError):
                        scenes.append(formats.load(path))
        for scene in scenes if known.write is not None else []:
            changes = {"meshes": (), "motions": {}}
            if scene.motion is not None:
                changes["motion"] = replace(scene.motion, poses=scene.motion.poses[:2])
            if scene.markers is not None:
                changes["markers"] = replace(scene.markers, positions=scene.markers.positions[:2])
            for suffix in known.suffixes:
                path = Path(folder) / f"small{suffix}"
                with suppress(FormatError):  # a format for markers, robots or characters takes no plain motion
                    formats.save(path, scene.replace(**changes))
                    found.append(path.read_bytes())
    small = [seed for seed in found if 0 < len(seed) <= 2 * limit]
    small += own.get(name, []) * len(small)  # files that were cut are mostly refused at once
    return small or [seed for seed in found if seed]


def skeleton_for(name: str, data: Path | None):
    """Return the figure that motion without one is read with."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name == "csv":
            return small_scene(folder).skeleton
        if name == "amc" and data is not None:
            return formats.load(data / "cmu" / "02.asf").skeleton
        if name == "amc":
            formats.save(Path(folder) / "figure.asf", small_scene(folder))
            return formats.load(Path(folder) / "figure.asf").skeleton
    return None


class Target:
    """One reader, called with one input after another."""

    def __init__(self, name: str, data: Path | None):
        self.read = FORMATS.get(name).read
        self.options = Options(skeleton=skeleton_for(name, data))
        self.path = Path(tempfile.mkdtemp()) / f"input{FORMATS.get(name).suffixes[0]}"
        self.count = self.good = 0
        self.slowest = 0.0
        self.both = name == "csv"

    def __call__(self, data: bytes) -> None:
        start = time.process_time()
        options = Options() if self.both and self.count % 2 else self.options
        try:
            self.read(Source(self.path, bytes(data)), options)
            self.good += 1
        except FormatError as error:
            str(error)
        spent = time.process_time() - start
        self.count += 1
        self.slowest = max(self.slowest, spent)
        if spent > SECONDS:
            raise TimeoutError(f"{spent:.2f} s for {len(data)} bytes")


def mutate(generator: random.Random, inputs: list[bytes], words: list[bytes]) -> bytes:
    """Return one of the inputs with a few bytes, words or stretches changed."""
    data = bytearray(generator.choice(inputs))
    for _ in range(generator.choice((1, 1, 2, 4, 8, 16))):
        at = generator.randrange(len(data) + 1)
        kind = generator.randrange(8)
        if kind == 0 and data:
            data[at % len(data)] = generator.randrange(256)
        elif kind == 1:
            data[at:at] = generator.choice(words)
        elif kind == 2:
            del data[at : at + generator.choice((1, 2, 8, 64, 512))]
        elif kind == 3:
            data[at:at] = data[at : at + generator.choice((1, 8, 64, 256))]
        elif kind in (6, 7):  # another number: the file stays well-formed, and its contents are wrong
            digits = [k for k in range(at, min(at + 256, len(data))) if data[k] in b"0123456789"]
            if digits:
                data[generator.choice(digits)] = generator.choice(b"0123456789-.e")
        elif kind == 4:
            data[at : at + 4] = generator.choice((b"\xff" * 4, b"\0" * 4, b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f"))
        else:
            other = generator.choice(inputs)
            data[at:] = other[generator.randrange(len(other) + 1) :]
    return bytes(data)


def evidence(page) -> None:
    """Write the page of this subject: each reader in a process of its own, with plain mutations."""
    page.text(
        "Mutations of real files, complete or truncated: a few bytes, digits, words or ranges changed. A reader may "
        f"only return or raise `FormatError`, within {SECONDS:g} s of processor time and 1.5 GB of memory; anything "
        "else ends the run."
    )
    rows = []
    for name in FORMATS.names():
        words = [sys.executable, __file__, name, "--plain", "--runs", str(page.pick(10_000, 200))]
        words += ["--data", str(page.data)] if page.data else []
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{name}: {done.stdout[-300:]}{done.stderr[-2000:]}")
        numbers = re.findall(r"[0-9.]+", done.stdout.rpartition(f"{name}:")[2])
        rows.append([name, int(numbers[0]), int(numbers[1]), float(numbers[2]), float(numbers[3])])
        page.value(f"{name}_runs", int(numbers[0]))
    page.table(
        "Inputs without a fault",
        ["reader", "inputs", "read", "refused", "slowest [s]", "peak memory [MB]"],
        [[name, runs, good, runs - good, *rest] for name, runs, good, *rest in rows],
        note="*Read*: the mutated file is still readable, or was repaired with a warning; *refused*: a `FormatError` "
        "that names the location. The memory is that of the whole process, including NumPy and the original files. "
        "The mutations are the same in each run; with atheris installed, `python benchmarks/fuzz_formats.py FORMAT` "
        "lets libFuzzer search for others, guided by coverage.",
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("format", choices=FORMATS.names())
    parser.add_argument("--runs", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--max-length", type=int, default=6000)
    parser.add_argument("--plain", action="store_true", help="mutations without atheris")
    chosen = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    target = Target(chosen.format, chosen.data)
    inputs = seeds(chosen.format, chosen.data, chosen.max_length)
    words = [word.encode() for word in WORDS[chosen.format].split(" ") if word]
    if atheris is not None and not chosen.plain:
        return run_atheris(chosen, target, inputs, words)
    resource.setrlimit(resource.RLIMIT_AS, (1_500_000_000, 1_500_000_000))
    generator = random.Random(chosen.seed)
    for number in range(chosen.runs):
        data = mutate(generator, inputs, words)
        try:
            target(data)
        except Exception:
            Path(f"crash-{chosen.format}").write_bytes(data)
            print(f"{chosen.format}: run {number} failed; input saved in crash-{chosen.format}", flush=True)
            raise
    report(chosen.format, target)
    return 0


def report(name: str, target: Target) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{name}: {target.count} runs, {target.good} read, slowest {target.slowest:.3f} s, peak memory {peak:.0f} MB",
        flush=True,
    )


def run_atheris(chosen, target: Target, inputs: list[bytes], words: list[bytes]) -> int:
    folder = Path(tempfile.mkdtemp(prefix=f"fuzz-{chosen.format}-"))
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, data in enumerate(inputs):
        (corpus / f"seed{number}").write_bytes(data)
    lines = ['"' + "".join(f"\\x{byte:02x}" for byte in word) + '"' for word in words]
    (folder / "words.dict").write_text("\n".join(lines) + "\n")

    def once(data: bytes) -> None:
        target(data)
        if target.count >= chosen.runs:
            report(chosen.format, target)

    options = [
        f"-runs={chosen.runs}",
        f"-seed={chosen.seed}",
        f"-max_len={2 * chosen.max_length}",
        "-timeout=30",
        "-rss_limit_mb=1500",
    ]
    options += [f"-dict={folder / 'words.dict'}", f"-artifact_prefix={folder}/", "-verbosity=0", "-print_final_stats=0"]
    atheris.Setup([sys.argv[0], *options, str(corpus)], once)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
