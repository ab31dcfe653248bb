"""Skeletons from Denavit-Hartenberg tables (Parent section 5.1), standard and modified."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from posable.errors import SkeletonError
from posable.model.joints import Joint, Prismatic, Revolute, Site
from posable.model.skeleton import Skeleton

CONVENTIONS = ("standard", "modified")


def from_dh(
    rows: Iterable[Sequence[float]],
    convention: str = "standard",
    *,
    kinds: str | None = None,
    limits: Any = None,
    names: Sequence[str] | None = None,
    tool: Any = None,
    name: str = "",
) -> Skeleton:
    """Return the arm of a Denavit-Hartenberg table; its end is the site "tool".

    Args:
        rows: (a [m], alpha [rad], d [m], theta [rad]) per joint; theta and d are the constant parts.
        convention: "standard", Rz(theta) Tz(d) Tx(a) Rx(alpha), or "modified" (Craig), Rx(alpha) Tx(a) Rz(theta) Tz(d).
        kinds: One letter per joint, "r" for revolute (default) or "p" for prismatic.
        limits: (k, 2) [rad, m], or None.
        names: Names of the joints; "joint1", ... by default.
        tool: (4, 4) Transform from the last frame to the tool.
        name: Name of the skeleton.

    Raises:
        SkeletonError: With every fault of the table at once.
    """
    try:
        table = [tuple(float(x) for x in row) for row in rows]
    except (TypeError, ValueError, OverflowError):
        raise SkeletonError("rows: expected (a, alpha, d, theta) per joint, all numbers", name=name) from None
    kinds = kinds or "r" * len(table)
    faults = [f"row {i + 1}: expected 4 finite numbers (a, alpha, d, theta), got {row}" for i, row in enumerate(table)
              if len(row) != 4 or not np.all(np.isfinite(row))]  # fmt: skip
    if not table:
        faults.append("rows: expected one row per joint, got none")
    if convention not in CONVENTIONS:
        faults.append(f"convention: expected 'standard' or 'modified', got {convention!r}")
    if len(kinds) != len(table) or set(kinds) - {"r", "p"}:
        faults.append(f"kinds: expected {len(table)} letters 'r' or 'p', got {kinds!r}")
    box = None if limits is None else np.asarray(limits, dtype=float)
    if box is not None and box.shape != (len(table), 2):
        faults.append(f"limits: expected shape ({len(table)}, 2), got {box.shape}")
    if faults:
        raise SkeletonError(faults, name=name)
    joint_names = list(names or [f"joint{i + 1}" for i in range(len(table))])
    joints = []
    before = np.eye(4)  # constant transform from the previous joint's frame
    for i, ((a, alpha, d, theta), kind) in enumerate(zip(table, kinds, strict=True)):
        if convention == "modified":
            rest, before = before @ _screw("x", alpha, a) @ _screw("z", theta, d), np.eye(4)
        elif kind == "r":
            rest, before = before @ _screw("z", theta, 0.0), _screw("z", 0.0, d) @ _screw("x", alpha, a)
        else:
            rest, before = before @ _screw("z", theta, d), _screw("x", alpha, a)
        joints.append(
            Joint(
                joint_names[i],
                Revolute("z") if kind == "r" else Prismatic("z"),
                joint_names[i - 1] if i else None,
                offset=rest[:3, 3],
                rotation=rest[:3, :3],
                limits=None if box is None else tuple(box[i]),
            )
        )
    end = before if tool is None else before @ np.asarray(tool, dtype=float)
    return Skeleton(joints, [Site("tool", joint_names[-1], end[:3, 3], end[:3, :3])], name)


def _screw(axis: str, angle: float, distance: float) -> np.ndarray:
    """Return the 4x4 rotation about, and translation along, the x or z axis."""
    c, s = np.cos(angle), np.sin(angle)
    out = np.eye(4)
    if axis == "x":
        out[1:3, 1:3] = [[c, -s], [s, c]]
        out[0, 3] = distance
    else:
        out[:2, :2] = [[c, -s], [s, c]]
        out[2, 3] = distance
    return out
