"""CUDA C++ from kernels by partial evaluation: what is known before the launch is evaluated, the rest is emitted.

The figure, the kinds of the goals, their weights and the limits are known when a batch begins; the pose and the targets
are not. This module partially evaluates the plain Python source of a kernel: whatever depends only on known numbers is
computed immediately (loops over bodies are unrolled, dead branches and products with the zeros and ones of a rest frame
are removed), and the rest becomes C++. So each kernel is written only once, in Python.

Values are Python numbers where they are known, `Code` (a C variable and its type) where they are not, `View` for
arrays. Every C variable is assigned once, except those that merge branches or are carried through a loop.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from posable.engine import jit as compiler
from posable.gpu.symbolic import (
    RANK,
    Code,
    MergePoint,
    SymbolicMemory,
    Unsupported,
    View,
    is_number,
    same,
    type_of,
    widest,
)

# --- Expressions ---

MATH = {"sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "floor", "exp", "log", "pow"}
BINARY = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.RShift: ">>", ast.LShift: "<<", ast.Mod: "%", ast.FloorDiv: "//",
}  # fmt: skip
COMPARE = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


@lru_cache(maxsize=4096)
def _calls_something(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Call) for part in ast.walk(node))


class Expressions:
    """The variables of one call of a kernel, and the evaluation of expressions."""

    def __init__(self, to: Any, function: Callable[..., Any], variables: dict[str, Any]):
        self.to, self.function, self.variables = to, function, variables

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
            case ast.BinOp(op=ast.Pow(), right=ast.Constant(value=2)):
                base = self.value(node.left)
                return to.binary("*", base, base)
            case ast.BinOp():
                return to.binary(BINARY[type(node.op)], self.value(node.left), self.value(node.right))
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
        raise Unsupported(f"{self.function.__name__}: {ast.unparse(node)}")

    def name(self, name: str) -> Any:
        """Return the value of a name: a variable, a constant of the device or a global."""
        if name in self.variables:
            return self.variables[name]
        if name in self.to.constants:
            return self.to.constants[name]
        if name in self.function.__globals__:
            return self.function.__globals__[name]
        builtins = self.function.__globals__["__builtins__"]
        found = builtins.get(name) if isinstance(builtins, dict) else getattr(builtins, name, None)
        if found is None:
            raise Unsupported(f"{self.function.__name__}: {name} has no value on every way")
        return found

    def _keys(self, node: ast.expr) -> tuple[Any, ...]:
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        keys = []
        for part in parts:
            if isinstance(part, ast.Slice):
                keys.append(slice(*(None if end is None else self.value(end) for end in (part.lower, part.upper))))
            else:
                keys.append(self.value(part))
        return tuple(keys)

    def subscript(self, node: ast.Subscript) -> Any:
        """Return an element or a slice of an array."""
        whole = self.value(node.value)
        keys = self._keys(node.slice)
        if isinstance(whole, tuple):
            return self.member(whole, keys[0])
        place = self.to.index(whole, keys)
        return place if isinstance(place, View) else self.to.load(*place)

    def member(self, whole: tuple[Any, ...], key: Any) -> Any:
        """Return a member of a tuple; of numbers, where the index is not known."""
        if not isinstance(key, Code):
            return whole[key]
        if not all(is_number(one) for one in whole):
            raise Unsupported(f"{self.function.__name__}: an index of a tuple that is not known")
        kind, text = widest(*whole), self.to.text(whole[-1], widest(*whole))
        for k, one in reversed(list(enumerate(whole[:-1]))):
            text = f"{key.text} == {k} ? {self.to.text(one, kind)} : ({text})"
        return self.to.bind(text, kind)

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
        """Return a comparison or a chain of comparisons."""
        left = self.value(node.left)
        out: Any = True
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.value(right_node)
            one = self.to.compare(COMPARE[type(op)], left, right)
            left = right
            if not isinstance(one, Code):
                if not one:
                    return False
            else:
                out = self.to.bind(f"{out.text} && {one.text}", "b") if isinstance(out, Code) else one
        return out

    def either(self, parts: list[ast.expr], any_of: bool) -> Any:
        """Return a chain of `or` (any_of) or `and`; operands with calls are evaluated only if needed."""
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

        def needed() -> bool:
            self.variables["\0part"] = self.either(parts[1:], any_of)
            return True

        def idle() -> bool:
            self.variables["\0part"] = any_of
            return True

        sides = (idle, needed) if any_of else (needed, idle)
        self._branch(first, *sides)
        return self.variables.pop("\0part")

    def choice(self, node: ast.IfExp) -> Any:
        """Return a if condition else b; both are cheap and have no side effects."""
        condition = self.to.truth(self.value(node.test))
        if not isinstance(condition, Code):
            return self.value(node.body if condition else node.orelse)
        return self.chosen(condition, self.value(node.body), self.value(node.orelse))

    def chosen(self, condition: Code, a: Any, b: Any) -> Any:
        """Return a or b, numbers or tuples of numbers."""
        if same(a, b):
            return a
        if isinstance(a, tuple) and isinstance(b, tuple):
            return tuple(self.chosen(condition, one, other) for one, other in zip(a, b, strict=True))
        kind = widest(a, b)
        return self.to.bind(f"{condition.text} ? {self.to.text(a, kind)} : {self.to.text(b, kind)}", kind)

    def called(self, node: ast.Call) -> Any:
        """Return the value of a call: a builtin, a function of `math`, a tuple or a kernel."""
        to = self.to
        function = self.value(node.func)
        arguments = [self.value(a) for a in node.args]
        if node.keywords:
            raise Unsupported(f"{self.function.__name__}: {ast.unparse(node)}")
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
            kind = "d" if arguments[0].type == "l" else "f"  # 64-bit integers need double precision
            return arguments[0] if arguments[0].type in "fd" else to.bind(to.text(arguments[0], kind), kind)
        if getattr(function, "__module__", "") == "math" and function.__name__ in MATH:
            kind = "d" if any(type_of(a) == "d" for a in arguments) else "f"
            inside = ", ".join(to.text(a, kind) for a in arguments)
            return to.bind(f"{function.__name__}({inside})", kind)
        if not inspect.isfunction(compiler.plain(function)):
            raise Unsupported(f"{self.function.__name__}: {ast.unparse(node)}")
        return to.call(function, *arguments)

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


# --- Statements ---

MOST_UNROLLED = 9  # iterations of a loop that is unrolled even for large figures


@lru_cache(maxsize=512)
def source_of_kernel(function: Callable[..., Any]) -> ast.FunctionDef:
    """Return the syntax tree of a kernel."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    found = tree.body[0]
    if not isinstance(found, ast.FunctionDef):
        raise Unsupported(f"{function.__name__} is not a plain function")
    return found


