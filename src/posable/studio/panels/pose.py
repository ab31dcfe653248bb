"""The pose: undo, redo, rest; and the chosen handle: how it is held, and what of it."""

from __future__ import annotations

import viser

from posable.studio.handles import HOLDS, MODES
from posable.studio.panels.widgets import Refresh, by_person, put, write
from posable.studio.session import Session, View

NOTHING: str = "(nothing)"


def pose(gui: viser.GuiApi, session: Session) -> Refresh:
    """Add the buttons and the chosen handle's settings."""
    edit = gui.add_button_group("Edit", ("Undo", "Redo"), hint="Ctrl-Z, Ctrl-Shift-Z")
    rest = gui.add_button_group(
        "Rest", ("Go", "Set", "Own"), hint="go to it; set it to this pose; the figure's own again"
    )

    @edit.on_click
    def _(event: viser.GuiEvent) -> None:
        {"Undo": session.undo, "Redo": session.redo}[event.target.value]()

    @rest.on_click
    def _(event: viser.GuiEvent) -> None:
        if event.target.value == "Go":
            session.reset()
        else:
            session.set_rest(own=event.target.value == "Own")
            session.say(
                "this is the rest pose now" if event.target.value == "Set" else "the rest pose is the figure's own"
            )

    chosen = gui.add_dropdown(
        "Chosen", (NOTHING,), initial_value=NOTHING, hint="any joint or point; or click it in the scene"
    )
    hold = gui.add_button_group("Hold", HOLDS, hint="pinned: gives way to nothing; held: gently; free: not at all")
    mode = gui.add_button_group("What", MODES, hint="what of it is held: where it is, how it is turned, or both")
    weight = gui.add_slider("Weight", 0.1, 10.0, 0.1, 1.0, hint="against the other handles")
    priority = gui.add_slider("Priority", 0, 3, 1, 0, hint="lower is stricter: a level never pays for a later one")
    drop = gui.add_button("Take the handle away", icon=viser.Icon.TRASH)
    state = gui.add_markdown("")

    chosen.on_update(by_person(lambda value: session.select(None if value == NOTHING else value)))
    weight.on_update(by_person(lambda value: session.selected and session.hold(session.selected, weight=value)))
    priority.on_update(
        by_person(lambda value: session.selected and session.hold(session.selected, priority=int(value)))
    )

    @hold.on_click
    def _(event: viser.GuiEvent) -> None:
        if session.selected is not None:
            session.hold(session.selected, hold=event.target.value)

    @mode.on_click
    def _(event: viser.GuiEvent) -> None:
        if session.selected is not None:
            session.hold(session.selected, mode=event.target.value)

    @drop.on_click
    def _(_: viser.GuiEvent) -> None:
        if session.selected is not None:
            session.drop(session.selected)

    shown = {"figure": -1}

    def refresh(view: View) -> None:
        if shown["figure"] != view.figure:
            shown["figure"] = view.figure
            own = [h.body for h in view.handles]
            others = [name for name in (*view.skeleton.names, *view.skeleton.site_names) if name not in own]
            chosen.options = [NOTHING, *own, *others]
        put(chosen, view.selected or NOTHING)
        handle = next((h for h in view.handles if h.body == view.selected), None)
        for widget in (weight, priority, drop):
            widget.disabled = handle is None
        if handle is not None:
            put(weight, handle.weight)
            put(priority, handle.priority)
            text = f"**{handle.body}** is {handle.hold}: {handle.mode}"
        else:
            text = (
                "Choose a handle, or click one."
                if view.selected is None
                else f"**{view.selected}** has no handle yet: *Hold* makes one."
            )
        write(state, text)

    return refresh
