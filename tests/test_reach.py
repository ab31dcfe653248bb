"""The workspace: what can be reached, and how well."""

import json

import numpy as np
import pytest

import posable as ps
from posable.cli.main import main


def test_the_grid_of_a_limb():
    skeleton = ps.figures.limb()
    reach = ps.reach(skeleton, "hand", grid=0.15)
    assert reach.points.shape[1] == 3
    assert 0 < reach.reachable.sum() < len(reach.points)
    assert np.all(np.linalg.norm(reach.points, axis=1) <= 0.65 + 1e-9)
    assert reach.volume == pytest.approx(reach.reachable.sum() * 0.15**3)
    assert np.all(reach.shell <= reach.reachable)
    poses = reach.poses[reach.reachable]
    hands = ps.forward(skeleton, poses).position("hand")
    assert np.abs(hands - reach.points[reach.reachable]).max() < 1e-8
    assert np.all(poses >= skeleton.lower)
    assert np.all(poses <= skeleton.upper)
    assert np.all(reach.clearance[reach.reachable] >= 0.0)
    assert np.all(np.isnan(reach.clearance[~reach.reachable]))


def test_every_place_of_a_pose_inside_the_limits_is_reachable():
    skeleton = ps.figures.limb()
    poses = np.random.default_rng(1).uniform(skeleton.lower, skeleton.upper, (60, 7))
    places = ps.forward(skeleton, poses).position("hand")
    shares = []
    reach = ps.reach(skeleton, "hand", places, progress=shares.append)
    assert reach.reachable.all()
    assert np.isnan(reach.volume)
    assert shares[-1] == 1.0


@pytest.mark.parametrize(("figure", "share"), [("limb", 1.0), ("panda", 0.97)])  # without a limb it is a search
def test_no_pose_inside_the_limits_is_much_clearer_of_them(figure, share):
    """Each point is the place of a pose of known clearance: the one found must be as good, to what is promised."""
    skeleton = ps.figures.get(figure)
    site, rng = skeleton.site_names[0], np.random.default_rng(2)
    half = 0.5 * float(np.min(skeleton.upper - skeleton.lower))
    margin = rng.uniform(0.0, 0.9 * half, (80, 1))
    poses = rng.uniform(skeleton.lower + margin, skeleton.upper - margin)
    known = np.minimum(poses - skeleton.lower, skeleton.upper - poses).min(axis=1)
    reach = ps.reach(skeleton, site, ps.forward(skeleton, poses).position(site))
    assert np.mean(reach.clearance >= known - half / 15.0) >= share
    room = np.minimum(reach.poses - skeleton.lower, skeleton.upper - reach.poses).min(axis=1)
    assert np.array_equal(room, reach.clearance)


def test_dexterity_is_the_share_of_orientations():
    skeleton = ps.figures.limb().with_limits({"shoulder": None, "wrist": None, "elbow": (-3.1, 3.1)})
    reach = ps.reach(skeleton, "hand", [(0.3, 0.0, 0.0), (0.62, 0.0, 0.0), (5.0, 0.0, 0.0)], orientations=24)
    assert reach.dexterity[0] == 1.0
    assert 0.0 < reach.dexterity[1] < 1.0
    assert reach.dexterity[2] == 0.0
    assert reach.dexterous.tolist() == [True, False, False]


def test_a_robot_without_a_limb_goes_by_newton():
    skeleton = ps.figures.panda()
    site = skeleton.site_names[0]
    place = ps.forward(skeleton, skeleton.rest).position(site)
    reach = ps.reach(skeleton, site, [place, place + np.array([0, 0, 5.0])])
    assert reach.reachable.tolist() == [True, False]


def test_the_command_line(capsys):
    assert main(["reach", "limb", "--site", "hand", "--at", "0.4,0.1,0.1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["reachable"] == 1
    assert main(["reach", "limb", "--site", "hand", "--at", "4,0,0"]) == 1
    assert "out of reach" in capsys.readouterr().out
    assert main(["reach", "limb", "--site", "hnd"]) == 2
    assert main(["reach", "limb", "--site", "hand", "--at", "1,2"]) == 2


@pytest.mark.parametrize("grid", [1e-3, 1e-300, 1e-310])
def test_a_grid_that_is_too_fine_is_refused_with_the_finest(grid):
    with pytest.raises(ps.errors.GoalError, match=r"grid: expected at least 0\.\d+ m here"):
        ps.reach(ps.figures.limb(), "hand", grid=grid)
