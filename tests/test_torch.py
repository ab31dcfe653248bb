"""The layer of PyTorch: gradients against differences of the layer, with and without limits that hold."""

import numpy as np
import pytest

import posable as ps

torch = pytest.importorskip("torch")

import posable.torch  # noqa: E402

g = ps.goals


def test_gradcheck_of_targets_and_offsets():
    limb = ps.figures.limb()
    goals = [g.Position("hand", (0.0, 0.0, 0.0)), g.Posture(weight=0.05)]
    targets = torch.tensor([[0.3, 0.1, 0.05], [0.2, 0.2, 0.1], [-0.6, 0.3, 0.2]], dtype=torch.float64).requires_grad_()
    elbow = torch.tensor(limb.joint("elbow").offset, dtype=torch.float64).requires_grad_()

    def layer(targets, elbow):
        return posable.torch.solve(limb, goals, {"hand": targets}, offsets={"elbow": elbow})

    poses = layer(targets, elbow).detach().numpy()
    assert ((poses <= limb.lower + 1e-9) | (poses >= limb.upper - 1e-9)).any(axis=1).tolist()[2]
    assert torch.autograd.gradcheck(layer, (targets, elbow), eps=1e-5, atol=1e-6, rtol=1e-5)


def test_a_pose_and_a_shared_target():
    panda = ps.figures.panda()
    matrix = torch.tensor(ps.forward(panda, panda.rest + 0.1).matrix("hand"), requires_grad=True)
    goals = [g.Pose("hand", np.eye(4)), g.Posture(pose=panda.rest, weight=0.02)]
    poses = posable.torch.solve(panda, goals, {"hand": matrix})
    assert poses.shape == (panda.size,)
    loss = (poses**2).sum()
    loss.backward()
    result = ps.solve(panda, [goals[0].moved(matrix.detach().numpy()), goals[1]])
    expected = 2.0 * poses.detach().numpy() @ result.jacobian("hand")[:, :3]
    assert np.allclose(matrix.grad.numpy()[:3, 3], expected, rtol=1e-4, atol=1e-7)


def test_bone_lengths_are_learned():
    limb = ps.figures.limb()
    goals = [g.Position("hand", (0.0, 0.0, 0.0)), g.Posture(weight=0.01)]
    rng = np.random.default_rng(0)
    targets = torch.tensor(rng.uniform(0.1, 0.3, (16, 3)))
    true = torch.tensor(limb.joint("elbow").offset, dtype=torch.float64)
    wanted = posable.torch.solve(limb, goals, {"hand": targets}, offsets={"elbow": true}).detach()
    scale = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([scale], lr=0.02)
    for _ in range(60):
        optimizer.zero_grad()
        poses = posable.torch.solve(limb, goals, {"hand": targets}, offsets={"elbow": scale * true})
        ((poses - wanted) ** 2).mean().backward()
        optimizer.step()
    assert abs(float(scale.detach()) - 1.0) < 0.02


def test_wrong_names_and_goals():
    limb = ps.figures.limb()
    target = torch.zeros(3)
    with pytest.raises(ps.PosableError, match="did you mean 'hand'"):
        posable.torch.solve(limb, g.Position("hand", (0, 0, 0)), {"hnd": target})
    with pytest.raises(ps.PosableError, match="Position"):
        posable.torch.solve(limb, g.Aim("hand", "x", at=(1, 0, 0)), {"hand": target})


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU")
def test_gradients_on_a_gpu_are_those_of_the_cpu():
    limb, rng = ps.figures.limb(), np.random.default_rng(0)
    goals = [g.Position("hand", (0.0, 0.0, 0.0)), g.Posture(weight=0.05)]
    values, slopes = torch.tensor(rng.uniform(-0.3, 0.3, (50, 3))), torch.tensor(rng.normal(size=(50, limb.size)))
    found = []
    for device in ("cpu", "cuda"):
        targets = values.clone().to(device).requires_grad_()
        poses = posable.torch.solve(limb, goals, {"hand": targets})
        assert poses.device.type == device
        (poses * slopes.to(device)).sum().backward()
        found.append((poses.detach().cpu().numpy(), targets.grad.cpu().numpy()))
    same = np.abs(found[0][0] - found[1][0]).max(axis=1) < 1e-6
    assert same.sum() >= 45
    assert np.allclose(found[0][1][same], found[1][1][same], rtol=1e-5, atol=1e-6)
