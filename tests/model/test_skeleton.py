"""Skeletons: what is wrong is all said at once; what is right is frozen, pickled and asked by name."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.spatial.transform import Rotation

import posable as ps
from posable.errors import PosableError, SkeletonError, UnknownName
from posable.model.shapes import box, sphere


@pytest.fixture
def arm():
    return ps.Skeleton(
        [
            ps.Joint("elbow", ps.Revolute("y"), "shoulder", offset=(0.3, 0, 0), limits=(0.0, 2.5), rest=0.4),
            ps.Joint("shoulder", ps.Ball("zyx"), "base", limits=[(-1, 1), (-np.inf, 2), (-3, 3)], gain=(1, 2, 3)),
            ps.Joint("base", ps.Free("rotvec")),
            ps.Joint("plate", ps.Fixed(), "elbow", offset=(0.1, 0, 0)),
        ],
        [ps.Site("hand", "plate", (0.2, 0, 0))],
        "arm",
    )


def test_parents_come_first_and_names_follow(arm):
    assert arm.names == ("base", "shoulder", "elbow", "plate")
    assert arm.dof_names[:3] == ("base.tx", "base.ty", "base.tz")
    assert arm.dof_names[6:] == ("shoulder.z", "shoulder.y", "shoulder.x", "elbow")
    assert arm.size == 10
    assert arm.index("elbow") == slice(9, 10)
    assert arm.index("plate") == slice(10, 10)
    assert arm.site_names == ("hand",)
    assert arm.joint("elbow").name == "elbow"
    assert arm.dof("shoulder.y") == 7
    assert repr(arm) == "<Skeleton 'arm': 4 joints, 10 degrees of freedom, 1 sites>"


def test_the_tree_is_asked_by_name(arm):
    assert arm.carrier("hand") == "plate"
    assert arm.carrier("elbow") == "elbow"
    assert arm.path_to("plate") == arm.names
    assert arm.below("shoulder") == ("elbow", "plate")
    assert arm.below("plate") == ()
    for ask in (arm.carrier, arm.path_to, arm.below):
        with pytest.raises(UnknownName, match="did you mean 'elbow'"):
            ask("elbo")


def test_limits_rest_and_gains(arm):
    assert arm.lower[6:].tolist() == [-1, -np.inf, -3, 0]
    assert arm.upper[6:].tolist() == [1, 2, 3, 2.5]
    assert arm.rest[9] == 0.4
    assert arm.gain[6:].tolist() == [1, 2, 3, 1]
    assert np.isinf(arm.lower[:6]).all()


def test_rest_is_within_the_limits():
    arm = ps.Skeleton([ps.Joint("a", ps.Revolute("x"), limits=(0.5, 1.0))])
    assert arm.rest[0] == 0.5


def test_poses_by_name(arm):
    pose = arm.pose({"elbow": 0.3, "shoulder": (0, 0.1, 0.2), "base.ty": 1.5})
    assert pose[arm.index("shoulder")].tolist() == [0, 0.1, 0.2]
    assert pose[9] == 0.3
    assert pose[1] == 1.5
    assert np.array_equal(arm.pose(), arm.rest)
    with pytest.raises(PosableError, match="did you mean 'elbow'"):
        arm.pose({"elbw": 1.0})
    with pytest.raises(SkeletonError, match="expected 3 numbers"):
        arm.pose({"shoulder": (1, 2)})


def test_unknown_names_suggest(arm):
    for ask in (arm.index, arm.joint, arm.frame):
        with pytest.raises(PosableError, match="did you mean 'elbow'"):
            ask("elbwo")
    with pytest.raises(PosableError, match=r"did you mean 'base\.t"):
        arm.dof("base.tc")


FAULTS = {
    "no joints": ([], "at least one joint"),
    "unknown parent": (
        [ps.Joint("arm", ps.Fixed()), ps.Joint("b", ps.Fixed(), "amr")],
        "unknown parent 'amr'.*did you mean 'arm'",
    ),
    "two roots": ([ps.Joint("a", ps.Fixed()), ps.Joint("b", ps.Fixed())], "expected one root.*got 2: 'a', 'b'"),
    "cycle": (
        [ps.Joint("r", ps.Fixed()), ps.Joint("a", ps.Fixed(), "b"), ps.Joint("b", ps.Fixed(), "a")],
        "cycle: 'a' -> 'b' -> 'a'",
    ),
    "its own parent": ([ps.Joint("r", ps.Fixed()), ps.Joint("a", ps.Fixed(), "a")], "cycle: 'a' -> 'a'"),
    "duplicate": ([ps.Joint("a", ps.Fixed()), ps.Joint("a", ps.Fixed(), "a")], "'a' appears 2 times"),
    "empty name": ([ps.Joint("", ps.Fixed())], "non-empty string"),
    "no motion": ([ps.Joint("a", "revolute")], "motion: expected"),
    "zero axis": ([ps.Joint("a", ps.Revolute((0, 0, 0)))], "'a': axis must be"),
    "euler order": ([ps.Joint("a", ps.Ball("xxy"))], "rotation order"),
    "inverted limits": ([ps.Joint("a", ps.Revolute("x"), limits=(2, 1))], "lower 2 is above upper 1"),
    "inverted limits of one": ([ps.Joint("a", ps.Universal("xy"), limits=[(0, 1), (2, 1)])], "limits of y: lower 2"),
    "NaN limits": ([ps.Joint("a", ps.Revolute("x"), limits=(np.nan, 1))], "limits: expected"),
    "shape of limits": ([ps.Joint("a", ps.Ball("xyz"), limits=[(0, 1), (0, 1)])], r"or \(3, 2\) numbers"),
    "NaN offset": ([ps.Joint("a", ps.Fixed(), offset=(0, np.nan, 0))], "offset: expected three finite"),
    "word for offset": ([ps.Joint("a", ps.Fixed(), offset="far")], "offset: expected three finite"),
    "not a rotation": ([ps.Joint("a", ps.Fixed(), rotation=2 * np.eye(3))], "rotation: expected"),
    "mirror": ([ps.Joint("a", ps.Fixed(), rotation=np.diag([1, 1, -1]))], "rotation: expected"),
    "NaN rest": ([ps.Joint("a", ps.Revolute("x"), rest=np.nan)], "rest: expected"),
    "count of rest": ([ps.Joint("a", ps.Ball("xyz"), rest=(1, 2))], "rest: expected a number or 3"),
    "negative gain": ([ps.Joint("a", ps.Revolute("x"), gain=-1)], "gain: expected non-negative numbers"),
    "negative mass": ([ps.Joint("a", ps.Revolute("x"), mass=-1)], "mass: expected"),
    "NaN mass": ([ps.Joint("a", ps.Revolute("x"), mass=np.nan)], "mass: expected"),
    "frozen count": ([ps.Joint("a", ps.Ball("xyz"), frozen=(True, False))], "frozen: expected True, False or 3"),
    "the world's name": (
        [ps.Joint("world", ps.Fixed(), offset=(0, 0, 1))],
        "joint 'world': that name is reserved for the world",
    ),
    "one name for two dofs": (
        [ps.Joint("a", ps.Ball("zyx")), ps.Joint("a.z", ps.Revolute("x"), "a")],
        "'a.z' belongs to several joints: 'a' and 'a.z'",
    ),
    "NaN centre": ([ps.Joint("a", ps.Revolute("x"), center=(np.nan, 0, 0))], "center: expected"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_reported(fault):
    joints, said = FAULTS[fault]
    with pytest.raises(SkeletonError, match=said):
        ps.Skeleton(joints)


SITES = {
    "unknown joint": ([ps.Site("s", "elbwo")], "unknown joint 'elbwo'.*did you mean 'elbow'"),
    "duplicate": ([ps.Site("s", "elbow"), ps.Site("s", "elbow")], "site 's' appears 2 times"),
    "NaN offset": ([ps.Site("s", "elbow", (np.nan, 0, 0))], "site 's': offset"),
    "empty name": ([ps.Site("", "elbow")], "non-empty string"),
    "the world's name": ([ps.Site("world", "elbow")], "site 'world': that name is reserved for the world"),
}


@pytest.mark.parametrize("fault", SITES)
def test_a_fault_of_a_site_is_reported(fault):
    sites, said = SITES[fault]
    with pytest.raises(SkeletonError, match=said):
        ps.Skeleton([ps.Joint("elbow", ps.Revolute("x"))], sites)


def test_all_faults_are_reported_at_once():
    joints = [
        ps.Joint("a", ps.Revolute((0, 0, 0))),
        ps.Joint("b", ps.Revolute("x"), "c", limits=(2, 1), offset=(np.inf, 0, 0)),
        ps.Joint("b", ps.Ball("zyx"), "a", gain=-1),
    ]
    with pytest.raises(SkeletonError) as caught:
        ps.Skeleton(joints, [ps.Site("s", "d")], up="x")
    for said in (
        "axis must be",
        "unknown parent 'c'",
        "lower 2 is above",
        "offset",
        "'b' appears 2",
        "gain",
        "unknown joint 'd'",
        "up:",
    ):
        assert said in str(caught.value)


def test_a_skeleton_is_frozen(arm):
    with pytest.raises(AttributeError, match="replace"):
        arm.name = "other"
    for array in (arm.lower, arm.rest, arm.gain, arm.frozen, arm.frame_positions, *arm.figure, *arm.order):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    with pytest.raises(TypeError):
        arm.info["note"] = 1


def test_what_was_given_can_change_without_harm():
    offset = np.array([1.0, 0.0, 0.0])
    arm = ps.Skeleton([ps.Joint("a", ps.Revolute("z")), ps.Joint("b", ps.Revolute("z"), "a", offset=offset)])
    offset[0] = 99.0
    assert ps.forward(arm, arm.rest).position("b")[0] == 1.0


def test_pickles_to_the_same(arm):
    twin = pickle.loads(pickle.dumps(arm.replace(info={"file": "x"}, up="z")))
    assert repr(twin) == repr(arm)
    assert twin.up == "z"
    assert twin.info["file"] == "x"
    pose = np.linspace(-1, 1, arm.size)
    assert np.array_equal(ps.forward(twin, pose).matrix("hand"), ps.forward(arm, pose).matrix("hand"))
    assert not twin.lower.flags.writeable


def test_new_skeletons_from_old(arm):
    frozen = arm.freeze(["elbow"])
    assert frozen.frozen.tolist() == [False] * 9 + [True]
    assert not arm.frozen.any()
    loose = arm.with_limits({"elbow": None, "shoulder": (-0.5, 0.5)})
    assert loose.upper[6:].tolist() == [0.5, 0.5, 0.5, np.inf]
    assert arm.replace(name="b").name == "b"
    with pytest.raises(PosableError, match="did you mean 'name'"):
        arm.replace(nme="b")
    with pytest.raises(PosableError, match="did you mean 'elbow'"):
        arm.freeze("elbo")
    with pytest.raises(PosableError, match="did you mean 'elbow'"):
        arm.with_limits({"elbo": None})


def test_rotations_are_scipys_or_matrices():
    turn = Rotation.from_euler("ZYX", (0.1, 0.2, 0.3))
    made = [
        ps.Skeleton([ps.Joint("a", ps.Fixed(), rotation=r)])
        for r in (turn, turn.as_matrix(), turn.as_matrix().tolist())
    ]
    matrices = [ps.forward(s, np.zeros(0)).matrix("a") for s in made]
    assert np.allclose(matrices[0], matrices[1])
    assert np.allclose(matrices[0], matrices[2])


def test_a_fixed_joint_costs_no_body(arm):
    assert arm.figure.body.shape[0] == 3
    assert arm.frame_bodies[arm.frame("plate")] == 2


def test_one_degree_of_freedom_by_name(arm):
    assert arm.index("shoulder.y") == slice(7, 8)
    frozen = arm.freeze(["shoulder.y", "elbow"])
    assert np.flatnonzero(frozen.frozen).tolist() == [7, 9]
    assert np.flatnonzero(frozen.freeze("shoulder").frozen).tolist() == [6, 7, 8, 9]
    assert frozen.freeze("shoulder.z").frozen[[6, 7, 9]].all()
    narrow = arm.with_limits({"shoulder.y": (-0.1, 0.2), "shoulder.x": None})
    assert narrow.lower[6:9].tolist() == [-1, -0.1, -np.inf]
    assert narrow.upper[6:9].tolist() == [1, 0.2, np.inf]
    both = arm.with_limits({"shoulder.z": (0.0, 0.1), "shoulder": (-2, 2)})  # the joint first, whatever the order
    assert both.lower[6:9].tolist() == [0, -2, -2]
    with pytest.raises(SkeletonError, match=r"limits of 'shoulder\.z': expected \(lower, upper\)"):
        arm.with_limits({"shoulder.z": [(0, 1)]})
    with pytest.raises(PosableError, match=r"did you mean 'shoulder\.z'"):
        arm.freeze("sholder.z")
    held = ps.solve(frozen, ps.goals.Position("hand", (0.2, 0.3, 0.1)), start=arm.pose({"shoulder": (0.1, 0.2, 0.3)}))
    assert held.pose[7] == 0.2
    assert held.pose[6] != 0.1


def test_equality_is_by_content(arm):
    twin = pickle.loads(pickle.dumps(arm))
    assert twin is not arm
    assert twin == arm
    assert hash(twin) == hash(arm)
    assert len({arm, twin}) == 1
    assert arm.replace(info={"file": "x"}) == arm
    others = [
        arm.freeze("elbow"), arm.freeze("shoulder.z"), arm.with_limits({"elbow": (0.0, 2.4)}), arm.replace(name="b"),
        arm.replace(up="z"), arm.replace(sites=()), arm.replace(couplings=[("elbow", "shoulder.z", 1.0, 0.0)]),
        arm.replace(sites=[ps.Site("hand", "plate", (0.2, 0, 0.1))]),
    ]  # fmt: skip
    assert len({arm, *others}) == 1 + len(others)
    assert arm != "arm"
    same = [
        ps.Skeleton([ps.Joint("a", ps.Revolute(axis), rotation=r)]) for axis, r in (("z", None), ((0, 0, 1), np.eye(3)))
    ]
    assert same[0] == same[1]


def test_a_site_with_the_name_of_a_joint_is_what_goals_mean():
    skeleton = ps.Skeleton([ps.Joint("elbow", ps.Revolute("z"))], [ps.Site("elbow", "elbow", (1.0, 0.0, 0.0))])
    np.testing.assert_allclose(ps.forward(skeleton, [0.0]).position("elbow"), (1.0, 0.0, 0.0))
    assert skeleton.index("elbow") == slice(0, 1)


def test_shapes_loops_pairs_and_poses_are_checked_and_kept():
    joints = [ps.Joint("a", ps.Free()), ps.Joint("b", ps.Ball("zyx"), "a")]
    shapes = [sphere("a", 0.1, name="ball"), box("b", (1.0, 2.0, 3.0)).moved("b", (0.0, 0.0, 1.0))]
    skeleton = ps.Skeleton(
        joints, shapes=shapes, loops=[("a", "b", True)], disabled_pairs=[("a", "b")], named_poses={"up": range(9)}
    )
    for copy in (pickle.loads(pickle.dumps(skeleton)), skeleton.replace(name=""), skeleton.freeze("b").freeze(())):
        assert copy.shapes[1].content() == skeleton.shapes[1].content()
        assert copy.loops == (("a", "b", True),)
        np.testing.assert_array_equal(copy.named_poses["up"], np.arange(9.0))
    assert skeleton == skeleton.replace(info={"x": 1})
    assert skeleton != skeleton.replace(shapes=shapes[:1])
    with pytest.raises(SkeletonError, match="unknown joint 'c'"):
        skeleton.replace(shapes=[sphere("c", 0.1)])
    with pytest.raises(SkeletonError, match="unknown frame 'c'"):
        skeleton.replace(loops=[("a", "c", False)])
    with pytest.raises(SkeletonError, match="pair of bodies: unknown joint 'c'"):
        skeleton.replace(disabled_pairs=[("a", "c")])
    with pytest.raises(SkeletonError, match="radius: expected a non-negative number"):
        skeleton.replace(shapes=[sphere("a", -1.0)])
    with pytest.raises(SkeletonError, match="expected 9 finite numbers"):
        skeleton.replace(named_poses={"down": [0.0]})


@given(hnp.arrays(float, (3, 10), elements=st.floats(-3.0, 3.0)))
def test_qpos_converts_both_ways(poses):
    joints = [
        ps.Joint("root", ps.Free("rotvec"), offset=(1.0, 2.0, 3.0), rotation=Rotation.from_rotvec([0.1, 0.2, 0.3])),
        ps.Joint("ball", ps.Ball("zyx"), "root"),
        ps.Joint("hinge", ps.Revolute("x"), "ball"),
    ]
    skeleton = ps.Skeleton(joints)
    qpos = skeleton.to_qpos(poses)
    assert qpos.shape == (3, 12)
    back = skeleton.from_qpos(qpos)
    before, after = ps.forward(skeleton, poses), ps.forward(skeleton, back)
    np.testing.assert_allclose(after.matrix("hinge"), before.matrix("hinge"), atol=1e-12)
    np.testing.assert_allclose(before.position("root"), qpos[:, :3], atol=1e-12)
    np.testing.assert_allclose(back[:, 9], poses[:, 9])
    with pytest.raises(SkeletonError, match=r"expected shape \(..., 12\)"):
        skeleton.from_qpos(poses)


def test_a_figure_with_other_offsets_is_that_made_anew():
    figure = ps.figures.human()
    rng = np.random.default_rng(3)
    joints = [
        replace(j, offset=rng.normal(size=3), center=rng.normal(size=3)) if j.parent else j for j in figure.joints
    ]
    sites = [replace(site, offset=rng.normal(size=3)) for site in figure.sites]
    moved, anew = figure.moved(joints, sites), figure.replace(joints=joints, sites=sites)
    assert moved == anew
    pose = figure.rest + rng.normal(0.0, 0.3, figure.size)
    for name in (*figure.names, *figure.site_names):
        ours, theirs = ps.forward(moved, pose), ps.forward(anew, pose)
        np.testing.assert_allclose(ours.position(name), theirs.position(name), atol=1e-13)
        np.testing.assert_allclose(ours.rotation_matrix(name), theirs.rotation_matrix(name), atol=1e-13)
    np.testing.assert_allclose(moved.figure.mass, anew.figure.mass, atol=1e-15)
    assert not np.shares_memory(moved.frame_positions, figure.frame_positions)


def test_figures_of_other_lengths_have_other_hashes():
    """Otherwise a cache of many arms with the same names compares them all, number by number."""
    rows = [(0.1, 1.2, 0.2, 0), (0.3, -0.9, 0.1, 0)]
    arms = [ps.from_dh([(a + 0.01 * k, alpha, d, theta) for a, alpha, d, theta in rows]) for k in range(8)]
    assert len({hash(arm) for arm in arms}) == 8
    assert hash(ps.from_dh(rows)) == hash(arms[0])
    assert ps.from_dh(rows) == arms[0]


@pytest.mark.parametrize(("up", "vector"), [("y", (0, 1, 0)), ("z", (0, 0, 1)), (None, (0, 0, 1))])
def test_z_is_up_where_a_figure_states_no_axis(up, vector):
    figure = ps.figures.human().replace(up=up)
    assert np.array_equal(figure.up_vector, vector)
    assert figure.up_vector[figure.up_axis] == 1.0
    assert np.array_equal(ps.body_plan(figure).up, vector)


def test_rigid_bones_freeze_the_translations_inside_a_figure():
    joints = [
        ps.Joint("scene", ps.Fixed()),
        ps.Joint("root", ps.Free(), "scene"),
        ps.Joint("bone", ps.Free(), "root", offset=(0, 0.3, 0)),
        ps.Joint("slide", ps.Prismatic("x"), "bone"),
    ]
    figure = ps.Skeleton(joints).with_rigid_bones()
    held = [name for name, frozen in zip(figure.dof_names, figure.frozen, strict=True) if frozen]
    assert held == ["bone.tx", "bone.ty", "bone.tz"]
    assert figure.with_rigid_bones() is figure
    assert not figure.unfreeze("bone").frozen.any()
    assert figure.free_root == "root"
    assert ps.Skeleton(joints[:1]).free_root is None
