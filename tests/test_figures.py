"""The built-in figures."""

import inspect
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import posable as ps
from posable.errors import SkeletonError, UnknownName
from posable.figures import HDM05_MARKERS, MIRROR

# --- Every figure ---

SIZES = {"human": 71, "limb": 7, "planar_arm": 3, "panda": 7, "spider": 38, "tree": 30}


def random_poses(skeleton, count=20, seed=0):
    """Return poses (count, n) within the limits, within a turn where there are none."""
    rng = np.random.default_rng(seed)
    lower = np.where(np.isfinite(skeleton.lower), skeleton.lower, -np.pi)
    upper = np.where(np.isfinite(skeleton.upper), skeleton.upper, np.pi)
    return rng.uniform(lower, upper, (count, skeleton.size))


def test_names():
    assert set(ps.figures.names()) == set(SIZES)
    assert set(SIZES) <= set(dir(ps.figures))


def test_a_misspelt_name_suggests():
    with pytest.raises(UnknownName, match="did you mean 'human'"):
        ps.figures.get("humman")
    with pytest.raises(AttributeError, match="did you mean 'human'"):
        ps.figures.humman  # noqa: B018


@pytest.mark.parametrize("name", SIZES)
def test_by_name_and_by_function(name):
    function = getattr(ps.figures, name)
    assert inspect.isfunction(function)
    assert inspect.getdoc(function)
    figure, same = ps.figures.get(name), function()
    assert figure.name == same.name == name
    assert figure.size == same.size == SIZES[name]
    assert figure.dof_names == same.dof_names
    assert getattr(ps.figures, name) is function


def test_options_reach_the_function():
    assert ps.figures.get("planar_arm", lengths=(1, 1)).size == 2


@pytest.mark.parametrize("name", SIZES)
def test_forward_is_finite(name):
    figure = ps.figures.get(name)
    for pose in (figure.rest, random_poses(figure)):
        frames = ps.forward(figure, pose)
        for frame in (*figure.names, *figure.site_names):
            assert np.isfinite(frames.matrix(frame)).all()


@pytest.mark.parametrize("name", SIZES)
def test_rest_is_well_inside_the_limits(name):
    figure = ps.figures.get(name)
    assert (figure.rest - figure.lower > np.radians(1.5)).all()
    assert (figure.upper - figure.rest > np.radians(1.5)).all()


@pytest.mark.parametrize("name", SIZES)
def test_no_name_means_a_joint_and_a_site(name):
    figure = ps.figures.get(name)
    assert not set(figure.names) & set(figure.site_names)


# --- The human ---

LEGS = ("hip", "knee", "ankle", "toes")


@pytest.fixture(scope="module")
def human():
    return ps.figures.human()


@pytest.fixture(scope="module")
def at_rest(human):
    return ps.forward(human, human.rest)


def other_side(name):
    """Return the name of the mirror image."""
    if name.endswith((".L", ".R")):
        return name[:-1] + {"L": "R", "R": "L"}[name[-1]]
    if name in HDM05_MARKERS and name[0] in "LR" and name != "RBAC":
        return {"L": "R", "R": "L"}[name[0]] + name[1:]
    return name


def mirrored(human, pose):
    """Return the mirror image of a pose (n,): hinges as they are, other angles about y and z, and root.tx, reversed."""
    out = np.empty_like(pose)
    for joint in human.joints:
        here, there = human.index(joint.name), human.index(other_side(joint.name))
        hinge = isinstance(joint.motion, ps.Revolute)
        for k, dof in enumerate(joint.motion.dofs):
            slides = dof.name.startswith("t")
            sign = 1.0 if hinge or slides == (dof.axis != 0) else -1.0
            out[there.start + k] = sign * pose[here.start + k]
    return out


def test_degrees_of_freedom_and_limits(human):
    assert human.size == 71
    assert np.isfinite(human.lower).sum() + np.isfinite(human.upper).sum() == 142
    assert (human.upper - human.lower > np.radians(15)).all()
    assert human.names[0] == "root"
    assert isinstance(human.joints[0].motion, ps.Free)
    assert (human.lower[:3] == -10).all()
    assert (human.upper[:3] == 10).all()
    assert (human.upper[3:6] >= np.pi).all()


