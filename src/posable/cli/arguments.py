"""Arguments that several verbs share: files and how they are read, goals, start poses, paths."""

import argparse
import json
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import posable as ps
from posable._files import read_regular

MOST_FRAMES = 10_000_000  # of a path on the command line

# --- Files and figures ---


def add_figure(parser: argparse.ArgumentParser) -> None:
    """Add the figure, and what is given beside the file of a robot."""
    parser.add_argument("figure", metavar="FIGURE", help=f"{', '.join(ps.figures.names())}, or a file with a skeleton")
    add_robot(parser)


def add_robot(parser: argparse.ArgumentParser) -> None:
    """Add what is given beside the file of a robot."""
    parser.add_argument("--srdf", metavar="FILE", help="SRDF of a URDF: disabled pairs, groups, named states")
    parser.add_argument(
        "--xacro", metavar="NAME=VALUE", action="append", default=[], help="argument of a xacro file; repeatable"
    )
    parser.add_argument("--floating", action="store_true", help="give a robot a free root if its file fixes it")


def add_files(parser: argparse.ArgumentParser, what: str) -> None:
    """Add the input files of a verb that works on one take or on many, how they are read, and its output."""
    parser.add_argument("files", metavar=what, nargs="+", help="one file, or several with a folder as -o")
    parser.add_argument("-o", "--out", metavar="OUT", help="output file; its suffix selects the format")
    parser.add_argument("--report", metavar="HTML", help="write a report for the browser")
    parser.add_argument("--threads", type=int, help="number of threads (default: all cores)")
    add_reading(parser)


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Add the flags for information that a file does not contain."""
    parser.add_argument(
        "--skeleton", metavar="FIGURE", help="figure of a motion file without a skeleton: a file or a name"
    )
    parser.add_argument("--unit", help="length unit of the file: mm, cm, m, in, asf, or metres per unit")
    parser.add_argument(
        "--up", choices=("y", "z"), help="axis that points up; the scene is rotated if the up axis of the file differs"
    )
    parser.add_argument("--fps", type=float, help="frame rate of the file")
    parser.add_argument(
        "--names", help="joints of an array of keypoints: a set such as coco17, or names separated by commas"
    )


def read(args: argparse.Namespace, **options: Any) -> ps.Scene:
    """Load the file of a command line, with more options of `ps.load`; print a line to stderr for each repair."""
    scene = read_quietly(args, **options)
    for note in scene.notes:
        print(f"note: {note}", file=sys.stderr)
    return scene


def read_quietly(args: argparse.Namespace, **options: Any) -> ps.Scene:
    """Load the file of a command line without warnings; repairs are in its notes."""
    unit = args.unit
    if unit is not None:
        with suppress(ValueError):  # the name of a unit
            unit = float(unit)
    skeleton = args.skeleton
    if skeleton and is_built_in(skeleton):
        skeleton = ps.figures.get(skeleton)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.PosableWarning)
        return ps.load(
            args.file, skeleton=skeleton, unit=unit, up=args.up, fps=args.fps, names=names_of(args.names), **options
        )


def names_of(text: str | None) -> str | list[str] | None:
    """Return the set of keypoints, or the names of joints, that --names states."""
    return text.split(",") if text is not None and "," in text else text


def is_built_in(name: str) -> bool:
    """Return whether a name is that of a built-in figure, and not of a file."""
    return not Path(name).is_file() and name in ps.figures.names()


def chosen_figure(args: argparse.Namespace) -> ps.Skeleton:
    """Return the figure of a command line with `add_figure`."""
    return character_of(args.figure, **robot_options(args)).skeleton


def robot_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of `ps.load` that a command line with `add_robot` states."""
    xacro = dict(pair("--xacro", "NAME=VALUE", word) for word in args.xacro) or None
    return {"srdf": args.srdf, "xacro": xacro, "floating": args.floating}


def figure_of(name: str) -> ps.Skeleton:
    """Return the skeleton of a file, or a built-in figure by name.

    Raises:
        PosableError: The name is neither a figure nor a file with a skeleton.
    """
    return character_of(name).skeleton


