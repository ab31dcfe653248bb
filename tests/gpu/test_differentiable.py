"""The differentiable layer on a GPU, against the CPU's: the source that a GPU gets, compiled for this machine."""

import numpy as np
import pytest

import posable as ps
from posable._differentiable import Layer
from posable.errors import SolverError
from posable.gpu.differentiable import adjoint, columns

g = ps.goals


def there(on_host, values):
    from posable_host_gpu import Buffer, Stream

    return Buffer(Stream(on_host), values.shape, np.float64).take(np.ascontiguousarray(values))


@pytest.mark.parametrize(("name", "pose", "spread"), [("panda", True, 0.3), ("limb", False, 2.0)])
def test_poses_and_gradients_are_those_of_the_cpu(on_host, name, pose, spread):
    figure, rng = getattr(ps.figures, name)(), np.random.default_rng(2)
    drawn = np.clip(figure.rest + spread * rng.normal(size=(12, figure.size)), figure.lower, figure.upper)
    frames = ps.forward(figure, drawn)
    targets = frames.matrix("hand") if pose else 1.1 * frames.position("hand")  # some on their limits, some too far
    goal = g.Pose("hand", np.eye(4)) if pose else g.Position("hand", (0.0, 0.0, 0.0))
    layer = Layer(figure, [goal, g.Posture(weight=0.02)], ["hand"])
    slopes = rng.normal(size=drawn.shape)
    here = layer.forward([targets], [])
    expected = layer.backward(here, slopes)[0][0].reshape(12, -1)
    solved = layer.forward_on_gpu([there(on_host, targets)])
    assert solved.shape == (12,)
    same = np.abs(solved.poses.numpy() - here.poses).max(axis=1) < 1e-5
    assert same.sum() >= 10  # the others end at another minimum
    elements, where = columns(solved, "hand")
    found = adjoint(solved, there(on_host, slopes)).numpy()[:, where]
    wanted = expected[:, elements]
    assert np.array_equal(np.isnan(found[same]), np.isnan(wanted[same]))
    assert np.allclose(found[same], wanted[same], rtol=1e-4, atol=1e-5, equal_nan=True)
    if not pose:
        held = (here.poses <= figure.lower + 1e-9) | (here.poses >= figure.upper - 1e-9)
        assert held.any()


def test_what_the_gpu_does_not_support_is_reported(on_host):
    limb = ps.figures.limb()
    array = there(on_host, np.full((2, 3), 0.2))
    with pytest.raises(SolverError, match="offsets"):
        Layer(limb, g.Position("hand", (0, 0, 0)), ["hand"], ["elbow"]).forward_on_gpu([array])
    with pytest.raises(SolverError, match="only 'newton'"):
        Layer(limb, g.Position("hand", (0, 0, 0)), ["hand"], (), {"solver": "dls"}).forward_on_gpu([array])
    solved = Layer(limb, g.Position("hand", (0, 0, 0)), ["hand"]).forward_on_gpu([array])
    with pytest.raises(SolverError, match="on the GPU"):
        adjoint(solved, np.zeros((2, limb.size)))
