"""ssik: closed-form inverse kinematics, with the solvers that it ships for these two arms."""

import importlib

import numpy as np
from worker import Peer

SHIPPED = {"panda": "ssik.prebuilt.franka.panda_ik", "ur5": "ssik.prebuilt.universal_robots.ur5_ik"}


class Adapter(Peer):
    """The one solution nearest the start."""

    packages = ("ssik",)
    settings = "the prebuilt arm, max_solutions=1, q_seed at the start"

    def __init__(self, task) -> None:
        super().__init__(task)
        self.arm = importlib.import_module(SHIPPED[task.path.stem])
        at = task.start + 0.1
        tool = np.linalg.inv(self.arm.fk(at)) @ task.chain.frames(at)[task.frames[0]][0]
        self.from_tool = np.linalg.inv(tool)

    def begin(self, joints, root):
        return joints

    def solve(self, targets, start):
        found = self.arm.solve(targets[0] @ self.from_tool, max_solutions=1, q_seed=start)
        return (found[0].q if found else start), True  # a closed form has nothing to restart

    def answer(self, pose):
        return np.array(pose), None
