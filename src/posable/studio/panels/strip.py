"""What the timeline strip on the page shows: the page's own script reads it from here."""

from __future__ import annotations

import html
import json
from typing import Any

import viser

from posable.studio.messages import plain
from posable.studio.panels.widgets import Refresh, write
from posable.studio.session import Session
from posable.studio.state import View


def strip(gui: viser.GuiApi, session: Session, studio: Any = None) -> Refresh:
    """Add the hidden element that holds the state of the strip."""
    text = gui.add_html("")

    def refresh(view: View) -> None:
        write(text, f'<div id="posable-state" style="display:none" data-state="{html.escape(state_of(view))}"></div>')

    return refresh


def state_of(view: View) -> str:
    """Return what the strip shows as JSON."""
    line = view.timeline
    return json.dumps(
        {
            "frame": round(line.frame, 3), "count": line.count, "last": line.last, "fps": line.fps,
            "playing": line.playing, "autokey": line.autokey, "keys": sorted({*line.keys, *line.drafts})[:2000],
            "edited": line.reach()[:500], "take": line.take is not None, "name": plain(view.name)[:60],
            "dirty": view.dirty, "figure": view.figure, "selected": plain(view.selected or "")[:60],
        }
    )  # fmt: skip
