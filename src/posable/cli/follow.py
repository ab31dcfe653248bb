"""`posable follow FIGURE --path hand.R=path.csv -o OUT`: follow moving targets, frame by frame.

Each frame starts from the previous pose. A path is a file with a point X,Y,Z per line, one line per frame, or
waypoints on the command line. Fixed goals are given as for `posable solve`. Lengths are in metres, angles in degrees.
"""

import argparse

import numpy as np

import posable as ps
from posable.cli.arguments import add_paths, chosen_figure, goals_of, path_goal, show_motion, start_of

EXAMPLE = "posable follow panda --path hand=0.5,0.2,0.4:0.5,-0.2,0.4:0.4,0,0.6 --seconds 2 -o path.csv"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    add_paths(parser)
    work = parser.add_argument_group("motion")
    work.add_argument("--fps", type=float, default=30.0, help="frames per second (default: 30)")
    work.add_argument("--seconds", type=float, default=1.0, help="duration of a path of waypoints (default: 1)")
    work.add_argument(
        "--smooth", type=float, default=0.0, metavar="SECONDS", help="smooth out motion faster than this (default: 0)"
    )
    work.add_argument("--start", metavar="NAME|FILE[:FRAME]|any", help="start pose; any: the best branch")
    work.add_argument(
        "--velocity", type=float, metavar="V", help="velocity limit of the joints [rad/s, m/s] (default: none)"
    )
    work.add_argument(
        "--acceleration", type=float, metavar="A",
        help="acceleration limit of the joints [rad/s^2, m/s^2] (default: none)",
    )  # fmt: skip
    work.add_argument(
        "--duration", metavar="SECONDS|fastest", help="move along the path from rest to rest in this time"
    )
    work.add_argument("--max-iterations", type=int, metavar="N", help="maximum number of iterations per frame")
    work.add_argument("--no-limits", action="store_true", help="ignore joint limits")
    parser.add_argument("-o", "--out", metavar="OUT", help="output file; its suffix selects the format")


def run(args: argparse.Namespace) -> int:
    """Follow the paths and report how many frames were reached."""
    if not 0.0 <= args.smooth < np.inf:
        raise ps.PosableError(f"--smooth: expected 0 s or more, got {args.smooth:g}")
    skeleton = chosen_figure(args)
    goals = goals_of(args, skeleton) + [path_goal(word, args) for word in args.path]
    motion = ps.follow(
        skeleton, goals, fps=args.fps, smooth=args.smooth, max_iterations=args.max_iterations,
        start="any" if args.start == "any" else start_of(args.start, skeleton), limits=not args.no_limits,
        velocity=args.velocity, acceleration=args.acceleration, duration=duration_of(args.duration),
    )  # fmt: skip
    if args.out:
        ps.save(args.out, motion)
    reached = int(np.sum(motion.ok))
    worst = {name: float(np.max(values, initial=0.0)) for name, values in motion.errors.items()}
    step = float(motion.largest_step)
    show_motion(args, {"frames": len(motion), "reached": reached, "worst": worst, "largest_step": step}, motion)
    return 0 if reached == len(motion) else 1


def duration_of(word: str | None) -> float | str | None:
    """Return the seconds of --duration, or its word."""
    try:
        return None if word is None else float(word)
    except ValueError:
        return word
