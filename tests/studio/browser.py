"""A real browser on a real page: the system's chromium without a GPU, driven by playwright."""

import base64
import json
import shutil
import time
from contextlib import contextmanager

import numpy as np
import pytest

FLAGS = [
    "--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--no-first-run",
    "--ignore-gpu-blocklist", "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
PATIENCE = 90.0  # [s]: software rendering on a busy machine is slow


def chromium() -> str:
    """Return the path of the system's chromium, or skip the test."""
    pytest.importorskip("viser", reason="no viser: pip install 'posable[studio]'")
    pytest.importorskip("playwright", reason="no playwright: pip install 'posable[dev]'")
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    pytest.skip("no chromium on this machine: apt-get install chromium")


@contextmanager
def browser():
    """Start the browser; yields a function that opens a page on a URL."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        program = play.chromium.launch(executable_path=chromium(), args=FLAGS, headless=True)

        def open_page(url, width=800, height=560, waits=True):
            page = program.new_page(viewport={"width": width, "height": height}, accept_downloads=True)
            page.set_default_timeout(PATIENCE * 1000.0)
            page.goto(url)
            if waits:
                page.get_by_text("Posable").first.wait_for()
            return page

        yield open_page
        program.close()


def wait_for(condition, what, patience=PATIENCE):
    """Wait until a condition holds; fails with what was awaited."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError(f"waited {patience:.0f} s for {what}")


def on_screen(client, point, page):
    """Return where (x, y) [pixels] a point (3,) of the scene is on a page."""
    w, x, y, z = client.camera.wxyz
    turn = np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ])  # fmt: skip
    local = turn.T @ (np.asarray(point) - client.camera.position)
    size = page.viewport_size
    focal = 0.5 * size["height"] / np.tan(0.5 * client.camera.fov)
    return 0.5 * size["width"] + focal * local[0] / local[2], 0.5 * size["height"] + focal * local[1] / local[2]


def click_mouse(page, place, reached, what, waits=(600, 2000, 6000, 12000)):
    """Press and let go at a place, again until that has its effect.

    Args:
        page: The page.
        place: Where to press (x, y) [pixels].
        reached: Says whether the click has had its effect. A page that draws in software may be busy for seconds and
            not know yet what is under the pointer; it is then clicked again, as a person would.
        what: What is awaited, for the message.
        waits: How long to wait before each press [ms].
    """
    for wait in waits:
        page.mouse.move(*place)
        page.wait_for_timeout(wait)  # until the page has seen what is under the pointer
        page.mouse.down()
        page.wait_for_timeout(60)
        page.mouse.up()
        try:
            wait_for(reached, what, patience=10.0)
            return
        except AssertionError:
            page.mouse.move(5, 5)
    wait_for(reached, what)


def drag_mouse(page, start, end, steps=12, held=lambda: True, waits=(400, 2000, 6000, 12000)):
    """Press at one place, move to another, let go.

    Args:
        page: The page.
        start: Where to press (x, y) [pixels].
        end: Where to let go (x, y) [pixels].
        steps: How many moves lie between them.
        held: Says whether the page has hold of what is there. A page that draws in software may be busy for seconds
            and take the press for one on empty ground; it is then pressed again, as a person would.
        waits: How long to wait before each press [ms].
    """
    for wait in waits:
        page.mouse.move(*start)
        page.wait_for_timeout(wait)  # until the page has seen what is under the pointer
        page.mouse.down()
        page.mouse.move(start[0] + (end[0] - start[0]) / steps, start[1] + (end[1] - start[1]) / steps)
        try:
            wait_for(held, "the page to take hold", patience=5.0)
            break
        except AssertionError:
            page.mouse.up()
            page.mouse.move(5, 5)
    else:
        raise AssertionError(f"nothing to take hold of at {start}")
    for k in range(2, steps + 1):
        share = k / steps
        page.mouse.move(start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1]))
        page.wait_for_timeout(30)
    page.wait_for_timeout(200)
    page.mouse.up()


def drop_file(page, name, data):
    """Drop a file with some bytes on a page, as from a folder of the desktop."""
    drop_files(page, {name: data})


def drop_files(page, files):
    """Drop several files at once on a page: their bytes by name."""
    page.evaluate(
        """(files) => {
          const transfer = new DataTransfer();
          for (const [name, data] of Object.entries(files))
            transfer.items.add(new File([Uint8Array.from(atob(data), (c) => c.charCodeAt(0))], name));
          window.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
        }""",
        {name: base64.b64encode(data).decode() for name, data in files.items()},
    )


def is_in_step(page, session):
    """Return whether a page shows the state that the session has."""
    from posable.studio.panels.time import state_of

    element = page.locator("#posable-state")
    told = element.get_attribute("data-state") if element.count() else None
    return told is not None and json.loads(told) == json.loads(state_of(session.view()))


def row_of(page, label):
    """Return the row of the panel with a label."""
    xpath = f'//label[normalize-space()="{label}"]/ancestor::div[.//input or .//button][1]'
    return page.locator(f"xpath={xpath}").first


def open_tab(page, name):
    """Open a tab of the panel."""
    tab = page.get_by_role("tab", name=name)
    tab.click()
    wait_for(lambda: tab.get_attribute("aria-selected") == "true", f"the tab {name}")


