"""Goal files: the goals of a figure as TOML.

    [[goal]]
    kind = "Position"
    body = "hand.R"
    target = [0.4, 1.2, 0.3]
    weight = 2.0

Every goal is a table with its kind and the arguments of its class, by name. Rotations are 3x3 matrices or tables like
{ euler = "xyz", degrees = [0, 90, 0] } and { quaternion_wxyz = [1, 0, 0, 0] }; obstacles are tables such as
{ sphere = { center = [0, 1, 0.3], radius = 0.1 } }, or a body's name; a camera is a table of its arguments. AnyOf and
Weighted hold their goals in `goals`.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from os import PathLike
from typing import Any

import numpy as np

from posable._files import read_regular, write_text
from posable.errors import FormatError, GoalError, PosableError, unknown
from posable.goals.base import GOALS, Goal
from posable.goals.collision import Avoid, Capsule, Sphere, Wall
from posable.goals.compose import AnyOf, Weighted
from posable.goals.joint import Coupling, Posture
from posable.goals.mass import Balance, CenterOfMass
from posable.goals.natural import Natural
from posable.goals.orientation import TURNING, Aim, Direction, Orientation, Pose
from posable.goals.pixel import Pixel
from posable.goals.point import HalfSpace, Line, Plane, Position
from posable.goals.relative import Distance, Relative
from posable.model.camera import Camera

_MOST_BYTES = 2_000_000  # of a goal file: some ten thousand goals
_LONG_KEY = re.compile(rb"(?<![\w\"'-])[\w\"'-]++(?:\s*+\.\s*+[\w\"'-]++){16}")  # tomllib takes quadratic time for them
SHAPES = {"sphere": Sphere, "capsule": Capsule, "wall": Wall}
_PARTS = {Sphere: ("center", "radius"), Capsule: ("start", "end", "radius"), Wall: ("point", "normal")}


def load(path: str | PathLike[str]) -> list[Goal]:
    """Return the goals of a TOML file.

    Args:
        path: The file, with a table `[[goal]]` for each goal.

    Raises:
        FormatError: A goal cannot be read; the message has its number.
    """
    raw = read_regular(path, _MOST_BYTES)
    long_key = _LONG_KEY.search(raw)
    if long_key is not None:
        raise FormatError(path=path, offset=long_key.start(), expected="keys of one word", found="a key of many")
    try:
        table = tomllib.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise FormatError(
            path=path, offset=error.start, expected="TOML in UTF-8", found=f"{raw[error.start]:#x}"
        ) from None
    except (ValueError, RecursionError, OverflowError) as error:  # TOMLDecodeError is a ValueError
        raise FormatError(f"not TOML: {error}", path=path) from None
    strange = [key for key in table if key != "goal"]
    if strange:
        raise FormatError("goal file", path=path, expected="[[goal]] tables", found=repr(strange[0]))
    tables = table.get("goal", [])
    if not isinstance(tables, list):
        raise FormatError("goal file", path=path, expected="[[goal]] tables", found=f"goal = {str(tables)[:40]}")
    try:
        return from_tables(tables)
    except (PosableError, RecursionError) as error:
        raise FormatError(str(error), path=path) from None


def save(path: str | PathLike[str], goals: Goal | Iterable[Goal]) -> None:
    """Write goals to a TOML file that `load` reads back.

    Args:
        path: The file to write.
        goals: One goal or several. Goals in Python (Custom) have no such form.
    """
    every = [goals] if isinstance(goals, Goal) else list(goals)
    blocks = []
    for goal in every:
        lines = [f"{key} = {toml(value)}" for key, value in to_table(goal).items()]
        blocks.append("\n".join(["[[goal]]", *lines]))
    try:
        write_text(path, "\n\n".join(blocks) + "\n")
    except (OSError, ValueError) as problem:
        raise FormatError(f"cannot be written: {getattr(problem, 'strerror', None) or problem}", path=path) from problem


# --------------------------------------------------------------------------------------------------------- reading


def from_tables(tables: Iterable[Mapping[str, Any]]) -> list[Goal]:
    """Return goals from plain tables: dicts of their kind and the arguments of their class."""
    out = []
    if not isinstance(tables, Iterable) or isinstance(tables, (str, bytes, Mapping)):
        raise GoalError("goals", expected="a list of tables", got=repr(tables)[:40])
    for number, table in enumerate(tables, start=1):
        try:
            out.append(from_table(table))
        except PosableError as error:
            raise GoalError(f"goal {number}: {error}") from None
    return out


def from_table(table: Mapping[str, Any]) -> Goal:
    """Return one goal from a plain table."""
    if not isinstance(table, Mapping):
        raise GoalError("goal", expected="a table", got=repr(table))
    arguments = dict(table)
    kind = arguments.pop("kind", None)
    if not isinstance(kind, str) or (made := _class_of(kind)) is None:
        raise unknown("kind of goal", kind, (*KINDS, *GOALS))
    for key, value in arguments.items():
        arguments[key] = _argument(key, value)
    return _made(kind, made, arguments)


def _class_of(kind: str) -> Any:
    """Return the class of a goal that goal files may hold: in KINDS, or with `arguments()`, ours or a package's own."""
    if kind in KINDS:
        return KINDS[kind][0]
    found = GOALS.get(kind) if kind in GOALS else getattr(import_module("posable.goals"), kind, None)
    own = isinstance(found, type) and issubclass(found, Goal) and found.arguments is not Goal.arguments
    return found if own or kind in GOALS else None


