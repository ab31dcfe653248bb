"""CUDA C++ out of kernels: a kernel is run on what is known before the launch, and the rest is written down.

The figure, the kinds of the goals, their weights and the limits are known when a batch begins; the pose and the targets
are not. So the plain Python source of a kernel is evaluated by this module as a partial evaluator does it: what depends
on known numbers alone is done here and now (loops over bodies are unrolled, branches that cannot be taken vanish, so do
products with the zeros and ones of a rest frame), and what is left becomes a line of C++. Nothing is written twice.

Values are Python numbers where they are known, `Code` (a C variable and its type) where they are not, `View` for
arrays. Every C variable is assigned once, but for those that join branches or go round a loop.
"""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from posable.kernels import compiler

MOST_OPTIONS = 4096  # values of a number that are followed
MOST_UNROLLED = 9  # trips of a loop that is unrolled although the figure is large


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


_RANK = {"b": 0, "i": 1, "l": 2, "f": 3, "d": 4}
_C_TYPE = {"b": "bool", "i": "int", "l": "long long", "f": "number", "d": "double"}
_MATH = {"sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "floor", "exp", "log", "pow"}
_BINARY = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.RShift: ">>", ast.LShift: "<<", ast.Mod: "%", ast.FloorDiv: "//",
}  # fmt: skip
_COMPARE = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


@lru_cache(maxsize=512)
def _source(function: Callable[..., Any]) -> ast.FunctionDef:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    found = tree.body[0]
    if not isinstance(found, ast.FunctionDef):
        raise Refused(f"{function.__name__} is no plain function")
    return found


@lru_cache(maxsize=4096)
def _calls_something(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Call) for part in ast.walk(node))


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
        return (a == b and math.copysign(1.0, a) == math.copysign(1.0, b)) or (a != a and b != b)
    return type(a) is type(b) and a == b


