"""Decorators for the functions that Numba compiles, lazy compilation with a cache on disk, and threads for batches.

A kernel wraps a plain Python function. Numba sees the compiled function; Python code sees a callable that is compiled
(or loaded from the cache) on its first call, and Numba is not imported before that. Each entry is compiled as one
program with all the kernels that it calls (`numba_internals`). Where Numba's internals differ from the expected ones,
plain `njit` compiles the same kernels: slower to compile and to run, with the same results.

Environment variables, read when something is first compiled:

- `POSABLE_JIT`: "linked" (default); "plain": `njit` alone, public parts of Numba only; "python": nothing is compiled.
- `POSABLE_COMPILE`: "never" raises `CompilingForbidden` instead of compiling what is not in the cache.
- `POSABLE_CACHE`: the folder of compiled code; by default `posable` in the user's cache folder.
- `POSABLE_QUIET`: do not report on stderr what is compiled.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, update_wrapper
from pathlib import Path
from types import FunctionType
from typing import Any

MODES = ("linked", "plain", "python")
PACKAGE = __name__.partition(".")[0]
MAGIC = b"posable compiled code 2\n"
KERNELS_INSIDE = re.compile(rb"engine\.jit import (\([^)]*|[^\n]*)\b(entry|kernel|small|optional)\b")
MOST_THREADS = 256

# The compiler may only fuse multiply-adds, which preserves NaN, infinity and the order of sums.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}

_lock = threading.RLock()

_compiled: set[Callable[..., Any]] = set()  # functions of all kernels compiled or loaded so far
_forbidden: bool | None = None  # None: decided by the environment
_preparation = threading.local()  # seconds: [s] that this thread has spent on loading and compiling


class CompilingForbidden(RuntimeError):
    """A kernel is not in the compile cache, and compiling is forbidden."""


class kernel:
    """Decorator of a function that other kernels call: it is compiled together with its callers.

    Args:
        function: Plain scalar loops over the arrays that are passed in.

    Attributes:
        function: The undecorated function.
    """

    inlined = False
    feature: str | None = None  # only problems with this feature need the kernel: see `optional`
    otherwise: Any = None

    def __init__(self, function: Callable[..., Any]):
        self.function = function
        update_wrapper(self, function)
        self._compiled: Any = None
        self._linkable: Any = None

    def __call__(self, *arguments: Any) -> Any:
        """Run the compiled function."""
        return (self._compiled or self.compiled)(*arguments)

    @property
    def py_func(self) -> Callable[..., Any]:
        """The plain Python function, from which code for other targets (a GPU) is generated."""
        return self.function

    @property
    def compiled(self) -> Any:
        """The compiled function that Python code calls."""
        with _lock:
            if self._compiled is None:
                with _preparing():
                    self._compiled = _timed(_dispatcher(self))
            return self._compiled

    @property
    def _numba_type_(self) -> Any:
        """The Numba type of the kernel inside compiled code."""
        with _lock:
            if self._linkable is None:
                self._linkable = _linkable(self)
            return self._linkable._numba_type_


class small(kernel):
    """Decorator of a kernel that is always inlined: a call costs more than its work (an array is ten arguments)."""

    inlined = True


class entry(kernel):
    """Decorator of a kernel that Python code calls."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__(function)
        self._variants: dict[frozenset[str], entry] = {}

    def without(self, *features: str) -> entry:
        """Return this entry without the kernels of some features, so that problems without them compile faster."""
        left_out = frozenset(features)
        with _lock:
            if left_out not in self._variants:
                self._variants[left_out] = _without(self, left_out, {}) if left_out else self
            return self._variants[left_out]


class deferred(kernel):
    """A kernel that is defined in another module, which is imported when a caller is compiled.

    Args:
        function: Declaration with the same name, signature and docstring, without a body.
        home: Returns the module that defines it.
    """

    def __init__(self, function: Callable[..., Any], home: Callable[[], Any]):
        super().__init__(function)
        self._home = home

    @property
    def itself(self) -> kernel:
        """The kernel as its module defines it."""
        return getattr(self._home(), self.function.__name__)

    @property
    def py_func(self) -> Callable[..., Any]:
        """The plain Python function."""
        return self.itself.py_func

    @property
    def compiled(self) -> Any:
        """The compiled function that Python code calls."""
        return self.itself.compiled

    @property
    def _numba_type_(self) -> Any:
        return self.itself._numba_type_


