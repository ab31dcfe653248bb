"""Blocking limits: a person who sits upright cannot reach a point; the result lists the limits and what they cost."""

import sys
from pathlib import Path

import posable as ps

out = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
human = ps.figures.human()
upright = human.freeze(["root", "spine1", "spine2", "spine3"])
behind = ps.goals.Position("hand.R", (0.30, 1.45, -0.35))  # behind the other shoulder

result = ps.solve(upright, behind)
print(result)
print("\nwithout limits:")
print(ps.solve(upright, behind, limits=False))
print("\nwith the spine:")
print(ps.solve(human.freeze(["root"]), behind))
ps.plots.draw(
    upright,
    result.pose,
    [behind],
    ghost=human.rest,
    path=out / "03_limits_and_blocking.png",
    title="as far as the limits allow",
    view=(15, 215),
)
