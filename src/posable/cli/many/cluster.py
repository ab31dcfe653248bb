"""Many files on a Dask cluster. Its workers read and write the files themselves: all see one file system."""

import logging
import sys
from collections.abc import Generator, Sequence
from concurrent.futures import CancelledError
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

import posable as ps
from posable.cli.many.doing import do
from posable.cli.many.jobs import Job, Outcome, failure

SCHEMES = ("tcp", "tls", "ucx", "ws", "wss")
ANSWERS_WITHIN = 10.0  # [s]
A_CORE = 2  # files under way for each core: one at work, one that waits beside it


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


def run(jobs: Sequence[Job], *, address: str) -> Generator[tuple[Job, Outcome]]:
    """Yield each job with its outcome, as they are done. What is under way is cancelled when it is closed.

    A dead worker's files are given to others by the scheduler, as often as its setting `allowed-failures` says (3).
    """
    if not jobs:
        return
    dask = _dask()
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what goes wrong is said here, in one line
    try:
        client = dask.Client(address, timeout=ANSWERS_WITHIN)
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
                    future = client.submit(do, job, key=f"posable-{job.run}-{job.file}", pure=False)
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
    return max(0, A_CORE * max(1, sum(client.nthreads().values())) - under_way)


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
