"""Symbolic values of the partial evaluator: arithmetic, arrays with known elements, merge points of branches."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

# --- Values ---

MOST_OPTIONS = 4096  # possible values of an integer that are tracked


class Unsupported(Exception):
    """A kernel uses something that cannot be translated."""


@dataclass(frozen=True)
class Code:
    """An unknown number: a C expression without side effects and its type.

    b: bool, i: int, l: 64 bits, f: the working precision, d: double. options: the values it can have, where few.
    """

    text: str
    type: str
    options: frozenset[Any] | None = None


@dataclass(frozen=True, eq=False)
class Storage:
    """An array: a known table, or a C array. types: of single elements that differ from `type`.

    outside: the array is not the thread's own, and its elements are read whenever they are needed.
    """

    name: str
    type: str
    table: np.ndarray | None = None
    types: Any = None
    outside: bool = False


@dataclass(frozen=True)
class View:
    """A view of a storage: its offset, shape and strides [elements]; numbers, or Code for an array from outside."""

    storage: Storage
    offset: Any
    shape: tuple[Any, ...]
    strides: tuple[Any, ...]


def view(storage: Storage, *shape: int) -> View:
    """Return a whole storage as a row-major array."""
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * size)
    return View(storage, 0, shape, tuple(strides))


def table(name: str, values: np.ndarray) -> View:
    """Return an array with known elements."""
    values = np.ascontiguousarray(values)
    kind = "i" if values.dtype.kind == "i" else "f"
    return view(Storage(name, kind, values.ravel()), *values.shape)


class MergePoint:
    """A point that several branches lead to, each with its variables and known elements."""

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
    """Return whether two values are identical, not only equal."""
    if isinstance(a, (float, np.floating)) and isinstance(b, (float, np.floating)):
        return (a == b and math.copysign(1.0, a) == math.copysign(1.0, b)) or (math.isnan(a) and math.isnan(b))
    return type(a) is type(b) and a == b


def widest(*values: Any) -> str:
    """Return the widest type of some values."""
    return max((type_of(value) for value in values), key=RANK.__getitem__)


def is_number(value: Any) -> bool:
    """Return whether a value is one number, known or not."""
    return isinstance(value, (Code, bool, int, float, np.number))


def options_of(op: str, a: Any, b: Any) -> frozenset[int] | None:
    """Return the possible values of a op b, if those of both are known and few."""
    sets = [x.options if isinstance(x, Code) else frozenset((int(x),)) for x in (a, b)]
    if sets[0] is None or sets[1] is None or len(sets[0]) * len(sets[1]) > MOST_OPTIONS:
        return None
    return frozenset(now(op, x, y) for x in sets[0] for y in sets[1])


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "%": operator.mod,
    "//": operator.floordiv, "&": operator.and_, "|": operator.or_, "^": operator.xor, ">>": operator.rshift,
    "<<": operator.lshift, "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip


def now(op: str, a: Any, b: Any) -> Any:
    """Return a op b of known numbers, with IEEE division by zero."""
    if op == "/" and b == 0:
        return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a)
    return OPERATORS[op](a, b)


# --- Arithmetic ---

_TURNED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Arithmetic:
    """Emits arithmetic: lines in `code`, variables in `declared`."""

    def __init__(self) -> None:
        self.code: list[Any] = []
        self.declared: list[tuple[str, str]] = []
        self._labels = 0

    def fresh(self, kind: str) -> str:
        """Return a new C variable."""
        name = f"v{len(self.declared)}"
        self.declared.append((kind, name))
        return name

    def emit(self, line: Any) -> None:
        """Emit a line."""
        self.code.append(line)

    def label(self) -> str:
        """Return a new label."""
        self._labels += 1
        return f"L{self._labels}"

    def bind(self, text: str, kind: str) -> Code:
        """Assign an expression to a new variable."""
        name = self.fresh(kind)
        self.emit(f"{name} = {text};")
        return Code(name, kind)

    def text(self, value: Any, kind: str | None = None) -> str:
        """Return a value as C++, converted to a type if one is given."""
        own = type_of(value)
        if isinstance(value, Code):
            return value.text if kind is None or kind == own else f"({C_TYPE[kind]})({value.text})"
        kind = kind or own
        if kind == "b":
            return "true" if value else "false"
        if kind in "il":
            return f"({int(value)}{'LL' if kind == 'l' else ''})"
        value = float(value)
        if math.isinf(value):
            return "(-infinity)" if value < 0.0 else "infinity"
        if math.isnan(value):
            return "(infinity - infinity)"
        return f"number({value!r})" if kind == "f" else f"({value!r})"

    def binary(self, op: str, a: Any, b: Any) -> Any:
        """Return a op b: evaluated if both are known, otherwise as C++, simplified for zeros and ones."""
        if not isinstance(a, Code) and not isinstance(b, Code):
            return now(op, a, b)
        kind = widest(a, b)
        if kind == "b":
            kind = "i"
        if kind in "fd":
            short = self._shortened(op, a, b)
            if short is not None:
                return short
            if op == "%":
                return self.bind(f"fmod({self.text(a, kind)}, {self.text(b, kind)})", kind)
            if op == "//":
                return self.bind(f"floor({self.text(a, kind)} / {self.text(b, kind)})", kind)
        elif op == "/":
            return self.bind(f"{self.text(a, 'f')} / {self.text(b, 'f')}", "f")
        else:
            return self._whole(op, a, b, kind)
        return self.bind(f"{self.text(a, kind)} {op} {self.text(b, kind)}", kind)

    def _whole(self, op: str, a: Any, b: Any, kind: str) -> Any:
        """Return a op b for integers; their possible values are tracked, so that a table's column stays known."""
        for x, y in ((a, b), (b, a)):
            if not isinstance(x, Code) and ((op == "+" and x == 0) or (op == "*" and x == 1)):
                return y
            if not isinstance(x, Code) and op == "*" and x == 0:
                return 0
        if op == "-" and not isinstance(b, Code) and b == 0:
            return a
        options = options_of(op, a, b)
        if options is not None and len(options) == 1:
            return next(iter(options))
        if kind == "l" and op in "*+":  # wraps like 64-bit integers
            first, second = (f"(unsigned long long){self.text(x)}" for x in (a, b))
            return self.bind(f"(long long)({first} {op} {second})", kind)
        sign = "/" if op == "//" else op  # indices are not negative
        out = self.bind(f"{self.text(a, kind)} {sign} {self.text(b, kind)}", kind)
        return Code(out.text, kind, options)

    def _shortened(self, op: str, a: Any, b: Any) -> Any:
        """Return a op b for floating-point numbers of which one is known to be 0, 1 or -1; None for others."""
        if isinstance(a, Code) and isinstance(b, Code):
            return None
        first = not isinstance(a, Code)  # is known
        x = b if first else a
        match op, a if first else b:
            case ("*", 0.0):
                return 0.0
            case ("*", 1.0) | ("+", 0.0):
                return self._number(x)
            case ("*", -1.0):
                return self.negative(x)
            case ("-", 0.0):
                return self.negative(x) if first else self._number(x)
            case ("/", 0.0) if first:
                return 0.0
            case ("/", 1.0) if not first:
                return self._number(x)
        return None

    def _number(self, x: Any) -> Any:
        return x if type_of(x) in "fd" else self.bind(self.text(x, "f"), "f")

    def negative(self, x: Any) -> Any:
        """Return -x."""
        return self.bind(f"-{self.text(x)}", "i" if x.type == "b" else x.type) if isinstance(x, Code) else -x

    def compare(self, op: str, a: Any, b: Any) -> Any:
        """Return a op b for a comparison."""
        if not isinstance(a, Code) and not isinstance(b, Code):
            return bool(OPERATORS[op](a, b))
        for x, y, turned in ((a, b, op), (b, a, _TURNED[op])):
            if isinstance(x, Code) and x.options is not None and not isinstance(y, Code):
                answers = {bool(OPERATORS[turned](option, y)) for option in x.options}
                if len(answers) == 1:
                    return answers.pop()
        kind = widest(a, b)
        return self.bind(f"{self.text(a, kind)} {op} {self.text(b, kind)}", "b")

    def extreme(self, name: str, a: Any, b: Any) -> Any:
        """Return min or max of two."""
        if not isinstance(a, Code) and not isinstance(b, Code):
            return min(a, b) if name == "min" else max(a, b)
        idle = math.inf if name == "min" else -math.inf
        for x, y in ((a, b), (b, a)):
            if not isinstance(x, Code) and x == idle:
                return y
            if not isinstance(x, Code) and x == -idle:
                return x
        kind = widest(a, b)
        if kind in "fd":
            return self.bind(f"f{name}({self.text(a, kind)}, {self.text(b, kind)})", kind)
        return self.bind(f"{name}({self.text(a, kind)}, {self.text(b, kind)})", kind)

    def truth(self, value: Any) -> Any:
        """Return a value as a condition: True, False, or Code."""
        if isinstance(value, Code):
            return value if value.type == "b" else self.bind(f"{value.text} != 0", "b")
        return bool(value)


