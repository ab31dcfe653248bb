"""Commands from the keyboard and from the timeline strip."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from posable.studio.session import Session


def run_command(session: Session, name: str, query: dict[str, str]) -> Any:
    """Run a command of the page's own script; the session checks the numbers. Returns whether it succeeded."""

    def number(key: str) -> int:
        try:
            return int(float(query[key]))
        except (KeyError, ValueError, OverflowError):
            return -1

    def step() -> bool:
        by = 1 if query.get("by") == "1" else -1
        line = session.timeline
        return session.player.seek(line.next_key(by) if query.get("keys") == "1" else line.shown + by)

    actions: dict[str, Callable[[], Any]] = {
        "seek": lambda: session.player.seek(number("frame")),
        "step": step,
        "play": lambda: session.player.play(not session.timeline.playing),
        "move_key": lambda: session.player.move_key(number("frame"), number("to")),
        "remedy": lambda: session.remedies.apply(number("number")),
        "autokey": lambda: session.player.set_time(autokey=not session.timeline.autokey),
    }
    return bool(actions[name]()) if name in actions else False


def register_hotkeys(studio: Any) -> None:
    """Register the commands with their hotkeys; viser lists them under Ctrl-K."""
    session: Session = studio.session
    gui = studio.server.gui

    def delete(_: Any) -> None:
        if not session.player.drop_key() and session.selected is not None:
            session.drop(session.selected)

    def pin(_: Any) -> None:
        handle = next((h for h in session.handles if h.body == session.selected), None)
        if session.selected is not None:
            pinned = handle is not None and handle.hold == "pinned"
            session.hold(session.selected, hold="held" if pinned else "pinned")

    commands: tuple[tuple[str, Any, Any, Any], ...] = (
        ("Undo", "Z", "cmd/ctrl", lambda _: session.undo()),
        ("Redo", "Y", "cmd/ctrl", lambda _: session.redo()),
        ("Redo (Shift)", "Z", "cmd/ctrl+shift", lambda _: session.redo()),
        ("Set a key", "K", None, lambda _: session.player.set_key()),
        ("Delete the key, or the selected handle", "delete", None, delete),
        ("Deselect", "escape", None, lambda _: session.select(None)),
        ("Copy the pose", "C", "cmd/ctrl", lambda _: session.pose_tools.copy() and session.say("Pose copied")),
        ("Paste the pose", "V", "cmd/ctrl", lambda _: session.pose_tools.paste()),
        ("Mirror the pose", "M", None, lambda _: session.pose_tools.mirror()),
        ("Pin or unpin the selected handle", "P", None, pin),
        ("Save the project", "S", "cmd/ctrl", lambda event: studio.save(event.client)),
        ("View from the front", "1", None, lambda event: studio.look(event.client, "front")),
        ("View from the right", "2", None, lambda event: studio.look(event.client, "right")),
        ("View from the back", "3", None, lambda event: studio.look(event.client, "back")),
        ("View from above", "4", None, lambda event: studio.look(event.client, "top")),
        ("Frame the selection, or the figure", "F", None, lambda event: studio.look(event.client, "frame")),
    )
    for label, key, modifier, action in commands:
        gui.add_command(label, hotkey=key, modifier=modifier).on_trigger(action)
