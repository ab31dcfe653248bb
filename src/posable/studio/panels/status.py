"""How it stands: reached or by how much not, what is in the way. A box of its own size: what is below it stays put."""

from __future__ import annotations

import html
import re
from typing import Any

import numpy as np
import viser

from posable.studio.appearance import extent
from posable.studio.contacts import DEEP
from posable.studio.messages import in_the_way, inside_each_other, plain, standing, why_missed
from posable.studio.overlays import marker_places
from posable.studio.panels.widgets import Refresh, by_person, write
from posable.studio.session import Session
from posable.studio.state import View

MOST = 5  # joints at a limit that are named
BOX = (
    '<div id="posable-status" style="height:9.4em;overflow:auto;margin:0.35em 0.75em 0.6em;padding:0.45em 0.6em;'
    'border-radius:6px;background:rgba(32,129,126,0.07);font-size:0.84em;line-height:1.38">{}</div>'
)
OFFER = (
    '<button data-remedy="{}" style="display:block;width:100%;text-align:left;margin-top:0.35em;padding:0.25em 0.5em;'
    'border:1px solid #20817e;border-radius:5px;background:#fff;color:#20817e;font:inherit;cursor:pointer">{}</button>'
)


def status(gui: viser.GuiApi, session: Session, studio: Any = None) -> Refresh:
    """Add the text on top of the page."""
    text = gui.add_html(BOX.format(""))

    def refresh(view: View) -> None:
        first, *others = (as_html(line) for line in lines_for(view))
        offers = "".join(OFFER.format(k, html.escape(plain(text))) for k, text in enumerate(view.offers))
        write(text, BOX.format("<br>".join([first + offers, *others] if offers else [first, *others])))

    return refresh


def lines_for(view: View) -> list[str]:
    """Return what the page says about a view, in lines of Markdown."""
    if view.timeline.playing:
        return [f"Playing at {view.timeline.fps:g} frames per second."]
    touching = inside_each_other(view.touches, DEEP * extent(view.skeleton))
    if view.answer is None:
        return [welcome(view), *_markers(view), *touching, *_at_limits(view)]
    answer = view.answer
    lines = [standing(answer, {h.body: h.mode for h in view.handles}), *touching]
    if answer.status == "OUT_OF_REACH":
        lines[0] += " It is farther away than the figure can reach."
    lines += [f"• {sentence}" for sentence in why_missed(view.reasons)]
    lines += [f"• {sentence}" for sentence in in_the_way(view.skeleton, view.blocking)] or _at_limits(view)
    if answer.status == "MOVING":
        lines.append(f"Following within the limits of the joints: {as_text(plain(answer.message))}")
    elif answer.iterations:
        lines.append(f"*{answer.solver}: {answer.iterations} iterations, {answer.seconds * 1e6:.0f} µs*")
    return lines


def welcome(view: View) -> str:
    """Return what can be done with a figure that nobody has touched."""
    if not view.handles:
        return "This figure has no handle: shift-click a joint, then choose how to hold it."
    feet = [h for h in view.handles if h.hold == "pinned"]
    pinned = "feet are pinned, " if feet and all(_is_foot(h.body) for h in feet) else ""
    return f"**Drag a handle**: the figure follows; {pinned}the rest is held gently. Click one to pin, free or turn it."


def _markers(view: View) -> list[str]:
    """Return how many markers of a recording are seen at this frame."""
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
    names = ", ".join(plain(met.name) for met in view.limits[:MOST])
    return ["At a limit: " + as_text(names) + (" …" if len(view.limits) > MOST else "") + "."]


def as_text(text: str) -> str:
    """Return a text in which no character is markup, for `as_html`."""
    return re.sub(r"([*\\])", r"\\\1", text)


def as_html(line: str) -> str:
    """Return a line with **bold** and *slanted* parts as HTML; everything else is text."""
    line = re.sub(r"\\(.)", lambda m: f"&#{ord(m[1])};", html.unescape(line).replace("&", "&amp;"))
    line = line.replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    line = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", line)
    return re.sub(r"\*(.+?)\*", r"<i>\1</i>", line)


def display(gui: viser.GuiApi, session: Session, studio: Any) -> Refresh:
    """Add the views and what can be switched off."""
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
    balance.on_update(by_person(lambda value: change("balance", value)))
    contacts.on_update(by_person(lambda value: change("contacts", value)))
    follow.on_update(by_person(lambda value: change("follow", value)))

    def refresh(view: View) -> None:
        """Nothing here depends on the view."""

    return refresh
