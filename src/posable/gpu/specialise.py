"""CUDA C++ out of kernels: a kernel is run on what is known before the launch, and the rest is written down.

The figure, the kinds of the goals, their weights and the limits are known when a batch begins; the pose and the targets
are not. So the plain Python source of a kernel is evaluated by this module as a partial evaluator does it: what depends
on known numbers alone is done here and now (loops over bodies are unrolled, branches that cannot be taken vanish, so do
products with the zeros and ones of a rest frame), and what is left becomes a line of C++. Nothing is written twice.

Values are Python numbers where they are known, `Code` (a C variable and its type) where they are not, `View` for
arrays. Every C variable is assigned once, but for those that join branches or go round a loop.
"""

from __future__ import annotations

from typing import Any

from posable.gpu.memory import Memory
from posable.gpu.statements import Frame, source_of_kernel
from posable.gpu.values import Join, Refused
from posable.kernels import compiler

DEEPEST = 60  # calls within calls


class Specialiser(Memory):
    """Evaluates kernels and collects the C++ of what is left; `unroll` lays out every loop whose length is known.

    constants: other values of globals of the kernels, by name.
    """

    def __init__(self, *, unroll: bool, constants: dict[str, Any] | None = None):
        super().__init__()
        self.unroll, self.constants = unroll, constants or {}
        self.depth = 0

    def call(self, function: Any, *arguments: Any) -> Any:
        """Write the body of a kernel here; return what it returns."""
        function = compiler.plain(function)
        node = source_of_kernel(function)
        names = [a.arg for a in node.args.args]
        if len(names) != len(arguments):
            raise Refused(f"{function.__name__}: {len(arguments)} arguments for {len(names)}")
        self.depth += 1
        if self.depth > DEEPEST:
            raise Refused(f"{function.__name__} calls itself")
        frame = Frame(self, function, dict(zip(names, arguments, strict=True)))
        ends = frame.block(node.body)
        if ends:
            frame.leave(None)
        end = self.label()
        out = self.meet(frame.returns)
        if len(frame.returns.ways) > 1:
            self._close(frame.returns, end)
        self.depth -= 1
        if out is None:
            raise Refused(f"{function.__name__} never returns")
        return out.get("return")

    def _close(self, join: Join, end: str) -> None:
        """Let every way but the last, which is there already, go to the end."""
        for _, _, slot in join.ways:
            slot.append(f"goto {end};")
        self.emit(f"{end}: ;")
