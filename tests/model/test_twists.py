"""The toolkit of twists against SciPy's matrix exponential, finite differences and forward kinematics."""

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.spatial.transform import Rotation

import posable as ps

tw = ps.twists


def random_pose(figure, rng):
    return rng.uniform(np.maximum(figure.lower, -1.2), np.minimum(figure.upper, 1.2))


def odd_figure():
    """Every kind of joint on one chain, with generic rests, and a frozen one among them."""
    rng = np.random.default_rng(2)

    def place():
        return {"offset": rng.normal(size=3), "rotation": Rotation.random(rng=rng)}

    motions = (
        ps.Free("zyx"), ps.Ball("rotvec"), ps.Revolute("x"), ps.Ball("swing-twist", axis="z"), ps.Prismatic((1, 2, 3)),
        ps.Fixed(), ps.Ball("xyz"),
    )  # fmt: skip
    joints = [
        ps.Joint(f"j{k}", motion, f"j{k - 1}" if k else None, frozen=k == 2, **place())
        for k, motion in enumerate(motions)
    ]
    return ps.Skeleton(joints, [ps.Site("tip", "j6", **place()), ps.Site("plate", "j5")])


@pytest.mark.parametrize("size", [1e-9, 1e-3, 1.0, 3.0])
def test_exp_and_log(size):
    xi = size * np.random.default_rng(0).normal(size=(5, 6)) / 3.0
    for twist, matrix in zip(xi, tw.exp(xi), strict=True):
        assert np.allclose(matrix, expm(tw.matrix_of(twist)), atol=1e-12)
    assert np.allclose(tw.log(tw.exp(xi)), xi, atol=1e-9)
    assert np.allclose(tw.twist_of(tw.matrix_of(xi)), xi)


def test_adjoint_and_bracket():
    rng = np.random.default_rng(1)
    a, b, c = rng.normal(size=(3, 6))
    t = tw.exp(a)
    moved = t @ tw.matrix_of(b) @ np.linalg.inv(t)
    assert np.allclose(tw.adjoint(t) @ b, tw.twist_of(moved))
    assert np.allclose(tw.adjoint(tw.exp(b) @ tw.exp(c)), tw.adjoint(tw.exp(b)) @ tw.adjoint(tw.exp(c)))
    assert np.allclose(expm(tw.bracket(a)), tw.adjoint(t))
    assert np.allclose(
        tw.bracket(a) @ b, tw.twist_of(tw.matrix_of(a) @ tw.matrix_of(b) - tw.matrix_of(b) @ tw.matrix_of(a))
    )


@pytest.mark.parametrize("body", ["tip", "plate", "j2"])
def test_the_product_of_exponentials_is_forward_kinematics(body):
    figure, rng = odd_figure(), np.random.default_rng(3)
    form = tw.screws(figure, body)
    poses = rng.normal(size=(4, figure.size))
    assert np.allclose(tw.product_of_exponentials(form, poses), ps.forward(figure, poses).matrix(body), atol=1e-10)
    assert tw.chain(figure, body) == tuple(figure.dof_names[i] for i in form.dofs)


def test_the_chain_of_a_hand():
    human = ps.figures.human()
    names = tw.chain(human, "hand.R")
    assert names[0] == "root.tx"
    assert names[-1].startswith("wrist.R")
    assert not any(".L" in name for name in names)
    moving = np.abs(ps.jacobian(human, human.rest, "hand.R", rows="pose")).max(axis=0) > 0
    assert set(names) >= {human.dof_names[i] for i in np.flatnonzero(moving)}


def test_the_spatial_jacobian_is_the_body_form_carried_to_the_world():
    figure, rng = odd_figure(), np.random.default_rng(4)
    pose = rng.normal(size=figure.size)
    spatial = tw.spatial_jacobian(figure, pose, "tip")
    at, step = ps.forward(figure, pose).matrix("tip"), 1e-6
    for i in np.flatnonzero(~figure.frozen):
        ahead, behind = (ps.forward(figure, pose + s * step * np.eye(figure.size)[i]).matrix("tip") for s in (1, -1))
        rate = (ahead - behind) / (2.0 * step) @ np.linalg.inv(at)
        assert np.allclose(spatial[:, i], tw.twist_of(rate), atol=1e-6)


@pytest.mark.parametrize("order", ["zyx", "xyz", "zyz", "yxy"])
def test_the_euler_jacobian(order):
    figure, rng = ps.figures.panda(), np.random.default_rng(5)
    pose, step = random_pose(figure, rng), 1e-6

    def numbers(x):
        at = ps.forward(figure, x)
        return np.concatenate([at.position("hand"), at.rotation("hand").as_euler(order.upper())])

    got = tw.euler_jacobian(figure, pose, "hand", order=order)
    for i in range(figure.size):
        e = step * np.eye(figure.size)[i]
        change = numbers(pose + e) - numbers(pose - e)
        change[3:] = (change[3:] + np.pi) % (2.0 * np.pi) - np.pi
        assert np.allclose(got[:, i], change / (2.0 * step), atol=1e-6)
    with pytest.raises(ps.PosableError, match="three of"):
        tw.euler_jacobian(figure, pose, "hand", order="zzx")


def test_the_curvature_tensor_differentiates_the_jacobian():
    figure, rng = odd_figure(), np.random.default_rng(6)
    pose, point, step = rng.normal(size=figure.size), (0.1, -0.2, 0.3), 1e-5
    tensor = tw.curvature_tensor(figure, pose, "tip", point=point)
    for i in np.flatnonzero(~figure.frozen):
        e = step * np.eye(figure.size)[i]
        rate = (
            ps.jacobian(figure, pose + e, "tip", point=point) - ps.jacobian(figure, pose - e, "tip", point=point)
        ) / (2.0 * step)
        assert np.allclose(tensor[:, i], rate, atol=1e-6)


@pytest.mark.parametrize("frame", ["world", "body"])
@pytest.mark.parametrize("rows", ["position", "rotation", "pose", "axes"])
def test_the_time_derivative_with_point_rows_and_gains(rows, frame):
    figure = ps.figures.panda()
    figure = figure.replace(joints=[*figure.joints])
    rng = np.random.default_rng(7)
    pose, speed, point, step = random_pose(figure, rng), rng.normal(size=figure.size), (0.1, 0.2, -0.1), 1e-6
    options = {"rows": rows, "frame": frame, "point": point, "gains": True}
    ahead, behind = (ps.jacobian(figure, pose + s * step * speed, "hand", **options) for s in (1, -1))
    got = ps.jacobian_rate(figure, pose, speed, "hand", **options)
    assert np.allclose(got, (ahead - behind) / (2.0 * step), atol=1e-6)
