"""The command line: `python -m benchmarks [SUBJECT ...] [--quick] [--out DIR]`, `list`, `gate [--store]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import gate
from benchmarks.page import ROOT
from benchmarks.runner import print_list, run_all
from benchmarks.subjects import BY_NAME

RESULTS, QUICK_RESULTS = ROOT / "docs" / "results", ROOT / "build" / "results"


def main() -> int:
    """Run the command line; return its exit code."""
    if sys.argv[1:2] == ["gate"]:
        return gate.main(sys.argv[2:])
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure subjects and write their pages.")
    parser.add_argument(
        "subjects", nargs="*", metavar="SUBJECT", help="subjects to run (default: all); or `list`, or `gate`"
    )
    parser.add_argument(
        "--quick", action="store_true", help="few repeats; writes to build/results unless --out is given"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="output folder (default: docs/results)")
    args = parser.parse_args()
    if args.subjects == ["list"]:
        print_list()
        return 0
    unknown = [name for name in args.subjects if name not in BY_NAME]
    if unknown:
        parser.error(f"unknown subject {unknown[0]!r}; expected one of {', '.join(BY_NAME)}")
    folder = args.out or (QUICK_RESULTS if args.quick else RESULTS)
    return 1 if run_all(args.subjects or list(BY_NAME), args.quick, folder) else 0


if __name__ == "__main__":
    sys.exit(main())
