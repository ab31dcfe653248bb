"""`posable calibrate MARKERS --figure FIGURE -o ACTOR`: a figure fitted to the actor of a take."""

import argparse
import json
from typing import Any

import posable as ps
from posable.cli.arguments import add_reading, attachments, figure_of, read, require_out

EXAMPLE = "posable calibrate take.c3d --figure human -o actor.npz"


def add(subparsers: Any) -> argparse.ArgumentParser:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "calibrate",
        help="fit a figure to the actor of a marker file, once for many takes",
        description="Fit bone lengths and marker offsets of a figure to the actor of a take. "
        "Track other takes of the actor with --figure ACTOR --as-is.",
    )
    parser.add_argument("file", metavar="MARKERS", help="a take in which the actor moves every joint")
    parser.add_argument("--figure", required=True, metavar="FIGURE", help="a file with a skeleton, or a figure by name")
    parser.add_argument("-o", "--out", metavar="ACTOR", help="output file; NPZ keeps all data of the actor")
    parser.add_argument("--symmetric", action="store_true", help="give left and right bones the same length")
    parser.add_argument(
        "--attach",
        action="append",
        default=[],
        metavar="MARKER=JOINT",
        help="attach a marker to the bone of a joint; repeatable",
    )
    parser.add_argument("--no-limits", action="store_true", help="ignore joint limits")
    add_reading(parser)
    return parser


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
    if args.json:
        print(json.dumps({
            "out": out, "frames": len(found.frames), "error_before": found.before, "error": found.after,
            "scale": found.scale, "lengths": dict(found.lengths), "left_out": list(found.left_out),
            "markers": {name: {"joint": joint, "error": error} for name, (joint, error) in found.markers.items()},
            "notes": list(found.notes),
        }))  # fmt: skip
    else:
        print(found)
        print(f"wrote {out}")
    return 0
