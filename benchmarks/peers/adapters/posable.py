"""Posable itself, by each of its doors."""

import pickle

import numpy as np
from scipy.spatial.transform import Rotation
from worker import Peer

import posable as ps

RESTARTS = 100


class Posable(Peer):
    """What the doors share: the figure, its goals, and the way from a pose to joints and a root."""

    packages = ("posable", "numba", "numpy")

    def __init__(self, task) -> None:
        super().__init__(task)
        self.skeleton = pickle.loads(task.path.with_suffix(".pickle").read_bytes())
        self.root = self.skeleton.index(self.skeleton.joints[0].name)
        self.goal = ps.goals.Position if task.kind == "position" else ps.goals.Pose
        self.restarts = 0 if task.sequence else RESTARTS
        self.settings = f"the default solver, restarts={RESTARTS}; none where the goals wander"

    def begin(self, joints, root):
        pose = np.clip(self.skeleton.rest, self.skeleton.lower, self.skeleton.upper)
        pose[self.task.columns] = joints
        if root is not None:
            order = self.skeleton.joints[0].motion.order.upper()
            pose[self.root] = np.r_[root[:3, 3], Rotation.from_matrix(root[:3, :3]).as_euler(order)]
        return pose

    def wanted(self, target):
        return target[..., :3, 3] if self.task.kind == "position" else target

    def goals(self, targets):
        return [self.goal(body, self.wanted(target)) for body, target in zip(self.task.bodies, targets, strict=True)]

    def answer(self, pose):
        root = None
        if self.task.root is not None:
            order = self.skeleton.joints[0].motion.order.upper()
            root = np.eye(4)
            root[:3, 3] = pose[self.root][:3]
            root[:3, :3] = Rotation.from_euler(order, pose[self.root][3:]).as_matrix()
        return pose[self.task.columns], root


class Solve(Posable):
    """`ps.solve`, packing the problem anew each time."""

    def solve(self, targets, start):
        found = ps.solve(self.skeleton, self.goals(targets), start=start, restarts=self.restarts, natural=False)
        return found.pose, True  # it has restarted by itself


class Session(Posable):
    """`ps.Session`, as an interactive program uses it: move the goals, solve."""

    def __init__(self, task) -> None:
        super().__init__(task)
        self.session = ps.Session(self.skeleton, self.goals(task.targets[0]), restarts=self.restarts, natural=False)

    def solve(self, targets, start):
        for body, target in zip(self.task.bodies, targets, strict=True):
            self.session.move(body, self.wanted(target))
        return self.session.solve(start=start).pose, True


class Once(Solve):
    """`ps.solve` from the given start alone: what the first column of the table tells."""

    def __init__(self, task) -> None:
        super().__init__(task)
        self.restarts = 0


class Batch(Posable):
    """`ps.solve` given all of the problems at once, on every core."""

    def __init__(self, task) -> None:
        super().__init__(task)
        self.solve_all(task.targets[:4])

    def solve(self, targets, start):
        return start, True

    def solve_all(self, targets):
        start = self.begin(self.task.start, self.task.root)
        goals = self.goals(np.moveaxis(targets, 1, 0))
        return ps.solve(self.skeleton, goals, start=start, restarts=self.restarts, natural=False).pose


class Track(Posable):
    """`ps.track` on one core, given the whole take."""

    def __init__(self, task) -> None:
        super().__init__(task)
        self.settings = "ps.track(actor, markers, threads=1)"
        places = task.targets[..., :3, 3]
        self.markers = ps.Markers(task.bodies, places, 120.0, up=self.skeleton.up)
        ps.track(self.skeleton, self.markers, threads=1)

    def solve(self, targets, start):
        return start, True

    def solve_all(self, targets):
        return ps.track(self.skeleton, self.markers, threads=1).motion.poses
