"""Everything that the studio needs of viser beyond its public interface, in one place, for viser 1.1.

- The page behind a token: viser serves anyone, so its web server is given our check of every request.
- The page itself: viser 1.1.1 fails when a skinned mesh is removed, which also happens on every reconnect, and
  fills the console with harmless errors; its script is patched. Our own script is added: dropped files,
  keyboard, timeline.
- Bounds on clients and uploads, and no tunnel to the outside.
- Moving many nodes at once, without the comparisons and locks that take most of a drag.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import io
import json
import logging
import re
import sys
import threading
from collections.abc import Callable
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import viser
import websockets.asyncio.server
import zstandard
from viser import _messages as messages
from websockets import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from posable.studio.access import FORBIDDEN, Guard

CLIENTS = 8  # largest number of pages
SILENT = 20.0  # [s] timeout for a connection that does not become a page
LARGEST = 64 * 2**20  # [bytes] largest upload
LARGEST_MESSAGE = 32 * 2**20  # [bytes]: a large picture of the view; uploads come in pieces of 512 KB
MOST_FILES = 10  # dropped at once
UPLOADS = 2  # simultaneous uploads per page
POLICY = (
    "default-src 'self' data: blob:; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; style-src 'self' "
    "'unsafe-inline'; worker-src 'self' blob: data:; connect-src 'self' data: blob:; frame-src 'none'; "
    "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
_starting = threading.Lock()

Command = Callable[[str, dict[str, str]], Any]


QUIET = logging.getLogger("posable.studio.sockets")  # pages that disconnect during the handshake are not errors
QUIET.setLevel(logging.CRITICAL)


class Server(viser.ViserServer):
    """A viser server that requires the token.

    Args:
        guard: Access control.
        port: A free port.
        label: The title of the panel.
        command: Called with the name and parameters of a command of the page's script; returns JSON data.
    """

    def __init__(self, guard: Guard, port: int, label: str, command: Command):
        self._live: set[Any] = set()
        serve = websockets.asyncio.server.serve

        def guarded(handler: Any, *args: Any, **options: Any) -> Any:
            inner = options.pop("process_request")
            options.update(
                process_request=lambda connection, request: self._answer(guard, command, inner, connection, request),
                max_size=LARGEST_MESSAGE,
                logger=QUIET,
            )
            return serve(lambda connection: self._bounded(handler, connection), *args, **options)

        # viser offers no hook for requests: while its server starts, `serve` is replaced
        with _starting, contextlib.redirect_stdout(io.StringIO()):
            websockets.asyncio.server.serve = guarded  # type: ignore[assignment]  # the same signature
            try:
                super().__init__(host=guard.host, port=port, label=label, verbose=False)
            finally:
                websockets.asyncio.server.serve = serve
        handlers = self._websock_server._incoming_handlers
        for kind in (messages.ShareUrlRequest, messages.ShareUrlDisconnect):
            handlers.pop(kind, None)
        handlers[messages.FileTransferStartUpload] = [self._start_upload]
        handlers[messages.FileTransferPart] = [self._take_part]
        self.refuse_upload: Callable[[str], None] = lambda text: None
        self._broadcast = self._websock_server.queue_message
        self._websock_server.queue_message = self._queue  # type: ignore[method-assign]  # the same signature

    def stop(self) -> None:
        """Stop serving; viser would say so on standard output."""
        with contextlib.redirect_stdout(io.StringIO()):
            super().stop()

    # ----------------------------------------------------------------------------------------------- requests

    async def _answer(
        self, guard: Guard, command: Command, inner: Any, connection: Any, request: Request
    ) -> Response | None:
        path = guard.path_inside(request.path)
        repeated = any(len(request.headers.get_all(name)) > 1 for name in ("Host", "Origin"))
        if path is None or repeated or not guard.allows(request.headers):
            return _response(FORBIDDEN.encode(), "text/plain; charset=utf-8", HTTPStatus.FORBIDDEN)
        if request.headers.get("Upgrade", "").lower() == "websocket":
            if len(self._live) >= CLIENTS:
                return _response(b"Too many pages are open.\n", "text/plain", HTTPStatus.SERVICE_UNAVAILABLE)
            return None
        if path.startswith("/do/"):
            query = dict(parse_qsl(request.path.partition("?")[2]))
            out = await asyncio.get_running_loop().run_in_executor(None, command, path[4:], query)
            return _response(json.dumps(out).encode(), "application/json")
        if path == "/":
            zipped = "gzip" in request.headers.get("Accept-Encoding", "")
            return _response(page(zipped), "text/html; charset=utf-8", encoding="gzip" if zipped else "")
        request.path = path
        return inner(connection, request)

    async def _bounded(self, handler: Any, connection: Any) -> None:
        self._live.add(connection)
        watch = asyncio.get_running_loop().call_later(SILENT, self._close_if_silent, connection)
        try:
            await handler(connection)
        except ConnectionClosed:
            raise
        except Exception as problem:  # whatever viser raises for an invalid message
            kind = type(problem).__name__
            print(f"a page sent an invalid message ({kind}) and was disconnected", file=sys.stderr)
            await connection.close(1003, "invalid message")
        finally:
            watch.cancel()
            self._live.discard(connection)

    def _close_if_silent(self, connection: Any) -> None:
        pages = [self._websock_server._live_connections.get(number) for number in self.get_clients()]
        if connection in self._live and connection not in pages:
            self._closing = asyncio.ensure_future(connection.close(1008, "no message was received"))

    # ------------------------------------------------------------------------------------------------ uploads

    def _start_upload(self, client: Any, message: Any) -> None:
        states = self.gui._current_file_upload_states
        mine = sum(state["client_id"] == client for state in states.values())
        name = str(message.filename)[:100]
        if not 0 <= message.size_bytes <= LARGEST or not 0 <= message.part_count <= LARGEST // 1024:
            self.refuse_upload(too_large(name))
        elif mine >= UPLOADS:
            self.refuse_upload(f"{name}: {UPLOADS} uploads are already in progress")
        else:
            self.gui._handle_file_transfer_start(client, message)

    def _take_part(self, client: Any, message: Any) -> None:
        state = self.gui._current_file_upload_states.get(message.transfer_uuid)
        if state is None or state["client_id"] != client:
            return
        if state["transferred_bytes"] + len(message.content) > state["total_bytes"]:
            self.gui._drop_uploads_from_client(client)
            self.refuse_upload(f"{str(state['filename'])[:100]}: received more data than announced")
            return
        self.gui._handle_file_transfer_part(client, message)

    def _queue(self, message: Any) -> None:
        """Queue a message for every page; the progress of an upload, which viser broadcasts, for its page alone."""
        if not isinstance(message, messages.FileTransferPartAck):
            self._broadcast(message)
            return
        state = self.gui._current_file_upload_states.get(message.transfer_uuid)
        page = None if state is None else self.get_clients().get(state["client_id"])
        if page is not None:
            page._websock_connection.queue_message(message)

    # ------------------------------------------------------------------------------------------------- memory

    def forget_removed(self) -> None:
        """Drop the messages of removed nodes that are kept for new pages; viser does so only when a page connects."""
        self._run_garbage_collector()

    def backlog(self) -> int:
        """Return the number of messages that a new page receives."""
        return len(self._websock_server._broadcast_buffer.message_from_id)

    def drop_connections(self) -> None:
        """Close every connection, as a network failure would; pages reconnect automatically."""
        self._websock_server.disconnect_all_clients()


def too_large(name: str) -> str:
    """Return what is said about a file that is too large to be uploaded."""
    return f"{name[:100]}: larger than {LARGEST >> 20} MB"


def _response(data: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK, encoding: str = "") -> Response:
    headers = Headers()
    headers["Content-Type"] = kind
    headers["Content-Length"] = str(len(data))
    headers["Cache-Control"] = "no-store"
    headers["Referrer-Policy"] = "no-referrer"
    headers["X-Content-Type-Options"] = "nosniff"
    headers["Content-Security-Policy"] = POLICY
    headers["Connection"] = "close"
    if encoding:
        headers["Content-Encoding"] = encoding
    return Response(status.value, status.phrase, headers, data)


# ---------------------------------------------------------------------------------------------------- the page

_CORRECTIONS = (  # corrections of viser's script
    (  # a node's reference is cleared to null, but only compared with undefined before use
        b"e!==void 0&&n!==void 0&&n.forEach(t=>e.remove(t))",
        b"e!=null&&n!==void 0&&n.forEach(t=>e.remove(t))",
    ),
    # in a passive listener this only logs an error
    (b",s&&t.nativeEvent.preventDefault())}", b")}"),
    # a page that reconnects receives the same up direction, and would lose its view
    (
        b'o=n!=="default"||r!=="default"||i!=="default";return b.useEffect(()=>{o&&t.resetCameraPose?.(!1)},[o,a,t])',
        b'o=n!="default"||r!="default"||i!="default";return b.useEffect(()=>{o&&t.resetCameraPose?.(!1)},[o,a+"",t])',
    ),
    # updates of a widget that was removed in the same frame are not errors
    (b"{console.error(`Tried to update non-existent component '${i}'`,a);continue}", b"continue;"),
)
_SCRIPT = re.compile(r'<script data-p="([^"]*)"')
_ALPHABET = bytes(c for c in range(0x21, 0x7F) if chr(c) not in "\"&<>'`")


@cache
def page(zipped: bool = False) -> bytes:
    """Return viser's page with our title and script, and its script corrected."""
    text = (Path(viser.__file__).parent / "client" / "build" / "index.html").read_text(encoding="utf-8")
    found = _SCRIPT.search(text)
    if found is not None:
        script = zstandard.ZstdDecompressor().decompressobj().decompress(_from_88(found[1].encode()))
        for wrong, right in _CORRECTIONS:
            if script.count(wrong) == 1:
                script = script.replace(wrong, right.ljust(len(wrong)))  # the page stores the length of its script
        packed = zstandard.ZstdCompressor(level=9).compress(script)
        text = text[: found.start(1)] + _to_88(packed).decode() + text[found.end(1) :]
    ours = (Path(__file__).parent / "page.js").read_text(encoding="utf-8")
    text = text.replace("<title>Viser</title>", "<title>Posable</title>", 1)
    text = text.replace(
        "</head>", f'<script data-largest="{LARGEST}" data-most="{MOST_FILES}">{ours}</script></head>', 1
    )
    data = text.encode()
    return gzip.compress(data, 6) if zipped else data


