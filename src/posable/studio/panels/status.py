"""The status box: whether the goals are reached, what is in the way; and the display options."""

from __future__ import annotations

import html
import re
from typing import Any

import numpy as np
import viser

from posable.studio.appearance import extent
from posable.studio.contacts import DEEP
from posable.studio.messages import (
    blocking_sentences,
    goal_summary,
    penetration_sentences,
    reason_sentences,
    strip_control,
)
from posable.studio.overlays import marker_places
from posable.studio.panels.widgets import Refresh, on_user_change, set_text
from posable.studio.session import Session
from posable.studio.state import View

MOST = 5  # joints at a limit that are listed
BOX = (
    '<div id="posable-status" style="height:9.4em;overflow:auto;margin:0.35em 0.75em 0.6em;padding:0.45em 0.6em;'
    'border-radius:6px;background:rgba(32,129,126,0.07);font-size:0.84em;line-height:1.38">{}</div>'
)
OFFER = (
    '<button data-remedy="{}" style="display:block;width:100%;text-align:left;margin-top:0.35em;padding:0.25em 0.5em;'
    'border:1px solid #20817e;border-radius:5px;background:#fff;color:#20817e;font:inherit;cursor:pointer">{}</button>'
)


def status(gui: viser.GuiApi, session: Session, studio: Any = None) -> Refresh:
    """Add the status box, of fixed height so that the widgets below do not move."""
    text = gui.add_html(BOX.format(""))

    def refresh(view: View) -> None:
        first, *others = (as_html(line) for line in lines_for(view))
        offers = "".join(OFFER.format(k, html.escape(strip_control(text))) for k, text in enumerate(view.offers))
        set_text(text, BOX.format("<br>".join([first + offers, *others] if offers else [first, *others])))

    return refresh


def lines_for(view: View) -> list[str]:
    """Return the status of a view as lines of Markdown."""
    if view.timeline.playing:
        return [f"Playing at {view.timeline.fps:g} frames per second."]
    touching = penetration_sentences(view.touches, DEEP * extent(view.skeleton))
    if view.answer is None:
        return [welcome(view), *_markers(view), *touching, *_at_limits(view)]
    answer = view.answer
    lines = [goal_summary(answer, {h.body: h.mode for h in view.handles}), *touching]
    if answer.status == "OUT_OF_REACH":
        lines[0] += " It is farther away than the figure can reach."
    lines += [f"• {sentence}" for sentence in reason_sentences(view.reasons)]
    lines += [f"• {sentence}" for sentence in blocking_sentences(view.skeleton, view.blocking)] or _at_limits(view)
    if answer.status == "MOVING":
        lines.append(f"Following within the limits of the joints: {as_text(strip_control(answer.message))}")
    elif answer.iterations:
        lines.append(f"*{answer.solver}: {answer.iterations} iterations, {answer.seconds * 1e6:.0f} µs*")
    return lines


def welcome(view: View) -> str:
    """Return instructions for a figure that has not been dragged yet."""
    if not view.handles:
        return "This figure has no handle: shift-click a joint, then choose how to hold it."
    feet = [h for h in view.handles if h.hold == "pinned"]
    pinned = "feet are pinned, " if feet and all(_is_foot(h.body) for h in feet) else ""
    return f"**Drag a handle**: the figure follows; {pinned}the rest is held gently. Click one to pin, free or turn it."


def _markers(view: View) -> list[str]:
    """Return how many markers of a recording are visible in this frame."""
    places = marker_places(view)
    if not len(places):
        return []
    seen = int(np.isfinite(places).all(axis=1).sum())
    return [f"{seen} of {len(places)} markers are seen at this frame."]


def _is_foot(body: str) -> bool:
    return re.search(r"foot|ankle|toe", body, re.IGNORECASE) is not None


def _at_limits(view: View) -> list[str]:
    if not view.limits:
        return []
    names = ", ".join(strip_control(met.name) for met in view.limits[:MOST])
    return ["At a limit: " + as_text(names) + (" …" if len(view.limits) > MOST else "") + "."]


def as_text(text: str) -> str:
    """Return a text escaped for `as_html`."""
    return re.sub(r"([*\\])", r"\\\1", text)


def as_html(line: str) -> str:
    """Return a line with **bold** and *italic* parts as HTML; everything else is text."""
    line = re.sub(r"\\(.)", lambda m: f"&#{ord(m[1])};", html.unescape(line).replace("&", "&amp;"))
    line = line.replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    line = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", line)
    return re.sub(r"\*(.+?)\*", r"<i>\1</i>", line)


def display(gui: viser.GuiApi, session: Session, studio: Any) -> Refresh:
    """Add the views and the display options."""
    with gui.add_folder("Display", expand_by_default=False):
        views = gui.add_button_group("View", ("front", "right", "back", "top", "frame"), hint="1, 2, 3, 4, F")
        balance = gui.add_checkbox("Balance", True, hint="what the figure stands on, and its centre of mass above it")
        contacts = gui.add_checkbox(
            "Contacts", session.contacts, hint="limbs in each other (violet), touches of the floor"
        )
        follow = gui.add_checkbox("Follow the figure", False, hint="the view moves along with it")

    def change(name: str, value: bool) -> None:
        setattr(session if name == "contacts" else studio.stage, name, value)
        studio.show(session.view())

    views.on_click(lambda event: studio.look(event.client, event.target.value))
    balance.on_update(on_user_change(lambda value: change("balance", value)))
    contacts.on_update(on_user_change(lambda value: change("contacts", value)))
    follow.on_update(on_user_change(lambda value: change("follow", value)))

    def refresh(view: View) -> None:
        """Nothing here depends on the view."""

    return refresh
