"""The human's body as the studio shows it: surfaces on the bones of `posable.figures.human`, from a GLB asset.

`scripts/body.py` makes the asset.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import posable as ps

ASSETS = Path(__file__).parent / "assets"
COARSE = 0.6  # the detail below which the coarse asset is enough
THIGH = 0.441  # [m] of the person that the asset was made for
SKIN, SHIRT, TROUSERS, LEATHER, DARK = (224, 176, 148), (66, 122, 161), (52, 62, 80), (236, 233, 226), (66, 50, 44)
CLOTHES: dict[str, tuple[tuple[int, int, int], str | None]] = {  # colour, and the bone that the whole of it hangs on
    "shirt": (SHIRT, None), "trousers": (TROUSERS, None), "hand.L": (SKIN, "wrist.L"), "hand.R": (SKIN, "wrist.R"),
    "shoe.L": (LEATHER, "ankle.L"), "shoe.R": (LEATHER, "ankle.R"), "head": (SKIN, "skull"), "hair": (DARK, "skull"),
    "eyes": ((40, 36, 38), "skull"),
}  # fmt: skip


def has_body(skeleton: ps.Skeleton) -> bool:
    """Say whether a figure has the bones of `posable.figures.human`, so that the body fits it."""
    return skeleton.name == "human" and {"skull", "knee.L", "toes.R", "thumb3.L", "fingers2.R"} <= set(skeleton.names)


@cache
def asset(coarse: bool) -> tuple[Any, ...]:
    """Return the surfaces of the asset, as `posable.load` reads them."""
    return ps.load(ASSETS / ("body_coarse.glb" if coarse else "body.glb")).meshes


def scale_of(skeleton: ps.Skeleton) -> float:
    """Return how large a person is against the one that the asset was made for."""
    return float(np.linalg.norm(skeleton.joint("knee.L").offset)) / THIGH
