"""Files of compiled code: whole or absent, healed where they are damaged, done without where they cannot be written."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from functools import cache
from pathlib import Path

PACKAGE = __name__.partition(".")[0]
MAGIC = b"posable compiled code 1\n"


@cache
def say(line: str) -> None:
    """Print a line on stderr, once."""
    if not os.environ.get("POSABLE_QUIET"):
        print(f"{PACKAGE}: {line}", file=sys.stderr)


def cache_root() -> Path:
    """Return the folder of all compiled code."""
    given = os.environ.get("POSABLE_CACHE")
    if given:
        return Path(given).expanduser()
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / PACKAGE
    except RuntimeError:  # no home: a folder that cannot be made
        say("no home folder for the compile cache: set POSABLE_CACHE, or every process compiles again")
        return Path(os.devnull) / PACKAGE


def read_cached(path: Path) -> bytes | None:
    """Return what was kept under a path, None where nothing was or where the file is damaged."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    body = content[len(MAGIC) + 32 :]
    if content[: len(MAGIC)] == MAGIC and hashlib.sha256(body).digest() == content[len(MAGIC) : len(MAGIC) + 32]:
        return body
    say(f"a file of the compile cache is damaged ({path}): compiling it again")
    return None


def write_cached(path: Path, body: bytes) -> None:
    """Keep bytes under a path, whole or not at all; where that fails, say so once and go on."""
    scratch = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.stem, suffix=".part", delete=False) as file:
            scratch = Path(file.name)
            file.write(MAGIC + hashlib.sha256(body).digest() + body)
        scratch.replace(path)  # atomic: of two processes that compile at once, either may win
    except OSError as error:
        say(f"the compile cache {path.parent} cannot be written ({error.strerror}): compiling in every process")
        if scratch is not None:
            scratch.unlink(missing_ok=True)
