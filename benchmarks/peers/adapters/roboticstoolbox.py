"""Robotics Toolbox for Python: its C++ Levenberg-Marquardt solver with restarts of its own."""

import numpy as np
import roboticstoolbox as rtb
from worker import Peer


class Adapter(Peer):
    """`ETS.ik_LM`, the fast solver, on the chain of the URDF."""

    packages = ("roboticstoolbox-python",)
    settings = "ik_LM, Chan's damping k=0.1, 30 iterations, 100 searches of its own, tol 1e-8, joint limits"

    def __init__(self, task) -> None:
        super().__init__(task)
        self.chain = rtb.Robot.URDF(task.urdf).ets(start="base", end=task.frames[0])
        np.random.seed(0)  # noqa: NPY002  the toolbox may draw from it

    def begin(self, joints, root):
        return joints

    def solve(self, targets, start):
        found = self.chain.ik_LM(
            targets[0], q0=start, ilimit=30, slimit=100, tol=1e-8, joint_limits=True, k=0.1, method="chan"
        )
        return found.q, True  # it has restarted by itself

    def answer(self, pose):
        return pose, None
