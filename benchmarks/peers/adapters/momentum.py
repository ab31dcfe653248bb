"""Momentum: a damped Gauss-Newton solver in C++ with soft limits, in single precision and centimetres."""

import re
from pathlib import Path

import numpy as np
from pymomentum import geometry, solver2
from worker import ALIGNED, CLOSE, Peer

CM = 100.0
ROOT = ("root_x prismatic 1 0 0", "root_y prismatic 0 1 0", "root_z prismatic 0 0 1")
TURNS = ("root_yaw revolute 0 0 1", "root_pitch revolute 0 1 0", "root_roll revolute 1 0 0")


class Adapter(Peer):
    """Position and orientation errors and a limit error, solved by `GaussNewtonSolverQR`.

    A free root is three slides and three hinges before the base, for its reader of URDF gives it none.
    """

    packages = ("pymomentum-cpu",)
    settings = "GaussNewtonSolverQR, line search, up to 100 iterations, regularization 10, limit weight 1000"

    def __init__(self, task) -> None:
        super().__init__(task)
        self.free = task.root is not None
        text = Path(task.urdf).read_text(encoding="utf8")
        text = re.sub("<mujoco>.*</mujoco>", "", text)
        self.character = geometry.Character.load_urdf_from_bytes((rooted(text) if self.free else text).encode())
        names, joints = self.character.parameter_transform.names, self.character.skeleton.joint_names
        self.order = [names.index(name) for name in task.chain.names]
        self.scale = np.where(task.chain.kinds[task.chain.columns >= 0] == 2, CM, 1.0)
        if self.free:
            self.root_order = [names.index(row.split()[0]) for row in (*ROOT, *TURNS)]
        self.size = len(names)
        self.bodies = [joints.index(name) for name in task.frames]
        self.turning = task.kind == "pose"
        self.positions = solver2.PositionErrorFunction(self.character)
        self.turns = solver2.OrientationRotDiffErrorFunction(self.character, weight=1000.0)
        errors = [self.positions, solver2.LimitErrorFunction(self.character, weight=1000.0)]
        self.function = solver2.SkeletonSolverFunction(self.character, errors + [self.turns] * self.turning)
        options = solver2.GaussNewtonSolverQROptions()
        options.max_iterations, options.min_iterations, options.threshold = 100, 2, 1.0
        options.regularization, options.do_line_search = 10.0, True
        self.solver = solver2.GaussNewtonSolverQR(self.function, options)

    def begin(self, joints, root):
        q = np.zeros(self.size, dtype=np.float32)
        q[self.order] = joints * self.scale
        if root is not None:
            r = root[:3, :3]
            pitch = np.arctan2(-r[2, 0], np.hypot(r[0, 0], r[1, 0]))
            q[self.root_order] = [
                *(root[:3, 3] * CM), np.arctan2(r[1, 0], r[0, 0]), pitch, np.arctan2(r[2, 1], r[2, 2])
            ]  # fmt: skip
        return q

    def solve(self, targets, start):
        self.positions.clear_constraints()
        self.turns.clear_constraints()
        for body, target in zip(self.bodies, targets, strict=True):
            self.positions.add_constraint(body, target=(CM * target[:3, 3]).astype(np.float32))
            if self.turning:
                self.turns.add_constraint(target=quaternion(target[:3, :3]).astype(np.float32), parent=body)
        found = self.solver.solve(start)
        return found, self.there(found, targets)

    def there(self, found, targets) -> bool:
        state = geometry.model_parameters_to_skeleton_state(self.character, found)[self.bodies]
        if np.linalg.norm(state[:, :3] / CM - targets[:, :3, 3], axis=1).max() > CLOSE:
            return False
        joints = found[self.order] / self.scale
        chain = self.task.chain
        if np.any((joints < chain.lower - 1e-4) | (joints > chain.upper + 1e-4)):
            return False
        if not self.turning:
            return True
        cosines = [abs(float(a @ quaternion(b[:3, :3]))) for a, b in zip(state[:, 3:7], targets, strict=True)]
        return 2 * np.arccos(min(1.0, *cosines)) <= ALIGNED

    def answer(self, pose):
        pose = pose.astype(float)
        root = None
        if self.free:
            x, y, z, yaw, pitch, roll = pose[self.root_order]
            root = np.eye(4)
            root[:3, :3] = turn(2, yaw) @ turn(1, pitch) @ turn(0, roll)
            root[:3, 3] = np.array([x, y, z]) / CM
        return pose[self.order] / self.scale, root


def rooted(text: str) -> str:
    """Return a URDF with six joints of free range before its base."""
    lines, parent = ['<link name="world"/>'], "world"
    for k, row in enumerate((*ROOT, *TURNS)):
        name, kind, axis = row.split(maxsplit=2)
        child = "base" if k == 5 else f"{name}_link"
        if child != "base":
            lines.append(f'<link name="{child}"/>')
        lines.append(
            f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
            f'<axis xyz="{axis}"/><limit lower="-1e4" upper="1e4" effort="1" velocity="1"/></joint>'
        )
        parent = child
    return text.replace("</robot>", "\n".join(lines) + "\n</robot>")


def quaternion(r: np.ndarray) -> np.ndarray:
    """Return a rotation (3, 3) as a quaternion x, y, z, w: the eigenvector of its largest eigenvalue."""
    k = np.array([
        [r[0, 0] - r[1, 1] - r[2, 2], r[1, 0] + r[0, 1], r[2, 0] + r[0, 2], r[2, 1] - r[1, 2]],
        [r[1, 0] + r[0, 1], r[1, 1] - r[0, 0] - r[2, 2], r[2, 1] + r[1, 2], r[0, 2] - r[2, 0]],
        [r[2, 0] + r[0, 2], r[2, 1] + r[1, 2], r[2, 2] - r[0, 0] - r[1, 1], r[1, 0] - r[0, 1]],
        [r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1], r[0, 0] + r[1, 1] + r[2, 2]],
    ])  # fmt: skip
    return np.linalg.eigh(k)[1][:, -1]


def turn(axis: int, angle: float) -> np.ndarray:
    """Return the rotation (3, 3) about a coordinate axis."""
    out, (i, j) = np.eye(3), ((axis + 1) % 3, (axis + 2) % 3)
    out[i, i] = out[j, j] = np.cos(angle)
    out[j, i], out[i, j] = np.sin(angle), -np.sin(angle)
    return out
