"""Runs the numbered examples and keeps what they print and draw in docs/gallery, for the pages made from them."""

from __future__ import annotations

import contextlib
import io
import os
import runpy
import sys
import tempfile
from pathlib import Path

from pages import DOCS, still_true
from tutorial import keep

GALLERY = DOCS / "gallery"
EXAMPLES = sorted((DOCS.parent / "examples").glob("[0-9][0-9]_*.py"))


def run(path: Path, folder: str) -> str:
    """Run an example as a program in a folder; return what it prints."""
    before, arguments = Path.cwd(), sys.argv
    printed = io.StringIO()
    try:
        os.chdir(folder)
        sys.argv = [str(path), folder]
        with contextlib.redirect_stdout(printed):
            runpy.run_path(str(path), run_name="__main__")
    finally:
        os.chdir(before)
        sys.argv = arguments
    return printed.getvalue()


def main(numbers: list[str]) -> None:
    """Run all examples, or those of the numbers given."""
    for path in EXAMPLES:
        if numbers and path.stem[:2] not in numbers:
            continue
        with tempfile.TemporaryDirectory() as folder:
            run(path, folder)  # once for what has to be compiled or read, so that the times shown are of solving
            text, shown = run(path, folder), GALLERY / f"{path.stem}.txt"
            if not shown.exists() or not still_true(shown.read_text(encoding="utf8"), text):
                shown.write_text(text, encoding="utf8")
            for picture in sorted(Path(folder).glob("*.png")):
                keep(picture, GALLERY / picture.name)
        print(path.stem, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
