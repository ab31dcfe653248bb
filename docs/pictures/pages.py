"""Runs the code of a page and compares, or updates, its output.

A page's ```python blocks run in order in one namespace, in a folder of their own. A ```text block right behind one is
what it prints. Times are never compared, nor errors far below a tolerance; words are, and other numbers to 5 %.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```(python|text)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
UNCOMPARED = re.compile(r"\d[\d.e+-]* (?:ms|us|s|iterations?|frames/s)\b|(?<=reached )[\d.e+-]+(?= (?:mm|deg|m)\b)")
TIMES = re.compile(r"(\d[\d.e+-]*) (ms|us|s|frames/s)\b")
SHIFT = 3.0  # a time that moved by more than this factor is written again
DOCS = Path(__file__).resolve().parents[1]


@dataclass
class Block:
    """A block of code on a page, its stated output, and where that is."""

    code: str
    said: str | None
    start: int  # of the text block's content, or where one would go
    end: int
    line: int


def blocks_of(text: str) -> list[Block]:
    """Return the blocks of code of a page with their stated output."""
    found = list(BLOCK.finditer(text))
    out = []
    for k, match in enumerate(found):
        if match[1] != "python":
            continue
        line = text.count("\n", 0, match.start()) + 2
        after = found[k + 1] if k + 1 < len(found) else None
        if after is not None and after[1] == "text" and not text[match.end() : after.start()].strip():
            out.append(Block(match[2], after[2], after.start(2), after.end(2), line))
        else:
            out.append(Block(match[2], None, match.end(), match.end(), line))
    return out


def run(path: Path, folder: Path) -> tuple[dict[str, Any], list[tuple[Block, str]]]:
    """Run a page's code in a folder; return the names that it leaves behind, and what each block printed."""
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = []
    before = Path.cwd()
    os.chdir(folder)
    try:
        for block in blocks_of(path.read_text(encoding="utf8")):
            out = io.StringIO()
            code = compile("\n" * (block.line - 1) + block.code, str(path), "exec")
            with contextlib.redirect_stdout(out):
                exec(code, names)
            printed.append((block, out.getvalue()))
    finally:
        os.chdir(before)
    return names, printed


def settled(path: Path, folder: Path) -> tuple[dict[str, Any], list[tuple[Block, str]]]:
    """Run a page once to compile and load, then three times; return the fastest run by the times printed."""
    run(path, folder)
    return min(
        (run(path, folder) for _ in range(3)), key=lambda ran: sum(map(milliseconds, (text for _, text in ran[1])))
    )


def milliseconds(text: str) -> float:
    """Return the sum of the times that a text names [ms]."""
    return sum(float(value) * {"us": 1e-3, "ms": 1.0, "s": 1e3}.get(unit, 0.0) for value, unit in TIMES.findall(text))


def same(said: str, printed: str, skip: re.Pattern[str] = UNCOMPARED) -> bool:
    """Return whether two printed texts say the same, but for what is skipped."""
    a, b = (re.sub(r"[\[\]]", " ", skip.sub("#", text)).split() for text in (said, printed))
    return len(a) == len(b) and all(map(alike, a, b))


def alike(a: str, b: str) -> bool:
    """Return whether two words are the same but for a few percent of the numbers in them."""
    if NUMBER.sub("#", a) != NUMBER.sub("#", b):
        return False
    pairs = zip(NUMBER.findall(a), NUMBER.findall(b), strict=True)
    return all(abs(float(x) - float(y)) <= 0.05 * max(abs(float(x)), abs(float(y))) + 2e-3 for x, y in pairs)


def still_true(said: str, printed: str) -> bool:
    """Return whether what a page says may stay: the words and numbers the same, each time within a small factor."""
    times = [[(float(value), unit) for value, unit in TIMES.findall(text)] for text in (said, printed)]
    return same(said, printed, TIMES) and all(
        u == v and a <= SHIFT * b and b <= SHIFT * a for (a, u), (b, v) in zip(*times, strict=True)
    )


def wrong(path: Path, printed: list[tuple[Block, str]]) -> list[str]:
    """Return a sentence for each block whose output is not what the page says."""
    out = []
    for block, text in printed:
        if block.said is None and text.strip():
            out.append(f"{path.name}:{block.line}: prints what the page does not show:\n{text}")
        elif block.said is not None and not same(block.said, text):
            out.append(f"{path.name}:{block.line}: said\n{block.said}printed\n{text}")
    return out


def update(path: Path, printed: list[tuple[Block, str]]) -> bool:
    """Write what was printed into the page, unless only times differ, and little; return whether it changed."""
    text = path.read_text(encoding="utf8")
    for block, out in reversed(printed):
        if block.said is None and out.strip():
            text = f"{text[: block.start]}\n```text\n{out.rstrip()}\n```\n{text[block.end :]}"
        elif block.said is not None and not still_true(block.said, out):
            text = f"{text[: block.start]}{out.rstrip()}\n{text[block.end :]}"
    if text == path.read_text(encoding="utf8"):
        return False
    path.write_text(text, encoding="utf8")
    return True


def runnable() -> list[Path]:
    """Return the pages whose code runs: the tutorial, the goals, the first page, installation."""
    folders = [*sorted((DOCS / "tutorial").glob("*.md")), *sorted((DOCS / "goals").glob("*.md"))]
    every = [DOCS / "index.md", DOCS / "installation.md", *folders]
    return [path for path in every if blocks_of(path.read_text(encoding="utf8"))]
