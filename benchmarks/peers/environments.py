"""The peers and their virtual environments: made once under .peers/, never a dependency of Posable."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / ".peers"


@dataclass(frozen=True)
class Environment:
    """A peer's packages. python: the version that its wheels need, if not any. alone: packages without dependencies."""

    name: str
    packages: tuple[str, ...]
    python: str = ""
    alone: tuple[str, ...] = ()


@dataclass(frozen=True)
class PeerLine:
    """A peer of the tables: its name, environment and adapter, its work, and whether it restarts by itself."""

    title: str
    environment: str
    adapter: str
    works: tuple[str, ...]
    restarts: bool = False


ENVIRONMENTS = (
    Environment("pink", ("pin==4.1.0", "pin-pink==4.4.0", "qpsolvers==4.13.0", "daqp==0.10.3")),
    Environment("mink", ("mink==1.3.0", "mujoco==4.0.0", "qpsolvers==4.13.0", "daqp==0.10.3")),
    Environment("placo", ("placo==0.10.2",)),
    Environment("drake", ("drake==1.51.1",)),
    Environment("roboticstoolbox", ("roboticstoolbox-python==1.5.0",)),
    Environment("ikpy", ("ikpy==4.2.1",)),
    Environment("eaik", ("eaik==1.2.2",)),
    Environment("ssik", ("ssik==8.2.0",)),
    Environment("tracik", ("pytracik==0.0.3",)),
    # Momentum asks for a PyTorch of some gigabytes, which the solver used here does not import.
    Environment("momentum", ("numpy==2.4.6", "scipy==1.17.1"), "3.12", ("pymomentum-cpu==0.1.114.post0",)),
    Environment("scipy", ("scipy==1.17.1", "pin==4.1.0")),
    Environment("bpy", ("bpy==5.0.1",), "3.11"),
    Environment(  # other readers of the files, and what Posable needs to read them beside these
        "readers",
        ("bvhio==1.5.4", "ezc3d==1.7.2", "c3d==0.6.0", "pin==4.1.0", "numpy==2.4.6", "scipy==1.17.1", "numba==0.68.1"),
    ),
    Environment("pyroki", ("pyroki",)),
    Environment("tracikpy", ("tracikpy",)),
)

ARMS = ("panda", "ur5", "kr16")
BODIES = ("talos_50", "talos_100", "human")
ALL = (*ARMS, *BODIES, "markers")
PEERS = (
    PeerLine("pink (Pinocchio)", "pink", "pink", ALL),
    PeerLine("mink (MuJoCo)", "mink", "mink", ALL),
    PeerLine("placo", "placo", "placo", ALL),
    PeerLine("drake (SNOPT)", "drake", "drake", (*ARMS, *BODIES)),
    PeerLine("Momentum", "momentum", "momentum", ALL),
    PeerLine("SciPy least_squares", "scipy", "scipy_least_squares", ALL),
    PeerLine("Robotics Toolbox", "roboticstoolbox", "roboticstoolbox", ARMS, restarts=True),
    PeerLine("TRAC-IK", "tracik", "tracik", ARMS, restarts=True),
    PeerLine("EAIK (closed form)", "eaik", "eaik", ARMS, restarts=True),
    PeerLine("ssik (closed form)", "ssik", "ssik", ARMS, restarts=True),
    PeerLine("IKPy", "ikpy", "ikpy", ARMS),
    PeerLine("Blender", "bpy", "blender", ("human",)),
)


def python_of(name: str) -> Path:
    """Return the interpreter of an environment."""
    return FOLDER / name / "bin" / "python"


def install(environment: Environment) -> str:
    """Make an environment unless it is there; return why it could not be made, or nothing.

    What was made, or that it could not be, is kept beside it, so that the next run neither installs nor tries again
    until the list of packages changes.
    """
    home, kept = FOLDER / environment.name, FOLDER / f"{environment.name}.json"
    wanted = [*environment.packages, *environment.alone, environment.python]
    if kept.exists():
        told = json.loads(kept.read_text(encoding="utf8"))
        if told["wanted"] == wanted:
            return told["failed"]
    base = interpreter(environment.python)
    if base is None:
        return f"needs Python {environment.python}, which is not on this machine"
    shutil.rmtree(home, ignore_errors=True)
    begin = time.perf_counter()
    failed = _run([base, "-m", "venv", str(home)])
    pip = [str(python_of(environment.name)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if not failed:
        failed = _run([*pip, *environment.packages])
    if not failed and environment.alone:
        failed = _run([*pip, "--no-deps", *environment.alone])
    told = {"wanted": wanted, "failed": failed, "seconds": round(time.perf_counter() - begin, 1)}
    kept.write_text(json.dumps(told, indent=1) + "\n", encoding="utf8")
    return failed


def ready(name: str) -> Path:
    """Return the interpreter of an environment, made first where it is not there; RuntimeError says why it is not."""
    FOLDER.mkdir(exist_ok=True)
    failed = install(next(environment for environment in ENVIRONMENTS if environment.name == name))
    if failed:
        raise RuntimeError(f"{name} could not be installed: {failed}")
    return python_of(name)


def interpreter(version: str) -> str | None:
    """Return the path of a Python of a version such as 3.12, or of this one; None where there is none."""
    if version in ("", f"{sys.version_info.major}.{sys.version_info.minor}"):
        return sys.executable
    found = shutil.which(f"python{version}")
    if found is None:
        return None
    asked = "import sys; print(f'{sys.version_info.major}.{sys.version_info.minor}')"
    done = subprocess.run([found, "-c", asked], capture_output=True, text=True, check=False)
    if done.stdout.strip() == version:
        return found
    beside = Path(sys.base_prefix).parent.glob(f"{version}.*/bin/python")  # other versions of the same manager
    return next((str(path) for path in beside), None)


def install_all(say) -> dict[str, str]:
    """Make every environment; return {name: why it could not be made} for those that could not."""
    FOLDER.mkdir(exist_ok=True)
    failures = {}
    for environment in ENVIRONMENTS:
        if not (FOLDER / f"{environment.name}.json").exists():
            say(f"installing {environment.name}")
        failed = install(environment)
        if failed:
            failures[environment.name] = failed
    return failures


def _run(command: list[str]) -> str:
    """Run a command; return the last line of its complaint where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
    return (lines or ["failed without a word"])[-1].removeprefix("ERROR: ")
