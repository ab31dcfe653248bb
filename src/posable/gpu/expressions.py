"""Expressions of a kernel as the specialiser evaluates them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from posable.gpu.values import Code, Refused, View, same, type_of, widest
from posable.kernels import compiler

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
    """The variables of one call of a kernel, and what expressions of them are worth."""

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
            one = self.to.compare(COMPARE[type(op)], left, right)
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
        a, b = self.value(node.body), self.value(node.orelse)
        if same(a, b):
            return a
        kind = widest(a, b)
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
        if getattr(function, "__module__", "") == "math" and function.__name__ in MATH:
            kind = "d" if any(type_of(a) == "d" for a in arguments) else "f"
            inside = ", ".join(to.text(a, kind) for a in arguments)
            return to.bind(f"{function.__name__}({inside})", kind)
        if not inspect.isfunction(compiler.plain(function)):
            raise Refused(f"{self.function.__name__}: {ast.unparse(node)}")
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
