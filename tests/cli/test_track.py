"""posable track, retarget and smooth, from files to files."""

import json
from dataclasses import replace

import numpy as np
import pytest

import posable as ps
from posable.cli.main import main
from posable.formats.gltf_writer import bone_mesh


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A short motion of the human as BVH, and its markers as C3D."""
    folder = tmp_path_factory.mktemp("motion")
    human = ps.figures.human()
    seconds = np.arange(90)[:, None] / 60.0
    poses = human.rest + 0.05 * np.sin(2.0 * np.pi * 0.5 * seconds + np.arange(human.size))
    poses = np.clip(poses, human.lower, human.upper)
    poses[:, 1] = human.rest[1]
    motion = ps.Motion(human, poses, 60.0)
    ps.save(folder / "walk.bvh", motion)
    names = [name for name in human.site_names if name.isupper()]
    frames = ps.forward(human, poses)
    ps.save(folder / "walk.c3d", ps.Markers(names, np.stack([frames.position(n) for n in names], axis=1), 60.0, "y"))
    return folder


def test_track(files, capsys):
    out, report = files / "take.bvh", files / "report.html"
    code = main(
        ["track", str(files / "walk.c3d"), "--figure", "human", "-o", str(out), "--report", str(report), "--json"]
    )
    said = json.loads(capsys.readouterr().out)
    assert code == 0
    assert said["frames"] == 90
    assert said["mean_error"] < 0.01
    assert out.stat().st_size > 1000
    text = report.read_text(encoding="utf-8")
    assert "<svg" in text
    assert "<h1>Take: walk.c3d</h1>" in text
    assert "Red: markers." in text


def test_retarget(files, capsys):
    out = files / "other.csv"
    code = main(
        [
            "retarget",
            str(files / "walk.bvh"),
            "--to",
            "human",
            "-o",
            str(out),
            "--report",
            str(files / "r.html"),
            "--json",
        ]
    )
    said = json.loads(capsys.readouterr().out)
    assert code in (0, 1)
    assert said["mapping"]["knee.L"][1] == "knee.L"
    assert out.is_file()


def test_smooth(files, capsys):
    code = main(
        [
            "smooth",
            str(files / "walk.bvh"),
            "--seconds",
            "0.2",
            "-o",
            str(files / "s.bvh"),
            "--report",
            str(files / "s.html"),
        ]
    )
    assert code == 0
    assert "mean acceleration" in capsys.readouterr().out
    assert (files / "s.bvh").is_file()


def test_wrong_calls(files, capsys):
    assert main(["track", str(files / "walk.bvh"), "--figure", "human", "-o", str(files / "a.bvh")]) == 2
    assert "markers" in capsys.readouterr().err
    assert main(["retarget", str(files / "walk.c3d"), "--to", "human"]) == 2


def test_calibrate_once_and_track_as_is(files, capsys):
    actor, out = files / "actor.npz", files / "again.bvh"
    assert main(["calibrate", str(files / "walk.c3d"), "--figure", "human", "-o", str(actor)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("calibrated on")
    assert f"wrote {actor}" in said
    assert main(["track", str(files / "walk.c3d"), "--figure", str(actor), "--as-is", "-o", str(out)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("plausible")
    assert f"wrote {out}" in said
    assert len(ps.load(out).motion) == 90


@pytest.mark.parametrize("verb", ["track", "smooth", "calibrate"])
def test_a_result_that_goes_nowhere_is_refused(files, capsys, verb):
    figure = ["--figure", "human"] if verb != "smooth" else []
    assert main([verb, str(files / "walk.c3d"), *figure]) == 2
    assert "expected an output file, such as -o" in capsys.readouterr().err


def test_a_wrong_unit_is_reported_in_one_line(files, capsys):
    out = str(files / "tiny.bvh")
    assert main(["track", str(files / "walk.c3d"), "--figure", "human", "--unit", "cm", "-o", out]) == 1
    shown = capsys.readouterr()
    assert "--unit mm" in shown.out.split("\ncheck this take: ")[1].splitlines()[0]
    assert "warnings.warn" not in shown.err
    assert main(["track", str(files / "walk.c3d"), "--figure", "human", "--unit", "mm", "-o", out]) == 0


def test_a_retargeted_character_brings_its_meshes(files, tmp_path, capsys):
    pytest.importorskip("pxr")
    human, character, out = ps.figures.human(), tmp_path / "character.usda", tmp_path / "out.glb"
    bones = bone_mesh(human)
    ps.save(character, ps.Scene(human, meshes=(replace(bones, name="suit", faces=bones.faces[:10]),)))
    assert main(["retarget", str(files / "walk.bvh"), "--to", str(character), "-o", str(out)]) in (0, 1)
    capsys.readouterr()
    (mesh,) = ps.load(out).meshes
    assert len(mesh.faces) == 10
    assert set(mesh.joints) <= set(human.names)
    assert mesh.joints
