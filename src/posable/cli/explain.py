"""`posable explain FIGURE --reach ...`: why the pose is as it is; freedom, singularity, limits, what blocks."""

import argparse
import json
from typing import Any

import posable as ps
from posable.cli.info import figure_of
from posable.cli.solve import add_goals, goals_of

EXAMPLE = "posable explain human --fix pelvis --reach hand.R=-0.2,1.2,-1.6"


def add(subparsers: Any) -> argparse.ArgumentParser:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "explain",
        help="explain a pose: freedom, singularity, limits, what blocks a goal",
        description="Solve, then say what the goals make of the figure: how much freedom is left, how near a "
        "singularity is, which limits are near or reached, which of them blocks which goal, and the swivel ranges of "
        "its limbs. Lengths are metres, angles degrees.",
    )
    parser.add_argument("figure", metavar="FIGURE", help=f"{', '.join(ps.figures.names())}, or a file with a skeleton")
    add_goals(parser)
    parser.add_argument("--no-limits", action="store_true", help="let joints turn past their limits")
    parser.add_argument("--no-limbs", action="store_true", help="leave out the swivel ranges of the limbs")
    return parser


def run(args: argparse.Namespace) -> int:
    """Solve and explain."""
    skeleton = figure_of(args.figure)
    goals = goals_of(args, skeleton)
    if not goals:
        raise ps.errors.GoalError("explain", expected="a goal, such as --reach hand.R=0.4,1.2,0.3", got="none")
    result = ps.solve(skeleton, goals, limits=not args.no_limits)
    told = ps.explain(skeleton, goals, result.pose, limits=not args.no_limits, limbs=not args.no_limbs)
    if args.json:
        print(json.dumps({"status": str(result.status), **told.as_dict()}, indent=2))
    else:
        print(f"{result.status}: {result.message.partition(': ')[2]}.")
        print(told)
    return 0 if result.ok else 1
