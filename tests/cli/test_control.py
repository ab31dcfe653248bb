"""`posable control`: a control loop on the command line, and its plot of joint speeds."""

import json

import numpy as np
import pytest

import posable as ps
from posable.cli import main as cli


def call(capsys, *words):
    code = cli.main([*words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


PATH = ("--path", "hand=0.5,0.2,0.4:0.5,-0.2,0.4", "--seconds", "0.5", "--velocity", "1.0", "--acceleration", "8")


def test_a_loop_stays_inside_its_limits(capsys, tmp_path):
    out = tmp_path / "commands.csv"
    code, text, _ = call(capsys, "control", "panda", *PATH, "--stay", "3", "--rate", "50", "-o", str(out), "--json")
    told = json.loads(text)
    assert code == 0
    assert told["ok"]
    assert told["ticks"] == 26 + 150
    assert 0.5 < told["rate"] <= 1.0 + 1e-9
    assert told["limited"] > 0
    assert told["last"]["hand"] < 1e-6 < told["worst"]["hand"]
    motion = ps.load(out, skeleton=ps.figures.panda()).motion
    assert np.abs(np.diff(motion.poses, axis=0)).max() * 50.0 <= 1.0 + 1e-6


def test_speeds_are_plotted(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    plot = tmp_path / "speeds.png"
    code, text, _ = call(capsys, "control", "panda", *PATH, "--stay", "0", "--live", "--plot", str(plot))
    assert code == 1  # too fast for 1 rad/s
    assert "velocity limit" in text
    assert plot.read_bytes()[:4] == b"\x89PNG"
    assert plot.stat().st_size > 10_000


def test_wrong_calls_are_one_line(capsys):
    code, _, text = call(capsys, "control", "panda", "--path", "hand=0.5,0.2,0.4:0.5,-0.2,0.4", "--velocity", "-1")
    assert code == 2
    assert "velocity" in text
    assert call(capsys, "control", "panda", "--path", "hand")[0] == 2
