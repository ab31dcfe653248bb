"""Drags as motors follow them, and a plot of the joints' speeds against their limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import viser
from viser import uplot

from posable.studio.panels.widgets import Refresh, by_person, put
from posable.studio.session import Session
from posable.studio.state import View

MOST = 6  # joints in the plot: the fastest ones
COLORS = ("#20817e", "#ef476f", "#c97a12", "#5a8cff", "#9b72cf", "#7a8699")


def speeds(gui: viser.GuiApi, session: Session, studio: Any = None) -> Refresh:
    """Add the switch and the plot."""
    with gui.add_folder("Speeds", expand_by_default=False) as folder:
        motors = gui.add_checkbox(
            "Keep to velocity limits", session.settings.motors,
            hint="drags go on as fast as the joints may: the file's limits, or 180°/s and 1 m/s",
        )  # fmt: skip
    shown: dict[str, Any] = {"plot": None, "names": None, "until": -1.0}
    motors.on_update(by_person(lambda value: session.configure(motors=value)))

    def refresh(view: View) -> None:
        put(motors, view.settings.motors)
        now = view.speeds
        if now is None or len(now.times) < 2 or now.times[-1] == shown["until"]:
            return
        shown["until"] = float(now.times[-1])
        fastest = np.sort(np.argsort(-now.shares.max(axis=0), kind="stable")[:MOST])
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
