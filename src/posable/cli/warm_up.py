"""`posable warm-up [FIGURE] [--reach ...]`: compile ahead of time what a program needs.

Later calls then do not wait for the compiler. Without a figure, a solver or a part, everything is compiled (some
minutes). With POSABLE_COMPILE=never, a program raises an error instead of compiling.
"""

import argparse
import json

import posable as ps
from posable.cli.arguments import add_goals, figure_of, goals_of

EXAMPLE = "posable warm-up panda --solver newton --part control"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    parser.add_argument("figure", metavar="FIGURE", nargs="?", help="the figure to solve for, by name or file")
    add_goals(parser)
    parser.add_argument("--solver", action="append", metavar="NAME", help="a solver to compile (default: newton)")
    parser.add_argument(
        "--part", action="append", metavar="NAME", choices=PARTS, help=f"a part to compile as well: {', '.join(PARTS)}"
    )


PARTS = ("kinematics", "reach", "limb", "control", "motion", "markers")


def run(args: argparse.Namespace) -> int:
    """Compile."""
    everything = not (args.figure or args.solver or args.part)
    skeleton = figure_of(args.figure) if args.figure else None
    wanted = goals_of(args, skeleton) if skeleton is not None else []
    solvers = ps.solvers.names() if everything else args.solver or ["newton"]
    if everything:
        solvers = [name for name in solvers if name != "limb"]  # compiled with the part of that name

    def progress(name: str, seconds: float) -> None:
        if not args.json:
            print(f"{name}: {seconds:.1f} s", flush=True)

    taken = ps.warm_up(
        skeleton, wanted or None, solvers=solvers, parts=PARTS if everything else args.part or (), progress=progress
    )
    if args.json:
        print(json.dumps({"seconds": taken}, indent=2))
    return 0
