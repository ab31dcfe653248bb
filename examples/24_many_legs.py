"""A figure with many legs: a spider stands on eight feet and leans its body over."""

import sys
from pathlib import Path

import numpy as np

import posable as ps

out = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
spider = ps.figures.spider()
rest = ps.forward(spider, spider.rest)
feet = [name for name in spider.site_names if name != "body"]
print(f"{spider.size} degrees of freedom, {len(feet)} feet")

body = spider.joints[0].name
goals = [ps.goals.Position(foot, rest.position(foot)) for foot in feet]
goals.append(ps.goals.Position(body, rest.position(body) + np.array([0.05, 0.03, 0.04])))
result = ps.solve(spider, goals)
print(result)
ps.plots.draw(spider, result.pose, goals, ghost=spider.rest, path=out / "24_many_legs.png", title="eight feet stay")