def character_of(name: str, **options: Any) -> ps.Scene:
    """Return the scene of a file with a skeleton, or of a built-in figure by name; the options are those of `ps.load`.

    Raises:
        PosableError: The name is neither a figure nor a file with a skeleton.
    """
    if is_built_in(name):
        if any(options.values()):
            words = ", ".join(f"--{option}" for option, value in options.items() if value)
            raise ps.PosableError(f"{words}: expected the file of a robot, got the built-in figure {name!r}")
        return ps.Scene(ps.figures.get(name))
    if not Path(name).exists() and not Path(name).suffix:
        raise ps.errors.unknown("figure", name, ps.figures.names())
    scene = ps.load(name, **options)
    if not scene.has_skeleton:
        raise ps.errors.FormatError(
            path=name, expected="a file with a skeleton", found=scene.summary() or "an empty one"
        )
    return scene


def slides_of(joint: ps.Joint) -> list[bool]:
    """Return which degrees of freedom of a joint are lengths [m]; the others are angles [rad]."""
    return [dof.kind == ps.Prismatic.kind for dof in joint.motion.dofs]


def require_out(args: argparse.Namespace, example: str) -> str:
    """Return the output file.

    Raises:
        PosableError: The command line has none.
    """
    if not args.out:
        raise ps.PosableError(f"expected an output file, such as -o {example}")
    return args.out


def add_calibration(parser: argparse.ArgumentParser) -> None:
    """Add how a figure is fitted to an actor."""
    parser.add_argument("--symmetric", action="store_true", help="give left and right bones the same length")
    parser.add_argument(
        "--attach", action="append", default=[], metavar="MARKER=JOINT",
        help="attach a marker to the bone of a joint; repeatable",
    )  # fmt: skip
    parser.add_argument("--no-limits", action="store_true", help="ignore joint limits")


def attachments(words: list[str]) -> dict[str, str] | None:
    """Return {marker: joint} of MARKER=JOINT words."""
    return dict(pair("--attach", "MARKER=JOINT", word) for word in words) or None


# --- Goals ---


def add_goals(parser: argparse.ArgumentParser) -> None:
    """Add a flag for every kind of goal."""
    goals = parser.add_argument_group("goals")
    for flag, form, meaning, _ in GOALS:
        goals.add_argument(flag, metavar=form, action="append", default=[], help=meaning)
    goals.add_argument("--balance", action="store_true", help="keep the centre of mass above the feet")
    goals.add_argument(
        "--no-collision", metavar="MARGIN", nargs="?", const=0.0, type=float,
        help="keep the shapes of a robot this far off each other [m]; 0 by default",
    )  # fmt: skip
    goals.add_argument(
        "--posture", nargs="?", const="rest", choices=("rest", "middle"),
        help="stay near the rest pose or the middle of the joint ranges",
    )  # fmt: skip
    goals.add_argument("--goals", metavar="FILE", help="read more goals from a TOML file")


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
    if args.no_collision is not None:
        goals.append(ps.goals.NoCollision(margin=args.no_collision))
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


def pair(flag: str, form: str, word: str, read: Callable[[str], Any] = str) -> tuple[str, Any]:
    """Return the two sides of a word of some form, such as GOAL=FACTOR, the second one as `read` returns it."""
    try:
        before, after = split(word)
        return before, read(after)
    except ValueError:
        raise ps.PosableError(f"{flag}: expected {form}, got {word!r}") from None


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
    ("--fix", "BODY,BODY,...", "keep bodies where they are in the rest pose", _fix),
    ("--aim", "BODY:AXIS=X,Y,Z", "aim an axis of a body at a point",
     lambda text, _: ps.goals.Aim(*axis_of(text))),
    ("--along", "BODY:AXIS=X,Y,Z", "align an axis of a body with a direction",
     lambda text, _: ps.goals.Direction(*axis_of(text))),
    ("--plane", "BODY=X,Y,Z:NX,NY,NZ", "bring a body onto a plane: point and normal",
     lambda text, _: ps.goals.Plane(*placed(text))),
    ("--line", "BODY=X,Y,Z:DX,DY,DZ", "bring a body onto a line: point and direction",
     lambda text, _: ps.goals.Line(*placed(text))),
    ("--side", "BODY=X,Y,Z:NX,NY,NZ", "keep a body on one side of a plane",
     lambda text, _: ps.goals.HalfSpace(*placed(text))),
    ("--distance", "BODY,BODY=D", "keep two bodies a distance apart", _distance),
    ("--hold", "BODY,BODY[=X,Y,Z]", "hold a body fixed relative to another, at a point in its frame if given", _hold),
    ("--mass", "X,Y,Z", "bring the centre of mass to a point", lambda text, _: ps.goals.CenterOfMass(numbers(text, 3))),
    ("--keep-out", "BODY=sphere:X,Y,Z,R",
     "keep a bone out of sphere:X,Y,Z,R, capsule:X,Y,Z,X,Y,Z,R, wall:X,Y,Z,NX,NY,NZ, or another bone", _keep_out),
    ("--couple", "JOINT=JOINT[,RATIO[,OFFSET]]", "make a joint follow another; the offset is in degrees", _couple),
)  # fmt: skip


