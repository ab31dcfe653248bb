"""`posable retarget MOTION --to FIGURE -o OUT`: motion on another figure."""

import argparse
import json
from typing import Any

import posable as ps
from posable.cli.info import add_reading, read
from posable.cli.track import figure_of

EXAMPLE = "posable retarget take.bvh --to robot.urdf -o out.csv"
WORST_SLIP = 0.005  # [m] of a foot that stands


def add(subparsers: Any) -> argparse.ArgumentParser:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "retarget", help="motion on another figure, human or robot; feet keep their contacts"
    )
    parser.add_argument("file", metavar="MOTION")
    parser.add_argument("--to", required=True, metavar="FIGURE", help="a file with a skeleton, or a figure by name")
    parser.add_argument("-o", "--out", metavar="OUT", help="where the motion goes; the suffix says in which format")
    parser.add_argument(
        "--map", action="append", default=[], metavar="FROM=TO", help="a joint's counterpart; FROM= leaves it out"
    )
    parser.add_argument("--report", metavar="HTML", help="write a report that any browser shows")
    parser.add_argument("--smooth", type=float, default=0.06, metavar="SECONDS", help="take away what is faster")
    parser.add_argument("--no-contacts", action="store_true", help="do not lock feet that stand")
    parser.add_argument("--threads", type=int, help="cores to use; all by default")
    add_reading(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    """Retarget, save and report."""
    scene = read(args)
    if scene.motion is None:
        raise ps.PosableError(f"{args.file}: expected a file with motion, found none in it")
    mapping = {}
    for word in args.map:
        source, equals, target = word.partition("=")
        if not (source and equals):
            raise ps.PosableError(f"--map: expected FROM=TO, got {word!r}")
        mapping[source] = target or None
    result = ps.retarget(
        scene.motion, figure_of(args.to), mapping or None, contacts=not args.no_contacts, smooth=args.smooth,
        threads=args.threads, progress=not args.json,
    )  # fmt: skip
    if args.out:
        ps.save(args.out, result)
    if args.report:
        result.save_report(args.report)
    slips = [] if result.contacts is None else [float(slip) for slip in result.contacts.slips(result)]
    if args.json:
        rows = {role: list(pair) for role, pair in result.mapping.items()}
        print(json.dumps({
            "frames": len(result), "scale": result.scale, "mapping": rows, "slips": slips, "notes": list(result.notes),
            "out": args.out, "report": args.report,
        }))  # fmt: skip
    else:
        print(result)
    return 1 if len(result) < len(scene.motion) or max(slips, default=0.0) > WORST_SLIP else 0
