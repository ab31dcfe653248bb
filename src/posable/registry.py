"""The registry of solvers, formats and figures by name: the only plug-in mechanism."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, TypeVar

from posable.errors import PosableError, unknown

T = TypeVar("T")


class Registry:
    """Objects by name, in the order of registration.

    Example::

        SOLVERS = Registry("solver")
        SOLVERS.lazy("newton", "posable.solvers.newton:Newton")   # imported on first use

        @SOLVERS.register("mine")
        class Mine: ...

        SOLVERS.get("newton")
    """

    def __init__(self, kind: str):
        self.kind = kind
        self._entries: dict[str, Any] = {}
        self._homes: dict[str, str] = {}

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
        if name in self:
            raise PosableError(f"{self.kind} {name!r} is registered twice: {home!r} comes second")
        self._homes[name] = home

    def get(self, name: str) -> Any:
        """Return the object registered as `name`.

        Raises:
            UnknownName: With the choices and the closest of them.
        """
        if name in self._entries:
            return self._entries[name]
        if name not in self._homes:
            raise unknown(self.kind, name, self.names())
        module, _, attribute = self._homes[name].partition(":")
        thing = getattr(import_module(module), attribute)
        self._entries[name] = thing
        return thing

    def names(self) -> tuple[str, ...]:
        """Return every name, lazy ones first, each group in the order of registration."""
        return tuple(dict.fromkeys((*self._homes, *self._entries)))

    def __contains__(self, name: object) -> bool:
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
