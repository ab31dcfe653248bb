"""Smoothing: what filters do to rotations that jump."""

import numpy as np
from scipy.spatial.transform import Rotation

import posable as ps


def test_bones_that_noise_turns_anywhere_are_filtered_as_rotations():
    """One frame in seven is random; values of a ball, filtered as numbers, pass through rotations that lie far off."""
    joints = [ps.Joint("root", ps.Free("rotvec")), ps.Joint("ball", ps.Ball("rotvec"), "root", offset=(0, 0, 1))]
    skeleton = ps.Skeleton(joints, [ps.Site("tip", "ball", offset=(0.3, 0.2, 0.0))])
    times = 0.02 * np.arange(240)
    true = Rotation.from_rotvec(np.stack([2.5 * np.sin(times), 1.5 * np.cos(times), np.full(240, 0.5)], axis=1))
    off, plain = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        turns = true.as_rotvec()
        wrong = rng.random(240) < 0.15
        turns[wrong] = Rotation.random(wrong.sum(), random_state=seed).as_rotvec()
        poses = np.hstack([np.zeros((240, 6)), turns])
        calm = ps.smooth(ps.Motion(skeleton, poses, 60.0), 0.15, contacts=False).poses
        off.append((Rotation.from_rotvec(np.array(calm[:, 6:])) * true.inv()).magnitude().mean())
        plain.append((Rotation.from_rotvec(turns) * true.inv()).magnitude().mean())
    assert np.mean(off) < 0.95 * np.mean(plain)  # 1.05 where the values are filtered: worse than no smoothing


def test_translations_that_a_solve_holds_are_smoothed_with_the_motion():
    """Bones of a character keep their lengths when it is posed; its recorded motion still moves them."""
    joints = [ps.Joint("scene", ps.Free("rotvec")), ps.Joint("hips", ps.Free("rotvec"), "scene", offset=(0, 1, 0))]
    skeleton = ps.Skeleton(joints).with_rigid_bones()
    poses = np.zeros((240, skeleton.size))
    walk = np.linspace(0.0, 3.0, 240)
    noise = np.random.default_rng(0).normal(0.0, 0.005, 240)
    poses[:, 6] = walk + noise
    calm = ps.smooth(ps.Motion(skeleton, poses, 60.0), 0.15, contacts=False).poses
    assert (calm[:, 6] - walk).std() < 0.6 * noise.std()
    assert np.diff(calm[:, 6], 2).std() < 0.2 * np.diff(poses[:, 6], 2).std()