def _from_88(text: bytes) -> bytes:
    """Decode base 88: five characters for every four bytes."""
    digits = np.zeros(128, dtype=np.int64)
    digits[list(_ALPHABET)] = np.arange(88)
    values = digits[np.frombuffer(text, dtype=np.uint8)]
    groups, rest = divmod(len(values), 5)
    powers = 88 ** np.arange(4, -1, -1)
    out = (values[: 5 * groups].reshape(groups, 5) @ powers).astype(">u4").tobytes()
    if rest:
        out += int(values[5 * groups :] @ powers[5 - rest :]).to_bytes(rest - 1, "big")
    return out


def _to_88(data: bytes) -> bytes:
    """Return the inverse of `_from_88`."""
    alphabet = np.frombuffer(_ALPHABET, dtype=np.uint8)
    whole = len(data) // 4 * 4
    values = np.frombuffer(data[:whole], dtype=">u4").astype(np.int64)
    digits = values[:, None] // 88 ** np.arange(4, -1, -1) % 88
    out = alphabet[digits].tobytes()
    if rest := data[whole:]:
        digits = int.from_bytes(rest, "big") // 88 ** np.arange(len(rest), -1, -1) % 88
        out += alphabet[digits].tobytes()
    return out


# ------------------------------------------------------------------------------------------------------- nodes


