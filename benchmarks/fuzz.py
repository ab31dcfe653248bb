"""Fuzzing: python -m benchmarks.fuzz --seconds 600 [--only readers,problems] [--seed 7]

- readers: every format, SRDF, calibration files of cameras, OBJ and the goal files, by mutation of real and generated
  files; zip and JSON are repacked so that the container stays valid;
- problems: every solver with every goal, numbers from 0 to 1e30, NaN and infinity, odd options;
- studio: random bytes, and random and mutated messages and requests to a running page;
- many: batches whose workers, or the whole batch, are killed at random times, then resumed.

Each target runs in its own process with a memory limit. A fault is an exception that is not Posable's own, a crash, an
input that takes over 5 s of processor time, memory over 1 GB, a pose that is not finite or outside its limits, a
success that forward kinematics does not confirm, or a partial result. Faults are written to build/fuzz.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "build" / "fuzz"
SLOWEST = 5.0  # [s] of processor time for one input
PATIENCE = 600.0  # [s] for starting and compiling, before a process counts as hanging
MEMORY = 1e9  # [bytes] that a small file may take
TARGETS = ("readers", "problems", "studio", "many")
LIMITS = (1e30, -1e30, 1e-300, 0.0, -0.0, float("nan"), float("inf"), 1e6, -1.0, 2**53 + 1.0)


class Tally:
    """What a target has done: inputs, answers by kind, the slowest input, faults."""

    def __init__(self, name: str):
        self.name = name
        self.counts: Counter[str] = Counter()
        self.slowest = 0.0
        self.spent = 0.0  # [s] of processor time
        self.faults: list[str] = []

    def fault(self, text: str, data: bytes = b"") -> None:
        """Keep a fault, and the input that shows it."""
        OUT.mkdir(parents=True, exist_ok=True)
        place = OUT / f"{self.name.replace(' ', '-')}-{len(self.faults)}"
        if data:
            place.with_suffix(".input").write_bytes(data)
        place.with_suffix(".txt").write_text(text, encoding="utf-8")
        self.faults.append(text.strip().splitlines()[-1][:300])

    def timed(self, call: Callable[[], Any], data: bytes = b"") -> Any:
        """Call; whatever it raises that is not Posable's own is a fault. Calls that compile are not timed."""
        from posable.engine.jit import solving_time
        from posable.errors import PosableError

        begin, prepared = time.process_time(), time.perf_counter() - solving_time()
        self.counts["inputs"] += 1
        try:
            answer = call()
            self.counts["answered"] += 1
            return answer
        except PosableError as error:
            str(error)
            self.counts["refused"] += 1
        except Exception:
            self.fault(traceback.format_exc(), data)
        finally:
            compiled = time.perf_counter() - solving_time() - prepared > 0.1
            spent = time.process_time() - begin
            self.spent += spent
            spent = 0.0 if compiled else spent
            self.slowest = max(self.slowest, spent)
            if spent > SLOWEST:
                self.fault(f"{spent:.1f} s of processor time for {len(data)} bytes", data)
        return None

    def summary(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "target": self.name, **self.counts, "slowest": round(self.slowest, 3), "memory": round(peak_memory() / 1e6),
            "seconds": round(self.spent), "faults": self.faults,
        }  # fmt: skip