# --- Memory ---


def declared(variables: list[tuple[str, str]]) -> list[str]:
    """Return the lines of C++ that declare variables, given as pairs of type and name."""
    lines = []
    for kind, spelled in C_TYPE.items():
        names = [name for own, name in variables if own == kind]
        lines += [f"{spelled} {', '.join(names[k : k + 20])};" for k in range(0, len(names), 20)]
    return lines


class SymbolicMemory(Arithmetic):
    """Adds arrays, branches and merge points; `known` holds the known elements of arrays."""

    def __init__(self) -> None:
        super().__init__()
        self.arrays: list[str] = []
        self.tables: dict[str, str] = {}
        self.known: dict[Any, Any] = {}  # (storage, index) -> what is there
        self.written: set[Any] | None = None  # what a trial run of a loop writes

    def array(self, name: str, *shape: int, types: Any = None, kind: str = "f") -> View:
        """Declare a C array in the thread's own memory."""
        size = max(int(np.prod(shape)), 1)
        if types:  # elements of several types are variables, not an array
            for k in range(size):
                self.arrays.append(f"{C_TYPE[types.get(k, kind)]} {name}_{k};")
        else:
            self.arrays.append(f"{C_TYPE[kind]} {name}[{size}];")
        return view(Storage(name, kind, None, types), *shape)

    def source(self, lines: list[Any] | None = None, depth: int = 1) -> str:
        """Return the lines collected so far as text."""
        out: list[str] = []
        for line in self.code if lines is None else lines:
            if isinstance(line, list):
                out.append(self.source(line, depth))
            else:
                out.append(line)
        return "\n".join(part for part in out if part)

    def declarations(self) -> str:
        """Return the C++ that declares every variable and array."""
        return "\n".join([*self.arrays, *declared(self.declared)])

    def index(self, where: View, keys: tuple[Any, ...]) -> Any:
        """Return an element as (storage, index), or a View of a part."""
        offset, shape, strides = where.offset, [], []
        for axis, key in enumerate(keys):
            size = where.shape[axis]
            if isinstance(key, slice):
                start, stop = key.start or 0, size if key.stop is None else key.stop
                if not any(isinstance(end, Code) for end in (start, stop, size)):
                    start, stop, _ = slice(start, stop).indices(size)
                    stop = max(start, stop)
                offset = self.binary("+", offset, self.binary("*", start, where.strides[axis]))
                shape.append(self.binary("-", stop, start))
                strides.append(where.strides[axis])
                continue
            if not isinstance(key, Code):
                key = int(key)
                if key < 0:
                    key += size
                if not isinstance(size, Code) and not 0 <= key < size:
                    raise Unsupported(f"{where.storage.name}: index {key} of {size}")
            elif key.options is None and not isinstance(size, Code) and size <= MOST_OPTIONS:
                key = Code(key.text, key.type, frozenset(range(size)))
            offset = self.binary("+", offset, self.binary("*", key, where.strides[axis]))
        shape += where.shape[len(keys) :]
        strides += where.strides[len(keys) :]
        return View(where.storage, offset, tuple(shape), tuple(strides)) if shape else (where.storage, offset)

    def load(self, storage: Storage, at: Any) -> Any:
        """Return an element."""
        if storage.table is not None:
            return self._load_known(storage, at)
        if storage.outside:  # an index of -1 may be guarded by the first side of an `and`: see _load_known
            place = f"max((int)({at.text}), 0)" if isinstance(at, Code) else at
            return self.bind(f"{storage.name}[{place}]", storage.type)
        if isinstance(at, Code):
            if at.options is not None:  # the same known number at every possible index
                found = [self.known.get((storage, k)) for k in at.options]
                if all(f is not None and not isinstance(f, Code) and same(f, found[0]) for f in found):
                    return found[0]
            return self.bind(f"{storage.name}[{at.text}]", storage.type)
        found = self.known.get((storage, at))
        if found is not None:
            return found
        out = self.bind(
            self._place(storage, at), storage.types.get(at, storage.type) if storage.types else storage.type
        )
        self.known[storage, at] = out
        return out

    def _load_known(self, storage: Storage, at: Any) -> Any:
        assert storage.table is not None
        if not isinstance(at, Code):
            return storage.table[at].item()
        values = storage.table if at.options is None else storage.table[[k for k in sorted(at.options) if k >= 0]]
        distinct = frozenset(values.tolist())
        if len(distinct) == 1:
            return next(iter(distinct))
        body = ", ".join(self.text(v, storage.type) for v in storage.table.tolist())
        self.tables[storage.name] = f"__constant__ {C_TYPE[storage.type]} {storage.name}[] = {{{body}}};"
        # `and` evaluates both of its sides here, also where the first one guards an index of -1
        out = self.bind(f"{storage.name}[max({at.text}, 0)]", storage.type)
        return Code(out.text, out.type, distinct if storage.type == "i" else None)

    def _place(self, storage: Storage, at: Any) -> str:
        if storage.types:
            if isinstance(at, Code):
                raise Unsupported(f"{storage.name}: an index that is not known")
            return f"{storage.name}_{at}"
        return f"{storage.name}[{at.text if isinstance(at, Code) else at}]"

    def store(self, storage: Storage, at: Any, value: Any) -> None:
        """Write an element."""
        if storage.table is not None:
            raise Unsupported(f"{storage.name} is a constant")
        kind = storage.types.get(at, storage.type) if storage.types else storage.type
        if isinstance(value, Code) and value.type != kind:
            value = self.bind(self.text(value, kind), kind)
        elif not isinstance(value, Code) and kind in "fd":
            value = float(value)
        self.emit(f"{self._place(storage, at)} = {self.text(value, kind)};")
        if storage.outside:
            return
        if isinstance(at, Code):
            self.forget(storage)
            return
        self.known[storage, at] = value
        if self.written is not None:
            self.written.add((storage, at))

    def forget(self, storage: Storage) -> None:
        """Forget an array after a write to an unknown index."""
        self.known = {key: value for key, value in self.known.items() if key[0] is not storage}
        if self.written is not None:
            self.written.add((storage, None))

    # --------------------------------------------------------------------------------------------------- branches

    def way(self, join: MergePoint, variables: dict[str, Any]) -> None:
        """Add the current branch to a merge point."""
        slot: list[Any] = []
        self.emit(slot)
        join.ways.append((dict(variables), dict(self.known), slot))

    def meet(self, join: MergePoint) -> dict[str, Any] | None:
        """Continue from a merge point; return its variables, or None if no branch leads there."""
        if not join.ways:
            return None
        ways = join.ways
        out: dict[str, Any] = {}
        for name in ways[0][0]:
            values = [variables.get(name, ABSENT) for variables, _, _ in ways]
            if any(value is ABSENT for value in values):
                continue
            merged = self._merge(values, [slot for _, _, slot in ways])
            if merged is not ABSENT:
                out[name] = merged
        first = ways[0][1]
        if len(ways) == 1:
            self.known = first
        else:
            others = [known for _, known, _ in ways[1:]]
            self.known = {k: v for k, v in first.items() if all(k in known and same(known[k], v) for known in others)}
        return out

    def _merge(self, values: list[Any], slots: list[list[Any]]) -> Any:
        if all(same(value, values[0]) for value in values[1:]):
            return values[0]
        if all(isinstance(value, tuple) and len(value) == len(values[0]) for value in values):
            parts = [self._merge([v[k] for v in values], slots) for k in range(len(values[0]))]
            return ABSENT if any(part is ABSENT for part in parts) else tuple(parts)
        if not all(isinstance(value, (Code, int, float, bool, np.generic)) for value in values):
            return ABSENT
        kind = widest(*values)
        name = self.fresh(kind)
        for value, slot in zip(values, slots, strict=True):
            slot.append(f"{name} = {self.text(value, kind)};")
        return Code(name, kind)

    def branch(self, condition: Code, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
        """Emit both sides of a branch; each returns its variables, or None if its end is not reached."""
        join, before = MergePoint(), dict(self.known)
        self.emit(f"if ({condition.text}) {{")
        for side in (yes, no):
            variables = side()
            if variables is not None:
                self.way(join, variables)
            if side is yes:
                self.emit("} else {")
                self.known = before
        self.emit("}")
        return self.meet(join)

    # -------------------------------------------------------------------------------------------------------- calling
