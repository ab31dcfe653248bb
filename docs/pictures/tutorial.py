"""Runs the pages with code, writes into them what they print, and keeps the pictures that they draw."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from pages import DOCS, runnable, settled, update
from PIL import Image

PICTURES = DOCS / "images" / "tutorial"


def keep(path: Path, target: Path) -> None:
    """Keep a picture as a small PNG of few colours."""
    image = Image.open(path).convert("RGB")
    image.thumbnail((900, 900), Image.Resampling.LANCZOS)
    image.quantize(128, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(target, optimize=True)


def main(names: list[str]) -> None:
    """Run all pages, or those named; goals' pages have their own pictures (goals.py)."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    for page in runnable():
        if (page.parent.name == "goals" and page.stem != "index") or (names and page.stem not in names):
            continue
        with tempfile.TemporaryDirectory() as folder:
            _, printed = settled(page, Path(folder))
            changed = update(page, printed)
            for picture in sorted(Path(folder).glob("*.png")):
                keep(picture, PICTURES / picture.name)
        print(f"{page.relative_to(DOCS)}{': changed' if changed else ''}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
