"""The strength of every joint: how strongly it stays where it is while the figure follows a handle."""

from __future__ import annotations

from typing import Any

import numpy as np
import viser

from posable.studio.messages import marked
from posable.studio.panels.widgets import Refresh, by_person, put, write
from posable.studio.session import Session
from posable.studio.state import View

LISTED = 8  # joints that the text names


def strength(gui: viser.GuiApi, session: Session, studio: Any = None) -> Refresh:
    """Add the joint to choose, its strength, and what was changed so far."""
    with gui.add_folder("Stiffness of joints", expand_by_default=False):
        joint = gui.add_dropdown("Joint", _joints(session.view()), hint="or click a joint with Shift")
        power = gui.add_slider("Stiffness, 10^", -1.5, 1.5, 0.1, 0.0, hint="0: as it is; 1: ten times; -1: a tenth")
        below = gui.add_checkbox("And all below it", False)
        clear = gui.add_button("Reset all", icon=viser.Icon.ARROW_BACK_UP)
        text = gui.add_markdown("")
    shown: dict[str, Any] = {"figure": session.figure, "selected": None}

    def change(value: float) -> None:
        session.set_strength(joint.value, float(np.clip(10.0**value, 0.03, 30.0)), below=below.value)

    power.on_update(by_person(change))
    joint.on_update(by_person(lambda name: put(power, _power(session.strength.get(name, 1.0)))))
    clear.on_click(lambda _: session.clear_strength())

    def refresh(view: View) -> None:
        if shown["figure"] != view.figure:
            shown["figure"] = view.figure
            joint.options = _joints(view)
        if view.selected != shown["selected"]:
            shown["selected"] = view.selected
            if view.selected in joint.options:
                put(joint, view.selected)
        if view.calm:
            put(power, _power(view.strength.get(joint.value, 1.0)))
        changed = [f"{marked(name)} × {value:.2g}" for name, value in view.strength.items()]
        more = f" and {len(changed) - LISTED} more" if len(changed) > LISTED else ""
        write(text, (", ".join(changed[:LISTED]) + more) or "Stiffer joints move later, looser ones sooner.")

    return refresh


def _joints(view: View) -> tuple[str, ...]:
    return tuple(joint.name for joint in view.skeleton.joints if joint.motion.size) or view.skeleton.names


def _power(value: float) -> float:
    return round(float(np.log10(value)), 1)
