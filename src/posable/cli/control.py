"""`posable control FIGURE --path hand.R=...`: follow targets in a control loop within velocity and acceleration limits.

Every command respects the limits, even if a path jumps or is out of reach. A path is a file with a point X,Y,Z per
line, one line per tick, or waypoints on the command line. Fixed goals are given as for `posable solve`. Lengths are
in metres, angles of goals in degrees.
"""

import argparse
import sys
import time
from typing import Any

import numpy as np

import posable as ps
from posable.cli.arguments import MOST_FRAMES, add_paths, chosen_figure, goals_of, path_goal, show, start_of

EXAMPLE = "posable control panda --path hand=0.5,0.2,0.4:0.5,-0.2,0.4 --velocity 1.5 --plot speeds.png"
BARS = 24  # characters of a bar


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    add_paths(parser)
    work = parser.add_argument_group("control loop")
    work.add_argument(
        "--rate", dest="fps", type=float, default=100.0, metavar="HZ", help="ticks per second (default: 100)"
    )
    work.add_argument("--seconds", type=float, default=2.0, help="duration of a path of waypoints (default: 2)")
    work.add_argument(
        "--stay", type=float, default=1.0, metavar="SECONDS", help="time to stay at the end of the path (default: 1)"
    )
    work.add_argument(
        "--velocity", type=float, metavar="V", help="velocity limit of the joints [rad/s, m/s] (default: from the file)"
    )
    work.add_argument(
        "--acceleration", type=float, metavar="A",
        help="acceleration limit of the joints [rad/s^2, m/s^2] (default: full speed in 0.1 s)",
    )  # fmt: skip
    work.add_argument(
        "--jerk", type=float, metavar="J", help="jerk limit of the joints [rad/s^3, m/s^3] (default: none)"
    )
    work.add_argument("--start", metavar="NAME|FILE[:FRAME]", help="start pose")
    work.add_argument("--no-limits", action="store_true", help="ignore joint limits")
    work.add_argument("--live", action="store_true", help="run in real time and show joint speeds")
    parser.add_argument("--plot", metavar="PNG", help="plot joint speeds and errors over time")
    parser.add_argument(
        "-o", "--out", metavar="OUT", help="write the commands as a motion; the suffix selects the format"
    )


def run(args: argparse.Namespace) -> int:
    """Run the loop and report how fast the joints moved and what they could not follow."""
    skeleton = chosen_figure(args)
    if not (args.fps > 0.0 and 0.0 <= args.stay * args.fps <= MOST_FRAMES):
        raise ps.PosableError(f"--stay: expected 0 s or more, at most {MOST_FRAMES} ticks, got {args.stay:g}")
    paths = [path_goal(word, args) for word in args.path]
    goals = goals_of(args, skeleton) + [path.moved(path.target[0]) for path in paths]
    controller = ps.Controller(
        skeleton, goals, dt=1.0 / args.fps, velocity=args.velocity, acceleration=args.acceleration, jerk=args.jerk,
        start=start_of(args.start, skeleton), limits=not args.no_limits,
    )  # fmt: skip
    labels = controller.problem.labels[len(goals) - len(paths) :]
    ticks = max(len(path.target) for path in paths) + round(args.stay * args.fps)
    steps, begin = [], time.perf_counter()
    for k in range(ticks):
        now = [path.target[min(k, len(path.target) - 1)] for path in paths]
        steps.append(controller.step(dict(zip(labels, now, strict=True))))
        if args.live:
            _show(controller, steps[-1], k)
            time.sleep(max(begin + (k + 1) / args.fps - time.perf_counter(), 0.0))
    return _report(args, controller, steps)


def _report(args: argparse.Namespace, controller: ps.Controller, steps: list[Any]) -> int:
    """Print a summary of the loop, and write the requested files."""
    velocities = np.array([step.velocity for step in steps])
    errors = {name: np.array([step.errors[name] for step in steps]) for name in steps[-1].errors}
    if args.out:
        ps.save(args.out, ps.Motion(controller.skeleton, np.array([step.pose for step in steps]), args.fps))
    if args.plot:
        ps.plots.draw_speeds(
            controller.skeleton, velocities, controller.velocity_limits, controller.dt, errors, path=args.plot
        )
    shares = np.abs(velocities) / controller.velocity_limits
    fastest = int(shares.max(axis=0).argmax())
    held = sum(bool(step.active.any()) for step in steps)
    data = {
        "ticks": len(steps), "limited": held, "rate": float(shares.max()), "ok": bool(steps[-1].ok),
        "worst": {name: float(values.max()) for name, values in errors.items()},
        "last": {name: float(values[-1]) for name, values in errors.items()},
    }  # fmt: skip
    name = controller.skeleton.dof_names[fastest]
    lines = [f"{len(steps)} ticks, {held} at a limit; fastest {name}, {shares.max():.0%} of its velocity limit"]
    for name, values in errors.items():
        lines.append(f"{name}: largest error {values.max():.3g}, at the end {values[-1]:.3g}")
    show(args, data, "\n".join([*lines, f"at the end: {steps[-1]}"]), args.plot, args.out)
    return 0 if steps[-1].ok else 1


def _show(controller: ps.Controller, step: Any, tick: int) -> None:
    """Draw the speeds of the joints as bars on a terminal, ten times a second, over the previous ones."""
    if not sys.stderr.isatty() or tick % max(round(0.1 / controller.dt), 1):
        return
    names, width = controller.skeleton.dof_names, max(map(len, controller.skeleton.dof_names))
    lines = [f"{tick * controller.dt:6.1f} s  {step}"[:100]]
    for name, speed, most in zip(names, step.velocity, controller.velocity_limits, strict=True):
        filled = round(min(abs(speed) / most, 1.0) * BARS)
        lines.append(f"{name:{width}} {'<' if speed < 0.0 else ' '}{'#' * filled:{BARS}} {speed:7.2f}")
    up = f"\x1b[{len(lines)}A" if tick else ""
    sys.stderr.write(up + "".join(f"\x1b[2K{line}\n" for line in lines))
    sys.stderr.flush()
