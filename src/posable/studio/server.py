"""The page: a viser server that displays a session and forwards user actions to it."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import viser

import posable as ps
from posable.studio.access import Guard, free_port
from posable.studio.files import notes_on
from posable.studio.messages import escape_markdown
from posable.studio.panels.files import files
from posable.studio.panels.joints import joints, speeds, strength
from posable.studio.panels.pose import library, limb, pose
from posable.studio.panels.solver import solver
from posable.studio.panels.status import display, status
from posable.studio.panels.time import contact, curves, playback, strip, take
from posable.studio.session import Session
from posable.studio.stage import Side, Stage, camera_pose
from posable.studio.state import View
from posable.studio.viser_adapter import MOST_FILES, Server, too_large

PANELS = {  # each panel is a function in panels/ and a line here
    "Pose": (pose, library, display),
    "Limb": (limb,),
    "Joints": (joints, strength, speeds),
    "Time": (take, playback, contact, curves),
    "Solver": (solver,),
    "File": (files,),
}
FAST = 0.25  # [s] rendering time of a small picture on a page with a GPU
SLOW = 0.8  # [s] rendering time above which a page gets fewer polygons
PATIENCE = 30.0  # [s] timeout for that picture
COARSE = 0.45  # detail of the body on slow pages
MOST_VIEWS = 32  # remembered views: a page that reconnects is recognised by its camera
PACE = 0.1  # [s] between refreshes of the panels; the figure is updated at once


class Studio:
    """A session on a page, at `url` until `close`.

    Args:
        session: The session to display.
        host: The address to listen on.
        port: The first port to try.
        detail: Level of detail of the body, 0.2 to 2.
        guard: Access control; by default, the token of this user.

    Raises:
        PosableError: The address or the port cannot be used.
    """

    def __init__(
        self, session: Session, *, host: str = "127.0.0.1", port: int = 8080, detail: float = 1.0,
        guard: Guard | None = None,
    ):  # fmt: skip
        self.session = session
        self.questions = Questions()
        self._news = threading.Event()
        session.start_worker()  # it compiles while the page is made
        try:
            free = free_port(host, port)
        except (OSError, socket.gaierror) as error:
            raise ps.PosableError(f"cannot listen on {host}, port {port}: {error.strerror or error}") from error
        self.guard = guard or Guard(host)
        self.server = Server(self.guard, free, "Posable", lambda name, query: run_command(session, name, query))
        self.server.refuse_upload = lambda text: session.notify(text, "bad")
        shown = "127.0.0.1" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self.server.get_port()}/{self.guard.token}/"
        self.server.gui.configure_theme(show_logo=False, show_share_button=False, brand_color=(32, 129, 126))
        self.server.gui.main_panel.set_width(360)
        self.server.scene.configure_environment_map("warehouse", environment_intensity=0.9)
        self.server.scene.configure_default_lights(cast_shadow=False)  # enabled once a page proves fast
        self.server.on_client_connect(self._connected)
        self.server.on_client_disconnect(self._disconnected)
        self.stage = Stage(self.server, session, detail=detail)
        self.refreshers = self._panels()
        self._open = True
        self._view: View = session.view()
        self._sending, self._refreshing = threading.Lock(), threading.Lock()
        self._greeting = notes_on(session.scene)
        self._views: dict[int, dict[str, Any]] = {}  # by page, most recent last
        self._opening = threading.Lock()  # one after the other, in order
        session.on_view(self.show)
        session.on_notification(self.notify)
        session.watched.asks = True
        self.show(self._view)
        threading.Thread(target=self._refresh, name="posable panels", daemon=True).start()

    def _panels(self) -> list[Any]:
        gui = self.server.gui
        refreshers = [status(gui, self.session)]
        upload = gui.add_upload_button(
            "Open file or project…", icon=viser.Icon.FOLDER_OPEN, hint="or drop files anywhere on the page"
        )
        save = gui.add_button("Save project", icon=viser.Icon.DEVICE_FLOPPY, hint="everything, in one .posable file")

        @upload.on_upload
        def _(event: viser.GuiEvent) -> None:
            name, data = event.target.value.name, event.target.value.content
            self.ask_first(event.client, lambda: self.session.upload(name, data))

        @save.on_click
        def _(event: viser.GuiEvent) -> None:
            self.save(event.client)

        tabs = gui.add_tab_group()
        for label, panels in PANELS.items():
            with tabs.add_tab(label):
                refreshers += [panel(gui, self.session, self) for panel in panels]
        refreshers.append(strip(gui, self.session))
        register_hotkeys(self)
        self.server.scene.on_click(modifier="shift")(self._pick)
        return refreshers

    def _pick(self, event: viser.SceneClickEvent) -> None:
        self.session.pick(event.ray_origin, event.ray_direction)

    # ---------------------------------------------------------------------------------------- saving and asking

    def save(self, client: viser.ClientHandle | None) -> None:
        """Send the project to a page as a download, with the view of that page."""
        if client is not None:
            self._remember_view(client.camera)
        name, data = self.session.save_project()
        if client is not None:
            client.send_file_download(name, data, save_immediately=True)

    def ask_first(self, client: viser.ClientHandle | None, go_on: Callable[[], Any]) -> None:
        """Run an action that replaces the current work, after a question if it is not saved.

        Several files that are dropped at once are asked about once, and opened in order.
        """
        if not self.session.dirty or client is None:
            with self._opening:
                go_on()
            return
        actions, figure = [go_on], self.session.figure

        def open_all() -> None:
            with self._opening:
                for action in actions:
                    action()

        def save_and_open() -> None:
            self.save(client)
            open_all()

        self.questions.ask(
            client,
            "Unsaved work",
            "The poses and keys on screen are not saved in a project. Undo brings them back.",
            {"Save project, then open": save_and_open, "Open without saving": open_all, "Cancel": self.refresh_soon},
            matters=lambda: self.session.dirty and self.session.figure == figure,
            actions=actions,
        )

    def _refresh_questions(self, _: View) -> None:
        """Close questions that no longer matter; ask every page about a file changed on disk, until one answers."""
        self.questions.close_settled()
        file = self.session.watched
        for client in self.server.get_clients().values() if file.changed else ():
            if client not in self.questions:
                self.questions.ask(
                    client,
                    "Changed on disk",
                    f"**{escape_markdown(file.name)}** has changed on disk, and there is unsaved work.",
                    {"Reload it, keep my keys": file.reload, "Leave everything as it is": file.leave},
                    matters=lambda: file.changed,
                )

    # ------------------------------------------------------------------------------------------------- the pages

    def greet(self, text: str) -> None:
        """Show a message on the connected pages, or on the first one that connects."""
        pages = self.server.get_clients().values()
        for client in pages:
            self._notify(client, text, "good", 20.0)
        self._greeting = "" if pages else " ".join(filter(None, (text, self._greeting)))

    def _disconnected(self, client: viser.ClientHandle) -> None:
        """End the drags and the question of a page that has disconnected."""
        self.stage.handles.release_client(client.client_id)
        self.questions.forget(client)

    def _connected(self, client: viser.ClientHandle) -> None:
        """Give a new page the view of the last one and measure its speed; a page that reconnects keeps its view."""
        self.refresh_soon()  # it may have to be asked something
        with contextlib.suppress(Exception):  # a page that has disconnected
            place = client.camera.position
            told = (self.server.initial_camera.position, place)
            view = self._view_from(place) or self.session.camera
            client.camera.on_update(self._remember_view)
            if self._greeting:
                self._notify(client, self._greeting, "good", 20.0)
                self._greeting = ""
            args = (client, view, told)
            threading.Thread(target=self._measure_speed, args=args, name="posable rendering", daemon=True).start()

    def _view_from(self, place: np.ndarray) -> dict[str, Any] | None:
        """Return the last view that some page had from a place (3,) [m], also if its up axis differs."""
        for view in reversed(list(self._views.values())):
            if any(np.allclose(view["position"], np.roll(place, k), atol=1e-3) for k in range(3)):
                return view
        return None

    def _remember_view(self, camera: viser.CameraHandle) -> None:
        self.session.camera = {"position": camera.position.tolist(), "look_at": camera.look_at.tolist()}
        number = camera.client.client_id
        self._views.pop(number, None)
        self._views[number] = self.session.camera
        if len(self._views) > MOST_VIEWS:
            del self._views[next(iter(self._views))]

    def _measure_speed(
        self, client: viser.ClientHandle, view: dict[str, Any] | None, told: tuple[np.ndarray, np.ndarray]
    ) -> None:
        """Measure a new page's rendering speed: fast pages get shadows, slow ones fewer polygons.

        A page moves its camera to the initial position while it loads; then it gets its view, unless the user has moved
        it.

        Args:
            client: The page.
            view: What it looks at.
            told: Camera positions (3,) [m] that it may report without having been moved: the initial one, and the
                first, which may have another up axis.
        """
        with contextlib.suppress(Exception):  # a page that disconnected or does not answer
            client.get_render(48, 64, timeout=PATIENCE)  # the first picture includes loading of meshes and shaders
            unmoved = any(np.allclose(client.camera.position, place, atol=1e-3) for place in told)
            if view is not None and unmoved:
                client.camera.position, client.camera.look_at = view["position"], view["look_at"]
            begin = time.perf_counter()
            client.get_render(48, 64, timeout=PATIENCE)
            self.adapt_detail(time.perf_counter() - begin, client)

    def adapt_detail(self, seconds: float, client: viser.ClientHandle) -> None:
        """Adapt the detail to a page's rendering time [s]. All pages share one figure, so the slowest decides."""
        if seconds < FAST:
            client.scene.configure_default_lights(cast_shadow=True)
        elif seconds > SLOW and self.stage.detail > COARSE:
            with self._sending:
                self.stage.redraw(self._view, COARSE)

    def turn_view(self, client: viser.ClientHandle | None, view: Side) -> None:
        """Move a page's camera to a side of the figure, or frame the selection."""
        if client is not None:
            client.camera.position, client.camera.look_at = camera_pose(
                self._view, view, client.camera, self.stage.front
            )
            self._remember_view(client.camera)

    # --------------------------------------------------------------------------------------------------- showing

    def show(self, view: View) -> None:
        """Send a view to every page: the figure at once, the panels with the next refresh."""
        with self._sending:
            if view.number >= self._view.number:  # views come from several threads, possibly out of order
                self._view = view
                self.stage.show(view)
        self._news.set()

    def notify(self, text: str, kind: str) -> None:
        """Show a message on every page."""
        for client in self.server.get_clients().values():
            self._notify(client, text, kind)

    def _notify(self, client: viser.ClientHandle, text: str, kind: str, seconds: float = 8.0) -> None:
        client.add_notification(
            "Posable", text, color="red" if kind == "bad" else "teal", auto_close_seconds=seconds,
            with_close_button=True,
        )  # fmt: skip

    def _refresh(self) -> None:
        while self._open:
            self._news.wait()
            self._news.clear()
            if not self._open:
                return
            self.refresh_panels()
            time.sleep(PACE)

    def refresh_soon(self) -> None:
        """Refresh the panels although nothing has changed in the session."""
        self._news.set()

    def refresh_panels(self) -> None:
        """Update every panel; only one thread at a time, as viser requires."""
        with self._refreshing:
            for refresh in (*self.refreshers, self._refresh_questions):
                try:
                    refresh(self._view)
                except Exception as error:  # an error in one panel must not end the page
                    self.session.notify(f"{type(error).__name__}: {error}", "bad")

    def close(self) -> None:
        """Close the page and the session."""
        self._open = False
        self._news.set()
        self.session.close()
        self.server.stop()


