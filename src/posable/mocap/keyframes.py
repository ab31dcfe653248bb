"""Keyframes: poses at times, or goals at times, and the motion through them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from posable._solve import solve
from posable.errors import PosableError
from posable.goals.base import Goal
from posable.model.kinematics import as_poses
from posable.model.motion import Motion
from posable.model.skeleton import Skeleton

RESTARTS = 8


def keyframes(
    skeleton: Skeleton,
    keys: Mapping[float, Any],
    *,
    fps: float = 30.0,
    start: Any = None,
    limits: bool = True,
    seed: int = 0,
    name: str = "",
) -> Motion:
    """Return the motion through keys {seconds: pose (n,)} or {seconds: goals}, solved from the key before.

    Between keys ball joints turn the shortest way (slerp), everything else goes straight. start: from where the first
    key's goals are solved. Raises PosableError where a key's goals are not reached, with the reason.
    """
    if not keys:
        raise PosableError("keyframes: expected at least one key, got none")
    last = skeleton.rest if start is None else as_poses(skeleton, start, "keyframes: start")
    poses, times = [], []
    for when, key in sorted(keys.items()):
        if isinstance(key, Goal) or _are_goals(key):
            result = solve(skeleton, key, start=last, limits=limits, restarts=RESTARTS, seed=seed)
            if not result.ok:
                raise PosableError(f"keyframes: the key at {when:g} s is not reached: {result.message}")
            last = result.pose
        else:
            last = as_poses(skeleton, key, f"keyframes: the key at {when:g} s")
        times.append(float(when))
        poses.append(last)
    return Motion.from_keyframes(skeleton, np.array(times), np.array(poses), fps=fps, name=name)


def _are_goals(key: Any) -> bool:
    return (
        isinstance(key, Iterable)
        and not isinstance(key, np.ndarray)
        and bool(items := list(key))
        and all(isinstance(item, Goal) for item in items)
    )
