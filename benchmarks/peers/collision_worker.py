"""mink's or pink's collision avoidance at goals for hands and feet, in its own environment.

    python collision_worker.py mink|pink TASK.npz OUT.npz

TASK has the model's file, the frames and their targets, where each solve starts, the pairs of bodies that must stay
apart, and how often a solve may begin again at a random pose. OUT gets qpos, whether the goals were met, and the times.
"""

from __future__ import annotations

import json
import sys
import time
from abc import ABC, abstractmethod
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np

CLOSE, ALIGNED = 1e-4, 1e-3  # [m], [rad]: where iterations stop; Posable's own default tolerances
STEPS = 100
MARGIN, DETECTED = 0.001, 0.05  # [m] kept between bodies; where avoidance begins


class Peer(ABC):
    """What both share: a random start, the loop of steps."""

    packages: tuple[str, ...] = ()

    configuration: Any
    tasks: list[Any]

    def __init__(self, task: dict[str, Any]):
        self.task = task

    @abstractmethod
    def begin(self, qpos: np.ndarray) -> None:
        """Start at a pose in MuJoCo's order."""

    @abstractmethod
    def aim(self, targets: np.ndarray) -> None:
        """Set the targets (F, 4, 4)."""

    @abstractmethod
    def velocity(self) -> np.ndarray:
        """Return the step of one second [rad, m]."""

    def errors(self) -> list[np.ndarray]:
        """Return the error (6,) of each frame."""
        return [task.compute_error(self.configuration) for task in self.tasks]

    def step(self) -> float:
        """Take a step; return the largest change [rad, m]."""
        try:
            velocity = self.velocity()
        except Exception:  # the quadratic program is infeasible, or its solver failed
            return 0.0
        self.configuration.integrate_inplace(velocity, 1.0)
        return float(np.abs(velocity).max())

    @abstractmethod
    def qpos(self) -> np.ndarray:
        """Return the pose in MuJoCo's order."""

    def met(self) -> bool:
        """Return whether every frame is where it should be."""
        turned = [ALIGNED if whole else np.inf for whole in self.task["whole"]]
        return all(
            np.linalg.norm(e[:3]) <= CLOSE and np.linalg.norm(e[3:]) <= turn
            for e, turn in zip(self.errors(), turned, strict=True)
        )

    def random_start(self, rng: np.random.Generator) -> np.ndarray:
        """Return a random pose inside the limits; what has none, as at the start."""
        return rng.uniform(self.task["lower"], self.task["upper"])

    def solve(self, targets: np.ndarray, rng: np.random.Generator) -> bool:
        """Step from the start, then from random poses, until the goals are met."""
        self.aim(targets)
        start = np.array(self.task["start"])
        for _ in range(1 + self.task["restarts"]):
            self.begin(start)
            for _ in range(STEPS):
                if self.met():
                    return True
                if self.step() < 1e-6:
                    break
            if self.met():
                return True
            start = self.random_start(rng)
        return False


class Mink(Peer):
    """mink: CollisionAvoidanceLimit between the geoms of the pairs."""

    packages = ("mink", "mujoco", "daqp")

    def __init__(self, task: dict[str, Any]):
        super().__init__(task)
        self.mink = import_module("mink")
        self.model: Any = import_module("mujoco").MjModel.from_xml_path(task["file"])
        geoms: dict[str, list[int]] = {}
        for k in range(self.model.ngeom):
            if self.model.geom_contype[k] or self.model.geom_conaffinity[k]:
                geoms.setdefault(self.model.body(self.model.geom_bodyid[k]).name, []).append(k)
        pairs = [(geoms[a], geoms[b]) for a, b in task["pairs"] if a in geoms and b in geoms]
        avoid = self.mink.CollisionAvoidanceLimit(
            self.model, pairs, minimum_distance_from_collisions=MARGIN, collision_detection_distance=DETECTED
        )
        self.limits = [self.mink.ConfigurationLimit(self.model, gain=0.5), avoid]
        self.tasks = [
            self.mink.FrameTask(name, "body", position_cost=1.0, orientation_cost=float(whole), lm_damping=0.01)
            for name, whole in zip(task["frames"], task["whole"], strict=True)
        ]
        self.configuration = self.mink.Configuration(self.model)

    def begin(self, qpos: np.ndarray) -> None:
        self.configuration.update(qpos)

    def aim(self, targets: np.ndarray) -> None:
        for task, target in zip(self.tasks, targets, strict=True):
            task.set_target(self.mink.SE3.from_matrix(target))

    def velocity(self) -> np.ndarray:
        return self.mink.solve_ik(self.configuration, self.tasks, 1.0, solver="daqp", damping=1e-8, limits=self.limits)

    def qpos(self) -> np.ndarray:
        return self.configuration.q.copy()


