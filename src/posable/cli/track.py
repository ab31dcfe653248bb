"""`posable track MARKERS... --figure FIGURE -o OUT`: compute motion from markers (C3D, TRC) or 2D keypoints.

The figure is fitted to the actor, then every frame is tracked.
"""

import argparse
from pathlib import Path
from typing import Any

import posable as ps
from posable.cli import batch
from posable.cli.arguments import (
    add_calibration,
    add_files,
    attachments,
    figure_of,
    names_of,
    read,
    read_quietly,
    require_out,
    show,
)

EXAMPLE = "posable track markers.c3d --figure actor.asf -o take.bvh --report report.html"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    add_files(parser, "MARKERS")
    parser.add_argument("--figure", metavar="FIGURE", help="a file with a skeleton, or a figure by name")
    parser.add_argument(
        "--cameras", metavar="TOML", help="camera calibration; MARKERS are then 2D keypoints (.npz, .npy)"
    )
    parser.add_argument(
        "--smooth", type=float, default=0.0, metavar="SECONDS", help="smooth out motion faster than this (default: 0)"
    )
    parser.add_argument(
        "--as-is", action="store_true", help="skip calibration: FIGURE is an actor from posable calibrate"
    )
    add_calibration(parser)
    batch.add(parser)


def run(args: argparse.Namespace) -> int:
    """Track one file, or many."""
    if args.cameras:
        return run_cameras(args)
    if not args.figure:
        raise ps.PosableError("expected --figure FIGURE, or --cameras TOML for 2D keypoints")
    if batch.is_batch(args, args.files, args.out):
        figure_of(args.figure)  # a wrong call fails before any work is done
        attachments(args.attach)
        measure = "mean marker error [m]"
        return batch.run(
            args, work, args.files, args.out, verb="track", measure=measure, needs=("figure", "skeleton")
        )  # fmt: skip
    require_out(args, "take.bvh")
    return run_one(argparse.Namespace(**vars(args), file=args.files[0]))


def tracked(args: argparse.Namespace, scene: ps.Scene) -> tuple[ps.Skeleton, Any]:
    """Calibrate, track and save; return the actor and the take."""
    if scene.markers is None:
        raise ps.PosableError(f"{args.file}: expected a file with markers, found none")
    figure = figure_of(args.figure)
    limits = not args.no_limits
    if not args.as_is:
        given = attachments(args.attach)
        figure = ps.calibrate(figure, scene.markers, given, symmetric=args.symmetric, limits=limits)
    take = ps.track(
        figure, scene.markers, smooth=args.smooth, limits=limits, threads=args.threads, progress=not args.json
    )
    if args.out:
        ps.save(args.out, take.motion)
    if args.report:
        take.report.save(args.report, title=Path(args.file).name)
    return figure, take


def run_cameras(args: argparse.Namespace) -> int:
    """Track 2D keypoints of calibrated cameras; with --figure, retarget the motion to it."""
    out = require_out(args, "take.bvh")
    if len(args.files) > 1:
        raise ps.PosableError(f"--cameras: expected one file of keypoints, got {len(args.files)}")
    keypoints = ps.Keypoints.load(
        args.files[0], ps.load_cameras(args.cameras), names=names_of(args.names), fps=args.fps
    )
    take = ps.track(keypoints, smooth=args.smooth)
    motion = ps.retarget(take.motion, figure_of(args.figure)) if args.figure else take.motion
    ps.save(out, motion)
    report = take.report
    data = {
        "ok": report.ok, "verdict": report.verdict, "repairs": list(report.repairs), "frames": report.frames,
        "seconds": report.seconds, "camera_errors": report.camera_errors, "seen": report.seen, "out": out,
    }  # fmt: skip
    show(args, data, report, out)
    return 0 if report.ok else 1


def work(args: argparse.Namespace) -> batch.FileResult:
    """Track one of many files."""
    scene = read_quietly(args)
    report = tracked(args, scene)[1].report
    why = "" if report.ok else report.verdict
    return batch.FileResult(report.frames, report.mean, why, (*scene.notes, *report.repairs))


def run_one(args: argparse.Namespace) -> int:
    """Track one file and print the outcome."""
    figure, take = tracked(args, read(args))
    report = take.report
    data = {
        "ok": report.ok, "verdict": report.verdict, "repairs": list(report.repairs), "notes": list(report.notes),
        "frames_to_check": [list(span) for span in report.frames_to_check],
        "frames": report.frames, "seconds": report.seconds, "mean_error": report.mean,
        "marker_errors": dict(report.marker_errors), "failed": report.count(2), "repaired": report.count(1),
        "blind": report.count(3),
        "outliers": [list(o) for o in report.outliers], "gaps": [list(g) for g in report.gaps],
        "unmatched": list(report.unmatched), "out": args.out, "report": args.report, "stopped": report.stopped,
    }  # fmt: skip
    calibration = f"{figure.info['calibration']}\n" if "calibration" in figure.info else ""
    show(args, data, f"{calibration}{report}", args.out, args.report)
    return 0 if report.ok else 1
