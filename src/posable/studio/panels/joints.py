"""The joints: a slider per degree of freedom, their stiffness, and their speeds against the velocity limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import viser
from viser import uplot

import posable as ps
from posable.studio.messages import escape_markdown, is_length
from posable.studio.panels import Refresh, on_user_change, set_text, set_value
from posable.studio.session import Session
from posable.studio.state import View

WIDEST = 180.0  # [deg] slider range of an angle without limits
MOST = 80  # largest number of sliders


def joints(gui: viser.GuiApi, session: Session, studio: Any) -> Refresh:
    """Add a slider for each degree of freedom of one branch of the tree; a large figure has many branches."""
    part = gui.add_dropdown("Part", ("",), initial_value="", hint="of the figure; follows the selection")
    host = gui.add_folder("Values [°, m]", expand_by_default=True)
    values = gui.add_text("All [rad, m]", "", hint="all values in order: copy them, or type and press Enter")
    made: dict[str, Any] = {"figure": -1, "part": None, "parts": {}, "folder": None, "sliders": {}, "selected": None}

    def build(view: View) -> None:
        if made["folder"] is not None:
            made["folder"].remove()
        made.update(part=part.value, sliders={})
        with host:
            made["folder"] = gui.add_folder(part.value, expand_by_default=True)
        with made["folder"]:
            for name in made["parts"].get(part.value, ()):
                for dof in range(*view.skeleton.index(name).indices(view.skeleton.size)):
                    if len(made["sliders"]) < MOST:
                        made["sliders"][dof] = slider_for(gui, session, view, dof)

    part.on_update(on_user_change(lambda _: studio.refresh_soon()))  # widgets are created by the refresh thread
    values.on_update(on_user_change(lambda text: session.set_pose(numbers_in(text))))

    def refresh(view: View) -> None:
        if made["figure"] != view.figure:
            made.update(figure=view.figure, parts=dict(branches(view.skeleton)), part=None, selected=None)
            part.options = tuple(made["parts"])
            set_value(part, part.options[0])
        if view.selected != made["selected"]:
            made["selected"] = view.selected
            joint = view.selected_joint
            found = next((title for title, names in made["parts"].items() if joint in names), None)
            if found is not None:
                set_value(part, found)
        if made["part"] != part.value:
            build(view)
        if view.idle:
            set_value(values, ", ".join(f"{value:.6g}" for value in view.pose))
            for dof, (slider, scale) in made["sliders"].items():
                value = float(np.clip(rounded(view.pose[dof], scale), slider.min, slider.max))
                if abs(slider.value - value) > 0.05 * slider.step:
                    set_value(slider, value)

    return refresh


def numbers_in(text: str) -> list[float]:
    """Return the numbers in a text typed by the user; empty if it is not a list of numbers."""
    try:
        return [float(word) for word in text.replace(",", " ").replace("[", " ").replace("]", " ").split()]
    except ValueError:
        return []


def slider_for(gui: viser.GuiApi, session: Session, view: View, dof: int) -> tuple[Any, float]:
    """Add the slider of one degree of freedom, in degrees or metres; return it and the unit conversion factor."""
    skeleton = view.skeleton
    straight = is_length(skeleton, dof)
    scale = 1.0 if straight else 180.0 / np.pi
    low, high = skeleton.lower[dof] * scale, skeleton.upper[dof] * scale
    widest = 3.0 if straight else WIDEST
    low, high = (
        float(v) if np.isfinite(v) and abs(v) <= 4 * widest else w for v, w in ((low, -widest), (high, widest))
    )
    step = 0.1 if not straight else 0.01 if high - low > 0.5 else 0.001  # a finger of a gripper moves by centimetres
    low, high = np.floor(low / step) * step, max(np.ceil(high / step) * step, low + step)
    name = skeleton.dof_names[dof]
    value = float(np.clip(rounded(view.pose[dof], scale), low, high))
    slider = gui.add_slider(name, float(low), float(high), step, value)
    slider.on_update(on_user_change(lambda given: session.set_dof(name, given / scale)))
    return slider, scale


def rounded(value: Any, scale: float) -> float:
    """Return a value [rad, m] as a slider shows it: to 0.01 degrees or 0.1 mm."""
    return round(float(value) * scale, 4 if scale == 1.0 else 2)


def branches(skeleton: ps.Skeleton) -> list[tuple[str, list[str]]]:
    """Return the joints in groups: the trunk, and every branch that leaves it, named after its first joint."""
    children: dict[str | None, list[str]] = {}
    for joint in skeleton.joints:
        children.setdefault(joint.parent, []).append(joint.name)
    count: dict[str, int] = {}
    for joint in reversed(skeleton.joints):  # parents come first
        count[joint.name] = 1 + sum(count[child] for child in children.get(joint.name, []))
    groups: dict[str, list[str]] = {}
    group_of: dict[str, str] = {}
    for joint in skeleton.joints:
        siblings = children[joint.parent]
        own = len(siblings) > 1 and count[joint.name] >= 3
        title = joint.name if own or joint.parent is None else group_of[joint.parent]
        group_of[joint.name] = title
        groups.setdefault(title, []).append(joint.name)
    sizes = {title: sum(skeleton.joint(n).motion.size for n in names) for title, names in groups.items()}
    found = [(f"{title} ({sizes[title]})", names) for title, names in groups.items() if sizes[title]]
    return found or [(f"{skeleton.names[0]} (0)", list(skeleton.names))]


LISTED = 8  # joints named in the text


def strength(gui: viser.GuiApi, session: Session, studio: Any = None) -> Refresh:
    """Add the widgets for the strength of a joint, and a list of changes."""
    with gui.add_folder("Stiffness of joints", expand_by_default=False):
        joint = gui.add_dropdown("Joint", _joints(session.view()), hint="or Shift-click a joint")
        power = gui.add_slider("Stiffness, 10^", -1.5, 1.5, 0.1, 0.0, hint="0: unchanged; 1: ten times; -1: a tenth")
        below = gui.add_checkbox("Include all joints below", False)
        clear = gui.add_button("Reset all", icon=viser.Icon.ARROW_BACK_UP)
        text = gui.add_markdown("")
    shown: dict[str, Any] = {"figure": session.figure, "selected": None}

    def change(value: float) -> None:
        session.set_strength(joint.value, float(np.clip(10.0**value, 0.03, 30.0)), below=below.value)

    power.on_update(on_user_change(change))
    joint.on_update(on_user_change(lambda name: set_value(power, _power(session.strength.get(name, 1.0)))))
    clear.on_click(lambda _: session.clear_strength())

    def refresh(view: View) -> None:
        if shown["figure"] != view.figure:
            shown["figure"] = view.figure
            joint.options = _joints(view)
        if view.selected != shown["selected"]:
            shown["selected"] = view.selected
            if view.selected in joint.options:
                set_value(joint, view.selected)
        if view.idle:
            set_value(power, _power(view.strength.get(joint.value, 1.0)))
        changed = [f"{escape_markdown(name)} × {value:.2g}" for name, value in view.strength.items()]
        more = f" and {len(changed) - LISTED} more" if len(changed) > LISTED else ""
        set_text(text, (", ".join(changed[:LISTED]) + more) or "Stiff joints move last, loose ones first.")

    return refresh


def _joints(view: View) -> tuple[str, ...]:
    return tuple(joint.name for joint in view.skeleton.joints if joint.motion.size) or view.skeleton.names


def _power(value: float) -> float:
    return round(float(np.log10(value)), 1)


PLOTTED = 6  # joints in the plot: the fastest ones
COLORS = ("#20817e", "#ef476f", "#c97a12", "#5a8cff", "#9b72cf", "#7a8699")


def speeds(gui: viser.GuiApi, session: Session, studio: Any = None) -> Refresh:
    """Add the checkbox and the plot."""
    with gui.add_folder("Speeds", expand_by_default=False) as folder:
        motors = gui.add_checkbox(
            "Respect velocity limits", session.settings.motors,
            hint="joints stay within the velocity limits of the file, or 180°/s and 1 m/s",
        )  # fmt: skip
    shown: dict[str, Any] = {"plot": None, "names": None, "until": -1.0}
    motors.on_update(on_user_change(lambda value: session.configure(motors=value)))

    def refresh(view: View) -> None:
        set_value(motors, view.settings.motors)
        now = view.speeds
        if now is None or len(now.times) < 2 or now.times[-1] == shown["until"]:
            return
        shown["until"] = float(now.times[-1])
        fastest = np.sort(np.argsort(-now.shares.max(axis=0), kind="stable")[:PLOTTED])
        names = tuple(now.names[k] for k in fastest)
        data = (now.times, *(100.0 * now.shares[:, k] for k in fastest))
        if shown["plot"] is not None and names == shown["names"]:
            shown["plot"].data = data
            return
        if shown["plot"] is not None:
            shown["plot"].remove()
        series = (
            uplot.Series(label="s"),
            *(uplot.Series(label=name, stroke=COLORS[k % len(COLORS)], width=2) for k, name in enumerate(names)),
        )
        with folder:
            shown["plot"] = gui.add_uplot(
                data=data, series=series, scales={"x": uplot.Scale(time=False)}, aspect=1.6,
                title="speed [% of its limit]",
            )  # fmt: skip
        shown["names"] = names

    return refresh
