"""`posable convert IN OUT`: convert a figure, a motion or markers to another format.

The suffix of OUT selects the format. A motion is resampled to --fps.
"""

import argparse

import posable as ps
from posable.cli.arguments import add_reading, read, show

EXAMPLE = "posable convert walk.bvh walk.glb"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    parser.add_argument("file", metavar="IN", help="input file")
    parser.add_argument("out", metavar="OUT", help="output file; its suffix selects the format")
    add_reading(parser)


def run(args: argparse.Namespace) -> int:
    """Read, convert, resample and write."""
    scene = read(args)
    if args.fps is not None and scene.motion is not None and scene.motion.fps != args.fps:
        scene = scene.replace(motion=scene.motion.resample(args.fps), motions={})
    ps.save(args.out, scene)
    holds = scene.summary()
    data = {"in": args.file, "out": args.out, "holds": holds.split(", "), "notes": list(scene.notes)}
    show(args, data, f"wrote {args.out}: {holds}")
    return 0
