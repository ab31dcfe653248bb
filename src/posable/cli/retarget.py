"""`posable retarget MOTION... --to FIGURE -o OUT`: transfer a motion to another figure, human or robot.

Foot contacts are kept, and joint limits hold.
"""

import argparse
from typing import Any

import posable as ps
from posable.cli import batch
from posable.cli.arguments import add_files, character_of, figure_of, read, read_quietly, show

EXAMPLE = "posable retarget take.bvh --to robot.urdf -o out.csv"
WORST_SLIP = 0.005  # [m] of a planted foot


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    add_files(parser, "MOTION")
    parser.add_argument("--to", required=True, metavar="FIGURE", help="a file with a skeleton, or a figure by name")
    parser.add_argument(
        "--map", action="append", default=[], metavar="FROM=TO", help="map a joint to a joint; FROM= leaves it out"
    )
    parser.add_argument(
        "--smooth",
        type=float,
        default=0.22,
        metavar="SECONDS",
        help="smooth out motion faster than this (default: 0.22)",
    )
    parser.add_argument("--no-contacts", action="store_true", help="do not lock planted feet")
    parser.add_argument("--no-touches", action="store_true", help="do not preserve hand contacts")
    parser.add_argument(
        "--objects", action="append", default=[], metavar="OBJ", help="a mesh to stand on and to avoid; repeatable"
    )
    parser.add_argument(
        "--layout", choices=("mujoco", "gmr", "beyondmimic", "unitree"), help="layout of robot motion for training code"
    )
    batch.add(parser)


def counterparts(words: list[str]) -> dict[str, str | None] | None:
    """Return {from: to} of FROM=TO words."""
    mapping = {}
    for word in words:
        source, equals, target = word.partition("=")
        if not (source and equals):
            raise ps.PosableError(f"--map: expected FROM=TO, got {word!r}")
        mapping[source] = target or None
    return mapping or None


def run(args: argparse.Namespace) -> int:
    """Retarget one file, or many."""
    if batch.is_batch(args, args.files, args.out):
        figure_of(args.to)  # fail before any work is done
        counterparts(args.map)
        measure = "mean slip of planted feet [m]"
        return batch.run(args, work, args.files, args.out, verb="retarget", measure=measure, needs=("to", "skeleton"))
    return run_one(argparse.Namespace(**vars(args), file=args.files[0]))


def retargeted(args: argparse.Namespace, scene: ps.Scene) -> tuple[Any, list[float], bool]:
    """Retarget and save; return the result, the slips of planted feet [m], and whether it is complete."""
    if scene.motion is None:
        raise ps.PosableError(f"{args.file}: expected a file with motion, found none")
    target = character_of(args.to)
    result = ps.retarget(
        scene.motion, target.skeleton, counterparts(args.map), contacts=not args.no_contacts,
        touches=not args.no_touches, objects=args.objects, smooth=args.smooth, threads=args.threads,
        progress=not args.json,
    )  # fmt: skip
    complete = len(result) == len(scene.motion)
    if args.out:
        scene = ps.Scene(result.skeleton, result, meshes=target.meshes, name=result.name)
        ps.save(args.out, scene, layout=args.layout)
    if args.report:
        result.save_report(args.report)
    slips = [] if result.contacts is None else [float(slip) for slip in result.contacts.slips(result)]
    return result, slips, complete


def work(args: argparse.Namespace) -> batch.FileResult:
    """Retarget one of many files."""
    scene = read_quietly(args)
    result, slips, _ = retargeted(args, scene)
    worst = max(slips, default=0.0)
    why = f"a planted foot slips {1e3 * worst:.1f} mm" if worst > WORST_SLIP else ""
    mean = sum(slips) / len(slips) if slips else None
    return batch.FileResult(len(result), mean, why, (*scene.notes, *result.notes))


def run_one(args: argparse.Namespace) -> int:
    """Retarget one file and print the outcome."""
    scene = read(args)
    result, slips, whole = retargeted(args, scene)
    quality = ps.motion_quality(result, result.source, objects=args.objects) if len(result) > 2 else None
    data = {
        "frames": len(result), "scale": result.scale, "slips": slips, "notes": list(result.notes),
        "mapping": {role: list(pair) for role, pair in result.mapping.items()},
        "quality": None if quality is None else dict(quality), "out": args.out, "report": args.report,
    }  # fmt: skip
    show(args, data, result if quality is None else f"{result}\nquality:\n{quality}", args.out, args.report)
    return 1 if not whole or max(slips, default=0.0) > WORST_SLIP else 0
