"""What is shown beside the figure, and where the view is from."""

from __future__ import annotations

from typing import Any

import viser

from posable.studio.panels.widgets import Refresh, by_person
from posable.studio.session import Session
from posable.studio.state import View


def display(gui: viser.GuiApi, session: Session, studio: Any) -> Refresh:
    """Add the views and what can be switched off."""
    with gui.add_folder("Display", expand_by_default=False):
        views = gui.add_button_group("View", ("front", "right", "back", "top", "frame"), hint="1, 2, 3, 4, F")
        balance = gui.add_checkbox("Balance", True, hint="what the figure stands on, and its centre of mass above it")
        contacts = gui.add_checkbox(
            "Contacts", session.contacts, hint="limbs in each other (violet), touches of the floor"
        )
        follow = gui.add_checkbox("Follow the figure", False, hint="the view moves along with it")

    def change(name: str, value: bool) -> None:
        setattr(session if name == "contacts" else studio.stage, name, value)
        studio.show(session.view())

    views.on_click(lambda event: studio.look(event.client, event.target.value))
    balance.on_update(by_person(lambda value: change("balance", value)))
    contacts.on_update(by_person(lambda value: change("contacts", value)))
    follow.on_update(by_person(lambda value: change("follow", value)))

    def refresh(view: View) -> None:
        """Nothing here depends on the view."""

    return refresh
