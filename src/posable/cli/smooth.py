"""`posable smooth MOTION... -o OUT`: the same motion without jitter, feet that stand locked; of one file or of many."""

import argparse
import json
from typing import Any

import posable as ps
from posable.cli import batch
from posable.cli.info import add_reading, read, read_quietly

EXAMPLE = "posable smooth take.bvh --seconds 0.1 -o smooth.bvh --report report.html"


def add(subparsers: Any) -> argparse.ArgumentParser:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "smooth",
        help="take away jitter: one optimisation over all frames, limits held",
        description="Take away jitter by one optimisation over all frames. Limits are held, feet that stand stay.",
    )
    parser.add_argument("files", metavar="MOTION", nargs="+", help="a file, or many, which go into a folder")
    parser.add_argument("-o", "--out", metavar="OUT", help="where the motion goes; the suffix says in which format")
    parser.add_argument("--seconds", type=float, default=0.1, help="what is faster goes (0.1)")
    parser.add_argument("--no-contacts", action="store_true", help="do not lock feet that stand")
    parser.add_argument("--no-limits", action="store_true", help="let joints go past their limits")
    parser.add_argument("--report", metavar="HTML", help="write a report that any browser shows")
    parser.add_argument("--threads", type=int, help="cores to use; all by default")
    add_reading(parser)
    batch.add(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    """Smooth one file, or many."""
    if batch.asked(args, args.files, args.out):
        measure = "mean change [rad, m]"
        return batch.run(args, work, args.files, args.out, verb="smooth", measure=measure, needs=("skeleton",))
    return alone(argparse.Namespace(**vars(args), file=args.files[0]))


def smoothed(args: argparse.Namespace, scene: ps.Scene) -> Any:
    """Smooth and save; return the motion."""
    if scene.motion is None:
        raise ps.PosableError(f"{args.file}: expected a file with motion, found none in it")
    result = ps.smooth(
        scene.motion, args.seconds, contacts=not args.no_contacts, limits=not args.no_limits, threads=args.threads,
        progress=not args.json,
    )  # fmt: skip
    if args.out:
        ps.save(args.out, result)
    if args.report:
        result.save_report(args.report)
    return result


def work(args: argparse.Namespace) -> batch.Told:
    """Smooth one of many files."""
    scene = read_quietly(args)
    result = smoothed(args, scene)
    return batch.Told(len(result), result.change if len(result) else None, notes=tuple(scene.notes))


def alone(args: argparse.Namespace) -> int:
    """Smooth one file and say what became of it."""
    result = smoothed(args, read(args))
    before, after = result.accelerations
    if args.json:
        print(
            json.dumps(
                {"frames": len(result), "acceleration_before": before, "acceleration_after": after, "out": args.out}
            )
        )
    else:
        print(f"{len(result)} frames: mean acceleration {before:.2f} before, {after:.2f} after [rad/s^2]")
    return 0
