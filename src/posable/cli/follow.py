"""`posable follow FIGURE --path hand.R=path.csv -o OUT`: the motion of a figure whose goals move."""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import posable as ps
from posable.cli.info import figure_of
from posable.cli.solve import add_goals, goals_of, numbers, split, start_of

EXAMPLE = "posable follow panda --path hand=0.5,0.2,0.4:0.5,-0.2,0.4:0.4,0,0.6 --seconds 2 -o path.csv"


def add(subparsers: Any) -> argparse.ArgumentParser:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "follow",
        help="follow targets that move, frame by frame",
        description="Follow targets that move: each frame starts where the last one ended. A path is a file with a "
        "point X,Y,Z on each line, one for each frame, or waypoints on the command line. Fixed goals may be given as "
        "for `posable solve`. Lengths are metres.",
    )
    add_paths(parser)
    work = parser.add_argument_group("the motion")
    work.add_argument("--fps", type=float, default=30.0, help="frames per second (30)")
    work.add_argument("--seconds", type=float, default=1.0, help="how long waypoints take (1)")
    work.add_argument("--smooth", type=float, default=0.0, metavar="SECONDS", help="remove faster motion")
    work.add_argument("--start", metavar="FILE[:FRAME]|any", help="pose to start from; any: the best branch")
    work.add_argument("--max-iterations", type=int, metavar="N", help="per frame; 1: one step per frame")
    work.add_argument("--no-limits", action="store_true", help="ignore joint limits")
    parser.add_argument("-o", "--out", metavar="OUT", help="output file; its suffix selects the format")
    return parser


def add_paths(parser: argparse.ArgumentParser) -> None:
    """Add the figure, its paths and its fixed goals."""
    parser.add_argument("figure", metavar="FIGURE", help=f"{', '.join(ps.figures.names())}, or a file with a skeleton")
    parser.add_argument(
        "--path", metavar="BODY=FILE|X,Y,Z:X,Y,Z:...", action="append", default=[], required=True,
        help="a body and the points that it goes through",
    )  # fmt: skip
    add_goals(parser)


def run(args: argparse.Namespace) -> int:
    """Follow the paths and say how many frames were reached."""
    skeleton = figure_of(args.figure)
    goals = goals_of(args, skeleton) + [path_goal(word, args) for word in args.path]
    motion = ps.follow(
        skeleton, goals, fps=args.fps, smooth=args.smooth, max_iterations=args.max_iterations,
        start="any" if args.start == "any" else start_of(args.start, skeleton), limits=not args.no_limits,
    )  # fmt: skip
    if args.out:
        ps.save(args.out, motion)
    reached = int(np.sum(motion.ok))
    if args.json:
        worst = {name: float(np.max(values, initial=0.0)) for name, values in motion.errors.items()}
        step = float(motion.largest_step)
        print(json.dumps({"frames": len(motion), "reached": reached, "worst": worst, "largest_step": step}))
    else:
        print(motion.__str__())
        print(f"wrote {args.out}" if args.out else "nothing written; use -o FILE to save the motion")
    return 0 if reached == len(motion) else 1


def path_goal(word: str, args: argparse.Namespace) -> ps.goals.Goal:
    """Return the Position goal of BODY=FILE or BODY=X,Y,Z:X,Y,Z:..."""
    try:
        body, text = split(word)
    except ValueError:
        raise ps.PosableError(f"--path: expected BODY=FILE or BODY=X,Y,Z:X,Y,Z:..., got {word!r}") from None
    if Path(text).exists():
        try:
            points = np.loadtxt(text, delimiter=",", ndmin=2, comments="#")
        except ValueError as error:
            raise ps.PosableError(f"--path: {text}: {error}") from None
        if points.shape[1] != 3:
            raise ps.PosableError(f"--path: {text}: expected lines X,Y,Z, got {points.shape[1]} numbers in a line")
        return ps.goals.Position(body, points)
    try:
        corners = np.array([numbers(part, 3) for part in text.split(":")])
    except ValueError:
        raise ps.PosableError(f"--path: expected a file or points X,Y,Z:X,Y,Z:..., got {text!r}") from None
    if not (args.fps > 0.0 and args.seconds > 0.0):
        raise ps.PosableError(f"--fps, --seconds: expected positive numbers, got {args.fps:g} and {args.seconds:g}")
    lengths = np.linalg.norm(np.diff(corners, axis=0), axis=1)
    along = np.concatenate([[0.0], np.cumsum(lengths)])
    at = np.linspace(0.0, along[-1], round(args.seconds * args.fps) + 1)
    keep = np.concatenate([[True], lengths > 0.0])  # drop repeated corners
    return ps.goals.Position(body, np.stack([np.interp(at, along[keep], c[keep]) for c in corners.T], axis=1))
