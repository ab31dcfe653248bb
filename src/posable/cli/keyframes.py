"""`posable keyframes FIGURE 0=rest 1=reach.toml 2=rest -o OUT`: create a motion through poses and goals at given times.

A key is a time in seconds with a pose: rest, a TOML file with goals, or a frame of a motion file. Frames between keys
respect the joint limits and the goals that both keys share.
"""

import argparse
from pathlib import Path
from typing import Any

import posable as ps
from posable.cli.arguments import add_figure, chosen_figure, show_motion, split, start_of

EXAMPLE = "posable keyframes human 0=rest 1=reach.toml 2=rest --fps 30 -o reach.bvh"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    add_figure(parser)
    parser.add_argument("keys", metavar="SECONDS=KEY", nargs="+", help="rest, a named pose, GOALS.toml or FILE[:FRAME]")
    parser.add_argument("--fps", type=float, default=30.0, help="frames per second (default: 30)")
    parser.add_argument("--no-limits", action="store_true", help="ignore joint limits")
    parser.add_argument("--linear", action="store_true", help="interpolate linearly, without easing")
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of random starts for keys that are hard to reach (default: 0)"
    )
    parser.add_argument("-o", "--out", metavar="OUT", help="output file; its suffix selects the format")


def run(args: argparse.Namespace) -> int:
    """Create the motion and report what was changed between its keys."""
    skeleton = chosen_figure(args)
    keys = dict(key_of(word, skeleton) for word in args.keys)
    if len(keys) < len(args.keys):
        raise ps.PosableError(f"keys: expected each time once, got {' '.join(args.keys)}")
    motion = ps.keyframes(
        skeleton, keys, fps=args.fps, limits=not args.no_limits, eased=not args.linear, seed=args.seed
    )
    if args.out:
        ps.save(args.out, motion)
    notes = "\n".join(motion.notes) or "no frame between the keys needed a correction"
    data = {"frames": len(motion), "seconds": motion.duration, "notes": list(motion.notes)}
    show_motion(args, data, f"{len(motion)} frames, {motion.duration:g} s\n{notes}")
    return 0


def key_of(word: str, skeleton: ps.Skeleton) -> tuple[float, Any]:
    """Return the time [s] and the pose or goals of SECONDS=KEY."""
    try:
        text, key = split(word)
        seconds = float(text)
    except ValueError:
        raise ps.PosableError(f"keys: expected SECONDS=KEY, got {word!r}") from None
    if key == "rest":
        return seconds, skeleton.rest
    if Path(key).suffix == ".toml":
        return seconds, ps.goals.load(key)
    return seconds, start_of(key, skeleton)
