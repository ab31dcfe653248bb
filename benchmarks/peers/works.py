"""The work that everybody is given: figures, goals drawn from reachable poses, and where each solve starts."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

import posable as ps
from benchmarks.peers.chain import Chain, read_urdf
from benchmarks.peers.export import to_urdf

TAKE = "hdm05/HDM_dg_06-03_03_120"
TALOS_BODIES = (
    "arm_left_7_joint", "arm_right_7_joint", "leg_left_6_joint", "leg_right_6_joint", "head_2_joint", "torso_2_joint",
)  # fmt: skip
HUMAN_BODIES = ("hand.L", "hand.R", "foot.L", "foot.R", "head", "pelvis")


@dataclass(frozen=True)
class Figure:
    """A figure as Posable has it and as the peers do: skeleton, URDF, and what leads from one to the other."""

    skeleton: ps.Skeleton
    bodies: dict[str, str]  # {link of the URDF: body of the skeleton}, a goal each
    urdf: Path
    columns: list[int]  # of the pose, for each joint of the URDF
    chain: Chain
    free_root: bool


@dataclass(frozen=True)
class Work:
    """Goals for a figure.

    targets (K, F, 4, 4): a pose for each goal; kind "position" leaves its rotation out. start (n,), root (4, 4) or
    None: where every solve begins, or with `sequence` the first alone, each of the others where the last one ended.
    restarts: how often a peer without restarts of its own may begin again at a random pose.
    """

    name: str
    title: str
    figure: Figure
    kind: str
    targets: np.ndarray
    start: np.ndarray
    root: np.ndarray | None = None
    sequence: bool = False
    restarts: int = 20
    tracking: bool = False  # judged by its mean error, not by what it reached

    @property
    def frames(self) -> list[str]:
        """The links that the goals hold."""
        return list(self.figure.bodies)

    def save(self, folder: Path) -> Path:
        """Write what a worker needs; return the file's path."""
        path = folder / f"{self.name}.npz"
        root = np.zeros((0, 4, 4)) if self.root is None else self.root[None]
        np.savez(path, targets=self.targets, start=self.start, root=root)
        told = {
            "urdf": str(self.figure.urdf), "frames": self.frames, "kind": self.kind, "sequence": self.sequence,
            "restarts": self.restarts, "tracking": self.tracking, "bodies": list(self.figure.bodies.values()),
            "columns": self.figure.columns,
        }  # fmt: skip
        path.with_suffix(".json").write_text(json.dumps(told), encoding="utf8")
        path.with_suffix(".pickle").write_bytes(pickle.dumps(self.figure.skeleton))
        return path


def make_figure(skeleton: ps.Skeleton, bodies, folder: Path, name: str, *, free_root: bool) -> Figure:
    """Return a figure with goals on the given bodies, its URDF written to the folder."""
    links = {"goal_" + body.replace(".", "_"): body for body in bodies}
    text, columns = to_urdf(skeleton, links, free_root=free_root)
    path = folder / f"{name}.urdf"
    path.write_text(text, encoding="utf8")
    return Figure(skeleton, links, path, columns, read_urdf(path), free_root)


def reached(figure: Figure, joints: np.ndarray, roots: np.ndarray | None) -> np.ndarray:
    """Return where the goals' links are, (K, F, 4, 4)."""
    found = figure.chain.frames(joints, roots)
    return np.stack([found[name] for name in figure.bodies], axis=1)


def panda(folder: Path, count: int) -> Work:
    """Random reachable poses of the Panda's hand, joints drawn over their whole range, from the middle of it."""
    figure = make_figure(ps.figures.panda(), ["hand"], folder, "panda", free_root=False)
    return _arm("panda", f"Panda, 7 axes, to {count} random reachable poses from mid-range", figure, count)


def ur5(folder: Path, count: int, data: Path) -> Work:
    """Random reachable poses of the UR5's tool, joints drawn over their whole range of two turns each."""
    skeleton = ps.load(data / "urdf" / "erd_ur5_robot.urdf").skeleton
    figure = make_figure(skeleton, ["tool0"], folder, "ur5", free_root=False)
    return _arm("ur5", f"UR5, 6 axes, to {count} random reachable poses from mid-range", figure, count)


def kr16(folder: Path, count: int) -> Work:
    """Random reachable poses of the KR16's flange, joints drawn over their whole range."""
    from benchmarks.solutions import arm  # the table of arms

    figure = make_figure(arm("KR16"), ["tool"], folder, "kr16", free_root=False)
    return _arm("kr16", f"KR16, 6 axes, to {count} random reachable poses from mid-range", figure, count)


