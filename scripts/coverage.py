"""Line coverage of src/posable: python scripts/coverage.py [--quick]

Compiled kernels cannot be traced, so two runs are combined: the whole suite, and the tests of the kernels with
POSABLE_JIT=python, where every kernel is plain Python. The report is build/coverage/index.html. The exit code is 1
below LEAST per cent of the lines outside the studio, which is tested in a browser.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEAST = 90
# kernels as plain Python: small problems through every kernel; the sines of infinity are left to compiled arithmetic
KERNELS = [
    "tests/test_kernels_as_python.py", "tests/engine/test_joints.py",
    "tests/engine/test_ltl.py", "tests/engine/test_linalg.py", "tests/engine/test_bounds.py",
    "tests/engine/test_reference.py", "tests/engine/test_residuals.py",
]  # fmt: skip
NOT_AS_PYTHON = "not sines_and_cosines"
SLOW = ["tests/mocap", "tests/studio", "tests/test_docs.py", "tests/test_examples.py", "tests/test_benchmarks.py"]


def run(*words: str, **surroundings: str) -> int:
    """Run coverage with this interpreter."""
    command = [sys.executable, "-m", "coverage", *words]
    print(" ".join(command), flush=True)
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **surroundings}, check=False).returncode


def main(quick: bool) -> int:
    """Measure; return the exit code. quick: without the slow parts of the suite; the share is then a lower bound."""
    pytest = ["run", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", "--dist", "loadfile"]
    run("erase")
    failed = run(*pytest, *KERNELS, "-k", NOT_AS_PYTHON, POSABLE_JIT="python")
    failed |= run(*pytest, "tests", *(f"--ignore={path}" for path in (SLOW if quick else [])))
    run("combine", "--quiet")
    run("html", "--quiet")
    return run("report", "--skip-covered", f"--fail-under={LEAST}") or failed


if __name__ == "__main__":
    sys.exit(main("--quick" in sys.argv[1:]))
