"""The page of one subject: what `evidence(page)` writes to, and how it becomes Markdown, JSON and PNG."""

from __future__ import annotations

import io
import json
import math
import os
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.machine import machine, versions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[1]


@dataclass
class Page:
    """Collects sentences, tables, plots and values in the order in which they come."""

    name: str
    title: str
    folder: Path
    quick: bool = False
    data: Path | None = None  # the recordings; a subject that needs them says so in its line of `subjects.py`
    parts: list[str] = field(default_factory=list)
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    plots: list[str] = field(default_factory=list)
    machine: dict[str, Any] = field(default_factory=machine)
    versions: dict[str, str] = field(default_factory=versions)
    date: str = field(default_factory=lambda: date.today().isoformat())

    def pick(self, full: int, quick: int) -> int:
        """Return how many to measure: `full`, or `quick` in a quick run."""
        return quick if self.quick else full

    def heading(self, text: str) -> None:
        """Begin a section."""
        self.parts.append(f"## {text}")
        self._progress(text)

    def text(self, markdown: str) -> None:
        """Write a paragraph."""
        self.parts.append(markdown.strip())

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], note: str = "") -> None:
        """Write a table, with its title above it and a note below. Numbers are shown with three figures."""
        kept = [[_plain(cell) for cell in row] for row in rows]
        for row in kept:
            if len(row) != len(columns):
                raise ValueError(f"table {title!r}: expected {len(columns)} cells, got {len(row)}: {row}")
        rules = ["---:" if _numeric([row[k] for row in kept]) else "---" for k in range(len(columns))]
        heading = [] if self.parts[-1:] == [f"## {title}"] else [f"**{title}**", ""]  # its heading says it already
        lines = [*heading, _line(columns), _line(rules)]
        lines += [_line([shown(cell) for cell in row]) for row in kept]
        self.parts.append("\n".join(lines + (["", note.strip()] if note else [])))
        self.tables[title] = {"columns": list(columns), "rows": kept}
        self._progress(title)

    def plot(self, name: str, figure: Figure, caption: str) -> Path:
        """Write a Matplotlib figure as PNG beside the page, with its caption; return its path."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{self.name}_{name}.png"
        figure.savefig(path, dpi=110)
        self.picture(path.name, caption)
        return path

    def picture(self, file: str, caption: str) -> None:
        """Show a picture that lies beside the page already."""
        self.parts.append(f"![{caption}]({file})\n\n*{caption}*")
        self.plots.append(file)
        self._progress(file)

    def value(self, key: str, value: Any) -> Any:
        """Keep a number under a key of the JSON, for the tests and documents that quote it; return it."""
        self.values[key] = _plain(value)
        return value

    def captured(self, call: Any, *arguments: Any, **options: Any) -> tuple[Any, str]:
        """Call a function that prints; return its answer and what it printed."""
        text = io.StringIO()
        with redirect_stdout(text):
            answer = call(*arguments, **options)
        return answer, text.getvalue()

    def write(self, seconds: float) -> None:
        """Write NAME.md and NAME.json."""
        self.folder.mkdir(parents=True, exist_ok=True)
        body = [f"# {self.title}", *self.parts, "## How it was measured", self._measured(seconds)]
        (self.folder / f"{self.name}.md").write_text("\n\n".join(body) + "\n", encoding="utf8")
        kept = {
            "subject": self.name, "title": self.title, "date": self.date, "quick": self.quick,
            "seconds": round(seconds, 1), "processor_seconds": round(busy(), 1),
            "machine": self.machine, "versions": self.versions,
            "values": self.values, "tables": self.tables, "plots": self.plots,
        }  # fmt: skip
        text = json.dumps(kept, indent=1, ensure_ascii=False)
        (self.folder / f"{self.name}.json").write_text(text + "\n", encoding="utf8")

    def _measured(self, seconds: float) -> str:
        host, used = self.machine, ", ".join(f"{name} {number}" for name, number in self.versions.items())
        memory = f", {host['memory_GB']:g} GB" if "memory_GB" in host else ""
        load = f", load {host['load']:g} before the run" if "load" in host else ""
        settings = [f"{name}={os.environ[name]} " for name in sorted(os.environ) if name.startswith("POSABLE_FUZZ_")]
        again = f"`{''.join(settings)}python -m benchmarks {self.name}{' --quick' if self.quick else ''}`"
        kind = "A quick run: too few repeats to quote. " if self.quick else ""
        if host.get("load", 0.0) > 0.5 * host["cores"]:
            kind += "The machine was busy with other work, so wall-clock times are inflated. "
        took = f"{seconds:.0f} s ({busy():.0f} s of processor time)"
        return (
            f"{kind}{self.date}, {took}, {host['processor']}, {host['cores']} cores{memory}, {host['system']}"
            f"{load}. {used}. Reproduce: {again}. Data: [{self.name}.json]({self.name}.json)."
        )

    def _progress(self, text: str) -> None:
        print(f"  {self.name}: {text}", file=sys.stderr, flush=True)


def busy() -> float:
    """Return the processor time [s] of this process and of the processes that it has waited for."""
    return sum(os.times()[:4])


def read_tables(markdown: str) -> list[tuple[str, list[str], list[list[str]]]]:
    """Return the tables (title, columns, rows) of printed Markdown; a title is the last line of text above a table."""
    found: list[tuple[str, list[str], list[list[str]]]] = []
    title, inside = "", False
    for line in markdown.splitlines():
        if not line.startswith("|"):
            inside = False
            title = line.strip("#* ") or title
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not inside:
            found.append((title, cells, []))
            inside = True
        elif not all(set(cell) <= set("-: ") and cell for cell in cells):
            found[-1][2].append(cells)
    return found


def shown(cell: Any) -> str:
    """Return a cell as text: numbers with three figures, shares of `Percent` as they are."""
    if isinstance(cell, bool) or not isinstance(cell, float):
        return "" if cell is None else str(cell)
    if math.isnan(cell):
        return ""
    if cell == 0.0 or 1e-3 <= abs(cell) < 1e5:
        digits = max(0, 2 - math.floor(math.log10(abs(cell)))) if cell else 0
        return f"{cell:.{min(digits, 4)}f}"
    return f"{cell:.1e}"


def percent(share: float) -> str:
    """Return a share as text: 99.8%; never 100% or 0% unless it is."""
    text = f"{100 * share:.1f}%"
    if (text == "100.0%" and share < 1.0) or (text == "0.0%" and share > 0.0):
        text = f"{100 * share:.3f}%"
    return text.replace("100.0%", "100%").replace(".0%", "%") if share in (0.0, 1.0) else text


def _numeric(cells: Sequence[Any]) -> bool:
    """Return whether a column holds numbers, with their units or remarks, and nothing else; words stand left."""
    shown_cells = [shown(cell) for cell in cells if cell not in (None, "")]
    begins = all(text[:1].isdigit() or text[:2].lstrip("-").isdigit() for text in shown_cells)
    return bool(shown_cells) and begins and not any(_WORDS.search(text) for text in shown_cells)


_WORDS = re.compile(r"[^\W\d_]{4,}")  # a unit is shorter


def _line(cells: Sequence[Any]) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def _plain(value: Any) -> Any:
    """Return NumPy's numbers and arrays as Python's own."""
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value.tolist()]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
