"""A scene: what it has, what it lacks, and copies of it with changes."""

import copy

import numpy as np
import pytest

import posable as ps


def markers():
    return ps.Markers(("a", "b"), np.zeros((5, 2, 3)), 30.0)


def test_a_missing_skeleton_is_an_error_that_says_what_is_there():
    scene = ps.Scene(markers=markers(), name="take")
    assert not scene.has_skeleton
    with pytest.raises(ps.errors.FormatError, match="scene 'take': expected a skeleton, found 2 markers"):
        _ = scene.skeleton
    with pytest.raises(ps.errors.FormatError, match="expected a skeleton, found nothing"):
        _ = ps.Scene().skeleton
    assert "2 markers" in scene.summary()
    assert repr(scene).startswith("<Scene 'take': ")


def test_a_skeleton_is_read_and_kept():
    arm = ps.figures.planar_arm()
    scene = ps.Scene(arm, name="arm")
    assert scene.has_skeleton
    assert scene.skeleton is arm
    assert copy.copy(scene).skeleton is arm
    with pytest.raises(AttributeError):
        scene.skeleton = arm  # type: ignore[misc]  # it must raise


def test_replace_changes_what_it_is_given_with_and_without_a_skeleton():
    alone = ps.Scene(markers=markers(), name="take", notes=("one",))
    renamed = alone.replace(name="other")
    assert (renamed.name, renamed.notes, renamed.markers) == ("other", ("one",), alone.markers)
    assert not renamed.has_skeleton
    arm = ps.figures.planar_arm()
    both = alone.replace(skeleton=arm)
    assert both.skeleton is arm
    assert not both.replace(skeleton=None).has_skeleton
