"""Statements of a kernel as the specialiser evaluates them: branches, loops, returns."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from posable.gpu.expressions import BINARY, Expressions
from posable.gpu.values import RANK, Code, Join, Refused, View, is_number, same, type_of

MOST_UNROLLED = 9  # trips of a loop that is unrolled although the figure is large


@lru_cache(maxsize=512)
def source_of_kernel(function: Callable[..., Any]) -> ast.FunctionDef:
    """Return the plain source of a kernel as a tree."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    found = tree.body[0]
    if not isinstance(found, ast.FunctionDef):
        raise Refused(f"{function.__name__} is no plain function")
    return found


@dataclass
class Loop:
    """The loop that a `break` or a `continue` belongs to."""

    out: Join
    again: Join
    out_label: str
    again_label: str
    phis: dict[str, Code] | None = None  # variables that go round, for a loop that is left in the C++


class Frame(Expressions):
    """One call of a kernel: its variables, and the statements as they are evaluated."""

    def __init__(self, to: Any, function: Callable[..., Any], variables: dict[str, Any]):
        super().__init__(to, function, variables)
        self.returns = Join()
        self.loops: list[Loop] = []
        self.ends: list[
            dict[str, list[Any]]
        ] = []  # of each loop that is written: the values its variables go round with

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

        options = None if isinstance(start, Code) or isinstance(stop, Code) else frozenset(range(start, stop, step))

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
        """Write a loop. It is tried out first, until the types of what goes round and what it writes are settled."""
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
        return ends

    def _round(self, phis: dict[str, Code]) -> None:
        """Hand the variables of a loop on to its next round."""
        ends = self.ends[-1]
        later = []
        for name, phi in phis.items():
            value = self.variables[name]
            if not is_number(value):
                raise Refused(f"{self.function.__name__}: {name} goes round a loop and is no number")
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
    raise Refused(ast.unparse(node))


def _assigned(body: list[ast.stmt]) -> list[str]:
    """Return the names that statements give values, in order."""
    found: dict[str, None] = {}
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found[node.id] = None
    return list(found)
