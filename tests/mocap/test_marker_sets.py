"""Labels of the usual marker sets, plain words, and points that are no markers."""

from dataclasses import replace

import numpy as np
import pytest

import posable as ps
from posable.mocap.marker_sets import (
    CLUSTERS,
    MIDDLE,
    SETS,
    SIDED,
    is_virtual,
    listed,
    mirrored_name,
    place_name,
    placement_of,
)


@pytest.mark.parametrize(
    ("label", "place"),
    [
        ("Daniel:LFHD", "LFHD"), ("l thigh", "LTHI"), ("left_knee_lat", "LKNE"), ("R.Ankle", "RANK"),
        ("R.Knee.Medial", "RKNM"), ("WaistLFront", "LFWT"), ("LKneeOut", "LKNE"), ("LASI", "LFWT"), ("LTIB", "LSHN"),
        ("Skeleton 001:LShoulderBack", "LSHOB"), ("LeftForeArm", "LFRM"), ("RLE", "RKNE"), ("V.Sacral", "SACR"),
        ("Head_Top", "ARIEL"), ("RForefoot5", "RMT5"), ("right heel", "RHEE"), ("lknee", "LKNE"), ("C7", "C7"),
        ("RTH1", "Ron thigh"), ("L.SH3", "Lon shank"), ("RTB2", "Ron shank"), ("pv4", "on pelvis"),
        ("LUA3", "Lon upper arm"),
        ("Skeleton_RHand2", "Ron hand"), ("RFA01", "Ron forearm"), ("R.MT5", "RMT5"), ("LKNEin", "LKNM"),
        ("RLMAL", "RANK"), ("L.MKnee", "LKNM"), ("RFAulna", "RWRB"), ("R.Thigh.Upper", "Ron thigh"),
        ("LIAS", "LFWT"), ("R_FLE", "RKNE"), ("L_TAM", "LANM"), ("RFCC", "RHEE"), ("LHME", "LELM"), ("TV10", "T10"),
        ("RLKNE", "RKNE"), ("LMA", "LANM"), ("R5MET", "RMT5"), ("L_ELB_M", "LELM"), ("R_WRI_U", "RWRB"),
        ("LTHAP", "LTHF"), ("RHLX", "RTTP"), ("LFArm", "LFRM"), ("BackL", "LBAC"), ("RTHMB", "RIDX"),
        ("LBCEP", "LUPA"), ("left_5th_metatarsal", "LMT5"), ("right_great_toe", "RTTP"),
        ("left_femoral_condyle_lateral", "LKNE"), ("LHip", "LHIP"), ("Nose", "HEADF"), ("Hip", "on pelvis"),
        ("r should", "RSHO"), ("L.Epi.Med", "LELM"), ("RIDX3", "RIDX"), ("T10", "T10"), ("LMT5", "LMT5"),
    ],
)  # fmt: skip
def test_labels_mean_places(label, place):
    found = placement_of(label)
    assert found is not None
    assert found[2] == place


@pytest.mark.parametrize("label", ["M001", "*12", "point7", "Unlabeled_3", ""])
def test_labels_that_say_nothing(label):
    assert placement_of(label) is None


@pytest.mark.parametrize(
    "label",
    [
        "PELO",
        "LFEA",
        "RTIL",
        "LHipAngles",
        "RKneeMoment",
        "CentreOfMass",
        "LGroundReactionForce",
        "LKneeAnglesV",
        "R_HJC",
        "LeftHipCenter",
    ],
)
def test_points_that_a_model_computed_are_no_markers(label):
    assert is_virtual(f"Subject:{label}")
    assert placement_of(label) is None


def test_every_set_leads_to_places():
    for labels in (*SETS.values(), CLUSTERS):
        for label, place in labels.items():
            for side in "LR" if "*" in label else [""]:
                target = place.replace("*", side)
                assert target in MIDDLE or target[1:] in SIDED, label
                assert not is_virtual(label.replace("*", side)), label


@pytest.mark.parametrize(
    ("label", "other"),
    [("LKNE", "RKNE"), ("left_knee_lat", "right_knee_lat"), ("WaistLFront", "WaistRFront"), ("C7", "C7")],
)
def test_mirrored_labels(label, other):
    assert mirrored_name(label) == other
    assert mirrored_name(other) == label


@pytest.mark.parametrize(
    ("label", "place"),
    [("Subject_LASI", "LFWT"), ("Actor01|LFHD", "LFHD"), ("S1.RKNE", "RKNE"), ("x-C7", "C7"), ("rtoe", "RTOE")],
)
def test_a_subject_before_the_label_is_dropped_however_it_is_written(label, place):
    assert place_name(label) == place


def test_labels_of_other_sets_start_from_the_sites_of_the_figure(human, markers):
    renamed = replace(markers, names=tuple(f"Subject_{name.lower()}" for name in markers.names))
    ours, theirs = ps.calibrate(human, markers), ps.calibrate(human, renamed)
    assert np.array_equal(ours.info["calibration_poses"], theirs.info["calibration_poses"])


@pytest.mark.parametrize(
    ("label", "place"),
    [("IJ", "CLAV"), ("PX", "STRN"), ("VSAC", "SACR"), ("ROFF", "RBAC"), ("LWRI", "LWRA"), ("RSHA", "RSHN")],
)
def test_labels_of_clinical_sets(label, place):
    assert place_name(label) == place


def test_markers_without_a_label_and_results_of_a_model_are_counted():
    assert listed(("LKNE", "*1", "*2", "LHipAngles")) == "LKNE, 2 without a label, 1 computed by a model"
    assert listed(("LKNE", "RKNE")) == "LKNE, RKNE"
    assert not listed(())
