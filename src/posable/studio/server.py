"""The page: a viser server that shows a session, and hands everything that people do on it to the session."""

from __future__ import annotations

import contextlib
import io
import threading
import time
from typing import Any

import viser

from posable.studio.panels.files import files
from posable.studio.panels.joints import joints
from posable.studio.panels.limb import limb
from posable.studio.panels.pose import pose
from posable.studio.panels.solver import solver
from posable.studio.panels.status import status
from posable.studio.panels.strength import strength
from posable.studio.panels.time import time as player
from posable.studio.scene import Stage
from posable.studio.session import Session, View

PANELS = {  # a new panel is a file in panels/ and a line here
    "Pose": (pose,),
    "Solver": (solver,),
    "Limb": (limb,),
    "Joints": (strength, joints),
    "Time": (player,),
    "Files": (files,),
}
FAST = 0.25  # [s] within which a page with a GPU draws a small picture and sends it
SLOW = 0.8  # [s] a page that takes longer gets fewer polygons: it draws without a GPU, or on a slow one
COARSE = 0.45  # the detail of the body for such pages
PACE = 0.1  # [s] between refreshes of the panels; the figure itself is sent at once
# viser's page sends at most 20 drags a second; a screen shows 60
SMOOTH = (
    '<img src="data:," style="display:none" onerror="if (!window.posable) { window.posable = window.setTimeout; '
    'window.setTimeout = (f, t, ...a) => window.posable(f, t === 50 ? 16 : t, ...a) }">'
)


class Studio:
    """A session on a page. `url` is where; `close` ends it."""

    def __init__(self, session: Session, *, host: str = "127.0.0.1", port: int = 8080, detail: float = 1.0):
        self.session = session
        with contextlib.redirect_stdout(io.StringIO()):  # viser's own banner: ours says the same in a line
            self.server = viser.ViserServer(host=host, port=port, label="Posable", verbose=False)
        self.url = f"http://{host}:{self.server.get_port()}"
        self.server.gui.configure_theme(show_logo=False, show_share_button=False, brand_color=(32, 129, 126))
        self.server.gui.main_panel.set_width(360)
        self.server.scene.configure_environment_map("warehouse", environment_intensity=0.9)
        self.server.scene.configure_default_lights(cast_shadow=False)  # until a page turns out to be fast
        self.server.on_client_connect(self._welcome)
        self.stage = Stage(self.server, session, detail=detail)
        self.refreshers = self._panels()
        self._news = threading.Event()
        self._open = True
        self._view: View = session.view()
        self._sending = threading.Lock()
        session.listen(self.show)
        session.speak_to(self.say)
        self.show(self._view)
        threading.Thread(target=self._refresh, name="posable panels", daemon=True).start()
        session.start_worker()

    def _panels(self) -> list[Any]:
        gui = self.server.gui
        gui.add_html(SMOOTH)
        refreshers = [status(gui, self.session)]
        tabs = gui.add_tab_group()
        for label, panels in PANELS.items():
            with tabs.add_tab(label):
                refreshers += [panel(gui, self.session) for panel in panels]
        gui.add_command("Undo", hotkey="Z", modifier="cmd/ctrl").on_trigger(self._undo)
        gui.add_command("Redo", hotkey="Z", modifier="cmd/ctrl+shift").on_trigger(self._redo)
        gui.add_command("Set a key", hotkey="K").on_trigger(self._set_key)
        self.server.scene.on_click(modifier="shift")(self._pick)
        return refreshers

    def _undo(self, _: Any) -> None:
        self.session.undo()

    def _redo(self, _: Any) -> None:
        self.session.redo()

    def _set_key(self, _: Any) -> None:
        self.session.set_key()

    def _pick(self, event: viser.SceneClickEvent) -> None:
        self.session.pick(event.ray_origin, event.ray_direction)

    def _welcome(self, client: viser.ClientHandle) -> None:
        """See how fast a new page draws: a fast one gets shadows, a slow one a figure of fewer polygons."""
        with contextlib.suppress(Exception):  # a page that has gone again
            client.get_render(48, 64)  # the first picture waits for meshes and shaders
            begin = time.perf_counter()
            client.get_render(48, 64)
            self.pace(time.perf_counter() - begin, client)

    def pace(self, seconds: float, client: viser.ClientHandle) -> None:
        """Take note that a page draws a picture in so many seconds. All pages see one figure: the slowest decides."""
        if seconds < FAST:
            client.scene.configure_default_lights(cast_shadow=True)
        elif seconds > SLOW and self.stage.detail > COARSE:
            with self._sending:
                self.stage.redraw(self._view, COARSE)

    def show(self, view: View) -> None:
        """Send a view to every page: the figure now, the panels soon."""
        with self._sending:
            self._view = view
            self.stage.show(view)
        self._news.set()

    def say(self, text: str, kind: str) -> None:
        """Show a message on every page."""
        for client in self.server.get_clients().values():
            client.add_notification(
                "Posable",
                text,
                color="red" if kind == "bad" else "teal",
                auto_close_seconds=8.0,
                with_close_button=True,
            )

    def _refresh(self) -> None:
        while self._open:
            self._news.wait()
            self._news.clear()
            if not self._open:
                return
            view = self._view
            for refresh in self.refreshers:
                try:
                    refresh(view)
                except Exception as error:  # one panel's fault is not the page's
                    self.say(f"{type(error).__name__}: {error}", "bad")
            time.sleep(PACE)

    def close(self) -> None:
        """End the page and the session."""
        self._open = False
        self._news.set()
        self.session.close()
        self.server.stop()
