"""The solver: its choice, a second one as a ghost, limits, posture; and the convergence of both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import viser

import posable as ps
from posable.studio.body_goals import is_person
from posable.studio.dragging import Settings, with_lengths
from posable.studio.panels import Refresh, on_user_change, set_text, set_value
from posable.studio.session import Session
from posable.studio.state import View

NONE = "(none)"
HOMES = {"halfway to rest": "relaxed", "the pose before the drag": "drag", "the rest pose": "rest"}
COLORS = ("#20a79a", "#5a8cff")


def solver(gui: viser.GuiApi, session: Session, studio: Any = None) -> Refresh:
    """Add the widgets of the solver and the convergence plot."""
    names = ps.solvers.names()
    s = session.settings
    main = gui.add_dropdown("Solver", names, initial_value=s.solver)
    ghost = gui.add_dropdown("Ghost", (NONE, *names), initial_value=NONE, hint="a second solver on the same goals")
    limits = gui.add_checkbox("Joint limits", s.limits)
    iterations = gui.add_slider("Iterations", 0, 200, 1, 0, hint="upper bound; 0: the default of the solver")
    stay = gui.add_slider(
        "Pull strength, 10^", -6.0, 0.0, 0.1, as_power(s.stay),
        hint="how strongly the figure is pulled towards the pose below",
    )  # fmt: skip
    home = gui.add_dropdown(
        "Pull towards", tuple(HOMES), initial_value=next(k for k, v in HOMES.items() if v == s.home)
    )
    steady = gui.add_checkbox("Balance over pinned feet", s.balance, hint="of human figures, softly")
    apart = gui.add_checkbox("Keep arms off the trunk", s.apart, hint="of human figures, softly")
    likely = gui.add_checkbox("Natural human poses", s.natural, hint="prefer poses like those in recordings of people")
    stretch = gui.add_checkbox(
        "Bones may stretch", s.stretch, hint="for files with translation channels; otherwise bones keep their lengths"
    )
    folder = gui.add_folder("Options of the solver", expand_by_default=False)
    options = Options(gui, folder, session)
    table = gui.add_markdown("")
    plot = gui.add_html(plot_of({}))

    def configures(widget: Any, key: str, read: Callable[[Any], Any] = lambda value: value) -> None:
        widget.on_update(on_user_change(lambda value: session.configure(**{key: read(value)})))

    switches = {"limits": limits, "balance": steady, "apart": apart, "natural": likely, "stretch": stretch}
    for key, switch in switches.items():
        configures(switch, key)
    configures(main, "solver")
    configures(ghost, "ghost", lambda value: None if value == NONE else value)
    configures(iterations, "iterations", int)
    configures(stay, "stay", lambda value: float(10.0**value))
    configures(home, "home", HOMES.get)

    def refresh(view: View) -> None:
        for key, switch in switches.items():
            set_value(switch, getattr(view.settings, key))
        set_value(main, view.settings.solver)
        set_value(ghost, view.settings.ghost or NONE)
        set_value(iterations, view.settings.iterations)
        set_value(stay, as_power(view.settings.stay))
        set_value(home, next(label for label, value in HOMES.items() if value == view.settings.home))
        likely.visible = is_person(view.skeleton)
        rigid, loose = (with_lengths(view.skeleton, may) for may in (False, True))
        stretch.visible = bool((rigid.frozen & ~loose.frozen).any())
        options.show(view.settings)
        set_text(table, table_of(view))
        set_text(plot, plot_of(view.curves))

    return refresh


def as_power(stay: float) -> float:
    """Return the weight of the posture as its slider shows it: a power of ten."""
    return round(float(np.log10(np.clip(stay, 1e-6, 1.0))), 1)


class Options:
    """The options of the selected solver, each as a checkbox, a number or a text."""

    def __init__(self, gui: viser.GuiApi, folder: Any, session: Session):
        self.gui, self.folder, self.session = gui, folder, session
        self.solver, self.widgets = "", {}

    def show(self, settings: Settings) -> None:
        """Show the options of the solver in the settings, with their values."""
        if settings.solver != self.solver:
            for widget in self.widgets.values():
                widget.remove()
            self.solver = settings.solver
            with self.folder:
                self.widgets = {
                    name: self._widget(name, default) for name, default in ps.solvers.options(self.solver).items()
                }
        defaults = ps.solvers.options(self.solver)
        for name, widget in self.widgets.items():
            set_value(widget, _shown(settings.options.get(name, defaults[name]), defaults[name]))

    def _widget(self, name: str, default: Any) -> Any:
        label, shown = name.replace("_", " "), _shown(default, default)
        if isinstance(default, bool):
            widget: Any = self.gui.add_checkbox(label, default)
        elif _is_plain_number(default):
            widget = self.gui.add_number(label, default, step=1 if isinstance(default, int) else 1e-6)
        else:
            widget = self.gui.add_text(label, shown, hint="a number, several numbers, a word, or none")
        widget.on_update(on_user_change(lambda value: self._change(name, default, value)))
        return widget

    def _change(self, name: str, default: Any, value: Any) -> None:
        settings = self.session.settings
        value = ps.solvers.option_value(value.strip()) if isinstance(value, str) else type(default)(value)
        if not self.session.configure(options={**settings.options, name: value}):
            self.session.notify(f"{self.solver} does not accept {name} = {value}", "bad")
            self.show(self.session.settings)


def _is_plain_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and bool(np.isfinite(value))


def _shown(value: Any, default: Any) -> Any:
    """Return the value of an option as its widget represents it."""
    if isinstance(default, bool) or _is_plain_number(default):
        return value
    return (
        ",".join(map(str, value)) if isinstance(value, tuple) else str(value).lower() if value is None else str(value)
    )


def table_of(view: View) -> str:
    """Return a table of the last result and of the ghost's."""
    if view.result is None:
        return ""
    rows = []
    for answer in (view.result, view.ghost_result):
        if answer is not None:
            firm = [error for name, error in answer.errors.items() if np.isfinite(answer.tolerances.get(name, np.inf))]
            worst = max(firm, default=0.0) * 1e3
            rows.append(f"| {answer.solver} | {answer.iterations} | {answer.seconds * 1e6:.0f} µs | {worst:.2f} mm |")
    return "| solver | iterations | time | missed by |\n|---|---|---|---|\n" + "\n".join(rows)