@dataclass
class Loop:
    """The loop that a `break` or a `continue` belongs to."""

    out: MergePoint
    again: MergePoint
    out_label: str
    again_label: str
    phis: dict[str, Code] | None = None  # loop-carried variables of an emitted loop


class CallFrame(Expressions):
    """One call of a kernel: its variables, and the evaluation of its statements."""

    def __init__(self, to: Any, function: Callable[..., Any], variables: dict[str, Any]):
        super().__init__(to, function, variables)
        self.returns = MergePoint()
        self.loops: list[Loop] = []
        self.ends: list[dict[str, list[Any]]] = []  # of each emitted loop: the values its variables go round with

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
                self.assign(node.target, self.to.binary(BINARY[type(node.op)], old, self.value(node.value)))
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
                raise Unsupported(f"{self.function.__name__}: {ast.unparse(node)}")
        return True

    def leave(self, value: Any) -> None:
        """Return from the kernel."""
        self.to.way(self.returns, {"return": value})

    def _jump(self, join: MergePoint, label: str) -> bool:
        loop = self.loops[-1]
        if loop.phis is not None:
            self._round(loop.phis)
        self.to.way(join, {} if loop.phis is not None else self.variables)
        self.to.emit(f"goto {label};")
        return False

    def assign(self, target: ast.expr, value: Any) -> None:
        """Assign to a name, several names or an element."""
        match target:
            case ast.Name():
                self.variables[target.id] = value
            case ast.Tuple():
                if not isinstance(value, tuple) or len(value) != len(target.elts):
                    raise Unsupported(f"{self.function.__name__}: {ast.unparse(target)}")
                for part, one in zip(target.elts, value, strict=True):
                    self.assign(part, one)
            case ast.Subscript():
                where = self.value(target.value)
                place = self.to.index(where, self._keys(target.slice))
                if isinstance(place, View):
                    raise Unsupported(f"{self.function.__name__}: {ast.unparse(target)}")
                self.to.store(*place, value)
            case _:
                raise Unsupported(f"{self.function.__name__}: {ast.unparse(target)}")

    def if_statement(self, node: ast.If) -> bool:
        """Evaluate one side if the condition is known, otherwise emit both."""
        condition = self.to.truth(self.value(node.test))
        if not isinstance(condition, Code):
            return self.block(node.body if condition else node.orelse)
        return self._branch(condition, lambda: self.block(node.body), lambda: self.block(node.orelse))

    def for_statement(self, node: ast.For) -> bool:
        """Unroll a loop over a known range, or emit it."""
        match node.iter:
            case ast.Call(func=ast.Name(id="range")):
                bounds = [self.value(a) for a in node.iter.args]
            case _:
                raise Unsupported(f"{self.function.__name__}: {ast.unparse(node.iter)}")
        if not isinstance(node.target, ast.Name):
            raise Unsupported(f"{self.function.__name__}: {ast.unparse(node.target)}")
        name = node.target.id
        if not any(isinstance(b, Code) for b in bounds):
            values = range(*(int(b) for b in bounds))
            if name != "_" and (self.to.unroll or len(values) <= MOST_UNROLLED):
                return self._unroll(node.body, (self.variables.__setitem__(name, value) for value in values))
            start, stop, step = values.start, values.stop, values.step
        else:
            start, stop = (0, bounds[0]) if len(bounds) == 1 else (bounds[0], bounds[1])
            step = int(bounds[2]) if len(bounds) > 2 else 1
        counter = self.to.fresh("i")
        self.to.emit(f"{counter} = {self.to.text(start, 'i')};")
        limit = self.to.text(stop, "i")
        head = f"{counter} {'<' if step > 0 else '>'} {limit}"

        options = None if isinstance(start, Code) or isinstance(stop, Code) else frozenset(range(start, stop, step))

        def begin() -> None:
            self.variables[name] = Code(counter, "i", options)

        return self._loop(node.body, lambda: head, begin, f"{counter} += {step};", {name})

    def _unroll(self, body: list[ast.stmt], rounds: Iterable[None]) -> bool:
        """Evaluate the body of a loop once for each of its rounds, an iterator that sets the variables of the next."""
        loop = Loop(MergePoint(), MergePoint(), self.to.label(), "")
        self.loops.append(loop)
        alive = True
        for _ in rounds:
            loop.again, loop.again_label = MergePoint(), self.to.label()
            alive = self._arrive(loop.again, loop.again_label, self.block(body))
            if not alive:
                break
        self.loops.pop()
        return self._arrive(loop.out, loop.out_label, alive)

    def _arrive(self, join: MergePoint, label: str, alive: bool) -> bool:
        """Emit a label that jumps may lead to."""
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
        """Unroll a loop whose condition stays known, or emit it."""
        condition = self.to.truth(self.value(node.test))
        if not isinstance(condition, Code) and (self.to.rolled or not self._stays_known(node)):
            condition = Code("true", "b")
        if isinstance(condition, Code):

            def head() -> str:
                return self.to.text(self.to.truth(self.value(node.test)))

            return self._loop(node.body, head, lambda: None, "", set())
        return self._unroll(node.body, self._while_true(node.test))

    def _while_true(self, test: ast.expr) -> Iterator[None]:
        """Yield as long as a condition is true, which must stay known."""
        while True:
            condition = self.to.truth(self.value(test))
            if isinstance(condition, Code):
                raise Unsupported(f"{self.function.__name__}: while {ast.unparse(test)}")
            if not condition:
                return
            yield

    def _stays_known(self, node: ast.While) -> bool:
        """Return whether the condition stays known, from a trial run of the body that emits nothing."""
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
                loop = Loop(MergePoint(), MergePoint(), "", "")
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
        saved = (*saved, list(self.loops), to.depth)
        to.code = []
        return saved

    def _restore(self, saved: Any) -> None:
        to = self.to
        to.code, to.known, to.written, count, self.returns.ways, self.variables, self.loops, to.depth = saved
        del to.declared[count:]

    def _loop(
        self, body: list[ast.stmt], head: Callable[[], str], begin: Callable[[], None], step: str, own: set[str]
    ) -> bool:
        """Emit a loop. Trial runs first determine the types of its loop-carried variables and what it writes."""
        to = self.to
        names = [name for name in _assigned(body) if name in self.variables and name not in own]
        kinds = {name: type_of(self.variables[name]) for name in names if is_number(self.variables[name])}
        written: set[Any] = set()
        while True:
            saved = self._save()
            to.written = set(written)
            ends = self._one_loop(body, head, begin, step, kinds, written)
            wider = {n: max(kinds[n], *(type_of(v) for v in ends[n]), key=RANK.__getitem__) for n in kinds if ends[n]}
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
                return True
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
        loop = Loop(MergePoint(), MergePoint(), to.label(), to.label(), phis)
        self.loops.append(loop)
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
        return ends

    def _round(self, phis: dict[str, Code]) -> None:
        """Pass the loop-carried variables on to the next iteration."""
        ends = self.ends[-1]
        later = []
        for name, phi in phis.items():
            value = self.variables[name]
            if not is_number(value):
                raise Unsupported(f"{self.function.__name__}: {name} goes round a loop and is not a number")
            ends[name].append(value)
            if not same(value, phi):
                bound = self.to.bind(self.to.text(value, phi.type), phi.type)
                later.append(f"{phi.text} = {bound.text};")
        for line in later:
            self.to.emit(line)


