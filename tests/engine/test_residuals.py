"""Stacked residuals: their square is the energy, and J is their derivative."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from posable.engine.layout import AXES, CONSTANTS, FRAME, LOCAL, TARGETS, WEIGHT, work_size
from posable.engine.residuals import residual_rows, residuals_and_jacobian, vector_residuals
from posable.engine.springs import ORIENTATION_SPRING


def matrix(row):
    xx, yy, zz, xy, xz, yz = row[WEIGHT : WEIGHT + 6]
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def roots_of(lab, springs, vectors):
    """Return the square roots (g, 9) of the weights."""
    out = np.zeros((springs.kind.shape[0], 9))
    for k, row in enumerate(springs.constants):
        weight = matrix(row)
        kind = springs.kind[k, 0]
        if kind == lab.kinds["orientation"] and vectors:
            weight = np.trace(weight) * np.eye(3) - weight
        if kind in [lab.kinds[name] for name in ("point", "orientation", "direction", "aim")]:
            out[k] = np.linalg.cholesky(weight).T.ravel()
        else:
            out[k, 0] = np.sqrt(weight[0, 0])
    return out


def stack(lab, skeleton, springs, pose, vectors=0):
    n, b, g = skeleton.size, skeleton.figure.body.shape[0], springs.kind.shape[0]
    m = residual_rows(springs, vectors)
    residuals, jacobian = np.empty(m), np.empty((m, n))
    status = residuals_and_jacobian(
        skeleton.figure, springs, roots_of(lab, springs, vectors), np.ascontiguousarray(pose),
        np.zeros(work_size(n, b, g, 1)), 1, vectors, residuals, jacobian,
    )  # fmt: skip
    assert status == -1
    return residuals, jacobian


def one_of_each(lab, skeleton, seed, robust=0.0):
    rng = np.random.default_rng(seed)
    last = skeleton.figure.body.shape[0] - 1
    kinds = [lab.kinds[name] for name in ("point", "orientation", "direction", "aim", "side")]
    return lab.springs_on(
        skeleton, [(k, last - i % 3, lab.spring(k, rng, robust)) for i, k in enumerate(kinds)], pull=0.2
    )


@pytest.mark.parametrize("motion", ["ball-zyx", "ball-rotvec", "free-swing-twist"])
def test_energy_gradient_and_gauss_newton(lab, motion):
    skeleton = lab.figure_with(lab.motions[motion])
    springs = one_of_each(lab, skeleton, 1)
    pose = np.random.default_rng(2).uniform(-2, 2, skeleton.size)
    residuals, jacobian = stack(lab, skeleton, springs, pose)
    energy, gradient, _, _ = lab.gathered(skeleton, springs, pose)
    assert residuals.size == 3 + 9 + 3 + 3 + 1 + skeleton.size
    assert np.isclose(0.5 * residuals @ residuals, energy, rtol=1e-12)
    assert np.allclose(jacobian.T @ residuals, gradient, rtol=1e-11, atol=1e-11)
    assert np.allclose(jacobian, lab.slope(lambda q: stack(lab, skeleton, springs, q)[0], pose), atol=1e-8)


def test_gauss_newton_of_linear_springs(lab):
    skeleton = lab.figure_with(lab.motions["ball-zyx"])
    rng = np.random.default_rng(3)
    kinds = [lab.kinds[name] for name in ("point", "orientation", "direction")]
    springs = lab.springs_on(skeleton, [(k, 4, lab.spring(k, rng)) for k in kinds])
    pose = rng.uniform(-2, 2, skeleton.size)
    _, jacobian = stack(lab, skeleton, springs, pose)
    assert np.allclose(jacobian.T @ jacobian, lab.gathered(skeleton, springs, pose, exact=0.0)[2], atol=1e-10)


def test_robust_springs_keep_their_gradient(lab):
    skeleton = lab.figure_with(lab.motions["ball-zyx"])
    springs = one_of_each(lab, skeleton, 4, robust=0.5)
    pose = np.random.default_rng(5).uniform(-2, 2, skeleton.size)
    residuals, jacobian = stack(lab, skeleton, springs, pose)
    assert np.allclose(jacobian.T @ residuals, lab.gathered(skeleton, springs, pose)[1], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-3, 1.0, 2.5, 3.0, np.pi - 1e-3, np.pi - 1e-8])
def test_rotation_vectors_of_the_error(lab, angle):
    """The residual is the rotation vector from the target to the body, whatever the angle."""
    skeleton = lab.figure_with(lab.motions["ball-zyx"])
    rng = np.random.default_rng(6)
    kind = lab.kinds["orientation"]
    row, target = lab.spring(kind, rng)
    row[WEIGHT : WEIGHT + 6] = (0.5, 0.5, 0.5, 0, 0, 0)  # stiffness 1 about every axis
    pose = rng.uniform(-2, 2, skeleton.size)
    springs = lab.springs_on(skeleton, [(kind, 4, (row, target))])
    from posable.model.kinematics import place_bodies

    frame = place_bodies(skeleton, pose[None])[1][0, 4] @ row[AXES : AXES + 9].reshape(3, 3)
    for axis in np.vstack([np.eye(3), rng.normal(size=(5, 3))]):
        error = angle * axis / np.linalg.norm(axis)
        springs.targets[0, FRAME : FRAME + 9] = (frame @ Rotation.from_rotvec(-error).as_matrix()).ravel()
        residuals, _ = stack(lab, skeleton, springs, pose, vectors=1)
        assert np.allclose(residuals, error, atol=1e-8 if angle > 3.14 else 1e-13 + 1e-9 * angle**20)


def test_rotation_vector_rows_are_angular_velocity(lab):
    skeleton = lab.figure_with(lab.motions["ball-zyx"])
    rng = np.random.default_rng(7)
    kind = lab.kinds["orientation"]
    springs = lab.springs_on(skeleton, [(kind, 4, lab.spring(kind, rng))])
    pose = rng.uniform(-2, 2, skeleton.size)
    from posable.model.kinematics import place_bodies

    frame = place_bodies(skeleton, pose[None])[1][0, 4] @ springs.constants[0, AXES : AXES + 9].reshape(3, 3)
    springs.targets[0, FRAME : FRAME + 9] = frame.ravel()  # at the goal the rows are the residual's own derivative
    _, jacobian = stack(lab, skeleton, springs, pose, vectors=1)
    assert np.allclose(jacobian, lab.slope(lambda q: stack(lab, skeleton, springs, q, 1)[0], pose), atol=1e-9)
    gauss_newton = lab.gathered(skeleton, springs, pose, exact=0.0)[2]
    assert np.allclose(jacobian.T @ jacobian, gauss_newton, atol=1e-10)


@pytest.mark.parametrize("angle", [1e-3, 1.0, 2.5, 3.1, np.pi - 1e-7])
def test_an_orientation_as_three_rows(angle):
    """2 sin(angle / 2) n and its derivative along rotations, up to half a turn."""
    rng = np.random.default_rng(5)
    target, axis, spin = Rotation.random(random_state=3).as_matrix(), rng.normal(size=3), rng.normal(size=3)
    axis /= np.linalg.norm(axis)
    body = target @ Rotation.from_rotvec(angle * axis).as_matrix()
    row, goal = np.zeros(CONSTANTS), np.zeros(TARGETS)
    goal[FRAME : FRAME + 9] = target.ravel()
    frame, out = np.array([0.0, 0.0, 0.0, *np.eye(3).ravel()]), np.empty((3, 30))
    step = 1e-6
    turned = [Rotation.from_rotvec(x * spin).as_matrix() @ body for x in (0.0, step, -step)]
    axes = np.ascontiguousarray([turn.T for turn in turned])
    vector_residuals(ORIENTATION_SPRING, row, goal, axes, frame, np.empty(LOCAL), out)
    np.testing.assert_allclose(out[0, :3], 2.0 * np.sin(0.5 * angle) * axis, atol=1e-12)
    slopes = out[0, 3:].reshape(3, 3, 3)  # axis of the body, row, component
    if angle < 3.14:  # beyond half a turn the axis points the other way
        moved = np.einsum("jac,jc->a", slopes, np.cross(spin, body.T))
        np.testing.assert_allclose(moved, (out[1, :3] - out[2, :3]) / (2.0 * step), atol=1e-8)
