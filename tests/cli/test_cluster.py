"""A real cluster of processes on this machine; one of its workers is killed in the middle of thirty clips."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

import posable as ps
from posable.cli import workers as cluster
from posable.cli.main import main

CALL = ["--figure", "human", "--as-is"]


@pytest.mark.parametrize("address", ["nonsense", "tcp://", "tcp://host", "http://host:8786", "tcp://host:port"])
def test_a_wrong_address_is_refused(address):
    with pytest.raises(ps.PosableError, match=r"tcp://host:8786, got"):
        cluster.check(address)


def test_without_dask_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ps.PosableError, match=r"posable\[cluster\]"):
        cluster.check("tcp://127.0.0.1:8786")


def test_a_scheduler_that_does_not_answer(clips, tmp_path, capsys, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(cluster, "CONNECT_TIMEOUT", 0.5)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    out = tmp_path / "out"
    assert main(["track", f"{clips}/*.c3d", *CALL, "-o", str(out), "--scheduler", address]) == 2
    assert f"no Dask scheduler answers at {address}" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.skipif(os.name != "posix", reason="kills by a signal")
def test_a_killed_workers_clips_are_done_by_others_with_the_same_bits(clips, tmp_path, capsys):
    distributed = pytest.importorskip("distributed")
    alone, out = tmp_path / "alone", tmp_path / "cluster"
    assert main(["track", f"{clips}/*.c3d", *CALL, "-o", str(alone), "--workers", "1", "--format", "npz"]) == 0
    capsys.readouterr()
    with distributed.LocalCluster(
        n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as local:
        killed = []
        killer = threading.Thread(target=_kill_one, args=(local, out, killed))
        killer.start()
        words = ["-o", str(out), "--format", "npz", "--scheduler", local.scheduler_address, "--json"]
        code = main(["track", f"{clips}/*.c3d", *CALL, *words])
        killer.join()
    said = json.loads(capsys.readouterr().out)
    assert code == 0, [row for row in said["rows"] if row["status"] != "ok"]
    assert said["ok"] == 30
    ((pid, had, done),) = killed
    assert had > 0, "the worker that was killed had nothing to do"
    assert 0 < done < 30
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    for k in range(30):
        name = f"clip{k:02d}.npz"
        assert (out / name).read_bytes() == (alone / name).read_bytes(), name
    assert not list(out.glob(".part-*"))


def test_a_dead_scheduler_is_one_line(clips, tmp_path):
    pytest.importorskip("distributed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    address, out, started = f"tcp://127.0.0.1:{port}", tmp_path / "out", []

    def start(module, *words, **streams):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} | streams
        started.append(subprocess.Popen([sys.executable, "-m", module, *words], text=True, **quiet))
        return started[-1]

    try:
        scheduler = start("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard")
        start("distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard", "--no-nanny")
        words = ["track", f"{clips}/*.c3d", *CALL, "-o", str(out), "--scheduler", address]
        verb = start("posable", *words, stderr=subprocess.PIPE)
        for _ in range(600):
            if list(out.glob("*.outcome.json")) or verb.poll() is not None:
                break
            time.sleep(0.05)
        scheduler.kill()
        said = verb.communicate(timeout=60)[1]
    finally:
        for process in started:
            process.kill()
            process.wait()
    lines = [line for line in said.splitlines() if not line.endswith("waiting for them")]
    assert len(lines) == 1, said
    assert f"lost the scheduler at {address}" in lines[0]
    assert "Traceback" not in said
    assert verb.returncode == 2
    kept = json.loads((out / "summary.json").read_text())
    assert kept["stopped"]
    assert 0 < kept["ok"] < 30


def _kill_one(local, out, killed):
    """Kill a worker that has clips to do once some are done; note its process, how many it had, how many were done."""
    while True:
        done = len(list(out.glob("*.outcome.json")))
        for worker in list(local.scheduler.workers.values()):
            if done >= 4 and worker.processing:
                had, pid = len(worker.processing), worker.nanny and local.workers[worker.name].pid
                os.kill(pid, signal.SIGKILL)
                killed.append((pid, had, done))
                return
        time.sleep(0.005)