# --- Questions ---


class Question(NamedTuple):
    """An open question on a page."""

    client: viser.ClientHandle
    title: str
    actions: list[Callable[[], Any]] | None
    modal: Any
    matters: Callable[[], bool]
    decline: Callable[[], Any]


class Questions:
    """The open questions, by page."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._open: dict[int, Question] = {}

    def __contains__(self, client: viser.ClientHandle) -> bool:
        return client.client_id in self._open

    def ask(
        self,
        client: viser.ClientHandle, title: str, text: str, answers: dict[str, Callable[[], Any]],
        matters: Callable[[], bool], actions: list[Callable[[], Any]] | None = None,
    ) -> None:  # fmt: skip
        """Show a question on a page in place of the one before; if it is the same one, add to what it is about.

        Args:
            client: The page.
            title: Its title.
            text: The question, in Markdown.
            answers: What each button does; the last one declines, as Escape does.
            matters: Whether it still matters; it is closed when it does not.
            actions: What it is about, run by its answers.
        """
        with self._lock:
            before = self._open.get(client.client_id)
            if before is not None and before.title == title and before.actions is not None:
                before.actions.extend(actions or ())
                return
            if before is not None:
                self._close(before)
            with client.gui.add_modal(title) as modal:
                client.gui.add_markdown(text)
                buttons = [client.gui.add_button(label) for label in answers]
            question = self._open[client.client_id] = Question(
                client, title, actions, modal, matters, list(answers.values())[-1]
            )
        for button, act in zip(buttons, answers.values(), strict=True):

            def chosen(_: Any, act: Callable[[], Any] = act) -> None:
                if self._close(question) and matters():  # only the first answer counts
                    act()

            button.on_click(chosen)

    def decline(self, client: viser.ClientHandle) -> bool:
        """Close the question on a page with its last answer; return whether there was one."""
        question = self._open.get(client.client_id)
        if question is None or not self._close(question):
            return False
        question.decline()
        return True

    def _close(self, question: Question) -> bool:
        with self._lock:
            number = question.client.client_id
            if self._open.get(number) is not question:
                return False
            del self._open[number]
            question.modal.close()
            return True

    def forget(self, client: viser.ClientHandle) -> None:
        """Forget the question on a page that has disconnected."""
        with self._lock:
            self._open.pop(client.client_id, None)

    def close_settled(self) -> None:
        """Close the questions that no longer matter."""
        for question in list(self._open.values()):
            if not question.matters():
                self._close(question)


# --- Commands from the keyboard and from the timeline strip ---


def run_command(session: Session, name: str, query: dict[str, str]) -> Any:
    """Run a command of the page's own script; the session checks the numbers. Returns whether it succeeded."""

    def number(key: str) -> Any:
        """Return a whole number, or NaN, which the session takes for none."""
        try:
            return int(float(query[key]))
        except (KeyError, ValueError, OverflowError):
            return np.nan

    def step() -> bool:
        by = 1 if query.get("by") == "1" else -1
        line = session.timeline
        return session.player.seek(line.next_key(by) if query.get("keys") == "1" else line.shown + by)

    actions: dict[str, Callable[[], Any]] = {
        "seek": lambda: session.player.seek(number("frame")),
        "step": step,
        "play": lambda: session.player.play(not session.timeline.playing),
        "move_key": lambda: session.player.move_key(number("frame"), number("to")),
        "remedy": lambda: session.remedies.apply(number("number")),
        "too_large": lambda: session.notify(too_large(query.get("name", "")), "bad"),
        "too_many": lambda: session.notify(
            f"{number('count')} files were dropped; drop at most {MOST_FILES} at once.", "bad"
        ),
        "autokey": lambda: session.player.set_time(autokey=not session.timeline.autokey),
    }
    return bool(actions[name]()) if name in actions else False