def peak_memory() -> float:
    """Return the most memory [bytes] that this process has had; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:
        return 0.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1.0 if sys.platform == "darwin" else 1024.0)


def bound_memory(most: float) -> None:
    """Let this process have so many bytes more than it has now; only Linux keeps it."""
    try:
        import resource
    except ImportError:
        return
    limit = int(peak_memory() + most)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


# --- Files ---


def fuzz_reader(name: str, seconds: float, seed: int) -> Tally:
    """Give one reader, or the goal files ("goals"), mutated files for so long."""
    from benchmarks import fuzz_formats
    from benchmarks.subject import data_folder

    tally, rng = Tally(f"reader {name}"), random.Random(seed)
    folder = Path(tempfile.mkdtemp())
    if name == "goals":
        return fuzz_goal_files(tally, folder, rng, seconds)
    if name in others(folder):
        return fuzz_other(name, tally, folder, rng, seconds)
    data = data_folder()
    target = fuzz_formats.Target(name, data)
    inputs = fuzz_formats.seeds(name, data, 6000) or [fuzz_formats.WORDS[name].encode()]
    words = [word.encode() for word in fuzz_formats.WORDS[name].split(" ") if word]
    from posable.formats.source import Source

    suffix = target.path.suffix
    bound_memory(MEMORY)
    end, last = time.monotonic() + seconds, folder / f"last{suffix}"
    library = name in ("mjcf", "usd", "fbx")  # it reads the file itself, and may crash
    while time.monotonic() < end:
        raw = repacked(rng, inputs, words) if name in ("npz", "gltf") and rng.random() < 0.7 else b""
        raw = raw or fuzz_formats.mutate(rng, inputs, words)
        if library:
            last.write_bytes(raw)
        tally.timed(lambda raw=raw: target.read(Source(last, raw), target.options), raw)
    return tally


def repacked(rng: random.Random, inputs: list[bytes], words: list[bytes]) -> bytes:
    """Return a file whose container is whole and whose content is not: zip members or JSON values changed."""
    raw = rng.choice(inputs)
    if raw[:2] == b"PK":
        from benchmarks.fuzz_formats import mutate

        out = io.BytesIO()
        try:
            with zipfile.ZipFile(io.BytesIO(raw)) as old, zipfile.ZipFile(out, "w", rng.choice((0, 8))) as new:
                for member in old.namelist():
                    content = old.read(member)
                    new.writestr(member, mutate(rng, [content], words) if rng.random() < 0.4 else content)
        except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError, RuntimeError):
            return b""
        return out.getvalue()
    text = raw[20 : 20 + int.from_bytes(raw[12:16], "little")] if raw[:4] == b"glTF" else raw
    try:
        tree = json.loads(text)
    except ValueError:
        return b""
    for _ in range(rng.choice((1, 1, 2, 4))):
        _change_json(rng, tree)
    if raw[:4] != b"glTF":
        return json.dumps(tree).encode()
    body = json.dumps(tree).encode()
    body += b" " * (-len(body) % 4)
    rest = raw[20 + len(text) :]
    head = b"glTF" + (2).to_bytes(4, "little") + (20 + len(body) + len(rest)).to_bytes(4, "little")
    return head + len(body).to_bytes(4, "little") + b"JSON" + body + rest


def _change_json(rng: random.Random, tree: Any) -> None:
    """Change one value somewhere in a JSON tree."""
    odd = [None, True, -1, 0, 1, 2**31, 2**53, 10**400, 1e300, -1e-300, "", "x", [], {}, [[]], [1e99] * 3, [0, 0, 0, 0]]
    node = tree
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = rng.choice(keys)
        if isinstance(node[key], dict | list) and node[key] and rng.random() < 0.8:
            node = node[key]
            continue
        if isinstance(node, list) and rng.random() < 0.2:
            node.extend([node[key]] * rng.choice((1, 10, 1000)))
        elif rng.random() < 0.15:
            del node[key]
        else:
            node[key] = rng.choice(odd)
        return


SRDF = b"""<robot name="hinges">
  <group name="all"><joint name="j1"/><link name="b"/><chain base_link="a" tip_link="c"/></group>
  <group name="more"><group name="all"/></group>
  <group_state name="bent" group="all"><joint name="j1" value="0.3"/><joint name="j2" value="0.1"/></group_state>
  <disable_collisions link1="a" link2="b" reason="Adjacent"/>
