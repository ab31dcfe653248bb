"""Lookup by name, and the only plug-in mechanism: solvers, goals, formats and figures each have one `Registry`.

Other packages add entries through the entry points of its group; they are imported when they are first used.
With POSABLE_PLUGINS=never in the environment, entry points are ignored.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any, TypeVar

from posable.errors import PosableError, PosableWarning, unknown

T = TypeVar("T")


class Registry:
    """Objects by name, in the order of registration.

    Example::

        SOLVERS = Registry("solver")
        SOLVERS.lazy("newton", "posable.solvers.newton:Newton")   # imported on first use

        @SOLVERS.register("mine")
        class Mine: ...

        SOLVERS.get("newton")

    Args:
        kind: What the objects are, for messages: "solver".
        group: The group of entry points through which other packages add theirs: "posable.solvers".
        taken: A module whose `__all__` lists names that other packages may not use.
    """

    def __init__(self, kind: str, group: str | None = None, taken: str | None = None):
        self.kind = kind
        self.group = group
        self.taken = taken
        self._entries: dict[str, Any] = {}
        self._homes: dict[str, str] = {}
        self._packages: dict[str, str] = {}  # by name, of entries added by other packages
        self._discovered = group is None

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that registers an object under `name` and returns it unchanged."""

        def enter(thing: T) -> T:
            # a lazy entry may be registered again by its own module
            if self._entries.get(name, thing) is not thing:
                raise PosableError(f"{self.kind} {name!r} is registered twice: {self._entries[name]!r} and {thing!r}")
            home = self._homes.get(name)
            if home is not None and _address(thing) not in (None, home):
                raise PosableError(f"{self.kind} {name!r} is registered twice: {home!r} and {thing!r}")
            self._entries[name] = thing
            return thing

        return enter

    def lazy(self, name: str, home: str) -> None:
        """Register `name` without importing it; `home` is "package.module:attribute"."""
        module, colon, attribute = home.partition(":")
        if not (module and colon and attribute):
            raise PosableError(f"{self.kind} {name!r}: expected a home 'package.module:attribute', got {home!r}")
        if name in self._entries or name in self._homes:
            raise PosableError(f"{self.kind} {name!r} is registered twice: {home!r} comes second")
        self._homes[name] = home

    def get(self, name: str) -> Any:
        """Return the object registered as `name`.

        Raises:
            UnknownName: There is no such name.
        """
        if not isinstance(name, str):
            raise unknown(self.kind, name, self.names())
        if name in self._entries:
            return self._entries[name]
        if name not in self._homes:
            self._discover()
        if name not in self._homes:
            raise unknown(self.kind, name, self.names())
        module, _, attribute = self._homes[name].partition(":")
        try:
            thing = import_module(module)
            for part in attribute.split("."):
                thing = getattr(thing, part)
        except Exception as problem:
            if name not in self._packages:
                raise
            package, reason = self._packages[name], f"{type(problem).__name__}: {problem}"
            raise PosableError(
                f"{self.kind} {name!r} of the package {package!r} cannot be imported: {reason}"
            ) from problem
        self._entries[name] = thing
        return thing

    def available(self, names: Iterable[str] | None = None) -> Iterator[tuple[str, Any]]:
        """Yield names, by default all, with their objects; a plug-in that cannot be imported causes a warning."""
        for name in self.names() if names is None else names:
            try:
                yield name, self.get(name)
            except PosableError as problem:
                if name not in self._packages:
                    raise
                warnings.warn(str(problem), PosableWarning, stacklevel=2)
                del self._homes[name]  # once is enough

    def names(self) -> tuple[str, ...]:
        """Return every name, lazy ones first, each group in the order of registration."""
        self._discover()
        return tuple(dict.fromkeys((*self._homes, *self._entries)))

    def _discover(self) -> None:
        """Add the entry points of installed packages, once."""
        if self._discovered or os.environ.get("POSABLE_PLUGINS") == "never":
            return
        self._discovered = True
        from importlib.metadata import entry_points  # imported late: it takes longer than the rest of this package

        ours = import_module(self.taken).__all__ if self.taken else ()
        for point in entry_points(group=self.group or ""):
            package = point.dist.name if point.dist is not None else "unknown"
            if point.name in self._entries or point.name in self._homes or point.name in ours:
                if self._homes.get(point.name) != point.value:  # the same package may be on the path twice
                    warnings.warn(
                        f"the package {package!r} adds the {self.kind} {point.name!r}, which already exists: ignored",
                        PosableWarning,
                        stacklevel=3,
                    )
            elif ":" in point.value:
                self._homes[point.name], self._packages[point.name] = point.value, package

    def __contains__(self, name: object) -> bool:
        if name not in self._entries and name not in self._homes:
            self._discover()
        return name in self._entries or name in self._homes

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def __repr__(self) -> str:
        return f"Registry({self.kind!r}, names={list(self.names())})"


def _address(thing: Any) -> str | None:
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    return f"{module}:{name}" if module and name else None