def _as_load(node: ast.expr) -> ast.expr:
    """Return the target of an assignment as the expression that reads it."""
    match node:
        case ast.Name():
            return ast.Name(node.id, ast.Load())
        case ast.Subscript():
            return ast.Subscript(node.value, node.slice, ast.Load())
    raise Unsupported(ast.unparse(node))


def _assigned(body: list[ast.stmt]) -> list[str]:
    """Return the names that statements assign, in order."""
    found: dict[str, None] = {}
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found[node.id] = None
    return list(found)


# --- Kernels ---

DEEPEST = 60  # nested calls


class Specialiser(SymbolicMemory):
    """Evaluates kernels and collects the C++ of the rest; `unroll`: unroll every loop of known length.

    rolled: whether `while` loops are emitted even where their conditions stay known.

    constants: other values of globals of the kernels, by name. missing_features: features whose kernels are left out
    (`posable.engine.jit.optional`).
    """

    def __init__(self, *, unroll: bool, constants: dict[str, Any] | None = None, missing_features: Sequence[str] = ()):
        super().__init__()
        self.unroll, self.constants, self.missing_features = unroll, constants or {}, missing_features
        self.depth, self.rolled = 0, False

    def call(self, function: Any, *arguments: Any) -> Any:
        """Inline the body of a kernel; return its value."""
        if getattr(function, "feature", None) in self.missing_features:
            return function.otherwise
        function = compiler.plain(function)
        expected = len(source_of_kernel(function).args.args)
        if expected != len(arguments):
            raise Unsupported(f"{function.__name__}: {len(arguments)} arguments for {expected}")
        self.depth += 1
        if self.depth > DEEPEST:
            raise Unsupported(f"{function.__name__} calls itself")
        out = self.run(function, arguments)
        self.depth -= 1
        if out is None:
            raise Unsupported(f"{function.__name__} never returns")
        return out.get("return")

    def run(self, function: Callable[..., Any], arguments: Sequence[Any]) -> dict[str, Any] | None:
        """Evaluate the body of a plain function; return {"return": value}, or None if it never returns."""
        node = source_of_kernel(function)
        frame = CallFrame(self, function, dict(zip((a.arg for a in node.args.args), arguments, strict=True)))
        if frame.block(node.body):
            frame.leave(None)
        end, out = self.label(), self.meet(frame.returns)
        if len(frame.returns.ways) > 1:  # every branch jumps to the end
            for _, _, slot in frame.returns.ways:
                slot.append(f"goto {end};")
            self.emit(f"{end}: ;")
        return out
