"""`posable smooth MOTION... -o OUT`: remove jitter by one optimisation over all frames.

Joint limits hold and planted feet stay put.
"""

import argparse
from typing import Any

import posable as ps
from posable.cli import batch
from posable.cli.arguments import add_files, read, read_quietly, require_out, show

EXAMPLE = "posable smooth take.bvh --seconds 0.1 -o smooth.bvh --report report.html"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    add_files(parser, "MOTION")
    parser.add_argument("--seconds", type=float, default=0.1, help="smooth out motion faster than this (default: 0.1)")
    parser.add_argument("--no-contacts", action="store_true", help="do not lock planted feet")
    parser.add_argument("--no-limits", action="store_true", help="ignore joint limits")
    batch.add(parser)


def run(args: argparse.Namespace) -> int:
    """Smooth one file, or many."""
    if batch.is_batch(args, args.files, args.out):
        measure = "mean change [rad, m]"
        return batch.run(args, work, args.files, args.out, verb="smooth", measure=measure, needs=("skeleton",))
    require_out(args, "smooth.bvh")
    return run_one(argparse.Namespace(**vars(args), file=args.files[0]))


def smoothed(args: argparse.Namespace, scene: ps.Scene) -> Any:
    """Smooth and save; return the motion."""
    if scene.motion is None:
        raise ps.PosableError(f"{args.file}: expected a file with motion, found none")
    result = ps.smooth(
        scene.motion, args.seconds, contacts=not args.no_contacts, limits=not args.no_limits, threads=args.threads,
        progress=not args.json,
    )  # fmt: skip
    if args.out:
        ps.save(args.out, result)
    if args.report:
        result.save_report(args.report)
    return result


def work(args: argparse.Namespace) -> batch.FileResult:
    """Smooth one of many files."""
    scene = read_quietly(args)
    result = smoothed(args, scene)
    return batch.FileResult(len(result), result.change if len(result) else None, notes=tuple(scene.notes))


def run_one(args: argparse.Namespace) -> int:
    """Smooth one file and print the outcome."""
    result = smoothed(args, read(args))
    before, after = result.accelerations
    data = {"frames": len(result), "acceleration_before": before, "acceleration_after": after, "out": args.out}
    text = f"{len(result)} frames: mean acceleration {before:.2f} before, {after:.2f} after [rad/s^2]"
    show(args, data, text, args.out, args.report)
    return 0
