"""Plain docstrings as reStructuredText: what the text says is shown as it stands, with no markup of its own.

Docstrings here are written for `help()`: single backticks round names, primes and stars in formulas, indented examples.
Sphinx would read some of that as markup and warn; so it is escaped, backticks become code and indented lines a block.
"""

from __future__ import annotations

import re
from typing import Any

SPECIAL = re.compile(r"([*|\\]|_(?=\W|$))")
SECTIONS = ("Args:", "Attributes:", "Returns:", "Yields:", "Raises:")  # of Google-style docstrings
ENTRY = re.compile(r"(\*{0,2}[\w., ]+): (.*)")


def escape(text: str) -> str:
    """Return prose as reStructuredText: names in backticks as code, everything else literally."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(
        f"``{part[1:-1]}``" if part.startswith("`") and part.endswith("`") and len(part) > 2
        else SPECIAL.sub(r"\\\1", part)
        for part in parts
    )  # fmt: skip


def section(title: str, lines: list[str]) -> list[str]:
    """Return a section of a Google-style docstring as a bold title and a list of its entries."""
    entries: list[str] = []
    for line in lines:
        if line.startswith("    ") and not line.startswith("     "):
            entries.append(line.strip())
        elif line.strip() and entries:
            entries[-1] += " " + line.strip()
    out = [f"**{title.rstrip(':')}**", ""]
    for entry in entries:
        named = ENTRY.fullmatch(entry) if title != "Returns:" else None
        out.append(f"- ``{named[1]}``: {escape(named[2])}" if named else f"- {escape(entry)}")
    return [*out, ""]


def to_rst(lines: list[str]) -> list[str]:
    """Return the lines of a docstring as reStructuredText."""
    out: list[str] = []
    block = False
    waiting = list(lines)
    while waiting:
        line = waiting.pop(0)
        if line.rstrip() in SECTIONS:
            body = []
            while waiting and (waiting[0].startswith("    ") or not waiting[0].strip()):
                body.append(waiting.pop(0))
            out += section(line.strip(), body)
            block = False
            continue
        indented = line.startswith("    ")
        if indented and not block and (not out or not out[-1].strip()):
            block = True
            if not (out and _last(out).endswith("::")):
                out += ["::", ""]
        elif line.strip() and not indented:
            block = False
        out.append(line if block or line.rstrip().endswith("::") else escape(line))
    return out


def _last(lines: list[str]) -> str:
    return next((line.rstrip() for line in reversed(lines) if line.strip()), "")


def process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Rewrite a docstring that autodoc has found."""
    lines[:] = to_rst(lines)


def setup(app: Any) -> dict[str, Any]:
    """Add the rewriting to autodoc."""
    app.connect("autodoc-process-docstring", process)
    return {"parallel_read_safe": True}
