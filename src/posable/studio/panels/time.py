"""Time: play, scrub, loop; keyframes; an edit blended into its neighbours; onion skin."""

from __future__ import annotations

import viser

from posable.studio.panels.widgets import Refresh, by_person, put, write
from posable.studio.session import Session, View


def time(gui: viser.GuiApi, session: Session) -> Refresh:
    """Add the player and the keys."""
    play = gui.add_button("Play", icon=viser.Icon.PLAYER_PLAY)
    frame = gui.add_slider("Frame", 0, session.timeline.count - 1, 1, 0)
    loop = gui.add_checkbox("Loop", session.timeline.loop)
    onion = gui.add_checkbox("Onion skin", session.timeline.onion, hint="the keys before and after, as ghosts")
    keys = gui.add_button_group("Key", ("Set", "Delete", "<", ">"), hint="at this frame; < and > go to the next key")
    text = gui.add_markdown("")
    move = gui.add_number("Move key to", 0, min=0, step=1)
    shift = gui.add_button("Move this key", icon=viser.Icon.ARROWS_MOVE_HORIZONTAL)
    fps = gui.add_number("Frames per second", session.timeline.fps, min=1.0, max=1000.0, step=1.0)
    reach = gui.add_slider("Blend [frames]", 0, 120, 1, 12, hint="over how many frames on both sides an edit fades")
    blend = gui.add_button("Blend this pose into the take", icon=viser.Icon.WAVE_SINE)

    @play.on_click
    def _(_: viser.GuiEvent) -> None:
        session.play(not session.timeline.playing)

    frame.on_update(by_person(session.seek))
    loop.on_update(by_person(lambda value: session.set_time(loop=value)))
    onion.on_update(by_person(lambda value: session.set_time(onion=value)))
    fps.on_update(by_person(lambda value: session.set_time(fps=float(value))))

    @keys.on_click
    def _(event: viser.GuiEvent) -> None:
        now, all_keys = round(session.timeline.frame), sorted(session.timeline.keys)
        if event.target.value == "Set":
            session.set_key()
        elif event.target.value == "Delete":
            session.drop_key()
        elif event.target.value == "<":
            session.seek(max([k for k in all_keys if k < now], default=now))
        else:
            session.seek(min([k for k in all_keys if k > now], default=now))

    @shift.on_click
    def _(_: viser.GuiEvent) -> None:
        session.move_key(round(session.timeline.frame), int(move.value))

    @blend.on_click
    def _(_: viser.GuiEvent) -> None:
        session.blend(int(reach.value))

    def refresh(view: View) -> None:
        line = view.timeline
        label = "Stop" if line.playing else "Play"
        if play.label != label:
            play.label, play.icon = label, viser.Icon.PLAYER_PAUSE if line.playing else viser.Icon.PLAYER_PLAY
        if frame.max != line.count - 1:
            frame.max = max(line.count - 1, 1)
        put(frame, min(round(line.frame), int(frame.max)))
        put(loop, line.loop)
        put(onion, line.onion)
        fps.disabled = line.take is not None
        blend.disabled = line.take is None
        shift.disabled = round(line.frame) not in line.keys
        marks = ", ".join(f"**{k}**" if k == round(line.frame) else str(k) for k in sorted(line.keys))
        take = (
            f"{line.take.name or 'take'}: {len(line.take)} frames at {line.take.fps:g} fps. "
            if line.take is not None
            else ""
        )
        write(text, take + (f"Keys at {marks}." if marks else "No keys yet." if not take else ""))

    return refresh
