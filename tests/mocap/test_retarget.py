"""Motion on other figures, smoothing and contacts."""

import json
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import posable as ps
from posable.mocap.foot_contacts import find_contacts, paths_of, without_noise
from posable.mocap.hand_contacts import Touch
from posable.mocap.report import changes
from posable.mocap.retarget import _far_bones, infer_mapping
from posable.mocap.retarget_goals import RetargetGoals
from posable.mocap.role_frames import standing_axis
from posable.mocap.root_align import move_figure, with_free_root
from posable.mocap.smooth import Smoothed
from posable.mocap.trajectory import Effort, TrajectoryProblem
from posable.mocap.unwrap import open_box
from posable.model.body_plan import body_plan
from posable.model.shapes import capsule


def walking(human, steps=4):
    """Return a motion in which the feet stand by turns, made of goals."""
    rest = ps.forward(human, human.rest)
    frames = 30 * steps
    feet = {side: np.tile(rest.position(f"foot.{side}"), (frames, 1)) for side in "LR"}
    for step in range(steps):
        side = "LR"[step % 2]
        lift = np.sin(np.linspace(0, np.pi, 30)) * 0.12
        ahead = 0.12 * (1 - np.cos(np.linspace(0, np.pi, 30)))
        part = slice(30 * step, 30 * step + 30)
        feet[side][part, 1] += lift
        feet[side][part, 2] += ahead
        feet[side][30 * step + 30 :, 2] += ahead[-1]
    pelvis = np.tile(rest.position("pelvis"), (frames, 1)) - (0, 0.06, 0)
    pelvis[:, 2] = 0.5 * (feet["L"][:, 2] + feet["R"][:, 2])
    goals = [ps.goals.Position(f"foot.{side}", feet[side]) for side in "LR"] + [ps.goals.Position("pelvis", pelvis)]
    goals += [ps.goals.Orientation(f"foot.{side}", np.eye(3)) for side in "LR"]
    return ps.follow(human, goals, fps=60)


@pytest.fixture(scope="module")
def walk(human):
    motion = walking(human)
    assert motion.ok.mean() > 0.8
    return motion


def test_a_figure_that_stands_along_another_axis_than_it_says_is_stood_up(walk, human):
    """BVH states no up axis: the human stands along y, and a file that calls that z means the same."""
    mislabelled = ps.Motion(walk.skeleton.replace(up="z"), walk.poses, walk.fps)
    plain, stood = ps.retarget(walk, human, threads=1), ps.retarget(mislabelled, human, threads=1)
    np.testing.assert_array_equal(stood.poses, plain.poses)
    assert any("stands along y" in note for note in stood.notes)
    assert not plain.notes


def test_a_figure_that_its_file_has_lying_is_stood_up(walk, human):
    """A URDF is z up by its standard; one whose person stands along y at rest lies on the ground."""
    lying = human.replace(up="z")
    plain, stood = ps.retarget(walk, human, threads=1), ps.retarget(walk, lying, threads=1)
    assert any("stood up along z" in note for note in stood.notes)
    assert stood.skeleton.up == "z"
    head = ps.forward(plain.skeleton, plain.poses).position("head")[:, 1]
    np.testing.assert_allclose(ps.forward(stood.skeleton, stood.poses).position("head")[:, 2], head, atol=0.02)


def test_velocity_limits_hold_where_a_motion_is_faster(walk, human):
    slow = human.replace(joints=[replace(j, velocity=0.8) if "knee" in j.name else j for j in human.joints])
    free, out = ps.retarget(walk, human, threads=1), ps.retarget(walk, slow, threads=1)
    knees = np.r_[slow.index("knee.L"), slow.index("knee.R")]
    assert np.abs(np.diff(free.poses[:, knees], axis=0)).max() * walk.fps > 1.2
    assert np.abs(np.diff(out.poses[:, knees], axis=0)).max() * walk.fps <= 0.8 * (1 + 1e-6)
    assert out.contacts is not None
    assert out.contacts.slips(out).max() < 0.01


def test_contacts_are_found(walk):
    contacts = find_contacts(walk)
    assert contacts.standing.any(axis=0).all()
    assert 0.3 < contacts.standing.mean() < 0.95
    assert contacts.slips(walk).max() < 0.03


