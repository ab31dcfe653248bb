"""`posable explain FIGURE --reach ...`: analyse a pose: freedom, singularity, limits, what blocks the goals."""

import argparse
import json
from typing import Any

import posable as ps
from posable.cli.arguments import add_goals, figure_of, goals_of

EXAMPLE = "posable explain human --fix pelvis --reach hand.R=-0.2,1.2,-1.6"


def add(subparsers: Any) -> argparse.ArgumentParser:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "explain",
        help="analyse a pose: freedom, singularity, limits, what blocks a goal",
        description="Solve, then analyse the pose: remaining freedom, distance to a singularity, active and nearby "
        "limits, which limit blocks which goal, and the swivel ranges of the limbs. Lengths are in metres, angles in "
        "degrees.",
    )
    parser.add_argument("figure", metavar="FIGURE", help=f"{', '.join(ps.figures.names())}, or a file with a skeleton")
    add_goals(parser)
    parser.add_argument("--no-limits", action="store_true", help="ignore joint limits")
    parser.add_argument("--no-limbs", action="store_true", help="omit the swivel ranges of the limbs")
    return parser


def run(args: argparse.Namespace) -> int:
    """Solve and explain."""
    skeleton = figure_of(args.figure)
    goals = goals_of(args, skeleton)
    if not goals:
        raise ps.errors.GoalError("explain", expected="a goal, such as --reach hand.R=0.4,1.2,0.3", got="none")
    result = ps.solve(skeleton, goals, limits=not args.no_limits)
    analysis = ps.explain(skeleton, goals, result.pose, limits=not args.no_limits, limbs=not args.no_limbs)
    if args.json:
        print(json.dumps({"status": str(result.status), **analysis.as_dict()}, indent=2))
    else:
        print(f"{result.status}: {result.message.partition(': ')[2]}.")
        print(analysis)
    return 0 if result.ok else 1
