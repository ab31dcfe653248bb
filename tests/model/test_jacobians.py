"""All Jacobian methods say the same, at one pose and at many, in both frames; and their rate is their derivative."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import posable as ps
from posable.errors import PosableError
from posable.model.jacobians import METHODS, ROWS


def random_figure(seed=0, gain=1.0, frozen=()):
    """Return a figure with every motion on one chain, and a branch off it."""
    rng = np.random.default_rng(seed)
    motions = [
        ps.Free("rotvec"), ps.Ball("zyz"), ps.Revolute((1, 2, 3)), ps.Prismatic("-y"), ps.Universal("xz"),
        ps.Planar((1, 1, 0)), ps.Ball("rotvec"), ps.Ball("swing-twist", axis=(1, 0, 1)), ps.Fixed(), ps.Ball("xyz"),
    ]  # fmt: skip
    joints = [
        ps.Joint(
            f"j{k}", motion, f"j{k - 1}" if k else None, gain=gain, frozen=f"j{k}" in frozen,
            offset=rng.normal(size=3), rotation=Rotation.random(random_state=rng),
        )
        for k, motion in enumerate(motions)
    ]  # fmt: skip
    joints.append(ps.Joint("side", ps.Revolute("x"), "j3"))
    return ps.Skeleton(joints, [ps.Site("tip", "j9", rng.normal(size=3), Rotation.random(random_state=rng))])


@pytest.fixture(scope="module")
def figure():
    return random_figure()


@pytest.mark.parametrize("frame", ["world", "body"])
@pytest.mark.parametrize("rows", ROWS)
def test_the_methods_agree(figure, rows, frame):
    poses = np.random.default_rng(1).uniform(-3, 3, (2, 20, figure.size))
    of = {m: ps.jacobian(figure, poses, "tip", rows=rows, method=m, frame=frame, point=(1, 2, 0.3)) for m in METHODS}
    assert of["cross"].shape == (2, 20, 3 if rows in ("position", "rotation") else 6, figure.size)
    for method, limit in {"adjoint": 1e-12, "adjusted": 1e-12, "finite": 1e-10}.items():
        assert np.abs(of[method] - of["cross"]).max() < limit


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("value", [0.0, 1e-9, 0.5 * np.pi, np.pi / np.sqrt(3), 4.0 / np.sqrt(3)])
def test_hard_poses(figure, method, value):
    pose = np.full(figure.size, value)
    expected = ps.jacobian(figure, pose, "tip", rows="pose")
    assert np.abs(ps.jacobian(figure, pose, "tip", rows="pose", method=method) - expected).max() < 1e-10


def test_rows_are_derivatives_of_forward(figure):
    pose = np.random.default_rng(2).uniform(-2, 2, figure.size)
    h, point = 1e-5, (0.1, -0.2, 0.3)
    steps = h * np.eye(figure.size)
    ahead, behind = ps.forward(figure, pose + steps), ps.forward(figure, pose - steps)
    slope = (ahead.convert(point, from_="tip") - behind.convert(point, from_="tip")).T / (2 * h)
    assert np.abs(ps.jacobian(figure, pose, "tip", point=point) - slope).max() < 1e-8
    turned = (ahead.rotation_matrix("tip") - behind.rotation_matrix("tip")) / (2 * h)
    axes = np.concatenate([turned[:, :, 0].T, turned[:, :, 1].T])
    assert np.abs(ps.jacobian(figure, pose, "tip", rows="axes") - axes).max() < 1e-8


def test_body_rows_are_world_rows_turned(figure):
    pose = np.random.default_rng(3).uniform(-2, 2, figure.size)
    turn = ps.forward(figure, pose).rotation_matrix("tip")
    for rows in ROWS:
        world = ps.jacobian(figure, pose, "tip", rows=rows).reshape(-1, 3, figure.size)
        body = ps.jacobian(figure, pose, "tip", rows=rows, frame="body").reshape(-1, 3, figure.size)
        assert np.abs(turn.T @ world - body).max() < 1e-12


def test_joints_off_the_path_have_zero_columns(figure):
    pose = np.random.default_rng(4).uniform(-2, 2, figure.size)
    assert not ps.jacobian(figure, pose, "tip", rows="pose")[:, figure.index("side")].any()
    assert not ps.jacobian(figure, pose, "j3", rows="pose")[:, figure.index("j6")].any()
    assert not ps.jacobian(figure, pose, "j8")[:, figure.index("j9")].any()


def test_gains_scale_and_frozen_joints_clear():
    figure, plain = random_figure(gain=0.5, frozen=("j4", "j6")), random_figure()
    pose = np.random.default_rng(5).uniform(-2, 2, figure.size)
    ours, expected = ps.jacobian(figure, pose, "tip", gains=True), 0.5 * ps.jacobian(plain, pose, "tip")
    expected[:, figure.index("j4")] = expected[:, figure.index("j6")] = 0.0
    assert np.array_equal(ours, expected)
    assert not ps.jacobian(figure, pose, "tip")[:, figure.index("j4")].any()
    rate = ps.jacobian_rate(figure, pose, pose, "tip")
    assert not rate[:, figure.index("j6")].any()


@pytest.mark.parametrize("frame", ["world", "body"])
def test_the_rate_is_the_time_derivative(figure, frame):
    rng = np.random.default_rng(6)
    poses, velocities = rng.uniform(-2, 2, (2, 4, 5, figure.size))

    def at(t):
        return ps.jacobian(figure, poses + t * velocities, "tip", rows="pose", frame=frame)

    h = 1e-3
    slope = (4.0 * (at(h / 2) - at(-h / 2)) / h - (at(h) - at(-h)) / (2 * h)) / 3.0
    rate = ps.jacobian_rate(figure, poses, velocities, "tip", frame=frame)
    assert rate.shape == (4, 5, 6, figure.size)
    assert np.abs(rate - slope).max() < 1e-7 * np.abs(slope).max()


def test_a_figure_that_cannot_move():
    stone = ps.Skeleton([ps.Joint("stone", ps.Fixed())])
    assert ps.jacobian(stone, np.zeros(0), "stone", rows="pose").shape == (6, 0)
    assert ps.jacobian_rate(stone, np.zeros((3, 0)), np.zeros((3, 0)), "stone").shape == (3, 6, 0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rows": "positions"}, "position"),
        ({"method": "adjont"}, "adjoint"),
        ({"frame": "wrld"}, "world"),
        ({"point": (1, 2)}, "three finite numbers"),
        ({"point": "here"}, "three finite numbers"),
    ],
)
def test_wrong_options_say_what_is_right(figure, options, said):
    with pytest.raises(PosableError, match=said):
        ps.jacobian(figure, figure.rest, "tip", **options)


def test_wrong_names_and_shapes(figure):
    with pytest.raises(PosableError, match="did you mean 'tip'"):
        ps.jacobian(figure, figure.rest, "top")
    with pytest.raises(PosableError, match="pose: expected shape"):
        ps.jacobian(figure, np.zeros(3), "tip")
    with pytest.raises(PosableError, match="velocity: expected shape"):
        ps.jacobian_rate(figure, figure.rest, np.zeros(3), "tip")
