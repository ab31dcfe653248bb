import os
import sys
import time

import pytest

import posable as ps
from posable.cli import workers as pool
from posable.cli.checkpoint import FAILED, OK


def run(jobs, **options):
    return {job.file: outcome for job, outcome in pool.run_pool(jobs, **{"workers": 2, "memory": None} | options)}


def begun(tmp_path, name):
    return (tmp_path / "log" / name).read_text().split()


def test_every_file_is_done_once(strange, jobs, tmp_path):
    done = run(jobs(strange.fine, [f"text {k}" for k in range(7)]))
    assert [done[name].status for name in sorted(done)] == [OK] * 7
    assert [len(begun(tmp_path, name)) for name in sorted(done)] == [1] * 7
    assert (tmp_path / "out" / "06.res").read_text() == "TEXT 6"


@pytest.mark.skipif(os.name != "posix", reason="kills by a signal")
def test_a_dead_workers_file_is_done_by_another(strange, jobs, tmp_path):
    done = run(jobs(strange.deadly, ["a", "deadly once", "b", "deadly", "c"]))
    assert {name: outcome.status for name, outcome in done.items() if outcome.status != OK} == {"03.txt": FAILED}
    assert "died 3 times" in done["03.txt"].why
    assert "signal 9" in done["03.txt"].why
    assert len(set(begun(tmp_path, "01.txt"))) == 2
    assert len(set(begun(tmp_path, "03.txt"))) == 3
    assert not (tmp_path / "out" / "03.res").exists()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux keeps the limit")
def test_a_file_that_needs_too_much_memory_fails_alone(strange, jobs):
    done = run(jobs(strange.greedy, ["a", "greedy", "b"]), memory=2e9)
    assert [done[name].status for name in sorted(done)] == [OK, FAILED, OK]
    assert "out of memory" in done["01.txt"].why


def test_too_little_memory_is_refused(strange, jobs):
    with pytest.raises(ps.PosableError, match="at least"):
        run(jobs(strange.fine, ["a"]), memory=1e6)


def test_workers_are_renewed(strange, jobs, tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "FILES_PER_PROCESS", 2)
    done = run(jobs(strange.fine, list("abcde")), workers=1)
    workers = [begun(tmp_path, name)[0] for name in sorted(done)]
    assert len(set(workers)) == 3
    assert workers[0] == workers[1] != workers[2] == workers[3] != workers[4]


def test_closing_ends_the_workers(strange, jobs):
    import multiprocessing

    going = pool.run_pool(jobs(strange.fine, list("abcdef")), workers=2, memory=None)
    next(going)
    going.close()
    for _ in range(200):
        if not multiprocessing.active_children():
            break
        time.sleep(0.05)
    assert not multiprocessing.active_children()
