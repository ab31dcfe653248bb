"""Workers for many files: processes on this machine, or a Dask cluster with a shared file system."""

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

# --- One file ---


def run_job(job: Job) -> Outcome:
    """Process one file and return its outcome. Errors belong to the file: they never end the worker."""
    begin = time.perf_counter()
    try:
        checkpoint.discard(job)
        theirs = job.options.get("posable")
        if theirs != ps.__version__:
            raise ps.PosableError(f"expected a worker with posable {theirs}, got {ps.__version__}")
        content = digest(job.source)
        result, written = _work(job)
        status = NOT_REACHED if result.why else OK
        outcome = Outcome(
            job.file, status, result.why, result.frames, result.error, time.perf_counter() - begin, result.notes,
            content, job.options, written,
        )  # fmt: skip
        checkpoint.save(job, outcome)
    except Exception as error:  # of any kind: the other files continue
        return failure(job, _one_line(error, job), time.perf_counter() - begin)
    return outcome


def _work(job: Job) -> tuple[FileResult, dict[str, str]]:
    """Process the file in a temporary folder, then move the results into place, so that none is ever incomplete."""
    home = job.result.parent
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".part-{job.run}-", dir=home) as name:
        part = Path(name)
        given = vars(job.args) | {
            "file": str(job.source), "out": str(part / job.result.name), "report": str(part / job.report.name),
        }  # fmt: skip
        result = job.work(Namespace(**given))
        made = sorted(part.iterdir())
        written = {path.name: digest(path) for path in made}
        for path in made:
            os.replace(path, home / path.name)
    return result, written


def _one_line(error: Exception, job: Job) -> str:
    text = " ".join(str(error).split()).replace(str(job.source), job.file)
    for end in (": ", " "):  # the summary names the file
        text = text.removeprefix(f"{job.file}{end}")
    if isinstance(error, ps.PosableError):
        return text
    if isinstance(error, MemoryError):
        return f"out of memory: it exceeds the limit of a worker{f' ({text})' if text else ''}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename in (None, str(job.source)) else f"{error.filename}: {error.strerror}"
    return f"{type(error).__name__}: {text}"


# --- Processes on this machine ---

SPAWN = get_context("spawn")  # forking a process with threads is not safe
TRIES = 3  # attempts at a file whose worker dies
FILES_PER_PROCESS = 200  # then a new process replaces the worker, which bounds leaks
LEAST_MEMORY = 0.5e9  # [bytes] about what the compiler needs
# Nested parallelism would only cost time, and threads in BLAS may change the last bits of results.
ONE_THREAD: dict[str, str] = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def cores() -> int:
    """Return the number of cores available to this process."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def share_of_memory(workers: int) -> int | None:
    """Return the memory [bytes] per worker if all share this machine equally; None if unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // workers
    except (AttributeError, ValueError, OSError):
        return None


def run_pool(jobs: Sequence[Job], *, workers: int, memory: float | None) -> Generator[tuple[Job, Outcome]]:
    """Yield each job with its outcome, in order of completion.

    When the generator is closed or interrupted, the workers are terminated; files without an outcome are untouched.

    Args:
        jobs: The files.
        workers: Number of processes.
        memory: [bytes] Limit of each process; None: unlimited.
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
                except (EOFError, OSError):  # the worker died
                    crew.remove(worker)
                    said = worker.end()
                    deaths[job.source] += 1
                    if deaths[job.source] < TRIES:
                        waiting.append(job)
                        continue
                    outcome = failure(job, f"its worker died {TRIES} times, last with {said}")
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
    """A worker process, the pipe to it, its present job and the number of jobs it has completed."""

    def __init__(self, memory: float | None):
        self.pipe, there = SPAWN.Pipe()
        self.process = SPAWN.Process(target=_serve, args=(there, memory), daemon=True)
        with _worker_environment():
            self.process.start()
        there.close()  # so that the pipe ends when the process dies
        self.job: Job | None = None
        self.done = 0

    def begin(self, job: Job) -> None:
        """Send a job. A worker that has died in the meantime is detected when its answer is read."""
        self.job = job
        with suppress(OSError):
            self.pipe.send(job)

    def answer(self) -> Outcome:
        """Return the outcome of its job.

        Raises:
            EOFError: The worker died. So does OSError.
        """
        outcome = self.pipe.recv()
        self.job, self.done = None, self.done + 1
        return outcome

    def end(self) -> str:
        """Stop the worker and return how it ended."""
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
    """Set what workers inherit: one BLAS thread, and Ctrl-C ignored, which this process handles."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    main = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN) if main else None
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
            signal.signal(signal.SIGINT, handler)


