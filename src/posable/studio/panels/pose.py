"""The pose: handles, the pose library, hand shapes, and one limb in closed form."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import viser

import posable as ps
from posable.studio.handles import HOLDS, MODES
from posable.studio.panels import Refresh, on_user_change, set_text, set_value
from posable.studio.session import Session
from posable.studio.state import View

NOTHING: str = "(nothing)"
LOOSE = "(no handle)"


def pose(gui: viser.GuiApi, session: Session, studio: Any = None) -> Refresh:
    """Add the buttons and the selected handle's settings."""
    edit = gui.add_button_group("Edit", ("Undo", "Redo"), hint="Ctrl-Z, Ctrl-Y")
    figure = gui.add_button_group("Pose", ("Mirror", "Copy", "Paste"), hint="M, Ctrl-C, Ctrl-V")
    rest = gui.add_button_group(
        "Rest pose",
        ("Apply", "Set", "Reset"),
        hint="Apply: go to it; Set: make this pose the rest pose; Reset: restore the figure's own",
    )
    selected = gui.add_dropdown(
        "Selected", (NOTHING,), initial_value=NOTHING, hint="any joint or site; or click a handle, Shift-click a joint"
    )
    hold = gui.add_dropdown(
        "Hold", (LOOSE, *HOLDS), initial_value=LOOSE,
        hint="pinned: stays in place; held: kept in place gently; free: not held",
    )  # fmt: skip
    mode = gui.add_dropdown("Constrain", MODES, initial_value=MODES[0], hint="its position, its orientation, or both")
    weight = gui.add_slider("Weight", 0.1, 10.0, 0.1, 1.0, hint="relative to the other handles")
    priority = gui.add_slider(
        "Priority", 0, 3, 1, 0, hint="lower levels come first; a later level never worsens an earlier one"
    )
    drop = gui.add_button("Remove handle", icon=viser.Icon.TRASH, hint="Delete")

    @edit.on_click
    def _(event: viser.GuiEvent) -> None:
        {"Undo": session.undo, "Redo": session.redo}[event.target.value]()

    @figure.on_click
    def _(event: viser.GuiEvent) -> None:
        {"Mirror": session.pose_tools.mirror, "Copy": session.pose_tools.copy, "Paste": session.pose_tools.paste}[
            event.target.value
        ]()

    @rest.on_click
    def _(event: viser.GuiEvent) -> None:
        if event.target.value == "Apply":
            session.reset()
        else:
            session.set_rest(own=event.target.value == "Reset")
            session.notify(
                "This is the rest pose now." if event.target.value == "Set" else "The rest pose is the figure's own."
            )

    selected.on_update(on_user_change(lambda value: session.select(None if value == NOTHING else value)))
    hold.on_update(on_user_change(lambda value: value != LOOSE and _each(session, hold=value)))
    mode.on_update(on_user_change(lambda value: _each(session, mode=value)))
    weight.on_update(on_user_change(lambda value: _each(session, weight=value)))
    priority.on_update(on_user_change(lambda value: _each(session, priority=int(value))))

    @drop.on_click
    def _(_: viser.GuiEvent) -> None:
        for body in session.selection:
            session.remove_handle(body)

    shown: dict[str, Any] = {"figure": -1}

    def refresh(view: View) -> None:
        if shown["figure"] != view.figure:
            shown["figure"] = view.figure
            own = [h.body for h in view.handles]
            others = [name for name in (*view.skeleton.names, *view.skeleton.site_names) if name not in own]
            selected.options = [NOTHING, *dict.fromkeys([*own, *others])]
        set_value(selected, view.selected or NOTHING)
        handle = view.selected_handle
        for widget in (hold, mode):
            widget.disabled = view.selected is None
        for widget in (weight, priority, drop):
            widget.disabled = handle is None
        set_value(hold, LOOSE if handle is None else handle.hold)
        if handle is not None:
            set_value(mode, handle.mode)
            set_value(weight, handle.weight)
            set_value(priority, handle.priority)

    return refresh


def _each(session: Session, **changes: Any) -> None:
    """Change every handle of the selection."""
    for body in session.selection:
        session.set_handle(body, **changes)


NO_POSES = "(no poses yet)"
_FINGER = re.compile(r"index|middle|ring|pinky|little|finger|thumb", re.IGNORECASE)
HANDS = {"open": (0.0, 0.0), "relaxed": (0.25, 0.25), "fist": (0.92, 0.75), "point": (0.92, 0.75)}


def library(gui: viser.GuiApi, session: Session, studio: Any = None) -> Refresh:
    """Add the saved poses and the hand shapes."""
    with gui.add_folder("Pose library", expand_by_default=False):
        name = gui.add_text("Name", "pose 1")
        keep = gui.add_button("Save this pose", icon=viser.Icon.BOOKMARK)
        poses: Any = gui.add_dropdown("Saved", (NO_POSES,), initial_value=NO_POSES)
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
        options = view.library or (NO_POSES,)
        if tuple(poses.options) != options:
            poses.options = options
            set_value(poses, options[-1])
        for group in (left, right):
            group.visible = bool(fingers(view.skeleton, "L" if group is left else "R"))

    return refresh


