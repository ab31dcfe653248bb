"""What feet stand on: heights against boxes known by hand, faces against distances computed otherwise."""

import numpy as np
import pytest

from posable.errors import PosableError
from posable.mocap.supports import nearest_face, read_solids, solid, support_height

UP = np.array([0.0, 0.0, 1.0])
BOX = np.array([(x, y, z) for x in (-1.0, 1.0) for y in (-0.5, 0.5) for z in (0.0, 0.4)])


def test_heights_over_a_box_and_beside_it():
    points = np.array([[0.0, 0.0, 0.5], [0.0, 0.0, 0.1], [1.5, 0.0, 0.5], [0.99, 0.49, 0.45]])
    heights = support_height([solid(BOX)], points, UP, within=0.08)
    np.testing.assert_allclose(heights, [0.4, 0.0, 0.0, 0.4], atol=1e-9)
    assert support_height([], points, UP, within=0.1).tolist() == [0.0] * 4


def test_a_ramp_is_as_high_as_it_is_there():
    ramp = np.array([(0, 0, 0), (0, 1, 0), (2, 0, 0), (2, 1, 0), (2, 0, 1), (2, 1, 1)], float)
    points = np.array([[0.5, 0.5, 0.5], [1.5, 0.5, 1.0]])
    np.testing.assert_allclose(support_height([solid(ramp)], points, UP, within=0.1), [0.25, 0.75], atol=1e-9)


def test_the_nearest_face_tells_the_depth_inside():
    rng = np.random.default_rng(0)
    inside = rng.uniform((-1.0, -0.5, 0.0), (1.0, 0.5, 0.4), (200, 3))
    _, normal, gap = nearest_face([solid(BOX)], inside)
    by_hand = -np.min(
        [1.0 - np.abs(inside[:, 0]), 0.5 - np.abs(inside[:, 1]), inside[:, 2], 0.4 - inside[:, 2]], axis=0
    )
    np.testing.assert_allclose(gap, by_hand, atol=1e-9)
    place, _, _ = nearest_face([solid(BOX)], inside)
    np.testing.assert_allclose(np.sum((inside - place) * normal, axis=1), gap, atol=1e-9)


def test_parts_of_a_mesh_are_solids_and_scale(tmp_path):
    lines = [f"v {x} {y} {z}" for x, y, z in np.concatenate([BOX, BOX + np.array([5.0, 0.0, 0.0])])]
    faces = [
        (1, 2, 4),
        (1, 4, 3),
        (5, 6, 8),
        (5, 8, 7),
        (1, 5, 6),
        (1, 6, 2),
        (3, 4, 8),
        (3, 8, 7),
        (1, 3, 7),
        (1, 7, 5),
    ]
    lines += [f"f {a + k} {b + k} {c + k}" for k in (0, 8) for a, b, c in faces]
    path = tmp_path / "boxes.obj"
    path.write_text("\n".join(lines))
    two = read_solids(path)
    assert len(two) == 2
    half = two[0].scaled(0.5)
    np.testing.assert_allclose(np.ptp(half.vertices, axis=0), [1.0, 0.5, 0.2])
    assert support_height([half], np.array([[0.0, 0.0, 0.3]]), UP, within=0.1)[0] == pytest.approx(0.2)


@pytest.mark.parametrize("text", ["v 0 0 a\nf 1 2 3\n", "v 0 0 0\n"])
def test_a_bad_mesh_is_named(tmp_path, text):
    path = tmp_path / "bad.obj"
    path.write_text(text)
    with pytest.raises(PosableError, match=r"bad\.obj"):
        read_solids(path)


def test_what_is_no_object():
    with pytest.raises(PosableError, match="corners"):
        read_solids([np.zeros(4)])
