"""`posable explain FIGURE --reach ...`: analyse a pose: freedom, singularity, limits, what blocks a goal.

Solves for the goals, then reports the remaining freedom, the distance to a singularity, active and nearby limits,
which limit blocks which goal, and the swivel ranges of the limbs. Lengths are in metres, angles in degrees.
"""

import argparse

import posable as ps
from posable.cli.arguments import add_figure, add_goals, chosen_figure, goals_of, show

EXAMPLE = "posable explain human --fix pelvis --reach hand.R=-0.2,1.2,-1.6"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    add_figure(parser)
    add_goals(parser)
    parser.add_argument("--no-limits", action="store_true", help="ignore joint limits")
    parser.add_argument("--no-limbs", action="store_true", help="omit the swivel ranges of the limbs")


def run(args: argparse.Namespace) -> int:
    """Solve and explain."""
    skeleton = chosen_figure(args)
    goals = goals_of(args, skeleton)
    if not goals:
        raise ps.errors.GoalError("explain", expected="a goal, such as --reach hand.R=0.4,1.2,0.3", got="none")
    result = ps.solve(skeleton, goals, limits=not args.no_limits)
    analysis = ps.explain(skeleton, goals, result.pose, limits=not args.no_limits, limbs=not args.no_limbs)
    text = f"{result.status}: {result.message.partition(': ')[2]}.\n{analysis}"
    show(args, {"status": str(result.status), **analysis.as_dict()}, text, indent=2)
    return 0 if result.ok else 1
