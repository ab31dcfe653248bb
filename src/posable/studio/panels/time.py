"""Time: play, scrub, loop; keys, easing and fading; contacts over frames; curves of the selected joint."""

from __future__ import annotations

from typing import Any

import viser

from posable.studio.panels.curves import Curves
from posable.studio.panels.widgets import Refresh, by_person, put
from posable.studio.session import Session
from posable.studio.state import View
from posable.studio.timeline import EASINGS


def time(gui: viser.GuiApi, session: Session, studio: Any = None) -> Refresh:
    """Add the player, the keys and the curves."""
    line = session.timeline
    frame = gui.add_number("Frame", 0, min=0, step=1)
    keys = gui.add_button_group("Key", ("Set", "Delete", "◀", "▶"), hint="K, Delete; ◀ and ▶ go to the next key")
    auto = gui.add_checkbox("Auto-key", line.autokey, hint="every pose becomes a key of the frame it is made on")
    loop = gui.add_checkbox("Loop", line.loop)
    onion = gui.add_checkbox("Onion skin", line.onion, hint="the poses before and after, as ghosts")
    easing = gui.add_dropdown("Easing", EASINGS, initial_value=line.easing, hint="between keys, where there is no take")
    fade = gui.add_slider("Fade [frames]", 0, 120, 1, line.fade, hint="over which a key's change fades into the take")
    fps = gui.add_number("Frames per second", line.fps, min=1.0, max=1000.0, step=1.0)
    length = gui.add_number("Length [frames]", line.length, min=1, max=100_000, step=1)
    with gui.add_folder("Contact", expand_by_default=False):
        first = gui.add_number("From frame", 0, min=0, step=1)
        last = gui.add_number("To frame", 10, min=0, step=1)
        lock = gui.add_button("Lock the selected body in place", icon=viser.Icon.LOCK)
    curves = Curves(gui)

    frame.on_update(by_person(session.player.seek))
    auto.on_update(by_person(lambda value: session.player.set_time(autokey=value)))
    loop.on_update(by_person(lambda value: session.player.set_time(loop=value)))
    onion.on_update(by_person(lambda value: session.player.set_time(onion=value)))
    easing.on_update(by_person(lambda value: session.player.set_time(easing=value)))
    fade.on_update(by_person(lambda value: session.player.set_time(fade=int(value))))
    fps.on_update(by_person(lambda value: session.player.set_time(fps=float(value))))
    length.on_update(by_person(lambda value: session.player.set_time(length=int(value))))

    @keys.on_click
    def _(event: viser.GuiEvent) -> None:
        {
            "Set": session.player.set_key, "Delete": session.player.drop_key,
            "◀": lambda: session.player.seek(session.timeline.next_key(-1)),
            "▶": lambda: session.player.seek(session.timeline.next_key(1)),
        }[event.target.value]()  # fmt: skip

    @lock.on_click
    def _(_: viser.GuiEvent) -> None:
        if session.selected is not None:
            session.player.lock_contact(session.selected, int(first.value), int(last.value))

    def refresh(view: View) -> None:
        now = view.timeline
        put(frame, now.shown)
        for widget, value in (
            (auto, now.autokey), (loop, now.loop), (onion, now.onion), (easing, now.easing), (fade, now.fade),
            (fps, now.fps), (length, now.count),
        ):  # fmt: skip
            put(widget, value)
        easing.disabled = fps.disabled = length.disabled = now.take is not None
        fade.disabled = now.take is None
        curves.show(view)

    return refresh
