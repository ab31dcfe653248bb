"""`posable follow`, `posable keyframes`, and the options of a method on the command line."""

import json

import numpy as np
import pytest

import posable as ps
from posable.cli import main as cli


def call(capsys, *words):
    code = cli.main([*words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_follow_waypoints(capsys, tmp_path):
    out = tmp_path / "path.csv"
    words = ["--path", "hand=0.5,0.2,0.4:0.5,-0.2,0.4", "--seconds", "0.5", "--fps", "20", "-o", str(out), "--json"]
    code, text, _ = call(capsys, "follow", "panda", *words)
    told = json.loads(text)
    assert code == 0
    assert told["frames"] == told["reached"] == 11
    assert out.exists()


def test_follow_within_limits_in_a_given_time(capsys):
    path = ("follow", "panda", "--path", "hand=0.5,0.2,0.4:0.5,-0.2,0.4", "--fps", "50", "--velocity", "1.5", "--json")
    limits = ("--acceleration", "6", "--duration")
    code, text, _ = call(capsys, *path, *limits, "fastest")
    told = json.loads(text)
    assert code == 0
    assert told["frames"] == told["reached"]
    assert told["largest_step"] <= 1.5 / 50 + 1e-9
    assert json.loads(call(capsys, *path, *limits, "2")[1])["frames"] == 101
    assert "fastest" in call(capsys, *path, *limits, "quick")[2]


def test_follow_a_file_one_step_a_frame(capsys, tmp_path):
    path = tmp_path / "goal.csv"
    points = np.linspace((25.0, 5.0, 0.0), (-20.0, 5.0, 0.0), 21)
    np.savetxt(path, points, delimiter=",")
    code, text, _ = call(capsys, "follow", "planar_arm", "--path", f"tip={path}", "--max-iterations", "1", "--json")
    told = json.loads(text)
    assert told["frames"] == 21
    assert code in (0, 1)
    assert call(capsys, "follow", "panda", "--path", "hand")[0] == 2


def test_keyframes(capsys, tmp_path):
    goals, out = tmp_path / "reach.toml", tmp_path / "out.bvh"
    human = ps.figures.human()
    feet = ps.goals.Pose("foot.L", ps.forward(human, human.rest).matrix("foot.L"))
    ps.goals.save(goals, [feet, ps.goals.Position("hand.R", (-0.3, 1.3, 0.3))])
    code, text, _ = call(
        capsys, "keyframes", "human", "0=rest", f"0.4={goals}", "--fps", "20", "-o", str(out), "--json"
    )
    assert code == 0
    assert json.loads(text)["frames"] == 9
    assert len(ps.load(out).motion) == 9
    assert call(capsys, "keyframes", "human", "soon=rest")[0] == 2


GOAL = ["solve", "panda", "--reach", "hand=0.4,0.2,0.5"]


@pytest.mark.parametrize(
    "words",
    [
        ["--solver", "dls", "--option", "damping=0.1"],
        ["--solver", "ccd", "--option", "order=ranked", "--option", "rest=2"],
        ["--solver", "transpose", "--option", "step=0.5"],
        ["--solver", "pseudoinverse", "--option", "gains=0.1", "--option", "toward=rest"],
        ["--solver", "projected-gradient", "--option", "alpha=0.001", "--option", "beta=0.6"],
        ["--solver", "trust-region", "--option", "tolerance=0.2", "--option", "bandwidth=2"],
        ["--freeze", "panda_joint1", "--strength", "panda_joint2=3"],
        ["--weight", "hand=2", "--max-iterations", "200"],
    ],
    ids=lambda words: " ".join(words[:4]),
)
def test_the_options_of_a_method(capsys, words):
    code, text, err = call(capsys, *GOAL, *words, "--json")
    assert code == 0, err
    told = json.loads(text)
    assert told["ok"]
    if "--freeze" in words:
        assert told["pose"]["panda_joint1"] == ps.figures.panda().rest[0]


def test_an_option_reaches_the_solver(capsys):
    free = json.loads(call(capsys, *GOAL, "--solver", "dls", "--json")[1])
    damped = json.loads(call(capsys, *GOAL, "--solver", "dls", "--option", "damping=2", "--json")[1])
    assert damped["iterations"] > 2 * free["iterations"]
    code, _, err = call(capsys, *GOAL, "--solver", "dls", "--option", "dampin=2")
    assert code == 2
    assert "damping" in err


def test_a_start_from_a_file(capsys, tmp_path):
    first = json.loads(call(capsys, *GOAL, "--json")[1])
    saved = tmp_path / "answer.json"
    saved.write_text(json.dumps(first))
    again = json.loads(call(capsys, *GOAL, "--start", str(saved), "--json")[1])
    assert again["iterations"] == 0
    assert again["pose"] == first["pose"]
    some = {**first["pose"]}
    for pose in (None, 3, [1], {}, {**some, "panda_joint1": "x"}, {**some, "panda_joint1": [1]}):
        saved.write_text(json.dumps({"pose": pose}))
        code, _, err = call(capsys, *GOAL, "--start", str(saved))
        assert code == 2
        assert err.startswith("posable: --start: expected a pose of this figure"), err
    for content in (b"", b"x", b"[]", b"\xff\xfe", b"[" * 100_000):
        saved.write_bytes(content)
        assert call(capsys, *GOAL, "--start", str(saved))[0] == 2
    assert call(capsys, *GOAL, "--start", str(tmp_path / "none.json"))[0] == 2
