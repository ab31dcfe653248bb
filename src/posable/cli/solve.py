"""`posable solve FIGURE [GOALS...] --reach hand.R=0.4,1.2,0.3 ...`: find a pose that meets goals.

Lengths are in metres, angles in degrees. Write negative numbers after an equals sign. Every goal flag may be
repeated.
"""

import argparse
import dataclasses
import json
from typing import Any

import numpy as np

import posable as ps
from posable._files import write_text
from posable.cli import batch
from posable.cli.arguments import add_figure, add_goals, chosen_figure, goals_of, pair, slides_of, start_of

EXAMPLE = "posable solve human --fix foot.L,foot.R --reach hand.R=-0.4,1.2,0.3 --aim head:z=0,1.5,3 --plot pose.png"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    add_figure(parser)
    parser.add_argument("files", metavar="GOALS", nargs="*", help="TOML files with goals; each file gives one pose")
    add_goals(parser)
    parser.add_argument("--write-goals", metavar="FILE", help="write all goals to a TOML file")
    work = parser.add_argument_group("solver")
    work.add_argument("--solver", default="newton", help=f"one of {', '.join(ps.solvers.names())}")
    work.add_argument(
        "--restarts", type=restarts_of, default=0, metavar="N|auto",
        help="random restarts if stuck; auto: until solved or unlikely to help (default: 0)",
    )  # fmt: skip
    work.add_argument("--seed", type=int, default=0, help="seed of the random starts (default: 0)")
    work.add_argument(
        "--swivel", type=float, metavar="RAD", help="swivel angle of the limbs [rad]; uses the limb solver"
    )
    work.add_argument("--no-limits", action="store_true", help="ignore joint limits")
    add_method(work)
    out = parser.add_argument_group("output")
    out.add_argument("--remedy", action="store_true", help="if goals are missed, list what would have to change")
    out.add_argument("--plot", metavar="FILE", help="draw the pose: png, svg or pdf")
    out.add_argument(
        "-o",
        "--out",
        "--save",
        dest="save",
        metavar="FILE",
        help="write the pose as one frame: bvh, amc, glb, csv or npz",
    )
    batch.add(parser)


def restarts_of(text: str) -> int | str:
    """Return a number of restarts, or "auto"."""
    if text != "auto" and not text.lstrip("-").isdecimal():
        raise argparse.ArgumentTypeError(f"expected an integer or auto, got {text!r}")
    return text if text == "auto" else int(text)


def add_method(group: Any) -> None:
    """Add the flags that control a solve: options of the solver, start, iterations, weights, joints."""
    group.add_argument(
        "--option", metavar="NAME=VALUE", action="append", default=[],
        help="solver option: damping=0.1, order=ranked, step=0.01, gains=0.5, toward=rest, alpha=1e-4, ...",
    )  # fmt: skip
    group.add_argument(
        "--start", metavar="NAME|FILE[:FRAME]",
        help="start from a named pose of a robot (a state of its SRDF or keyframe of its MJCF), or a pose of a motion "
        "file or of --json output",
    )  # fmt: skip
    group.add_argument("--max-iterations", type=int, metavar="N", help="maximum number of iterations")
    group.add_argument(
        "--weight", metavar="GOAL=FACTOR", action="append", default=[], help="multiply the weight of a goal"
    )
    group.add_argument("--freeze", metavar="JOINT,JOINT,...", default="", help="joints that keep their values")
    group.add_argument(
        "--strength", metavar="JOINT=S", action="append", default=[], help="how readily a joint moves (default: 1)"
    )


def run(args: argparse.Namespace) -> int:
    """Solve for the goals of the command line, or for those of many files."""
    if batch.is_batch(args, args.files, args.save):
        chosen_figure(args)  # fail before any work is done
        if args.plot or args.write_goals:
            raise ps.PosableError("--plot, --write-goals: expected goals of one file, got many files")
        needs = ("goals",) if args.figure in ps.figures.names() else ("goals", "figure", "srdf")
        measure = "mean error of the goals [m, rad]"
        return batch.run(
            args, work, args.files, args.save, verb="solve", measure=measure, report=".answer.json", needs=needs
        )  # fmt: skip
    return run_one(argparse.Namespace(**vars(args), file=args.files[0] if args.files else None))


def solved(args: argparse.Namespace, skeleton: ps.Skeleton, goals: list[ps.goals.Goal]) -> ps.Result:
    """Solve for goals."""
    if not goals:
        raise ps.errors.GoalError("solve", expected="a goal, such as --reach hand.R=0.4,1.2,0.3", got="none")
    solver = solver_of("limb" if args.swivel is not None else args.solver, args.option, swivel=args.swivel)
    return ps.solve(
        skeleton, weighted(goals, args.weight), solver=solver, restarts=args.restarts, seed=args.seed,
        limits=not args.no_limits, start=start_of(args.start, skeleton), max_iterations=args.max_iterations,
    )  # fmt: skip


def solver_of(name: str, words: list[str], **given: Any) -> Any:
    """Return a solver by name with options NAME=VALUE; `given` options that are not None are added."""
    method = ps.solvers.get(name)
    known = {field.name: field for field in dataclasses.fields(method)}
    options = {key: value for key, value in given.items() if value is not None}
    for word in words:
        key, text = pair("--option", "NAME=VALUE", word)
        if key not in known:
            raise ps.errors.unknown(f"option of {name}", key, known)
        options[key] = ps.solvers.option_value(text)
    return method(**options)


