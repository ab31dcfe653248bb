"""What all panels share: telling a person's change from the program's own, and values that are set without echo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from posable.studio.state import View

Refresh = Callable[[View], None]


def by_person(change: Callable[[Any], Any]) -> Callable[[Any], None]:
    """Return a callback that runs only where a person on a page made the change; the program's own go unheard."""

    def callback(event: Any) -> None:
        if event.client is not None:
            change(event.target.value)

    return callback


def write(text: Any, content: str) -> None:
    """Set a text where it differs."""
    if text.content != content:
        text.content = content


def put(widget: Any, value: Any) -> None:
    """Set a widget where its value differs."""
    if widget.value != value:
        widget.value = value