def optional(
    feature: str, otherwise: Any = None, *, home: Callable[[], Any] | None = None
) -> Callable[[Callable[..., Any]], kernel]:
    """Return a decorator for a kernel that only problems with a given feature need.

    Args:
        feature: Its name, for `entry.without`.
        otherwise: The constant that replaces its result where it is left out.
        home: Returns the module that defines the kernel, if that is another one (`deferred`).
    """

    def mark(function: Callable[..., Any]) -> kernel:
        out = kernel(function) if home is None else deferred(function, home)
        out.feature, out.otherwise = feature, otherwise
        return out

    return mark


def _without(of: kernel, features: frozenset[str], copies: dict[kernel, kernel]) -> Any:
    """Return a copy of a kernel and its callees without some features, or the kernel itself if it uses none of them."""
    if of not in copies:
        if of.feature in features:
            code = of.function.__code__
            arguments = ", ".join(code.co_varnames[: code.co_argcount])
            text = f"def {code.co_name}({arguments}):\n    return {of.otherwise!r}\n"
            made: dict[str, Any] = {}
            exec(compile(text, code.co_filename, "exec"), made)
            copies[of] = kernel(made[code.co_name])
            return copies[of]
        if isinstance(of, deferred):
            copies[of] = _without(of.itself, features, copies)
            return copies[of]
        code, names = of.py_func.__code__, of.py_func.__globals__
        called = {name: names[name] for name in code.co_names if isinstance(names.get(name), kernel)}
        copied = {name: _without(one, features, copies) for name, one in called.items()}
        if all(copied[name] is one for name, one in called.items()):
            copies[of] = of
        else:
            name = "_without_".join((code.co_name, *sorted(features))).replace(" ", "_")
            copies[of] = type(of)(with_names(of.py_func, name, **copied))
    return copies[of]


def with_names(function: Callable[..., Any], name: str, **names: Any) -> Callable[..., Any]:
    """Return a copy of a plain function, under another name, in which some global names refer to other kernels.

    One loop can then serve many methods. If their kernels were arguments, Numba could not cache its machine code.
    """
    copy = FunctionType(function.__code__, {**function.__globals__, **names}, name)
    copy.__qualname__, copy.__doc__ = name, function.__doc__
    return copy


def as_python(of: kernel) -> Callable[..., Any]:
    """Return a kernel as a plain Python function that calls plain Python functions only, whatever the mode."""
    code, names = of.py_func.__code__, of.py_func.__globals__
    called = {name: as_python(names[name]) for name in code.co_names if isinstance(names.get(name), kernel)}
    return with_names(of.py_func, code.co_name, **called)


def plain(function: Any) -> Callable[..., Any]:
    """Return the Python function of a kernel."""
    return getattr(function, "py_func", function)


# --- Compiling ---


@cache
def mode() -> str:
    """Return how kernels are compiled, one of MODES."""
    wanted = os.environ.get("POSABLE_JIT") or "linked"
    if wanted not in MODES:
        raise ValueError(f"POSABLE_JIT: expected {', '.join(MODES)}, got {wanted!r}")
    if wanted == "linked":
        try:
            from posable.engine import numba_internals  # noqa: F401
        except (ImportError, AttributeError) as error:
            say(f"Numba's internals have changed ({error}): compiling with plain njit, which is slower")
            return "plain"
    return wanted


def _dispatcher(of: kernel) -> Any:
    """Return the dispatcher that Python code calls for a kernel."""
    if mode() == "python":
        return of.py_func
    _watch()
    _compiled.add(of.py_func)
    if mode() == "plain":
        return _plain_dispatcher(of)
    from posable.engine.numba_internals import entry_dispatcher

    return entry_dispatcher(of.py_func, OPTIONS, cache_folder(of.py_func), read_cached, write_cached)