def weighted(goals: list[ps.goals.Goal], words: list[str]) -> list[ps.goals.Goal]:
    """Multiply the weights of goals by label, GOAL=FACTOR."""
    for word in words:
        label, factor = pair("--weight", "GOAL=FACTOR", word, float)
        chosen = [goal for goal in goals if goal.label == label]
        if not chosen or factor < 0.0:
            raise ps.errors.unknown("goal", label, [goal.label for goal in goals if goal.label])
        for goal in chosen:
            for name in ("weight", "rotation_weight"):
                if getattr(goal, name, None) is not None:
                    setattr(goal, name, factor * np.asarray(getattr(goal, name)))
    return goals


def prepared(args: argparse.Namespace) -> ps.Skeleton:
    """Return the figure of a command line, with its frozen joints and their strengths."""
    skeleton = chosen_figure(args)
    strengths = dict(pair("--strength", "JOINT=S", word, float) for word in args.strength)
    for joint in strengths:
        skeleton.joint(joint)  # raises for a wrong name
    if strengths:
        joints = [dataclasses.replace(j, gain=strengths.get(j.name, j.gain)) for j in skeleton.joints]
        skeleton = skeleton.replace(joints=joints)
    return skeleton.freeze([name for name in args.freeze.split(",") if name]) if args.freeze else skeleton


def work(args: argparse.Namespace) -> batch.FileResult:
    """Solve for the goals of one of many files."""
    skeleton = prepared(args)
    result = solved(args, skeleton, goals_of(args, skeleton))
    ps.save(args.out, ps.Motion(skeleton, result.pose[None], 30.0))
    write_text(args.report, json.dumps(summary(skeleton, result), indent=2) + "\n")
    mean = sum(result.errors.values()) / len(result.errors) if result.errors else None
    return batch.FileResult(1, mean, "" if result.ok else f"{result.status}: {result.message}")


def run_one(args: argparse.Namespace) -> int:
    """Solve for the goals of the command line, report the result, draw and save."""
    skeleton = prepared(args)
    goals = goals_of(args, skeleton)
    if args.write_goals and goals:
        ps.goals.save(args.write_goals, goals)
    result = solved(args, skeleton, goals)
    if args.plot:
        ps.plots.draw(
            skeleton, result.pose, goals, ghost=skeleton.rest, path=args.plot, title=result.message.partition(":")[0]
        )
    if args.save:
        ps.save(args.save, ps.Motion(skeleton, result.pose[None], 30.0))
    remedies = result.remedy() if args.remedy else []
    if args.json:
        more = {"remedies": [remedy_data(remedy) for remedy in remedies]} if args.remedy else {}
        print(json.dumps(summary(skeleton, result) | more, indent=2))
    else:
        print(result)
        if args.remedy and not result.ok and not remedies:
            print("No change was found that reaches the goals.")
        if remedies:
            print("Each of these changes reaches the goals:", *(f"  {remedy}" for remedy in remedies), sep="\n")
        if args.swivel is not None:  # the swivel angle reached, and its feasible ranges
            analysis = ps.explain(skeleton, goals, result.pose, limits=not args.no_limits, limbs=True)
            print("\n".join(analysis.limbs))
        written = [file for file in (args.plot, args.save, args.write_goals) if file]
        print(f"wrote {', '.join(written)}" if written else pose_text(skeleton, result.pose))
    return 0 if result.ok else 1


def summary(skeleton: ps.Skeleton, result: ps.Result) -> dict[str, Any]:
    """Return a result as plain data."""
    return {
        "ok": result.ok,
        "status": str(result.status),
        "message": result.message,
        "errors": result.errors,
        "chosen": result.chosen,
        "iterations": result.iterations,
        "seconds": result.seconds,
        "solver": result.solver,
        "pose": dict(zip(skeleton.dof_names, result.pose.tolist(), strict=True)),
        "blocking": [
            {"dof": b.dof, "side": b.side, "multiplier": b.multiplier, "cost": b.cost} for b in result.blocking
        ],
        "reasons": [vars(reason) for reason in result.reasons],
    }


def remedy_data(remedy: Any) -> dict[str, Any]:
    """Return a remedy as plain data."""
    return {
        "text": remedy.text,
        "limits": remedy.limits,
        "targets": {label: np.asarray(target).tolist() for label, target in remedy.targets.items()},
        "goals": [goal.label for goal in remedy.goals],
        "size": remedy.size,
        "start": None if remedy.start is None else remedy.start.tolist(),
        "verified": remedy.verified,
    }


def pose_text(skeleton: ps.Skeleton, pose: np.ndarray) -> str:
    """Return the joints that have moved, as text: degrees, or metres for slides."""
    lines = ["Pose [deg, m] of the joints that are not at rest:"]
    for joint, where in zip(skeleton.joints, skeleton.slices, strict=True):
        if np.abs(pose[where] - skeleton.rest[where]).max(initial=0.0) > 1e-3:
            values = zip(pose[where], slides_of(joint), strict=True)
            lines.append(
                f"  {joint.name}: " + ", ".join(f"{x:.3f}" if s else f"{np.degrees(x):.1f}" for x, s in values)
            )
    return "\n".join(lines)
