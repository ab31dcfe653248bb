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
from functools import cache, update_wrapper
from pathlib import Path
from types import FunctionType
from typing import Any

PACKAGE = __name__.partition(".")[0]

# Fused multiply-add is the one liberty the compiler may take: it keeps NaN, infinity and the order of sums.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}, "_nrt": False}

# Only entries are called from Python: the code to unpack the arguments would be most of what a kernel compiles to.
UNWRAPPED: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "no_rewrites": True}

_small: set[Callable[..., Any]] = set()
_copies: list[dict[str, Any]] = []  # the names that copies of functions see
_registered: dict[Any, Any] = {}  # plain function or entry -> dispatcher (None until activated)
_lock = threading.RLock()
_active = False


def kernel(function: Callable[..., Any]) -> Any:
    """Mark a plain function as a kernel: callable from other kernels, compiled with them."""
    with _lock:
        _registered[function] = _compile(function) if _active else None
        return _registered[function] or function


def small(function: Callable[..., Any]) -> Any:
    """Mark a kernel whose call would cost more than its work (an array is ten arguments): it goes into its callers."""
    _small.add(function)
    return kernel(function)


def with_names(function: Callable[..., Any], name: str, **names: Any) -> Callable[..., Any]:
    """Return a copy of a plain function, under a name of its own, in which other names stand for other kernels.

    One loop then serves many methods. Were their kernels its arguments, Numba would not keep its machine code.
    """
    with _lock:
        seen = {**function.__globals__, **names}
        if _active:
            _rebind(seen)
        else:
            _copies.append(seen)
    copy = FunctionType(function.__code__, seen, name)
    copy.__qualname__, copy.__doc__ = name, function.__doc__
    return copy


class entry:
    """Mark a kernel that Python code calls: the first call compiles, or loads, everything it needs."""

    def __init__(self, function: Callable[..., Any]):
        self.py_func = function
        update_wrapper(self, function)
        with _lock:
            self._dispatcher = _compile(function, entered=True) if _active else None
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
            _registered[function] = _compile(plain(function), entered=isinstance(function, entry))
        homes = {plain(function).__module__ for function in _registered}  # a user's own kernels live elsewhere
        for name, module in list(sys.modules.items()):
            if name in homes or name == PACKAGE or name.startswith(PACKAGE + "."):
                _rebind(vars(module))
        for names in _copies:
            _rebind(names)
        _active = True


def _rebind(names: dict[str, Any]) -> None:
    for name, value in list(names.items()):
        if callable(value) and getattr(value, "__hash__", None) is not None:
            dispatcher = _registered.get(value)
            if dispatcher is not None:
                names[name] = dispatcher


def _compile(function: Callable[..., Any], *, entered: bool = False) -> Any:
    """Return the dispatcher of an entry, or of a kernel, which compiled code alone calls."""
    import numba
    from numba.core import config  # its options are made at run time: no type checker knows them

    from posable.engine.linking import EntryCompiler, KernelCompiler

    _watch()
    options: dict[str, Any] = OPTIONS | {"forceinline": function in _small}
    if not entered:
        return _as_kernel(numba.njit(pipeline_class=KernelCompiler, **options, **UNWRAPPED)(function))
    before = getattr(config, "CACHE_DIR")  # noqa: B009
    setattr(config, "CACHE_DIR", str(cache_folder(function)))  # noqa: B010
    try:
        return _once_per_type(numba.njit(cache=True, pipeline_class=EntryCompiler, **options)(function))
    finally:
        setattr(config, "CACHE_DIR", before)  # noqa: B010


def _as_kernel(dispatcher: Any) -> Any:
    """Let a kernel that Python calls after all (a test, a notebook) be compiled as an entry, there and then."""

    @cache
    def entered() -> Any:
        return _compile(dispatcher.py_func, entered=True)

    def compile_for_python(*arguments: Any, **named: Any) -> Any:
        return entered()._compile_for_args(*arguments, **named)

    dispatcher._insert = lambda *compiled, **named: None  # a kernel has no machine code to remember
    dispatcher._compile_for_args = compile_for_python
    return _once_per_type(dispatcher)


def _once_per_type(dispatcher: Any) -> Any:
    """Keep Numba from compiling a kernel anew for every constant that some caller passes to it."""
    from numba.core.types import unliteral

    resolve = dispatcher.get_call_template

    def get_call_template(args: Any, kws: Any) -> Any:
        return resolve(tuple(unliteral(a) for a in args), {name: unliteral(a) for name, a in kws.items()})

    dispatcher.get_call_template = get_call_template
    return dispatcher


def cache_folder(function: Callable[..., Any]) -> Path:
    """Return the folder of an entry's compiled code, named by its source: Numba alone would not see an edited callee.

    The name stands for every file with kernels in the rooms of the package that the entry's kernels come from.
    """
    digest = hashlib.sha256()
    for room in sorted(_rooms(function) | {Path(__file__).parent}):
        digest.update(_digest(room))
    base = os.environ.get("POSABLE_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / PACKAGE
    return _writable(Path(base).expanduser() / digest.hexdigest()[:16])


def _rooms(function: Callable[..., Any]) -> set[Path]:
    """Return the folders of the source files of a kernel and of every kernel under it."""
    known = {plain(registered) for registered in _registered}
    seen, waiting = set(), [function]
    while waiting:
        now = waiting.pop()
        if now not in seen:
            seen.add(now)
            named = (plain(now.__globals__.get(name)) for name in now.__code__.co_names)
            waiting += [other for other in named if getattr(other, "__hash__", None) is not None and other in known]
    return {Path(kernel.__code__.co_filename).parent for kernel in seen}


@cache
def _digest(room: Path) -> bytes:
    """Return a digest of the files of a folder that hold kernels."""
    digest = hashlib.sha256()
    for path in sorted(room.glob("*.py")):
        text = path.read_bytes()
        if room == Path(__file__).parent or b"engine.jit" in text:
            digest.update(path.name.encode() + text)
    return digest.digest()


@cache
def _writable(folder: Path) -> Path:
    """Return a folder, made where it is missing, or one that lasts as long as the process where it cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError:
        return Path(tempfile.mkdtemp(prefix=PACKAGE + "-"))
    return folder


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
                print(
                    "posable: compiling this part of the engine, once (less than a minute) ...",
                    file=sys.stderr,
                )

        def on_end(self, event: Any) -> None:
            pass

    event.register("numba:compile", Notice())
