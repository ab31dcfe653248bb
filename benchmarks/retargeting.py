"""Human motion on the Unitree G1: Posable beside GMR and OmniRetarget by the same measures."""

from __future__ import annotations

import time
import warnings
from pathlib import Path

import numpy as np

import posable as ps
from benchmarks.page import Page

CLIPS = {"climb_0": (0, 701), "climb_1": (1200, 300), "walk": (1, 150), "dance": (0, 336)}
STEPS = {"climb_0": 4, "climb_1": 4, "walk": 4, "dance": 3}
BVH = {"walk": "cmu/05_01.bvh", "dance": "bvh/animdraw_rokoko_jesse_dance.bvh"}
SHOWN = {
    "self penetration over 1 cm [% of frames]": "self over 1 cm [%]",
    "ground penetration over 1 cm [% of frames]": "ground over 1 cm [%]",
    "objects penetration over 1 cm [% of frames]": "objects over 1 cm [%]",
    "slip of standing feet, mean [mm]": "slip [mm]",
    "soles from their support, mean [mm]": "soles off [mm]",
    "mean acceleration [rad/s2]": "acceleration [rad/s²]",
    "jumps over 0.5 rad [frames]": "jumps",
    "tracking error [mm]": "tracking [mm]",
    "arm bones off [deg]": "arms [°]",
    "leg bones off [deg]": "legs [°]",
}


def source(data: Path, clip: str) -> tuple[ps.Motion, list[Path]]:
    """Return a clip's motion at about 30 frames a second, and the objects in it."""
    first, count = CLIPS[clip]
    rows = slice(first, first + count * STEPS[clip], STEPS[clip])
    if clip in BVH:
        motion = ps.load(data / BVH[clip]).motion
        assert motion is not None
        return ps.Motion(motion.skeleton, motion.poses[rows], motion.fps / STEPS[clip]), []
    folder = data / "humanoid" / clip
    names = (data / "humanoid" / "joint_names.txt").read_text().split()
    motion = ps.load(folder / "joint_positions.npy", names=names, fps=120.0).motion
    assert motion is not None
    return ps.Motion(motion.skeleton, motion.poses[rows], 30.0), [folder / "boxes.obj"]


def peer(data: Path, name: str, clip: str, robot: ps.Skeleton) -> tuple[ps.Motion, float, float]:
    """Return a peer's motion, its scale of the world and its CPU time [s]."""
    file = np.load(data / "humanoid" / "peers" / f"{name}_{clip}.npz")
    joints = [joint.name for joint in robot.joints if joint.motion.size == 1]
    order = [list(file["joints"]).index(joint) for joint in joints]
    qpos = np.c_[file["qpos"][:, :7], file["qpos"][:, 7:36][:, order]]
    return ps.Motion(robot, robot.from_qpos(qpos), float(file["fps"])), float(file["scale"]), float(file["cpu_s"])


def evidence(page: Page) -> None:
    """Write the page of this subject."""
    assert page.data is not None
    robot = ps.load(page.data / "mjcf" / "unitree_g1" / "g1.xml").skeleton
    assert robot is not None
    page.text(
        "`ps.retarget(motion, g1, objects=...)` without any other option. Every row is `ps.motion_quality` of a "
        "trajectory against its source. GMR and OmniRetarget were run elsewhere; their trajectories and CPU times are "
        "files. The measures judge the collision shapes of the robot's file; hands of rubber are not among them. "
        "A foot counts as standing below 0.35 leg lengths a second, which is generous and favours a system that "
        "locks its feet."
    )
    for clip in list(CLIPS)[: page.pick(len(CLIPS), 2)]:
        page.heading(clip)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            motion, objects = source(page.data, clip)
            ps.retarget(ps.Motion(motion.skeleton, motion.poses[:20], motion.fps), robot, objects=objects, threads=1)
            begin = time.process_time()
            ours = ps.retarget(motion, robot, objects=objects, threads=1)
        taken = time.process_time() - begin
        rows = [("Posable", ours, ours.scale, taken)]
        rows += [
            (label, *peer(page.data, name, clip, robot))
            for label, name in (("GMR", "gmr"), ("OmniRetarget", "omniretarget"))
        ]
        table = []
        for label, result, scale, seconds in rows:
            quality = ps.motion_quality(result, motion, objects=objects, scale=scale)
            table.append([label, len(result) / seconds, *(quality.get(key, "") for key in SHOWN)])
        page.table(clip, ["", "frames/s", *SHOWN.values()], table)
        page.value(f"{clip}_leg_bones_deg", table[0][-1])