def _linkable(of: kernel) -> Any:
    """Return the dispatcher that compiled code calls for a kernel."""
    if mode() != "linked":
        return _plain_dispatcher(of)
    from posable.engine.numba_internals import INTRINSICS, Intrinsic, kernel_dispatcher

    by_hand = INTRINSICS.get(f"{of.function.__module__}.{of.function.__name__}")
    return kernel_dispatcher(of.py_func, OPTIONS, of.inlined) if by_hand is None else Intrinsic(by_hand)


def _plain_dispatcher(of: kernel) -> Any:
    """Return a kernel compiled with Numba's public interface only; entries are cached."""
    import numba

    if not isinstance(of, entry):
        return numba.njit(**OPTIONS)(of.py_func)
    folder = cache_folder(of.py_func)
    before = numba.config.CACHE_DIR  # type: ignore[attr-defined]  # options of Numba are made at run time
    try:
        (folder / "plain").mkdir(parents=True, exist_ok=True)
        numba.config.CACHE_DIR = str(folder / "plain")  # type: ignore[attr-defined]  # as above
        return _healing(numba.njit(cache=True, **OPTIONS)(of.py_func), folder / "plain")
    except OSError as error:
        say(f"the compile cache {folder} cannot be written ({error.strerror}): compiling in every process")
        return numba.njit(**OPTIONS)(of.py_func)
    finally:
        numba.config.CACHE_DIR = before  # type: ignore[attr-defined]  # as above


def _healing(dispatcher: Any, folder: Path) -> Any:
    """Let a dispatcher with Numba's own cache continue when the disk is full or a cached file is damaged."""
    from numba.core.errors import NumbaError

    build = dispatcher.compile

    def compile_or_load(signature: Any) -> Any:
        for path in folder.rglob("*.nb[ic]"):
            _make_room(path)
        try:
            return build(signature)
        except (NumbaError, CompilingForbidden):
            raise
        except OSError as error:  # compiled, but not saved
            say(f"the compile cache {folder} cannot be written ({error.strerror}): compiling in every process")
        except Exception as error:
            say(f"a file of the compile cache {folder} is damaged ({error}): compiling again")
            for path in folder.rglob("*.nb[ic]"):
                path.unlink(missing_ok=True)
        return build(signature)

    dispatcher.compile = compile_or_load
    return dispatcher


def solving_time() -> float:
    """Return the time [s] of a clock that stops while this thread loads and compiles kernels."""
    return time.perf_counter() - getattr(_preparation, "seconds", 0.0)


@contextmanager
def _preparing() -> Iterator[None]:
    """Exclude the time of the `with` block from `solving_time`."""
    begin = solving_time()
    try:
        yield
    finally:
        _preparation.seconds = time.perf_counter() - begin


def _timed(dispatcher: Any) -> Any:
    """Exclude the loading and compiling of a dispatcher from `solving_time`."""
    build = getattr(dispatcher, "compile", None)
    if build is not None:

        def compile_or_load(signature: Any) -> Any:
            with _preparing():
                return build(signature)

        dispatcher.compile = compile_or_load
    return dispatcher


def machine_code(dispatcher: Any, arguments: tuple[Any, ...]) -> Any:
    """Return the compiled code of a dispatcher that was called with such arguments, to be called directly.

    A dispatcher looks up the type of each of its arguments, about thirty arrays for a solve, which takes 2 us. Later
    arguments must have the same types, dimensions and layouts. Where nothing is compiled it is the dispatcher itself.
    """
    overloads = getattr(dispatcher, "overloads", None)
    if not overloads:
        return dispatcher
    found = overloads.get(tuple(dispatcher.typeof_pyval(one) for one in arguments))
    return dispatcher if found is None else found.entry_point


