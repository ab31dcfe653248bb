import json
import os
import platform
import subprocess
import sys
from dataclasses import replace

import pytest

from posable.cli import checkpoint as outcomes
from posable.cli.checkpoint import FAILED, NOT_REACHED, OK
from posable.cli.workers import run_job

posix = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX: named pipes")


def test_a_finished_job_is_known_again(strange, jobs):
    long, short = jobs(strange.fine, ["long enough", "short"])
    first, second = run_job(long), run_job(short)
    assert (first.status, first.frames, first.error) == (OK, 11, 0.5)
    assert (second.status, second.why) == (NOT_REACHED, "too short")
    assert long.result.read_text() == "LONG ENOUGH"
    assert outcomes.finished(long).frames == 11
    assert outcomes.finished(short).status == NOT_REACHED
    kept = json.loads(long.outcome.read_text())
    assert kept["options"]["a"] == [1, 2]
    assert len(kept["sha256"]) == 64
    assert sorted(path.name for path in long.result.parent.iterdir()) == [
        "00.outcome.json", "00.rep", "00.res", "01.outcome.json", "01.rep", "01.res",
    ]  # fmt: skip


def spoil_source(job):
    job.source.write_text("LONG enough")


def spoil_result(job):
    job.result.write_text("LONG")


def lose_report(job):
    job.report.unlink()


def spoil_outcome(job):
    job.outcome.write_text(job.outcome.read_text()[:100])


def spoil_result_at_equal_size(job):
    job.result.write_text("LONG ENOUGx")


def replace_by_pipe(path):
    path.unlink()
    os.mkfifo(path)


def make_outcome_a_pipe(job):
    replace_by_pipe(job.outcome)


def make_result_a_pipe(job):
    replace_by_pipe(job.result)


def forget_results(job):
    kept = json.loads(job.outcome.read_text())
    job.outcome.write_text(json.dumps(kept | {"written": {}}))


@pytest.mark.parametrize(
    "spoil",
    [
        spoil_source, spoil_result, lose_report, spoil_outcome, spoil_result_at_equal_size, forget_results,
        pytest.param(make_outcome_a_pipe, marks=posix), pytest.param(make_result_a_pipe, marks=posix),
    ],
)  # fmt: skip
def test_what_is_not_the_same_is_not_finished(strange, jobs, spoil):
    (job,) = jobs(strange.fine, ["long enough"])
    run_job(job)
    spoil(job)
    assert outcomes.finished(job) is None
    assert run_job(job).status == OK
    assert outcomes.finished(job)


def test_other_options_are_not_finished(strange, jobs):
    (job,) = jobs(strange.fine, ["long enough"])
    run_job(job)
    assert outcomes.finished(replace(job, options={**job.options, "a": [1, 3]})) is None


def test_a_job_that_fails_leaves_nothing_but_its_reason(strange, jobs):
    (job,) = jobs(strange.faulty, ["fine at first"])
    assert run_job(job).status == OK
    job.source.write_text("faulty")
    outcome = run_job(job)
    assert (outcome.status, outcome.why) == (FAILED, "ZeroDivisionError: of one file")
    assert not job.outcome.exists()
    assert not list(job.result.parent.glob(".*"))


def test_a_worker_with_another_version_refuses(strange, jobs):
    (job,) = jobs(strange.fine, ["long enough"])
    outcome = run_job(replace(job, options={**job.options, "posable": "99"}))
    assert outcome.status == FAILED
    assert "posable 99" in outcome.why


WRONG = {
    "status": [5, None, "failed", ["ok"]], "why": [5, None], "frames": ["x", None, 1.5, [1], True], "error": ["x", [1]],
    "seconds": ["x", None], "notes": [5, None, [5]], "sha256": [5, None], "options": [5, None, []],
    "written": [5, None, ["00.res"], {"../00.res": "x"}, {"00.res": 11}, {"00.res": None}], "file": [],
}  # fmt: skip


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in WRONG.items() for value in values])
def test_an_outcome_of_wrong_types_is_not_finished(strange, jobs, key, value):
    (job,) = jobs(strange.fine, ["long enough"])
    run_job(job)
    kept = json.loads(job.outcome.read_text())
    job.outcome.write_text(json.dumps(kept | {key: value}))
    assert outcomes.finished(job) is None


@pytest.mark.parametrize("text", ["5", "[]", "null", '"ok"', "{}", '{"a": 1}', "[" * 100_000, "\x00", ""])
def test_an_invalid_outcome_is_not_finished(strange, jobs, text):
    (job,) = jobs(strange.fine, ["long enough"])
    run_job(job)
    job.outcome.write_text(text)
    assert outcomes.finished(job) is None


@pytest.mark.skipif(os.name != "posix", reason="asks the system for processes by their number")
def test_folders_of_runs_that_have_ended_are_swept(strange, jobs):
    (job,) = jobs(strange.fine, ["long enough"])
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    host, home = platform.node(), job.result.parent
    names = [f".part-{host}.{ended.pid}.0123abcd-x", f".part-{host}.{os.getpid()}.0123abcd-x", ".part-elsewhere.1.ab-x"]
    for name in (*names, ".part-old-x"):
        (home / name).mkdir(parents=True)
    (home / ".posable-0123.part").write_text("half")
    for name in (".part-old-x", ".posable-0123.part"):
        os.utime(home / name, (1e9, 1e9))
    outcomes.sweep([job])
    assert sorted(path.name for path in home.iterdir()) == sorted(names[1:])
    assert outcomes.run_name().split(".")[-2] == str(os.getpid())


def test_unfinished_folders_are_swept(strange, jobs):
    (job,) = jobs(strange.fine, ["long enough"])
    for name in (".part-run1-abc", ".part-run2-abc"):
        (job.result.parent / name).mkdir(parents=True)
    outcomes.sweep([job])
    assert [path.name for path in job.result.parent.iterdir()] == [".part-run2-abc"]
