"""Sliders for every joint, grouped by the tree: forward kinematics."""

from __future__ import annotations

from typing import Any

import numpy as np
import viser

import posable as ps
from posable.studio.messages import slides
from posable.studio.panels.widgets import Refresh, by_person, put
from posable.studio.session import Session, View

WIDEST = 180.0  # [deg] of an angle without limits
MOST = 160  # sliders; a larger figure is posed by its handles


def joints(gui: viser.GuiApi, session: Session) -> Refresh:
    """Add a folder for each branch of the tree with a slider for each degree of freedom; made anew for each figure."""
    host = gui.add_folder("Joints", expand_by_default=True)
    made: dict[str, Any] = {"figure": -1, "folders": [], "sliders": {}}

    def build(view: View) -> None:
        for folder in made["folders"]:
            folder.remove()
        made.update(figure=view.figure, folders=[], sliders={})
        for title, names in branches(view.skeleton):
            with host:
                folder = gui.add_folder(title, expand_by_default=False)
            made["folders"].append(folder)
            with folder:
                for dof in [d for name in names for d in range(*view.skeleton.index(name).indices(view.skeleton.size))]:
                    if len(made["sliders"]) < MOST:
                        made["sliders"][dof] = slider_for(gui, session, view, dof)

    def refresh(view: View) -> None:
        if made["figure"] != view.figure:
            build(view)
        if view.calm:
            for dof, (slider, scale) in made["sliders"].items():
                value = float(np.clip(round(view.pose[dof] * scale, 2), slider.min, slider.max))
                if abs(slider.value - value) > 5e-3:
                    put(slider, value)

    return refresh


def slider_for(gui: viser.GuiApi, session: Session, view: View, dof: int) -> tuple[Any, float]:
    """Add the slider of one degree of freedom, in degrees or metres; return it and its unit over ours."""
    skeleton = view.skeleton
    straight = slides(skeleton, dof)
    scale = 1.0 if straight else 180.0 / np.pi
    low, high = skeleton.lower[dof] * scale, skeleton.upper[dof] * scale
    widest = 3.0 if straight else WIDEST
    low, high = (
        float(v) if np.isfinite(v) and abs(v) <= 4 * widest else w for v, w in ((low, -widest), (high, widest))
    )
    step = 0.01 if straight else 0.1
    low, high = np.floor(low / step) * step, max(np.ceil(high / step) * step, low + step)
    name = skeleton.dof_names[dof]
    value = float(np.clip(view.pose[dof] * scale, low, high))
    slider = gui.add_slider(name, float(low), float(high), step, value)
    slider.on_update(by_person(lambda given: session.set_dof(name, given / scale)))
    return slider, scale


def branches(skeleton: ps.Skeleton) -> list[tuple[str, list[str]]]:
    """Return the joints in groups: the trunk, and every branch that leaves it, each under its first joint's name."""
    children: dict[str | None, list[str]] = {}
    for joint in skeleton.joints:
        children.setdefault(joint.parent, []).append(joint.name)

    def size(name: str) -> int:
        return 1 + sum(size(child) for child in children.get(name, []))

    groups: list[tuple[str, list[str]]] = []

    def walk(name: str, group: list[str]) -> None:
        group.append(name)
        below = sorted(children.get(name, []), key=size, reverse=True)
        for child in below:
            if len(below) == 1 or size(child) < 3:
                walk(child, group)
            else:
                fresh: list[str] = []
                groups.append((child, fresh))
                walk(child, fresh)

    trunk: list[str] = []
    groups.append((skeleton.joints[0].name, trunk))
    walk(skeleton.joints[0].name, trunk)
    return [
        (f"{title} ({sum(skeleton.joint(n).motion.size for n in names)})", names) for title, names in groups if names
    ]
