"""First pose: a person reaches for a cup on a shelf, looks at it, and keeps both feet in place."""

import sys
from pathlib import Path

import posable as ps

out = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
human = ps.figures.human()
rest = ps.forward(human, human.rest)
cup = (-0.35, 1.45, 0.45)

goals = [
    ps.goals.Position("hand.R", cup),
    ps.goals.Aim("head", axis="z", at=cup),
    ps.goals.Pose("foot.L", rest.matrix("foot.L")),
    ps.goals.Pose("foot.R", rest.matrix("foot.R")),
    ps.goals.Posture(),
]
result = ps.solve(human, goals)
print(result)
ps.plots.draw(human, result.pose, goals, ghost=human.rest, path=out / "01_first_pose.png", title="take the cup")
