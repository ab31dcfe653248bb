"""Turns kernels, which are plain Python functions, into machine code when they are first needed.

`import posable` must be quick and must not import Numba, yet kernels call one another by name and Numba resolves
those names when it compiles. So a kernel stays a plain function until the first entry from Python; then Numba is
imported once and every name that stands for a kernel, in every module of the package, is bound to its compiled form.
The plain functions stay reachable (`plain(function)`), so another target can be built from the same source.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import update_wrapper
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGE = __name__.partition(".")[0]

# Fused multiply-add is the one liberty the compiler may take: it keeps NaN, infinity and the order of sums.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}, "_nrt": False}

_small: set[Callable[..., Any]] = set()
_registered: dict[Any, Any] = {}  # plain function or entry -> dispatcher (None until activated)
_lock = threading.RLock()
_active = False


def kernel(function: Callable[..., Any]) -> Any:
    """Mark a plain function as a kernel: callable from other kernels, compiled with them."""
    with _lock:
        if _active:
            return _compile(function)
        _registered[function] = None
        return function


def small(function: Callable[..., Any]) -> Any:
    """Mark a kernel whose call would cost more than its work (an array is ten arguments): it goes into its callers."""
    _small.add(function)
    return kernel(function)


class entry:
    """Mark a kernel that Python code calls: the first call compiles, or loads, everything it needs."""

    def __init__(self, function: Callable[..., Any]):
        self.py_func = function
        update_wrapper(self, function)
        with _lock:
            self._dispatcher = _compile(function) if _active else None
            _registered[self] = self._dispatcher

    def __call__(self, *arguments: Any) -> Any:
        """Run the compiled function."""
        if self._dispatcher is None:
            activate()
            self._dispatcher = _registered[self]
        return self._dispatcher(*arguments)


def plain(function: Any) -> Callable[..., Any]:
    """Return the Python source function of a kernel in any of its forms."""
    return getattr(function, "py_func", function)


def activate() -> None:
    """Import Numba and bind every registered kernel to its dispatcher, in every module that names it."""
    global _active  # noqa: PLW0603 - one switch for the process
    with _lock:
        if _active:
            return
        for function in list(_registered):
            _registered[function] = _compile(plain(function))
        homes = {plain(function).__module__ for function in _registered}  # a user's own kernels live elsewhere
        for name, module in list(sys.modules.items()):
            if name in homes or name == PACKAGE or name.startswith(PACKAGE + "."):
                _rebind(module)
        _active = True


def _rebind(module: ModuleType) -> None:
    for name, value in list(vars(module).items()):
        if callable(value) and getattr(value, "__hash__", None) is not None:
            dispatcher = _registered.get(value)
            if dispatcher is not None:
                setattr(module, name, dispatcher)


def _compile(function: Callable[..., Any]) -> Any:
    import numba
    from numba.core import config  # its options are made at run time: no type checker knows them

    _watch()
    before = getattr(config, "CACHE_DIR")  # noqa: B009
    setattr(config, "CACHE_DIR", str(cache_folder()))  # noqa: B010
    try:
        return _once_per_type(numba.njit(cache=True, forceinline=function in _small, **OPTIONS)(function))
    finally:
        setattr(config, "CACHE_DIR", before)  # noqa: B010


def _once_per_type(dispatcher: Any) -> Any:
    """Keep Numba from compiling a kernel anew for every constant that some caller passes to it."""
    from numba.core.types import unliteral

    resolve = dispatcher.get_call_template

    def get_call_template(args: Any, kws: Any) -> Any:
        return resolve(tuple(unliteral(a) for a in args), {name: unliteral(a) for name, a in kws.items()})

    dispatcher.get_call_template = get_call_template
    return dispatcher


_folder: Path | None = None


def cache_folder() -> Path:
    """Return the folder of compiled code for exactly this source: Numba alone would not see an edited callee."""
    global _folder  # noqa: PLW0603 - computed once
    if _folder is None:
        digest = hashlib.sha256()
        root = Path(__file__).parent.parent
        for path in sorted(root.rglob("*.py")):
            text = path.read_bytes()
            if path.parent.name == "kernels" or b"kernels.compiler" in text:
                digest.update(str(path.relative_to(root)).encode() + text)
        base = os.environ.get("POSABLE_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / PACKAGE
        folder = Path(base).expanduser() / digest.hexdigest()[:16]
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError:
            folder = Path(tempfile.mkdtemp(prefix=PACKAGE + "-"))
        _folder = folder
    return _folder


_watching = False


def _watch() -> None:
    """Say, once, that something has to be compiled: a silent wait looks like a hang."""
    global _watching  # noqa: PLW0603 - one listener for the process
    if _watching:
        return
    _watching = True
    from numba.core import event

    class Notice(event.Listener):
        told = False

        def on_start(self, event: Any) -> None:
            source = event.data["dispatcher"].py_func.__module__ or ""
            if not self.told and source.startswith(PACKAGE + ".") and not os.environ.get("POSABLE_QUIET"):
                self.told = True
                print("posable: compiling the engine for this machine, once (about a minute) ...", file=sys.stderr)

        def on_end(self, event: Any) -> None:
            pass

    event.register("numba:compile", Notice())
