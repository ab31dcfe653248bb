"""`posable convert IN OUT`: convert a file to the format given by the suffix of OUT."""

import argparse
import json
from typing import Any

import posable as ps
from posable.cli.arguments import add_reading, read

EXAMPLE = "posable convert walk.bvh walk.glb"


def add(subparsers: Any) -> argparse.ArgumentParser:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "convert",
        help="convert a file to another format",
        description="Convert a figure, a motion or markers to another format. A motion is resampled to --fps.",
    )
    parser.add_argument("file", metavar="IN", help="input file")
    parser.add_argument("out", metavar="OUT", help="output file; its suffix selects the format")
    add_reading(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    """Read, convert, resample and write."""
    scene = read(args)
    if args.fps is not None and scene.motion is not None and scene.motion.fps != args.fps:
        scene = scene.replace(motion=scene.motion.resample(args.fps), motions={})
    ps.save(args.out, scene)
    if args.json:
        holds = scene.summary().split(", ")
        print(json.dumps({"in": args.file, "out": args.out, "holds": holds, "notes": list(scene.notes)}))
    else:
        print(f"wrote {args.out}: {scene.summary()}")
    return 0
