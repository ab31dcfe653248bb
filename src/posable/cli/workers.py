"""Many files on a Dask cluster. Its workers read and write the files themselves: all see one file system."""

import logging
import os
import signal
import sys
import tempfile
import threading
import time
from argparse import Namespace
from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from itertools import islice
from multiprocessing import connection, get_context
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import posable as ps
from posable.cli import checkpoint
from posable.cli.checkpoint import NOT_REACHED, OK, FileResult, Job, Outcome, digest, failure

# --- How a worker does one file ---


def run_job(job: Job) -> Outcome:
    """Do one file, wherever this runs, and return what became of it: no fault of a file is a fault of its worker."""
    begin = time.perf_counter()
    try:
        checkpoint.discard(job)
        theirs = job.options.get("posable")
        if theirs != ps.__version__:
            raise ps.PosableError(f"expected a worker with posable {theirs}, got {ps.__version__}")
        content = digest(job.source)
        told, written = _work(job)
        status = NOT_REACHED if told.why else OK
        outcome = Outcome(
            job.file, status, told.why, told.frames, told.error, time.perf_counter() - begin, told.notes, content,
            job.options, written,
        )  # fmt: skip
        checkpoint.save(job, outcome)
    except Exception as error:  # whatever it is, it is this file's: the others go on
        return failure(job, _one_line(error, job), time.perf_counter() - begin)
    return outcome


def _work(job: Job) -> tuple[FileResult, dict[str, str]]:
    """Do the work in a folder of its own, then move what was written into place: nothing is ever half written."""
    home = job.result.parent
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".part-{job.run}-", dir=home) as name:
        part = Path(name)
        given = vars(job.args) | {
            "file": str(job.source), "out": str(part / job.result.name), "report": str(part / job.report.name),
        }  # fmt: skip
        told = job.work(Namespace(**given))
        made = sorted(part.iterdir())
        written = {path.name: digest(path) for path in made}
        for path in made:
            os.replace(path, home / path.name)
    return told, written


def _one_line(error: Exception, job: Job) -> str:
    text = " ".join(str(error).split()).replace(str(job.source), job.file)
    for end in (": ", " "):  # which file it is stands beside it already
        text = text.removeprefix(f"{job.file}{end}")
    if isinstance(error, ps.PosableError):
        return text
    if isinstance(error, MemoryError):
        return f"out of memory: it needs more than a worker may have{f' ({text})' if text else ''}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename in (None, str(job.source)) else f"{error.filename}: {error.strerror}"
    return f"{type(error).__name__}: {text}"


# --- Many files on one machine ---

SPAWN = get_context("spawn")  # forking a process that has threads is not safe
TRIES = 3  # a file whose worker dies is tried again twice
FILES_PER_PROCESS = 200  # files; then a new process takes over, so that nothing leaks for long
LEAST_MEMORY = 0.5e9  # [bytes] the compiler alone needs about that
# Two levels of parallel work would only get in each other's way, and threads in BLAS may change the last bits.
ONE_THREAD: dict[str, str] = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def share_of_memory(workers: int) -> int | None:
    """Return the memory [bytes] that each of so many workers may have of this machine's; None where it is unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // workers
    except (AttributeError, ValueError, OSError):
        return None


def run_pool(jobs: Sequence[Job], *, workers: int, memory: float | None) -> Generator[tuple[Job, Outcome]]:
    """Yield each job with its outcome, as they are done. memory [bytes]: of each worker, as `_limit_memory` bounds it.

    Ends its workers when it is closed or interrupted, in the middle of what they do: a file without an outcome has
    not been touched.
    """
    if memory is not None and memory < LEAST_MEMORY:
        raise ps.PosableError(f"--memory: expected at least {LEAST_MEMORY / 1e9:g} GB, got {memory / 1e9:g}")
    waiting, deaths = deque(jobs), Counter()
    crew: list[_Worker] = []
    try:
        while waiting or any(worker.job for worker in crew):
            for worker in [w for w in crew if w.job is None and w.done >= FILES_PER_PROCESS]:
                crew.remove(worker)
                worker.end()
            while len(crew) < min(workers, len(waiting) + len(crew)):
                crew.append(_Worker(memory))
            for worker in crew:
                if worker.job is None and waiting:
                    worker.begin(waiting.popleft())
            busy = {worker.pipe: worker for worker in crew if worker.job}
            ready = connection.wait(list(busy))
            for worker in [worker for pipe, worker in busy.items() if pipe in ready]:
                job: Any = worker.job
                try:
                    outcome = worker.answer()
                except (EOFError, OSError):  # it is dead
                    crew.remove(worker)
                    said = worker.end()
                    deaths[job.source] += 1
                    if deaths[job.source] < TRIES:
                        waiting.append(job)
                        continue
                    outcome = failure(job, f"its worker died {TRIES} times, at last by {said}")
                yield job, outcome
        for worker in crew:
            worker.end()
        crew.clear()
    finally:
        for worker in crew:
            worker.process.kill()
        for worker in crew:
            worker.process.join()


class _Worker:
    """A process, the pipe to it, the job it has and how many it has done."""

    def __init__(self, memory: float | None):
        self.pipe, there = SPAWN.Pipe()
        self.process = SPAWN.Process(target=_serve, args=(there, memory), daemon=True)
        with _worker_environment():
            self.process.start()
        there.close()  # the process's death is then the end of the pipe
        self.job: Job | None = None
        self.done = 0

    def begin(self, job: Job) -> None:
        """Give it a job. That it has died in the meantime is noticed where its answer is awaited."""
        self.job = job
        with suppress(OSError):
            self.pipe.send(job)

    def answer(self) -> Outcome:
        """Return what it has done; raises EOFError or OSError where it is dead."""
        outcome = self.pipe.recv()
        self.job, self.done = None, self.done + 1
        return outcome

    def end(self) -> str:
        """Let it go, and say how it ended."""
        with suppress(OSError):
            self.pipe.send(None)
        self.process.join(10)
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()
        self.pipe.close()
        code = self.process.exitcode or 0
        if code >= 0:
            return f"exit code {code}"
        killed = " (out of memory?)" if -code == getattr(signal, "SIGKILL", 9) else ""
        return f"signal {-code}{killed}"


@contextmanager
def _worker_environment() -> Iterator[None]:
    """What a worker inherits: one thread in BLAS, and deaf to Control-C, which is this process's to answer."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    main = threading.current_thread() is threading.main_thread()
    hearing = signal.signal(signal.SIGINT, signal.SIG_IGN) if main else None
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        if main:
            signal.signal(signal.SIGINT, hearing)