</robot>
"""
HINGES = """<robot name="hinges"><link name="a"/><link name="b"/><link name="c"/>
<joint name="j1" type="revolute"><parent link="a"/><child link="b"/><limit lower="-1" upper="1"/></joint>
<joint name="j2" type="continuous"><parent link="b"/><child link="c"/><axis xyz="0 1 0"/></joint></robot>
"""


CAMERA = b"""[cam_0]
name = "left"
size = [640, 480]
matrix = [[600.0, 0.0, 320.0], [0.0, 600.0, 240.0], [0.0, 0.0, 1.0]]
distortions = [0.1, -0.05, 0.0, 0.0]
rotation = [0.1, 0.2, 0.3]
translation = [0.0, 0.5, 3.0]
"""
TETRAHEDRON = b"v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 2/1/1 3/2/1 4/3/1\nf -4 -1 -2\n"


def others(folder: Path) -> dict[str, tuple[Path, bytes, str, Callable[[], Any]]]:
    """Return files that belong to something else, by name: the path, a seed, words, and what reads the path."""
    import posable as ps
    from benchmarks.fuzz_formats import WORDS
    from posable.mocap.supports import read_solids

    robot, cameras, mesh = folder / "robot.urdf", folder / "cameras.toml", folder / "object.obj"
    robot.write_text(HINGES)
    numbers = 'nan inf 1e300 -1 0 [] {} [[1,2],[3]] true "x" 1979-05-27 ' + "9" * 400
    return {
        "srdf": (robot.with_suffix(".srdf"), SRDF, WORDS["srdf"], lambda: ps.load(robot)),
        "cameras": (
            cameras,
            CAMERA,
            f"[cam_1] matrix = rotation = fisheye = {numbers}",
            lambda: ps.load_cameras(cameras),
        ),
        "objects": (mesh, TETRAHEDRON, f"v f v\t1 f\t1 2 {numbers}", lambda: read_solids(mesh)),
    }


def fuzz_other(name: str, tally: Tally, folder: Path, rng: random.Random, seconds: float) -> Tally:
    """Give the reader of one of `others` mutated files."""
    from benchmarks.fuzz_formats import mutate

    path, seed, text, read = others(folder)[name]
    words = [word.encode() for word in text.split(" ")]
    bound_memory(MEMORY)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        raw = mutate(rng, [seed], words)
        path.write_bytes(raw)
        tally.timed(read, raw)
    return tally


def fuzz_goal_files(tally: Tally, folder: Path, rng: random.Random, seconds: float) -> Tally:
    """Give the reader of goal files mutated ones, and pose what it reads to a figure."""
    import posable as ps
    from benchmarks.fuzz_formats import mutate

    human, path = ps.figures.human(), folder / "goals.toml"
    ps.goals.save(path, every_goal(human, np.random.default_rng(0)))
    text = path.read_text(encoding="utf-8")
    inputs = ["\n\n".join(rng.sample(text.split("\n\n"), 4)).encode() for _ in range(50)]
    words = [
        b"nan",
        b"inf",
        b"[]",
        b"{}",
        b"[[goal]]",
        b"true",
        b"kind = ",
        b'"hand.R"',
        b"9" * 400,
        b"1979-05-27",
        b"[[1,2],[3]]",
    ]
    bound_memory(MEMORY)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        raw = mutate(rng, inputs, words)
        path.write_bytes(raw)
        tally.timed(lambda: ps.Problem(human, ps.goals.load(path)), raw)
    return tally


# --- Problems ---


def number(rng: np.random.Generator) -> float:
    """Return a number: mostly plain, sometimes from the ends of what a float holds."""
    if rng.random() < 0.85:
        return float(rng.normal())
    if rng.random() < 0.5:
        return float(rng.choice(LIMITS))
    return float(rng.choice((-1, 1)) * 10.0 ** rng.uniform(-30, 30))


def every_goal(skeleton: Any, rng: np.random.Generator) -> list[Any]:
    """Return a goal of each kind on random bodies, with plain numbers."""
    import posable as ps

    g, bodies = ps.goals, [*skeleton.names, *skeleton.site_names]
    a, b = (str(rng.choice(bodies)) for _ in range(2))
    place = rng.normal(size=3)
    goals = [
        g.Position(a, place), g.Orientation(a, np.eye(3)), g.Pose(a, np.eye(4)), g.Aim(a, axis="z", at=place),
        g.Direction(a, axis="x", along=(0, 0, 1)), g.Plane(a, place, (0, 1, 0)), g.Line(a, place, (0, 1, 0)),
        g.HalfSpace(a, place, (0, 1, 0)), g.Posture(), g.Avoid(a, g.Sphere(place, 0.1)),
        g.AnyOf([g.Position(a, place), g.Position(a, -place)]),
    ]  # fmt: skip
    if a != b:
        goals += [g.Distance(a, b, 0.3), g.Relative(a, b, np.eye(4))]
    dofs = skeleton.dof_names
    if len(dofs) > 1:
        goals.append(g.Coupling(dofs[0], dofs[1]))
    if any(joint.mass for joint in skeleton.joints):
        goals += [g.CenterOfMass(place), g.Natural()] if skeleton.name == "human" else [g.CenterOfMass(place)]
    return goals


def hostile_goal(skeleton: Any, rng: np.random.Generator) -> Any:
    """Return one goal with hostile numbers in its place, weight, tolerance or options; may raise."""
    import posable as ps

    g, bodies = ps.goals, [*skeleton.names, *skeleton.site_names]
    body = str(rng.choice(bodies))
    vector = [number(rng) for _ in range(3)]
    options: dict[str, Any] = {}
    for key, share in (("weight", 0.3), ("tolerance", 0.2), ("robust", 0.15)):
        if rng.random() < share:
            options[key] = abs(number(rng)) if rng.random() < 0.8 else number(rng)
    if rng.random() < 0.1:
        options["priority"] = int(rng.integers(-2, 3))
    kind = rng.integers(9)
    if kind == 0:
        return g.Orientation(body, np.array([[number(rng) for _ in range(3)] for _ in range(3)]), **options)
    if kind == 1:
        return g.Aim(body, axis=vector, at=[number(rng) for _ in range(3)], **options)
    if kind == 2:
        return g.Direction(body, axis="x", along=vector, **options)
    if kind == 3:
        return g.Plane(body, vector, [number(rng) for _ in range(3)], **options)
    if kind == 4:
        return g.Distance(body, str(rng.choice(bodies)), number(rng), **options)
    if kind == 5:
        return g.Avoid(body, g.Sphere(vector, abs(number(rng))), **options)
    if kind == 6:
        return every_goal(skeleton, rng)[rng.integers(11)]
    batch = () if rng.random() < 0.7 else (int(rng.integers(0, 4)),)
    return g.Position(body, np.broadcast_to(vector, (*batch, 3)).copy(), **options)


def fuzz_problems(seconds: float, seed: int) -> list[Tally]:
    """Pose hostile problems to every solver for so long."""
    import posable as ps
    from benchmarks.hostile import figures

    rng = np.random.default_rng(seed)
    skeletons = [*figures(), ps.figures.human(), ps.figures.panda(), ps.figures.spider()]
    names = ps.solvers.names()
    tallies = {name: Tally(f"solver {name}") for name in names}
    for solver in names:  # what is compiled now is not timed below
        for skeleton in (ps.figures.limb(), ps.figures.panda()):
            with suppress(ps.PosableError):
                ps.solve(skeleton, ps.goals.Position("hand", (0.3, 0.1, 0.2)), solver=solver, max_iterations=3)
    bound_memory(2 * MEMORY)
    end, turn = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        solver = names[turn % len(names)]
        turn += 1
        skeleton = skeletons[rng.integers(len(skeletons))]
        tally = tallies[solver]
        said = tally.timed(lambda s=skeleton, name=solver: hostile_solve(s, name, rng))
        for text in said or ():
            tally.fault(text)
    return list(tallies.values())


def hostile_solve(skeleton: Any, solver: str, rng: np.random.Generator) -> list[str]:
    """Solve one hostile problem; return what is wrong with the answer. May raise."""
    import posable as ps

    goals = [hostile_goal(skeleton, rng) for _ in range(rng.choice((1, 1, 2, 3)))]
    n = skeleton.size
    start = None
    if rng.random() < 0.5 and n:
        start = np.array([number(rng) for _ in range(n)])
    limits = bool(rng.random() < 0.8)
    result = ps.solve(
        skeleton, goals, solver=solver, start=start, limits=limits, max_iterations=int(rng.choice((0, 1, 5, 40))),
        restarts=int(rng.choice((0, 0, 2))), seed=int(rng.integers(-5, 5)), time_limit=2.0,
        threads=int(rng.choice((1, 2))),
    )  # fmt: skip
    str(result)
    poses = np.atleast_2d(result.pose)
    out = []
    if not np.isfinite(poses).all():
        out.append(f"{solver} {skeleton.name} {goals}: a pose that is not finite")
    slack = 1e-9 * (1.0 + np.abs(poses))
    if limits and not ((poses >= skeleton.lower - slack) & (poses <= skeleton.upper + slack)).all():
        out.append(f"{solver} {skeleton.name} {goals}: a limit is broken")
    if poses.size and np.isfinite(poses).all():
        frames = ps.forward(skeleton, poses)
        for goal in goals:
            if type(goal) is ps.goals.Position and np.isscalar(goal.weight) is False and np.asarray(goal.weight).any():
                gap = np.linalg.norm(frames.position(goal.body) - goal.target, axis=-1)
                rounding = 1e-9 * (1.0 + np.abs(goal.target).max(initial=0.0) + np.abs(poses).max(initial=0.0))
                full = np.asarray(goal.weight).ravel()[:3].all()
                if full and (np.atleast_1d(result.ok) & (gap > goal.tolerance + rounding)).any():
                    out.append(f"{solver} {skeleton.name} {goals}: a false success, {gap.max():g}")
    return out


# --- The studio ---


def fuzz_studio(seconds: float, seed: int) -> Tally:
    """Send a running studio random bytes, messages and requests; it has to stay up and say nothing on stderr."""
    import asyncio

    tally, rng = Tally("studio"), random.Random(seed)
    with tempfile.TemporaryDirectory() as state, open(Path(state) / "said", "w+") as said:  # a pipe would fill up
        port = str(20000 + rng.randrange(20000))
        words = ["studio", "human", "--no-browser", "--port", port, "--json", "--fresh"]
        studio = subprocess.Popen(
            [sys.executable, "-m", "posable", *words], stdout=subprocess.PIPE, stderr=said, text=True,
            env={**os.environ, "POSABLE_STATE": state},
        )  # fmt: skip
        try:
            assert studio.stdout is not None
            url = json.loads(studio.stdout.readline())["url"]
            asyncio.run(_pester(tally, rng, url, seconds, studio))
        finally:
            studio.terminate()
            studio.communicate(timeout=30)
        tally.spent = sum(os.times()[:4])  # with the children that have ended
        said.seek(0)
        text = said.read()
    if "Traceback" in text:
        tally.fault("the studio printed:\n" + text[-3000:])
    return tally


async def _pester(tally: Tally, rng: random.Random, url: str, seconds: float, studio: subprocess.Popen) -> None:
    import asyncio
    import urllib.request

    from websockets.asyncio.client import connect
    from websockets.exceptions import WebSocketException

    address = url.replace("http://", "ws://")
    end, before = time.monotonic() + seconds, processor_time(studio.pid)
    while time.monotonic() < end and studio.poll() is None:
        try:
            async with connect(address, subprotocols=_protocols(), max_size=None, open_timeout=10) as socket:  # type: ignore[arg-type]  # plain strings
                for _ in range(rng.choice((1, 5, 50))):
                    await socket.send(_message(rng))
                    tally.counts["inputs"] += 1
                    if rng.random() < 0.3:
                        await asyncio.wait_for(socket.recv(), 2.0)
        except (WebSocketException, OSError, TimeoutError, EOFError):
            tally.counts["refused"] += 1
        try:
            await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=PATIENCE).read(100))
            tally.counts["answered"] += 1
        except OSError as error:
            tally.fault(f"the page is not served any more: {error}")
            return
        spent, before = processor_time(studio.pid) - before, processor_time(studio.pid)
        tally.slowest = max(tally.slowest, spent)
        if spent > SLOWEST:
            tally.fault(f"{spent:.1f} s of processor time for the last messages")
    if studio.poll() is not None:
        tally.fault(f"the studio has ended with exit code {studio.returncode}")


def processor_time(pid: int) -> float:
    """Return the processor time [s] that a process has taken; only on Linux, elsewhere 0."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _protocols() -> list[str]:
    import viser

    return [f"viser-v{viser.__version__}"]


