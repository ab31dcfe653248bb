"""The panels of the page: each function adds the widgets of one panel and returns a callback that refreshes them.

Here are their helpers: callbacks for changes by the user only, and updates that are sent only if something differs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from posable.studio.state import View

Refresh = Callable[[View], None]


def on_user_change(change: Callable[[Any], Any]) -> Callable[[Any], None]:
    """Return a callback that runs only if a user made the change, not the program."""

    def callback(event: Any) -> None:
        if event.client is not None:
            change(event.target.value)

    return callback


def set_text(text: Any, content: str) -> None:
    """Set the content of a text if it differs."""
    if text.content != content:
        text.content = content


def set_value(widget: Any, value: Any) -> None:
    """Set the value of a widget if it differs."""
    if widget.value != value:
        widget.value = value
