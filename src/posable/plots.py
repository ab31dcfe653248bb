"""A posed figure with its goals, drawn in three dimensions."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from typing import Any

import numpy as np

from posable._files import save_picture
from posable.errors import PosableError
from posable.goals import AnyOf, Avoid, Goal, Sphere, Weighted
from posable.model.kinematics import Frames, forward
from posable.model.skeleton import Skeleton

BONE, JOINT, GHOST, GOAL, OBSTACLE = "#2b4c7e", "#1b2f4d", "#c9ced6", "#d1495b", "#edae49"


def draw(
    skeleton: Skeleton,
    pose: Any,
    goals: Goal | Iterable[Goal] = (),
    *,
    ghost: Any = None,
    path: str | PathLike[str] | None = None,
    title: str = "",
    view: tuple[float, float] = (12.0, 25.0),
) -> Any:
    """Draw a figure at a pose (n,) with the targets of its goals; return the matplotlib figure.

    ghost: another pose, drawn faintly behind. path: where to save the picture. view: elevation and azimuth [deg].
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise PosableError("drawing needs matplotlib: pip install 'posable[plots]'") from None
    canvas = Figure(figsize=(6.4, 6.4), layout="constrained")
    axes = canvas.add_subplot(projection="3d", computed_zorder=True)
    up = "xyz".index(skeleton.up or "z")
    turn = [(up + 1) % 3, (up + 2) % 3, up]  # a right-handed order of the axes with up last
    points = []
    if ghost is not None:
        points.append(_bones(axes, skeleton, forward(skeleton, ghost), turn, GHOST, 1.5))
    frames = forward(skeleton, pose)
    points.append(_bones(axes, skeleton, frames, turn, BONE, 3.0))
    points += _goals(axes, [goals] if isinstance(goals, Goal) else list(goals), frames, turn)
    _frame(axes, np.concatenate(points), turn)
    axes.view_init(*view)
    if title:
        axes.set_title(title, fontsize=11)
    if path is not None:
        save_picture(canvas, path, dpi=150)
    return canvas


def _bones(axes: Any, skeleton: Skeleton, frames: Frames, turn: list[int], color: str, width: float) -> np.ndarray:
    """Draw a line from each joint to its parent, and from the last joints to their farthest sites."""
    parents = {joint.parent for joint in skeleton.joints}
    every = []
    for joint in skeleton.joints:
        here = frames.position(joint.name)[turn]
        every.append(here)
        if joint.parent is not None:
            axes.plot(
                *np.transpose([frames.position(joint.parent)[turn], here]),
                color=color,
                lw=width,
                solid_capstyle="round",
            )
        if joint.name not in parents:
            ends = [frames.position(site.name)[turn] for site in skeleton.sites if site.joint == joint.name]
            for end in sorted(ends, key=lambda end: -float(np.linalg.norm(end - here)))[:1]:
                axes.plot(*np.transpose([here, end]), color=color, lw=width, solid_capstyle="round")
                every.append(end)
    joints = np.array(every)
    if color != GHOST:
        axes.scatter(*joints.T, s=8.0, color=JOINT, depthshade=False)
    return joints


def _goals(axes: Any, goals: list[Goal], frames: Frames, turn: list[int]) -> list[np.ndarray]:
    """Draw each goal's target as a cross, its line from the body to it, and obstacles as balls."""
    out = []
    for goal in goals:
        if isinstance(goal, (AnyOf, Weighted)):
            members = goal.members if isinstance(goal, AnyOf) else goal.goals
            out += _goals(axes, list(members), frames, turn)
        elif isinstance(goal, Avoid) and isinstance(goal.obstacle, Sphere) and goal.obstacle.center.ndim == 1:
            out.append(_ball(axes, goal.obstacle.center[turn], goal.obstacle.radius))
        target = getattr(goal, "target", getattr(goal, "position", None))
        other = getattr(goal, "other", None)
        if not isinstance(target, np.ndarray) or target.shape != (3,) or type(goal).__name__ == "Direction":
            continue
        place = target if other is None else frames.convert(target, from_=other, to="world")
        axes.scatter(*place[turn], marker="x", s=60.0, color=GOAL, depthshade=False, zorder=10)
        body = getattr(goal, "body", None)
        if body is not None:
            line = np.transpose([frames.position(body)[turn], place[turn]])
            axes.plot(*line, color=GOAL, lw=1.0, ls=":")
            if type(goal).__name__ != "Aim":
                out.append(place[turn][None])
    return out


def _ball(axes: Any, center: np.ndarray, radius: float) -> np.ndarray:
    u, v = np.meshgrid(np.linspace(0.0, 2.0 * np.pi, 25), np.linspace(0.0, np.pi, 13))
    x, y, z = np.cos(u) * np.sin(v), np.sin(u) * np.sin(v), np.cos(v)
    axes.plot_surface(
        center[0] + radius * x,
        center[1] + radius * y,
        center[2] + radius * z,
        color=OBSTACLE,
        alpha=0.35,
        linewidth=0.0,
    )
    return center + radius * np.array([[-1.0, -1.0, -1.0], [1.0, 1.0, 1.0]])


def _frame(axes: Any, points: np.ndarray, turn: list[int]) -> None:
    """Set equal scales about the points, a plain floor, and few ticks."""
    low, high = points.min(axis=0), points.max(axis=0)
    middle, half = 0.5 * (low + high), 0.52 * float((high - low).max()) + 1e-6
    for k, (name, limits) in enumerate(zip("xyz", (axes.set_xlim, axes.set_ylim, axes.set_zlim), strict=True)):
        limits(middle[k] - half, middle[k] + half)
        getattr(axes, f"set_{name}label")(f"{'xyz'[turn[k]]} [m]", fontsize=8)
        axis = getattr(axes, f"{name}axis")
        axis.set_pane_color((1.0, 1.0, 1.0, 0.0))
        axis._axinfo["grid"].update(color="#e3e6ea", linewidth=0.6)
    axes.tick_params(labelsize=7)
    axes.locator_params(nbins=5)
    axes.set_box_aspect((1.0, 1.0, 1.0), zoom=0.97)  # its labels inside the picture
