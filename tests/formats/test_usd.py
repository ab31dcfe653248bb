"""USD through usd-core: round trips, and what usd-core itself makes of the skin."""

import re
import time

import numpy as np
import pytest

from posable import Motion, figures, forward, load, save
from posable.errors import FormatError

pxr = pytest.importorskip("pxr")


def skinned(meshes, motion, frame):
    """Return the vertices of skinned meshes in a pose, by their definition."""
    frames = forward(motion.skeleton, motion.poses[frame])
    out = []
    for mesh in meshes:
        places = np.tile(np.eye(4), (len(mesh.joints), 1, 1))
        for k, name in enumerate(mesh.joints):
            places[k, :3, :3], places[k, :3, 3] = frames.rotation_matrix(name), frames.position(name)
        corners = np.concatenate([mesh.vertices, np.ones((len(mesh.vertices), 1))], axis=1)
        moved = np.einsum("vk,vkij,vj->vi", mesh.weights, (places @ mesh.inverse_bind)[mesh.bones], corners)
        out.append(moved[:, :3])
    return np.concatenate(out)


def by_usd(path, frame):
    """Return the points of the first mesh as usd-core skins them, in the world."""
    from pxr import Usd, UsdGeom, UsdSkel

    stage = Usd.Stage.Open(str(path))
    cache = UsdSkel.Cache()
    cache.Populate(next(UsdSkel.Root(p) for p in stage.Traverse() if p.IsA(UsdSkel.Root)), Usd.PrimDefaultPredicate)
    skeleton = next(p for p in stage.Traverse() if p.IsA(UsdSkel.Skeleton))
    prim = next(p for p in stage.Traverse() if p.IsA(UsdGeom.Mesh))
    moved = cache.GetSkelQuery(UsdSkel.Skeleton(skeleton)).ComputeSkinningTransforms(float(frame))
    points = UsdGeom.Mesh(prim).GetPointsAttr().Get()
    assert cache.GetSkinningQuery(prim).ComputeSkinnedPoints(moved, points, float(frame))
    world = np.array(UsdGeom.XformCache(float(frame)).GetLocalToWorldTransform(skeleton)).T
    return np.array(points) @ world[:3, :3].T + world[:3, 3]


@pytest.fixture
def waving():
    figure = figures.human()
    turns = 0.2 * np.sin(np.arange(12.0))[:, None] * np.random.default_rng(2).normal(size=figure.size)
    return Motion(figure, np.clip(figure.rest + turns, figure.lower, figure.upper), 25.0, "wave")


@pytest.mark.parametrize("suffix", [".usda", ".usdc", ".usd"])
def test_round_trip(tmp_path, waving, suffix):
    path = tmp_path / f"a{suffix}"
    save(path, waving)
    back = load(path)
    assert (len(back.motion), back.motion.fps, back.skeleton.up) == (12, 25.0, "y")
    ours, theirs = forward(waving.skeleton, waving.poses), forward(back.skeleton, back.motion.poses)
    for name in waving.skeleton.names:
        np.testing.assert_allclose(theirs.position(name), ours.position(name), atol=1e-6)
    np.testing.assert_allclose(by_usd(path, 5), skinned(back.meshes, back.motion, 5), atol=1e-5)


def test_a_character_is_written_with_everything_that_was_read(tmp_path, waving):
    from pxr import Usd, UsdGeom

    save(tmp_path / "a.usda", waving)
    stage = Usd.Stage.Open(str(tmp_path / "a.usda"))
    UsdGeom.SetStageMetersPerUnit(stage, 0.01)  # a character in centimetres, z up, with something of its own in it
    UsdGeom.SetStageUpAxis(stage, "Z")
    stage.DefinePrim("/figure/mine", "Scope").SetCustomDataByKey("kept", 7)
    stage.GetRootLayer().Save()
    character = load(tmp_path / "a.usda")
    assert character.skeleton.up == "z"
    turned = character.motion.poses + 0.05
    save(tmp_path / "b.usda", Motion(character.skeleton, turned, 50.0, "turned"))
    back = load(tmp_path / "b.usda")
    assert back.motion.name == "turned"
    assert Usd.Stage.Open(str(tmp_path / "b.usda")).GetPrimAtPath("/figure/mine").GetCustomDataByKey("kept") == 7
    ours, theirs = forward(character.skeleton, turned), forward(back.skeleton, back.motion.poses)
    for name in character.skeleton.names:
        np.testing.assert_allclose(theirs.position(name), ours.position(name), atol=1e-6)
    moved = skinned(back.meshes, back.motion, 3)
    np.testing.assert_allclose(0.01 * by_usd(tmp_path / "b.usda", 3), moved, atol=1e-6)


def test_a_stage_without_a_skeleton_is_refused(tmp_path):
    (tmp_path / "a.usda").write_text('#usda 1.0\ndef Xform "empty" {}\n')
    with pytest.raises(FormatError, match="UsdSkel Skeleton"):
        load(tmp_path / "a.usda")


@pytest.mark.parametrize(
    ("pattern", "change"),
    [
        (r"faceVertexIndices = \[\d+", "faceVertexIndices = [999999"),
        (r"faceVertexIndices = \[\d+, ", "faceVertexIndices = ["),
        (r"skel:jointIndices = \[\d+", "skel:jointIndices = [999999"),
        (r"skel:jointIndices = \[\d+, ", "skel:jointIndices = ["),
    ],
)
def test_arrays_that_do_not_fit_are_one_error(tmp_path, pattern, change):
    path = tmp_path / "a.usda"
    save(path, figures.human())
    text, count = re.subn(pattern, change, path.read_text(encoding="utf-8"), count=1)
    assert count == 1
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FormatError, match="inconsistent"):
        load(path)


def test_a_file_on_which_usd_core_hangs_is_one_error(tmp_path, monkeypatch):
    """What opens the file never returns: it is stopped after its time, and the file is named."""
    from posable.formats import usd

    path = tmp_path / "a.usda"
    save(path, figures.human())
    monkeypatch.setattr(usd, "OPENING", 0.5)
    monkeypatch.setattr(usd, "_FLATTEN", usd._FLATTEN.replace("written = ", "while True: pass\n    written = "))
    begin = time.perf_counter()
    with pytest.raises(FormatError, match=r"a\.usda.*hangs"):
        load(path)
    assert time.perf_counter() - begin < 10.0 * 2.0


def test_a_damaged_file_is_one_error(tmp_path):
    path = tmp_path / "a.usdc"
    save(path, figures.human())
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(FormatError, match="usd-core"):
        load(path)


def test_what_is_not_text_is_one_line(tmp_path):
    path = tmp_path / "a.usda"
    path.write_bytes(b'#usda 1.0\ndef Skeleton "\xff\xfe" {\n')
    with pytest.raises(FormatError) as caught:
        load(path)
    assert len(str(caught.value).splitlines()) == 1
