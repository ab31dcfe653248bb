"""SciPy's least_squares with bounds; places, turns and their Jacobians from Pinocchio."""

import numpy as np
import pinocchio as pin
from scipy.optimize import least_squares
from worker import ALIGNED, CLOSE, Peer


class Adapter(Peer):
    """The trust region reflective method with the exact Jacobian, stopped where the goals are met.

    A free root is three slides and three hinges, so that the unknowns are plain numbers.
    """

    packages = ("scipy", "pin")
    settings = 'method "trf", Jacobian by Pinocchio, up to 100 evaluations, xtol 1e-9, ftol 1e-12'

    def __init__(self, task) -> None:
        super().__init__(task)
        if task.root is None:
            self.model = pin.buildModelFromUrdf(task.urdf)
        else:
            root = pin.JointModelComposite()
            for joint in ("PX", "PY", "PZ", "RZ", "RY", "RX"):
                root.addJoint(getattr(pin, f"JointModel{joint}")())
            self.model = pin.buildModelFromUrdf(task.urdf, root)
        self.data = self.model.createData()
        self.frames = [self.model.getFrameId(name) for name in task.frames]
        self.order = [self.model.joints[self.model.getJointId(name)].idx_q for name in task.chain.names]
        self.bounds = np.full(self.model.nq, -np.inf), np.full(self.model.nq, np.inf)
        self.bounds[0][self.order], self.bounds[1][self.order] = task.chain.lower, task.chain.upper
        self.posed = task.kind == "pose"
        self.stop = {"xtol": 1e-5, "ftol": 1e-6} if task.tracking else {"xtol": 1e-9, "ftol": 1e-12}

    def begin(self, joints, root):
        q = np.zeros(self.model.nq)
        q[self.order] = joints
        if root is not None:
            q[:3] = root[:3, 3]
            q[3:6] = pin.rpy.matrixToRpy(root[:3, :3])[::-1]
        return q

    def solve(self, targets, start):
        goals = [pin.SE3(target) for target in targets]
        found = least_squares(
            self.residuals, np.clip(start, *self.bounds), self.jacobian, self.bounds, "trf", gtol=1e-12,
            max_nfev=100, args=(goals,), callback=self.met, **self.stop,
        )  # fmt: skip
        return found.x, self.there(found.fun)

    def residuals(self, q, goals):
        pin.framesForwardKinematics(self.model, self.data, q)
        rows = []
        for frame, goal in zip(self.frames, goals, strict=True):
            here = self.data.oMf[frame]
            rows.append(here.translation - goal.translation)
            if self.posed:
                rows.append(pin.log3(goal.rotation.T @ here.rotation))
        return np.concatenate(rows)

    def jacobian(self, q, goals):
        pin.computeJointJacobians(self.model, self.data, q)
        pin.updateFramePlacements(self.model, self.data)
        rows = []
        for frame, goal in zip(self.frames, goals, strict=True):
            local = pin.getFrameJacobian(self.model, self.data, frame, pin.LOCAL)
            here = self.data.oMf[frame].rotation
            rows.append(here @ local[:3])
            if self.posed:
                rows.append(pin.Jlog3(goal.rotation.T @ here) @ local[3:])
        return np.concatenate(rows)

    def met(self, intermediate_result):
        if self.there(intermediate_result.fun):
            raise StopIteration

    def there(self, residuals) -> bool:
        rows = np.linalg.norm(residuals.reshape(-1, 3), axis=1)
        if self.posed:
            return bool(rows[0::2].max() <= CLOSE and rows[1::2].max() <= ALIGNED)
        return bool(rows.max() <= CLOSE)

    def answer(self, pose):
        if self.task.root is None:
            return pose[self.order], None
        root = np.eye(4)
        root[:3, :3], root[:3, 3] = pin.rpy.rpyToMatrix(*pose[3:6][::-1]), pose[:3]
        return pose[self.order], root
