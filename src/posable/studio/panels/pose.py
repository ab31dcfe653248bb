"""The pose: undo, redo, rest pose, mirror, copy and paste; and the selected handle: how it is held, and what of it."""

from __future__ import annotations

from typing import Any

import viser

from posable.studio.handles import HOLDS, MODES
from posable.studio.panels.widgets import Refresh, by_person, put
from posable.studio.session import Session
from posable.studio.state import View

NOTHING: str = "(nothing)"
LOOSE = "(no handle)"


def pose(gui: viser.GuiApi, session: Session, studio: Any = None) -> Refresh:
    """Add the buttons and the selected handle's settings."""
    edit = gui.add_button_group("Edit", ("Undo", "Redo"), hint="Ctrl-Z, Ctrl-Y")
    figure = gui.add_button_group("Pose", ("Mirror", "Copy", "Paste"), hint="M, Ctrl-C, Ctrl-V")
    rest = gui.add_button_group(
        "Rest pose", ("Apply", "Set", "Reset"), hint="go to it; make this pose the rest pose; the figure's own again"
    )
    selected = gui.add_dropdown(
        "Selected", (NOTHING,), initial_value=NOTHING, hint="any joint or point; or click a handle, Shift-click a joint"
    )
    hold = gui.add_dropdown(
        "Hold",
        (LOOSE, *HOLDS),
        initial_value=LOOSE,
        hint="pinned: gives way to nothing; held: gently; free: not at all",
    )
    mode = gui.add_dropdown("Constrain", MODES, initial_value=MODES[0], hint="where it is, how it is turned, or both")
    weight = gui.add_slider("Weight", 0.1, 10.0, 0.1, 1.0, hint="against the other handles")
    priority = gui.add_slider("Priority", 0, 3, 1, 0, hint="lower is stricter: a level never pays for a later one")
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
            session.say(
                "This is the rest pose now." if event.target.value == "Set" else "The rest pose is the figure's own."
            )

    selected.on_update(by_person(lambda value: session.select(None if value == NOTHING else value)))
    hold.on_update(by_person(lambda value: value != LOOSE and _each(session, hold=value)))
    mode.on_update(by_person(lambda value: _each(session, mode=value)))
    weight.on_update(by_person(lambda value: _each(session, weight=value)))
    priority.on_update(by_person(lambda value: _each(session, priority=int(value))))

    @drop.on_click
    def _(_: viser.GuiEvent) -> None:
        for body in session.selection:
            session.drop(body)

    shown: dict[str, Any] = {"figure": -1}

    def refresh(view: View) -> None:
        if shown["figure"] != view.figure:
            shown["figure"] = view.figure
            own = [h.body for h in view.handles]
            others = [name for name in (*view.skeleton.names, *view.skeleton.site_names) if name not in own]
            selected.options = [NOTHING, *dict.fromkeys([*own, *others])]
        put(selected, view.selected or NOTHING)
        handle = next((h for h in view.handles if h.body == view.selected), None)
        for widget in (hold, mode):
            widget.disabled = view.selected is None
        for widget in (weight, priority, drop):
            widget.disabled = handle is None
        put(hold, LOOSE if handle is None else handle.hold)
        if handle is not None:
            put(mode, handle.mode)
            put(weight, handle.weight)
            put(priority, handle.priority)

    return refresh


def _each(session: Session, **changes: Any) -> None:
    """Change every handle of the selection."""
    for body in session.selection:
        session.hold(body, **changes)
