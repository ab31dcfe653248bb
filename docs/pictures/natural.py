"""The everyday poses as bodies: the plain solution, least change, and least change with the prior, side by side."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
from pages import DOCS
from PIL import Image, ImageDraw
from render import RED, Picture

import posable as ps

sys.path.insert(0, str(DOCS.parent))
from benchmarks.everyday_poses import POSES, Everyday

SIZE = (150, 200)  # pixels of one body
GROUPS = (3, 2)  # of a sheet, across and down
HUMAN = ps.figures.human()
REST = ps.forward(HUMAN, HUMAN.rest)
WAYS = (({"natural": False}, ()), ({}, ()), ({}, (ps.goals.Natural(),)))


def body(everyday: Everyday, options: dict, extra: tuple, path: Path, size: tuple[int, int] = SIZE) -> Image.Image:
    """Return the picture of one answer."""
    goals = everyday.goals(REST)
    result = ps.solve(HUMAN, [*goals, *extra], **options)
    assert result.ok, f"{everyday.name}: {result}"
    picture = Picture(everyday.azimuth, 8.0, size=size)
    for x in (-0.75, 0.75):  # the same scale in every picture
        for y in (0.0, 2.0):
            picture.ball((x * np.cos(np.radians(everyday.azimuth)), y, -x * np.sin(np.radians(everyday.azimuth))), 1e-4)
    picture.figure(HUMAN, result.pose)
    for goal in goals:
        if isinstance(goal, ps.goals.Position):
            picture.ball(goal.target, 0.03, RED)
    picture.draw(path)
    return Image.open(path).convert("RGBA")


def first_command(path: Path) -> None:
    """Draw what README's first command gave without least change, and what it gives."""
    sheet = Image.new("RGBA", (2 * 300, 400), (255, 255, 255, 0))
    for way, (options, extra) in enumerate(WAYS[:2]):
        sheet.alpha_composite(body(POSES[0], options, extra, path, (300, 400)), (300 * way, 0))
    sheet.save(path, optimize=True)


def main() -> None:
    """Draw every sheet."""
    folder = DOCS / "images" / "natural"
    folder.mkdir(parents=True, exist_ok=True)
    first_command(folder / "first-command.png")
    across, down = GROUPS
    each = across * down
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(-(-len(POSES) // each)):
            width, height = len(WAYS) * SIZE[0] + 20, SIZE[1] + 26
            sheet = Image.new("RGBA", (across * width, down * height), (255, 255, 255, 255))
            for k, everyday in enumerate(POSES[number * each : (number + 1) * each]):
                x, y = (k % across) * width, (k // across) * height
                ImageDraw.Draw(sheet).text((x + 8, y + 6), everyday.name, fill=(40, 48, 60, 255))
                for way, (options, extra) in enumerate(WAYS):
                    one = body(everyday, options, extra, Path(scratch) / "one.png")
                    sheet.alpha_composite(one, (x + way * SIZE[0], y + 22))
            out = folder / f"everyday-{number + 1}.png"
            sheet.convert("RGB").quantize(128).save(out, optimize=True)
            print(out.name, out.stat().st_size // 1000, "kB")


if __name__ == "__main__":
    main()
