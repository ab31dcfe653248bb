"""Human motion on the Unitree G1: Posable beside GMR and OmniRetarget by the same measures."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import posable as ps
from benchmarks.page import Page
from benchmarks.retargeting_bounds import any_speed, least_bones, least_tracking
from posable.mocap.retarget import Retargeted
from posable.mocap.root_align import best_turn

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


MORE = {
    "jog": "hdm05/HDM_tr_jogLeftCircle4StepsRstart_014_120.amc",
    "sneak": "hdm05/HDM_bk_sneak2StepsLStart_006_120.AMC",
    "kick": "hdm05/HDM_bk_kickLFront1Reps_007_120.amc",
    "lie down": "hdm05/HDM_bk_lieDownFloor_005_120.amc",
    "pick up": "hdm05/HDM_tr_depositFloorR_027_120.amc",
    "hop": "cmu/02_04.bvh",
    "walk 16": "cmu/16_15.bvh",
    "boxing": "bvh/assimp_Boxing_Toes.bvh",
    "zombie": "bvh/animdraw_fair1_zombie.bvh",
    "pirouette": "bvh/threejs_pirouette.bvh",
    "cartwheel": "cmu/87_05.bvh",
    "jumping jacks": "bvh/animdraw_cmu1_jumping_jacks.bvh",
    "dab": "bvh/animdraw_fair1_dab.bvh",
}
POSITIONS = {"climb_0": "", "hop": "cmu/02_04.bvh", "pirouette": "bvh/threejs_pirouette.bvh"}
TARGETS = {
    "G1": "mjcf/unitree_g1/g1.xml",
    "Talos": "mjcf/pal_talos/talos.xml",
    "Romeo": "urdf/erd_romeo.urdf",
    "human": "",
    "CesiumMan": "gltf/khronos_CesiumMan.glb",
}
LONGEST = 240  # frames of a further clip


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
        "files. Penetration is measured on all shapes of the robot's file, including the rubber hands, which are "
        "visual only. "
        "A foot counts as standing below 0.35 leg lengths a second, which is generous and favours a system that "
        "locks its feet. Tracking: pelvis (the middle of the hips), head, hands and feet, each a quarter, after one "
        "scale and one shift. The last column has the frame of the G1's pelvis link instead, 11 to 13 cm above its "
        "hips; in the climbs and the dance the source's pelvis is between its hips, so that about 36 mm of it are no "
        "fault."
    )
    for clip in list(CLIPS)[: page.pick(len(CLIPS), 2)]:
        page.heading(clip)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            motion, objects = source(page.data, clip)
            ours, taken = _timed(motion, robot, objects)
        rows = [("Posable", ours, ours.scale, taken)]
        rows += [
            (label, *peer(page.data, name, clip, robot))
            for label, name in (("GMR", "gmr"), ("OmniRetarget", "omniretarget"))
        ]
        table = []
        for label, result, scale, seconds in rows:
            quality = ps.motion_quality(result, motion, objects=objects, scale=scale)
            from_pelvis = _from_pelvis(page.data, clip, result)
            table.append([label, len(result) / seconds, *(quality.get(key, "") for key in SHOWN), from_pelvis])
        page.table(clip, ["", "frames/s", *SHOWN.values(), "tracking, pelvis frame [mm]"], table)
        page.value(f"{clip}_leg_bones_deg", table[0][-2])
    _further(page)
    _positions(page)


def _positions(page: Page) -> None:
    """Add a table of joint positions that become a BVH file: clean, and with gaps and noise."""
    assert page.data is not None
    page.heading("Joint positions to BVH")
    page.text(
        "`ps.load(positions.npy, names=...)`, then `ps.save(file.bvh)`, read again: distance of every joint from where "
        "it was in the clean positions, after one rotation and shift for the clip (a BVH file has y up). Gaps: a fifth "
        "of all positions is missing and the others have noise of 2 cm."
    )
    table = []
    for clip in list(POSITIONS)[: page.pick(len(POSITIONS), 1)]:
        clean, names, fps = _joint_paths(page.data, clip)
        rng = np.random.default_rng(0)
        worn = clean + rng.normal(0.0, 0.02 / np.sqrt(3.0), clean.shape)
        worn[rng.random(clean.shape[:2]) < 0.2] = np.nan
        for label, paths in (("clean", clean), ("gaps", worn)):
            found = _through_bvh(paths, names, fps)
            turn, shift = best_turn(found.reshape(-1, 3), clean.reshape(-1, 3))
            errors = 1e3 * np.linalg.norm(found @ turn.T + shift - clean, axis=-1)
            bends = [float(np.abs(np.diff(p, n=2, axis=0)).mean() * fps**2) for p in (found, clean)]
            table.append([f"{clip}, {label}", np.median(errors), np.quantile(errors, 0.95), *bends])
    head = ["", "median [mm]", "95% [mm]", "acceleration [m/s²]", "of the clean positions [m/s²]"]
    page.table("joint positions to BVH", head, table)


def _joint_paths(data: Path, clip: str) -> tuple[np.ndarray, list[str], float]:
    """Return joint positions (T, J, 3) [m] at about 30 frames a second, the joints' names and the rate."""
    if not POSITIONS[clip]:
        paths = np.load(data / "humanoid" / clip / "joint_positions.npy")[::4][:LONGEST]
        return paths, (data / "humanoid" / "joint_names.txt").read_text().split(), 30.0
    whole = ps.load(data / POSITIONS[clip]).motion
    assert whole is not None
    step = max(1, round(whole.fps / 30.0))
    frames = ps.forward(whole.skeleton, whole.poses[::step][:LONGEST])
    names = list(whole.skeleton.names)
    paths = np.stack([frames.position(name) for name in names], axis=1)
    paths = np.stack([paths[..., 0], -paths[..., 2], paths[..., 1]], axis=-1)  # z up, as arrays are read
    return paths * 1.7 / np.ptp(paths[..., 2], axis=1).max(), names, whole.fps / step  # [m]: the file states no unit


