"""Arithmetic of the specialiser: now where everything is known, else as C++, without what zeros and ones make idle."""

from __future__ import annotations

import math
from typing import Any

from posable.gpu.values import C_TYPE, Code, now, options_of, type_of, widest

_TURNED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Arithmetic:
    """Writes numbers and what is done with them; what it writes is in `code`, what it declares in `declared`."""

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

    def text(self, value: Any, kind: str | None = None) -> str:
        """Return a value as C++, converted to a type where one is given."""
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
        """Return a op b: now where both are known, else in C++, without what zeros and ones make idle."""
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
        """Return a op b for whole numbers; what they can be is followed, so that a table's column stays one."""
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
            return bool(eval(f"a {op} b", {"a": a, "b": b}))
        for x, y, turned in ((a, b, op), (b, a, _TURNED[op])):
            if isinstance(x, Code) and x.options is not None and not isinstance(y, Code):
                answers = {bool(eval(f"a {turned} b", {"a": o, "b": y})) for o in x.options}
                if len(answers) == 1:
                    return answers.pop()
            if isinstance(y, float) and math.isinf(y) and isinstance(x, Code) and turned in ("<", ">"):
                # a number that may itself be infinite or no number at all is compared on the device
                continue
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

    # --------------------------------------------------------------------------------------------------------- arrays
