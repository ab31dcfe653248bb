"""EAIK: all solutions of a six-axis arm in closed form; a seventh axis is swept."""

import numpy as np
from eaik.IK_URDF import UrdfRobot
from worker import Peer


class Adapter(Peer):
    """Each solution is turned into the limits by whole turns; the first that holds them all is taken.

    For the Panda the last joint is locked, at values from the middle of its range outward, coarse and then fine.
    """

    packages = ("eaik",)
    settings = "UrdfRobot; the Panda's joint 7 locked at 64 values from mid-range outward, then at 1024"

    def __init__(self, task) -> None:
        super().__init__(task)
        chain = task.chain
        self.lower, self.upper = chain.lower, chain.upper
        if len(chain.names) == 6:
            values, self.locked = None, [UrdfRobot(task.urdf)]
        else:
            low, high = self.lower[6], self.upper[6]
            values = np.concatenate([outward(np.linspace(low, high, count + 2)[1:-1]) for count in (64, 1024)])
            self.locked = [UrdfRobot(task.urdf, fixed_axes=[(6, value)]) for value in values]
        at = (self.lower + self.upper) / 2
        if values is not None:
            at[6] = values[0]
        tool = np.linalg.inv(self.locked[0].fwdKin(at)) @ chain.frames(at)[task.frames[0]][0]
        self.from_tool = np.linalg.inv(tool)

    def begin(self, joints, root):
        return joints

    def solve(self, targets, start):
        target = targets[0] @ self.from_tool
        for robot in self.locked:
            found = robot.IK(target)
            for exact, joints in zip(~np.atleast_1d(found.is_LS), np.atleast_2d(found.Q), strict=True):
                if not exact:
                    continue
                turns = np.ceil((self.lower - joints) / (2 * np.pi))
                joints = joints + 2 * np.pi * turns
                if np.all(joints <= self.upper):
                    return joints, True
        return start, True  # nothing to restart from

    def answer(self, pose):
        return pose, None


def outward(values: np.ndarray) -> np.ndarray:
    """Return the values from the middle one outward."""
    return values[np.argsort(np.abs(values - values.mean()), kind="stable")]
