"""The status box: whether the goals are reached and what blocks them; and the display options."""

from __future__ import annotations

import html
import re
from functools import lru_cache
from typing import Any

import numpy as np
import viser

import posable as ps
from posable.studio.appearance import extent
from posable.studio.body_goals import feet_of, plan_of
from posable.studio.contacts import DEEP
from posable.studio.messages import (
    blocking_sentences,
    goal_summary,
    penetration_sentences,
    reason_sentences,
    strip_control,
)
from posable.studio.overlays import marker_places
from posable.studio.panels import Refresh, on_user_change, set_text, set_value
from posable.studio.session import Session
from posable.studio.state import View

MOST = 5  # joints at a limit that are listed
SMALLEST, TALLEST, HUGE = 0.4, 3.0, 50.0  # [m] sizes of figures with arms and legs, and of any, that are not doubted
LYING = 0.35  # height of a figure with arms and legs relative to its length below which its up axis is doubted
UNIT = "*posable convert IN OUT.glb --unit UNIT*"
FEW, UNLIKE = 8, 3.0  # markers from which their size is compared with the figure's, and the ratio that is reported
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
    touching = penetration_sentences(view.contacts, DEEP * extent(view.skeleton))
    if view.result is None:
        return [welcome(view), *doubts(view.skeleton), *_markers(view), *_scales(view), *touching, *_at_limits(view)]
    answer = view.result
    lines = [goal_summary(answer, {h.body: h.mode for h in view.handles}), *touching]
    if answer.status == "OUT_OF_REACH":
        lines[0] += " It is farther away than the figure can reach."
    lines += [f"• {sentence}" for sentence in reason_sentences(view.reasons)]
    lines += [f"• {sentence}" for sentence in blocking_sentences(view.skeleton, view.blocking)] or _at_limits(view)
    lines += _scales(view)
    if answer.status == "MOVING":
        lines.append(f"Moving within the velocity limits: {as_text(strip_control(answer.message))}")
    elif answer.iterations:
        lines.append(f"*{answer.solver}: {answer.iterations} iterations, {answer.seconds * 1e6:.0f} µs*")
    return lines


def welcome(view: View) -> str:
    """Return instructions for a figure that has not been dragged yet."""
    if not view.can_drag:
        return "**Preparing the solver.** On a new machine this takes half a minute, once; then you can drag."
    if not view.handles:
        return "This figure has no handles: Shift-click a joint, then choose how to hold it."
    feet, pinned = feet_of(view.skeleton), [h.body for h in view.handles if h.hold == "pinned"]
    which = "feet" if all(body in feet for body in pinned) else "amber ones"
    words = f"{which} are pinned, " if pinned else ""
    return f"**Drag a handle**: the figure follows; {words}the rest is held gently. Click one to pin, free or turn it."


@lru_cache(maxsize=8)
def doubts(skeleton: ps.Skeleton) -> tuple[str, ...]:
    """Return what is implausible about a figure at rest, with its likely cause: its size, and which way is up."""
    plan, up, out = plan_of(skeleton), skeleton.up_axis, []
    spans = np.ptp(ps.forward(skeleton, skeleton.rest).many((*skeleton.names, *skeleton.site_names))[0], axis=0)
    size = float(spans.max())
    if size > HUGE or (plan is not None and not SMALLEST < size < TALLEST):
        out.append(f"The figure is {size:.3g} m in size: if that is wrong, convert its file to GLB with {UNIT}.")
    if plan is not None and skeleton.up is not None and spans[up] < LYING * spans[3 - up]:
        out.append(f"The figure lies down in its rest pose: the up axis of its file may not be {skeleton.up}.")
    return tuple(out)


def _markers(view: View) -> list[str]:
    """Return how many markers of a recording are visible in this frame."""
    places = marker_places(view)
    if not len(places):
        return []
    seen = int(np.isfinite(places).all(axis=1).sum())
    fit = "" if view.timeline.take is not None else " The command *posable track* fits a figure to them."
    return [f"{seen} of {len(places)} markers are visible in this frame.{fit}"]


def _scales(view: View) -> list[str]:
    """Return a line if the markers of a recording and the figure are of very different size."""
    places = marker_places(view)
    seen = places[np.isfinite(places).all(axis=1)] if len(places) else places
    if len(seen) < FEW:
        return []
    markers, figure = (float(np.ptp(p, axis=0).max()) for p in (seen, view.frames.many(view.skeleton.names)[0]))
    if UNLIKE * markers > figure and UNLIKE * figure > markers:
        return []
    return [
        f"The markers span {markers:.2g} m, the figure {figure:.2g} m: one of them is in another unit; convert the "
        f"figure's file with {UNIT}."
    ]


def _at_limits(view: View) -> list[str]:
    if not view.limits:
        return []
    names = as_text(", ".join(strip_control(met.name) for met in view.limits[:MOST]))
    more = f" and {len(view.limits) - MOST} more" if len(view.limits) > MOST else ""
    return [f"At a limit: {names}{more}."]


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
        balance = gui.add_checkbox(
            "Balance", True, hint="support polygon and centre of mass, red if the figure would tip over"
        )
        contacts = gui.add_checkbox(
            "Contacts",
            session.contacts,
            hint="limbs that pass through each other (violet), and contacts with the floor",
        )
        follow = gui.add_checkbox("Follow the figure", False, hint="the camera moves with it")

    def change(name: str, value: bool) -> None:
        setattr(session if name == "contacts" else studio.stage, name, value)
        studio.show(session.view())

    views.on_click(lambda event: studio.turn_view(event.client, event.target.value))
    balance.on_update(on_user_change(lambda value: change("balance", value)))
    contacts.on_update(on_user_change(lambda value: change("contacts", value)))
    follow.on_update(on_user_change(lambda value: change("follow", value)))

    def refresh(view: View) -> None:
        set_value(follow, studio.stage.follow)

    return refresh