def _through_bvh(paths: np.ndarray, names: list[str], fps: float) -> np.ndarray:
    """Return joint positions (T, J, 3) of a BVH file made of positions."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.save(Path(folder) / "joints.npy", paths)
        motion = ps.load(Path(folder) / "joints.npy", names=names, fps=fps).motion
        assert motion is not None
        ps.save(Path(folder) / "out.bvh", motion)
        read = ps.load(Path(folder) / "out.bvh").motion
    assert read is not None
    frames = ps.forward(read.skeleton, read.poses)
    return np.stack([frames.position(name) for name in names], axis=1)


def _timed(motion: ps.Motion, figure: ps.Skeleton, objects: Sequence[Path] = ()) -> tuple[Retargeted, float]:
    """Return the result and its processor time [s]: the better of two runs after one that loads the code."""
    ps.retarget(ps.Motion(motion.skeleton, motion.poses[:20], motion.fps), figure, objects=objects, threads=1)
    runs = []
    for _ in range(2):
        begin = time.process_time()
        result = ps.retarget(motion, figure, objects=objects, threads=1)
        runs.append((time.process_time() - begin, result))
    return runs[0][1], min(seconds for seconds, _ in runs)


def _from_pelvis(data: Path, clip: str, motion: ps.Motion) -> float:
    """Return the tracking error [mm] of the G1 with its pelvis where the frame of that link is, not its hips.

    The palm of a hand is 10 cm beyond its wrist, the crown of the head 40 cm above the waist.
    """
    file = np.load(data / "humanoid" / "sources" / f"{clip}.npz")
    count = min(len(motion), len(file["positions"]))
    seen = {str(role): file["positions"][:count, k] for k, role in enumerate(file["roles"])}
    frames = ps.forward(motion.skeleton, motion.poses[:count])
    root = motion.skeleton.free_root
    assert root is not None
    rows = [("pelvis", root, (0, 0, 0), 1.0), ("head", "waist_pitch_joint", (0, 0, 0.4), 1.0)]
    for side, name in (("L", "left"), ("R", "right")):
        seen[f"hand.{side}"] = 0.5 * (seen[f"wrist.{side}"] + seen[f"tip.{side}"])
        rows.append((f"hand.{side}", f"{name}_wrist_yaw_joint", (0.1, 0, 0), 0.5))
        rows.append((f"ankle.{side}", f"{name}_ankle_roll_joint", (0, 0, 0), 0.25))
        rows.append((f"toe.{side}", f"{name}_ankle_roll_joint", (0.12, 0, -0.035), 0.25))
    one = np.stack([frames.position(joint) + frames.rotation_matrix(joint) @ np.array(at) for _, joint, at, _ in rows])
    other = np.stack([seen[role] for role, *_ in rows])
    one, other = (points - points.reshape(-1, 3).mean(axis=0) for points in (one, other))
    scale = (one * other).sum() / (other**2).sum()
    errors = np.linalg.norm(one - scale * other, axis=-1).mean(axis=1)
    return 1e3 * float(errors @ [weight for *_, weight in rows]) / 4.0


def _further(page: Page) -> None:
    """Add a table of other clips and figures."""
    assert page.data is not None
    page.heading("Other clips and figures")
    page.text(
        "The first 240 frames of each clip at about 30 frames a second, one call, no option. A T pose before a "
        "recording is left out. The columns called least are lower bounds for any method: each frame is solved on its "
        "own within the joint limits, for the directions of arm and leg bones alone, from several starts, or for the "
        "tracked places alone; there are no contacts, collisions, velocities or smoothness. Any speed: another call in "
        "which the joints have no velocity limits, where the file has any: most of Romeo's are 2 to 6 rad/s, less than "
        "these motions need. Tracking is measured after one scale for the whole body: where trunk and legs are in "
        "other proportions than the source's, part of it remains in any posture with the same directions of bones, "
        "pelvis, chest and feet, which is the last column (the hips of the G1 are 7 to 8 cm low in the hop, walk 16 "
        "and the jumping jacks: its trunk is long for its legs). "
        "Frames a second: processor time on one core, the better of two runs, after a first one that loads the code."
    )
    table = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, file in list(TARGETS.items())[: page.pick(len(TARGETS), 1)]:
            figure = ps.load(page.data / file).skeleton if file else ps.figures.human()
            for clip, path in list(MORE.items())[: page.pick(len(MORE), 2)]:
                whole = ps.load(page.data / path).motion
                assert whole is not None
                step = max(1, round(whole.fps / 30.0))
                motion = ps.Motion(whole.skeleton, whole.poses[::step][:LONGEST], whole.fps / step)
                ours, taken = _timed(motion, figure)
                quality = ps.motion_quality(ours, ours.source)
                keys = [key for key in SHOWN if not key.startswith("objects")]
                values = (quality.get(key, "") for key in keys)
                limited = np.isfinite(figure.velocity).any()
                free = ps.motion_quality(ps.retarget(motion, any_speed(figure)), ours.source) if limited else {}
                freed = (free.get(f"{limb} bones off [deg]", "") for limb in ("arm", "leg"))
                bounds = (*least_bones(ours), least_tracking(ours), least_tracking(ours, posture=True))
                table.append([f"{clip} on {name}", len(ours) / taken, *values, *freed, *bounds])
    names = [name for key, name in SHOWN.items() if not key.startswith("objects")]
    names += ["arms, any speed [°]", "legs, any speed [°]"]
    names += ["arms, least [°]", "legs, least [°]", "tracking, least [mm]", "tracking, same posture [mm]"]
    page.table("other clips and figures", ["", "frames/s", *names], table)