def register_hotkeys(studio: Any) -> None:
    """Register the commands with their hotkeys; viser lists them under Ctrl-K."""
    session: Session = studio.session
    gui = studio.server.gui

    def delete(_: Any) -> None:
        if not session.player.drop_key() and session.selected is not None:
            session.remove_handle(session.selected)

    def pin(_: Any) -> None:
        if session.selected is not None:
            handle = session.view().selected_handle
            pinned = handle is not None and handle.hold == "pinned"
            session.set_handle(session.selected, hold="held" if pinned else "pinned")

    def escape(event: Any) -> None:
        if event.client is None or not studio.questions.decline(event.client):
            session.select(None)

    commands: tuple[tuple[str, Any, Any, Any], ...] = (
        ("Undo", "Z", "cmd/ctrl", lambda _: session.undo()),
        ("Redo", "Y", "cmd/ctrl", lambda _: session.redo()),
        ("Redo (Shift)", "Z", "cmd/ctrl+shift", lambda _: session.redo()),
        ("Set a key", "K", None, lambda _: session.player.set_key()),
        ("Delete the key, or the selected handle", "delete", None, delete),
        ("Deselect", "escape", None, escape),
        ("Copy the pose", "C", "cmd/ctrl", lambda _: session.pose_tools.copy()),
        ("Paste the pose", "V", "cmd/ctrl", lambda _: session.pose_tools.paste()),
        ("Mirror the pose", "M", None, lambda _: session.pose_tools.mirror()),
        ("Pin or unpin the selected handle", "P", None, pin),
        ("Save the project", "S", "cmd/ctrl", lambda event: studio.save(event.client)),
        ("View from the front", "1", None, lambda event: studio.turn_view(event.client, "front")),
        ("View from the right", "2", None, lambda event: studio.turn_view(event.client, "right")),
        ("View from the back", "3", None, lambda event: studio.turn_view(event.client, "back")),
        ("View from above", "4", None, lambda event: studio.turn_view(event.client, "top")),
        ("Frame the selection, or the figure", "F", None, lambda event: studio.turn_view(event.client, "frame")),
    )
    for label, key, modifier, action in commands:
        gui.add_command(label, hotkey=key, modifier=modifier).on_trigger(action)