def _arm(name: str, title: str, figure: Figure, count: int) -> Work:
    chain = figure.chain
    joints = np.random.default_rng(1).uniform(chain.lower, chain.upper, size=(count, len(chain.names)))
    return Work(name, title, figure, "pose", reached(figure, joints, None), (chain.lower + chain.upper) / 2)


def talos(folder: Path, count: int, data: Path, share: float) -> Work:
    """Six pose goals of Talos on its free root, joints drawn from a share of their range about neutral."""
    loaded = ps.load(data / "urdf" / "erd_talos_reduced.urdf").skeleton
    root, *rest = loaded.joints
    skeleton = loaded.replace(joints=[replace(root, motion=ps.Free("zyx")), *rest])
    skeleton = skeleton.freeze([name for name in skeleton.names if name.startswith("gripper")])
    part = "the whole" if share == 1.0 else "half"
    name = f"talos_{share * 100:.0f}"
    figure = make_figure(skeleton, TALOS_BODIES, folder, name, free_root=True)
    chain, rng = figure.chain, np.random.default_rng(1)
    neutral = np.clip(np.zeros(len(chain.names)), chain.lower, chain.upper)
    drawn = rng.uniform(chain.lower, chain.upper, size=(count, len(chain.names)))
    joints = neutral + share * (drawn - neutral)
    roots = np.broadcast_to(np.eye(4), (count, 4, 4)).copy()
    roots[:, :3, 3] = share * rng.uniform(-0.5, 0.5, size=(count, 3))
    roots[:, :3, :3] = Rotation.from_euler("ZYX", share * rng.uniform(-0.5, 0.5, size=(count, 3))).as_matrix()
    title = f"Talos, free root, 36 degrees of freedom, six pose goals over {part} of its range, from neutral"
    return Work(name, title, figure, "pose", reached(figure, joints, roots), neutral, np.eye(4))


def human(folder: Path, count: int) -> Work:
    """Six position goals of the human with its 142 limits; they wander by 0.05 to 1 m from one solve to the next."""
    skeleton = ps.figures.human()
    figure = make_figure(skeleton, HUMAN_BODIES, folder, "human", free_root=False)
    chain, rest = figure.chain, skeleton.rest[figure.columns]
    rng = np.random.default_rng(5)
    low, high = np.maximum(chain.lower, rest - 2.0), np.minimum(chain.upper, rest + 2.0)
    low[:3], high[:3] = rest[:3] - 0.5, rest[:3] + 0.5
    targets, pose, last = [], rest.copy(), None
    while len(targets) < count:
        step = np.clip(pose + rng.normal(size=len(rest)) * rng.uniform(0.02, 0.5), low, high)
        now = reached(figure, step[None], None)[0]
        moved = 0.05 if last is None else np.linalg.norm((now - last)[:, :3, 3], axis=1).max()
        if 0.05 <= moved <= 1.0:
            targets.append(now)
            pose, last = step, now
    title = f"Human, 71 degrees of freedom, 142 limits, six position goals that wander, {count} solves"
    return Work("human", title, figure, "position", np.array(targets), rest, sequence=True, restarts=0)


def markers(folder: Path, count: int, data: Path) -> Work:
    """A take of HDM05: 41 markers on a calibrated actor, limits on, frame after frame."""
    from posable.mocap.take import MarkerSource

    recorded = ps.load(data / f"{TAKE}.c3d").markers
    if recorded is None:
        raise ValueError(f"expected markers in {TAKE}.c3d")
    actor = ps.calibrate(ps.load(data / "hdm05/HDM_dg.asf").skeleton, recorded)
    source = MarkerSource(actor, recorded)
    figure = make_figure(actor, source.sites, folder, "markers", free_root=True)
    places = source.read(0, min(count, len(recorded)))
    targets = np.broadcast_to(np.eye(4), (*places.shape[:2], 4, 4)).copy()
    targets[..., :3, 3] = places
    first = ps.track(actor, recorded).motion.poses[0]
    at, order = actor.index(actor.joints[0].name), actor.joints[0].motion.order  # pyright: ignore
    root = np.eye(4)
    root[:3, 3] = first[at][:3]
    root[:3, :3] = Rotation.from_euler(order.upper(), first[at][3:]).as_matrix()
    title = f"Markers: {len(places)} frames of HDM05, {places.shape[1]} markers, 62 degrees of freedom, limits on"
    start = np.clip(first[figure.columns], figure.chain.lower, figure.chain.upper)
    return Work("markers", title, figure, "position", targets, start, root, sequence=True, restarts=0, tracking=True)
