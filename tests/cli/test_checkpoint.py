import json
from dataclasses import replace

import pytest

from posable.cli import checkpoint as outcomes
from posable.cli.checkpoint import FAILED, NOT_REACHED, OK
from posable.cli.workers import do


def test_a_finished_job_is_known_again(strange, jobs):
    long, short = jobs(strange.fine, ["long enough", "short"])
    first, second = do(long), do(short)
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


@pytest.mark.parametrize("spoil", [spoil_source, spoil_result, lose_report, spoil_outcome])
def test_what_is_not_the_same_is_not_finished(strange, jobs, spoil):
    (job,) = jobs(strange.fine, ["long enough"])
    do(job)
    spoil(job)
    assert outcomes.finished(job) is None


def test_other_options_are_not_finished(strange, jobs):
    (job,) = jobs(strange.fine, ["long enough"])
    do(job)
    assert outcomes.finished(replace(job, options={**job.options, "a": [1, 3]})) is None


def test_a_job_that_fails_leaves_nothing_but_its_reason(strange, jobs):
    (job,) = jobs(strange.faulty, ["fine at first"])
    assert do(job).status == OK
    job.source.write_text("faulty")
    outcome = do(job)
    assert (outcome.status, outcome.why) == (FAILED, "ZeroDivisionError: of one file")
    assert not job.outcome.exists()
    assert not list(job.result.parent.glob(".*"))


def test_a_worker_with_another_version_refuses(strange, jobs):
    (job,) = jobs(strange.fine, ["long enough"])
    outcome = do(replace(job, options={**job.options, "posable": "99"}))
    assert outcome.status == FAILED
    assert "posable 99" in outcome.why


def test_unfinished_folders_are_swept(strange, jobs):
    (job,) = jobs(strange.fine, ["long enough"])
    for name in (".part-run1-abc", ".part-run2-abc"):
        (job.result.parent / name).mkdir(parents=True)
    outcomes.sweep([job])
    assert [path.name for path in job.result.parent.iterdir()] == [".part-run2-abc"]