def pixels(page):
    """Return a coarse picture (38, 42, 3) of the left half of a page: the scene without the panel and the notices."""
    import io

    import imageio.v3 as images

    page.evaluate("document.querySelectorAll('.mantine-Notification-closeButton').forEach(b => b.click())")
    data = page.screenshot(timeout=120_000, clip={"x": 0, "y": 100, "width": 420, "height": 380})
    whole = images.imread(io.BytesIO(data))[..., :3].astype(float)
    return whole.reshape(38, 10, 42, 10, 3).mean(axis=(1, 3))


class Bench:
    """A studio and a browser on it, shared by the tests of a file."""

    def __init__(self, open_page, folder):
        from posable.studio.server import Studio
        from posable.studio.session import Session

        self.session = Session()
        self.session.warm_up()
        self.studio = Studio(self.session, port=8190, detail=0.35)
        self.studio.adapt_detail = lambda *_: None  # nothing is drawn again in the middle of a test
        self.open_page, self.folder = open_page, folder
        self.faults = []
        self.stale = False  # after a failure
        self.page, self.client = self.another()

    def another(self):
        known = set(self.studio.server.get_clients())
        page = self.open_page(self.studio.url)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("console", lambda said: said.type == "error" and self.faults.append(said.text))
        wait_for(lambda: set(self.studio.server.get_clients()) - known, "the page to connect")
        (new,) = set(self.studio.server.get_clients()) - known
        self.seen(page)
        return page, self.studio.server.get_clients()[new]

    def seen(self, page=None):
        """Wait until a page has what the session shows, and has drawn it."""
        page = page or self.page
        wait_for(lambda: is_in_step(page, self.session), "the page to be in step")
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def value(self, label):
        """Return the value that the studio has of a control of the page."""
        return self.widget(label).value

    def widget(self, label):
        """Return a control of the page."""
        inputs = self.studio.server.gui._gui_input_handle_from_uuid.values()
        return next(widget for widget in inputs if getattr(widget, "label", None) == label)

    def tab(self, name):
        open_tab(self.page, name)

    def row(self, label):
        return row_of(self.page, label)

    def pick(self, label, value):
        """Pick an option of a list on the page, whatever the studio makes of it."""
        self.row(label).locator("input[role=combobox]").click()
        self.page.get_by_role("option", name=value, exact=True).click()

    def choose(self, label, value):
        """Pick an option of a list on the page and wait until the studio has it."""
        self.pick(label, value)
        wait_for(lambda: self.value(label) == value, f"{value} as {label}")

    def type_in(self, label, value):
        box = self.row(label).locator("input[type=text]").last
        box.fill(str(value))
        box.press("Enter")
        wait_for(lambda: abs(self.value(label) - value) < 1e-3, f"{value} as {label}")

    def type_vector(self, label, values):
        """Type the three numbers of a vector, until the studio has them."""
        boxes = self.row(label).locator("input").all()

        def has_them():
            return np.allclose(self.value(label), values, atol=6e-3)  # the page rounds to its step

        def typed():  # again where the page took one of them for an older one
            for value, box in zip(values, boxes, strict=False):
                box.fill(f"{value:.2f}")
                box.press("Enter")
                self.page.wait_for_timeout(200)  # the page sends a vector whole, and not at once
            end = time.monotonic() + 3.0
            while not has_them() and time.monotonic() < end:
                time.sleep(0.05)
            return has_them()

        wait_for(typed, f"{values} as {label}")

    def upload(self, path):
        self.page.locator("input[type=file]").first.set_input_files(path)

    def drop(self, path):
        """Drop a file on the page, as from a folder of the desktop."""
        drop_file(self.page, path.name, path.read_bytes())

    def on_strip(self, frame, key=False):
        """Return where (x, y) [pixels] a frame is on the timeline strip."""
        box = self.page.locator("#posable-strip canvas").bounding_box()
        x = box["x"] + 8 + (box["width"] - 16) * frame / (self.session.timeline.count - 1)
        return x, box["y"] + (24 if key else 41)

    def shot(self, name):
        self.page.screenshot(path=self.folder / f"{name}.png", timeout=120_000)

    def grab(self, body, right, up):
        """Drag a handle by so many pixels; return where it was and where the pointer went [pixels]."""
        start = on_screen(self.client, self.session.frames.position(body), self.page)
        end = (start[0] + right, start[1] - up)
        drag_mouse(self.page, start, end, held=lambda: self.session.active is not None)
        return start, end

    def reopen(self):
        """Open the page anew: what a failed test left on it, such as an open question, would cover it for the next."""
        for context in self.page.context.browser.contexts:
            context.close()
        self.page, self.client = self.another()
        self.faults.clear()
        self.stale = False

    def fresh(self, source=None):
        self.session.player.play(False)
        self.session.configure(solver="newton", ghost=None, limits=True)
        self.session.player.set_time(onion=False)
        if source is None:
            self.session.open_figure("human")
        else:
            self.session.open(source)
        self.session.select(None)
        self.page.evaluate("document.querySelectorAll('.mantine-Notification-closeButton').forEach(b => b.click())")
        self.seen()