@pytest.mark.parametrize("side", [".L", ".R"])
@pytest.mark.parametrize("chain", [("shoulder", "elbow", "wrist"), ("hip", "knee", "ankle")])
def test_arms_and_legs_are_limbs(human, chain, side):
    first, middle, last = (human.joint(name + side) for name in chain)
    assert isinstance(first.motion, ps.Ball)
    assert isinstance(middle.motion, ps.Revolute)
    assert isinstance(last.motion, ps.Ball)
    assert (middle.parent, last.parent) == (first.name, middle.name)


def test_stands_on_the_ground_and_is_1_80_m_tall(human, at_rest):
    for side in (".L", ".R"):
        for site in ("foot", "heel", "toe"):
            assert at_rest.position(site + side)[1] == pytest.approx(0.0, abs=1e-12)
        np.testing.assert_allclose(at_rest.rotation_matrix("foot" + side), np.eye(3), atol=1e-12)
    everything = [at_rest.position(name)[1] for name in (*human.names, *human.site_names)]
    assert min(everything) > -1e-12
    assert max(everything) == at_rest.position("crown")[1] == pytest.approx(1.80, abs=0.004)
    straight = human.pose({name: 0.0 for name in human.names if name != "root"})
    frames = ps.forward(human, straight)
    assert frames.position("crown")[1] - frames.position("foot.L")[1] == pytest.approx(1.80, abs=1e-12)


@pytest.mark.parametrize(
    ("start", "end", "fraction"),
    [
        ("shoulder.L", "elbow.L", 0.186),
        ("elbow.L", "wrist.L", 0.146),
        ("hip.L", "knee.L", 0.245),
        ("knee.L", "ankle.L", 0.246),
        ("heel.L", "toe.L", 0.152),
    ],
)
def test_segments_have_the_tabulated_fractions_of_stature(at_rest, start, end, fraction):
    length = np.linalg.norm(at_rest.position(start) - at_rest.position(end))
    assert length / 1.80 == pytest.approx(fraction, abs=0.002)


@pytest.mark.parametrize(
    ("name", "fraction"), [("hip.L", 0.530), ("knee.L", 0.285), ("shoulder.L", 0.818), ("head", 0.936)]
)
def test_heights_above_the_ground(at_rest, name, fraction):
    assert at_rest.position(name)[1] / 1.80 == pytest.approx(fraction, abs=0.006)


def test_masses(human, at_rest):
    assert human.total_mass == pytest.approx(75.0)
    sided = [joint for joint in human.joints if "." in joint.name]
    legs = sum(joint.mass for joint in sided if joint.name[:-2] in LEGS)
    arms = sum(joint.mass for joint in sided) - legs
    assert arms / 75 == pytest.approx(2 * 0.0494)
    assert legs / 75 == pytest.approx(2 * 0.1986)
    x, y, z = at_rest.center_of_mass()
    assert x == pytest.approx(0.0, abs=1e-12)
    assert 0.53 < y / 1.80 < 0.58
    assert at_rest.position("foot.L")[2] < z < at_rest.position("toes.L")[2], "it stands on its feet"


def test_faces_z_with_its_left_to_x(at_rest):
    for name in ("pelvis", "head", "foot.L", "foot.R"):
        np.testing.assert_allclose(at_rest.rotation_matrix(name), np.eye(3), atol=1e-12)
    assert at_rest.position("head")[2] > at_rest.position("crown")[2]
    assert at_rest.position("hand.L")[0] > 0.2
    assert at_rest.position("hand.R")[0] < -0.2


@pytest.mark.parametrize(("side", "sign"), [(".L", 1.0), (".R", -1.0)])
def test_hand_axes(human, side, sign):
    # elbow at a right angle, palm down, fingers forward: as the feet and the head, hands have the axes of the world
    pose = human.pose(
        {
            "shoulder" + side: (0, 0, sign * np.radians(40)),
            "elbow" + side: np.pi / 2,
            "wrist" + side: (-sign * np.pi / 2, 0, 0),
        }
    )
    frames = ps.forward(human, pose)
    np.testing.assert_allclose(frames.rotation_matrix("hand" + side), np.eye(3), atol=1e-12)
    assert sign * (frames.position("hand" + side) - frames.position("thumbtip" + side))[0] > 0.03


