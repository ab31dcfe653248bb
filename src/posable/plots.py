"""Pictures: a posed figure with its goals in three dimensions, and the speeds of its joints over time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any

import numpy as np

from posable._files import save_picture
from posable.errors import PosableError
from posable.goals import AnyOf, Avoid, Goal, Sphere, Weighted
from posable.model.kinematics import Frames, forward
from posable.model.skeleton import Skeleton

BONE, JOINT, GHOST, GOAL, OBSTACLE = "#2b4c7e", "#1b2f4d", "#c9ced6", "#d1495b", "#edae49"
MOST_NAMED = 8  # joints in a legend


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
    """Draw a figure at a pose with the targets of its goals.

    Args:
        skeleton: The figure.
        pose: (n,) [rad, m].
        goals: Goals whose targets are drawn.
        ghost: (n,) Another pose, drawn faintly behind it.
        path: Where to save the picture.
        title: Of the picture.
        view: [deg] Elevation and azimuth.

    Returns:
        The matplotlib figure.
    """
    canvas = _canvas((6.4, 6.4))
    axes = canvas.add_subplot(projection="3d", computed_zorder=True)
    up = skeleton.up_axis
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


def draw_speeds(
    skeleton: Skeleton,
    velocities: Any,
    limits: Any,
    dt: float,
    errors: Mapping[str, Any] | None = None,
    *,
    path: str | PathLike[str] | None = None,
) -> Any:
    """Draw the speed of every joint over time as a fraction of its limit, and errors below.

    Args:
        skeleton: The figure.
        velocities: (T, n) [rad/s, m/s] of each tick.
        limits: (n,) [rad/s, m/s] the velocity limits.
        dt: [s] between two ticks.
        errors: goal -> (T,) [m, rad]; None: none are drawn.
        path: Where to save the picture.

    Returns:
        The matplotlib figure.
    """
    canvas = _canvas((8.0, 5.6))
    rows = canvas.subplots(2 if errors else 1, 1, sharex=True, squeeze=False, height_ratios=[2, 1] if errors else [1])
    shares = np.asarray(velocities, dtype=float) / limits
    seconds = dt * np.arange(1, len(shares) + 1)
    top = rows[0, 0]
    moving = np.argsort(-np.abs(shares).max(axis=0, initial=0.0))
    for rank, i in enumerate(moving):  # the fastest ones by name, the others faintly
        named = rank < MOST_NAMED
        top.plot(seconds, shares[:, i], lw=1.4 if named else 0.6, color=None if named else GHOST,
                 label=skeleton.dof_names[i] if named else None, zorder=2 if named else 1)  # fmt: skip
    for side in (-1.0, 1.0):
        top.axhline(side, color=GOAL, lw=1.0, ls="--")
    top.set(ylabel="speed / limit", ylim=(-1.15, 1.15))
    top.legend(fontsize=7, ncols=2, loc="upper right")
    if errors:
        for name, values in errors.items():
            rows[1, 0].semilogy(seconds, np.maximum(values, 1e-9), lw=1.2, label=name)
        rows[1, 0].set(ylabel="error [m, rad]")
        rows[1, 0].legend(fontsize=7, loc="upper right")
    rows[-1, 0].set(xlabel="time [s]")
    for axes in rows[:, 0]:
        axes.grid(color="#e3e6ea", lw=0.6)
    if path is not None:
        save_picture(canvas, path, dpi=150)
    return canvas


def _canvas(size: tuple[float, float]) -> Any:
    """Return an empty matplotlib figure of a size [inch]."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise PosableError("drawing needs matplotlib: pip install 'posable[plots]'") from None
    return Figure(figsize=size, layout="constrained")


def _bones(axes: Any, skeleton: Skeleton, frames: Frames, turn: list[int], color: str, width: float) -> np.ndarray:
    """Draw a line from each joint to its parent, and from leaf joints to their farthest sites."""
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
    """Draw each goal's target as a cross, a line from the body to it, and obstacles as spheres."""
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
    """Set equal scales around the points, plain panes and few ticks."""
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
