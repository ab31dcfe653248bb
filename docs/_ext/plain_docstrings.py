"""Plain docstrings as reStructuredText: what the text says is shown as it stands, with no markup of its own.

Docstrings here are written for `help()`: single backticks round names, primes and stars in formulas, indented examples.
Sphinx would read some of that as markup and warn; so it is escaped, backticks become code and indented lines a block.
"""

from __future__ import annotations

import re
from typing import Any

SPECIAL = re.compile(r"([*|\\]|_(?=\W|$))")
SEED = re.compile(r"\b[Ss]eed (00[0-4])\b")


def escape(text: str) -> str:
    """Return prose as reStructuredText: names in backticks as code, everything else literally."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(
        f"``{part[1:-1]}``" if part.startswith("`") and part.endswith("`") and len(part) > 2
        else SPECIAL.sub(r"\\\1", part)
        for part in parts
    )  # fmt: skip


def to_rst(lines: list[str]) -> list[str]:
    """Return the lines of a docstring as reStructuredText."""
    out: list[str] = []
    block = False
    for line in lines:
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
