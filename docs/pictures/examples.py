"""Runs the numbered examples and keeps what they print and draw in docs/gallery, for the pages made from them."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from pages import DOCS, same
from tutorial import keep

GALLERY = DOCS / "gallery"
EXAMPLES = sorted((DOCS.parent / "examples").glob("[0-9][0-9]_*.py"))


def main(numbers: list[str]) -> None:
    """Run all examples, or those of the numbers given."""
    GALLERY.mkdir(exist_ok=True)
    for path in EXAMPLES:
        if numbers and path.stem[:2] not in numbers:
            continue
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, str(path), folder], check=True, capture_output=True, text=True, cwd=folder
            )
            printed = GALLERY / f"{path.stem}.txt"
            if not printed.exists() or not same(printed.read_text(encoding="utf8"), done.stdout):
                printed.write_text(done.stdout, encoding="utf8")
            for picture in sorted(Path(folder).glob("*.png")):
                keep(picture, GALLERY / picture.name)
        print(path.stem, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
