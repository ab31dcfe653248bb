"""Make the picture of the studio: `python -m tests.studio.picture docs/images/studio.png`."""

import sys

import numpy as np

from posable.studio.server import Studio
from posable.studio.session import Session

from .browser import browser, wait_for


def posed() -> Session:
    """Return a person who steps forward, one hand up, the other out."""
    session = Session()
    session.warm_up()
    for name, offset in (
        ("foot.L", (0.02, 0.0, 0.30)),
        ("foot.R", (-0.02, 0.0, -0.20)),
        ("pelvis", (0.0, -0.09, 0.06)),
        ("hand.R", (-0.02, 0.66, 0.46)),
        ("hand.L", (0.26, 0.36, 0.18)),
        ("head", (0.0, 0.0, 0.03)),
    ):
        start = session.frames.position(name)
        for share in np.linspace(0.1, 1.0, 10):
            session.drag(name, start + share * np.array(offset))
            session.step()
        session.release()
        session.step()
    return session


def main(path: str) -> None:
    """Open the page, turn real shadows on, wait for the software renderer, save."""
    session = posed()
    studio = Studio(session, port=8280, detail=1.0)
    studio.pace = lambda *_: None  # a picture may take its time
    with browser() as open_page:
        page = open_page(studio.url, 1280, 800)
        wait_for(studio.server.get_clients, "the page")
        (client,) = studio.server.get_clients().values()
        client.camera.position, client.camera.look_at = (1.55, 1.28, 2.75), (0.26, 0.90, 0.0)
        session.hold("hand.R", "pinned")
        session.select("elbow.R")
        page.wait_for_timeout(8000)
        page.evaluate("document.querySelectorAll('.mantine-Notification-closeButton').forEach(b => b.click())")
        client.scene.configure_default_lights(cast_shadow=True)
        page.wait_for_timeout(30000)
        page.screenshot(path=path, timeout=300_000)
    studio.close()


if __name__ == "__main__":
    main(sys.argv[1])
