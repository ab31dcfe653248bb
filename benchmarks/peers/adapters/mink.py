"""mink: differential inverse kinematics on MuJoCo, a quadratic program a step, iterated until the goals are met."""

import mink
import mujoco
import numpy as np
from worker import Peer


class Adapter(Peer):
    """Frame tasks with Levenberg-Marquardt damping, limits in the program, steps of one second."""

    packages = ("mink", "mujoco", "daqp", "qpsolvers")
    settings = "FrameTask(lm_damping=0.01), ConfigurationLimit(gain 0.5), DAQP, damping 1e-8, up to 100 steps"
    most = 100

    def __init__(self, task) -> None:
        super().__init__(task)
        spec = mujoco.MjSpec.from_file(task.urdf)
        if task.root is not None:
            spec.worldbody.first_body().add_freejoint()
        self.model = spec.compile()
        turning = 0.0 if task.kind == "position" else 1.0
        self.tasks = [
            mink.FrameTask(name, "body", position_cost=1.0, orientation_cost=turning, lm_damping=0.01)
            for name in task.frames
        ]
        self.limits = [mink.ConfigurationLimit(self.model, gain=0.5)]
        self.configuration = mink.Configuration(self.model)
        self.order = [self.model.joint(name).qposadr[0] for name in task.chain.names]
        self.still = 1e-4 if task.tracking else 1e-6

    def begin(self, joints, root):
        q = np.zeros(self.model.nq)
        q[self.order] = joints
        if root is not None:
            q[:7] = mink.SE3.from_matrix(root).wxyz_xyz[[4, 5, 6, 0, 1, 2, 3]]
        return q

    def solve(self, targets, start):
        configuration = self.configuration
        configuration.update(start)
        for task, target in zip(self.tasks, targets, strict=True):
            task.set_target(mink.SE3.from_matrix(target))
        for _ in range(self.most):
            if self.there(configuration):
                return configuration.q.copy(), True
            velocity = mink.solve_ik(configuration, self.tasks, 1.0, solver="daqp", damping=1e-8, limits=self.limits)
            configuration.integrate_inplace(velocity, 1.0)
            if np.abs(velocity).max() < self.still:
                break
        return configuration.q.copy(), self.there(configuration)

    def there(self, configuration) -> bool:
        return self.task.met(task.compute_error(configuration) for task in self.tasks)

    def answer(self, pose):
        root = None
        if self.task.root is not None:
            root = mink.SE3(pose[[3, 4, 5, 6, 0, 1, 2]] / np.r_[np.full(4, np.linalg.norm(pose[3:7])), 1, 1, 1])
            root = root.as_matrix()
        return pose[self.order], root
