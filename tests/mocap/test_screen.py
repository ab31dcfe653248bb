"""Labels that jump, are swapped or name the wrong side, compared with the clean take."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

import posable as ps
from posable.mocap.screen import noise_of, screen

from .conftest import holed

LEG = ("FWT", "BWT", "THI", "KNE", "SHN", "ANK", "HEE", "TOE")


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
def test_swapped_labels_are_swapped_back(markers, start, length):
    rows = slice(start, start + length)
    spoilt = exchanged(markers, [("LKNE", "RKNE"), ("RELB", "RFRM")], rows)
    found = screen(spoilt)
    assert np.array_equal(found.read(spoilt.positions, 0, len(spoilt)), markers.positions)
    assert {frozenset(swap[:2]) for swap in found.swaps} == {frozenset(("LKNE", "RKNE")), frozenset(("RELB", "RFRM"))}


@pytest.mark.parametrize("part", ["", "THI KNE SHN ANK HEE TOE MT5", "UPA ELB FRM WRA WRB FIN"])
def test_left_and_right_swapped_for_a_whole_take(human, markers, clean, part):
    left = [name for name in markers.names if name[0] == "L" and (not part or name[1:] in part.split())]
    off, said = displaced(human, exchanged(markers, [(name, "R" + name[1:]) for name in left]), clean)
    assert off < 1e-9
    assert "left and right are swapped" in said


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


@pytest.mark.parametrize("seed", range(8))
def test_a_burst_of_noise_on_neighbours_leaves_their_labels_alone(markers, seed):
    rng = np.random.default_rng(seed)
    places = markers.positions.copy()
    for start in (60, 120, 180):
        for name in ("LWRA", "LWRB", "LFIN"):
            places[start : start + 5, markers.index(name)] += rng.normal(0.0, 0.3, (5, 3))
    found = screen(replace(markers, positions=places)).read(places, 0, len(places))
    kept = np.isfinite(found).all(axis=-1)
    calm = np.ones(len(places), dtype=bool)
    for start in (60, 120, 180):
        calm[start : start + 5] = False
    assert np.array_equal(found[calm & kept.all(axis=1)], markers.positions[calm & kept.all(axis=1)])
    assert (~kept).sum() <= 60


def test_frames_that_are_missing_are_named_and_labels_stay(markers):
    cut = (
        np.delete(markers.positions, slice(100, 160), axis=0) + np.where(np.arange(180) < 100, 0.0, 0.4)[:, None, None]
    )
    found = screen(replace(markers, positions=cut))
    assert found.swaps == ()
    assert not found.jumps
    assert "all markers jump at frame 100" in found.doubts[0]


def test_a_body_that_falls_for_two_frames_is_not_a_cut(markers):
    places = markers.positions.copy()
    places[100:102] -= [0.0, 0.5, 0.0]
    found = screen(replace(markers, positions=places))
    assert found.doubts == ()
    assert not np.isfinite(found.read(places, 100, 102)).any()
    assert np.array_equal(found.read(places, 102, 240), markers.positions[102:])


def test_labels_that_are_swapped_in_a_gap_do_no_harm(markers):
    places = markers.positions.copy()
    places[100:110, [markers.index("LWRA"), markers.index("LWRB")]] = np.nan
    holed = replace(markers, positions=places)
    assert screen(holed).swaps == ()
    assert not screen(holed).jumps


@pytest.mark.parametrize(("pair", "start"), [(("LELB", "LFRM"), 60), (("LTHI", "LKNE"), 150), (("LSHO", "RSHO"), 90)])
def test_labels_that_are_swapped_after_a_long_gap_are_swapped_back(human, markers, clean, pair, start):
    gone = np.zeros(markers.positions.shape[:2], dtype=bool)
    gone[start : start + 30, [markers.index(name) for name in pair]] = True
    whole, wrong = (holed(take, gone) for take in (markers, exchanged(markers, [pair], slice(start, None))))
    off, said = displaced(human, wrong, clean)
    assert off < 0.002
    assert "swapped" in said
    assert not screen(whole).swaps


def with_plate(markers, offsets, degrees):
    """Return markers with a plate at the left knee that turns within frame 100: offsets (K, 3) [m] of its markers."""
    rng, total = np.random.default_rng(3), len(markers)
    turn = np.where(np.arange(total) < 100, 0.0, np.radians(degrees))
    bone = Rotation.from_rotvec(turn[:, None] * [0.0, 0.0, 1.0]).as_matrix()
    places = markers.positions[:, markers.index("LKNE"), None] + np.einsum("tij,kj->tki", bone, np.asarray(offsets))
    places += rng.normal(0.0, 2e-4, places.shape)
    names = (*markers.names, *(f"plate{k}" for k in range(len(offsets))))
    return ps.Markers(names, np.concatenate([markers.positions, places], axis=1), markers.fps, markers.up)


def test_labels_taken_for_swapped_are_given_back_although_a_gap_follows(markers):
    """One marker steps to where the other was, which is elsewhere; neighbours tell that no label was swapped."""
    whole = with_plate(markers, [(0.05, 0.0, 0.0), (0.025, 0.0433, 0.0)], 60.0)
    places = whole.positions.copy()
    places[160:164] = np.nan
    assert screen(whole).swaps == ()
    assert screen(replace(whole, positions=places)).swaps == ()


def test_markers_that_swap_labels_while_they_move_fast_do_not_turn(markers):
    """The third marker is as far from both: all distances are kept, and no marker is just where another one was."""
    plate = with_plate(markers, [(0.0, 0.05, 0.0), (0.0, -0.05, 0.0), (0.0, 0.0, 0.08)], 0.0)
    places = plate.positions + np.arange(len(plate))[:, None, None] * [0.04, 0.0, 0.0]
    a, b = plate.index("plate0"), plate.index("plate1")
    places[100:106, [a, b]] = places[100:106, [b, a]]
    assert screen(replace(plate, positions=places)).swaps == (("plate0", "plate1", 100, 106),)


def test_a_bone_that_flips_keeps_its_labels(markers):
    """Recordings of solved bodies have bones that turn far within a frame, their markers with them."""
    found = screen(with_plate(markers, [(0.05, 0.0, 0.03), (0.0, 0.07, 0.0), (0.0, -0.02, 0.09)], 150.0))
    assert found.swaps == ()
    assert not found.jumps
    assert found.doubts == ()


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
def test_ankle_and_heel_swapped_in_the_whole_take_are_swapped_back(markers, side):
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
    assert "LWRA and LWRB are swapped in 25% of the frames" in found.doubts[0]
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


def test_trajectories_without_a_label_raise_no_doubts(markers):
    """They flicker and hop from ghost to ghost: among labelled markers, nobody asks for them."""
    hops = np.random.default_rng(0).normal(size=(len(markers), 60, 3))
    hops[np.random.default_rng(1).random(hops.shape[:2]) < 0.5] = np.nan
    names = (*markers.names, *(f"*{k}" for k in range(60)))
    places = np.concatenate([markers.positions, hops], axis=1)
    found = screen(ps.Markers(names, places, markers.fps, markers.up))
    assert found.columns is None
    assert (found.notes, found.doubts) == ((), ())


@pytest.mark.parametrize(
    "pairs",
    [[("LFWT", "LBWT")], [("LFWT", "LBWT"), ("RFWT", "RBWT")], [("LFHD", "LBHD"), ("RFHD", "RBHD")], [("CLAV", "C7")]],
)
def test_front_and_back_exchanged_for_a_whole_take(human, markers, clean, pairs):
    off, said = displaced(human, exchanged(markers, pairs), clean)
    assert off < 1e-9
    assert "labels swapped" in said


def test_legs_alone_tell_front_from_back_and_left_from_right(markers):
    legs = markers.select([name for name in markers.names if name[1:] in LEG])
    assert screen(legs).notes == ()
    for pairs in ([("LFWT", "LBWT"), ("RFWT", "RBWT")], [(n, "R" + n[1:]) for n in legs.names if n[0] == "L"]):
        spoilt = exchanged(legs, pairs)
        assert np.array_equal(screen(spoilt).read(spoilt.positions, 0, len(spoilt)), legs.positions)


@pytest.mark.parametrize("rise", [0.02, 0.25])
def test_a_volume_that_was_calibrated_anew_is_named(markers, rise):
    places = markers.positions.copy()
    places[120:, :, 1] += rise
    found = screen(replace(markers, positions=places))
    assert "all markers jump at frame 120:" in found.doubts[0]
    assert found.columns is None or (found.columns >= 0).all()


def test_markers_that_jump_together_and_stay_are_named(markers):
    places = markers.positions.copy()
    head = [markers.index(name) for name in ("LFHD", "RFHD", "LBHD", "RBHD")]
    places[120:, head] += 0.05
    found = screen(replace(markers, positions=places))
    assert "jump together and stay there: LFHD, LBHD, RFHD, RBHD at frame 120" in found.doubts[0]


@pytest.mark.parametrize("seed", range(4))
def test_markers_that_come_back_after_a_burst_of_noise_do_not_stay_elsewhere(markers, seed):
    rng = np.random.default_rng(seed)
    places = markers.positions.copy()
    for start in (50, 110, 170):
        length = int(rng.integers(5, 15))
        places[start : start + length, rng.integers(0, 41, 3)] += rng.normal(0.0, 0.3, (length, 3, 3))
    found = screen(replace(markers, positions=places))
    assert not any("stay there" in doubt for doubt in found.doubts)


def test_markers_that_flicker_change_nothing(human, markers, clean):
    rng = np.random.default_rng(2)
    places = markers.positions.copy()
    places[rng.random(places.shape[:2]) < 0.4] = np.nan
    flickering = replace(markers, positions=places)
    assert screen(flickering).notes == ()
    off, said = displaced(human, flickering, clean)
    assert off < 0.002
    assert said.splitlines()[-1]


@pytest.mark.parametrize("mark", ["Ann:{}", "Ann_{}", "Ann|{}"])
def test_of_two_subjects_the_first_is_used_and_that_is_said(human, markers, clean, mark):
    names = (*(mark.format(name) for name in markers.names), *(f"Bob{mark[3]}{name}" for name in markers.names))
    places = np.concatenate([markers.positions, markers.positions[::-1] + np.array([1.5, 0.0, 0.0])], axis=1)
    off, said = displaced(human, replace(markers, names=names, positions=places), clean)
    assert off < 1e-9
    assert "markers of 2 subjects (Ann, Bob)" in said


def test_noise_is_not_spoken_of_at_rates_at_which_motion_looks_like_it(markers):
    rng = np.random.default_rng(0)
    noisy = markers.positions + rng.normal(0.0, 0.006, markers.positions.shape)
    assert any("noisy" in text for text in screen(replace(markers, positions=noisy)).doubts)
    assert screen(replace(markers, positions=noisy, fps=12.0)).doubts == ()