def call_directly(loop: Any, arguments: tuple[Any, ...], known: dict[Any, Any], varying: tuple[Any, ...]) -> None:
    """Call a compiled loop, by its machine code from the third call on (see `machine_code`).

    Finding that code takes longer than many a solve, so it waits until a problem is solved again.

    Args:
        loop: The dispatcher.
        arguments: Its arguments, of the same types and dimensions in every call that shares `known`.
        known: Holds the machine code between calls.
        varying: Those of the arguments that may not be contiguous; then the dispatcher is called.
    """
    for one in varying:
        if not one.flags.c_contiguous:
            loop(*arguments)
            return
    code = known.get((loop, "code"))
    if code:
        code(*arguments)
    else:
        loop(*arguments)
        known[loop, "code"] = False if code is None else machine_code(loop, arguments)


def forbid_compiling(forbidden: bool = True) -> None:
    """Forbid compiling in this process: kernels missing from the cache raise CompilingForbidden.

    A control loop calls this after warming up, so that it never waits for the compiler.

    Args:
        forbidden: False allows compiling again.
    """
    global _forbidden  # noqa: PLW0603 - one switch for the process
    _forbidden = bool(forbidden)


def compiling_forbidden() -> bool:
    """Return whether compiling is forbidden, by `forbid_compiling` or by POSABLE_COMPILE=never."""
    return os.environ.get("POSABLE_COMPILE") == "never" if _forbidden is None else _forbidden


@cache
def _watch() -> None:
    """Report the first compilation, because a silent wait looks like a hang, or raise if compiling is forbidden."""
    from numba.core import event
    from numba.core.compiler_lock import global_compiler_lock

    _hold_in_forks(global_compiler_lock)  # a fork takes it before _lock, as a thread that compiles does

    class Watch(event.Listener):
        def on_start(self, event: Any) -> None:
            function = event.data["dispatcher"].py_func
            if function not in _compiled:  # compiled by other code
                return
            if compiling_forbidden():
                raise CompilingForbidden(
                    f"{function.__module__}.{function.__name__} is not in the compile cache for these arguments, and "
                    "compiling is forbidden: run `posable warm-up` (or posable.warm_up) first"
                )
            say("compiling a part of the engine that is not in the cache yet (less than a minute) ...")

        def on_end(self, event: Any) -> None:
            pass

    event.register("numba:compile", Watch())


def _hold_in_forks(lock: Any) -> None:
    """Let a fork wait for a lock: held by another thread, it would stay held in the forked process for ever."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


# --- Where compiled code is kept ---


def cache_folder(function: Callable[..., Any]) -> Path:
    """Return the folder of a function's compiled code, named after a digest of the source of all its kernels.

    The digest covers every file with kernels in the folders of those kernels, because Numba alone does not notice an
    edited callee. The folder need not exist or be writable.
    """
    digest = hashlib.sha256()
    for folder in sorted(_source_folders(function) | {Path(__file__).parent}):
        digest.update(_digest(folder))
    return cache_root() / digest.hexdigest()[:16]


def _source_folders(function: Callable[..., Any]) -> set[Path]:
    """Return the folders of the source files of a function and of every kernel that it calls."""
    seen, waiting = set(), [plain(function)]
    while waiting:
        now = waiting.pop()
        if now not in seen:
            seen.add(now)
            named = (now.__globals__.get(name) for name in now.__code__.co_names)
            waiting += [other.function for other in named if isinstance(other, kernel)]
    return {Path(one.__code__.co_filename).parent for one in seen}


@cache
def _digest(folder: Path) -> bytes:
    """Return a digest of the files with kernels in a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        text = path.read_bytes()
        if folder == Path(__file__).parent or KERNELS_INSIDE.search(text):
            digest.update(path.name.encode() + text)
    return digest.digest()


@cache
def say(line: str) -> None:
    """Print a line on stderr, but only the first time."""
    if not os.environ.get("POSABLE_QUIET"):
        print(f"{PACKAGE}: {line}", file=sys.stderr)


def cache_root() -> Path:
    """Return the folder of all compiled code."""
    given = os.environ.get("POSABLE_CACHE")
    if given:
        return Path(given).expanduser()
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / PACKAGE
    except RuntimeError:  # no home folder: return a path that cannot be created
        say("no home folder for the compile cache: set POSABLE_CACHE, or every process compiles again")
        return Path(os.devnull) / PACKAGE


