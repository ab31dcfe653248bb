"""The surfaces: closed, facing outward, skinned to bones whose weights add up."""

import json
import struct
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import posable as ps
from posable.studio.appearance import ASSETS, asset, has_body
from posable.studio.meshes import bone, quaternions, ring, sphere, towards

_spec = spec_from_file_location("scripts_body", Path(__file__).resolve().parents[2] / "scripts" / "body.py")
script = module_from_spec(_spec)
sys.modules["scripts_body"] = script
_spec.loader.exec_module(script)
Solid, bind_pose, body_of, field_of, surface_of = (
    getattr(script, name) for name in ("Solid", "bind_pose", "body_of", "field_of", "surface_of")
)


def volume(vertices, faces):
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    return float(np.sum(np.einsum("ij,ij->i", a, np.cross(b, c))) / 6.0)


def is_closed(faces):
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    forward, backward = edges[:, 0] * 10**7 + edges[:, 1], edges[:, 1] * 10**7 + edges[:, 0]
    return np.array_equal(np.sort(forward), np.sort(backward))


def test_a_ball_has_the_volume_of_a_ball():
    ball = Solid(np.array([0.1, 0.2, 0.3]), np.array([0.1, 0.2, 0.3]), 0.1, 0.1, 0.0)
    vertices, faces = surface_of(field_of([ball], 0.01))
    assert is_closed(faces)
    assert volume(vertices, faces) == pytest.approx(4.0 / 3.0 * np.pi * 0.1**3, rel=0.03)
    assert np.abs(np.linalg.norm(vertices - [0.1, 0.2, 0.3], axis=1) - 0.1).max() < 0.003


@pytest.mark.parametrize("shape", [sphere(0.1), bone(0.4, 0.03)])
def test_shapes_face_outward(shape):
    assert volume(*shape) > 0.0


def test_rings_lie_across_their_axis():
    vertices, _ = ring(0.2, 0.01, np.array([0.0, 1.0, 0.0]))
    assert np.abs(vertices[:, 1]).max() == pytest.approx(0.01, rel=0.05)


def test_quaternions_and_back():
    rng = np.random.default_rng(0)
    for axis in rng.normal(size=(50, 3)):
        turn = towards(axis)
        assert np.allclose(Rotation.from_quat(quaternions(turn[None])[0], scalar_first=True).as_matrix(), turn)


def test_the_body_mesh_fits_only_the_human():
    assert has_body(ps.figures.human())
    assert not has_body(ps.figures.panda())


def test_the_body_is_closed_skinned_and_as_heavy_as_a_person():
    human = ps.figures.human()
    skins = body_of(human, detail=0.5)
    total = 0.0
    for skin in skins:
        assert is_closed(skin.faces)
        assert np.allclose(skin.weights.sum(axis=1), 1.0)
        assert np.isfinite(skin.vertices).all()
        total += volume(skin.vertices, skin.faces)
    assert 0.04 < total < 0.12  # [m^3]: some 75 kg of water, clothes and hair over it


def test_the_body_is_symmetric():
    human = ps.figures.human()
    assert ps.forward(human, bind_pose(human)).position("hand.L") == pytest.approx(
        ps.forward(human, bind_pose(human)).position("hand.R") * [-1, 1, 1], abs=1e-9
    )
    skins = {skin.name: skin for skin in body_of(human, detail=0.5)}
    left, right = skins["hand.L"].vertices, skins["hand.R"].vertices
    assert left.max(axis=0)[1:] == pytest.approx(right.max(axis=0)[1:], abs=0.01)


def gltf_of(data):
    """Return the JSON chunk of a GLB file."""
    return json.loads(data[20 : 20 + struct.unpack_from("<I", data, 12)[0]])


def assert_same_description(made, kept):
    """Compare two glTF descriptions, numbers to 1e-6: their last bits depend on the processor."""
    if isinstance(kept, dict):
        assert made.keys() == kept.keys()
        for key, value in kept.items():
            assert_same_description(made[key], value)
    elif isinstance(kept, list):
        assert len(made) == len(kept)
        for one, other in zip(made, kept, strict=True):
            assert_same_description(one, other)
    elif isinstance(kept, float):
        assert made == pytest.approx(kept, abs=1e-6)
    else:
        assert made == kept


@pytest.mark.parametrize("name", ["body", "body_coarse"])
def test_the_asset_is_what_the_script_makes(name):
    human = ps.figures.human()
    made = script.glb_of(human, body_of(human, detail=script.LEVELS[name]))
    kept = (ASSETS / f"{name}.glb").read_bytes()
    assert_same_description(gltf_of(made), gltf_of(kept))
    skins = {mesh.name: mesh for mesh in asset(name == "body_coarse")}
    for skin in body_of(human, detail=script.LEVELS[name]):
        assert skins[skin.name].vertices == pytest.approx(skin.vertices, abs=1e-6)
        assert skins[skin.name].weights.sum(axis=1) == pytest.approx(np.ones(len(skin.vertices)))


def test_faces_are_divided_where_a_texture_changes():
    from posable.studio.appearance import Skin, Texture, divided

    skin = Skin(
        "s", np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0]]),
        np.array([[0, 1, 2], [1, 3, 2]]), ("a", "b"), np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.5, 0.5]]),
        np.zeros((2, 3)), np.tile(np.eye(3), (2, 1, 1)), (0, 0, 0),
    )  # fmt: skip
    pixels = np.ones((64, 64, 3))
    pixels[:, :24] = 0.0  # one edge, at x = 0.375
    fine, texture = divided(skin, Texture(pixels, skin.vertices[:, :2].copy()))
    corners = fine.vertices[fine.faces]
    areas = 0.5 * np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])[:, 2]
    assert areas.min() > 0.0  # as before, they face the same way
    assert areas.sum() == pytest.approx(1.0)
    assert fine.weights.sum(axis=1) == pytest.approx(np.ones(len(fine.vertices)))
    dark = texture.samples(fine.faces).mean(axis=(0, 2)) < 0.5
    assert areas[dark].sum() == pytest.approx(0.375, abs=0.05)
    assert len(divided(skin, Texture(np.ones((1, 1, 3)), np.zeros((4, 2))))[0].faces) == 2  # nothing to divide
