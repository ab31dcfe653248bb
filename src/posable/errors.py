"""Exceptions that state what was expected, what was found and what was probably meant, in words and as attributes."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from os import PathLike, fspath


class PosableError(Exception):
    """Base class of every error that Posable raises on purpose."""


class PosableWarning(UserWarning):
    """Base class of every warning of Posable."""


def printable(text: str) -> str:
    """Return a text with control characters escaped: names in files may contain anything."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def short(value: object) -> str:
    """Return a value as text for a message of one line: what it is, where that would be long."""
    text = repr(value)
    return text if len(text) <= 80 and "\n" not in text else f"an object of type {type(value).__name__}"


def _expected_got(expected: str, got: object) -> str:
    if expected and got is not None:
        return f"expected {expected}, got {got}"
    if expected:
        return f"expected {expected}"
    return "" if got is None else f"got {got}"


class SkeletonError(PosableError):
    """A figure that cannot be built. `findings` lists every fault, not only the first."""

    def __init__(self, findings: str | Iterable[str], *, name: str = ""):
        self.findings: tuple[str, ...] = (findings,) if isinstance(findings, str) else tuple(findings)
        self.name = name
        super().__init__(self.findings)

    def __str__(self) -> str:
        figure = f"skeleton {self.name!r}" if self.name else "skeleton"
        faults = "1 fault" if len(self.findings) == 1 else f"{len(self.findings)} faults"
        return "\n".join([f"{figure} has {faults}:", *(f"  - {printable(finding)}" for finding in self.findings)])


class _InvalidArgument(PosableError):
    """An invalid argument: which one, what was expected, and the value given."""

    def __init__(self, message: str = "", *, expected: str = "", got: object = None):
        self.message = message
        self.expected = expected
        self.got = got
        super().__init__(message)

    def __str__(self) -> str:
        return ": ".join(part for part in (self.message, _expected_got(self.expected, self.got)) if part)


class GoalError(_InvalidArgument):
    """A goal that does not fit the figure: `message`, `expected`, `got`."""


class SolverError(_InvalidArgument):
    """A solver called wrongly: `message`, `expected`, `got`. An unreached goal is a result, not an error."""


class FormatError(PosableError):
    """A file that cannot be read or written: `path`, `line` and `column` (from 1), `offset` in bytes, reason."""

    def __init__(
        self,
        message: str = "",
        *,
        path: str | PathLike[str] | None = None,
        line: int | None = None,
        column: int | None = None,
        offset: int | None = None,
        expected: str = "",
        found: object = None,
    ):
        self.message = message
        self.path = None if path is None else fspath(path)
        self.line = line
        self.column = column
        self.offset = offset
        self.expected = expected
        self.found = found
        super().__init__(message)

    def __str__(self) -> str:
        place = self.path or ""
        if self.line is not None:
            place = f"{place}:{self.line}" if place else f"line {self.line}"
            if self.column is not None:
                place += f":{self.column}"
        if self.offset is not None:
            place = f"{place} at byte {self.offset}".lstrip()
        what = _expected_got(self.expected, None)
        if self.found is not None:
            what = f"{what}, found {self.found}" if what else f"found {self.found}"
        return printable(": ".join(part for part in (place, self.message, what) if part))


class MissingFile(FormatError, FileNotFoundError):
    """There is no such file: a `FormatError` that is also a `FileNotFoundError`."""

    __str__ = FormatError.__str__


MOST_LISTED = 24  # choices in a message; the exception has all of them


class UnknownName(PosableError):
    """An unknown name: its `kind`, the `name`, the `choices` and the closest `suggestion`, or None."""

    def __init__(self, kind: str, name: object, choices: Iterable[str]):
        self.kind = kind
        self.name = name
        self.choices = tuple(choices)
        self.suggestion = _closest(name, self.choices)
        super().__init__(kind, name, self.choices)

    def __str__(self) -> str:
        hint = did_you_mean(self.name, self.choices)
        listed = ", ".join(self.choices[:MOST_LISTED]) if self.choices else "none"
        if len(self.choices) > MOST_LISTED:
            listed += f" and {len(self.choices) - MOST_LISTED} more"
        return f"unknown {self.kind} {self.name!r}{hint}{' Choices' if hint else '; choices'}: {listed}"


def _closest(name: object, choices: Iterable[str]) -> str | None:
    by_lower: dict[str, str] = {}
    for choice in choices:
        by_lower.setdefault(choice.lower(), choice)
    matches = difflib.get_close_matches(str(name).lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[matches[0]] if matches else None


def did_you_mean(name: object, choices: Iterable[str]) -> str:
    """Return `", did you mean 'elbow'?"` for the closest choice, or an empty string if nothing is close."""
    suggestion = _closest(name, choices)
    return f", did you mean {suggestion!r}?" if suggestion else ""


def unknown(kind: str, name: object, choices: Iterable[str]) -> UnknownName:
    """Return the error to raise if no `kind` ("joint", "solver", ...) among `choices` has that `name`."""
    return UnknownName(kind, name, choices)