def _message(rng: random.Random) -> bytes | str:
    """Return a message as a page sends it, with wrong contents, or random bytes."""
    import msgspec

    if rng.random() < 0.2:
        return rng.randbytes(rng.choice((0, 1, 100, 100_000)))
    if rng.random() < 0.1:
        return "x" * rng.choice((1, 100_000))
    odd = [None, 0, -1, 2**40, 1e308, "", "x" * 1000, [], {}, [0.0] * 3, [1e30] * 4, True, b"\0" * 16, {"a": [1]}]
    kinds = ["ViewerCameraMessage", "TransformControlsUpdateMessage", "GuiUpdateMessage", "ScenePointerMessage",
             "FileTransferStart", "FileTransferPart", "GuiCloseModalMessage", "Nothing"]  # fmt: skip
    fields = ["name", "uuid", "updates", "wxyz", "position", "fov", "near", "far", "look_at", "up_direction",
              "event_type", "ray_origin", "ray_direction", "part", "content", "source_component_uuid",
              "transfer_uuid", "filename",
              "mime_type", "part_count", "size_bytes", "payload"]  # fmt: skip
    message: dict[str, Any] = {"type": rng.choice(kinds)}
    for field in rng.sample(fields, rng.randrange(10)):
        message[field] = rng.choice(odd)
    try:
        return msgspec.msgpack.encode(message if rng.random() < 0.9 else [message])
    except (TypeError, OverflowError):
        return b""