@pytest.mark.parametrize("side", [".L", ".R"])
@pytest.mark.parametrize(
    ("joint", "site", "axis", "way"),
    [
        ("elbow", "hand", 2, 1.0),  # forward
        ("knee", "foot", 2, -1.0),  # backward
        ("toes", "toe", 1, 1.0),  # up
    ],
)
def test_hinges_bend_the_right_way(human, side, joint, site, axis, way):
    moved = human.rest.copy()
    moved[human.index(joint + side)] += 0.3
    gain = ps.forward(human, moved).position(site + side) - ps.forward(human, human.rest).position(site + side)
    assert way * gain[axis] > 0.02


def test_the_fist_closes(human):
    closed = {f"{joint}.L": np.radians(80) for joint in ("index1", "index2", "fingers1", "fingers2")}
    frames, opened = ps.forward(human, human.pose(closed)), ps.forward(human, human.rest)
    palm = -frames.rotation_matrix("hand.L")[:, 1]
    assert (frames.position("fingertip.L") - frames.position("hand.L")) @ palm > 0.03
    assert np.linalg.norm(frames.position("fingertip.L") - frames.position("hand.L")) < 0.07
    assert np.linalg.norm(opened.position("fingertip.L") - opened.position("hand.L")) > 0.10


def test_limits_and_rest_mirror_each_other(human):
    low, high = mirrored(human, human.lower), mirrored(human, human.upper)
    sided = np.array([name.split(".")[1:2] in (["L"], ["R"]) for name in human.dof_names])
    np.testing.assert_array_equal(np.minimum(low, high)[sided], human.lower[sided])
    np.testing.assert_array_equal(np.maximum(low, high)[sided], human.upper[sided])
    np.testing.assert_array_equal(mirrored(human, human.rest), human.rest)


def test_mirrored_poses_mirror_every_frame(human):
    rng = np.random.default_rng(3)
    for pose in (human.rest, *rng.uniform(human.lower, human.upper, (10, human.size))):
        here, there = ps.forward(human, pose), ps.forward(human, mirrored(human, pose))
        for name in (*human.names, *human.site_names):
            if name == "RBAC":
                continue
            np.testing.assert_allclose(there.position(other_side(name)), MIRROR @ here.position(name), atol=1e-12)
            np.testing.assert_allclose(
                there.rotation_matrix(other_side(name)), MIRROR @ here.rotation_matrix(name) @ MIRROR, atol=1e-12
            )


@pytest.mark.parametrize("side", [".L", ".R"])
@pytest.mark.parametrize(
    "direction", [(0, -1, 0), (0, 0, 1), (1, 0, 0), (0.5, 0.85, 0.1), (-0.4, -0.3, 0.8), (0.3, -0.8, -0.5)]
)
def test_the_upper_arm_points_where_arms_do_and_its_angles_do_not_degenerate(human, side, direction):
    # down, forward, sideways, up, across the chest, back
    way = np.array(direction) / np.linalg.norm(direction)
    frame = ps.forward(human, human.rest).rotation_matrix("clavicle" + side) @ human.joint("shoulder" + side).rotation
    x, y, z = frame.T @ (way if side == ".L" else MIRROR @ way)
    angles = np.array([np.arctan2(x, -y), -np.arcsin(z)])  # of R = Rz Rx Ry applied to -y
    box = slice(human.index("shoulder" + side).start, human.index("shoulder" + side).start + 2)
    assert (human.lower[box] <= angles).all()
    assert (angles <= human.upper[box]).all()
    assert abs(angles[1]) < np.radians(80)


# ------------------------------------------------------------------------------------------------------------- markers


def test_marker_names(human):
    assert len(HDM05_MARKERS) == len(set(HDM05_MARKERS)) == 41
    assert [name for name in human.site_names if name in HDM05_MARKERS] == list(HDM05_MARKERS)


def test_marker_names_are_those_of_the_files(data_dir):
    raw = (data_dir / "hdm05" / "HDM_dg_06-03_03_120.c3d").read_bytes()
    found = [label.decode() for label in re.findall(rb"Daniel:([A-Z0-9]+)", raw)]  # labels, before any coordinate
    assert found[:41] == list(HDM05_MARKERS)


