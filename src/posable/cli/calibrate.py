"""`posable calibrate MARKERS --figure FIGURE -o ACTOR`: fit a figure to the actor of a marker file, once for all takes.

Fits bone lengths and marker offsets. Track other takes of the actor with --figure ACTOR --as-is.
"""

import argparse

import posable as ps
from posable.cli.arguments import add_calibration, add_reading, attachments, figure_of, read, require_out, show

EXAMPLE = "posable calibrate take.c3d --figure human -o actor.npz"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    parser.add_argument("file", metavar="MARKERS", help="a take in which the actor moves every joint")
    parser.add_argument("--figure", required=True, metavar="FIGURE", help="a file with a skeleton, or a figure by name")
    parser.add_argument("-o", "--out", metavar="ACTOR", help="output file; NPZ keeps all data of the actor")
    add_calibration(parser)
    add_reading(parser)


def run(args: argparse.Namespace) -> int:
    """Calibrate, save and print the outcome."""
    out = require_out(args, "actor.npz")
    scene = read(args)
    if scene.markers is None:
        raise ps.PosableError(f"{args.file}: expected a file with markers, found none")
    actor = ps.calibrate(
        figure_of(args.figure), scene.markers, attachments(args.attach), symmetric=args.symmetric,
        limits=not args.no_limits,
    )  # fmt: skip
    ps.save(out, actor)
    found = actor.info["calibration"]
    data = {
        "out": out, "frames": len(found.frames), "error_before": found.before, "error": found.after,
        "scale": found.scale, "lengths": dict(found.lengths), "left_out": list(found.left_out),
        "markers": {name: {"joint": joint, "error": error} for name, (joint, error) in found.markers.items()},
        "notes": list(found.notes),
    }  # fmt: skip
    show(args, data, found, out)
    return 0
