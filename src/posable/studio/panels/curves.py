"""The curves of the selected joint over the frames."""

from __future__ import annotations

from typing import Any

import numpy as np
import viser
from viser import uplot

from posable.studio.messages import slides
from posable.studio.state import View

CURVES = ("#20817e", "#ef476f", "#5a8cff", "#c97a12", "#9b72cf", "#2ea070")
POINTS = 600  # of a curve that are sent


class Curves:
    """A folder with a plot of the selected joint's numbers, [deg] or [m]; drawn anew when they change."""

    def __init__(self, gui: viser.GuiApi):
        self.gui, self.folder = gui, gui.add_folder("Curves of the selected joint", expand_by_default=False)
        with self.folder:
            self.hint = gui.add_markdown(
                "Select a joint; with a take or two keys, its values over the frames are here."
            )
        self.plot: Any = None
        self.what: Any = None

    def show(self, view: View) -> None:
        """Bring the plot to a view."""
        line = view.timeline
        joint = next((s.joint for s in view.skeleton.sites if s.name == view.selected), view.selected)
        what = (view.figure, joint, id(line.keys), id(line.take), line.fade, line.easing, line.last)
        if what == self.what or not view.calm:
            return
        self.what = what
        if self.plot is not None:
            self.plot.remove()
            self.plot = None
        self.hint.visible = True
        if joint is None or (line.take is None and len(line.keys) < 2) or not view.skeleton.joint(joint).motion.size:
            return
        frames = np.unique(np.linspace(0, line.last, POINTS).round())
        poses = np.stack([line.at(f) for f in frames])  # type: ignore[misc]  # with keys or a take there is one
        dofs = range(*view.skeleton.index(joint).indices(view.skeleton.size))
        units = [1.0 if slides(view.skeleton, dof) else 180.0 / np.pi for dof in dofs]
        data = (frames, *(poses[:, dof] * unit for dof, unit in zip(dofs, units, strict=True)))
        series = (
            uplot.Series(label="frame"),
            *(
                uplot.Series(label=view.skeleton.dof_names[dof], stroke=CURVES[k % len(CURVES)], width=2)
                for k, dof in enumerate(dofs)
            ),
        )
        self.hint.visible = False
        with self.folder:
            self.plot = self.gui.add_uplot(
                data=data, series=series, scales={"x": uplot.Scale(time=False)}, aspect=1.6,
                title=f"{joint} [{'deg' if units[-1] > 1 else 'm'}]",
            )  # fmt: skip