class Slot:
    """The place of a node or bone in viser's message buffer, computed once: a figure has a hundred of them."""

    def __init__(self, node: Any):
        self.impl = impl = node._impl
        self.bone = (impl.bone_index,) if hasattr(impl, "bone_index") else ()
        api = impl.mesh_impl.api if self.bone else impl.api
        self.owner, self.interface = api._owner_id, api._websock_interface
        kinds: Any = (
            (messages.SetBonePositionMessage, messages.SetBoneOrientationMessage) if self.bone
            else (messages.SetPositionMessage, messages.SetOrientationMessage)
        )  # fmt: skip
        samples = [kind(impl.name, *self.bone, ()) for kind in kinds]
        self.kinds = [(kind, one.redundancy_key()) for kind, one in zip(kinds, samples, strict=True)]
        self.entity: Any = samples[0].entity_state_key()

    def position(self, place: np.ndarray) -> tuple[Slot, str, Any]:
        """Return the message that moves it to a place (3,) [m]."""
        self.impl.position[:] = place
        return self._message(0, place)

    def turn(self, wxyz: np.ndarray) -> tuple[Slot, str, Any]:
        """Return the message that sets its orientation to a quaternion (4,), w first."""
        self.impl.wxyz[:] = wxyz
        return self._message(1, wxyz)

    def _message(self, which: int, values: np.ndarray) -> tuple[Slot, str, Any]:
        kind, key = self.kinds[which]
        message = kind(self.impl.name, *self.bone, tuple(values.tolist()))
        message.owner = self.owner
        return self, key, message


