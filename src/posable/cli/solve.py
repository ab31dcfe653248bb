"""`posable solve FIGURE --reach hand.R=0.4,1.2,0.3 ...`: a pose for goals given on the command line or in files."""

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np

import posable as ps
from posable._files import write_text
from posable.cli import batch
from posable.cli.info import figure_of

EXAMPLE = "posable solve human --fix foot.L,foot.R --reach hand.R=-0.4,1.2,0.3 --aim head:z=0,1.5,3 --plot pose.png"


def add(subparsers: Any) -> argparse.ArgumentParser:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "solve",
        help="find the pose that does what you ask",
        description="Find the pose that does what you ask. Lengths are metres, angles degrees. Write negative numbers "
        "after an equals sign. A goal may be given several times.",
    )
    parser.add_argument("figure", metavar="FIGURE", help=f"{', '.join(ps.figures.names())}, or a file with a skeleton")
    parser.add_argument(
        "files", metavar="GOALS", nargs="*", help="a TOML file with goals; of many, each is a pose of its own"
    )
    add_goals(parser)
    parser.add_argument("--write-goals", metavar="FILE", help="write all goals to a TOML file")
    work = parser.add_argument_group("the solve")
    work.add_argument("--solver", default="newton", help=f"one of {', '.join(ps.solvers.names())}")
    work.add_argument(
        "--restarts", type=restarts_of, default=0, metavar="N|auto",
        help="random restarts if it is stuck; auto: until it is solved or proved unlikely",
    )  # fmt: skip
    work.add_argument("--seed", type=int, default=0, help="seed of the random starts")
    work.add_argument("--swivel", type=float, metavar="RAD", help="swivel angle of the limbs [rad], by the limb solver")
    work.add_argument("--no-limits", action="store_true", help="let joints turn past their limits")
    add_method(work)
    out = parser.add_argument_group("what becomes of it")
    out.add_argument("--remedy", action="store_true", help="if goals are missed, say what would have to change")
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
    return parser


def restarts_of(text: str) -> int | str:
    """Return a number of restarts, or "auto"."""
    return text if text == "auto" else int(text)


def add_method(group: Any) -> None:
    """Add the flags that control a solve: options of the solver, start, iterations, weights, joints."""
    group.add_argument(
        "--option", metavar="NAME=VALUE", action="append", default=[],
        help="an option of the solver: damping=0.1, order=ranked, step=0.01, gains=0.5, toward=rest, alpha=1e-4, ...",
    )  # fmt: skip
    group.add_argument(
        "--start", metavar="FILE[:FRAME]", help="start from a pose of a motion file, or of --json's output"
    )
    group.add_argument("--max-iterations", type=int, metavar="N", help="largest number of iterations")
    group.add_argument(
        "--weight", metavar="GOAL=FACTOR", action="append", default=[], help="multiply the weight of a goal"
    )
    group.add_argument("--freeze", metavar="JOINT,JOINT,...", default="", help="joints that keep their values")
    group.add_argument(
        "--strength", metavar="JOINT=S", action="append", default=[], help="how readily a joint moves; 1 by default"
    )


def add_goals(parser: argparse.ArgumentParser) -> None:
    """Add a flag for every kind of goal."""
    goals = parser.add_argument_group("goals")
    for flag, form, meaning, _ in GOALS:
        goals.add_argument(flag, metavar=form, action="append", default=[], help=meaning)
    goals.add_argument("--balance", action="store_true", help="keep the centre of mass over the feet")
    goals.add_argument(
        "--posture", nargs="?", const="rest", choices=("rest", "middle"), help="stay near rest or mid-range"
    )
    goals.add_argument("--goals", metavar="FILE", help="read more goals from a TOML file")


def run(args: argparse.Namespace) -> int:
    """Solve for the goals of the command line, or for those of many files."""
    if batch.is_batch(args, args.files, args.save):
        figure_of(args.figure)  # a wrong call fails before any work is done
        if args.plot or args.write_goals:
            raise ps.PosableError("--plot, --write-goals: expected goals of one file, got many files")
        needs = ("goals",) if args.figure in ps.figures.names() else ("goals", "figure")
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
        try:
            key, text = split(word)
        except ValueError:
            raise ps.PosableError(f"--option: expected NAME=VALUE, got {word!r}") from None
        if key not in known:
            raise ps.errors.unknown(f"option of {name!r}", key, known)
        options[key] = ps.solvers.option_value(text)
    return method(**options)