def test_a_walk_goes_to_a_smaller_human(walk):
    child = ps.figures.human(height=1.2)
    result = ps.retarget(walk, child)
    assert result.scale == pytest.approx(1.2 / 1.8, rel=1e-3)
    assert result.contacts.slips(result).max() < 0.005
    assert ((result.poses >= child.lower - 1e-9) & (result.poses <= child.upper + 1e-9)).all()
    theirs, ours = ps.forward(walk.skeleton, walk.poses), ps.forward(child, result.poses)
    assert np.abs(ours.position("head") - result.scale * theirs.position("head")).mean() < 0.03
    assert "knee.L" in str(result)


def test_the_mapping_is_shown_and_can_be_changed(human):
    rows = infer_mapping(human, ps.figures.human(height=1.5), {"toes.L": None, "skull": "neck"})
    assert "toe.L" not in rows
    assert rows["head"] == ("skull", "neck")
    with pytest.raises(ps.PosableError):
        infer_mapping(human, human, {"tail": "neck"})


def test_wrong_calls_say_what_is_expected(walk):
    with pytest.raises(ps.PosableError, match="expected mapping="):
        ps.retarget(walk, walk.skeleton, ["neck"])
    for seconds in (-1.0, np.nan):
        with pytest.raises(ps.PosableError, match="expected smooth of 0 seconds or more"):
            ps.retarget(walk, walk.skeleton, smooth=seconds)
    with pytest.raises(ps.PosableError, match="expected device='cpu' or 'cuda', got 'gpu'"):
        ps.retarget(walk, walk.skeleton, device="gpu")


def test_a_figure_without_legs_is_an_error_that_names_what_retarget_needs(walk):
    with pytest.raises(ps.PosableError, match=r"give them as mapping=\{'hip.L'"):
        ps.retarget(walk, ps.figures.get("panda"))
    arm = ps.figures.get("panda")
    with pytest.raises(ps.PosableError, match="two legs are needed"):
        ps.retarget(ps.Motion(arm, arm.rest[None], 60.0), walk.skeleton)


def test_slipping_feet_and_impossible_sizes_are_reported(walk):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ps.retarget(walk, walk.skeleton)
    with pytest.warns(ps.PosableWarning, match=r"a standing foot slips \d+ mm: smooth=60 s is long"):
        ps.retarget(walk, walk.skeleton, smooth=60.0)
    with pytest.warns(ps.PosableWarning, match=r"the figure is 16\.\d+ times the motion's"):
        ps.retarget(walk, ps.figures.human(height=30.0))


def test_smoothing_over_more_than_the_clip(walk):
    long = ps.Motion(walk.skeleton, np.tile(walk.poses, (3, 1)), walk.fps)
    assert np.isfinite(ps.smooth(long, 10.0, contacts=False).poses).all()


