"""IKPy: SciPy's least squares over a chain, in Python."""

import warnings

import numpy as np
from ikpy.chain import Chain
from worker import ALIGNED, CLOSE, Peer

warnings.simplefilter("ignore")


class Adapter(Peer):
    """`inverse_kinematics_frame` on place and all three axes."""

    packages = ("ikpy", "scipy")
    settings = 'inverse_kinematics_frame(orientation_mode="all"), its default least squares'

    def __init__(self, task) -> None:
        super().__init__(task)
        self.chain = Chain.from_urdf_file(task.urdf, base_elements=["base"])
        self.active = [i for i, link in enumerate(self.chain.links) if link.name in task.chain.names]
        self.chain.active_links_mask = np.isin(np.arange(len(self.chain.links)), self.active)

    def begin(self, joints, root):
        full = np.zeros(len(self.chain.links))
        full[self.active] = joints
        return full

    def solve(self, targets, start):
        found = self.chain.inverse_kinematics_frame(targets[0], initial_position=start, orientation_mode="all")
        got = self.chain.forward_kinematics(found)
        turn = got[:3, :3].T @ targets[0, :3, :3]
        near = np.linalg.norm(got[:3, 3] - targets[0, :3, 3]) <= CLOSE
        return found, bool(near and np.linalg.norm(turn - np.eye(3)) <= ALIGNED)

    def answer(self, pose):
        return pose[self.active], None