def start_of(text: str | None, skeleton: ps.Skeleton) -> np.ndarray | None:
    """Return the pose of FILE or FILE:FRAME (from 0, -1 for the last): a motion, or the output of `solve --json`."""
    if text is None:
        return None
    name, _, frame = text.rpartition(":") if text.rpartition(":")[2].lstrip("-").isdigit() else (text, "", "0")
    if Path(name).suffix == ".json":
        pose = json.loads(Path(name).read_text(encoding="utf-8")).get("pose", {})
        missing = [dof for dof in skeleton.dof_names if dof not in pose]
        if missing:
            raise ps.PosableError(f"--start: expected a pose of this figure in {name}, found no {missing[0]!r}")
        return np.array([float(pose[dof]) for dof in skeleton.dof_names])
    motion = ps.load(name).motion
    if motion is None or not -len(motion) <= int(frame) < len(motion):
        raise ps.PosableError(f"--start: expected a motion with frame {frame}, got {name}")
    if motion.skeleton.dof_names != skeleton.dof_names:
        raise ps.PosableError(f"--start: expected a motion of this figure, {name} has other joints")
    return motion.poses[int(frame)]


def weighted(goals: list[ps.goals.Goal], words: list[str]) -> list[ps.goals.Goal]:
    """Multiply the weights of goals by label, GOAL=FACTOR."""
    for word in words:
        try:
            label, text = split(word)
            factor = float(text)
        except ValueError:
            raise ps.PosableError(f"--weight: expected GOAL=FACTOR, got {word!r}") from None
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
    skeleton = figure_of(args.figure)
    strengths = {}
    for word in args.strength:
        try:
            joint, text = split(word)
            strengths[joint] = float(text)
        except ValueError:
            raise ps.PosableError(f"--strength: expected JOINT=S, got {word!r}") from None
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
        told = {"remedies": [remedy_data(remedy) for remedy in remedies]} if args.remedy else {}
        print(json.dumps(summary(skeleton, result) | told, indent=2))
    else:
        print(result)
        if args.remedy and not result.ok and not remedies:
            print("No change was found that a solve confirms.")
        if remedies:
            print("Each of these changes alone reaches the goals:", *(f"  {remedy}" for remedy in remedies), sep="\n")
        if args.swivel is not None:  # the swivel angle reached, and its feasible ranges
            told = ps.explain(skeleton, goals, result.pose, limits=not args.no_limits, limbs=True)
            print("\n".join(told.limbs))
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
    """Return the joints that have moved: degrees, or metres for slides."""
    lines = ["Pose [deg, m], where it is not at rest:"]
    for joint, where in zip(skeleton.names, skeleton.slices, strict=True):
        if np.abs(pose[where] - skeleton.rest[where]).max(initial=0.0) > 1e-3:
            slides = [".t" in name for name in skeleton.dof_names[where]]
            numbers = [x if slide else np.degrees(x) for x, slide in zip(pose[where], slides, strict=True)]
            lines.append(
                f"  {joint}: "
                + ", ".join(f"{x:.3f}" if slide else f"{x:.1f}" for x, slide in zip(numbers, slides, strict=True))
            )
    return "\n".join(lines)


# ------------------------------------------------------------------------------------------------- goals from words


def goals_of(args: argparse.Namespace, skeleton: ps.Skeleton) -> list[ps.goals.Goal]:
    """Return every goal of a command line, those of its file first."""
    goals = [goal for path in (args.goals, getattr(args, "file", None)) if path for goal in ps.goals.load(path)]
    for flag, form, _, make in GOALS:
        for text in getattr(args, flag.lstrip("-").replace("-", "_")):
            try:
                made = make(text, skeleton)
            except (ValueError, IndexError):
                raise ps.errors.GoalError(flag, expected=form, got=repr(text)) from None
            goals += made if isinstance(made, list) else [made]
    if args.balance:
        goals.append(ps.goals.Balance())
    if args.posture:
        goals.append(ps.goals.Posture(args.posture))
    return goals


def numbers(text: str, count: int) -> np.ndarray:
    """Return comma-separated numbers; raises ValueError if their count is wrong."""
    values = [float(part) for part in text.split(",")]
    if len(values) != count:
        raise ValueError(text)
    return np.array(values)


def split(text: str, sign: str = "=") -> tuple[str, str]:
    """Return the parts before and after a separator; raises ValueError if it is missing."""
    before, found, after = text.partition(sign)
    if not found or not before or not after:
        raise ValueError(text)
    return before, after


def axis_of(text: str) -> tuple[str, str, np.ndarray]:
    """Return body, axis and three numbers of BODY:AXIS=X,Y,Z."""
    before, after = split(text)
    body, axis = split(before, ":")
    return body, axis, numbers(after, 3)


