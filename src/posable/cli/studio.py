"""`posable studio [FILE]`: pose a figure in the browser.

Drag a handle and the figure follows. Without a file, a human.
"""

import argparse
import json
import os
import signal
import sys
import time
import webbrowser
from importlib import import_module
from typing import Any

import posable as ps

EXAMPLE = "posable studio walk.bvh"
LOCAL = ("127.0.0.1", "localhost", "::1")


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    parser.add_argument(
        "file", metavar="FILE", nargs="?",
        help="a figure, a take or a .posable project, watched for changes; or a figure's name",
    )  # fmt: skip
    parser.add_argument("--port", type=int, default=8080, help="first port to try (default: 8080)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    parser.add_argument("--no-browser", action="store_true", help="print the address without opening a browser")
    parser.add_argument("--fresh", action="store_true", help="do not recover unsaved work")
    parser.add_argument(
        "--detail", type=float, default=1.0,
        help="level of detail of the body, 0.2 to 2 (default: 1); reduced if pages are slow",
    )  # fmt: skip
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)  # ends by itself, for tests


def run(args: argparse.Namespace) -> int:
    """Serve the page until interrupted."""
    if not 0 < args.port < 65536:
        raise ps.PosableError(f"--port: expected 1 to 65535, got {args.port}")
    if not 0.2 <= args.detail <= 2.0:
        raise ps.PosableError(f"--detail: expected 0.2 to 2, got {args.detail:g}")
    try:
        server = import_module("posable.studio.server")
    except ModuleNotFoundError as error:
        raise ps.PosableError(f"the studio needs {error.name}: pip install 'posable[studio]'") from error
    access, project = import_module("posable.studio.access"), import_module("posable.studio.project")
    session = import_module("posable.studio.session").Session(
        recovery=project.RecoveryStore(access.state_folder() / "studio")
    )
    ending, page = Ending(), None
    before = signal.signal(signal.SIGINT, ending)
    signal.signal(signal.SIGTERM, ending)
    try:
        if args.file is not None and not session.open_figure(args.file):
            session.open_path(args.file, watch=True)
        recovered = not args.fresh and session.recover()
        page = server.Studio(session, host=args.host, port=args.port, detail=args.detail)
        if recovered:
            page.greet("Unsaved work was recovered. Undo goes back to the figure as it was opened.")
        if args.json:
            print(json.dumps({"url": page.url}), flush=True)
        else:
            print(f"posable studio: {page.url}  (Ctrl-C to stop)", flush=True)
            if args.host not in LOCAL:
                print(
                    f"listening on {args.host}, without encryption: anyone with this address can view and drag "
                    "the figure, and open and download files of the session",
                    flush=True,
                )
        if not args.no_browser:
            webbrowser.open(page.url)
        end = time.monotonic() + args.seconds if args.seconds else float("inf")
        while time.monotonic() < end and not ending.asked:
            time.sleep(0.2)
    except KeyboardInterrupt:
        ending.asked = True  # signals stay ignored until the process has ended
    finally:
        (page or session).close()
    if ending.asked:
        # Threads may still be inside LLVM or compiled code; finalising the interpreter under them aborts the process.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    signal.signal(signal.SIGINT, before)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return 0


class Ending:
    """Ends the studio at the first signal; the next ones do not cut its clean-up short."""

    def __init__(self) -> None:
        self.asked = False  # Python ignores the exception if the signal arrives in the callback of a weak reference

    def __call__(self, *_: Any) -> None:
        """Raise KeyboardInterrupt, and ignore further signals."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self.asked = True
        raise KeyboardInterrupt
