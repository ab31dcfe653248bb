"""Small drawings as SVG text: curves over time, bars, stick figures. No library, no files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from posable.kinematics import forward
from posable.skeleton import Skeleton

BLUE, RED, GREY, GREEN = "#2b6cb0", "#c53030", "#a0aec0", "#2f855a"
MOST_POINTS = 1500  # of a curve: more than a screen has


def _svg(width: float, height: float, body: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" font-family="sans-serif" font-size="11">{body}</svg>'
    )


def _ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Return round numbers between two."""
    span = max(high - low, 1e-12)
    step = 10.0 ** np.floor(np.log10(span / count))
    step *= next(k for k in (1, 2, 5, 10) if span / (k * step) <= count + 1)
    return [float(x) for x in np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step]


def curves(
    lines: Mapping[str, tuple[np.ndarray, str]],
    *,
    seconds: float,
    unit: str,
    marks: Sequence[tuple[float, float, str]] = (),
) -> str:
    """Return curves over time: lines {name: (values (T,), colour)}; marks (from, to [s], colour) shade."""
    width, height, left, bottom = 900.0, 220.0, 50.0, 24.0
    high = max((float(np.nanmax(values)) for values, _ in lines.values() if np.isfinite(values).any()), default=1.0)
    high = high * 1.05 or 1.0

    def x(share: float) -> float:
        return left + share * (width - left - 10.0)

    def y(value: float) -> float:
        return height - bottom - value / high * (height - bottom - 16.0)

    body = []
    for start, end, colour in marks:
        wide = max(1.0, x(end / max(seconds, 1e-9)) - x(start / max(seconds, 1e-9)))
        at = x(start / max(seconds, 1e-9))
        body.append(
            f'<rect x="{at:.1f}" y="10" width="{wide:.1f}" height="{height - bottom - 10:.1f}" '
            f'fill="{colour}" opacity="0.25"/>'
        )
    for tick in _ticks(0.0, high):
        body.append(f'<line x1="{left}" x2="{width - 10}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" stroke="#e2e8f0"/>')
        body.append(f'<text x="{left - 4}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for tick in _ticks(0.0, max(seconds, 1e-9), 8):
        body.append(
            f'<text x="{x(tick / max(seconds, 1e-9)):.1f}" y="{height - 6}" text-anchor="middle">{tick:g} s</text>'
        )
    for k, (name, (values, colour)) in enumerate(lines.items()):
        picked, step = _thin(values)
        points = " ".join(
            f"{x(i * step / max(len(values) - 1, 1)):.1f},{y(float(v)):.1f}"
            for i, v in enumerate(picked)
            if np.isfinite(v)
        )
        body.append(f'<polyline fill="none" stroke="{colour}" points="{points}"/>')
        body.append(f'<text x="{left + 8 + 160 * k}" y="12" fill="{colour}">{escape(name)} [{escape(unit)}]</text>')
    return _svg(width, height, "".join(body))


def _thin(values: np.ndarray) -> tuple[np.ndarray, int]:
    """Return a curve with few enough points, each the largest of its stretch: no peak is lost."""
    step = max(1, -(-len(values) // MOST_POINTS))
    if step == 1:
        return values, 1
    padded = np.concatenate([values, np.full(-len(values) % step, np.nan)]).reshape(-1, step)
    filled = np.where(np.isfinite(padded), padded, -np.inf).max(axis=1)
    return np.where(np.isfinite(filled), filled, np.nan), step


def bars(values: Mapping[str, float], *, unit: str) -> str:
    """Return horizontal bars, the longest first."""
    rows = sorted(values.items(), key=lambda item: -np.nan_to_num(item[1]))
    high = max((value for _, value in rows if np.isfinite(value)), default=1.0) or 1.0
    body = []
    for k, (name, value) in enumerate(rows):
        y = 14 * k + 12
        body.append(f'<text x="96" y="{y}" text-anchor="end">{escape(name)}</text>')
        body.append(
            f'<rect x="100" y="{y - 9}" width="{max(0.0, np.nan_to_num(value) / high * 440):.1f}" '
            f'height="10" fill="{BLUE}"/>'
        )
        body.append(
            f'<text x="{104 + np.nan_to_num(value) / high * 440:.1f}" y="{y}">{value:.1f} {escape(unit)}</text>'
        )
    return _svg(640, 14 * len(rows) + 8, "".join(body))


def figure_picture(
    skeleton: Skeleton, pose: np.ndarray, targets: np.ndarray | None = None, sites: Sequence[str] = ()
) -> str:
    """Return a stick figure from the front and from the side, with lines from sites to targets (M, 3) [m]."""
    frames = forward(skeleton, pose)
    up = 2 if skeleton.up == "z" else 1
    across = (1, 0) if up == 2 else (0, 2)
    joints = {joint.name: frames.position(joint.name) for joint in skeleton.joints}
    ends = [(frames.position(site.name), joints[site.joint]) for site in skeleton.sites if site.name.endswith(".end")]
    cloud = np.array(list(joints.values()))
    if targets is not None and np.isfinite(targets).any():
        cloud = np.vstack([cloud, targets[np.isfinite(targets).all(axis=-1)]])
    middle, size = 0.5 * (cloud.max(axis=0) + cloud.min(axis=0)), float(np.ptp(cloud, axis=0).max()) or 1.0
    body = []
    for view, axis in enumerate(across):

        def at(point: np.ndarray, view: int = view, axis: int = axis) -> tuple[float, float]:
            return (
                150.0 + 300.0 * view + 260.0 * (point[axis] - middle[axis]) / size,
                150.0 - 260.0 * (point[up] - middle[up]) / size,
            )

        bones = [(joints[joint.name], joints[joint.parent]) for joint in skeleton.joints if joint.parent is not None]
        for a, b in [*bones, *ends]:
            (x1, y1), (x2, y2) = at(a), at(b)
            body.append(
                f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{BLUE}" stroke-width="2"/>'
            )
        for site, target in zip(sites, targets if targets is not None else (), strict=False):
            if np.isfinite(target).all():
                (x1, y1), (x2, y2) = at(frames.position(site)), at(target)
                body.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{RED}"/>')
                body.append(f'<circle cx="{x2:.1f}" cy="{y2:.1f}" r="2" fill="{RED}"/>')
    return _svg(600, 300, "".join(body))