# --- Many files ---


def fuzz_many(seconds: float, seed: int) -> Tally:
    """Kill a batch at random times, carry it on, and compare its results with those of a batch nobody disturbed."""
    import signal

    import posable as ps

    tally, rng = Tally("many"), random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        arm = ps.figures.panda()
        for k in range(12):
            poses = np.clip(
                arm.rest + 0.3 * np.sin(np.arange(200)[:, None] / 9 + np.arange(arm.size) + k), arm.lower, arm.upper
            )
            ps.save(folder / f"clip{k:02d}.npz", ps.Motion(arm, poses, 60.0))
        call = [sys.executable, "-m", "posable", "smooth", f"{folder}/*.npz", "--format", "npz", "--workers", "2", "-o"]
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        whole, out = folder / "whole", folder / "out"
        begin = time.monotonic()
        subprocess.run([*call, str(whole)], check=False, **quiet)
        usual = time.monotonic() - begin
        expected = {path.name: path.read_bytes() for path in whole.glob("*.npz")}
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            tally.counts["inputs"] += 1
            going = subprocess.Popen([*call, str(out)], start_new_session=True, **quiet)
            time.sleep(rng.uniform(0.2, 1.2 * usual))
            _kill_some(rng, going, signal.SIGKILL)
            going.wait()
            for path in out.glob("*.npz"):  # whatever has a final name is whole
                if path.read_bytes() != expected[path.name]:
                    tally.fault(f"{path.name} is partial or different after a kill")
            if rng.random() < 0.4 or time.monotonic() > end:
                done = subprocess.run([*call, str(out)], check=False, **quiet)
                found = {path.name: path.read_bytes() for path in out.glob("*.npz")}
                left = [path.name for path in out.glob(".part-*")]
                if done.returncode not in (0, 1) or found != expected or left:
                    tally.fault(
                        f"carried on: exit code {done.returncode}, {len(found)} of {len(expected)}, left {left}"
                    )
                tally.counts["answered"] += 1
                subprocess.run([sys.executable, "-c", f"import shutil; shutil.rmtree({str(out)!r}, True)"], check=False)
    tally.spent = sum(os.times()[:4])  # with the children that have ended
    return tally


