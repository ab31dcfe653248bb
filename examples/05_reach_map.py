"""What a hand can reach, and in how many orientations: three sections of the workspace of an arm."""

import sys
from pathlib import Path

import posable as ps

out = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
limb = ps.figures.limb()
reach = ps.reach(limb, "hand", grid=0.08, orientations=12)
print(reach)
print(f"dexterity: {reach.dexterity.max():.0%} of 12 orientations can be reached at the best point")
reach.plot(out / "05_reach_map.png")
