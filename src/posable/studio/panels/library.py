"""The library of poses, and hands to choose from."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import viser

import posable as ps
from posable.studio.panels.widgets import Refresh, put
from posable.studio.session import Session
from posable.studio.state import View

NONE = "(no poses yet)"
_FINGER = re.compile(r"index|middle|ring|pinky|little|finger|thumb", re.IGNORECASE)
HANDS = {"open": (0.0, 0.0), "relaxed": (0.25, 0.25), "fist": (0.92, 0.75), "point": (0.92, 0.75)}


def library(gui: viser.GuiApi, session: Session, studio: Any = None) -> Refresh:
    """Add the poses that were kept, and the hands."""
    with gui.add_folder("Pose library", expand_by_default=False):
        name = gui.add_text("Name", "pose 1")
        keep = gui.add_button("Keep this pose", icon=viser.Icon.BOOKMARK)
        poses: Any = gui.add_dropdown("Kept", (NONE,), initial_value=NONE)
        use = gui.add_button_group("Pose ", ("Apply", "Delete"))
        left = gui.add_button_group("Left hand", tuple(HANDS))
        right = gui.add_button_group("Right hand", tuple(HANDS))

    @keep.on_click
    def _(_: viser.GuiEvent) -> None:
        if session.pose_tools.keep(name.value):
            name.value = f"pose {len(session.library) + 1}"

    @use.on_click
    def _(event: viser.GuiEvent) -> None:
        if event.target.value == "Apply" and poses.value in session.library:
            session.pose_tools.paste(session.library[poses.value])
        elif event.target.value == "Delete":
            session.pose_tools.drop(poses.value)

    for group, side in ((left, "L"), (right, "R")):

        def shape(event: viser.GuiEvent, side: str = side) -> None:
            session.pose_tools.paste(hand(session.skeleton, side, event.target.value), root=True)

        group.on_click(shape)

    def refresh(view: View) -> None:
        options = view.library or (NONE,)
        if tuple(poses.options) != options:
            poses.options = options
            put(poses, options[-1])
        for group in (left, right):
            group.visible = bool(fingers(view.skeleton, "L" if group is left else "R"))

    return refresh


def fingers(skeleton: ps.Skeleton, side: str) -> list[str]:
    """Return the joints of a hand's fingers."""
    mark = re.compile(rf"(\.|_|-){side}$|{'left' if side == 'L' else 'right'}", re.IGNORECASE)
    return [joint.name for joint in skeleton.joints if _FINGER.search(joint.name) and mark.search(joint.name)]


def hand(skeleton: ps.Skeleton, side: str, shape: str) -> dict[str, float]:
    """Return a hand by name, as values [rad] of its fingers: parts of the way from straight to where they bend most."""
    out = {}
    for joint in fingers(skeleton, side):
        bend = HANDS[shape][1 if "thumb" in joint.lower() else 0]
        if shape == "point" and "index" in joint.lower():
            bend = 0.0
        where = skeleton.index(joint)
        for dof in range(where.start, where.stop):
            low, high = skeleton.lower[dof], skeleton.upper[dof]
            if np.isfinite(low) and np.isfinite(high):
                most = high if abs(high) >= abs(low) else low
                single = where.stop - where.start == 1
                out[skeleton.dof_names[dof]] = float(bend * most if single else 0.4 * bend * most)
    return out
