"""Line coverage of src/posable: python scripts/coverage.py [--workers 1] [--add TESTS ...]

Compiled kernels cannot be traced, so three runs are combined: small problems through every kernel as plain Python
(POSABLE_JIT=python); more tests of the kernels as plain Python, of which each ends after SECONDS of processor time, and
the lines that it has reached count; and the suite as users run it, without ELSEWHERE. The report is
build/coverage/index.html. The exit code is 1 below LEAST per cent of the lines outside the studio, which is tested in a
browser, or if a test fails.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEAST = 90
SECONDS = 0.5
WHOLE = [
    "tests/test_kernels_as_python.py", "tests/engine/test_joints.py",
    "tests/engine/test_ltl.py", "tests/engine/test_linalg.py", "tests/engine/test_bounds.py",
    "tests/engine/test_reference.py", "tests/engine/test_residuals.py",
]  # fmt: skip
STOPPED = [
    "tests/engine/test_assemble.py", "tests/engine/test_springs.py", "tests/model/test_jacobians.py",
    "tests/solvers/test_sensitivity.py", "tests/solvers/test_newton.py", "tests/solvers/test_gradient.py",
    "tests/solvers/test_ccd.py", "tests/solvers/test_least_squares.py", "tests/test_control.py",
    "tests/mocap/test_calibrate.py", "tests/limb/test_limb.py", "tests/limb/test_tasks.py",
    "tests/limb/test_nearest.py", "tests/limb/test_degenerate.py", "tests/limb/test_solver.py",
]  # fmt: skip
# minutes of tests that reach few lines that others do not: the page, documents, programs, processes
ELSEWHERE = [
    WHOLE[0], "tests/studio", "tests/test_docs.py", "tests/test_examples.py", "tests/test_notebooks.py",
    "tests/test_benchmarks.py", "tests/test_recipes.py", "tests/test_types.py", "tests/test_layers.py",
    "tests/test_module_counts.py", "tests/test_concurrency.py", "tests/engine/test_jit.py",
    "tests/formats/test_fuzz.py", "tests/cli/test_cluster.py",
]  # fmt: skip
MEASURED = "--include=src/posable/*"  # not the copies of the package that tests make
CORE = {"COVERAGE_CORE": "sysmon"} if sys.version_info >= (3, 12) else {}  # costs nearly no time


def run(*words: str, **surroundings: str) -> int:
    """Run coverage with this interpreter."""
    command = [sys.executable, "-m", "coverage", *words]
    print(" ".join(command), flush=True)
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **CORE, **surroundings}, check=False).returncode


def main() -> int:
    """Measure; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2, help="processes that run the tests")
    parser.add_argument("--add", nargs="+", metavar="TESTS", help="add these tests to what was measured before")
    chosen = parser.parse_args()
    pytest = ["run", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", str(chosen.workers), "--dist"]
    if chosen.add:
        failed = run(*pytest, "loadfile", *chosen.add)
    else:
        run("erase")
        failed = run(*pytest, "load", *WHOLE, POSABLE_JIT="python")
        failed |= run(*pytest, "load", *STOPPED, POSABLE_JIT="python", POSABLE_TEST_SECONDS=str(SECONDS))
        failed |= run(*pytest, "loadfile", "tests", *(f"--ignore={path}" for path in ELSEWHERE))
    run("combine", "--quiet", "--append")
    run("html", "--quiet", MEASURED)
    return run("report", "--skip-covered", MEASURED, f"--fail-under={LEAST}") or failed


if __name__ == "__main__":
    sys.exit(main())
