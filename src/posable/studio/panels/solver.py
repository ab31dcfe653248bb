"""The solver: which one, a second one as a ghost, limits, how strongly to stay; and how both converged."""

from __future__ import annotations

import numpy as np
import viser
from viser import uplot

import posable as ps

from ..session import Session, View
from .widgets import Refresh, by_person, put

NONE = "(none)"
HOMES = {"as it was": "drag", "at rest": "rest"}


def solver(gui: viser.GuiApi, session: Session) -> Refresh:
    """Add the solver's menus and the plot of both."""
    names = ps.solvers.names()
    main = gui.add_dropdown("Solver", names, initial_value=session.settings.solver)
    ghost = gui.add_dropdown(
        "Ghost", (NONE, *names), initial_value=NONE, hint="a second solver on the same goals, in blue"
    )
    limits = gui.add_checkbox("Joint limits", session.settings.limits)
    iterations = gui.add_slider("Iterations", 0, 200, 1, 0, hint="at most so many; 0: the solver's own")
    stay = gui.add_slider(
        "Stay (10^x)", -6.0, 0.0, 0.1, float(np.log10(session.settings.stay)), hint="how strongly it stays"
    )
    home = gui.add_dropdown("... as", tuple(HOMES), initial_value="as it was")
    table = gui.add_markdown("")
    empty = (np.arange(2.0), np.full(2, np.nan), np.full(2, np.nan))
    plot = gui.add_uplot(
        empty,
        (
            uplot.Series(label="iteration"),
            uplot.Series(label="solver", stroke="#2ec4b6", width=2),
            uplot.Series(label="ghost", stroke="#5a8cff", width=2),
        ),
        title="log10 of the energy",
        scales={"x": uplot.Scale(time=False, auto=True), "y": uplot.Scale(auto=True)},
        aspect=1.7,
    )

    main.on_update(by_person(lambda value: session.configure(solver=value)))
    ghost.on_update(by_person(lambda value: session.configure(ghost=None if value == NONE else value)))
    limits.on_update(by_person(lambda value: session.configure(limits=value)))
    iterations.on_update(by_person(lambda value: session.configure(iterations=int(value))))
    stay.on_update(by_person(lambda value: session.configure(stay=float(10.0**value))))
    home.on_update(by_person(lambda value: session.configure(home=HOMES[value])))
    drawn: dict[str, object] = {"curves": None}

    def refresh(view: View) -> None:
        s = view.settings
        put(main, s.solver)
        put(ghost, s.ghost or NONE)
        put(limits, s.limits)
        text = table_of(view)
        if table.content != text:
            table.content = text
        if drawn["curves"] is not view.curves:
            drawn["curves"] = view.curves
            plot.data = aligned(view.curves.get(s.solver), view.curves.get(s.ghost or ""))

    return refresh


def table_of(view: View) -> str:
    """Return the last answer's numbers as a table."""
    answer = view.answer
    if answer is None:
        return ""
    worst = max(answer.errors.values(), default=0.0) * 1e3
    rows = [f"| {answer.solver} | {answer.iterations} | {answer.seconds * 1e6:.0f} µs | {worst:.2f} |"]
    if view.ghost is not None:
        apart = float(np.abs(view.ghost - view.pose).max())
        rows.append(f"| {view.settings.ghost} | | | {np.degrees(apart):.1f}° apart |")
    return "| solver | iterations | time | largest error [mm] |\n|---|---|---|---|\n" + "\n".join(rows)


def aligned(first: np.ndarray | None, second: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the iterations and the logarithms of two energies, each filled with NaN to the length of the longer."""
    curves = [np.zeros(0) if curve is None else np.log10(np.maximum(curve, 1e-18)) for curve in (first, second)]
    longest = max(2, *(len(curve) for curve in curves))
    filled = [np.concatenate([curve, np.full(longest - len(curve), np.nan)]) for curve in curves]
    return np.arange(float(longest)), filled[0], filled[1]
