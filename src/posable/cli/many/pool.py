"""Many files on one machine: a process a core, each with one file at a time.

Each worker has its own pipe, so when one dies it is known which file it had: that file goes to another worker, the
others never notice. (concurrent.futures gives up all that is under way when one process dies.)
"""

import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import connection, get_context
from typing import Any

import posable as ps
from posable.cli.many.doing import do
from posable.cli.many.jobs import Job, Outcome, failure

SPAWN = get_context("spawn")  # forking a process that has threads is not safe
TRIES = 3  # a file whose worker dies is tried again twice
RENEWED_AFTER = 200  # files; then a new process takes over, so that nothing leaks for long
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


def run(jobs: Sequence[Job], *, workers: int, memory: float | None) -> Generator[tuple[Job, Outcome]]:
    """Yield each job with its outcome, as they are done. memory [bytes]: of each worker, as `_bound` bounds it.

    Ends its workers when it is closed or interrupted, in the middle of what they do: a file without an outcome has
    not been touched.
    """
    if memory is not None and memory < LEAST_MEMORY:
        raise ps.PosableError(f"--memory: expected at least {LEAST_MEMORY / 1e9:g} GB, got {memory / 1e9:g}")
    waiting, deaths = deque(jobs), Counter()
    crew: list[_Worker] = []
    try:
        while waiting or any(worker.job for worker in crew):
            for worker in [w for w in crew if w.job is None and w.done >= RENEWED_AFTER]:
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
        with _surroundings():
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
def _surroundings() -> Iterator[None]:
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
    _bound(memory)
    with suppress(EOFError, OSError):
        while (job := pipe.recv()) is not None:
            pipe.send(do(job))


def _bound(memory: float | None) -> None:
    """Let the process have so much memory [bytes] and no more: a file that needs more fails, the machine does not.

    The limit is on data, which the system counts when it is asked for, not on addresses, of which compilers reserve
    many more than they use. Only Linux keeps it; elsewhere nothing but the renewal of workers bounds them.
    """
    if memory is None:
        return
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (int(memory), resource.getrlimit(resource.RLIMIT_DATA)[1]))
