"""placo: task-space inverse kinematics on Pinocchio in C++, a quadratic program a step, iterated."""

import numpy as np
import placo
from worker import ALIGNED, CLOSE, Peer


class Adapter(Peer):
    """Soft frame or position tasks of equal weights, joint limits on, a small regularisation."""

    packages = ("placo", "pin")
    settings = "soft tasks, joint limits, regularization 1e-6, up to 100 steps"
    most = 100

    def __init__(self, task) -> None:
        super().__init__(task)
        self.robot = placo.RobotWrapper(task.urdf, placo.Flags.ignore_collisions)
        self.solver = placo.KinematicsSolver(self.robot)
        self.solver.enable_joint_limits(True)
        if task.root is None:
            self.solver.mask_fbase(True)
        self.tasks = []
        for name in task.frames:
            if task.kind == "position":
                goal = self.solver.add_position_task(name, np.zeros(3))
                goal.configure(name, "soft", 1.0)
            else:
                goal = self.solver.add_frame_task(name, np.eye(4))
                goal.configure(name, "soft", 1.0, 1.0)
            self.tasks.append(goal)
        self.solver.add_regularization_task(1e-6)
        self.names = list(task.chain.names)
        self.order = [self.robot.get_joint_offset(name) for name in self.names]
        self.still = 1e-4 if task.tracking else 1e-6

    def begin(self, joints, root):
        self.robot.reset()
        if root is not None:
            self.robot.set_T_world_fbase(root)
        q = self.robot.state.q.copy()
        q[self.order] = joints
        return q

    def solve(self, targets, start):
        robot, solver = self.robot, self.solver
        robot.state.q = start
        robot.update_kinematics()
        for goal, target in zip(self.tasks, targets, strict=True):
            if self.task.kind == "position":
                goal.target_world = target[:3, 3]
            else:
                goal.T_world_frame = target
        there = False
        for _ in range(self.most):
            try:
                step = solver.solve(True)
            except RuntimeError:
                break
            robot.update_kinematics()
            there = self.there()
            if there or np.abs(step).max() < self.still:
                break
        return robot.state.q.copy(), there

    def there(self) -> bool:
        for goal in self.tasks:
            if self.task.kind == "position":
                if goal.error_norm() > CLOSE:
                    return False
            elif goal.position().error_norm() > CLOSE or goal.orientation().error_norm() > ALIGNED:
                return False
        return True

    def answer(self, pose):
        root = None
        if self.task.root is not None:
            self.robot.state.q = pose
            self.robot.update_kinematics()
            root = np.array(self.robot.get_T_world_fbase())
        return pose[self.order], root