def _serve(pipe: connection.Connection, memory: float | None) -> None:
    """Run in a worker: process jobs until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Windows does not pass it on
    _limit_memory(memory)
    with suppress(EOFError, OSError):
        while (job := pipe.recv()) is not None:
            pipe.send(run_job(job))


def _limit_memory(memory: float | None) -> None:
    """Limit the memory [bytes] of this process, so that a file that needs more fails and the machine does not.

    The limit is on data, counted when it is allocated, and not on addresses, of which compilers reserve many more than
    they use. Only Linux enforces it; elsewhere only the replacement of workers bounds memory.
    """
    if memory is None:
        return
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (int(memory), resource.getrlimit(resource.RLIMIT_DATA)[1]))


# --- A Dask cluster ---

SCHEMES = ("tcp", "tls", "ucx", "ws", "wss")
CONNECT_TIMEOUT = 10.0  # [s]
FILES_PER_CORE = 2  # one in progress and one waiting


def check(address: str) -> None:
    """Raise a PosableError if the address is invalid or Dask is not installed."""
    try:
        parts = urlsplit(address)
        right = parts.scheme in SCHEMES and parts.hostname and parts.port
    except ValueError:  # the port is not a number
        right = False
    if not right:
        raise ps.PosableError(f"--scheduler: expected an address such as tcp://host:8786, got {address!r}")
    _dask()


def _dask() -> Any:
    try:
        import distributed
    except ImportError:
        raise ps.PosableError("--scheduler: needs Dask: pip install 'posable[cluster]'") from None
    return distributed


def _silence_dask() -> None:
    """Silence Dask's tracebacks on the terminal: errors are reported here, in one line each."""
    for name in ("asyncio", "tornado", *logging.root.manager.loggerDict):
        if name.partition(".")[0] in ("asyncio", "tornado", "distributed"):  # Dask sets the level of each logger
            logging.getLogger(name).setLevel(logging.CRITICAL)


def run_on_cluster(jobs: Sequence[Job], *, address: str) -> Generator[tuple[Job, Outcome]]:
    """Yield each job with its outcome, in order of completion. Closing the generator cancels the jobs in progress.

    The scheduler reassigns the files of a dead worker, up to `allowed-failures` times (3).
    """
    if not jobs:
        return
    dask = _dask()
    _silence_dask()
    try:
        client = dask.Client(address, timeout=CONNECT_TIMEOUT)
    except (OSError, TimeoutError) as error:
        why = " ".join(str(error).split())
        raise ps.PosableError(f"--scheduler: no Dask scheduler answers at {address} ({why})") from None
    waiting, under_way = iter(jobs), {}
    with client:
        if not client.nthreads():
            print(f"{address} has no workers yet; waiting for them", file=sys.stderr, flush=True)
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
            raise ps.PosableError(
                f"lost the scheduler at {address}: {error}; run the command again to continue"
            ) from None


def _room(client: Any, under_way: int) -> int:
    """Return how many more files may be submitted, given the cores of the cluster."""
    return max(0, FILES_PER_CORE * max(1, sum(client.nthreads().values())) - under_way)


def _outcome(dask: Any, future: Any, job: Job) -> Outcome:
    """Return the outcome of a job. An error here is the cluster's: jobs catch their own."""
    try:
        return future.result()
    except dask.KilledWorker as error:
        return failure(job, f"its workers died, the last at {error.last_worker.address}")
    except (OSError, CancelledError):
        raise
    except Exception as error:  # for example a worker that cannot import posable
        return failure(job, f"on the cluster: {type(error).__name__}: {error}")