def placed(text: str) -> tuple[str, np.ndarray, np.ndarray]:
    """Return body, point and direction of BODY=X,Y,Z:X,Y,Z."""
    body, after = split(text)
    point, direction = split(after, ":")
    return body, numbers(point, 3), numbers(direction, 3)


def _turn(text: str, _: ps.Skeleton) -> Any:
    body, after = split(text)
    table = {"kind": "Orientation", "body": body, "rotation": {"euler": "xyz", "degrees": numbers(after, 3).tolist()}}
    return ps.goals.from_table(table)


def _fix(text: str, skeleton: ps.Skeleton) -> Any:
    frames = ps.forward(skeleton, skeleton.rest)
    try:
        return [ps.goals.Pose(body, frames.matrix(body), label=f"{body} fixed") for body in text.split(",")]
    except ps.errors.UnknownName as error:
        raise ps.errors.GoalError(f"--fix: {error}") from None


def _distance(text: str, _: ps.Skeleton) -> Any:
    bodies, length = split(text)
    body, other = split(bodies, ",")
    return ps.goals.Distance(body, other, float(length))


def _hold(text: str, _: ps.Skeleton) -> Any:
    bodies, place = text.partition("=")[::2]
    body, other = split(bodies, ",")
    return ps.goals.Relative(body, other, numbers(place, 3) if place else None)


def _keep_out(text: str, _: ps.Skeleton) -> Any:
    body, shape = split(text)
    kind, rest = shape.partition(":")[::2]
    if not rest:
        return ps.goals.Avoid(body, kind)
    if kind == "sphere":
        values = numbers(rest, 4)
        return ps.goals.Avoid(body, ps.goals.Sphere(values[:3], values[3]))
    if kind == "capsule":
        values = numbers(rest, 7)
        return ps.goals.Avoid(body, ps.goals.Capsule(values[:3], values[3:6], values[6]))
    if kind == "wall":
        values = numbers(rest, 6)
        return ps.goals.Avoid(body, ps.goals.Wall(values[:3], values[3:]))
    raise ValueError(text)


def _couple(text: str, _: ps.Skeleton) -> Any:
    follower, after = split(text)
    leader, *rest = after.split(",")
    ratio, offset = [*(float(part) for part in rest), *(1.0, 0.0)[len(rest) :]]
    return ps.goals.Coupling(follower, leader, ratio=ratio, offset=float(np.radians(offset)))


def _reach(text: str, _: ps.Skeleton) -> Any:
    body, point = split(text)
    return ps.goals.Position(body, numbers(point, 3))


# flag, its argument, its help, the function that makes the goal
GOALS = (
    ("--reach", "BODY=X,Y,Z", "bring a body to a point", _reach),
    ("--turn", "BODY=X,Y,Z", "turn a body to Euler angles xyz", _turn),
    ("--fix", "BODY,BODY,...", "keep bodies where they are at rest", _fix),
    ("--aim", "BODY:AXIS=X,Y,Z", "aim an axis of a body at a point",
     lambda text, _: ps.goals.Aim(*axis_of(text))),
    ("--along", "BODY:AXIS=X,Y,Z", "turn an axis of a body along a direction",
     lambda text, _: ps.goals.Direction(*axis_of(text))),
    ("--plane", "BODY=X,Y,Z:NX,NY,NZ", "bring a body onto a plane: point and normal",
     lambda text, _: ps.goals.Plane(*placed(text))),
    ("--line", "BODY=X,Y,Z:DX,DY,DZ", "bring a body onto a line: point and direction",
     lambda text, _: ps.goals.Line(*placed(text))),
    ("--side", "BODY=X,Y,Z:NX,NY,NZ", "keep a body on one side of a plane",
     lambda text, _: ps.goals.HalfSpace(*placed(text))),
    ("--distance", "BODY,BODY=D", "keep two bodies at a distance", _distance),
    ("--hold", "BODY,BODY[=X,Y,Z]", "hold a body in another's frame, at a point of it if given", _hold),
    ("--mass", "X,Y,Z", "bring the centre of mass to a point", lambda text, _: ps.goals.CenterOfMass(numbers(text, 3))),
    ("--keep-out", "BODY=sphere:X,Y,Z,R",
     "keep a bone out of sphere:X,Y,Z,R, capsule:X,Y,Z,X,Y,Z,R, wall:X,Y,Z,NX,NY,NZ, or another bone", _keep_out),
    ("--couple", "JOINT=JOINT[,RATIO[,OFFSET]]", "let a joint follow another", _couple),
)  # fmt: skip
