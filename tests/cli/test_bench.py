"""`posable bench`: its tables, its JSON, its problems, and the verdict that it does not take from the solver."""

import json

import numpy as np
import pytest

import posable as ps
from posable.cli import bench
from posable.cli import main as cli
from posable.cli.bench import BODIES, problem_set


@pytest.fixture(scope="module")
def measured():
    shares = []
    out = bench.measure(2, shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    return out


def test_every_figure_and_solver_has_its_row(measured):
    assert [row["figure"] for row in measured["figures"]] == list(BODIES)
    assert {row["solver"] for row in measured["solvers"]} == set(ps.solvers.names())
    assert {row["solver"] for row in measured["solvers"] if row["goals"] == "positions"} == {"fabrik"}
    for row in measured["figures"]:
        assert row["reached"] == row["problems"] == 2
        assert 0.0 < row["median_ms"] <= row["p99_ms"]
        assert row["batch_per_s"] > 0.0


def test_nothing_names_the_machine_or_its_user(measured):
    assert set(measured["machine"]) == {"system", "cores", "python", "numpy", "posable"}


def test_the_text_shows_every_row(measured):
    text = bench.as_text(measured)
    for name in (*BODIES, *(row["solver"] for row in measured["solvers"])):
        assert f"\n{name} " in text
    assert max(map(len, text.splitlines())) <= 100


def test_json_and_exit_code(capsys, monkeypatch, measured):
    monkeypatch.setattr(bench, "measure", lambda count, progress: measured | {"count": count, "bar": progress})
    assert cli.main(["bench", "--json", "--count", "2"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert (out["count"], out["bar"]) == (2, None)
    missed = [measured["figures"][0] | {"reached": 1}]
    monkeypatch.setattr(bench, "measure", lambda count, progress: measured | {"figures": missed})
    assert cli.main(["bench"]) == 1
    assert "1/2" in capsys.readouterr().out


def test_a_wrong_count_is_refused(capsys):
    assert cli.main(["bench", "--count", "0"]) == 2
    assert "--count: expected at least 1" in capsys.readouterr().err


@pytest.mark.parametrize("figure", BODIES)
def test_problems_are_reachable_and_the_same_each_time(figure):
    first, again = problem_set(figure, 3), problem_set(figure, 3)
    assert all(np.array_equal(first.targets[body], again.targets[body]) for body in BODIES[figure])
    poses = ps.solve(first.skeleton, first.goals(), restarts=50).pose
    assert first.reached(poses).all()


def test_the_verdict_sees_a_miss_a_turn_and_a_broken_limit():
    problems = problem_set("limb", 1)
    pose = ps.solve(problems.skeleton, problems.goals(), solver="limb").pose
    assert problems.reached(pose).all()
    for change in (0.02 * np.eye(7)[0], 0.02 * np.eye(7)[6], np.full(7, np.nan)):
        assert not problems.reached(pose + change).any()
    tight = problems.skeleton.with_limits({"elbow": (pose[0, 3] + 0.1, pose[0, 3] + 0.2)})
    narrow = type(problems)(problems.figure, tight, problems.targets, problems.turns)
    assert not narrow.reached(pose).any()