def send(moves: list[tuple[Slot, str, Any]]) -> None:
    """Queue the messages of slots of one scene, as viser's `queue_message` does for one, but all at once.

    Each replaces its predecessor of the same kind. Sent one by one, they would take most of the time of a drag.
    """
    if not moves:
        return
    interface = moves[0][0].interface
    buffer = interface.get_message_buffer()
    with interface._record_lock:
        for record in interface._record_handles:
            for _, _, message in moves:
                record._insert_message(message)
        with buffer.buffer_lock:
            number = buffer.message_counter
            for slot, key, message in moves:
                own = buffer.ids_from_entity_state_key.setdefault(slot.entity, set())
                before = buffer.id_from_redundancy_key.get(key)
                if before is not None:
                    buffer.message_from_id.pop(before, None)
                    own.discard(before)
                buffer.message_from_id[number] = message
                buffer.id_from_redundancy_key[key] = number
                own.add(number)
                number += 1
            buffer.message_counter = number
            buffer.message_event.set()
            waiting = buffer.atomic_counter == 0
        if waiting:
            with contextlib.suppress(RuntimeError):  # the server has stopped
                buffer.event_loop.call_soon_threadsafe(buffer.message_event.set)


STILL = 1e-4  # [m] and quaternion component: smaller moves are invisible


class NodeUpdater:
    """Updates nodes of the scene, and sends messages only for those that have moved."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.slots: list[Slot] = []
        self.positions, self.turns = np.zeros((0, 3)), np.zeros((0, 4))

    def move(self, nodes: list[Any], positions: np.ndarray, turns: np.ndarray | None = None) -> None:
        """Move nodes to positions (B, 3) [m] and, if given, to quaternions (B, 4), w first."""
        if len(nodes) != len(self.nodes) or any(a is not b for a, b in zip(nodes, self.nodes, strict=True)):
            self.nodes, self.slots = list(nodes), [Slot(node) for node in nodes]
            self.positions, self.turns = np.full((len(nodes), 3), np.inf), np.full((len(nodes), 4), np.inf)
        far = np.flatnonzero(np.abs(positions - self.positions).max(axis=1, initial=0.0) > STILL)
        moves = [self.slots[k].position(positions[k]) for k in far]
        self.positions[far] = positions[far]
        if turns is not None:
            turned = np.flatnonzero(np.abs(turns - self.turns).max(axis=1, initial=0.0) > STILL)
            moves += [self.slots[k].turn(turns[k]) for k in turned]
            self.turns[turned] = turns[turned]
        send(moves)