def test_the_report_plays_the_source_beside_the_result(walk, tmp_path):
    result = ps.retarget(walk, ps.figures.human(height=1.2), threads=1)
    result.save_report(tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    data = json.loads(re.search(r"const data = (\{.*?\}), canvas", text)[1])
    assert len(data["joints"]) == len(data["beside"]["joints"])
    hips = ps.forward(walk.skeleton, walk.poses[-1]).position("root")
    np.testing.assert_allclose(
        data["beside"]["joints"][-1][0],
        1e3 * result.scale * hips[[0, 2, 1]] * [1, -1, 1],
        atol=40.0,  # of every other frame
    )
    for heading in ("Quality", "Errors of bone directions over time", "arms [°]"):
        assert heading in text


def test_a_report_of_retargeting(walk, tmp_path):
    result = ps.retarget(walk, ps.figures.human(height=1.5))
    result.save_report(tmp_path / "r.html")
    assert "Mapping" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_smoothing_takes_jitter_away_and_locks_feet(walk, tmp_path):
    rng = np.random.default_rng(0)
    noisy = ps.Motion(walk.skeleton, walk.poses + rng.normal(0.0, 0.01, walk.poses.shape), walk.fps)
    contacts = find_contacts(walk)
    smooth = ps.smooth(noisy, 0.15, contacts=contacts)
    bend = [np.abs(np.diff(m.poses, n=2, axis=0)).mean() for m in (noisy, smooth)]
    assert bend[1] < 0.1 * bend[0]
    assert contacts.slips(smooth).mean() < 0.5 * contacts.slips(noisy).mean()
    figure = walk.skeleton
    assert ((smooth.poses >= figure.lower - 1e-9) & (smooth.poses <= figure.upper + 1e-9)).all()
    smooth.save_report(tmp_path / "s.html")
    assert "before" in (tmp_path / "s.html").read_text(encoding="utf-8")


def test_contacts_are_found_under_noise_and_then_stand(walk):
    clean = find_contacts(walk)
    rng = np.random.default_rng(2)
    noisy = ps.Motion(walk.skeleton, walk.poses + rng.normal(0.0, 0.005, walk.poses.shape), walk.fps)
    found = find_contacts(noisy)
    assert (found.standing == clean.standing).mean() > 0.9
    smooth = ps.smooth(noisy)
    assert found.slips(smooth).max() < 0.005 < found.slips(noisy).max()


def test_clean_paths_are_not_smoothed(walk):
    frames = ps.forward(walk.skeleton, walk.poses)
    paths = np.stack([frames.position(name) for name in ("foot.L", "foot.R")], axis=1)
    assert without_noise(paths, 0.9, walk.fps) is paths
    noisy = paths + np.random.default_rng(0).normal(0.0, 0.02, paths.shape)
    off = np.abs(without_noise(noisy, 0.9, walk.fps) - paths)
    assert off.mean() < 0.5 * np.abs(noisy - paths).mean()


def test_smoothing_does_not_care_how_angles_are_written():
    """Files hold angles from -180 to 180 degrees, and either of two triples; the smoothed figure is the same."""
    figure = ps.Skeleton([ps.Joint("body", ps.Free("zyx")), ps.Joint("arm", ps.Ball("zxy"), parent="body")])
    time = np.arange(200) / 60.0
    rates = np.array([1.0, 0.3, 0.2, 6.0, 0.4, 0.5, 5.0, -0.6, 0.3])
    poses = np.sin(time[:, None] * rates) + np.where(np.abs(rates) > 2.0, time[:, None] * rates, 0.0)
    poses += np.random.default_rng(1).normal(0.0, 0.01, poses.shape)
    written = poses.copy()
    written[50:90, 6:] = written[50:90, 6:] * [1.0, -1.0, 1.0] + np.pi
    written[:, 3:] -= 2.0 * np.pi * np.round(written[:, 3:] / (2.0 * np.pi))
    ours, theirs = (
        ps.forward(figure, ps.smooth(ps.Motion(figure, p, 60.0), 0.1, contacts=False).poses) for p in (poses, written)
    )
    for joint in figure.names:
        assert (ours.rotation(joint).inv() * theirs.rotation(joint)).magnitude().max() < 1e-3


def test_a_whole_turn_is_not_a_change(tmp_path):
    figure = ps.Skeleton([ps.Joint("body", ps.Free("zyx")), ps.Joint("arm", ps.Ball("zxy"), parent="body")])
    poses = np.random.default_rng(0).uniform(-0.5, 0.5, (40, 9))
    other = poses.copy()
    other[:, 3] += 2.0 * np.pi
    other[:, 6:] = other[:, 6:] * [1.0, -1.0, 1.0] + np.pi
    other[:, 1] += 0.25
    change = changes(ps.Motion(figure, poses, 60.0), ps.Motion(figure, other, 60.0))
    np.testing.assert_allclose(change, np.tile([0.25, 0.0, 0.0], (40, 1)), atol=1e-7)
    other[:, 8] += 0.1
    after = Smoothed(figure, other, 60.0, "", ps.Motion(figure, poses, 60.0))
    assert after.change == pytest.approx((0.25 + 0.1) / 3)
    after.save_report(tmp_path / "s.html")
    assert "0.2500 [rad, m]" in (tmp_path / "s.html").read_text(encoding="utf-8")


def test_windows_give_what_one_window_gives(walk, monkeypatch):
    rng = np.random.default_rng(0)
    noisy = ps.Motion(walk.skeleton, walk.poses + rng.normal(0.0, 0.005, walk.poses.shape), walk.fps)
    monkeypatch.setattr("posable.mocap.smooth.WINDOW", 1000)
    trajectory = ps.smooth(noisy, 0.1, contacts=False)
    monkeypatch.setattr("posable.mocap.smooth.WINDOW", 40)
    pieces = [ps.smooth(noisy, 0.1, contacts=False, threads=threads) for threads in (1, 2)]
    assert np.abs(pieces[0].poses - trajectory.poses).max() < 2e-3
    assert np.array_equal(pieces[0].poses, pieces[1].poses)


def test_the_band_is_the_second_derivative(human):
    """One Newton step on a problem that is quadratic lands on its minimum: the accelerations' matrix is right."""
    from posable.problem import Problem

    problem = Problem(human, [ps.goals.Position("hand.R", (0, 1, 0), weight=0.0)])
    n, t = human.size, 12
    rng = np.random.default_rng(0)
    home = human.rest + rng.normal(0.0, 0.1, (t, n))
    free = np.full(n, np.inf)
    none = np.zeros((0, 0, 3))
    trajectory = TrajectoryProblem(
        problem, np.zeros(1), none, none, np.full(n, 2.0), home, np.full(n, 3.0), -free, free
    )
    poses = trajectory.solve(home.copy(), Effort(steps=3))
    bends = np.diff(np.eye(t), n=2, axis=0)
    expected = np.linalg.solve(2.0 * np.eye(t) + 3.0 * bends.T @ bends, 2.0 * home)
    assert np.abs(poses - expected).max() < 1e-4


def test_a_robot_fixed_to_the_world_gets_a_free_root():
    arm = ps.Skeleton(
        [
            ps.Joint("world", ps.Fixed()),
            ps.Joint("base", ps.Revolute("z"), parent="world", offset=(0.0, 0.0, 0.2)),
            ps.Joint("tip", ps.Revolute("x"), parent="base", offset=(0.0, 0.0, 0.5)),
        ]
    )
    loose = with_free_root(arm)
    assert loose.free_root is not None
    assert loose.size == arm.size + 6
    before, after = ps.forward(arm, arm.rest), ps.forward(loose, loose.rest)
    for name in arm.names:
        np.testing.assert_allclose(after.matrix(name), before.matrix(name), atol=1e-12)
    pose = loose.rest.copy()
    pose[loose.index(loose.free_root)][:3] = 1.0, 2.0, 3.0
    np.testing.assert_allclose(
        ps.forward(loose, pose).position("tip"), before.position("tip") + np.array([1.0, 2.0, 3.0])
    )


def test_the_freed_joint_is_named(human, walk):
    root = replace(human.joints[0], motion=ps.Fixed(), limits=None, rest=0.0, parent="world")
    hung = human.replace(joints=[ps.Joint("world", ps.Fixed()), root, *human.joints[1:]])
    result = ps.retarget(ps.Motion(walk.skeleton, walk.poses[:2], walk.fps), hung)
    assert result.notes[0].startswith(f"{result.skeleton.free_root} moves freely")


def test_a_figure_without_a_moving_joint_is_smooth_as_it_is(tmp_path):
    post = ps.Skeleton([ps.Joint("post", ps.Fixed())], [ps.Site("top", "post", (0.0, 1.0, 0.0))])
    smooth = ps.smooth(ps.Motion(post, np.zeros((5, 0)), 30.0))
    assert smooth.poses.shape == (5, 0)
    assert smooth.accelerations == (0.0, 0.0)
    smooth.save_report(tmp_path / "report.html")
    assert "nan" not in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_only_windows_whose_feet_slip_are_asked_again(walk, monkeypatch):
    asked, solve = [], TrajectoryProblem.solve

    def counted(self, poses, effort):
        asked.append(effort.passes)
        return solve(self, poses, effort)

    monkeypatch.setattr(TrajectoryProblem, "solve", counted)
    ps.smooth(walk, threads=1)
    assert asked == [1]
    monkeypatch.setattr("posable.mocap.smooth.STANDS", 0.0)
    ps.smooth(walk, threads=1)
    assert asked == [1, 1, 3]


def test_paths_in_parts_are_the_paths(walk, monkeypatch):
    points = ("foot.L", "toes.R")
    trajectory = paths_of(walk, points)
    monkeypatch.setattr("posable.mocap.foot_contacts.PART", 50)
    assert np.array_equal(paths_of(walk, points), trajectory)
    assert np.array_equal(trajectory[:, 1], ps.forward(walk.skeleton, walk.poses).position("toes.R"))


def test_a_robot_without_a_head_still_tells_which_way_the_source_stands(walk, human):
    """The axis is the source's matter: a target whose roles have no head must not lay the motion down."""
    headless = with_free_root(human).replace(
        joints=[joint for joint in human.joints if joint.name.split(".")[0] not in ("neck", "skull")],
        sites=[],
    )
    mislabelled = ps.Motion(walk.skeleton.replace(up="z"), walk.poses, walk.fps)
    stood = ps.retarget(mislabelled, headless, threads=1)
    assert any("stands along y" in note for note in stood.notes)
    assert ps.motion_quality(stood, mislabelled)["leg bones off [deg]"] < 6.0


def test_couplings_of_the_target_hold(walk, human):
    """A figure with couplings of its own takes a motion; its goals over time are not mistaken for them."""
    coupled = human.replace(couplings=[("elbow.L", "elbow.R", 1.0, 0.0)])
    result = ps.retarget(walk, coupled, threads=1)
    left, right = (result.poses[:, coupled.index(f"elbow.{side}")] for side in "LR")
    np.testing.assert_allclose(left, right, atol=2e-3)


def test_a_foot_that_stays_on_its_toes_does_not_raise_the_floor_of_its_ankle(walk, human):
    """A dancer's heel that never comes down is as high over its sole as the other one."""
    from posable.mocap.role_frames import RoleFrames
    from posable.mocap.supports import FootSteps
    from posable.model.body_plan import body_plan

    plan = body_plan(human)
    seen = RoleFrames(walk, plan, np.eye(3))
    flat = FootSteps(seen, plan.leg, plan.up, ())
    seen.places["ankle.R"] = seen.places["ankle.R"] + 0.15 * plan.up
    raised = FootSteps(seen, plan.leg, plan.up, ())
    assert raised.ankle_height["R"] < flat.ankle_height["R"] + 0.08 * plan.leg + 1e-3
    assert not raised.heel["R"].any()


def test_ways_are_scaled_by_the_size_of_the_body(walk, human):
    """Twice the figure takes twice the way; long arms alone lengthen it less than they are longer."""
    tall = ps.figures.human(height=2.0)
    result = ps.retarget(walk, tall, threads=1)
    assert result.scale == pytest.approx(2.0 / 1.75, rel=0.03)
    factors = {"elbow": 1.3, "wrist": 1.3}
    joints = [replace(j, offset=np.asarray(j.offset) * factors.get(j.name.split(".")[0], 1.0)) for j in human.joints]
    assert 1.02 < ps.retarget(walk, human.replace(joints=joints), threads=1).scale < 1.15


def test_bones_that_point_elsewhere_are_reported(walk, human):
    """Arms that are raised in the motion and cannot be on the figure are not passed over in silence."""
    stiff = human.with_limits({f"{name}.{side}": (0.0, 0.0) for name in ("shoulder", "elbow") for side in "LR"})
    poses = walk.poses.copy()
    poses[:, human.index("shoulder.L")] = poses[:, human.index("shoulder.R")] = (-1.5, 0.0, 0.0)
    raised = ps.Motion(human, np.clip(poses, human.lower, human.upper), walk.fps)
    with pytest.warns(ps.PosableWarning, match="bones point elsewhere.*is at its limit of"):
        ps.retarget(raised, stiff, threads=1)
    short = human.with_limits({f"shoulder.{side}": (-0.4, 0.5) for side in "LR"})
    result = ps.retarget(raised, short, threads=1)
    assert any(note.startswith("bones off the motion's: ") for note in result.notes)


def test_wide_feet_do_not_stand_in_each_other(human):
    """A person with feet together lends the stance; soles wider than that stand beside each other, and do not slip."""
    from posable.model.shapes import box

    rest = ps.forward(human, human.rest)
    feet = {side: rest.position(f"foot.{side}") * (0.3, 1.0, 1.0) for side in "LR"}
    goals = [ps.goals.Position(f"foot.{side}", np.tile(feet[side], (40, 1))) for side in "LR"]
    goals += [ps.goals.Orientation(f"foot.{side}", rest.rotation_matrix(f"foot.{side}")) for side in "LR"]
    together = ps.follow(human, goals, fps=30)
    wide = [box(f"ankle.{side}", (0.08, 0.03, 0.14)).moved(f"ankle.{side}", (0.0, -0.04, 0.05)) for side in "LR"]
    result = ps.retarget(together, human.replace(shapes=wide), threads=1)
    quality = ps.motion_quality(result, together)
    assert quality["self penetration over 1 cm [% of frames]"] == 0.0
    assert quality["slip of standing feet, largest [mm]"] < 5.0


@pytest.mark.parametrize("step", [4, 1])
def test_a_stretched_leg_does_not_slip(data_dir, step):
    """At the end of its stance a leg of `human` is straight in this walk: the pelvis gives way, not the foot."""
    whole = ps.load(data_dir / "cmu" / "05_01.bvh").motion
    result = ps.retarget(ps.Motion(whole.skeleton, whole.poses[1::step], whole.fps / step), ps.figures.human())
    assert len(result.contacts.steps()) > 10
    assert result.contacts.slips(result).max() < 0.004


def test_a_motion_below_the_ground_is_raised_onto_it(walk, human):
    """Files whose origin is the pelvis have feet below height 0."""
    sunk = np.array([move_figure(human, pose, np.eye(3), np.array([0.0, -0.9, 0.0])) for pose in walk.poses])
    plain, raised = (ps.retarget(ps.Motion(human, poses, walk.fps), human, threads=1) for poses in (walk.poses, sunk))
    assert any("taken for the ground" in note for note in raised.notes)
    feet = [ps.forward(human, motion.poses).position("ankle.L")[:, 1] for motion in (plain, raised)]
    assert np.abs(feet[0] - feet[1]).max() < 0.06  # the height of an ankle over its sole is not known then
    assert ps.motion_quality(raised)["ground penetration over 1 cm [% of frames]"] == 0.0


def test_wrists_stay_near_rest_where_nothing_asks_for_more(walk, fixtures):
    """Hands are at their places with any twist of the forearm: wrists used to turn by 60 degrees on the G1."""
    result = ps.retarget(walk, ps.load(fixtures / "humanoid/humanoid.xml").skeleton, threads=1)
    wrists = [name for name in result.skeleton.names if "wrist" in name]
    assert len(wrists) == 6
    for name in wrists:
        assert np.abs(result.poses[:, result.skeleton.index(name)]).mean() < 0.35


def test_a_reference_pose_before_the_motion_is_left_out(walk, human):
    poses = walk.poses.copy()
    for side in "LR":
        poses[0, human.index(f"shoulder.{side}")] += (1.4, 0.0, 0.0)
    apart = ps.Motion(walk.skeleton, poses, walk.fps)
    result = ps.retarget(apart, human, threads=1)
    assert any("frame 0 is a pose of its own" in note for note in result.notes)
    assert len(result) == len(walk)
    plain = ps.retarget(walk, human, threads=1)
    assert np.abs(result.poses - plain.poses).max() < 0.05
    assert not plain.notes


def test_a_crawl_along_the_other_axis_is_not_stood_up(walk, human):
    """The figure stands along its up axis at rest: where it is along z in most frames, it lies on the ground."""
    lying = np.array([move_figure(human, pose, Rotation.from_euler("x", 90, degrees=True).as_matrix(), np.zeros(3))
                      for pose in walk.poses[:20]])  # fmt: skip
    at = ps.forward(human, lying)
    low = min(at.position(name)[:, 1].min() for name in human.names)
    lying[:, human.index("root")][:, 1] -= low
    motion = ps.Motion(human, lying, walk.fps)
    assert standing_axis(motion, body_plan(human)) == "y"
    assert standing_axis(ps.Motion(human.replace(up="z"), lying, walk.fps), body_plan(human.replace(up="z"))) == "z"


def test_a_kneeling_figure_keeps_its_shins_on_the_ground(human):
    """Its feet are low and still but do not stand; thicker shins than the source's raise the whole body."""
    poses = np.tile(human.rest, (60, 1))
    for side in "LR":
        poses[:, human.index(f"knee.{side}")] = np.radians(90.0)
        poses[:, human.index(f"ankle.{side}")][:, 0] = np.radians(50.0)
    poses[:, human.index("root")][:, 2] = np.linspace(0.0, 0.1, 60)
    low = ps.forward(human, poses).position("knee.L")[0, 1] - 0.02
    poses[:, human.index("root")][:, 1] -= low
    motion = ps.Motion(human, poses, 30.0)
    shins = [capsule(f"knee.{side}", (0, 0, 0), (0, -0.3, 0), 0.1) for side in "LR"]
    result = ps.retarget(motion, human.replace(shapes=shins), threads=1)
    quality = ps.motion_quality(result, motion)
    assert quality["leg bones off [deg]"] < 8.0
    assert quality["ground penetration over 1 cm [% of frames]"] == 0.0
    knees = ps.forward(result.skeleton, result.poses).position("knee.L")[:, 1]
    assert (np.abs(knees - 0.1) < 0.03).all()
    assert not any("no collision shapes" in note for note in result.notes)
    bare = ps.retarget(motion, human, threads=1)
    assert any("no collision shapes" in note and "knee.L, knee.R" in note for note in bare.notes)


def test_a_hinge_stops_at_limits_a_whole_turn_apart():
    """A motor from -180 to 180 degrees cannot go on; an angle of a ball joint with the same limits can."""
    turn = (-np.pi, np.pi)
    arm = ps.Skeleton([
        ps.Joint("stop", ps.Revolute("z"), limits=turn),
        ps.Joint("ball", ps.Ball("xyz"), parent="stop", offset=(1, 0, 0), limits=(turn, turn, turn)),
        ps.Joint("wheel", ps.Revolute("z"), parent="ball", offset=(1, 0, 0)),
    ])  # fmt: skip
    lower, upper = open_box(arm)
    np.testing.assert_array_equal(lower, [-np.pi, *([-np.inf] * 4)])
    np.testing.assert_array_equal(upper, [np.pi, *([np.inf] * 4)])


def test_a_foot_stands_on_its_edge_where_its_ankle_cannot_lean_as_far(human, fixtures):
    """Ankles of robots roll by 15 degrees: feet held flat used to push the legs off the source's."""
    rest, t = ps.forward(human, human.rest), np.linspace(0.0, 2.0 * np.pi, 60)
    sway = np.stack([0.42 * np.sin(t), -0.12 * (1.0 - np.cos(t)), 0.0 * t], axis=1)
    goals = [ps.goals.Position("pelvis", rest.position("pelvis") + sway)]
    goals += [ps.goals.Position(f"foot.{side}", np.tile(rest.position(f"foot.{side}"), (60, 1))) for side in "LR"]
    goals += [ps.goals.Orientation(f"foot.{side}", np.eye(3)) for side in "LR"]
    source = ps.follow(human, goals, fps=30)
    robot = ps.load(fixtures / "humanoid/humanoid.xml").skeleton
    narrow = [replace(one, limits=(-0.1, 0.1)) if "ankle_roll" in one.name else one for one in robot.joints]
    quality = ps.motion_quality(ps.retarget(source, robot.replace(joints=narrow), threads=1), source)
    assert quality["leg bones off [deg]"] < 9.0  # 14 where feet are held flat
    assert quality["soles from their support, mean [mm]"] < 5.0
    assert quality["ground penetration over 1 cm [% of frames]"] == 0.0


def test_frames_that_are_far_away_for_a_moment_are_bridged(walk, human):
    poses = walk.poses.copy()
    root = human.index(human.free_root)
    poses[40:44, root.start] += 8.0
    result = ps.retarget(ps.Motion(human, poses, walk.fps), human, threads=1)
    assert any("frames 40 to 43 are bridged" in note for note in result.notes)
    plain = ps.retarget(walk, human, threads=1)
    assert np.abs(result.poses[:, root][:, :3] - plain.poses[:, root][:, :3]).max() < 0.02
    assert not plain.notes


def test_a_bone_that_a_touch_keeps_off_says_so(walk, human):
    """A hand that touches what it does not touch in the source pulls its arm away."""
    rows = {role: (joint, joint) for role, joint in body_plan(human).roles.items()}
    wanted = RetargetGoals(walk, human, rows)
    poses = walk.poses.copy()
    poses[:, human.index("shoulder.L")] += [0.3, 0.0, 0.0]
    touch = Touch("L", ("hip.L", "hip.R"), 0, len(poses))
    for touches, reason in (([], ""), ([touch], " (its hand keeps a touch; touches=False lets it go)")):
        notes, far = _far_bones(wanted, poses, touches)
        assert not far
        assert len(notes) == 1
        assert f"worst{reason}" in notes[0]
        assert ("touch" in notes[0]) == bool(touches)
