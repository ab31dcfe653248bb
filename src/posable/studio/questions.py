"""Questions on the pages: at most one per page, and none that no longer matters."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import viser


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
        client: viser.ClientHandle,
        title: str,
        text: str,
        answers: dict[str, Callable[[], Any]],
        matters: Callable[[], bool],
        actions: list[Callable[[], Any]] | None = None,
    ) -> None:
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
