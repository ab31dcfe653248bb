"""`posable reach FIGURE --site SITE`: map the points that a figure can reach within its limits.

The points are a grid, or those given with --at.
"""

import argparse
from typing import Any

import numpy as np

import posable as ps
from posable.cli.arguments import add_figure, chosen_figure, numbers, show
from posable.cli.progress import ProgressBar

EXAMPLE = "posable reach human --site hand.R --plot reach.png"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    add_figure(parser)
    parser.add_argument("--site", required=True, help="the site or joint that reaches")
    parser.add_argument("--grid", type=float, default=0.1, metavar="METRES", help="spacing of the grid (default: 0.1)")
    parser.add_argument("--at", action="append", metavar="X,Y,Z", help="a point to test instead of a grid; repeatable")
    parser.add_argument("--orientations", type=int, metavar="N", help="test N orientations at every point")
    parser.add_argument("--plot", metavar="FILE", help="draw sections of the workspace")


def run(args: argparse.Namespace) -> int:
    """Map the workspace; return 0 if every given point, or any point of a grid, is reached."""
    skeleton = chosen_figure(args)
    points = None if args.at is None else np.array([_point(text) for text in args.at])
    reach = ps.reach(
        skeleton, args.site, points, grid=args.grid, orientations=args.orientations,
        progress=None if args.json else ProgressBar(),
    )  # fmt: skip
    if args.plot:
        reach.plot(args.plot)
    lines = [str(reach)]
    for point, good, room in zip(reach.points, reach.reachable, reach.clearance, strict=True) if args.at else ():
        verdict = f"reached, {room:.3f} clear of the limits" if good else "out of reach"
        lines.append(f"  {', '.join(f'{x:g}' for x in point)}: {verdict}")
    show(args, _as_json(reach, points is not None), "\n".join(lines), args.plot)
    return 0 if (reach.reachable.all() if args.at else reach.reachable.any()) else 1


def _point(text: str) -> np.ndarray:
    try:
        return numbers(text, 3)
    except ValueError:
        raise ps.PosableError(f"--at: expected three numbers X,Y,Z, got {text!r}") from None


def _as_json(reach: Any, listed: bool) -> dict[str, Any]:
    out: dict[str, Any] = {
        "site": reach.site,
        "points": len(reach.points),
        "reachable": int(reach.reachable.sum()),
        "dexterous": int(reach.dexterous.sum()),
        "volume": None if np.isnan(reach.volume) else reach.volume,
        "clearance": float(np.nanmax(reach.clearance)) if reach.reachable.any() else None,
    }
    if listed:
        rows = zip(reach.points.tolist(), reach.reachable.tolist(), reach.dexterity.tolist(), strict=True)
        out["tried"] = [{"point": p, "reachable": good, "dexterity": share} for p, good, share in rows]
    return out
