"""Files: built-in figures, recent work, downloads, pictures and films."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import viser

import posable as ps
from posable.studio.files import EXPORTS
from posable.studio.film import FILMS, film_of, page_of, picture_of
from posable.studio.messages import escape_markdown
from posable.studio.panels import Refresh, set_text
from posable.studio.session import Session
from posable.studio.state import View

NONE = "(none)"
SIZES = {"1920 × 1080": (1920, 1080), "1280 × 720": (1280, 720), "1080 × 1080": (1080, 1080), "640 × 360": (640, 360)}


def send(session: Session, event: viser.GuiEvent, make: Callable[[], tuple[str, bytes]]) -> None:
    """Send a file (name, bytes) to a page as a download; errors are shown as messages."""
    try:
        name, data = make()
    except (ps.PosableError, ImportError) as error:
        session.notify(str(error), "bad")
        return
    if event.client is not None:
        event.client.send_file_download(name, data, save_immediately=True)


def pictures(gui: viser.GuiApi, session: Session) -> None:
    """Add the folder for pictures and films."""
    with gui.add_folder("Picture and film", expand_by_default=True):
        size = gui.add_dropdown("Size", tuple(SIZES), initial_value="1280 × 720")
        clear = gui.add_checkbox("Transparent background", False)
        picture = gui.add_button("Picture (PNG)", icon=viser.Icon.CAMERA)
        kind = gui.add_dropdown("Film", (*FILMS, "html"), initial_value="mp4")
        film = gui.add_button("Film", icon=viser.Icon.MOVIE)
        bar = gui.add_progress_bar(0.0, visible=False)

    @picture.on_click
    def _(event: viser.GuiEvent) -> None:
        if (client := event.client) is not None:

            def make() -> tuple[str, bytes]:
                return "posable.png", picture_of(session, client.camera, SIZES[size.value], clear.value)

            send(session, event, make)

    @film.on_click
    def _(event: viser.GuiEvent) -> None:
        client = event.client
        if client is None:
            return
        bar.value, bar.visible, film.disabled = 0.0, True, True

        def progress(share: float) -> None:
            bar.value = 100.0 * share

        def make() -> tuple[str, bytes]:
            if kind.value == "html":
                return "posable.html", page_of(session, client.camera)
            return f"posable.{kind.value}", film_of(session, client.camera, SIZES[size.value], kind.value, progress)

        try:
            send(session, event, make)
        finally:
            bar.visible, film.disabled = False, False


def files(gui: viser.GuiApi, session: Session, studio: Any) -> Refresh:
    """Add the figures, the recent projects, the downloads and the pictures."""
    text = gui.add_markdown("")
    figure = gui.add_dropdown("Figure", ps.figures.names(), initial_value="human")
    show = gui.add_button("Open this figure", icon=viser.Icon.USER)
    recent: Any = gui.add_dropdown("Recent", (NONE,), initial_value=NONE, hint="work that was saved automatically")
    again = gui.add_button("Open recent work", icon=viser.Icon.HISTORY)
    suffix = gui.add_dropdown("Format", EXPORTS, initial_value="bvh")
    save = gui.add_button("Download", icon=viser.Icon.DOWNLOAD, hint="the motion, exactly as shown")
    pictures(gui, session)

    @show.on_click
    def _(event: viser.GuiEvent) -> None:
        name = figure.value  # as it was clicked; another page may choose another one before the answer
        studio.ask_first(event.client, lambda: session.open_figure(name))

    @again.on_click
    def _(event: viser.GuiEvent) -> None:
        if session.recovery is None:
            return
        path = next((p for p in session.recovery.recent() if p.stem == recent.value), None)
        if path is not None:
            studio.ask_first(event.client, lambda: session.upload(path.name, path.read_bytes()))

    @save.on_click
    def _(event: viser.GuiEvent) -> None:
        send(session, event, lambda: session.export(suffix.value))

    shown: dict[str, Any] = {"recent": ()}

    def refresh(view: View) -> None:
        size_words = f"{len(view.skeleton.joints)} joints, {view.skeleton.size} degrees of freedom"
        line = view.timeline
        take = f"; a take of {len(line.take)} frames at {line.take.fps:g} fps" if line.take is not None else ""
        set_text(text, f"**{escape_markdown(view.name)}**: {size_words}{take}")
        kept = tuple(path.stem for path in session.recovery.recent()) if session.recovery is not None else ()
        if kept != shown["recent"]:
            shown["recent"] = kept
            recent.options = kept or (NONE,)

    return refresh