@pytest.mark.parametrize("name", HDM05_MARKERS)
def test_markers_are_on_their_side(at_rest, name):
    x = at_rest.position(name)[0]
    if name in ("C7", "T10", "CLAV", "STRN"):
        assert x == pytest.approx(0.0, abs=1e-12)
    else:
        assert x * (1 if name[0] == "L" else -1) > 0.05


@pytest.mark.parametrize(
    ("names", "low", "high"),
    [
        ("LFHD RFHD LBHD RBHD", 1.65, 1.80),
        ("C7 LSHO RSHO", 1.48, 1.60),
        ("CLAV RBAC", 1.35, 1.50),
        ("T10 STRN", 1.22, 1.36),
        ("LUPA RUPA", 1.20, 1.42),
        ("LELB RELB", 1.08, 1.20),
        ("LFRM RFRM", 0.95, 1.12),
        ("LFWT RFWT LBWT RBWT", 0.95, 1.10),
        ("LWRA RWRA LWRB RWRB", 0.85, 0.98),
        ("LFIN RFIN", 0.75, 0.90),
        ("LTHI RTHI", 0.60, 0.80),
        ("LKNE RKNE", 0.46, 0.56),
        ("LSHN RSHN", 0.22, 0.42),
        ("LANK RANK", 0.06, 0.12),
        ("LHEE RHEE LTOE RTOE LMT5 RMT5", 0.01, 0.07),
    ],
)
def test_markers_are_at_their_height(at_rest, names, low, high):
    for name in names.split():
        assert low < at_rest.position(name)[1] < high, name


@pytest.mark.parametrize(
    ("front", "back"),
    [("LFHD", "LBHD"), ("CLAV", "C7"), ("STRN", "T10"), ("STRN", "RBAC"), ("LFWT", "LBWT"), ("RTOE", "RHEE")],
)
def test_markers_before_and_behind(at_rest, front, back):
    assert at_rest.position(front)[2] - at_rest.position(back)[2] > 0.08


def test_thumb_side_of_the_wrist(at_rest):
    for side in "LR":
        thumb = at_rest.position(f"thumbtip.{side}")
        near, far = at_rest.position(f"{side}WRA"), at_rest.position(f"{side}WRB")
        assert np.linalg.norm(thumb - near) < np.linalg.norm(thumb - far)


# ------------------------------------------------------------------------------------------------------------- options


def test_height_and_mass_scale(human):
    tall = ps.figures.human(height=1.98, mass=90)
    assert tall.total_mass == pytest.approx(90.0)
    small, large = ps.forward(human, human.rest), ps.forward(tall, tall.rest)
    for name in (*human.names, *human.site_names):
        np.testing.assert_allclose(large.position(name), 1.1 * small.position(name), atol=1e-12)
    np.testing.assert_array_equal(tall.lower, human.lower)


@pytest.mark.parametrize("options", [{"height": 0}, {"height": float("nan")}, {"mass": -1}, {"mass": float("inf")}])
def test_wrong_sizes_are_refused(options):
    with pytest.raises(SkeletonError, match="expected positive numbers"):
        ps.figures.human(**options)


# --- Robots ---


def test_limb_is_spherical_revolute_spherical():
    limb = ps.figures.limb()
    assert limb.names == ("shoulder", "elbow", "wrist")
    assert [type(joint.motion) for joint in limb.joints] == [ps.Ball, ps.Revolute, ps.Ball]
    assert np.isfinite([limb.lower, limb.upper]).all()
    straight = ps.forward(limb, np.zeros(7))
    np.testing.assert_allclose(straight.position("hand"), (0.65, 0, 0), atol=1e-12)
    np.testing.assert_allclose(straight.rotation_matrix("hand"), np.eye(3), atol=1e-12)
    for joint in ("shoulder", "wrist"):
        middle = limb.index(joint).start + 1
        assert max(-limb.lower[middle], limb.upper[middle]) < np.pi / 2


