"""Labels that jump, trade places or name the wrong side, against the take they were made from."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import posable as ps
from posable.mocap.screen import noise_of, screen


def joints(actor, motion):
    frames = ps.forward(actor, motion.poses)
    return np.stack([frames.position(name) for name in actor.names], axis=1)


@pytest.fixture(scope="module")
def clean(human, markers):
    actor = ps.calibrate(human, markers)
    return joints(actor, ps.track(actor, markers).motion)


def displaced(human, markers, clean):
    """Return the mean displacement [m] of the joints from the clean result, and what was said."""
    actor = ps.calibrate(human, markers)
    take = ps.track(actor, markers)
    off = np.linalg.norm(joints(actor, take.motion) - clean, axis=-1).mean()
    return off, f"{actor.info['calibration']}\n{take.report}"


def exchanged(markers, pairs, rows=slice(None)):
    places = markers.positions.copy()
    for a, b in pairs:
        i, j = markers.index(a), markers.index(b)
        places[rows, [i, j]] = places[rows, [j, i]]
    return replace(markers, positions=places)


@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 41))
def test_single_jumps_are_removed_and_nothing_else(markers, seed, count):
    rng = np.random.default_rng(seed)
    places = markers.positions.copy()
    hit = rng.permutation(places.shape[1])[:count]
    way = rng.normal(size=(count, 3))
    places[rng.integers(0, len(places), count), hit] += way / np.linalg.norm(way, axis=1, keepdims=True)
    found = screen(replace(markers, positions=places)).read(places, 0, len(places))
    kept = np.isfinite(found).all(axis=-1)
    assert np.array_equal(found[kept], markers.positions[kept])
    assert (~kept).sum() <= 2 * len(hit)


def test_jumps_do_not_move_the_actor(human, markers, clean):
    rng = np.random.default_rng(5)
    places = markers.positions.copy()
    hit = rng.choice(places[..., 0].size, 50, replace=False)
    places.reshape(-1, 3)[hit] += [0.0, 1.0, 0.0]
    off, said = displaced(human, replace(markers, positions=places), clean)
    assert off < 0.002
    assert "samples jump" in said


@given(start=st.integers(1, 180), length=st.integers(1, 50))
def test_labels_that_trade_places_are_exchanged_back(markers, start, length):
    rows = slice(start, start + length)
    spoilt = exchanged(markers, [("LKNE", "RKNE"), ("RELB", "RFRM")], rows)
    found = screen(spoilt)
    assert np.array_equal(found.read(spoilt.positions, 0, len(spoilt)), markers.positions)
    assert {frozenset(swap[:2]) for swap in found.swaps} == {frozenset(("LKNE", "RKNE")), frozenset(("RELB", "RFRM"))}


@pytest.mark.parametrize("part", ["", "THI KNE SHN ANK HEE TOE MT5", "UPA ELB FRM WRA WRB FIN"])
def test_left_and_right_exchanged_for_a_whole_take(human, markers, clean, part):
    left = [name for name in markers.names if name[0] == "L" and (not part or name[1:] in part.split())]
    off, said = displaced(human, exchanged(markers, [(name, "R" + name[1:]) for name in left]), clean)
    assert off < 1e-9
    assert "left and right are exchanged" in said


def test_a_take_without_faults_is_left_alone(markers):
    found = screen(markers)
    assert found.columns is None
    assert found.notes == ()
    assert found is screen(markers)


def test_a_badly_filled_marker_is_left_out_and_named(human, markers, clean):
    places = markers.positions.copy()
    k = markers.index("RUPA")
    places[60:160, k] = np.linspace(places[60, k], places[160, k], 100) + np.array([0.08, 0.0, 0.0])
    off, said = displaced(human, replace(markers, positions=places), clean)
    assert off < 0.004
    assert "RUPA" in said


def test_labels_that_are_swapped_in_a_gap_do_no_harm(markers):
    places = markers.positions.copy()
    places[100:110, [markers.index("LWRA"), markers.index("LWRB")]] = np.nan
    holed = replace(markers, positions=places)
    assert screen(holed).swaps == ()
    assert not screen(holed).jumps


def test_swaps_that_share_a_label_are_exchanged_back(markers):
    places = exchanged(markers, [("LKNE", "RKNE")], slice(60, 140))
    places = exchanged(places, [("LKNE", "LTHI")], slice(100, 180))
    assert np.array_equal(screen(places).read(places.positions, 0, len(places)), markers.positions)


def test_three_labels_that_trade_places_are_named(markers):
    places = markers.positions.copy()
    columns = [markers.index(name) for name in ("RKNE", "RTHI", "RSHN")]
    places[80:180, columns] = places[80:180, np.roll(columns, 1)]
    found = screen(replace(markers, positions=places))
    assert np.array_equal(found.read(places, 0, len(places)), markers.positions)
    assert len(found.swaps) == 3
    assert all(name in found.notes[0] for name in ("RKNE", "RTHI", "RSHN", "80-179"))


def test_markers_of_two_subjects_are_a_doubt(markers):
    names = [f"{subject}:{name}" for subject in ("A", "B") for name in markers.names]
    places = np.concatenate([markers.positions, markers.positions[::-1] + 2.0], axis=1)
    assert "2 subjects (A, B)" in screen(ps.Markers(names, places, markers.fps, markers.up)).doubts[0]


def traded(markers, a, b, rows=slice(None)):
    """Return markers in which two labels are exchanged in some frames."""
    places = markers.positions.copy()
    pair = [markers.names.index(a), markers.names.index(b)]
    places[rows, pair] = places[rows, pair[::-1]]
    return replace(markers, positions=places)


@pytest.mark.parametrize("side", ["L", "R"])
def test_ankle_and_heel_exchanged_in_the_whole_take_are_exchanged_back(markers, side):
    found = screen(traded(markers, f"{side}ANK", f"{side}HEE"))
    wrong = traded(markers, f"{side}ANK", f"{side}HEE")
    np.testing.assert_array_equal(found.read(wrong.positions, 0, len(wrong)), markers.positions)
    assert f"{side}ANK with {side}HEE" in found.notes[0]
    assert not screen(markers).swaps


@pytest.mark.parametrize(("first", "end"), [(24, 204), (36, 240)])
def test_a_swap_of_sides_for_most_of_the_take_is_mended_the_right_way(markers, first, end):
    wrong = traded(markers, "LKNE", "RKNE", slice(first, end))
    found = screen(wrong)
    assert found.swaps == (("LKNE", "RKNE", first, end),)
    assert not found.doubts
    np.testing.assert_array_equal(found.read(wrong.positions, 0, len(wrong)), markers.positions)


def test_a_long_swap_on_one_bone_is_left_to_the_user(markers):
    found = screen(traded(markers, "LWRA", "LWRB", slice(24, 204)))
    assert len(found.doubts) == 1
    assert "LWRA and LWRB have traded labels in 25% of the frames" in found.doubts[0]
    assert not screen(traded(markers, "LWRA", "LWRB", slice(24, 40))).doubts  # short: the rest is right


@given(seed=st.integers(0, 2**32 - 1), noise=st.floats(0.0, 0.03))
@settings(max_examples=20)
def test_noise_is_neither_a_jump_nor_a_swap(markers, seed, noise):
    places = markers.positions + np.random.default_rng(seed).normal(0.0, noise, markers.positions.shape)
    found = screen(replace(markers, positions=places))
    assert not found.jumps
    assert not found.swaps


@pytest.mark.parametrize("noise", [0.0, 0.002, 0.01])
def test_noise_is_measured_in_spite_of_jumps(markers, noise):
    rng = np.random.default_rng(4)
    places = markers.positions + rng.normal(0.0, noise, markers.positions.shape)
    places.reshape(-1, 3)[rng.choice(places[..., 0].size, 100, replace=False)] += 1.0
    np.testing.assert_allclose(noise_of(places), noise, rtol=0.3, atol=2e-4)


@pytest.mark.parametrize("side", ["L", "R"])
@pytest.mark.parametrize(("first", "end"), [(0, 240), (100, 103), (100, 148), (24, 204), (120, 240)])
@pytest.mark.parametrize("apart", [1.0, 0.4])
def test_toe_and_fifth_metatarsal_are_exchanged_back(markers, side, first, end, apart):
    places = markers.positions.copy()
    toe, outer = markers.index(f"{side}TOE"), markers.index(f"{side}MT5")
    places[:, outer] = places[:, toe] + apart * (places[:, outer] - places[:, toe])  # 25 mm: less than a jump
    right = replace(markers, positions=places)
    assert not screen(right).swaps
    wrong = traded(right, f"{side}TOE", f"{side}MT5", slice(first, end))
    found = screen(wrong)
    np.testing.assert_array_equal(found.read(wrong.positions, 0, len(wrong)), right.positions)
    assert found.swaps == ((f"{side}TOE", f"{side}MT5", first, end),)
    assert not found.doubts


@pytest.mark.parametrize("pair", ["FHD", "BHD", "SHO", "FWT", "BWT"])
@pytest.mark.parametrize(("first", "end"), [(0, 240), (24, 204)])
def test_one_pair_of_the_trunk_whose_sides_are_exchanged(markers, pair, first, end):
    wrong = traded(markers, "L" + pair, "R" + pair, slice(first, end))
    found = screen(wrong)
    np.testing.assert_array_equal(found.read(wrong.positions, 0, len(wrong)), markers.positions)
    assert "L" + pair in found.notes[0]


def test_points_that_a_model_computed_are_left_alone(markers):
    rng = np.random.default_rng(6)
    forces = rng.normal(0.0, 0.5, (len(markers), 2, 3)) * (np.arange(len(markers))[:, None, None] % 7 == 0)
    names = ["LHipMoment", *markers.names, "LGroundReactionForce"]
    places = np.concatenate([forces[:, :1], markers.positions, forces[:, 1:]], axis=1)
    assert screen(ps.Markers(names, places, markers.fps, markers.up)).columns is None
    wrong = traded(ps.Markers(names, places, markers.fps, markers.up), "LKNE", "RKNE", slice(60, 80))
    np.testing.assert_array_equal(screen(wrong).read(wrong.positions, 0, len(wrong)), places)
