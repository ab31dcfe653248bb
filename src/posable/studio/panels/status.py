"""How it stands: reached or by how much not, what is in the way, how long it took."""

from __future__ import annotations

import viser

from posable.studio.messages import in_the_way, standing
from posable.studio.panels.widgets import Refresh, write
from posable.studio.session import Session, View

WELCOME = (
    "**Drag a handle.** The whole figure follows; feet are pinned, the rest is held gently.\n\n"
    "Click a handle to pin, free or turn it."
)


def status(gui: viser.GuiApi, session: Session) -> Refresh:
    """Add the text on top of the page."""
    text = gui.add_markdown(WELCOME)

    def refresh(view: View) -> None:
        write(text, words_for(view))

    return refresh


def words_for(view: View) -> str:
    """Return what the page says about a view."""
    if view.timeline.playing:
        return f"Playing frame {round(view.timeline.frame)} of {view.timeline.count}."
    if view.answer is None:
        return WELCOME
    answer = view.answer
    modes = {h.body: h.mode for h in view.handles}
    lines = [standing(answer, modes)]
    if answer.status == "OUT_OF_REACH":
        lines[0] += " It is farther away than the figure can reach."
    lines += [f"- {sentence}" for sentence in in_the_way(view.skeleton, view.blocking)]
    if not view.blocking and view.limits:
        names = ", ".join(met.name for met in view.limits[:5])
        lines.append(f"At a limit: {names}{' …' if len(view.limits) > 5 else ''}.")
    lines.append(f"*{answer.solver}: {answer.iterations} iterations, {answer.seconds * 1e6:.0f} µs*")
    return "\n\n".join(lines[:1]) + "\n\n" + "\n".join(lines[1:-1]) + "\n\n" + lines[-1]
