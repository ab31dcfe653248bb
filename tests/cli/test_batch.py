"""The verbs with many files, from command line to summary."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

import posable as ps
from posable.cli.main import main


@pytest.fixture
def few(clips, tmp_path, monkeypatch):
    """Three good clips and a bad one, in a folder that we stand in."""
    (tmp_path / "clips").mkdir()
    for k in range(3):
        (tmp_path / "clips" / f"{k}.c3d").write_bytes((clips / f"clip{k:02d}.c3d").read_bytes())
    (tmp_path / "clips" / "bad.c3d").write_bytes(b"nothing of a recording")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def track(*words):
    return main(["track", "clips/*.c3d", "--figure", "human", "--as-is", *words])


def test_one_bad_file_is_reported_and_the_rest_goes_on(few, capsys):
    assert track("-o", "out", "--format", "csv", "--workers", "2", "--json") == 2
    captured = capsys.readouterr()
    said = json.loads(captured.out)
    assert said == json.loads((few / "out" / "summary.json").read_text())
    assert (said["files"], said["ok"], said["failed"], said["skipped"]) == (4, 3, 1, 0)
    assert said["frames"] == 180
    rows = {row["file"]: row for row in said["rows"]}
    assert rows["clips/bad.c3d"]["status"] == "failed"
    assert "header" in rows["clips/bad.c3d"]["why"]
    assert rows["clips/1.c3d"]["error"] < 0.005
    assert rows["clips/1.c3d"]["result"] == "1.csv"
    assert "clips/bad.c3d: failed" in captured.err
    table = (few / "out" / "summary.md").read_text()
    assert "| [clips/1.c3d](<1.html>) | 60 |" in table
    assert "| clips/bad.c3d |" in table
    assert {path.name for path in (few / "out").iterdir()} == {
        "summary.json", "summary.md", *(f"{k}.{end}" for k in range(3) for end in ("csv", "html", "outcome.json")),
    }  # fmt: skip

    # the same call again does nothing but the bad one, another option does all
    before = (few / "out" / "0.csv").stat().st_mtime_ns
    assert track("-o", "out", "--format", "csv") == 2
    assert "skipped 3 completed by an earlier run" in capsys.readouterr().out
    assert (few / "out" / "0.csv").stat().st_mtime_ns == before
    (few / "clips" / "bad.c3d").unlink()
    assert track("-o", "out", "--format", "csv", "--no-limits", "--json") == 0
    assert json.loads(capsys.readouterr().out)["skipped"] == 0
    assert track("-o", "out", "--format", "csv", "--no-limits", "--again", "--json") == 0
    assert json.loads(capsys.readouterr().out)["skipped"] == 0


def test_one_file_is_as_ever(few, capsys):
    assert main(["track", "clips/0.c3d", "--figure", "human", "--as-is", "-o", "take.csv"]) == 0
    assert "60 frames" in capsys.readouterr().out
    assert {path.name for path in few.iterdir()} == {"clips", "take.csv"}
    assert main(["track", "clips/0.c3d", "--figure", "human", "--as-is", "-o", "take"]) == 2
    assert "suffix" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "expected an output folder"),
        (("-o", "clips/0.c3d"), "expected an output folder"),
        (("-o", "out", "--report", "r.html"), "--report"),
        (("-o", "out", "--threads", "2"), "--workers"),
        (("-o", "out", "--workers", "0"), "at least 1"),
        (("-o", "out", "--memory", "0.1"), "at least 0.5 GB"),
        (("-o", "out", "--attach", "nonsense"), "MARKER=JOINT"),
        (("-o", "out", "--scheduler", "nonsense"), "tcp://host:8786"),
    ],
)
def test_wrong_calls(few, capsys, words, said):
    assert track(*words) == 2
    assert said in capsys.readouterr().err
    assert not (few / "out").exists()


def test_retarget_smooth_and_solve_take_many(few, capsys):
    ps.save("walk.bvh", _motion())
    ps.save("run.bvh", _motion(0.1))
    assert main(["retarget", "walk.bvh", "run.bvh", "--to", "human", "-o", "to/", "--format", "npz", "--json"]) in (
        0,
        1,
    )
    said = json.loads(capsys.readouterr().out)
    assert [row["result"] for row in said["rows"]] == ["walk.npz", "run.npz"]
    assert said["failed"] == 0
    assert main(["smooth", "*.bvh", "-o", "smooth/", "--json"]) == 0
    assert [row["frames"] for row in json.loads(capsys.readouterr().out)["rows"]] == [40, 40]
    for k, x in enumerate((-0.4, 40.0)):
        ps.goals.save(f"pose{k}.toml", [ps.goals.Position("hand.R", (x, 1.2, 0.3))])
    assert main(["solve", "human", "pose0.toml", "--fix", "foot.L,foot.R"]) == 0  # one file: as with --goals
    assert "hand.R: reached" in capsys.readouterr().out
    code = main(["solve", "human", "pose0.toml", "pose1.toml", "--fix", "foot.L,foot.R", "-o", "poses/", "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert code == 1
    assert [row["status"] for row in rows] == ["ok", "not reached"]
    answer = json.loads((few / "poses" / "pose0.answer.json").read_text())
    assert answer["errors"]["hand.R"] < 1e-4
    assert len(ps.load("poses/pose1.bvh").motion) == 1


def _motion(swing=0.05):
    import numpy as np

    human = ps.figures.human()
    seconds = np.arange(40)[:, None] / 30.0
    poses = human.rest + swing * np.sin(3.0 * seconds + np.arange(human.size))
    return ps.Motion(human, np.clip(poses, human.lower, human.upper), 30.0)


LISTENING = """
import signal
import sys
from posable.cli.main import main

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background of a shell ignores it otherwise
    sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(os.name == "nt", reason="Control-C is another thing there")
def test_control_c_keeps_what_is_done_and_the_next_call_goes_on(clips, tmp_path, capsys):
    call = ["track", f"{clips}/*.c3d", "--figure", "human", "--as-is", "-o", str(tmp_path / "out"), "--workers", "1"]
    for _ in range(8):  # a quick machine may be done with all of them before it hears of it
        going = subprocess.Popen(
            [sys.executable, "-c", LISTENING, *call], stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        while not list(tmp_path.glob("out/*.outcome.json")) and going.poll() is None:
            time.sleep(0.002)
        if going.poll() is None:
            os.killpg(going.pid, signal.SIGINT)  # to the workers, too, as a terminal does
        out, _ = going.communicate(timeout=60)
        if going.returncode:
            break
        shutil.rmtree(tmp_path / "out")
    assert going.returncode == 1
    assert "stopped early" in out
    said = json.loads((tmp_path / "out" / "summary.json").read_text())
    done = said["ok"]
    assert said["stopped"]
    assert 1 <= done < 30
    assert done + said["not_done"] == 30
    assert not list(tmp_path.glob("out/.part-*"))
    assert main([*call[:-1], "2", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["ok"], said["skipped"]) == (30, done)
