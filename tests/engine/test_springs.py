"""A spring is written once: a new kind touches one file of the engine; the fast path of points is the general one."""

import os
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np

import posable
from posable.engine import springs as kinds
from posable.engine.layout import AT, AXES, BODY_B, CONSTANTS, FRAME, MEASURE, POINT, POINT2, TARGETS, WEIGHT

PACKAGE = Path(posable.__file__).parent

# A point of a body stays on a circle of radius SIZE about the target, whose normal is FRAME: two rows, the distance to
# the circle within its plane and the height above it.
RING = {
    "ROWS = (3, 9, 3, 3, 1, 1, 1, 3, 3)": "RING_SPRING = 9\nROWS = (3, 9, 3, 3, 1, 1, 1, 3, 3, 3)",
    '"ed", "ed", "", "e")': '"ed", "ed", "", "e", "e")',
    "    if kind == POINT_SPRING:\n        local[R], local[R + 1], local[R + 2] = x, y, z\n": """\
    if kind == RING_SPRING:
        height = x * target[FRAME] + y * target[FRAME + 1] + z * target[FRAME + 2]
        x, y, z = x - height * target[FRAME], y - height * target[FRAME + 1], z - height * target[FRAME + 2]
        local[KEPT] = math.sqrt(x * x + y * y + z * z)
        local[UNIT], local[UNIT + 1], local[UNIT + 2] = x / local[KEPT], y / local[KEPT], z / local[KEPT]
        local[R], local[R + 1] = local[KEPT] - row[SIZE], height
        return math.sqrt(local[R] * local[R] + height * height)
    if kind == POINT_SPRING:
        local[R], local[R + 1], local[R + 2] = x, y, z
""",
    "    elif kind == SIDE_SPRING:\n        for k in range(3):\n            local[RE + k] = -target[FRAME + k]\n": """\
    elif kind == RING_SPRING:
        for k in range(3):
            local[RE + k], local[RE + 3 + k] = local[UNIT + k], target[FRAME + k]
    elif kind == SIDE_SPRING:
        for k in range(3):
            local[RE + k] = -target[FRAME + k]
""",
    "    if (kind == AIM_SPRING or kind == PIXEL_SPRING) and length > NEAR:\n": """\
    if kind == RING_SPRING:
        for i in range(3):
            for j in range(3):
                one = 1.0 if i == j else 0.0
                flat = one - target[FRAME + i] * target[FRAME + j] - local[u + i] * local[u + j]
                local[KEE + 3 * i + j] += fx / length * flat
    elif (kind == AIM_SPRING or kind == PIXEL_SPRING) and length > NEAR:
""",
    "    elif ROWS[kind] == 1:\n        row[SIZE] -= local[R]\n": """\
    elif kind == RING_SPRING:
        row[SIZE] += local[R]
        for k in range(3):
            target[AT + k] += local[R + 1] * target[FRAME + k]
    elif ROWS[kind] == 1:
        row[SIZE] -= local[R]
""",
}

RING_GOAL = '''
import numpy as np

from posable.engine.layout import SIZE
from posable.engine.springs import RING_SPRING
from posable.goals.base import Goal, Spring, point_constants, set_weight, target_row


class Ring(Goal):
    """Keep a point of a body on a circle."""

    rows = 3
    weight = np.array([2.0, 3.0, 0.0, 0.0, 0.0, 0.0])

    def __init__(self, body, center, normal, radius, *, robust=None, priority=0):
        self.body, self.center, self.normal, self.radius = body, np.array(center), np.array(normal), radius
        super().__init__(None, 1e-3, priority, robust)

    def springs(self, skeleton):
        body, data, _ = point_constants(skeleton, self.body, None)
        set_weight(data, self.weight, self.robust)
        data[SIZE] = self.radius
        return [Spring(RING_SPRING, body, data, target_row(self.center, self.normal), self.tolerance)]
'''

TRY_RING = """
import numpy as np
import posable as ps
from posable.goals.ring import Ring
from posable.gpu.codegen import KernelPlan, moving_elements, source_of

panda = ps.figures.panda()
pose = (panda.lower + panda.upper) / 2 + 0.2
normal = np.array([0.6, 0.0, 0.8])
for robust in (None, 0.05):
    problem = ps.Problem(panda, Ring("hand", (0.1, 0.2, 0.3), normal, 0.3, robust=robust))
    check = problem.check_derivatives(pose)
    assert check.ok, check
problem = ps.Problem(panda, Ring("hand", (0.1, 0.2, 0.3), normal, 0.3))
rows, jacobian = problem.residuals(pose, jacobian=True)
energy, gradient, hessian, errors = problem.evaluate(pose, exact=False)
assert abs(0.5 * rows @ rows - energy) < 1e-12
assert np.allclose(jacobian.T @ rows, gradient) and np.allclose(jacobian.T @ jacobian, hessian)
assert np.allclose(problem.hessian(pose, method="direct"), problem.hessian(pose))
place = ps.forward(panda, pose).position("hand") - (0.1, 0.2, 0.3)
flat = np.linalg.norm(place - place @ normal * normal) - 0.3
assert np.isclose(errors[0], np.hypot(flat, place @ normal))
result = ps.solve(panda, Ring("hand", (0.3, 0.0, 0.4), normal, 0.2), start=pose)
assert result.ok, result
place = ps.forward(panda, result.pose).position("hand") - (0.3, 0.0, 0.4)
assert abs(place @ normal) < 2e-3 and abs(np.linalg.norm(place) - 0.2) < 2e-3
below = ps.goals.Position("hand", (0.3, 0.0, 0.9), priority=1)
result = ps.solve(panda, [Ring("hand", (0.3, 0.0, 0.4), normal, 0.2), below], start=pose, max_iterations=40)
assert result.errors["hand"] < 2e-3, result
for solver in ("dls", "levenberg-marquardt"):
    result = ps.solve(panda, Ring("hand", (0.3, 0.0, 0.4), normal, 0.2), start=pose, solver=solver)
    assert result.ok, result
mixed = np.eye(6) + 0.2
goals = [Ring("hand", (0.1, 0.2, 0.3), normal, 0.3), ps.goals.Position("hand", (0.2, 0.1, 0.5))]
check = ps.Problem(panda, ps.goals.Weighted(goals, mixed)).check_derivatives(pose)
assert check.ok, check
plan = KernelPlan(moving_elements(problem), single=True, finish=False)
text = source_of(problem, plan, panda.lower, panda.upper)
assert "attempts" in text and "judge" in text
print("ring")
"""


