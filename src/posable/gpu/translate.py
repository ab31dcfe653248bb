"""Kernels as C++ functions of arrays whose sizes are known at run time only: one module serves every problem.

The partial evaluator (partial_eval.py) compiles a problem into its code, which pays off for many problems of one kind.
A clip is a few thousand frames, and each of its windows has different goals. So here the arrays are members of a struct
that is passed to every function, none of their values is known at compile time, and every kernel becomes a function
instead of being inlined.
"""

from __future__ import annotations

from typing import Any

from posable.engine import jit as compiler
from posable.gpu.partial_eval import Specialiser
from posable.gpu.symbolic import C_TYPE, Code, Storage, View, declared

CONTEXT = "c."  # how arrays and sizes are named: members of the struct


class Translator(Specialiser):
    """Collects the C++ functions of the kernels that are called, each once for every kind of arguments."""

    def __init__(self, context: str, **options: Any):
        super().__init__(unroll=False, **options)
        self.context, self.rolled = context, True  # context: type of the struct
        self.functions: list[str] = []
        self._made: dict[Any, tuple[str, Any] | None] = {}  # name and returned value; None: inlined

    def member(self, name: str, kind: str, *shape: Any) -> View:
        """Return an array of the struct; shape: numbers, or names of its sizes."""
        sizes = [Code(CONTEXT + one, "i") if isinstance(one, str) else one for one in shape]
        strides: list[Any] = [1]
        for size in reversed(sizes[1:]):
            strides.insert(0, self.binary("*", strides[0], size))
        return View(Storage(CONTEXT + name, kind, outside=True), 0, tuple(sizes), tuple(strides))

    def call(self, function: Any, *arguments: Any) -> Any:
        """Return the value of a call of a kernel: inlined if it is small, otherwise of its C++ function."""
        plain = compiler.plain(function)
        if getattr(function, "feature", None) in self.missing_features or getattr(function, "inlined", False):
            return super().call(function, *arguments)
        passed: list[Code] = []
        inside = _renamed(arguments, passed)
        key = (plain, repr([_kind(argument) for argument in inside]))
        if key not in self._made:
            self._made[key] = self._make(plain, inside, passed)
        made = self._made[key]
        if made is None:
            return super().call(function, *arguments)
        name, returned = made
        results: list[str] = []

        def bound(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(bound(part) for part in value)
            if not isinstance(value, Code):
                return value
            results.append(self.fresh(value.type))
            return Code(results[-1], value.type)

        out = bound(returned)
        self.emit(f"{name}({', '.join(['c', *(code.text for code in passed), *results])});")
        return out

    def _make(self, function: Any, arguments: tuple[Any, ...], passed: list[Code]) -> tuple[str, Any] | None:
        """Write the function of a kernel; return its name and what it returns, None if that is not of numbers."""
        saved = self.code, self.declared, self.known, self.written
        self.code, self.declared, self.known, self.written = [], [], {}, None
        value = (self.run(function, arguments) or {}).get("return")
        results: list[Code] = []
        numbers = value is None or _numbers(value, results)
        name = f"{function.__name__}_{len(self._made)}"
        inputs = [f"{C_TYPE[code.type]} p{k}" for k, code in enumerate(passed)]
        outputs = [f"{C_TYPE[code.type]}& r{k}" for k, code in enumerate(results)]
        lines = [f"r{k} = {code.text};" for k, code in enumerate(results)]
        head = f"__device__ __noinline__ void {name}({', '.join([f'const {self.context}& c', *inputs, *outputs])}) {{"
        body = "\n".join([head, *declared(self.declared), self.source(), *lines, "}"])
        self.code, self.declared, self.known, self.written = saved
        if not numbers:
            return None
        self.functions.append(body)
        return name, value


def _renamed(value: Any, passed: list[Code]) -> Any:
    """Return arguments as the function sees them; numbers that are not known are added to those that are passed."""
    if isinstance(value, View):
        offset, *others = (_renamed(one, passed) for one in (value.offset, *value.shape, *value.strides))
        axes = len(value.shape)
        return View(value.storage, offset, tuple(others[:axes]), tuple(others[axes:]))
    if isinstance(value, tuple):
        parts = [_renamed(part, passed) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, Code) and not value.text.startswith(CONTEXT):
        passed.append(value)
        return Code(f"p{len(passed) - 1}", value.type)
    return value


def _kind(value: Any) -> Any:
    """Return what a function depends on of an argument: everything but the numbers that are passed."""
    if isinstance(value, View):
        return (value.storage.name, *(_kind(one) for one in (value.offset, *value.shape, *value.strides)))
    if isinstance(value, tuple):
        return tuple(_kind(part) for part in value)
    return (value.text, value.type) if isinstance(value, Code) else (type(value).__name__, value)


def _numbers(value: Any, found: list[Code]) -> bool:
    """Collect the unknown numbers of a returned value; return whether it has nothing but numbers."""
    if isinstance(value, tuple):
        return all(_numbers(part, found) for part in value)
    if isinstance(value, View):
        return False
    if isinstance(value, Code):
        found.append(value)
    return True
