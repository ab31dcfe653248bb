"""pink: differential inverse kinematics on Pinocchio, a quadratic program a step, iterated until the goals are met."""

import numpy as np
import pink
import pinocchio as pin
from pink.limits import ConfigurationLimit
from pink.tasks import FrameTask
from worker import Peer


class Adapter(Peer):
    """Frame tasks with Levenberg-Marquardt damping, limits in the program, steps of one second."""

    packages = ("pin-pink", "pin", "daqp", "qpsolvers")
    settings = "FrameTask(lm_damping=0.01), ConfigurationLimit(gain 0.5), DAQP, damping 1e-8, up to 100 steps"
    most = 100

    def __init__(self, task) -> None:
        super().__init__(task)
        root = None if task.root is None else pin.JointModelFreeFlyer()
        self.model = pin.buildModelFromUrdf(task.urdf, root) if root else pin.buildModelFromUrdf(task.urdf)
        self.data = self.model.createData()
        turning = 0.0 if task.kind == "position" else 1.0
        self.tasks = [
            FrameTask(name, position_cost=1.0, orientation_cost=turning, lm_damping=0.01) for name in task.frames
        ]
        self.limits = [ConfigurationLimit(self.model, config_limit_gain=0.5)]
        self.order = [self.model.joints[self.model.getJointId(name)].idx_q for name in task.chain.names]
        self.still = 1e-4 if task.tracking else 1e-6

    def begin(self, joints, root):
        q = pin.neutral(self.model)
        q[self.order] = joints
        if root is not None:
            q[:7] = pin.SE3ToXYZQUAT(pin.SE3(root))
        return q

    def solve(self, targets, start):
        configuration = pink.Configuration(self.model, self.data, start)
        for task, target in zip(self.tasks, targets, strict=True):
            task.set_target(pin.SE3(target))
        for _ in range(self.most):
            if self.there(configuration):
                return configuration.q, True
            velocity = pink.solve_ik(
                configuration, self.tasks, 1.0, solver="daqp", damping=1e-8, limits=self.limits, safety_break=False
            )
            configuration.integrate_inplace(velocity, 1.0)
            if np.abs(velocity).max() < self.still:
                break
        return configuration.q, self.there(configuration)

    def there(self, configuration) -> bool:
        return self.task.met(task.compute_error(configuration) for task in self.tasks)

    def answer(self, pose):
        root = None if self.task.root is None else pin.XYZQUATToSE3(pose[:7]).homogeneous
        return pose[self.order], root
