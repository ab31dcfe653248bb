"""drake: inverse kinematics as a nonlinear program with constraints, solved by SNOPT."""

import numpy as np
from pydrake.math import RigidTransform, RotationMatrix
from pydrake.multibody.inverse_kinematics import InverseKinematics
from pydrake.multibody.parsing import Parser
from pydrake.multibody.plant import MultibodyPlant
from pydrake.solvers import SnoptSolver
from worker import Peer

BOX, CONE = 4e-4, 6e-3  # [m], [rad]: within what counts as solved, for a constraint without an inside is hard on SNOPT


class Adapter(Peer):
    """A program a solve, as the documentation builds it: joint limits, a box about each place, a cone of turns."""

    packages = ("drake",)
    settings = "InverseKinematics with boxes of +-0.4 mm and cones of 0.006 rad as constraints, SNOPT"

    def __init__(self, task) -> None:
        super().__init__(task)
        self.plant = MultibodyPlant(0.0)
        Parser(self.plant).AddModels(task.urdf)
        if task.root is None:
            self.plant.WeldFrames(self.plant.world_frame(), self.plant.GetFrameByName("base"))
        self.plant.Finalize()
        self.frames = [self.plant.GetFrameByName(name) for name in task.frames]
        self.order = [self.plant.GetJointByName(name).position_start() for name in task.chain.names]
        self.base = None if task.root is None else self.plant.GetBodyByName("base")
        self.solver = SnoptSolver()

    def begin(self, joints, root):
        q = np.zeros(self.plant.num_positions())
        if root is not None:
            first, pose = self.base.floating_positions_start(), RigidTransform(root)
            q[first : first + 4], q[first + 4 : first + 7] = pose.rotation().ToQuaternion().wxyz(), pose.translation()
        q[self.order] = joints
        return q

    def solve(self, targets, start):
        ik = InverseKinematics(self.plant)
        world, centre = self.plant.world_frame(), np.zeros(3)
        for frame, target in zip(self.frames, targets, strict=True):
            place = target[:3, 3]
            ik.AddPositionConstraint(frame, centre, world, place - BOX, place + BOX)
            if self.task.kind == "pose":
                ik.AddOrientationConstraint(
                    world, RotationMatrix(target[:3, :3]), frame, RotationMatrix(), theta_bound=CONE
                )
        result = self.solver.Solve(ik.prog(), start, None)
        return result.GetSolution(ik.q()), result.is_success()

    def answer(self, pose):
        root = None
        if self.base is not None:
            first = self.base.floating_positions_start()
            root = np.eye(4)
            root[:3, :3] = quaternion_matrix(pose[first : first + 4])
            root[:3, 3] = pose[first + 4 : first + 7]
        return pose[self.order], root


def quaternion_matrix(wxyz) -> np.ndarray:
    """Return the rotation (3, 3) of a quaternion (4,), made of unit length."""
    w, x, y, z = wxyz / np.linalg.norm(wxyz)
    return np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ])  # fmt: skip