def test_a_new_kind_touches_one_file_of_the_engine_and_one_of_the_goals(tmp_path):
    copy = tmp_path / "posable"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "studio", "*.glb"))
    text = (copy / "engine" / "springs.py").read_text()
    for old, new in RING.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (copy / "engine" / "springs.py").write_text(text)
    (copy / "goals" / "ring.py").write_text(RING_GOAL)
    env = os.environ | {"PYTHONPATH": str(tmp_path), "POSABLE_JIT": "python"}
    run = subprocess.run([sys.executable, "-c", TRY_RING], env=env, capture_output=True, text=True, check=False)
    assert run.stdout.strip() == "ring", run.stderr


def test_the_fast_path_of_points_is_the_general_one(lab):
    """A MODEL spring without a force is a POINT spring that takes the way of every kind."""
    rng = np.random.default_rng(3)
    skeleton = lab.figure_with(lab.motions["ball-rotvec"])
    for _ in range(20):
        row, target = lab.spring(kinds.POINT_SPRING, rng)
        general, aim = row.copy(), target.copy()
        general[MEASURE], aim[FRAME : FRAME + 3] = 1.0, 0.0
        pose, body = rng.normal(size=skeleton.size), int(rng.integers(6))
        for exact in (0.0, 1.0):
            point = lab.springs_on(skeleton, [(kinds.POINT_SPRING, body, (row, target))])
            model = lab.springs_on(skeleton, [(kinds.MODEL_SPRING, body, (general, aim))])
            fast, slow = lab.gathered(skeleton, point, pose, exact), lab.gathered(skeleton, model, pose, exact)
            for one, other in zip(fast[:3], slow[:3], strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-12 * max(1.0, np.abs(other).max()))


def directions_and_crosses(row, target):
    """Return an ORIENTATION spring as three DIRECTION springs and three CROSS springs: (kind, constants, target)."""
    axes, aims = row[AXES : AXES + 9].reshape(3, 3), target[FRAME : FRAME + 9].reshape(3, 3)
    out = []
    for i in range(3):
        one, aim = np.zeros(CONSTANTS), np.zeros(TARGETS)
        one[AXES : AXES + 3], aim[FRAME : FRAME + 3] = axes[:, i], aims[:, i]
        one[WEIGHT : WEIGHT + 3] = row[WEIGHT + i]
        out.append((kinds.DIRECTION_SPRING, one, aim))
        for j in range(i + 1, 3):
            pair, both = np.zeros(CONSTANTS), np.zeros(TARGETS)
            pair[POINT : POINT + 3], pair[POINT2 : POINT2 + 3] = axes[:, i], axes[:, j]
            pair[AXES : AXES + 9], pair[WEIGHT] = row[WEIGHT + 2 + i + j] * np.eye(3).ravel(), 1.0
            both[AT : AT + 3], both[FRAME : FRAME + 3] = aims[:, i], aims[:, j]
            out.append((kinds.CROSS_SPRING, pair, both))
    return out


def test_an_orientation_is_three_directions_and_what_couples_them(lab):
    """The hand-expanded path of rotations against the general one of directions and of full weights."""
    rng = np.random.default_rng(4)
    skeleton = lab.figure_with(lab.motions["ball-rotvec"])
    for _ in range(10):
        row, target = lab.spring(kinds.ORIENTATION_SPRING, rng)
        pose, body = rng.normal(size=skeleton.size), int(rng.integers(6))
        parts = [(kind, body, (one, aim)) for kind, one, aim in directions_and_crosses(row, target)]
        general = lab.springs_on(skeleton, parts)
        general.kind[general.kind[:, 0] == kinds.CROSS_SPRING, BODY_B] = body
        short = lab.springs_on(skeleton, [(kinds.ORIENTATION_SPRING, body, (row, target))])
        for exact in (0.0, 1.0):
            fast, slow = lab.gathered(skeleton, short, pose, exact), lab.gathered(skeleton, general, pose, exact)
            for one, other in zip(fast[:3], slow[:3], strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12 * max(1.0, np.abs(other).max()))


def test_the_error_of_a_plane_keeps_its_digits_far_along_it():
    """Against exact fractions: a square of the distance would leave an error of ten metres out here."""
    figure = posable.Skeleton([posable.Joint("root", posable.Free("xyz"))], [posable.Site("end", "root")])
    normal = np.array([1.0, 2.0, 2.0]) / 3.0
    place = np.array([1e9, -2.5e8, -2.5e8]) + normal  # a metre off the plane
    goal = posable.goals.Plane("end", (0.0, 0.0, 0.0), normal)
    exact = sum(Fraction(a) * Fraction(b) for a, b in zip(goal.direction.tolist(), place.tolist(), strict=True))
    found = posable.Problem(figure, goal).errors([*place, 0.0, 0.0, 0.0])["end"]
    assert abs(found - abs(float(exact))) < 1e-6
