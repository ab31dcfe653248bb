"""TRAC-IK: Newton with random restarts and SQP side by side in two threads, until a time runs out."""

import numpy as np
from trac_ik import TracIK
from worker import Peer


class Adapter(Peer):
    """Through pytracik; Speed returns the first solution."""

    packages = ("pytracik",)
    settings = "solver_type Speed, timeout 50 ms, epsilon 1e-5"

    def __init__(self, task) -> None:
        super().__init__(task)
        self.solver = TracIK("base", task.frames[0], task.urdf, timeout=0.05, epsilon=1e-5, solver_type="Speed")

    def begin(self, joints, root):
        return joints

    def solve(self, targets, start):
        found = self.solver.ik(targets[0, :3, 3], targets[0, :3, :3], seed_jnt_values=start)
        return (start if found is None else np.array(found)), True  # it restarts by itself until the time is over

    def answer(self, pose):
        return pose, None
