"""The bits of the gate's answers: the same from any number of threads, processes and forks, with a cold or warm cache.

    python -m benchmarks.digest            solve in every way, compare with each other and with digests.json
    python -m benchmarks.digest --cold     also in a process that compiles everything (150 s of processor time)
    python -m benchmarks.digest --store    keep the digests for this release, Numba and processor family
    python -m benchmarks.digest --report   print them; differing from digests.json is no failure

Digests are kept for each release, version of Numba and processor family: another compiler or processor may round the
last bit otherwise. CHANGED has what has changed on purpose since the release, with the reason. `rate` and `sqp` are
left out, because their bits are SciPy's.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import posable as ps
from benchmarks.gate import COUNT, DRIVEN, pairs
from posable.cli.bench import problem_set

STORED = Path(__file__).with_name("digests.json")
FIGURES = ("planar_arm", "limb", "panda", "human")
# What has changed on purpose since the last release; emptied when the digests of the next one are stored.
CHANGED = {
    "human newton": "least change keeps the trunk upright and bends arms and knees more readily",
    **{
        f"{figure} {solver}": "the last digit of the rotation vector of an orientation's error"
        for figure in ("limb", "panda")
        for solver in ("transpose", "pseudoinverse", "dls", "sdls", "svd", "qr")
    },
}

Digests = dict[str, str]


def solved(threads: int = 1, count: int = COUNT) -> Digests:
    """Return a digest of the poses, iterations and statuses of each figure and solver; a terminal shows progress."""
    out = {}
    for figure, solver in pairs():
        if solver in DRIVEN or figure not in FIGURES:
            continue
        problems = problem_set(figure, count)
        result = ps.solve(problems.skeleton, problems.goals(slice(0, count)), solver=solver, threads=threads)
        digest = hashlib.sha256()
        for part in (result.pose, np.asarray(result.iterations, "<i8"), np.asarray(result.ok)):
            digest.update(part.tobytes())
        out[f"{figure} {solver}"] = digest.hexdigest()[:16]
        if sys.stderr.isatty():
            print(f"\r{len(out)} solved: {figure} {solver:20}", end="", file=sys.stderr, flush=True)
    return out


def in_a_process(**surroundings: str) -> Digests:
    """Return the digests from a new process."""
    command = [sys.executable, "-m", "benchmarks.digest", "--print"]
    done = subprocess.run(command, env={**os.environ, **surroundings}, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def in_a_fork() -> Digests:
    """Return the digests from a fork of this process, which has solved before."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            with os.fdopen(writer, "w") as pipe:
                json.dump(solved(), pipe)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text)


def place() -> str:
    """Return the compiler and the processor family that the bits belong to."""
    import llvmlite.binding
    import numba

    numbers = ".".join(numba.__version__.split(".")[:2])
    return f"numba {numbers}, {platform.machine()} {llvmlite.binding.get_host_cpu_name()}"


def stored(path: Path = STORED) -> dict[str, dict[str, Digests]]:
    """Return the digests that were kept: {release: {place: {"figure solver": digest}}}."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def differing(here: Digests, there: Digests) -> list[str]:
    """Return which digests are not the same."""
    return [name for name in here if there.get(name) != here[name]]


def explained(names: list[str]) -> list[str]:
    """Return a line for each digest that is not the release's."""
    return [f"{name}: {'on purpose: ' + CHANGED[name] if name in CHANGED else 'not explained'}" for name in names]


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for flag in ("--cold", "--store", "--report", "--print"):
        parser.add_argument(flag, action="store_true")
    args = parser.parse_args()
    here = solved()
    if args.print:
        print(json.dumps(here))
        return 0
    ways = {"two threads": solved(threads=2), "another process": in_a_process()}
    if hasattr(os, "fork"):
        ways["a fork"] = in_a_fork()
    if args.cold:
        with tempfile.TemporaryDirectory() as folder:
            ways["a cold cache"] = in_a_process(POSABLE_CACHE=folder)
    wrong = [f"{name}: {way} gives other bits" for way, there in ways.items() for name in differing(here, there)]
    print(f"{len(here)} figures and solvers, the same bits from one thread, {', '.join(ways)}" if not wrong else "")
    kept = stored()
    known = kept.get(ps.__version__, {}).get(place())
    if args.store:
        kept.setdefault(ps.__version__, {})[place()] = here
        STORED.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    elif known is None:
        print(f"no digests of release {ps.__version__} for {place()}: --store keeps them")
        for other, digests in kept.get(ps.__version__, {}).items():
            changed = differing(here, digests)
            print(f"  {len(here) - len(changed)} of {len(here)} are those for {other}", *explained(changed), sep="\n  ")
    else:
        changed = differing(here, known)
        print(f"{len(here) - len(changed)} of {len(here)} as stored for release {ps.__version__}, {place()}")
        print(*explained(changed), sep="\n")
        wrong += [] if args.report else [f"{name}: other bits" for name in changed if name not in CHANGED]
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