def fingers(skeleton: ps.Skeleton, side: str) -> list[str]:
    """Return the joints of a hand's fingers."""
    mark = re.compile(rf"(\.|_|-){side}$|{'left' if side == 'L' else 'right'}", re.IGNORECASE)
    return [joint.name for joint in skeleton.joints if _FINGER.search(joint.name) and mark.search(joint.name)]


def hand(skeleton: ps.Skeleton, side: str, shape: str) -> dict[str, float]:
    """Return a hand shape as values [rad] of its fingers: fractions of the way from straight to fully bent."""
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


NONE = "(none)"
CHOOSE = "Choose a limb, or click an elbow or knee."
NO_LIMBS = "This figure has none: a limb is a ball joint, a hinge and a ball joint, as in a human arm."


def limb(gui: viser.GuiApi, session: Session, studio: Any = None) -> Refresh:
    """Add the swivel slider with its ranges, the branches, and the tasks that constrain less than a full frame."""
    which = gui.add_dropdown("Limb", (NONE, *session.limbs), initial_value=NONE)
    swivel = gui.add_slider("Swivel [°]", -180.0, 180.0, 0.5, 0.0)
    blend = gui.add_slider(
        "FK 0 … IK 1", 0.0, 1.0, 0.05, 1.0,
        hint="while the body moves, IK keeps the hand or foot in place, FK keeps the joint angles",
    )  # fmt: skip
    bar = gui.add_html(ranges_bar((), 0.0, CHOOSE))
    branch = gui.add_button_group(
        "Branch", ("previous", "next"), hint="another configuration of the limb, with its end in the same place"
    )
    point = gui.add_vector3("Point [m]", (0.3, 1.4, 1.0), step=0.01, hint="to aim at; or the direction to point along")
    axis = gui.add_dropdown("Axis", ("x", "y", "z"), initial_value="z", hint="of the hand or foot")
    task = gui.add_button_group("Task", ("aim at", "point along"))
    step = {"branch": 0, "figure": -1}

    which.on_update(on_user_change(lambda value: session.select(None if value == NONE else value)))
    swivel.on_update(on_user_change(lambda value: session.limb_tools.swivel(which.value, np.radians(value))))

    blend.on_update(on_user_change(lambda value: session.limb_tools.blend(which.value, float(value))))

    def is_chosen() -> bool:
        if which.value == NONE:
            session.notify(CHOOSE if session.limbs else NO_LIMBS, "bad")
        return which.value != NONE

    @branch.on_click
    def _(event: viser.GuiEvent) -> None:
        if not is_chosen():
            return
        step["branch"] += 1 if event.target.value == "next" else -1
        session.limb_tools.branch(which.value, step["branch"])

    @task.on_click
    def _(event: viser.GuiEvent) -> None:
        act = session.limb_tools.aim if event.target.value == "aim at" else session.limb_tools.point_along
        if is_chosen():
            act(which.value, point.value, axis.value)

    def refresh(view: View) -> None:
        if step["figure"] != view.figure:
            step["figure"] = view.figure
            which.options = (NONE, *view.elbows)
        set_value(which, view.selected if view.selected in view.elbows else NONE)
        swivel.disabled = view.limb is None
        for widget in (blend, point, axis):
            widget.disabled = which.value == NONE
        set_value(blend, view.blend.get(which.value, 1.0))
        if view.limb is not None:
            angle = (view.limb.swivel + np.pi) % (2.0 * np.pi) - np.pi
            if view.idle:
                set_value(swivel, float(np.clip(round(np.degrees(angle) * 2.0) / 2.0, -180.0, 180.0)))
            set_text(bar, ranges_bar(view.limb.ranges, angle, f"{view.limb.branches} branches."))
        else:
            set_text(bar, ranges_bar((), 0.0, CHOOSE if view.elbows else NO_LIMBS))

    return refresh


def ranges_bar(ranges: tuple[tuple[float, float], ...], angle: float, note: str) -> str:
    """Return a picture of the feasible swivel ranges, in green, from -180 to 180 degrees."""
    pieces = []
    for low, high in ranges:
        for turn in (-2.0 * np.pi, 0.0, 2.0 * np.pi):
            a, b = max(low + turn, -np.pi), min(high + turn, np.pi)
            if b > a:
                x, width = (a + np.pi) * 150.0 / np.pi, (b - a) * 150.0 / np.pi
                pieces.append(f'<rect x="{x:.1f}" width="{width:.1f}" y="3" height="10" rx="3" fill="#2ea070"/>')
    needle = (angle + np.pi) / (2 * np.pi) * 300
    return (
        '<div style="padding:0 0.75em 0.5em 0.75em"><svg viewBox="0 0 300 16" width="100%">'
        '<rect x="0" y="6" width="300" height="4" rx="2" fill="#dde2ea"/>'
        f'{"".join(pieces)}<rect x="{needle - 1.5:.1f}" y="0" width="3" height="16" rx="1.5" fill="#ef476f"/></svg>'
        f'<div style="font-size:0.75em;color:#7a8699">Green: every limit holds. {note}</div></div>'
    )
