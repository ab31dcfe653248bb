"""Who may use a studio: the token, the hosts and origins; names from files are text; bounds on what a client holds."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import numpy as np
import pytest

import posable as ps

viser = pytest.importorskip("viser", reason="no viser: pip install 'posable[studio]'")
from posable.studio.access import Guard, free_port, own_token  # noqa: E402
from posable.studio.messages import escape_markdown, strip_control  # noqa: E402
from posable.studio.panels.status import as_html  # noqa: E402

TOKEN = "0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
def studio():
    from posable.studio.server import Studio
    from posable.studio.session import Session

    made = Studio(Session(ps.figures.planar_arm([1.0, 0.5])), port=8440, guard=Guard("127.0.0.1", TOKEN))
    yield made
    made.close()


def get(url, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_the_page_needs_the_token(studio):
    base = studio.url.rsplit("/", 2)[0]
    status, data = get(studio.url)
    assert status == 200
    assert b"<title>Posable</title>" in data
    for path in ("", "/", "/index.html", f"/{TOKEN[:-1]}x/", "/do/play", f"/x{TOKEN}/", f"/{TOKEN}x/"):
        status, data = get(base + path)
        assert status == 403
        assert TOKEN.encode() not in data


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8440", "127.0.0.1.evil.example", ""])
def test_another_host_is_not_served(studio, host):
    assert get(studio.url, Host=host or "x.localhost.evil")[0] == 403


def test_a_request_with_two_hosts_or_a_forged_one_is_refused(studio):
    place = studio.url.split("/")[2]
    for lines in (f"Host: {place}\r\nHost: evil.example", f"Host: evil.example@{place}", f"Host: {place}/x"):
        with socket.create_connection((place.split(":")[0], int(place.split(":")[1])), timeout=20) as line:
            line.sendall(f"GET /{TOKEN}/ HTTP/1.1\r\n{lines}\r\n\r\n".encode())
            assert line.recv(12) == b"HTTP/1.1 403", lines


@pytest.mark.parametrize("query", ["seek?frame=nan", "seek?frame=1e999", "seek", "move_key?frame=0&to=inf", "nothing"])
def test_a_command_that_makes_no_sense_changes_nothing(studio, query):
    frame = studio.session.timeline.frame
    assert get(f"{studio.url}do/{query}") == (200, b"false")
    assert studio.session.timeline.frame == frame


def test_another_origin_may_neither_ask_nor_connect(studio):
    from websockets.asyncio.client import connect
    from websockets.exceptions import InvalidStatus

    assert get(f"{studio.url}do/play", Origin="http://evil.example")[0] == 403

    async def refused(url, **options):
        with pytest.raises(InvalidStatus) as info:
            async with connect(url, subprotocols=[f"viser-v{viser.__version__}"], **options):
                pass
        return info.value.response.status_code

    socket_url = studio.url.replace("http", "ws").rstrip("/")
    assert asyncio.run(refused(socket_url, origin="http://evil.example")) == 403
    assert asyncio.run(refused(socket_url.rsplit("/", 1)[0], origin=None)) == 403


def test_silent_sockets_hold_nothing_up(studio):
    from websockets.asyncio.client import connect

    async def many():
        held, refused = [], 0
        for _ in range(60):
            try:
                held.append(
                    await connect(
                        studio.url.replace("http", "ws").rstrip("/"), subprotocols=[f"viser-v{viser.__version__}"]
                    )
                )
            except Exception:
                refused += 1
        begin = time.perf_counter()
        out = await asyncio.get_running_loop().run_in_executor(None, get, f"{studio.url}do/seek?frame=7")
        passed = time.perf_counter() - begin
        for connection in held:
            await connection.close()
        return len(held), refused, out, passed

    held, refused, (status, data), passed = asyncio.run(many())
    assert held <= 8
    assert refused == 60 - held
    assert (status, json.loads(data)) == (200, True)
    assert passed < 5.0
    assert studio.session.timeline.shown == 7


def test_uploads_are_refused_while_they_arrive(studio):
    from viser import _messages as messages

    heard = []
    studio.session.on_notification(lambda text, kind: heard.append(text))
    button = next(
        u
        for u, h in studio.server.gui._gui_input_handle_from_uuid.items()
        if type(h).__name__ == "GuiUploadButtonHandle"
    )

    def start(size, uuid, parts=1):
        studio.server._start_upload(0, messages.FileTransferStartUpload(button, uuid, "big.bvh", "x", parts, size))

    start(10**9, "a")
    assert "64 MB" in heard[-1]
    states = studio.server.gui._current_file_upload_states
    assert "a" not in states
    start(10, "b", parts=3)
    assert "b" in states
    studio.server._take_part(0, messages.FileTransferPart(button, "b", 0, b"x" * 11))
    assert "b" not in states
    assert "more data than announced" in heard[-1]
    for uuid in "cde":
        start(10, uuid, parts=3)
    assert sum(u in states for u in "cde") == 2
    studio.server.gui._drop_uploads_from_client(0)


def test_no_client_can_open_a_tunnel(studio):
    from viser import _messages as messages

    assert messages.ShareUrlRequest not in studio.server._websock_server._incoming_handlers


def test_the_guard_of_a_machine_that_others_reach():
    guard = Guard("0.0.0.0", TOKEN)
    assert guard.allows({"Host": "192.168.1.5:8080"})
    assert guard.allows({"Host": f"{socket.gethostname()}:8080", "Origin": f"http://{socket.gethostname()}:8080"})
    assert not guard.allows({"Host": "evil.example:8080"})
    assert not guard.allows({"Host": "192.168.1.5:8080", "Origin": "http://192.168.1.6:8080"})


def test_a_name_is_text_wherever_it_comes_from():
    name = '<iframe srcdoc="<script>x</script>">**b** [a](javascript:x) `c` \x1b[31m\u202e'
    for text in (escape_markdown(name), as_html(f"**{escape_markdown(name)}** is at its limit")):
        assert "<iframe" not in text
        assert "\x1b" not in text
        assert "\u202e" not in text
    html = as_html(f"**{escape_markdown(name)}**")
    assert html.startswith("<b>")
    assert html.endswith("</b>")
    assert html.count("<") == 2
    assert strip_control("a\nb\x00c") == "a b c"
    assert as_html(f"**{escape_markdown('hand_R.1')}**") == "<b>hand&#95;R.1</b>"
    assert escape_markdown("Bob's & Al's") == "Bob's &amp; Al's"


def test_the_next_free_port_is_taken_and_a_strange_address_is_reported():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert free_port("127.0.0.1", port) > port
    with pytest.raises(OSError, match=r"\S"):
        free_port("203.0.113.7", 8080)


@pytest.mark.parametrize(
    ("options", "words"),
    [(["--port", "99999"], "--port: expected 1 to 65535"), (["--host", "203.0.113.7"], "cannot listen on 203.0.113.7")],
)
def test_a_bad_address_is_a_sentence(options, words, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "posable.cli.main", "studio", "--no-browser", "--seconds", "1", *options],
        capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "POSABLE_STATE": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_sigterm_leaves_nothing_behind_and_the_address_has_a_token(tmp_path):
    env = {**os.environ, "POSABLE_STATE": str(tmp_path / "state"), "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-m", "posable.cli.main", "studio", "panda", "--no-browser", "--json", "--port", "8470"],
        stdout=subprocess.PIPE, text=True, env=env,
    )  # fmt: skip
    url = json.loads(process.stdout.readline())["url"]
    token = url.rstrip("/").rsplit("/", 1)[1]
    assert len(token) >= 32
    assert get(url)[0] == 200
    assert oct((tmp_path / "state" / "studio-token").stat().st_mode & 0o777) == "0o600"
    assert list(tmp_path.glob("posable-studio-*"))
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    assert not list(tmp_path.glob("posable-studio-*"))


def test_a_second_interrupt_does_not_cut_the_clean_up_short(tmp_path):
    env = {**os.environ, "POSABLE_STATE": str(tmp_path / "state"), "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-m", "posable.cli.main", "studio", "panda", "--no-browser", "--json", "--port", "8471"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
    )  # fmt: skip
    assert json.loads(process.stdout.readline())["url"]
    for _ in range(8):
        process.send_signal(signal.SIGINT)
        time.sleep(0.03)
    said = process.communicate(timeout=30)[1]
    assert process.returncode in (0, -signal.SIGINT)  # one may come after everything is done
    assert "Traceback" not in said
    assert not list(tmp_path.glob("posable-studio-*"))


def test_an_older_view_is_not_shown_again(studio):
    """Several threads make views; one that comes late must not bring an old pose, or an old figure, back."""
    old = studio.session.view()
    studio.session.set_pose(studio.session.pose + 0.3)
    figure = studio.stage.figure
    studio.show(old)
    assert studio._view.number > old.number
    assert np.array_equal(studio._view.pose, studio.session.pose)
    assert studio.stage.figure == figure


def test_panels_suit_every_figure():
    """No panel fails on a figure without fingers, limbs, feet or handles: an error there is a notice on every page."""
    from posable.studio.server import Studio
    from posable.studio.session import Session

    session, said = Session(), []
    made = Studio(session, port=8460, guard=Guard("127.0.0.1", TOKEN), detail=0.3)
    session.on_notification(lambda text, kind: said.append(text) if kind == "bad" else None)
    try:
        for name in ps.figures.names():
            session.open_figure(name)
            session.select(session.skeleton.names[-1])
            made.refresh_panels()
        session.open(ps.Skeleton([ps.Joint("alone", ps.Revolute("z"))], name="one joint"))
        made.refresh_panels()
    finally:
        made.close()
    assert said == []


def test_notes_of_a_file_are_shown_on_the_first_page(tmp_path):
    from posable.studio.server import notes_on

    scene = ps.Scene(skeleton=ps.figures.panda(), notes=("mesh /home/somebody/robot/link.stl: no such file", "b", "c"))
    assert notes_on(scene) == "Note: mesh link.stl: no such file. Note: b."
    assert notes_on(ps.Scene(skeleton=ps.figures.panda())) == ""


@pytest.mark.parametrize("content", [b"", b"short", b"\xff\xfe" * 20])
def test_a_damaged_token_is_replaced(tmp_path, monkeypatch, content):
    monkeypatch.setenv("POSABLE_STATE", str(tmp_path))
    (tmp_path / "studio-token").write_bytes(content)
    token = own_token()
    assert len(token) == 32
    assert own_token() == token
