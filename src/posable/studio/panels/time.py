"""Time: play, scrub and loop; keys, easing and fading; the timeline strip; curves of the selected joint."""

from __future__ import annotations

import html
import json
from typing import Any

import numpy as np
import viser
from viser import uplot

from posable.studio.messages import is_length, strip_control
from posable.studio.panels import Refresh, on_user_change, set_text, set_value
from posable.studio.session import Session
from posable.studio.state import View
from posable.studio.timeline import EASINGS

CURVES = ("#20817e", "#ef476f", "#5a8cff", "#c97a12", "#9b72cf", "#2ea070")
POINTS = 600  # points of a curve that are sent


class Curves:
    """A folder with a plot of the selected joint's values, [deg] or [m]; redrawn when they change."""

    def __init__(self, gui: viser.GuiApi):
        self.gui, self.folder = gui, gui.add_folder("Curves of the selected joint", expand_by_default=False)
        with self.folder:
            self.hint = gui.add_markdown(
                "Select a joint of a take, or of a figure with at least two keys, to plot its values."
            )
        self.plot: Any = None
        self.what: Any = None

    def show(self, view: View) -> None:
        """Update the plot to a view."""
        line = view.timeline
        joint = view.selected_joint
        what = (view.figure, joint, id(line.keys), id(line.take), line.fade, line.easing, line.last)
        if what == self.what or not view.idle:
            return
        self.what = what
        if self.plot is not None:
            self.plot.remove()
            self.plot = None
        self.hint.visible = True
        if joint is None or (line.take is None and len(line.keys) < 2) or not view.skeleton.joint(joint).motion.size:
            return
        frames = np.unique(np.linspace(0, line.last, POINTS).round())
        poses = np.stack([line.at(f) for f in frames])  # type: ignore[misc]  # with keys or a take there is one
        dofs = range(*view.skeleton.index(joint).indices(view.skeleton.size))
        units = [1.0 if is_length(view.skeleton, dof) else 180.0 / np.pi for dof in dofs]
        data = (frames, *(poses[:, dof] * unit for dof, unit in zip(dofs, units, strict=True)))
        series = (
            uplot.Series(label="frame"),
            *(
                uplot.Series(label=view.skeleton.dof_names[dof], stroke=CURVES[k % len(CURVES)], width=2)
                for k, dof in enumerate(dofs)
            ),
        )
        self.hint.visible = False
        with self.folder:
            self.plot = self.gui.add_uplot(
                data=data, series=series, scales={"x": uplot.Scale(time=False)}, aspect=1.6,
                title=f"{joint} [{'deg' if units[-1] > 1 else 'm'}]",
            )  # fmt: skip


def strip(gui: viser.GuiApi, session: Session, studio: Any = None) -> Refresh:
    """Add the hidden element that holds the state of the timeline strip, which the page's script reads."""
    text = gui.add_html("")

    def refresh(view: View) -> None:
        set_text(
            text, f'<div id="posable-state" style="display:none" data-state="{html.escape(state_of(view))}"></div>'
        )

    return refresh


def state_of(view: View) -> str:
    """Return the state of the timeline strip as JSON."""
    line = view.timeline
    return json.dumps(
        {
            "frame": round(line.frame, 3), "count": line.count, "last": line.last, "fps": line.fps,
            "playing": line.playing, "autokey": line.autokey, "keys": sorted({*line.keys, *line.drafts})[:2000],
            "edited": line.reach()[:500], "take": line.take is not None, "name": strip_control(view.name)[:60],
            "dirty": view.dirty, "figure": view.figure, "selected": strip_control(view.selected or "")[:60],
        }
    )  # fmt: skip


