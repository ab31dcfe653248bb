"""Parent's worked example: an arm of three links follows a line to its goal, with every method.

    python examples/parent_linkages_figures.py [PICTURE.png]

Links 15, 10 and 5, start (pi/8, pi/4, pi/4), 21 frames with one step each. Rows are the figures 5.20 to 5.25; the
last column shows the path of the tip and the line that it should follow.
"""

import sys

import numpy as np

import posable as ps
from posable._solve import solve
from posable.goals import Position
from posable.solvers import get

ARM = ps.figures.planar_arm([15, 10, 5])
START = np.array([np.pi / 8, np.pi / 4, np.pi / 4])
NEAR, FAR = np.array([-20.0, 5.0, 0.0]), np.array([-35.0, 5.0, 0.0])
RAW = {"best": False, "max_step": np.inf}  # unclamped, as in the text
EVEN, LATE = (0, 5, 10, 15, 20), (0, 10, 18, 19, 20)
STRAIGHT = {"toward": (0.0, 0.0, 0.0), **RAW}

ROWS = (
    ("5.20a  pseudo-inverse", get("pseudoinverse")(**RAW), NEAR, EVEN),
    ("5.20b  damped", get("dls")(damping=1.0, **RAW), NEAR, EVEN),
    ("5.21a  out of reach, undamped", get("pseudoinverse")(**RAW), FAR, LATE),
    ("5.21b  out of reach, damped", get("dls")(damping=5.0, **RAW), FAR, LATE),
    ("5.22  gains 0.1, 0.5, 0.1", get("pseudoinverse")(gains=(0.1, 0.5, 0.1), **STRAIGHT), NEAR, EVEN),
    ("5.22  gains 0.1, 0.1, 0.5", get("pseudoinverse")(gains=(0.1, 0.1, 0.5), **STRAIGHT), NEAR, EVEN),
    ("5.23  alternative Jacobian", get("pseudoinverse")(pull_goal=True, **RAW), NEAR, EVEN),
    ("5.24  transpose, 0.1 degrees", get("transpose")(step=np.radians(0.1), **RAW), NEAR, EVEN),
    ("5.25  cyclic coordinate descent", get("ccd")(), NEAR, EVEN),
    ("5.25  ranked", get("ccd")(order="ranked"), NEAR, EVEN),
)


def play(solver, goal, count=21):
    """Return the poses (count, 3) of a sequence that takes one step per frame towards a goal moving along a line."""
    pose, poses = START, [START]
    first = ps.forward(ARM, START).position("tip")
    for part in np.linspace(0.0, 1.0, count)[1:]:
        target = first + part * (goal - first)
        pose = solve(ARM, Position("tip", target, tolerance=1e-12), start=pose, solver=solver, max_iterations=1).pose
        poses.append(pose)
    return np.array(poses)


def main(path):
    """Draw every row into one picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(len(ROWS), 6, figsize=(13, 2.1 * len(ROWS)))
    for row, (title, solver, goal, shown) in zip(axes, ROWS, strict=True):
        poses = play(solver, goal)
        frames = ps.forward(ARM, poses)
        chain = np.stack([frames.position(name) for name in ("joint1", "joint2", "joint3", "tip")], axis=1)
        for axis, k in zip(row, shown, strict=False):
            axis.plot(chain[k, :, 0], chain[k, :, 1], "-o", color="tab:blue", markersize=3)
            axis.plot(*goal[:2], "x", color="tab:red")
            axis.set_title(f"frame {k}", fontsize=7)
        row[5].plot([chain[0, 3, 0], goal[0]], [chain[0, 3, 1], goal[1]], "--", color="tab:red", linewidth=0.8)
        row[5].plot(chain[:, 3, 0], chain[:, 3, 1], ".-", color="tab:blue", markersize=3)
        row[5].set_title("path of the tip", fontsize=7)
        row[0].set_ylabel(title, fontsize=7)
        for axis in row:
            axis.set(xlim=(-38, 30), ylim=(-15, 32), aspect="equal")
            axis.tick_params(labelsize=5)
        gap = np.linalg.norm(frames.position("tip")[-1] - goal)
        print(f"{title:34s} ends {gap:6.3f} from the goal, largest turn {np.abs(np.diff(poses, axis=0)).max():.3f} rad")
    figure.tight_layout()
    figure.savefig(path, dpi=90)
    print(f"wrote {path}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "parent_linkages_figures.png")