class Pink(Peer):
    """pink: SelfCollisionBarrier over the pairs, distances by coal."""

    packages = ("pin-pink", "pin", "daqp")

    def __init__(self, task: dict[str, Any]):
        super().__init__(task)
        self.pink, pin = import_module("pink"), import_module("pinocchio")
        self.pin = pin
        robot = pin.RobotWrapper.BuildFromMJCF(task["file"])
        model, geometry = robot.model, robot.collision_model
        geometry.removeAllCollisionPairs()
        on: dict[str, list[int]] = {}
        for k, thing in enumerate(geometry.geometryObjects):
            on.setdefault(model.frames[thing.parentFrame].name, []).append(k)
        for a, b in task["pairs"]:
            for i in on.get(a, ()):
                for j in on.get(b, ()):
                    geometry.addCollisionPair(pin.CollisionPair(i, j))
        self.robot, self.count = robot, len(geometry.collisionPairs)
        self.data, self.geometry_data = model.createData(), geometry.createData()
        barriers = import_module("pink.barriers")
        self.barriers = [
            barriers.SelfCollisionBarrier(
                n_collision_pairs=min(self.count, 20), gain=1.0, safe_displacement_gain=0.0, d_min=MARGIN
            )
        ]
        self.tasks = [
            self.pink.FrameTask(name, position_cost=1.0, orientation_cost=float(whole), lm_damping=0.01)
            for name, whole in zip(task["frames"], task["whole"], strict=True)
        ]
        self.configuration = None

    def begin(self, qpos: np.ndarray) -> None:
        self.configuration = self.pink.Configuration(
            self.robot.model, self.data, self._theirs(qpos), collision_model=self.robot.collision_model,
            collision_data=self.geometry_data,
        )  # fmt: skip

    def _theirs(self, qpos: np.ndarray) -> np.ndarray:
        """Return the pose in Pinocchio's order: quaternions xyzw."""
        out = qpos.copy()
        if self.task["free"]:
            out[3:7] = qpos[[4, 5, 6, 3]]
        return out

    def aim(self, targets: np.ndarray) -> None:
        for task, target in zip(self.tasks, targets, strict=True):
            task.set_target(self.pin.SE3(target))

    def velocity(self) -> np.ndarray:
        return self.pink.solve_ik(
            self.configuration, self.tasks, 1.0, solver="daqp", damping=1e-8, barriers=self.barriers
        )

    def qpos(self) -> np.ndarray:
        out = np.array(self.configuration.q)
        if self.task["free"]:
            out[3:7] = out[[6, 3, 4, 5]]
        return out


def main() -> None:
    """Solve the goals and write the answers."""
    name, source, out = sys.argv[1:4]
    with np.load(source) as kept:
        task, targets = json.loads(str(kept["task"])), kept["targets"]
    peer = {"mink": Mink, "pink": Pink}[name](task)
    rng = np.random.default_rng(0)
    peer.solve(targets[0], rng)
    poses, met, seconds = [], [], []
    deadline = time.perf_counter() + task["seconds"]
    for target in targets:
        begin = time.process_time()
        met.append(peer.solve(target, rng))
        seconds.append(time.process_time() - begin)
        poses.append(peer.qpos())
        if time.perf_counter() > deadline:
            break
    versions = ", ".join(f"{package} {version(package)}" for package in peer.packages)
    np.savez(out, qpos=np.array(poses), met=np.array(met), seconds=np.array(seconds), versions=versions)


if __name__ == "__main__":
    main()