class Specialiser:
    """Evaluates kernels and collects the C++ of what is left; `unroll` lays out every loop whose length is known.

    constants: other values of globals of the kernels, by name.
    """

    def __init__(self, *, unroll: bool, constants: dict[str, Any] | None = None):
        self.unroll = unroll
        self.constants = constants or {}
        self.code: list[Any] = []
        self.declared: list[tuple[str, str]] = []
        self.arrays: list[str] = []
        self.tables: dict[str, str] = {}
        self.known: dict[Any, Any] = {}  # (storage, index) -> what is there, where that is known
        self.written: set[Any] | None = None  # what a loop that is tried out writes
        self._depth = 0
        self._labels = 0

    # ------------------------------------------------------------------------------------------------- what it writes

    def fresh(self, kind: str) -> str:
        """Return a new C variable."""
        name = f"v{len(self.declared)}"
        self.declared.append((kind, name))
        return name

    def emit(self, line: Any) -> None:
        """Write a line."""
        self.code.append(line)

    def label(self) -> str:
        """Return a new label."""
        self._labels += 1
        return f"L{self._labels}"

    def bind(self, text: str, kind: str) -> Code:
        """Give an expression a variable of its own."""
        name = self.fresh(kind)
        self.emit(f"{name} = {text};")
        return Code(name, kind)

    def array(self, name: str, *shape: int, types: Any = None, kind: str = "f") -> View:
        """Declare a C array in the thread's own memory."""
        size = max(int(np.prod(shape)), 1)
        if types:  # elements of several types are variables, not an array
            for k in range(size):
                self.arrays.append(f"{_C_TYPE[types.get(k, kind)]} {name}_{k};")
        else:
            self.arrays.append(f"{_C_TYPE[kind]} {name}[{size}];")
        return view(Storage(name, kind, None, types), *shape)

    def text(self, value: Any, kind: str | None = None) -> str:
        """Return a value as C++, converted to a type where one is given."""
        own = type_of(value)
        if isinstance(value, Code):
            return value.text if kind is None or kind == own else f"({_C_TYPE[kind]})({value.text})"
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
        lines = list(self.arrays)
        for kind in _C_TYPE:
            names = [name for own, name in self.declared if own == kind]
            lines += [f"{_C_TYPE[kind]} {', '.join(names[k : k + 20])};" for k in range(0, len(names), 20)]
        return "\n".join(lines)

    # ----------------------------------------------------------------------------------------------------- arithmetic

    def binary(self, op: str, a: Any, b: Any) -> Any:
        """Return a op b: now where both are known, else in C++, without what zeros and ones make idle."""
        if not isinstance(a, Code) and not isinstance(b, Code):
            return _now(op, a, b)
        kind = max(type_of(a), type_of(b), key=_RANK.__getitem__)
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
        """Return a op b for whole numbers; what they can be is followed, so that a table's column stays one."""
        for x, y in ((a, b), (b, a)):
            if not isinstance(x, Code) and ((op == "+" and x == 0) or (op == "*" and x == 1)):
                return y
            if not isinstance(x, Code) and op == "*" and x == 0:
                return 0
        if op == "-" and not isinstance(b, Code) and b == 0:
            return a
        options = _options(op, a, b)
        if options is not None and len(options) == 1:
            return next(iter(options))
        if kind == "l" and op in "*+":  # wraps, as integers of 64 bits do
            first, second = (f"(unsigned long long){self.text(x)}" for x in (a, b))
            return self.bind(f"(long long)({first} {op} {second})", kind)
        sign = "/" if op == "//" else op  # indices are not negative
        out = self.bind(f"{self.text(a, kind)} {sign} {self.text(b, kind)}", kind)
        return Code(out.text, kind, options)

    def _shortened(self, op: str, a: Any, b: Any) -> Any:
        known_a, known_b = not isinstance(a, Code), not isinstance(b, Code)
        if op == "*":
            for k, x in ((a, b), (b, a)):
                if not isinstance(k, Code):
                    if k == 0.0:
                        return 0.0
                    if k == 1.0:
                        return self._number(x)
                    if k == -1.0:
                        return self.negative(x)
        elif op == "+":
            if known_a and a == 0.0:
                return self._number(b)
            if known_b and b == 0.0:
                return self._number(a)
        elif op == "-":
            if known_b and b == 0.0:
                return self._number(a)
            if known_a and a == 0.0:
                return self.negative(b)
        elif op == "/":
            if known_a and a == 0.0:
                return 0.0
            if known_b and b == 1.0:
                return self._number(a)
        return None

    def _number(self, x: Any) -> Any:
        return x if type_of(x) in "fd" else self.bind(self.text(x, "f"), "f")

    def negative(self, x: Any) -> Any:
        """Return -x."""
        return self.bind(f"-{self.text(x)}", "i" if x.type == "b" else x.type) if isinstance(x, Code) else -x

    def compare(self, op: str, a: Any, b: Any) -> Any:
        """Return a op b for a comparison."""
        if not isinstance(a, Code) and not isinstance(b, Code):
            return bool(eval(f"a {op} b", {"a": a, "b": b}))  # noqa: S307 - op is one of six
        for x, y, turned in ((a, b, op), (b, a, _TURNED[op])):
            if isinstance(x, Code) and x.options is not None and not isinstance(y, Code):
                answers = {bool(eval(f"a {turned} b", {"a": o, "b": y})) for o in x.options}  # noqa: S307
                if len(answers) == 1:
                    return answers.pop()
            if isinstance(y, float) and math.isinf(y) and isinstance(x, Code) and turned in ("<", ">"):
                # a number that may itself be infinite or no number at all is compared on the device
                continue
        kind = max(type_of(a), type_of(b), key=_RANK.__getitem__)
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
        kind = max(type_of(a), type_of(b), key=_RANK.__getitem__)
        if kind in "fd":
            return self.bind(f"f{name}({self.text(a, kind)}, {self.text(b, kind)})", kind)
        return self.bind(f"{name}({self.text(a, kind)}, {self.text(b, kind)})", kind)

    def truth(self, value: Any) -> Any:
        """Return a value as a condition: True, False, or Code."""
        if isinstance(value, Code):
            return value if value.type == "b" else self.bind(f"{value.text} != 0", "b")
        return bool(value)

    # --------------------------------------------------------------------------------------------------------- arrays

    def index(self, where: View, keys: tuple[Any, ...]) -> Any:
        """Return an element's place (storage, index), or a View of a part."""
        offset, shape, strides = where.offset, [], []
        for axis, key in enumerate(keys):
            if isinstance(key, slice):
                size = where.shape[axis]
                start, stop, _ = slice(key.start, key.stop).indices(size)
                offset = self.binary("+", offset, start * where.strides[axis])
                shape.append(max(stop - start, 0))
                strides.append(where.strides[axis])
                continue
            if not isinstance(key, Code):
                key = int(key)
                if key < 0:
                    key += where.shape[axis]
                if not 0 <= key < where.shape[axis]:
                    raise Refused(f"{where.storage.name}: index {key} of {where.shape[axis]}")
            elif key.options is None and where.shape[axis] <= MOST_OPTIONS:
                key = Code(key.text, key.type, frozenset(range(where.shape[axis])))
            offset = self.binary("+", offset, self.binary("*", key, where.strides[axis]))
        shape += where.shape[len(keys) :]
        strides += where.strides[len(keys) :]
        return View(where.storage, offset, tuple(shape), tuple(strides)) if shape else (where.storage, offset)

    def load(self, storage: Storage, at: Any) -> Any:
        """Return an element."""
        if storage.table is not None:
            return self._load_known(storage, at)
        if isinstance(at, Code):
            if at.options is not None:  # one known number wherever it may point
                found = [self.known.get((storage, k)) for k in at.options]
                if all(f is not None and not isinstance(f, Code) and same(f, found[0]) for f in found):
                    return found[0]
            return self.bind(f"{storage.name}[{at.text}]", storage.type)
        found = self.known.get((storage, at))
        if found is not None:
            return found
        out = self.bind(self._place(storage, at), storage.types.get(at, storage.type) if storage.types else storage.type)
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
        self.tables[storage.name] = f"__constant__ {_C_TYPE[storage.type]} {storage.name}[] = {{{body}}};"
        # `and` evaluates both of its sides here, also where the first one guards an index of -1
        out = self.bind(f"{storage.name}[max({at.text}, 0)]", storage.type)
        return Code(out.text, out.type, distinct if storage.type == "i" else None)

    def _place(self, storage: Storage, at: Any) -> str:
        if storage.types:
            if isinstance(at, Code):
                raise Refused(f"{storage.name}: an index that is not known")
            return f"{storage.name}_{at}"
        return f"{storage.name}[{at.text if isinstance(at, Code) else at}]"

    def store(self, storage: Storage, at: Any, value: Any) -> None:
        """Write an element."""
        if storage.table is not None:
            raise Refused(f"{storage.name} is a constant")
        kind = storage.types.get(at, storage.type) if storage.types else storage.type
        if isinstance(value, Code) and value.type != kind:
            value = self.bind(self.text(value, kind), kind)
        elif not isinstance(value, Code) and kind in "fd":
            value = float(value)
        self.emit(f"{self._place(storage, at)} = {self.text(value, kind)};")
        if isinstance(at, Code):
            self.forget(storage)
            return
        self.known[storage, at] = value
        if self.written is not None:
            self.written.add((storage, at))

    def forget(self, storage: Storage) -> None:
        """Know nothing more of an array: an element that is not known which was written."""
        self.known = {key: value for key, value in self.known.items() if key[0] is not storage}
        if self.written is not None:
            self.written.add((storage, None))

    # ------------------------------------------------------------------------------------------------- ways that join

    def way(self, join: Join, variables: dict[str, Any]) -> None:
        """Add the present point to those that lead to a join."""
        slot: list[Any] = []
        self.emit(slot)
        join.ways.append((dict(variables), dict(self.known), slot))

    def meet(self, join: Join) -> dict[str, Any] | None:
        """Go on from a join; return its variables, or None where nothing leads there."""
        if not join.ways:
            return None
        ways = join.ways
        out: dict[str, Any] = {}
        for name in ways[0][0]:
            values = [variables.get(name, _ABSENT) for variables, _, _ in ways]
            if any(value is _ABSENT for value in values):
                continue
            merged = self._merge(values, [slot for _, _, slot in ways])
            if merged is not _ABSENT:
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
            return _ABSENT if any(part is _ABSENT for part in parts) else tuple(parts)
        if not all(isinstance(value, (Code, int, float, bool, np.generic)) for value in values):
            return _ABSENT
        kind = max((type_of(value) for value in values), key=_RANK.__getitem__)
        name = self.fresh(kind)
        for value, slot in zip(values, slots, strict=True):
            slot.append(f"{name} = {self.text(value, kind)};")
        return Code(name, kind)

    def branch(self, condition: Code, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
        """Write both sides of a branch; each returns its variables, or None where its end is not reached."""
        join, before = Join(), dict(self.known)
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

    def call(self, function: Any, *arguments: Any) -> Any:
        """Write the body of a kernel here; return what it returns."""
        function = compiler.plain(function)
        node = _source(function)
        names = [a.arg for a in node.args.args]
        if len(names) != len(arguments):
            raise Refused(f"{function.__name__}: {len(arguments)} arguments for {len(names)}")
        self._depth += 1
        if self._depth > 60:
            raise Refused(f"{function.__name__} calls itself")
        frame = Frame(self, function, dict(zip(names, arguments, strict=True)))
        ends = frame.block(node.body)
        if ends:
            frame.leave(None)
        end = self.label()
        out = self.meet(frame.returns)
        if len(frame.returns.ways) > 1:
            self._close(frame.returns, end)
        self._depth -= 1
        if out is None:
            raise Refused(f"{function.__name__} never returns")
        return out.get("return")

    def _close(self, join: Join, end: str) -> None:
        """Let every way but the last, which is there already, go to the end."""
        for _, _, slot in join.ways:
            slot.append(f"goto {end};")
        self.emit(f"{end}: ;")


_ABSENT = object()
_TURNED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _options(op: str, a: Any, b: Any) -> frozenset[int] | None:
    """Return the values that a op b can have, where those of both are known and few."""
    sets = [x.options if isinstance(x, Code) else frozenset((int(x),)) for x in (a, b)]
    if sets[0] is None or sets[1] is None or len(sets[0]) * len(sets[1]) > MOST_OPTIONS:
        return None
    return frozenset(_now(op, x, y) for x in sets[0] for y in sets[1])


def _now(op: str, a: Any, b: Any) -> Any:
    if op == "/" and b == 0:
        return math.nan if a == 0 or a != a else math.copysign(math.inf, a)
    return {
        "+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: a / b, "%": lambda: a % b,
        "//": lambda: a // b, "&": lambda: a & b, "|": lambda: a | b, "^": lambda: a ^ b, ">>": lambda: a >> b,
        "<<": lambda: a << b,
    }[op]()  # fmt: skip


@dataclass
class Loop:
    """The loop that a `break` or a `continue` belongs to."""

    out: Join
    again: Join
    out_label: str
    again_label: str
    phis: dict[str, Code] | None = None  # variables that go round, for a loop that is left in the C++


class Frame:
    """One call of a kernel: its variables, and the statements as they are evaluated."""

    def __init__(self, to: Specialiser, function: Callable[..., Any], variables: dict[str, Any]):
        self.to, self.function, self.variables = to, function, variables
        self.returns = Join()
        self.loops: list[Loop] = []

    # ----------------------------------------------------------------------------------------------------- statements

    def block(self, body: list[ast.stmt]) -> bool:
        """Evaluate statements; return whether their end is reached."""
        return all(self.statement(node) for node in body)

    def statement(self, node: ast.stmt) -> bool:
        """Evaluate one statement; return whether what follows it is reached."""
        match node:
            case ast.Expr():
                if not isinstance(node.value, ast.Constant):
                    self.value(node.value)
            case ast.Assign():
                value = self.value(node.value)
                for target in node.targets:
                    self.assign(target, value)
            case ast.AugAssign():
                old = self.value(_as_load(node.target))
                self.assign(node.target, self.to.binary(_BINARY[type(node.op)], old, self.value(node.value)))
            case ast.If():
                return self.if_statement(node)
            case ast.For():
                return self.for_statement(node)
            case ast.While():
                return self.while_statement(node)
            case ast.Return():
                self.leave(None if node.value is None else self.value(node.value))
                return False
            case ast.Break():
                return self._jump(self.loops[-1].out, self.loops[-1].out_label)
            case ast.Continue():
                return self._jump(self.loops[-1].again, self.loops[-1].again_label)
            case ast.Pass():
                pass
            case _:
                raise Refused(f"{self.function.__name__}: {ast.unparse(node)}")
        return True

    def leave(self, value: Any) -> None:
        """Return from the kernel."""
        self.to.way(self.returns, {"return": value})

    def _jump(self, join: Join, label: str) -> bool:
        loop = self.loops[-1]
        if loop.phis is not None:
            self._round(loop.phis)
        self.to.way(join, {} if loop.phis is not None else self.variables)
        self.to.emit(f"goto {label};")
        return False

    def assign(self, target: ast.expr, value: Any) -> None:
        """Give a name, several, or an element a value."""
        match target:
            case ast.Name():
                self.variables[target.id] = value
            case ast.Tuple():
                if not isinstance(value, tuple) or len(value) != len(target.elts):
                    raise Refused(f"{self.function.__name__}: {ast.unparse(target)}")
                for part, one in zip(target.elts, value, strict=True):
                    self.assign(part, one)
            case ast.Subscript():
                where = self.value(target.value)
                place = self.to.index(where, self._keys(target.slice))
                if isinstance(place, View):
                    raise Refused(f"{self.function.__name__}: {ast.unparse(target)}")
                self.to.store(*place, value)
            case _:
                raise Refused(f"{self.function.__name__}: {ast.unparse(target)}")

    def _branch(self, condition: Code, yes: Callable[[], bool], no: Callable[[], bool]) -> bool:
        before = self.variables

        def side(run: Callable[[], bool]) -> Callable[[], Any]:
            def inside() -> Any:
                self.variables = dict(before)
                return self.variables if run() else None

            return inside

        out = self.to.branch(condition, side(yes), side(no))
        if out is None:
            return False
        self.variables = out
        return True

    def if_statement(self, node: ast.If) -> bool:
        """Take one side where the condition is known, write both where it is not."""
        condition = self.to.truth(self.value(node.test))
        if not isinstance(condition, Code):
            return self.block(node.body if condition else node.orelse)
        return self._branch(condition, lambda: self.block(node.body), lambda: self.block(node.orelse))

    def for_statement(self, node: ast.For) -> bool:
        """Unroll a loop over a known range, or write it."""
        match node.iter:
            case ast.Call(func=ast.Name(id="range")):
                bounds = [self.value(a) for a in node.iter.args]
            case _:
                raise Refused(f"{self.function.__name__}: {ast.unparse(node.iter)}")
        if not isinstance(node.target, ast.Name):
            raise Refused(f"{self.function.__name__}: {ast.unparse(node.target)}")
        name = node.target.id
        if not any(isinstance(b, Code) for b in bounds):
            values = range(*(int(b) for b in bounds))
            if name != "_" and (self.to.unroll or len(values) <= MOST_UNROLLED):
                return self._unroll(name, values, node.body)
            start, stop, step = values.start, values.stop, values.step
        else:
            start, stop = (0, bounds[0]) if len(bounds) == 1 else (bounds[0], bounds[1])
            step = int(bounds[2]) if len(bounds) > 2 else 1
        counter = self.to.fresh("i")
        self.to.emit(f"{counter} = {self.to.text(start, 'i')};")
        limit = self.to.text(stop, "i")
        head = f"{counter} {'<' if step > 0 else '>'} {limit}"

        known = not isinstance(start, Code) and not isinstance(stop, Code)
        options = frozenset(range(start, stop, step)) if known else None

        def begin() -> None:
            self.variables[name] = Code(counter, "i", options)

        return self._loop(node.body, lambda: head, begin, f"{counter} += {step};", {name})

    def _unroll(self, name: str, values: range, body: list[ast.stmt]) -> bool:
        loop = Loop(Join(), Join(), self.to.label(), "")
        self.loops.append(loop)
        alive = True
        for value in values:
            self.variables[name] = value
            loop.again, loop.again_label = Join(), self.to.label()
            alive = self.block(body)
            alive = self._arrive(loop.again, loop.again_label, alive)
            if not alive:
                break
        self.loops.pop()
        return self._arrive(loop.out, loop.out_label, alive)

    def _arrive(self, join: Join, label: str, alive: bool) -> bool:
        """Come to a label that jumps may lead to."""
        if not join.ways:
            return alive
        if alive:
            self.to.way(join, self.variables)
        out = self.to.meet(join)
        self.to.emit(f"{label}: ;")
        assert out is not None
        self.variables = out
        return True

    def while_statement(self, node: ast.While) -> bool:
        """Walk a loop whose condition stays known, or write it."""
        condition = self.to.truth(self.value(node.test))
        if not isinstance(condition, Code) and not self._stays_known(node):
            condition = Code("true", "b")
        if isinstance(condition, Code):

            def head() -> str:
                return self.to.text(self.to.truth(self.value(node.test)))

            return self._loop(node.body, head, lambda: None, "", set())
        loop = Loop(Join(), Join(), self.to.label(), "")
        self.loops.append(loop)
        alive = True
        while alive:
            condition = self.to.truth(self.value(node.test))
            if isinstance(condition, Code):
                raise Refused(f"{self.function.__name__}: while {ast.unparse(node.test)}")
            if not condition:
                break
            loop.again, loop.again_label = Join(), self.to.label()
            alive = self._arrive(loop.again, loop.again_label, self.block(node.body))
        self.loops.pop()
        return self._arrive(loop.out, loop.out_label, alive)

    def _stays_known(self, node: ast.While) -> bool:
        """Return whether the condition depends on names that the body gives known values: tried out, not written."""
        saved = self._save()
        alive = True
        try:
            for _ in range(3):
                if not alive:
                    break
                condition = self.to.truth(self.value(node.test))
                if isinstance(condition, Code):
                    return False
                if not condition:
                    break
                loop = Loop(Join(), Join(), "", "")
                self.loops.append(loop)
                alive = self.block(node.body)
                self.loops.pop()
                if loop.out.ways or loop.again.ways:
                    if alive:
                        self.to.way(loop.again, self.variables)
                    loop.again.ways += loop.out.ways
                    out = self.to.meet(loop.again)
                    assert out is not None
                    self.variables, alive = out, True
            return True
        finally:
            self._restore(saved)

    def _save(self) -> Any:
        to = self.to
        saved = (to.code, dict(to.known), to.written, len(to.declared), list(self.returns.ways), dict(self.variables))
        saved = (*saved, list(self.loops), to._depth)
        to.code = []
        return saved

    def _restore(self, saved: Any) -> None:
        to = self.to
        to.code, to.known, to.written, count, self.returns.ways, self.variables, self.loops, to._depth = saved
        del to.declared[count:]

    def _loop(self, body: list[ast.stmt], head: Callable[[], str], begin: Callable[[], None], step: str, own: set[str]) -> bool:
        """Write a loop. It is tried out first, until the types of what goes round and what it writes are settled."""
        to = self.to
        names = [name for name in _assigned(body) if name in self.variables and name not in own]
        kinds = {name: type_of(self.variables[name]) for name in names if _is_number(self.variables[name])}
        written: set[Any] = set()
        while True:
            saved = self._save()
            to.written = set(written)
            ends, code, phis = self._one_loop(body, head, begin, step, kinds, written)
            wider = {n: max(kinds[n], *(type_of(v) for v in ends[n]), key=_RANK.__getitem__) for n in kinds if ends[n]}
            settled = to.written == written and all(wider.get(n, kinds[n]) == kinds[n] for n in kinds)
            if settled:
                inner, returned, after = to.code, self.returns.ways, dict(to.known)
                variables, declared = dict(self.variables), list(to.declared)
                outer_written = saved[2]
                self._restore(saved)
                to.declared = declared
                to.known, self.variables, self.returns.ways = after, variables, returned
                if outer_written is not None:
                    outer_written |= written
                to.written = outer_written
                to.code.append(inner)
                return code
            written = to.written | written
            kinds.update(wider)
            self._restore(saved)

    def _one_loop(self, body, head, begin, step, kinds, written) -> Any:
        to = self.to
        phis: dict[str, Code] = {}
        for name, kind in kinds.items():
            variable = to.fresh(kind)
            to.emit(f"{variable} = {to.text(self.variables[name], kind)};")
            phis[name] = Code(variable, kind)
        outside = dict(self.variables)
        self.variables.update(phis)
        whole = {storage for storage, at in written if at is None}
        to.known = {key: v for key, v in to.known.items() if key not in written and key[0] not in whole}
        loop = Loop(Join(), Join(), to.label(), to.label(), phis)
        self.loops.append(loop)
        self.ends = getattr(self, "ends", [])
        self.ends.append({name: [] for name in kinds})
        to.emit("#pragma unroll 1\nwhile (true) {")
        condition = head()
        to.emit(f"if (!({condition})) break;")
        to.way(loop.out, {})
        loop.out.ways[-1][2].clear()
        begin()
        if self.block(body):
            self._round(phis)
            to.way(loop.again, {})
        if loop.again.ways:
            to.meet(loop.again)
        to.emit(f"{loop.again_label}: ;")
        to.emit(step)
        to.emit("}")
        to.emit(f"{loop.out_label}: ;")
        self.loops.pop()
        ends = self.ends.pop()
        to.meet(loop.out)
        self.variables = {name: value for name, value in outside.items() if name not in kinds}
        self.variables.update(phis)
        reached = True
        return ends, reached, phis

    def _round(self, phis: dict[str, Code]) -> None:
        """Hand the variables of a loop on to its next round."""
        ends = self.ends[-1]
        later = []
        for name, phi in phis.items():
            value = self.variables[name]
            if not _is_number(value):
                raise Refused(f"{self.function.__name__}: {name} goes round a loop and is no number")
            ends[name].append(value)
            if not same(value, phi):
                bound = self.to.bind(self.to.text(value, phi.type), phi.type)
                later.append(f"{phi.text} = {bound.text};")
        for line in later:
            self.to.emit(line)

    # ---------------------------------------------------------------------------------------------------- expressions

    def value(self, node: ast.expr) -> Any:
        """Evaluate an expression."""
        to = self.to
        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                return self.name(node.id)
            case ast.Tuple():
                return tuple(self.value(part) for part in node.elts)
            case ast.Attribute():
                whole = self.value(node.value)
                if isinstance(whole, View) and node.attr == "shape":
                    return whole.shape
                return getattr(whole, node.attr)
            case ast.Subscript():
                return self.subscript(node)
            case ast.BinOp():
                return to.binary(_BINARY[type(node.op)], self.value(node.left), self.value(node.right))
            case ast.UnaryOp():
                return self.unary(node)
            case ast.BoolOp():
                return self.either(node.values, isinstance(node.op, ast.Or))
            case ast.Compare():
                return self.comparison(node)
            case ast.IfExp():
                return self.choice(node)
            case ast.Call():
                return self.called(node)
        raise Refused(f"{self.function.__name__}: {ast.unparse(node)}")

    def name(self, name: str) -> Any:
        """Return what a name stands for: a variable, a constant of the device, a global."""
        if name in self.variables:
            return self.variables[name]
        if name in self.to.constants:
            return self.to.constants[name]
        if name in self.function.__globals__:
            return self.function.__globals__[name]
        builtins = self.function.__globals__["__builtins__"]
        found = builtins.get(name) if isinstance(builtins, dict) else getattr(builtins, name, None)
        if found is None:
            raise Refused(f"{self.function.__name__}: {name} has no value on every way")
        return found

    def _keys(self, node: ast.expr) -> tuple[Any, ...]:
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        keys = []
        for part in parts:
            if isinstance(part, ast.Slice):
                ends = [None if end is None else self.value(end) for end in (part.lower, part.upper)]
                if any(isinstance(end, Code) for end in ends):
                    raise Refused(f"{self.function.__name__}: {ast.unparse(part)}")
                keys.append(slice(*ends))
            else:
                keys.append(self.value(part))
        return tuple(keys)

    def subscript(self, node: ast.Subscript) -> Any:
        """Return an element, or a part of an array."""
        whole = self.value(node.value)
        keys = self._keys(node.slice)
        if isinstance(whole, tuple):
            if isinstance(keys[0], Code):
                raise Refused(f"{self.function.__name__}: {ast.unparse(node)}")
            return whole[keys[0]]
        place = self.to.index(whole, keys)
        return place if isinstance(place, View) else self.to.load(*place)

    def unary(self, node: ast.UnaryOp) -> Any:
        """Return -x, +x or not x."""
        x = self.value(node.operand)
        if isinstance(node.op, ast.USub):
            return self.to.negative(x)
        if isinstance(node.op, ast.Not):
            x = self.to.truth(x)
            return self.to.bind(f"!{x.text}", "b") if isinstance(x, Code) else not x
        return x

    def comparison(self, node: ast.Compare) -> Any:
        """Return a comparison, or several in a chain."""
        left = self.value(node.left)
        out: Any = True
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.value(right_node)
            one = self.to.compare(_COMPARE[type(op)], left, right)
            left = right
            if not isinstance(one, Code):
                if not one:
                    return False
            else:
                out = self.to.bind(f"{out.text} && {one.text}", "b") if isinstance(out, Code) else one
        return out

    def either(self, parts: list[ast.expr], any_of: bool) -> Any:
        """Return a chain of `or` (any_of) or `and`; a part that calls is evaluated only where it is needed."""
        first = self.to.truth(self.value(parts[0]))
        if len(parts) == 1:
            return first
        if not isinstance(first, Code):
            return first if first == any_of else self.either(parts[1:], any_of)
        if not any(_calls_something(part) for part in parts[1:]):
            rest = self.either(parts[1:], any_of)
            if not isinstance(rest, Code):
                return rest if rest == any_of else first
            return self.to.bind(f"{first.text} {'||' if any_of else '&&'} {rest.text}", "b")
        rest_of: list[Any] = []

        def needed() -> bool:
            self.variables["\0part"] = self.either(parts[1:], any_of)
            return True

        def idle() -> bool:
            self.variables["\0part"] = any_of
            return True

        sides = (idle, needed) if any_of else (needed, idle)
        self._branch(first, *sides)
        del rest_of
        return self.variables.pop("\0part")

    def choice(self, node: ast.IfExp) -> Any:
        """Return a if condition else b; both are cheap and have no side effects."""
        condition = self.to.truth(self.value(node.test))
        if not isinstance(condition, Code):
            return self.value(node.body if condition else node.orelse)
        a, b = self.value(node.body), self.value(node.orelse)
        if same(a, b):
            return a
        kind = max(type_of(a), type_of(b), key=_RANK.__getitem__)
        return self.to.bind(f"{condition.text} ? {self.to.text(a, kind)} : {self.to.text(b, kind)}", kind)

    def called(self, node: ast.Call) -> Any:
        """Return what a function returns: one of Python's, of `math`, a tuple, or a kernel."""
        to = self.to
        function = self.value(node.func)
        arguments = [self.value(a) for a in node.args]
        if node.keywords:
            raise Refused(f"{self.function.__name__}: {ast.unparse(node)}")
        if function in (min, max):
            out = arguments[0]
            for other in arguments[1:]:
                out = to.extreme(function.__name__, out, other)
            return out
        if isinstance(function, type) and issubclass(function, tuple):
            return function(*arguments)
        if all(not isinstance(a, (Code, View)) for a in arguments) and (
            function in (abs, int, float, bool) or getattr(function, "__module__", "") == "math"
        ):
            return function(*arguments)
        if function is abs:
            kind = type_of(arguments[0])
            return to.bind(f"{'fabs' if kind in 'fd' else 'abs'}({arguments[0].text})", kind)
        if function is int:
            return to.bind(to.text(arguments[0], "l"), "l") if arguments[0].type in "fd" else arguments[0]
        if function is float:
            kind = "d" if arguments[0].type == "l" else "f"  # 64 bits keep their digits
            return arguments[0] if arguments[0].type in "fd" else to.bind(to.text(arguments[0], kind), kind)
        if getattr(function, "__module__", "") == "math" and function.__name__ in _MATH:
            kind = "d" if any(type_of(a) == "d" for a in arguments) else "f"
            inside = ", ".join(to.text(a, kind) for a in arguments)
            return to.bind(f"{function.__name__}({inside})", kind)
        if not inspect.isfunction(compiler.plain(function)):
            raise Refused(f"{self.function.__name__}: {ast.unparse(node)}")
        return to.call(function, *arguments)


def _is_number(value: Any) -> bool:
    return isinstance(value, (Code, bool, int, float, np.number))


def _as_load(node: ast.expr) -> ast.expr:
    """Return the target of an assignment as the expression that reads it."""
    match node:
        case ast.Name():
            return ast.Name(node.id, ast.Load())
        case ast.Subscript():
            return ast.Subscript(node.value, node.slice, ast.Load())
    raise Refused(ast.unparse(node))


def _assigned(body: list[ast.stmt]) -> list[str]:
    """Return the names that statements give values, in order."""
    found: dict[str, None] = {}
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found[node.id] = None
    return list(found)
