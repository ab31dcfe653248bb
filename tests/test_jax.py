"""The function of JAX: gradients against differences of the function, under jit and vmap."""

import numpy as np
import pytest

import posable as ps

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import posable.jax  # noqa: E402

g = ps.goals


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def setting():
    limb = ps.figures.limb()
    goals = [g.Position("hand", (0.0, 0.0, 0.0)), g.Posture(weight=0.05)]
    targets = np.array([[0.3, 0.1, 0.05], [0.2, 0.2, 0.1], [-0.6, 0.3, 0.2]])
    return limb, goals, targets


def test_gradients_are_those_of_differences():
    limb, goals, targets = setting()
    weights = np.random.default_rng(0).normal(size=(3, limb.size))
    elbow = np.array(limb.joint("elbow").offset)

    def loss(targets, elbow):
        poses = posable.jax.solve(limb, goals, {"hand": targets}, offsets={"elbow": elbow})
        return (jnp.asarray(weights) * poses).sum()

    by_target, by_elbow = jax.grad(loss, argnums=(0, 1))(jnp.asarray(targets), jnp.asarray(elbow))
    h = 1e-4
    for i in range(3):
        step = h * np.eye(3)[i]
        slope = (loss(targets, elbow + step) - loss(targets, elbow - step)) / (2 * h)
        assert np.isclose(by_elbow[i], slope, rtol=1e-5, atol=1e-7)
        for t in range(3):
            up, down = targets.copy(), targets.copy()
            up[t], down[t] = up[t] + step, down[t] - step
            assert np.isclose(by_target[t, i], (loss(up, elbow) - loss(down, elbow)) / (2 * h), rtol=1e-5, atol=1e-7)


def test_jit_and_vmap_give_the_same():
    limb, goals, targets = setting()

    def poses(target):
        return posable.jax.solve(limb, goals, {"hand": target})

    plain = poses(jnp.asarray(targets))
    assert np.allclose(jax.jit(poses)(jnp.asarray(targets)), plain, atol=1e-12)
    assert np.allclose(jax.vmap(poses)(jnp.asarray(targets)), plain, atol=1e-9)
    one = ps.solve(limb, [goals[0].moved(targets[0]), goals[1]])
    assert np.allclose(jax.jacobian(poses)(jnp.asarray(targets[0])), one.jacobian("hand"), rtol=1e-4, atol=1e-6)


def test_wrong_names():
    limb, goals, targets = setting()
    with pytest.raises(ps.PosableError, match="did you mean 'hand'"):
        posable.jax.solve(limb, goals, {"hnd": targets})
