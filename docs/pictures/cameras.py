"""The picture of tracking from cameras: a walk in three synthetic images, with keypoints and the reconstruction."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from pages import DOCS

import posable as ps

mpl.use("Agg")
import matplotlib.pyplot as plt

JOINTS = {
    "nose": "skull", "neck": "neck",
    **{f"{side}_{name}": f"{joint}.{side[0].upper()}" for side in ("left", "right") for name, joint in (
        ("shoulder", "shoulder"), ("elbow", "elbow"), ("wrist", "wrist"), ("hip", "hip"), ("knee", "knee"),
        ("ankle", "ankle"), ("big_toe", "toes"))},
}  # fmt: skip
FRAME = 20


def filmed(places: np.ndarray) -> tuple[list[ps.Camera], np.ndarray]:
    """Return three cameras and noisy keypoints (3, T, J, 2) [px], some of them missing or wrong."""
    rng = np.random.default_rng(2)
    middle = places.reshape(-1, 3).mean(axis=0)
    cameras = [
        ps.Camera.look_at(
            middle + np.array([4 * np.sin(a), 0.7, 4 * np.cos(a)]), middle, 1100, (1100, 1100), up=(0, 1, 0)
        )
        for a in (0.4, 1.9, 4.4)
    ]
    pixels = np.stack([camera.project(places) for camera in cameras])
    pixels += rng.normal(0.0, 4.0, pixels.shape)
    wrong = rng.random(pixels.shape[:3]) < 0.06
    pixels[wrong] += rng.normal(0.0, 120.0, (int(wrong.sum()), 2))
    pixels[rng.random(pixels.shape[:3]) < 0.1] = np.nan
    return cameras, pixels


def main(out: Path) -> None:
    """Draw it."""
    motion = ps.load(DOCS.parent / "tests" / "fixtures" / "walk.amc").motion
    assert motion is not None
    frames = ps.forward(motion.skeleton, motion.poses)
    places = np.stack([frames.position(joint) for joint in JOINTS.values()], axis=1)
    cameras, pixels = filmed(places)
    take = ps.track(ps.Keypoints(list(JOINTS), pixels, motion.fps, cameras))
    print(take.report)
    found, names = ps.forward(take.motion.skeleton, take.motion.poses[FRAME]), list(JOINTS)
    joints = {joint.name: joint for joint in take.motion.skeleton.joints}
    figure, axes = plt.subplots(1, 3, figsize=(10, 4.4), layout="constrained")
    for k, (camera, ax) in enumerate(zip(cameras, axes, strict=True)):
        for name, joint in joints.items():
            if joint.parent is not None and np.linalg.norm(joint.offset) > 0.0:
                ends = camera.project([found.position(name), found.position(joint.parent)])
                ax.plot(*ends.T, color="#4d6fa5", lw=3, solid_capstyle="round")
        used = np.isfinite(take.errors[k, FRAME])
        ax.plot(*pixels[k, FRAME, used].T, "o", color="#1b9e8a", ms=5, label="keypoint")
        out_of_place = ~used & np.isfinite(pixels[k, FRAME, :, 0])
        ax.plot(*pixels[k, FRAME, out_of_place].T, "x", color="#d1495b", ms=9, mew=2, label="left out")
        unseen = ~np.isfinite(pixels[k, FRAME, :, 0])
        lost = camera.project([found.position(names[j]) for j in np.flatnonzero(unseen)]).reshape(-1, 2)
        ax.plot(*lost.T, "o", mfc="none", color="#888888", ms=8, label="not seen")
        ax.set(xlim=(330, 770), ylim=(880, 220), xticks=[], yticks=[], aspect="equal", title=f"camera {k + 1}")
    axes[0].legend(loc="lower left", frameon=False, fontsize=8)
    figure.savefig(out, dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS / "images" / "cameras.png")
