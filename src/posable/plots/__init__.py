"""Pictures, by matplotlib: `posable.plots.draw(skeleton, pose, goals, path="pose.png")`. Needs posable[plots]."""

from posable.plots.figure import draw

__all__ = ["draw"]