def test_planar_arm_is_parent_linkagess():
    # Parent, Kinematic Linkages, figure 5.20: links 15, 10, 5 at (pi/8, pi/4, pi/4)
    arm = ps.figures.planar_arm()
    angles = np.array([np.pi / 8, np.pi / 4, np.pi / 4])
    total = np.cumsum(angles)
    tip = ps.forward(arm, angles).position("tip")
    np.testing.assert_allclose(tip, (np.dot((15, 10, 5), np.cos(total)), np.dot((15, 10, 5), np.sin(total)), 0))
    assert arm.names == ("joint1", "joint2", "joint3")
    assert np.isinf([arm.lower, arm.upper]).all()


def test_planar_arm_options():
    arm = ps.figures.planar_arm([1, 2, 3, 4], limits=(-1, 2), rest=0.5)
    assert arm.size == 4
    np.testing.assert_array_equal(arm.lower, [-1] * 4)
    np.testing.assert_array_equal(arm.rest, [0.5] * 4)
    arm = ps.figures.planar_arm([1, 2], limits=[(-1, 1), (0, 2)], rest=(0.1, 0.2))
    np.testing.assert_array_equal(arm.upper, [1, 2])
    np.testing.assert_array_equal(arm.rest, [0.1, 0.2])
    np.testing.assert_allclose(ps.forward(arm, [0, 0]).position("tip"), (3, 0, 0))


@pytest.mark.parametrize("lengths", [(), (1, -1), (1, np.nan), [[1, 2]], (0,)])
def test_planar_arm_refuses_lengths(lengths):
    with pytest.raises(SkeletonError, match="lengths: expected one positive number"):
        ps.figures.planar_arm(lengths)


@pytest.mark.parametrize("options", [{"limits": (1, 2, 3)}, {"rest": (1, 2)}])
def test_planar_arm_refuses_shapes(options):
    with pytest.raises(SkeletonError, match=r"\(3, 2\)"):
        ps.figures.planar_arm(**options)


def numbers(element, attribute, default="0 0 0"):
    return np.array((element.get(attribute) if element is not None else None or default).split(), dtype=float)


def chain_of(path):
    """Return (name, type, constant transform, axis, lower, upper) of the joints from the base to panda_hand_tcp."""
    joints = {joint.find("child").get("link"): joint for joint in ElementTree.parse(path).getroot().findall("joint")}
    chain, link = [], "panda_hand_tcp"
    while link in joints:
        joint = joints[link]
        place = np.eye(4)
        origin = joint.find("origin")
        place[:3, 3] = numbers(origin, "xyz")
        place[:3, :3] = Rotation.from_euler("xyz", numbers(origin, "rpy")).as_matrix()
        limit = joint.find("limit")
        box = None if limit is None else (float(limit.get("lower")), float(limit.get("upper")))
        chain.append((joint.get("name"), link, place, numbers(joint.find("axis"), "xyz", "0 0 1"), box))
        link = joint.find("parent").get("link")
    return chain[::-1]


def test_panda_is_the_robot_of_its_description(data_dir):
    chain = chain_of(data_dir / "urdf" / "erd_panda.urdf")
    panda = ps.figures.panda()
    moving = [row for row in chain if row[4] is not None]
    assert [row[0] for row in moving] == list(panda.names)
    np.testing.assert_array_equal([row[4] for row in moving], np.c_[panda.lower, panda.upper])
    sites = {"panda_link8": "flange", "panda_hand": "hand", "panda_hand_tcp": "tcp"}
    rng = np.random.default_rng(1)
    for pose in (panda.rest, np.zeros(7), *rng.uniform(panda.lower, panda.upper, (20, 7))):
        frames, angles, world = ps.forward(panda, pose), iter(pose), np.eye(4)
        for _, link, place, axis, box in chain:
            turn = np.eye(4)
            if box is not None:
                turn[:3, :3] = Rotation.from_rotvec(axis * next(angles)).as_matrix()
            world = world @ place @ turn
            if link in sites:
                np.testing.assert_allclose(frames.matrix(sites[link]), world, atol=1e-9)


def test_panda_is_ready():
    panda = ps.figures.panda()
    frames = ps.forward(panda, panda.rest)
    np.testing.assert_allclose(frames.position("flange"), (0.306891, 0.0, 0.590282), atol=1e-6)
    np.testing.assert_allclose(frames.rotation_matrix("hand")[:, 2], (0, 0, -1), atol=1e-12)  # the gripper looks down


# --- The spider and the tree ---


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
