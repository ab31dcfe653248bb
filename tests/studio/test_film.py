"""Pictures and films: the renderer against geometry, and `posable render` as a person types it."""

import json

import numpy as np
import pytest

import posable as ps
from posable.cli.main import main
from posable.studio.film import Camera, Surface, render
from posable.studio.meshes import sphere

Image = pytest.importorskip("PIL.Image")


def test_a_ball_is_drawn_where_and_as_large_as_it_is():
    vertices, faces = sphere(0.5, around=96)
    eye = Camera(np.array([0.0, 0.0, 5.0]), np.zeros(3), np.array([0.0, 1.0, 0.0]), np.radians(40.0))
    image = render(
        [Surface(vertices + np.array([0.4, 0.2, 0.0]), faces, np.array([1.0, 0.0, 0.0]))],
        eye,
        (200, 100),
        transparent=True,
    )
    rows, columns = np.nonzero(image[..., 3] > 127)
    focal = 50.0 / np.tan(np.radians(20.0))
    assert columns.mean() == pytest.approx(99.5 + focal * 0.4 / 5.0, abs=1.5)
    assert rows.mean() == pytest.approx(49.5 - focal * 0.2 / 5.0, abs=1.5)
    assert len(rows) == pytest.approx(np.pi * (focal * 0.5 / 5.0) ** 2, rel=0.06)
    assert image[0, 0, 3] == 0


def test_what_is_nearer_hides_what_is_behind():
    vertices, faces = sphere(0.5)
    red, blue = np.array([1.0, 0, 0]), np.array([0, 0, 1.0])
    eye = Camera(np.array([0.0, 0.0, 5.0]), np.zeros(3), np.array([0.0, 1.0, 0.0]), np.radians(40.0))
    balls = [Surface(vertices, faces, red), Surface(vertices + np.array([0, 0, 1.5]), faces, blue)]
    for order in (balls, balls[::-1]):
        r, _, b, _ = render(order, eye, (60, 60), transparent=True)[30, 30]
        assert b > 2 * r


def test_render_writes_pictures_films_and_pages(fixtures, tmp_path, capsys):
    take = str(fixtures / "walk.bvh")
    assert (
        main(["render", take, "-o", str(tmp_path / "a.png"), "--size", "160x120", "--frame", "5", "--transparent"]) == 0
    )
    image = np.asarray(Image.open(tmp_path / "a.png"))
    assert image.shape == (120, 160, 4)
    assert 0.01 < (image[..., 3] > 127).mean() < 0.5
    assert main(["render", take, "-o", str(tmp_path / "a.gif"), "--size", "96x64", "--fps", "5", "--json"]) == 0
    frames = json.loads(capsys.readouterr().out.strip().splitlines()[-1])["frames"]
    assert Image.open(tmp_path / "a.gif").n_frames == frames
    pytest.importorskip("imageio_ffmpeg")
    assert main(["render", take, "-o", str(tmp_path / "a.mp4"), "--size", "96x64", "--fps", "5"]) == 0
    import imageio_ffmpeg

    assert imageio_ffmpeg.count_frames_and_secs(str(tmp_path / "a.mp4"))[0] == frames
    pytest.importorskip("viser")
    assert main(["render", take, "-o", str(tmp_path / "a.html"), "--fps", "5"]) == 0
    assert b"__VISER_EMBED_DATA__" in (tmp_path / "a.html").read_bytes()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-o", "a.avi"], "expected a name that ends in"),
        (["-o", "a.png", "--size", "huge"], "--size"),
        (["-o", "a.png", "--frame", "999"], "--frame"),
        (["-o", "a.mp4", "--size", "101x64"], "even numbers"),
    ],
)
def test_a_wrong_call_is_reported(options, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["render", "human", *options]) == 2
    assert words in capsys.readouterr().err


def test_a_project_is_rendered_as_it_was_saved(tmp_path):
    from posable.studio.session import Session

    session = Session(ps.figures.planar_arm([1.0, 0.5]))
    session.player.set_key(0)
    session.player.seek(4)
    session.set_dof(session.skeleton.dof_names[0], 1.0)
    name, data = session.save_project()
    (tmp_path / name).write_bytes(data)
    assert main(["render", str(tmp_path / name), "-o", str(tmp_path / "p.gif"), "--size", "64x48"]) == 0
    assert Image.open(tmp_path / "p.gif").n_frames >= 4
    session.close()


def test_any_take_of_a_file_is_rendered(fixtures, tmp_path, capsys):
    character, out = str(fixtures / "character.glb"), tmp_path / "character.png"  # its takes begin alike
    pictures, small = {}, ["-o", str(out), "--size", "96x64", "--frame", "6"]
    for take in (None, "Wave", "Nod", "2"):
        assert main(["render", character, *small, *([] if take is None else ["--take", take])]) == 0
        pictures[take] = out.read_bytes()
        said = capsys.readouterr().out
        assert ("the first of 2 takes; --take selects another: 1 Wave, 2 Nod" in said) is (take is None)
    assert pictures[None] == pictures["Wave"] != pictures["Nod"]
    assert pictures["2"] == pictures["Nod"]
    for wrong in ("Swim", "0", "3", "-1", "²", ""):
        assert main(["render", character, *small, f"--take={wrong}"]) == 2
        assert f"expected one of 1 Wave, 2 Nod, got {wrong!r}" in capsys.readouterr().err
    assert main(["render", "human", *small, "--take", "1"]) == 2
    assert "--take: a built-in figure has no take" in capsys.readouterr().err