def _kill_some(rng: random.Random, going: subprocess.Popen, kill: int) -> None:
    """Kill one worker, the call itself, or all of its processes."""
    way = rng.randrange(3)
    try:
        if way == 0:
            os.killpg(going.pid, kill)
        elif way == 1:
            going.kill()
            time.sleep(0.05)
            os.killpg(going.pid, kill)  # its workers end by themselves; the next call must not meet them
        else:
            listed = subprocess.run(
                ["ps", "-o", "pid=", "--ppid", str(going.pid)], capture_output=True, text=True, check=False
            )
            children = [int(word) for word in listed.stdout.split()]
            if children:
                os.kill(rng.choice(children), kill)
            going.wait(120)
    except (ProcessLookupError, PermissionError, subprocess.TimeoutExpired, FileNotFoundError):
        return


# --- All of them ---


def jobs(target: str) -> list[str]:
    """Return the processes of a target; they share its time."""
    from posable.formats.base import FORMATS

    if target != "readers":
        return [target]
    readable = [name for name, known in FORMATS.available() if known.read is not None]
    return [f"reader:{name}" for name in (*readable, *others(Path(tempfile.mkdtemp())), "goals")]


def run_job(job: str, seconds: float, seed: int) -> list[dict[str, Any]]:
    """Run one target in a process of its own; a crash or a hang of it is a fault."""
    command = [sys.executable, "-m", "benchmarks.fuzz", "--job", job, "--seconds", str(seconds), "--seed", str(seed)]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=2 * seconds + PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return [{"target": job, "inputs": 0, "faults": ["hangs"]}]
    if done.returncode:
        last = (done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"])[-1]
        return [{"target": job, "inputs": 0, "faults": [f"ended with exit code {done.returncode}: {last}"]}]
    return json.loads(done.stdout.splitlines()[-1])


def run_target(target: str, seconds: float, seed: int) -> list[dict[str, Any]]:
    """Run the processes of one target, one after another, `seconds` in all; return a row for each."""
    rows = []
    chosen = jobs(target)
    for job in chosen:
        for row in run_job(job, seconds / len(chosen), seed):
            rows.append(row)
            said = f"{row.get('inputs', 0)} inputs in {row.get('seconds', 0)} s, slowest {row.get('slowest', 0)} s"
            said += f", {row.get('memory', 0)} MB"
            lines = [f"{row['target']}: {said}, {len(row['faults'])} faults", *(f"  {t}" for t in row["faults"][:5])]
            print("\n".join(lines), flush=True)
    return rows


def run(seconds: float, seed: int, only: list[str]) -> list[dict[str, Any]]:
    """Run all targets side by side, `seconds` each; return a row for each of their processes."""
    with ThreadPoolExecutor(len(only)) as pool:
        rows = [row for rows in pool.map(lambda target: run_target(target, seconds, seed), only) for row in rows]
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "summary.json").write_text(json.dumps({"seed": seed, "seconds": seconds, "rows": rows}, indent=1))
    return rows