def _argument(key: str, value: Any) -> Any:
    if key == "goals":
        return from_tables(value)
    if key == "obstacle" and isinstance(value, Mapping):
        (name, parts), *more = value.items() or [("", {})]
        if name not in SHAPES or more:
            raise unknown("shape", name, SHAPES)
        if not isinstance(parts, Mapping):
            raise GoalError(name, expected="a table of its sizes", got=repr(parts)[:40])
        return _made(name, SHAPES[name], parts)
    if key == "camera" and isinstance(value, Mapping):
        return _made("camera", Camera, value)
    if isinstance(value, Mapping) and set(value) <= {"euler", "degrees", "quaternion_wxyz", "rotation_vector"}:
        return _rotation(value)
    return value


def _made(name: str, kind: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Return an object of a class from arguments of a file, which may be of any type."""
    try:
        return kind(**arguments)
    except PosableError:
        raise
    except TypeError as error:
        raise GoalError(f"{name}: {str(error).rpartition('__init__() ')[2]}") from None
    except (ValueError, OverflowError, AttributeError, LookupError) as error:
        raise GoalError(f"{name}: {type(error).__name__}: {error}") from None


def _rotation(value: Mapping[str, Any]) -> Any:
    from scipy.spatial.transform import Rotation

    try:
        if "euler" in value:
            return Rotation.from_euler(value["euler"], value["degrees"], degrees=True)
        if "quaternion_wxyz" in value:
            return Rotation.from_quat(value["quaternion_wxyz"], scalar_first=True)
        return Rotation.from_rotvec(value["rotation_vector"])
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise GoalError(
            "rotation", expected='{ euler = "xyz", degrees = [x, y, z] } or the like', got=str(error)
        ) from None


# --------------------------------------------------------------------------------------------------------- writing


def to_table(goal: Goal) -> dict[str, Any]:
    """Return a goal as a plain table: its kind and the arguments of its class, as numbers, strings and lists."""
    kind = type(goal).__name__
    if kind not in KINDS and _class_of(kind) is type(goal):
        return _arguments_table(goal)
    if kind not in KINDS or KINDS[kind][0] is not type(goal):
        raise GoalError(f"{goal}", expected=f"one of {', '.join(KINDS)}", got="a goal that has no form in a file")
    out: dict[str, Any] = {"kind": kind}
    for key, value in KINDS[kind][1](goal).items():
        if value is not None:
            out[key] = plain(value)
    if kind not in ("AnyOf", "Weighted", "Natural"):  # the members have it; Natural has none
        out["tolerance"] = plain(goal.tolerance)
    if goal.robust is not None:
        out["robust"] = goal.robust
    if goal.label != goal.default_label():
        out["label"] = goal.label
    if goal.priority:
        out["priority"] = goal.priority
    return out


def _arguments_table(goal: Goal) -> dict[str, Any]:
    """Return the table of a goal with `arguments()`: those, and the options that they do not give."""
    kind = type(goal).__name__
    arguments = {key: value for key, value in goal.arguments().items() if value is not None}
    made = _made(kind, type(goal), arguments)
    out = {"kind": kind, **{key: plain(value) for key, value in arguments.items()}}
    given, default = _options_of(goal), _options_of(made)
    out |= {key: value for key, value in given.items() if value is not None and value != default[key]}
    if plain(getattr(made, "target", None)) != plain(getattr(goal, "target", None)):
        raise GoalError(f"{goal}", expected="arguments() that make the same goal", got="another target")
    return out


def _options_of(goal: Goal) -> dict[str, Any]:
    """Return the options of a goal as plain values; its weight as the goal that it derives from writes it."""
    weight = getattr(goal, "weight", None)
    weight = matrix_weight(weight) if isinstance(weight, np.ndarray) and weight.shape == (6,) else weight
    base = next((kind for kind in type(goal).__mro__ if KINDS.get(kind.__name__, (None,))[0] is kind), None)
    written = {} if base is None else KINDS[base.__name__][1](goal)
    options = {"weight": written.get("weight", weight)}
    options |= {key: getattr(goal, key, None) for key in ("tolerance", "robust", "label", "priority")}
    return {key: plain(value) for key, value in options.items()}


def plain(value: Any) -> Any:
    """Return a value as numbers, strings, lists and dicts."""
    if isinstance(value, Goal):
        return to_table(value)
    if type(value) in _PARTS:
        return {type(value).__name__.lower(): {name: plain(getattr(value, name)) for name in _PARTS[type(value)]}}
    if isinstance(value, Camera):
        return value.arguments()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def matrix_weight(weight: np.ndarray) -> Any:
    """Return a weight of six numbers as a number, three numbers or a 3x3 matrix."""
    x, y, z, xy, xz, yz = (float(w) for w in weight)
    if xy == xz == yz == 0.0:
        return x if x == y == z else [x, y, z]
    return [[x, xy, xz], [xy, y, yz], [xz, yz, z]]


def _transform(position: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    shape = np.broadcast_shapes(position.shape[:-1], rotation.shape[:-2])
    out = np.broadcast_to(np.eye(4), (*shape, 4, 4)).copy()
    out[..., :3, 3], out[..., :3, :3] = position, rotation
    return out


def _pose_weight(goal: Pose | Relative) -> Any:
    p, r = (matrix_weight(weight) for weight in goal.weight)
    one = isinstance(p, float) and isinstance(r, float) and np.isclose(r, TURNING * p)
    return p if one else [p, r]


def _place(goal: Any) -> dict[str, Any]:
    direction = {goal.direction_name: goal.direction, "at": goal.at, "weight": matrix_weight(goal.weight)}
    return {"body": goal.body, "point": goal.target, **direction}


KINDS: dict[str, tuple[type[Goal], Callable[[Any], dict[str, Any]]]] = {
    "Position": (Position, lambda g: {
        "body": g.body, "target": g.target, "weight": matrix_weight(g.weight), "point": g.point}),
    "Orientation": (Orientation, lambda g: {
        "body": g.body, "rotation": g.target, "weight": matrix_weight(g.weight)}),
    "Pose": (Pose, lambda g: {
        "body": g.body, "target": _transform(g.position, g.rotation), "weight": _pose_weight(g), "point": g.point}),
    "Aim": (Aim, lambda g: {
        "body": g.body, "axis": g.axis, "at": g.target, "point": g.point, "weight": matrix_weight(g.weight)}),
    "Direction": (Direction, lambda g: {
        "body": g.body, "axis": g.axis, "along": g.target, "weight": matrix_weight(g.weight)}),
    "Pixel": (Pixel, lambda g: {
        "body": g.body, "camera": g.camera, "uv": g.target, "point": g.point, "weight": g.weight}),
    "Plane": (Plane, _place),
    "Line": (Line, _place),
    "HalfSpace": (HalfSpace, lambda g: {**_place(g), "margin": g.margin}),
    "Distance": (Distance, lambda g: {
        "body": g.body, "other": g.other, "length": g.length, "point": g.point, "other_point": g.second,
        "weight": matrix_weight(g.weight)}),
    "Relative": (Relative, lambda g: {
        "body": g.body, "other": g.other, "target": _transform(g.position, g.rotation) if g.turned else g.position,
        "point": g.point, "weight": _pose_weight(g)}),
    "CenterOfMass": (CenterOfMass, lambda g: {"target": g.target, "weight": matrix_weight(g.weight)}),
    "Balance": (Balance, lambda g: {
        "polygon": g.polygon, "margin": g.margin, "up": g.up, "pose": g.pose, "weight": matrix_weight(g.weight)}),
    "Avoid": (Avoid, lambda g: {
        "body": g.body, "obstacle": g.obstacle, "ends": g.shape[0], "radius": g.shape[1],
        "other_ends": g.other_shape[0], "other_radius": g.other_shape[1], "margin": g.margin,
        "weight": matrix_weight(g.weight)}),
    "Natural": (Natural, lambda g: {"weight": g.weight}),
    "Posture": (Posture, lambda g: {"pose": g.pose, "gains": g.gains, "weight": g.weight}),
    "Coupling": (Coupling, lambda g: {
        "follower": g.follower, "leader": g.leader, "ratio": g.ratio, "offset": g.offset, "weight": g.weight}),
    "AnyOf": (AnyOf, lambda g: {"goals": list(g.goals), "weight": g.weight, "tolerance": g.tolerance}),
    "Weighted": (Weighted, lambda g: {"goals": list(g.goals), "matrix": g.matrix}),
}  # fmt: skip


def toml(value: Any) -> str:
    """Return a plain value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # JSON's escapes are TOML's
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, list):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    return "{ " + ", ".join(f"{toml(key)} = {toml(item)}" for key, item in value.items()) + " }"
