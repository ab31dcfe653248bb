"""Make the pictures of the studio: `python -m tests.studio.picture docs/images`."""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from posable.studio.server import Studio
from posable.studio.session import Session

from .browser import browser, is_in_step, pixels, wait_for


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


def out_of_reach() -> Session:
    """Return a person whose pinned pelvis keeps the right hand from its target."""
    session = Session()
    session.warm_up()
    session.set_handle("pelvis", "pinned")
    session.set_handle("hand.R", "pinned")
    start = session.frames.position("hand.R")
    for share in np.linspace(0.1, 1.0, 10):
        session.drag("hand.R", start + share * np.array([-0.9, 0.9, -0.3]))
        session.step()
    session.release()
    session.step()
    return session


def take(session: Session, open_page: Any, path: Path, camera: tuple, select: str | None) -> None:
    """Open the page, turn real shadows on, wait until the software renderer has come to rest, save."""
    studio = Studio(session, port=8280, detail=1.0)
    studio.adapt_detail = lambda *_: None  # a picture may take its time
    page = open_page(studio.url, 1280, 800)
    wait_for(studio.server.get_clients, "the page")
    (client,) = studio.server.get_clients().values()
    session.select(select)
    wait_for(lambda: session.view().idle and is_in_step(page, session), "the page to be in step")
    page.get_by_text("Software WebGL").first.wait_for()  # only where there is no GPU, as here
    client.camera.position, client.camera.look_at = camera
    client.scene.configure_default_lights(cast_shadow=True)
    page.mouse.move(5, 400)
    shots = [pixels(page)]  # this also closes every notice

    def rests() -> bool:
        shots.append(pixels(page))
        return len(shots) > 4 and bool(np.abs(shots[-1] - shots[-2]).max() < 2.0)

    wait_for(rests, "the page to come to rest")
    page.screenshot(path=path, timeout=300_000)
    page.close()
    studio.close()


def main(folder: Path) -> None:
    """Make every picture of the studio in the documentation."""
    with browser() as open_page:
        take(posed(), open_page, folder / "studio.png", ((1.65, 1.25, 2.95), (0.26, 0.84, 0.0)), "elbow.R")
        view = ((0.9, 1.35, 3.4), (0.05, 0.92, 0.0))
        take(out_of_reach(), open_page, folder / "studio_limits.png", view, None)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