# --- Start poses and paths ---


def start_of(text: str | None, skeleton: ps.Skeleton) -> np.ndarray | None:
    """Return a named pose of the figure, or that of FILE or FILE:FRAME: a motion, or the output of `solve --json`.

    Frames are counted from 0; -1 is the last one.
    """
    if text is None:
        return None
    if text in skeleton.named_poses:
        return skeleton.named_poses[text]
    if skeleton.named_poses and not Path(text).suffix and not Path(text).exists():
        raise ps.errors.unknown("named pose", text, skeleton.named_poses)
    name, _, frame = text.rpartition(":") if text.rpartition(":")[2].lstrip("-").isdigit() else (text, "", "0")
    if Path(name).suffix == ".json":
        try:
            pose = json.loads(read_regular(name))["pose"]
            return np.array([float(pose[dof]) for dof in skeleton.dof_names])
        except KeyError as missing:
            found = f"no {missing.args[0]!r}"
        except (ValueError, TypeError, OverflowError, RecursionError) as problem:
            found = str(problem)
        raise ps.PosableError(f"--start: expected a pose of this figure in {name}, found {found}")
    motion = ps.load(name).motion
    if motion is None or not -len(motion) <= int(frame) < len(motion):
        raise ps.PosableError(f"--start: expected a motion with frame {frame}, got {name}")
    if motion.skeleton.dof_names != skeleton.dof_names:
        raise ps.PosableError(
            f"--start: expected a motion of this figure, {name} has other joints (an NPZ file keeps them)"
        )
    return motion.poses[int(frame)]


def add_paths(parser: argparse.ArgumentParser) -> None:
    """Add the figure, its paths and its fixed goals."""
    add_figure(parser)
    parser.add_argument(
        "--path", metavar="BODY=FILE|X,Y,Z:X,Y,Z:...", action="append", default=[], required=True,
        help="a body and the points it passes through",
    )  # fmt: skip
    add_goals(parser)


def path_goal(word: str, args: argparse.Namespace) -> ps.goals.Goal:
    """Return the Position goal of BODY=FILE or BODY=X,Y,Z:X,Y,Z:..."""
    body, text = pair("--path", "BODY=FILE or BODY=X,Y,Z:X,Y,Z:...", word)
    if Path(text).exists():
        try:
            points = np.loadtxt(text, delimiter=",", ndmin=2, comments="#")
        except ValueError as error:
            raise ps.PosableError(f"--path: {text}: {error}") from None
        if points.shape[1] != 3:
            raise ps.PosableError(f"--path: {text}: expected lines X,Y,Z, got {points.shape[1]} numbers in a line")
        return ps.goals.Position(body, points)
    try:
        corners = np.array([numbers(part, 3) for part in text.split(":")])
    except ValueError:
        raise ps.PosableError(f"--path: expected a file or points X,Y,Z:X,Y,Z:..., got {text!r}") from None
    if not (args.fps > 0.0 and args.seconds > 0.0 and args.seconds * args.fps <= MOST_FRAMES):
        expected = f"positive numbers, at most {MOST_FRAMES} frames"
        raise ps.PosableError(f"--fps, --seconds: expected {expected}, got {args.fps:g} and {args.seconds:g}")
    lengths = np.linalg.norm(np.diff(corners, axis=0), axis=1)
    along = np.concatenate([[0.0], np.cumsum(lengths)])
    at = np.linspace(0.0, along[-1], round(args.seconds * args.fps) + 1)
    keep = np.concatenate([[True], lengths > 0.0])  # drop repeated corners
    return ps.goals.Position(body, np.stack([np.interp(at, along[keep], c[keep]) for c in corners.T], axis=1))


# --- Results ---


def show(args: argparse.Namespace, data: dict[str, Any], text: Any, *files: str | None, indent: int | None = None):
    """Print a result: the data with --json, otherwise the text and the files that were written."""
    if args.json:
        print(json.dumps(data, indent=indent))
    else:
        print(text, *(f"wrote {file}" for file in files if file), sep="\n")


def show_motion(args: argparse.Namespace, data: dict[str, Any], text: Any) -> None:
    """Print a result with a motion, and whether it was written."""
    show(args, data, text if args.out else f"{text}\nnothing written; use -o FILE to save the motion", args.out)
