"""The limb: its swivel angle with the ranges that hold every limit, its branches, aiming and pointing."""

from __future__ import annotations

from typing import Any

import numpy as np
import viser

from posable.studio.panels.widgets import Refresh, by_person, put, write
from posable.studio.session import Session
from posable.studio.state import View

NONE = "(none)"


def limb(gui: viser.GuiApi, session: Session, studio: Any = None) -> Refresh:
    """Add the swivel slider, the bar of its ranges, the branches, and the two tasks with less than a whole frame."""
    which = gui.add_dropdown("Limb", (NONE, *session.limbs), initial_value=NONE)
    swivel = gui.add_slider("Swivel [°]", -180.0, 180.0, 0.5, 0.0)
    blend = gui.add_slider(
        "FK 0 … IK 1", 0.0, 1.0, 0.05, 1.0,
        hint="while the body moves, IK keeps the hand or foot in its place, FK keeps the joints as they are",
    )  # fmt: skip
    bar = gui.add_html(ranges_bar((), 0.0))
    branch = gui.add_button_group("Branch", ("previous", "next"), hint="the same place, another way")
    point = gui.add_vector3("Point [m]", (0.3, 1.4, 1.0), step=0.01, hint="to aim at, or a direction to point along")
    axis = gui.add_dropdown("Axis", ("x", "y", "z"), initial_value="z", hint="of the hand or foot")
    task = gui.add_button_group("Task", ("aim at", "point along"))
    step = {"branch": 0, "figure": -1}

    which.on_update(by_person(lambda value: session.select(None if value == NONE else value)))
    swivel.on_update(by_person(lambda value: session.limb_tools.swivel(which.value, np.radians(value))))

    blend.on_update(by_person(lambda value: session.limb_tools.blend(which.value, float(value))))

    @branch.on_click
    def _(event: viser.GuiEvent) -> None:
        step["branch"] += 1 if event.target.value == "next" else -1
        session.limb_tools.branch(which.value, step["branch"])

    @task.on_click
    def _(event: viser.GuiEvent) -> None:
        act = session.limb_tools.aim if event.target.value == "aim at" else session.limb_tools.point_along
        act(which.value, point.value, axis.value)

    def refresh(view: View) -> None:
        if step["figure"] != view.figure:
            step["figure"] = view.figure
            which.options = (NONE, *view.elbows)
        put(which, view.selected if view.selected in view.elbows else NONE)
        swivel.disabled = view.limb is None
        blend.disabled = which.value == NONE
        put(blend, view.blend.get(which.value, 1.0))
        if view.limb is not None:
            angle = (view.limb.swivel + np.pi) % (2.0 * np.pi) - np.pi
            if view.calm:
                put(swivel, float(np.clip(round(np.degrees(angle) * 2.0) / 2.0, -180.0, 180.0)))
            write(bar, ranges_bar(view.limb.ranges, angle, view.limb.branches))
        else:
            write(bar, ranges_bar((), 0.0))

    return refresh


def ranges_bar(ranges: tuple[tuple[float, float], ...], angle: float, branches: int = 0) -> str:
    """Return a picture of the swivel ranges that hold every limit, in green, from -180 to 180 degrees."""
    pieces = []
    for low, high in ranges:
        for turn in (-2.0 * np.pi, 0.0, 2.0 * np.pi):
            a, b = max(low + turn, -np.pi), min(high + turn, np.pi)
            if b > a:
                x, width = (a + np.pi) * 150.0 / np.pi, (b - a) * 150.0 / np.pi
                pieces.append(f'<rect x="{x:.1f}" width="{width:.1f}" y="3" height="10" rx="3" fill="#2ea070"/>')
    needle = (angle + np.pi) / (2 * np.pi) * 300
    note = f"{branches} branches" if branches else "choose a limb, or click an elbow or a knee"
    return (
        '<div style="padding:0 0.75em 0.5em 0.75em"><svg viewBox="0 0 300 16" width="100%">'
        '<rect x="0" y="6" width="300" height="4" rx="2" fill="#dde2ea"/>'
        f'{"".join(pieces)}<rect x="{needle - 1.5:.1f}" y="0" width="3" height="16" rx="1.5" fill="#ef476f"/></svg>'
        f'<div style="font-size:0.75em;color:#7a8699">green: every limit holds; {note}</div></div>'
    )
