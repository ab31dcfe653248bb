"""What the specialiser works with: numbers that are known, numbers that are not yet, arrays, places where ways join."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

MOST_OPTIONS = 4096  # values of a number that are followed


class Refused(Exception):
    """A kernel that uses what this module does not know."""


@dataclass(frozen=True)
class Code:
    """A number that is not known yet: a C expression without side effects and its type.

    b: bool, i: int, l: 64 bits, f: the working precision, d: double. options: the values it can have, where few.
    """

    text: str
    type: str
    options: frozenset[Any] | None = None


@dataclass(frozen=True, eq=False)
class Storage:
    """Numbers in memory: a table that is known, or a C array. types: of single elements that differ from `type`."""

    name: str
    type: str
    table: np.ndarray | None = None
    types: Any = None


@dataclass(frozen=True)
class View:
    """A part of a storage: where it begins (a number, or Code), its shape and strides [elements]."""

    storage: Storage
    offset: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def view(storage: Storage, *shape: int) -> View:
    """Return all of a storage as an array by rows."""
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * size)
    return View(storage, 0, shape, tuple(strides))


def table(name: str, values: np.ndarray) -> View:
    """Return an array whose numbers are known."""
    values = np.ascontiguousarray(values)
    kind = "i" if values.dtype.kind == "i" else "f"
    return view(Storage(name, kind, values.ravel()), *values.shape)


class Join:
    """A place that several ways lead to, each with its variables and its known memory."""

    def __init__(self) -> None:
        self.ways: list[tuple[dict[str, Any], dict[Any, Any], list[Any]]] = []


RANK = {"b": 0, "i": 1, "l": 2, "f": 3, "d": 4}
C_TYPE = {"b": "bool", "i": "int", "l": "long long", "f": "number", "d": "double"}
ABSENT = object()


def type_of(value: Any) -> str:
    """Return the C type of a value."""
    if isinstance(value, Code):
        return value.type
    if isinstance(value, (bool, np.bool_)):
        return "b"
    if isinstance(value, (int, np.integer)):
        return "i" if -(2**31) <= value < 2**31 else "l"
    return "f"


def same(a: Any, b: Any) -> bool:
    """Return whether two values are the same value, not only equal ones."""
    if isinstance(a, (float, np.floating)) and isinstance(b, (float, np.floating)):
        return (a == b and math.copysign(1.0, a) == math.copysign(1.0, b)) or (math.isnan(a) and math.isnan(b))
    return type(a) is type(b) and a == b


def widest(*values: Any) -> str:
    """Return the type that holds all of some values."""
    return max((type_of(value) for value in values), key=RANK.__getitem__)


def is_number(value: Any) -> bool:
    """Return whether a value is one number, known or not."""
    return isinstance(value, (Code, bool, int, float, np.number))


def options_of(op: str, a: Any, b: Any) -> frozenset[int] | None:
    """Return the values that a op b can have, where those of both are known and few."""
    sets = [x.options if isinstance(x, Code) else frozenset((int(x),)) for x in (a, b)]
    if sets[0] is None or sets[1] is None or len(sets[0]) * len(sets[1]) > MOST_OPTIONS:
        return None
    return frozenset(now(op, x, y) for x in sets[0] for y in sets[1])


def now(op: str, a: Any, b: Any) -> Any:
    """Return a op b of known numbers; a division by zero gives what the machine gives."""
    if op == "/" and b == 0:
        return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a)
    return {
        "+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: a / b, "%": lambda: a % b,
        "//": lambda: a // b, "&": lambda: a & b, "|": lambda: a | b, "^": lambda: a ^ b, ">>": lambda: a >> b,
        "<<": lambda: a << b,
    }[op]()  # fmt: skip