def read_cached(path: Path, rebuild: Callable[[bytes], Any] = bytes) -> Any:
    """Return the cached content of a path, converted by `rebuild`; None if it is missing or damaged."""
    try:
        if not path.is_file():  # opening a pipe would wait for a writer
            return None
        content = path.read_bytes()
    except OSError:
        return None
    body = content[len(MAGIC) + 32 :]
    if content[: len(MAGIC) + 32] != _head(path, body):
        say(f"a file of the compile cache is damaged ({path}): compiling it again")
        return None
    try:
        return rebuild(body)
    except Exception as error:
        say(f"a file of the compile cache cannot be used ({path}: {error}): compiling it again")
        return None


def _head(path: Path, body: bytes) -> bytes:
    """Return what precedes the body of a cache file; the checksum covers the name: no file can replace another."""
    return MAGIC + hashlib.sha256(path.name.encode() + b"\n" + body).digest()


def write_cached(path: Path, body: bytes) -> None:
    """Write bytes to a cache file atomically; if that fails, say so once and continue."""
    scratch = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.stem, suffix=".part", delete=False) as file:
            scratch = Path(file.name)
            file.write(_head(path, body) + body)
        _make_room(path)
        scratch.replace(path)  # atomic: of two processes that compile at once, either may win
    except OSError as error:
        say(f"the compile cache {path.parent} cannot be written ({error.strerror}): compiling in every process")
        if scratch is not None:
            scratch.unlink(missing_ok=True)


def _make_room(path: Path) -> None:
    """Remove a pipe, or remove (if empty) or rename a folder, from the place of a cache file."""
    if path.is_file() or not path.exists():
        return
    done = "removed it"
    if not path.is_dir():  # opening a pipe would wait for a writer
        path.unlink()
    else:
        try:
            path.rmdir()
        except OSError:
            aside = path.with_suffix(f".folder-{os.getpid()}")
            path.rename(aside)
            done = f"renamed it to {aside}"
    say(f"no regular file in the place of a file of the compile cache ({path}): {done}")


# --- On every core ---


def thread_count(threads: int | None = None) -> int:
    """Return the number of threads to use: as requested, or one per core available to this process."""
    if threads is not None:
        return threads
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_chunks(
    work: Callable[[slice], None], count: int, size: int, threads: int | None = None, stopped: list[bool] | None = None
) -> None:
    """Call `work` on chunks of a batch, in parallel and in any order; Control-C stops after the current chunks.

    Args:
        work: Processes one chunk, in compiled code that releases the interpreter lock.
        count: Number of problems in the batch.
        size: Number of problems in a chunk.
        threads: Number of threads; by default one per core.
        stopped: If given, an element is appended when the other threads should stop, for chunks that take long.
    """
    stopped = [] if stopped is None else stopped
    chunks = [slice(first, min(first + size, count)) for first in range(0, count, size)]
    threads = min(thread_count(threads), len(chunks))
    if threads <= 1:
        for chunk in chunks:
            work(chunk)
        return
    queue = iter(chunks)  # next() is atomic; faster threads take more chunks
    prepared = getattr(_preparation, "seconds", 0.0)

    def take_all() -> None:
        _preparation.seconds = prepared  # deadlines are on the clock of the calling thread
        for chunk in queue:
            work(chunk)
            if stopped:
                return

    others = [_pool().submit(take_all) for _ in range(threads - 1)]
    try:
        take_all()
    except BaseException:
        stopped.append(True)
        raise
    finally:
        for other in others:
            if not other.cancel():  # a thread that has not started has nothing left to do
                other.exception()
    for other in others:
        if not other.cancelled():
            other.result()


@cache
def _pool() -> ThreadPoolExecutor:
    """Return the thread pool of this process; it is kept because starting threads takes milliseconds."""
    return ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="posable")


_hold_in_forks(_lock)
if hasattr(os, "register_at_fork"):  # threads do not survive a fork
    os.register_at_fork(after_in_child=_pool.cache_clear)
