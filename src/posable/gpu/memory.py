"""The memory of the specialiser: arrays, what is known to be in them, and the places where ways join."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from posable.gpu.arithmetic import Arithmetic
from posable.gpu.values import (
    ABSENT,
    C_TYPE,
    MOST_OPTIONS,
    Code,
    Join,
    Refused,
    Storage,
    View,
    same,
    view,
    widest,
)


class Memory(Arithmetic):
    """Adds arrays, branches and joins; `known` holds what is in memory, where that is known."""

    def __init__(self) -> None:
        super().__init__()
        self.arrays: list[str] = []
        self.tables: dict[str, str] = {}
        self.known: dict[Any, Any] = {}  # (storage, index) -> what is there
        self.written: set[Any] | None = None  # what a loop that is tried out writes

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
        lines = list(self.arrays)
        for kind in C_TYPE:
            names = [name for own, name in self.declared if own == kind]
            lines += [f"{C_TYPE[kind]} {', '.join(names[k : k + 20])};" for k in range(0, len(names), 20)]
        return "\n".join(lines)

    # ----------------------------------------------------------------------------------------------------- arithmetic

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