def plot_of(curves: dict[str, np.ndarray], width: float = 300.0, height: float = 130.0) -> str:
    """Return a plot of the energy over the iterations, on a logarithmic scale, for each solver."""
    logs = {name: np.log10(np.maximum(curve, 1e-16)) for name, curve in curves.items()}
    low = min((float(log.min()) for log in logs.values()), default=-1.0)
    high = max((float(log.max()) for log in logs.values()), default=0.0)
    longest = max((len(log) for log in logs.values()), default=2)
    left, bottom = 34.0, height - 18.0
    lines = []
    for k, (name, log) in enumerate(logs.items()):
        x = left + np.arange(len(log)) / max(longest - 1, 1) * (width - left - 6.0)
        y = 8.0 + (high - log) / max(high - low, 1e-9) * (bottom - 12.0)
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
        lines.append(f'<polyline points="{path}" fill="none" stroke="{COLORS[k % 2]}" stroke-width="2"/>')
        lines.append(f'<text x="{width - 6}" y="{16 + 13 * k}" text-anchor="end" fill="{COLORS[k % 2]}">{name}</text>')
    axes = f'<path d="M{left},4 V{bottom} H{width - 4}" fill="none" stroke="#c4ccd8"/>'
    ends = (
        f'<text x="{left - 4}" y="12" text-anchor="end">1e{high:.0f}</text>'
        f'<text x="{left - 4}" y="{bottom}" text-anchor="end">1e{low:.0f}</text>'
        f'<text x="{left}" y="{height - 5}">0</text>'
        f'<text x="{width - 6}" y="{height - 5}" text-anchor="end">{longest - 1} iterations</text>'
    )
    hint = (
        ""
        if logs
        else f'<text x="{width / 2}" y="{height / 2}" text-anchor="middle">drag a handle to plot the energy</text>'
    )
    return (
        f'<div style="padding:0.2em 0.75em 0.6em"><svg viewBox="0 0 {width:.0f} {height:.0f}" width="100%" '
        f'font-size="10" fill="#7a8699" font-family="sans-serif">{axes}{ends}{hint}{"".join(lines)}</svg></div>'
    )