def take(gui: viser.GuiApi, session: Session, studio: Any) -> Refresh:
    """Add the chooser among the takes of a file."""
    chooser: Any = gui.add_dropdown("Take", ("",), visible=False, hint="the animations of the file")

    @chooser.on_update
    def _(event: viser.GuiEvent) -> None:
        name = next((name for name, label in take_labels(session).items() if label == chooser.value), None)
        if event.client is not None and name is not None and name != session.take_name:
            studio.ask_first(event.client, lambda: session.open_take(name))

    def refresh(view: View) -> None:
        labels = take_labels(session)
        current = labels.get(session.take_name or "")
        chooser.visible = len(labels) > 1 and current is not None
        if chooser.visible:
            if tuple(chooser.options) != tuple(labels.values()):
                chooser.options = tuple(labels.values())
            set_value(chooser, current)

    return refresh


def take_labels(session: Session) -> dict[str, str]:
    """Return how the takes of the file are shown, by their names."""
    labels: dict[str, str] = {}
    for number, name in enumerate(session.scene.motions, start=1):
        label = strip_control(name)[:60]
        labels[name] = label if label and label not in labels.values() else f"{label} ({number})"
    return labels


def playback(gui: viser.GuiApi, session: Session, studio: Any = None) -> Refresh:
    """Add the frame, the keys, and how they are played."""
    line = session.timeline
    frame = gui.add_number("Frame", 0, min=0, step=1)
    keys = gui.add_button_group(
        "Key", ("Set", "Delete", "◀", "▶"), hint="K, Delete; ◀ and ▶ go to the previous and the next key"
    )
    auto = gui.add_checkbox("Auto-key", line.autokey, hint="every edit sets a key at the current frame")
    loop = gui.add_checkbox("Loop", line.loop)
    onion = gui.add_checkbox("Onion skin", line.onion, hint="the poses before and after the current frame, as ghosts")
    easing = gui.add_dropdown(
        "Easing", EASINGS, initial_value=line.easing, hint="interpolation between keys; a take has its own"
    )
    fade = gui.add_slider(
        "Fade [frames]",
        0,
        120,
        1,
        line.fade,
        hint="number of frames over which the change of a key fades into the take",
    )
    fps = gui.add_number("Frames per second", line.fps, min=1.0, max=1000.0, step=1.0)
    length = gui.add_number("Length [frames]", line.length, min=1, max=100_000, step=1)

    frame.on_update(on_user_change(session.player.seek))
    settings = {
        "autokey": auto, "loop": loop, "onion": onion, "easing": easing, "fade": fade, "fps": fps, "length": length
    }  # fmt: skip
    for key, widget in settings.items():

        def change(value: Any, key: str = key) -> None:
            session.player.set_time(**{key: type(getattr(session.timeline, key))(value)})

        widget.on_update(on_user_change(change))

    @keys.on_click
    def _(event: viser.GuiEvent) -> None:
        {
            "Set": session.player.set_key, "Delete": session.player.drop_key,
            "◀": lambda: session.player.seek(session.timeline.next_key(-1)),
            "▶": lambda: session.player.seek(session.timeline.next_key(1)),
        }[event.target.value]()  # fmt: skip

    def refresh(view: View) -> None:
        now = view.timeline
        set_value(frame, now.shown)
        for key, widget in settings.items():
            set_value(widget, now.count if key == "length" else getattr(now, key))
        easing.disabled = fps.disabled = length.disabled = now.take is not None
        fade.disabled = now.take is None

    return refresh


def contact(gui: viser.GuiApi, session: Session, studio: Any = None) -> Refresh:
    """Add the widgets that lock a body in place over frames."""
    with gui.add_folder("Contact", expand_by_default=False):
        first = gui.add_number("From frame", 0, min=0, step=1)
        last = gui.add_number("To frame", 10, min=0, step=1)
        lock = gui.add_button(
            "Lock the selected body in place", icon=viser.Icon.LOCK, hint="select a handle or a joint first"
        )

    @lock.on_click
    def _(_: viser.GuiEvent) -> None:
        if session.selected is not None:
            session.player.lock_contact(session.selected, int(first.value), int(last.value))

    def refresh(view: View) -> None:
        lock.disabled = view.selected is None

    return refresh


def curves(gui: viser.GuiApi, session: Session, studio: Any = None) -> Refresh:
    """Add the curves of the selected joint."""
    return Curves(gui).show
