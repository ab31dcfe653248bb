"""Figures, springs and finite differences that the kernel tests share, as fixtures that are functions."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from posable.engine import springs as kinds
from posable.engine.assemble import evaluate
from posable.engine.layout import (  # fmt: skip
    AT,
    AXES,
    CONSTANTS,
    DEPTH,
    FRAME,
    MEASURE,
    POINT,
    ROBUST,
    SIZE,
    TARGETS,
    WEIGHT,
    Springs,
    work_size,
)
from posable.engine.reference import MOST_ROWS, direct_hessian
from posable.model.joints import EULER_ORDERS, Ball, Fixed, Free, Joint, Planar, Prismatic, Revolute, Universal
from posable.model.skeleton import Skeleton

MOTIONS = {
    "fixed": Fixed(),
    "revolute": Revolute("y"),
    "revolute-skew": Revolute((1.0, -2.0, 0.5)),
    "prismatic": Prismatic("-x"),
    "prismatic-skew": Prismatic((0.0, 1.0, 1.0)),
    "universal": Universal("zx"),
    "planar": Planar("-y"),
    "planar-skew": Planar((1.0, 1.0, 1.0)),
    **{f"ball-{order}": Ball(order) for order in EULER_ORDERS},
    "ball-rotvec": Ball("rotvec"),
    "ball-swing-twist": Ball("swing-twist", axis="y"),
    "ball-swing-twist-skew": Ball("swing-twist", axis=(1.0, 0.3, -0.4)),
    "free-zyx": Free("zyx"),
    "free-rotvec": Free("rotvec"),
    "free-swing-twist": Free("swing-twist"),
}


def figure_with(motion, seed=0):
    """Return a small tree in which the motion stands at the root, in the middle and at a leaf."""
    rng = np.random.default_rng(seed)

    def joint(name, motion, parent):
        return Joint(name, motion, parent, offset=rng.normal(size=3), rotation=Rotation.random(random_state=rng))

    return Skeleton(
        [
            joint("root", motion, None),
            joint("hinge", Revolute("z"), "root"),
            joint("middle", motion, "hinge"),
            joint("slider", Prismatic("y"), "middle"),
            joint("leaf", motion, "slider"),
            joint("branch", Universal("xy"), "hinge"),
        ]
    )


def symmetric(rng, definite=True):
    """Return a random symmetric weight as xx yy zz xy xz yz."""
    root = rng.normal(size=(3, 3))
    w = root @ root.T if definite else root + root.T
    return np.array([w[0, 0], w[1, 1], w[2, 2], w[0, 1], w[0, 2], w[1, 2]])


def spring(kind, rng, robust=0.0):
    """Return the constants and the targets of a random spring of a kind."""
    row, target = np.zeros(CONSTANTS), np.zeros(TARGETS)
    row[POINT : POINT + 3] = rng.normal(size=3)
    row[AXES : AXES + 9] = Rotation.random(random_state=rng).as_matrix().ravel()
    target[AT : AT + 3] = 2.0 * rng.normal(size=3)
    target[FRAME : FRAME + 9] = Rotation.random(random_state=rng).as_matrix().ravel()
    row[WEIGHT : WEIGHT + 6] = symmetric(rng)
    row[MEASURE : MEASURE + 3] = 1.0
    row[SIZE] = 40.0  # deep on the wrong side of a SIDE spring, away from its kink
    row[ROBUST] = robust
    return row, target


def springs_on(skeleton, rows, pull=0.0):
    """Return Springs from (kind, body, (constants, targets)) and a pull towards zero on every dof."""
    n = skeleton.size
    kind = np.array([(k, b, i, -1) for i, (k, b, _) in enumerate(rows)], dtype=np.int64).reshape(-1, 4)
    constants = np.array([row for _, _, (row, _) in rows]).reshape(-1, CONSTANTS)
    targets = np.array([target for _, _, (_, target) in rows]).reshape(-1, TARGETS)
    return Springs(kind, constants, targets, np.full(n, pull), np.linspace(-1.0, 1.0, n))


def gathered(skeleton, springs, pose, exact=1.0):
    """Return energy, gradient (n,), Hessian (n, n) and errors (g,) of the engine."""
    n, b, g = skeleton.size, skeleton.figure.body.shape[0], springs.kind.shape[0]
    d = int(skeleton.order.rows[:, DEPTH].max()) + 1 if n else 1
    gradient, hessian, errors = np.empty(n), np.empty((n, n)), np.empty(g)
    work = np.zeros(work_size(n, b, g, d))
    theta = np.ascontiguousarray(pose, dtype=float)
    energy = evaluate(skeleton.figure, skeleton.order, springs, theta, work, d, exact, gradient, hessian, errors)
    return energy, gradient, hessian, errors


def directly(skeleton, springs, pose, exact=1.0):
    """Return status, gradient (n,) and Hessian (n, n) by algorithm 4 of Erleben & Andrews (2018)."""
    n, b, g = skeleton.size, skeleton.figure.body.shape[0], springs.kind.shape[0]
    gradient, hessian = np.empty(n), np.empty((n, n))
    status = direct_hessian(
        skeleton.figure, springs, np.ascontiguousarray(pose, dtype=float), np.zeros(work_size(n, b, g, 1)), 1, exact,
        np.empty(117), np.empty((MOST_ROWS * g, n)), gradient, hessian,
    )  # fmt: skip
    return status, gradient, hessian


def slope(function, x, h=1e-3):
    """Return the derivative (..., n) of an array function at x (n,), by central differences extrapolated once."""
    columns = []
    for i in range(x.size):
        step = np.zeros(x.size)
        step[i] = h
        wide = (function(x + step) - function(x - step)) / (2.0 * h)
        near = (function(x + 0.5 * step) - function(x - 0.5 * step)) / h
        columns.append((4.0 * near - wide) / 3.0)
    return np.stack(columns, axis=-1)


@pytest.fixture(scope="session")
def lab():
    """Everything above, under one name."""
    names = {name[: -len("_SPRING")].lower(): value for name, value in vars(kinds).items() if name.endswith("_SPRING")}
    return SimpleNamespace(
        motions=MOTIONS, kinds=names, figure_with=figure_with, spring=spring, springs_on=springs_on,
        gathered=gathered, directly=directly, slope=slope, symmetric=symmetric,
    )  # fmt: skip
