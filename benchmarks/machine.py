"""The machine and the versions, as every page records them: nothing that names a host, a user or a folder."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import posable

PACKAGES = ("numpy", "scipy", "numba")


def machine() -> dict[str, str | int | float]:
    """Return the processor's model, usable cores, memory [GB], operating system, and the load before the run."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    out: dict[str, str | int | float] = {
        "processor": _processor(),
        "cores": usable,
        "system": f"{platform.system()} {platform.machine()}",
    }
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        out["memory_GB"] = round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9, 1)
    if hasattr(os, "getloadavg"):
        out["load"] = round(os.getloadavg()[0], 1)
    return out


def versions() -> dict[str, str]:
    """Return the versions of Python and of what does the work, and the commit."""
    out = {"python": platform.python_version(), "posable": posable.__version__}
    for name in PACKAGES:
        try:
            out[name] = version(name)
        except PackageNotFoundError:
            continue
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        out["commit"] = done.stdout.strip()
    return out


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
