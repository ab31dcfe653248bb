"""`posable convert IN OUT`: a file in another format, chosen by OUT's suffix."""

import argparse
import json
from dataclasses import replace
from typing import Any

import posable as ps
from posable.cli.info import add_reading, read

EXAMPLE = "posable convert walk.bvh walk.glb"


def add(subparsers: Any) -> argparse.ArgumentParser:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "convert",
        help="write a file in another format, chosen by its suffix",
        description="Write a figure, a motion or markers in another format. With --fps, a motion is resampled.",
    )
    parser.add_argument("file", metavar="IN", help="input file")
    parser.add_argument("out", metavar="OUT", help="output file; its suffix selects the format")
    add_reading(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    """Read, turn, resample and write."""
    scene = read(args)
    if args.fps is not None and scene.motion is not None and scene.motion.fps != args.fps:
        scene = replace(scene, motion=scene.motion.resample(args.fps), motions={})
    ps.save(args.out, scene)
    what = []
    if scene.skeleton is not None:
        what.append(f"{len(scene.skeleton.joints)} joints")
    if scene.motion is not None:
        what.append(f"{len(scene.motion)} frames")
    if scene.markers is not None:
        what.append(f"{len(scene.markers.names)} markers")
    if args.json:
        print(json.dumps({"in": args.file, "out": args.out, "holds": what, "notes": list(scene.notes)}))
    else:
        print(f"wrote {args.out}: {', '.join(what)}")
    return 0
