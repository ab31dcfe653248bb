"""Access control: the token in the address of a studio, and the hosts and origins that requests may name."""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

LOCAL = ("127.0.0.1", "localhost", "::1")
_HOST = re.compile(r"([\w.-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?", re.ASCII)
FORBIDDEN = "Not allowed. Open the address that `posable studio` printed; it contains a secret token.\n"


def state_folder() -> Path:
    """Return the folder for the user's own state (token, recovered work), readable by nobody else."""
    base = os.environ.get("POSABLE_STATE") or os.environ.get("XDG_STATE_HOME")
    folder = Path(base) if base else Path.home() / ".local" / "state"
    folder = folder if os.environ.get("POSABLE_STATE") else folder / "posable"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def own_token() -> str:
    """Return the user's token. It is created once and kept, so that an open page reconnects to a restarted studio."""
    place = state_folder() / "studio-token"
    try:
        token = place.read_text().strip()
        if len(token) >= 20 and token.isalnum():
            return token
    except (OSError, UnicodeDecodeError):  # missing or damaged
        pass
    token = secrets.token_hex(16)
    with os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(token)
    return token


@dataclass(frozen=True)
class Guard:
    """Decides which requests are answered: those with the token, from this server's own host and origin.

    Args:
        host: The address that the server listens on.
        token: The first segment of every path that is served.
    """

    host: str
    token: str = field(default_factory=own_token)

    def path_inside(self, path: str) -> str | None:
        """Return the path of a request after the token, or None if the token is missing or wrong."""
        first, _, rest = path.partition("?")[0].lstrip("/").partition("/")
        return "/" + rest if secrets.compare_digest(first.encode(), self.token.encode()) else None

    def allows(self, headers: Mapping[str, str]) -> bool:
        """Return whether the Host and Origin headers of a request name this server.

        A host name that foreign DNS can point here is refused (DNS rebinding); a bare address cannot be rebound.
        Requests without an Origin do not come from a page.
        """
        host = headers.get("Host", "")
        if not _HOST.fullmatch(host):
            return False
        name = urlsplit(f"//{host}").hostname or ""
        if not (name in LOCAL or name == self.host or (self.host not in LOCAL and self._is_this_machine(name))):
            return False
        origin = headers.get("Origin")
        return origin is None or origin == f"http://{host}"

    def _is_this_machine(self, name: str) -> bool:
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in (socket.gethostname(), socket.getfqdn())
        return True


def free_port(host: str, port: int, tries: int = 100) -> int:
    """Return the first free port, starting at `port`.

    Raises:
        OSError: If this machine has no such address, or no port is free.
    """
    family = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][0]
    error: OSError | None = None
    for candidate in range(port, min(port + tries, 65536)):
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, candidate))
                return probe.getsockname()[1]
            except OSError as failed:
                error = failed
    raise error or OSError("no port")