def _serve(pipe: connection.Connection, memory: float | None) -> None:
    """Be a worker: do jobs until there are no more, or nobody gives any."""
    _limit_memory(memory)
    with suppress(EOFError, OSError):
        while (job := pipe.recv()) is not None:
            pipe.send(run_job(job))


def _limit_memory(memory: float | None) -> None:
    """Let the process have so much memory [bytes] and no more: a file that needs more fails, the machine does not.

    The limit is on data, which the system counts when it is asked for, not on addresses, of which compilers reserve
    many more than they use. Only Linux keeps it; elsewhere nothing but the renewal of workers bounds them.
    """
    if memory is None:
        return
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (int(memory), resource.getrlimit(resource.RLIMIT_DATA)[1]))


# --- Many files on a Dask cluster ---

SCHEMES = ("tcp", "tls", "ucx", "ws", "wss")
CONNECT_TIMEOUT = 10.0  # [s]
FILES_PER_CORE = 2  # files under way for each core: one at work, one that waits beside it


def check(address: str) -> None:
    """Raise `PosableError` where the address is none, or where Dask is not installed."""
    try:
        parts = urlsplit(address)
        right = parts.scheme in SCHEMES and parts.hostname and parts.port
    except ValueError:  # a port that is no number
        right = False
    if not right:
        raise ps.PosableError(f"--scheduler: expected an address such as tcp://host:8786, got {address!r}")
    _dask()


def _dask() -> Any:
    try:
        import distributed
    except ImportError:
        raise ps.PosableError("--scheduler: expected Dask, found none; pip install 'posable[cluster]'") from None
    return distributed


def _silence_dask() -> None:
    """Keep Dask's tracebacks from the terminal: what goes wrong is said here, in one line."""
    for name in ("asyncio", "tornado", *logging.root.manager.loggerDict):
        if name.partition(".")[0] in ("asyncio", "tornado", "distributed"):  # Dask sets the level of each of its own
            logging.getLogger(name).setLevel(logging.CRITICAL)


def run_on_cluster(jobs: Sequence[Job], *, address: str) -> Generator[tuple[Job, Outcome]]:
    """Yield each job with its outcome, as they are done. What is under way is cancelled when it is closed.

    A dead worker's files are given to others by the scheduler, as often as its setting `allowed-failures` says (3).
    """
    if not jobs:
        return
    dask = _dask()
    _silence_dask()
    try:
        client = dask.Client(address, timeout=CONNECT_TIMEOUT)
    except (OSError, TimeoutError) as error:
        why = " ".join(str(error).split())
        raise ps.PosableError(f"--scheduler: expected a Dask scheduler at {address}, nobody answers ({why})") from None
    waiting, under_way = iter(jobs), {}
    with client:
        if not client.nthreads():
            print(f"{address} has no workers yet: waiting for them", file=sys.stderr, flush=True)
        done = dask.as_completed()
        try:
            while True:
                for job in islice(waiting, _room(client, len(under_way))):
                    future = client.submit(run_job, job, key=f"posable-{job.run}-{job.file}", pure=False)
                    under_way[future.key] = job
                    done.add(future)
                if not under_way:
                    return
                future = next(done)
                yield (job := under_way.pop(future.key)), _outcome(dask, future, job)
        except (OSError, CancelledError) as error:
            raise ps.PosableError(f"the scheduler at {address} has gone: {error}; call again to go on") from None


def _room(client: Any, under_way: int) -> int:
    """Return how many more files may be under way on the cores that the cluster has now."""
    return max(0, FILES_PER_CORE * max(1, sum(client.nthreads().values())) - under_way)


def _outcome(dask: Any, future: Any, job: Job) -> Outcome:
    """Return what became of a job; a fault here is the cluster's, for the job catches its own."""
    try:
        return future.result()
    except dask.KilledWorker as error:
        return failure(job, f"its workers died, the last of them {error.last_worker.address}")
    except (OSError, CancelledError):
        raise
    except Exception as error:  # a worker that cannot import posable, for one
        return failure(job, f"on the cluster: {type(error).__name__}: {error}")