def evidence(page) -> None:
    """Write the page of this subject."""
    seconds = float(os.environ.get("POSABLE_FUZZ_SECONDS") or page.pick(300, 10))
    rows, _ = page.captured(run, seconds, int(os.environ.get("POSABLE_FUZZ_SEED") or 0), list(TARGETS))
    page.text((__doc__ or "").split("\n\n", 1)[1].rsplit("Faults are written", 1)[0])
    page.table(
        f"{seconds:g} s for each target, in parallel",
        ["target", "inputs", "answered", "refused", "processor time [s]", "slowest [s]", "peak memory [MB]", "faults"],
        [
            [r["target"], r.get("inputs", 0), r.get("answered", 0), r.get("refused", 0), r.get("seconds", 0),
             r.get("slowest", 0.0), r.get("memory", 0), len(r["faults"])]
            for r in rows
        ],
        note="*Answered*: read, solved, served or resumed. *Refused*: one of Posable's own errors, or a closed "
        "connection. The memory is that of the whole process, libraries and compiled code included. Readers share "
        "the time of their target, and so do solvers.",
    )  # fmt: skip
    faults = [f"{row['target']}: {text}" for row in rows for text in row["faults"]]
    inputs = sum(row.get("inputs", 0) for row in rows)
    page.value("inputs", inputs)
    page.value("faults", len(faults))
    page.text(f"{inputs:,} inputs, {len(faults)} faults." + "".join(f"\n\n- {text}" for text in faults[:20]))


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=",".join(TARGETS), help="some of " + ", ".join(TARGETS))
    parser.add_argument("--job", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.job:
        warnings.simplefilter("ignore")
        kind, _, name = args.job.partition(":")
        work = {"problems": fuzz_problems, "studio": fuzz_studio, "many": fuzz_many}
        done = fuzz_reader(name, args.seconds, args.seed) if kind == "reader" else work[kind](args.seconds, args.seed)
        print(json.dumps([tally.summary() for tally in (done if isinstance(done, list) else [done])]))
        return 0
    only = args.only.split(",")
    if not set(only) <= set(TARGETS):
        parser.error(f"--only: expected some of {', '.join(TARGETS)}, got {args.only}")
    rows = run(args.seconds, args.seed, only)
    faults = sum(len(row["faults"]) for row in rows)
    print(f"{sum(row.get('inputs', 0) for row in rows)} inputs, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
