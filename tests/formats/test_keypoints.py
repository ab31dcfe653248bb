"""Joint positions, SMPL files and robot layouts: read, written, and told apart."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import posable as ps
from posable.errors import FormatError
from posable.formats.keypoints import MEDIAPIPE_33, PARENTS, SETS, SMPL_24
from posable.formats.robot_layouts import LAYOUTS

NAMES = ("root", "spine1", "spine2", "spine3", "neck", "skull", "hip.L", "knee.L", "ankle.L", "toes.L", "hip.R",
         "knee.R", "ankle.R", "toes.R", "shoulder.L", "elbow.L", "wrist.L", "shoulder.R", "elbow.R",
         "wrist.R")  # fmt: skip


@pytest.fixture(scope="module")
def positions(fixtures):
    motion = ps.load(fixtures / "walk.amc").motion
    frames = ps.forward(motion.skeleton, motion.poses)
    return np.stack([frames.position(name) for name in NAMES], axis=1)


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_positions_with_names(tmp_path, positions, suffix):
    path = tmp_path / f"joints.{suffix}"
    if suffix == "npy":
        np.save(path, positions)
        scene = ps.load(path, names=NAMES, fps=30, up="y")
    else:
        np.savez(path, positions=positions, names=np.array(NAMES), fps=30.0)
        scene = ps.load(path, up="y")
    assert scene.motion.fps == 30
    frames = ps.forward(scene.skeleton, scene.motion.poses)
    errors = [np.linalg.norm(frames.position(name) - positions[:, k], axis=1) for k, name in enumerate(NAMES)]
    assert np.median(errors) < 0.003
    assert np.max(errors) < 0.05


def test_positions_become_a_bvh(tmp_path, positions):
    np.save(tmp_path / "joints.npy", positions)
    ps.save(tmp_path / "joints.bvh", ps.load(tmp_path / "joints.npy", names=NAMES, fps=30, up="y"))
    back = ps.load(tmp_path / "joints.bvh")
    frames = ps.forward(back.skeleton, back.motion.poses)
    errors = [
        np.linalg.norm(frames.position(n) - positions[:, k], axis=1)
        for k, n in enumerate(NAMES)
        if n in back.skeleton.names
    ]
    assert np.median(errors) < 0.003


@pytest.mark.parametrize("name", SETS)
def test_every_set_is_a_tree_with_a_body_plan(tmp_path, name):
    """Random but rigid enough: the names alone give the tree, the pelvis is its root."""
    members = SETS[name]
    assert len(set(members)) == len(members)
    rng = np.random.default_rng(0)
    array = rng.normal(size=(1, len(members), 3)) + np.zeros((6, 1, 1))
    path = tmp_path / "pose.npy"
    np.save(path, array)
    with pytest.warns(ps.PosableWarning, match="no frame rate"):
        scene = ps.load(path)
    assert scene.skeleton.joints[0].name == "pelvis"
    assert all(member in PARENTS for member in members if not member.startswith(("face_", "left_hand_", "right_hand_")))


def in_order(walk, names):
    """Return positions (T, J, 3) [m] of a walk for keypoints by name; those of the face are near the skull."""
    frames = ps.forward(walk.skeleton, walk.poses)
    trunk = {"pelvis": "root", "spine": "spine2", "neck": "neck", "head": "skull", "nose": "skull"}
    at = [trunk.get(name) or f"{name.partition('_')[2]}.{name[0].upper()}" for name in names]
    known = {*walk.skeleton.names, *walk.skeleton.site_names}
    return np.stack([frames.position(name if name in known else "skull") for name in at], axis=1)


@pytest.mark.parametrize("name", ["coco17", "human36m17"])
def test_seventeen_joints_are_told_apart_by_their_limbs(tmp_path, fixtures, name):
    np.save(tmp_path / "joints.npy", in_order(ps.load(fixtures / "walk.amc").motion, SETS[name]))
    scene = ps.load(tmp_path / "joints.npy", fps=30, up="y")
    stated = ps.load(tmp_path / "joints.npy", names=name, fps=30, up="y")
    assert scene.skeleton.names == stated.skeleton.names
    np.testing.assert_array_equal(scene.motion.poses, stated.motion.poses)
    assert any(f"taken for {name}" in note for note in scene.notes)
    assert not stated.notes


def test_joints_in_another_order_are_a_warning(tmp_path, fixtures):
    places = in_order(ps.load(fixtures / "walk.amc").motion, SETS["human36m17"])
    np.save(tmp_path / "joints.npy", places)
    with pytest.warns(ps.PosableWarning, match="change their lengths by .*another order"):
        ps.load(tmp_path / "joints.npy", names="coco17", fps=30, up="y")


def test_joints_of_low_confidence_are_not_believed(tmp_path, positions):
    array = np.concatenate([positions, np.ones((*positions.shape[:2], 1))], axis=2)
    array[10, 7, :3] += 1.0
    array[10, 7, 3] = 0.1
    np.save(tmp_path / "a.npy", array)
    scene = ps.load(tmp_path / "a.npy", names=NAMES, fps=30, up="y")
    knee = ps.forward(scene.skeleton, scene.motion.poses).position("knee.L")
    assert np.linalg.norm(knee[10] - positions[10, 7]) < 0.05


@pytest.mark.parametrize(
    ("array", "options", "message"),
    [
        (np.zeros((5, 7, 3)), {}, "names="),
        (np.zeros((5, 3)), {"names": ("a", "b", "c")}, "joint positions"),
        (np.zeros((5, 2, 3), dtype=complex), {"names": ("a", "b")}, "joint positions"),
    ],
)
def test_wrong_arrays(tmp_path, array, options, message):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(FormatError, match=message):
        ps.load(tmp_path / "a.npy", **options)


def test_an_array_of_objects_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{}, None]), allow_pickle=True)
    with pytest.raises(FormatError):
        ps.load(tmp_path / "a.npy", names=("a", "b"))


def test_a_set_by_name_and_a_wrong_one(tmp_path):
    np.save(tmp_path / "a.npy", np.random.default_rng(0).normal(size=(4, 33, 3)))
    scene = ps.load(tmp_path / "a.npy", names="mediapipe33", fps=30)
    assert set(MEDIAPIPE_33) - {"mouth_left"} <= {*scene.skeleton.names}
    with pytest.raises(ps.PosableError, match="did you mean 'mediapipe33'"):
        ps.load(tmp_path / "a.npy", names="mediapipe", fps=30)


# ------------------------------------------------------------------------------------------------------------- SMPL


@pytest.mark.parametrize("joints", [24, 52, 55])
def test_a_motion_of_the_smpl_family(tmp_path, joints):
    frames = 20
    rng = np.random.default_rng(1)
    poses = rng.normal(0.0, 0.2, (frames, 3 * joints))
    poses[:, :3] = Rotation.from_euler("x", 90, degrees=True).as_rotvec()  # AMASS: the body stands up in z
    trans = np.tile([0.0, 0.0, 0.95], (frames, 1))
    np.savez(tmp_path / "a.npz", poses=poses, trans=trans, betas=np.zeros(16), gender="neutral", mocap_framerate=120.0)
    scene = ps.load(tmp_path / "a.npz")
    assert scene.motion.fps == 120
    assert any("average proportions" in note for note in scene.notes)
    at = ps.forward(scene.skeleton, scene.motion.poses)
    up = at.position("head") - at.position("pelvis")
    assert (up[:, 2] > 0.3).all()
    left = at.rotation_matrix("left_knee")[0]
    chain = [0, 1, 4]  # pelvis, left_hip, left_knee of SMPL
    by_hand = np.eye(3)
    for k in chain:
        by_hand = by_hand @ Rotation.from_rotvec(poses[0, 3 * k : 3 * k + 3]).as_matrix()
    np.testing.assert_allclose(left, by_hand, atol=1e-12)
    assert set(SMPL_24[:22]) <= set(scene.skeleton.names)


@pytest.mark.parametrize("keys", [("root_orient", "pose_body", "trans"), ("global_orient", "body_pose", "transl")])
def test_smpl_with_the_pelvis_apart_is_the_same_motion(tmp_path, keys):
    poses, trans = np.random.default_rng(1).normal(0.0, 0.3, (4, 66)), np.ones((4, 3))
    np.savez(tmp_path / "a.npz", poses=poses, trans=trans, fps=30.0)
    parts = dict(zip(keys, (poses[:, :3], poses[:, 3:].reshape(4, 21, 3), trans), strict=True))
    np.savez(tmp_path / "b.npz", **parts, fps=30.0)
    whole, apart = (ps.load(tmp_path / name).motion for name in ("a.npz", "b.npz"))
    np.testing.assert_array_equal(apart.poses, whole.poses)
    np.savez(tmp_path / "c.npz", **{**parts, keys[1]: np.zeros((3, 63))}, fps=30.0)
    with pytest.raises(FormatError, match="as many frames"):
        ps.load(tmp_path / "c.npz")


def test_a_bad_smpl_file(tmp_path):
    np.savez(tmp_path / "a.npz", poses=np.zeros((3, 10)), trans=np.zeros((3, 3)))
    with pytest.raises(FormatError, match="poses"):
        ps.load(tmp_path / "a.npz")


# ---------------------------------------------------------------------------------------------------------- layouts


@pytest.fixture(scope="module")
def robot_motion(fixtures):
    robot = ps.load(fixtures / "arm" / "arm.urdf", floating=True).skeleton
    rng = np.random.default_rng(2)
    lower, upper = np.maximum(robot.lower, -1.0), np.minimum(robot.upper, 1.0)
    start, way = rng.uniform(lower, upper), rng.normal(0.0, 0.02, robot.size)
    poses = np.clip(start + np.arange(15)[:, None] * way, robot.lower, robot.upper)
    return ps.Motion(robot, poses, 50.0)


@pytest.mark.parametrize("layout", ["mujoco", "gmr", "beyondmimic", "unitree"])
def test_layouts_come_back(tmp_path, robot_motion, layout):
    path = tmp_path / f"a{LAYOUTS[layout]}"
    ps.save(path, robot_motion, layout=layout)
    rate = {"fps": 50.0} if layout == "unitree" else {}
    back = ps.load(path, skeleton=robot_motion.skeleton, **rate).motion
    assert back.fps == 50
    ours, theirs = (ps.forward(m.skeleton, m.poses).matrix("tool") for m in (robot_motion, back))
    np.testing.assert_allclose(theirs, ours, atol=1e-7)  # Unitree's table has nine digits
    if layout != "unitree":
        with pytest.raises(FormatError, match="skeleton="):
            ps.load(path)


def test_layouts_of_another_robot_are_refused(tmp_path, robot_motion):
    (tmp_path / "a.csv").write_text("0,0,1,0,0,0,1,0.5\n", encoding="utf-8")
    with pytest.raises(FormatError, match="finite values"):
        ps.load(tmp_path / "a.csv", skeleton=robot_motion.skeleton, fps=30.0)
    np.savez(tmp_path / "a.npz", joint_pos=np.zeros((3, 6)), body_pos_w=np.zeros((3, 3)), body_quat_w=np.zeros((3, 4)))
    with pytest.raises(FormatError, match="body_pos_w"):
        ps.load(tmp_path / "a.npz", skeleton=robot_motion.skeleton)
    np.savez(tmp_path / "b.npz", root_pos=np.zeros((3, 3)), root_rot=np.zeros((2, 4)), dof_pos=np.zeros((3, 6)))
    with pytest.raises(FormatError, match="the root's positions"):
        ps.load(tmp_path / "b.npz", skeleton=robot_motion.skeleton)


def test_beyondmimic_has_speeds_by_differences(tmp_path, robot_motion):
    ps.save(tmp_path / "a.npz", robot_motion, layout="beyondmimic")
    data = np.load(tmp_path / "a.npz", allow_pickle=False)
    names = [str(name) for name in data["body_names"]]
    frames = ps.forward(robot_motion.skeleton, robot_motion.poses)
    k = names.index("joint4")
    np.testing.assert_allclose(data["body_pos_w"][:, k], frames.position("joint4"), atol=1e-12)
    step = (frames.position("joint4")[8] - frames.position("joint4")[6]) * 25.0
    np.testing.assert_allclose(data["body_lin_vel_w"][7, k], step, atol=1e-9)
    turn = Rotation.from_matrix(frames.rotation_matrix("joint4"))
    spin = (turn[8] * turn[6].inv()).as_rotvec() * 25.0
    np.testing.assert_allclose(data["body_ang_vel_w"][7, k], spin, atol=1e-3)


def test_unitree_is_a_table(tmp_path, robot_motion):
    ps.save(tmp_path / "a.csv", robot_motion, layout="unitree")
    rows = np.loadtxt(tmp_path / "a.csv", delimiter=",")
    qpos = robot_motion.skeleton.to_qpos(robot_motion.poses)
    np.testing.assert_allclose(rows[:, 6], qpos[:, 3], atol=1e-8)  # xyzw: w last
    np.testing.assert_allclose(rows[:, 7:], qpos[:, 7:], atol=1e-8)


@pytest.mark.parametrize(("name", "layout"), [("a.csv", "mujoco"), ("a.npz", "mujocco"), ("a.npz", "unitree")])
def test_wrong_layouts(tmp_path, robot_motion, name, layout):
    with pytest.raises(ps.PosableError):
        ps.save(tmp_path / name, robot_motion, layout=layout)


def test_a_person_has_no_robot_layout(tmp_path, fixtures):
    with pytest.raises(FormatError, match="floating base"):
        ps.save(tmp_path / "a.npz", ps.load(fixtures / "walk.bvh").motion, layout="mujoco")
