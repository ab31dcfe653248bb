"""The spider and the tree."""

import numpy as np
import pytest

import posable as ps


def test_spider_stands_on_eight_feet():
    spider = ps.figures.spider()
    assert spider.size == 6 + 8 * 4
    assert np.isfinite([spider.lower, spider.upper]).all()
    frames = ps.forward(spider, spider.rest)
    feet = np.array([frames.position(f"foot.{leg}") for leg in range(1, 9)])
    np.testing.assert_allclose(feet[:, 1], 0.0, atol=1e-12)
    assert frames.position("body")[1] > 0.15
    np.testing.assert_allclose(feet[:4] * (-1, 1, 1), feet[4:], atol=1e-12)  # left and right, front to back
    assert (feet[:4, 0] > 0.2).all()
    assert (np.diff(feet[:4, 2]) < -0.05).all()
    np.testing.assert_allclose(frames.center_of_mass()[[0, 2]], 0.0, atol=1e-12)


@pytest.mark.parametrize("leg", range(1, 9))
def test_each_leg_is_a_branch_of_its_own(leg):
    spider = ps.figures.spider()
    moved = spider.pose({f"hip.{leg}": (0.2, 0.3), f"knee.{leg}": -1.0, f"ankle.{leg}": 0.1})
    before, after = ps.forward(spider, spider.rest), ps.forward(spider, moved)
    for other in range(1, 9):
        distance = np.linalg.norm(after.position(f"foot.{other}") - before.position(f"foot.{other}"))
        assert (distance > 0.05) == (other == leg)


def test_tree_is_rabbani_2017s():
    tree = ps.figures.tree()
    assert tree.size == 30
    assert sum(isinstance(joint.motion, ps.Ball) for joint in tree.joints) == 8
    assert isinstance(tree.joints[0].motion, ps.Free)
    assert tree.site_names == tuple(f"end{i}" for i in range(1, 7))
    parents = {joint.parent for joint in tree.joints}
    leaves = [joint.name for joint in tree.joints if joint.name not in parents]
    assert sorted(leaves) == sorted(site.joint for site in tree.sites)
