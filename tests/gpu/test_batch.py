"""Batches on a GPU, by the source that a GPU gets, compiled for this machine (host.py)."""

import numpy as np
import pytest

import posable as ps
from posable.errors import GoalError, PosableWarning, SolverError

g = ps.goals


def reachable(skeleton, count, seed, share=1.0):
    rng = np.random.default_rng(seed)
    low, high = np.maximum(skeleton.lower, -3.0), np.minimum(skeleton.upper, 3.0)
    return skeleton.rest + share * (rng.uniform(low, high, (count, skeleton.size)) - skeleton.rest)


def misses(skeleton, poses, body, targets):
    """Return the distance and the angle between a body's frame and its targets, by forward kinematics alone."""
    frames = ps.forward(skeleton, poses).matrix(body)
    turn = np.swapaxes(frames[..., :3, :3], -1, -2) @ targets[..., :3, :3]
    angle = np.arccos(np.clip((np.trace(turn, axis1=-2, axis2=-1) - 1.0) / 2.0, -1.0, 1.0))
    return np.linalg.norm(frames[..., :3, 3] - targets[..., :3, 3], axis=-1), angle


@pytest.mark.parametrize("precision", ["single", "double"])
def test_a_batch_of_poses(on_host, precision):
    panda = ps.figures.panda()
    targets = ps.forward(panda, reachable(panda, 120, 1)).matrix("hand")
    result = ps.solve(panda, g.Pose("hand", targets), device="cuda", restarts=30, precision=precision)
    assert result.pose.shape == (120, 7)
    assert (result.pose >= panda.lower).all()
    assert (result.pose <= panda.upper).all()
    far, turned = misses(panda, result.pose, "hand", targets)
    assert np.array_equal(result.ok, (far <= 1e-4) & (turned <= 1e-3))
    assert result.ok.mean() >= 0.98
    assert np.allclose(result.errors["hand"], far, atol=1e-12)
    again = ps.solve(panda, g.Pose("hand", targets), device="cuda", restarts=30, precision=precision)
    assert np.array_equal(result.pose, again.pose)


def test_a_large_figure_with_goals_on_some_limbs(on_host):
    human = ps.figures.human()
    bodies = ("hand.L", "hand.R", "foot.L", "pelvis")
    poses = reachable(human, 12, 2, 0.3)
    places = {b: ps.forward(human, poses).position(b) for b in bodies}
    start = np.clip(human.rest + 0.01, human.lower, human.upper)
    result = ps.solve(human, [g.Position(b, places[b]) for b in bodies], device="cuda", start=start, restarts=3)
    at = ps.forward(human, result.pose)
    far = np.max([np.linalg.norm(at.position(b) - places[b], axis=1) for b in bodies], axis=0)
    assert np.array_equal(result.ok, far <= 1e-4)
    assert result.ok.mean() > 0.8
    assert (result.pose >= human.lower).all()
    assert (result.pose <= human.upper).all()
    idle = [i for i, name in enumerate(human.dof_names) if ".R" in name and ("toe" in name or "foot" in name)]
    assert idle
    assert np.array_equal(result.pose[:, idle], np.broadcast_to(start[idle], (12, len(idle))))


def test_out_of_reach_is_what_the_cpu_says(on_host):
    panda = ps.figures.panda()
    targets = np.tile(np.eye(4), (3, 1, 1))
    targets[:, :3, 3] = [(0.4, 0.1, 0.5), (3.0, 0.0, 0.5), (0.3, -0.2, 0.6)]
    there = ps.solve(panda, g.Pose("hand", targets), device="cuda", restarts=30)
    here = ps.solve(panda, g.Pose("hand", targets), restarts=30)
    assert there.status.tolist() == here.status.tolist()
    assert there.status[1] == "OUT_OF_REACH"
    assert there.errors["hand"][1] == pytest.approx(here.errors["hand"][1], abs=1e-3)


def test_several_goals_limits_off_and_a_posture(on_host):
    panda = ps.figures.panda()
    poses = reachable(panda, 20, 4, 0.5)
    places = ps.forward(panda, poses).position("hand")
    goals = [g.Position("hand", places), g.Posture(panda.rest, weight=1e-4)]
    there = ps.solve(panda, goals, device="cuda", limits=False, precision="double")
    here = ps.solve(panda, goals, limits=False)
    steepest = np.abs(ps.Problem(panda, goals).gradient(there.pose)).max()
    assert steepest < 1e-9  # each is a stationary pose, most of them the CPU's own
    assert (np.abs(there.pose - here.pose).max(axis=1) < 1e-5).mean() >= 0.9


def test_targets_and_starts_on_the_gpu_are_read_in_place(on_host):
    from posable_host_gpu import Buffer, Stream

    panda = ps.figures.panda()
    targets = ps.forward(panda, reachable(panda, 30, 6)).matrix("hand")
    stream = Stream(on_host)
    array = Buffer(stream, targets.shape, np.float64).take(np.ascontiguousarray(targets))
    start = Buffer(stream, (30, 7), np.float64).take(np.tile(panda.rest, (30, 1)))
    result = ps.solve(panda, g.Pose("hand", array), start=start, device="cuda", restarts=30)
    far, turned = misses(panda, result.pose, "hand", targets)
    assert np.array_equal(result.ok, (far <= 1e-4) & (turned <= 1e-3))
    assert set(result.status.tolist()) <= {"REACHED", "STUCK", "OUT_OF_ITERATIONS"}
    assert result.on_gpu.pose.__cuda_array_interface__["shape"] == (30, 7)
    same = ps.solve(panda, g.Pose("hand", targets), device="cuda", restarts=30)
    assert same.on_gpu is None
    assert np.array_equal(same.pose, result.pose)
    with pytest.raises(GoalError, match="device='cuda'"):
        ps.solve(panda, g.Pose("hand", array))


def test_a_batch_in_pieces_has_the_same_bits(on_host, monkeypatch):
    panda = ps.figures.panda()
    targets = ps.forward(panda, reachable(panda, 50, 7)).matrix("hand")
    whole = ps.solve(panda, g.Pose("hand", targets), device="cuda", restarts=10)
    monkeypatch.setattr("posable.gpu.batch.CHUNK", 16)
    monkeypatch.setattr("posable.gpu.batch.STREAMS", 1)  # the stand-in knows one block and thread at a time
    parts = ps.solve(panda, g.Pose("hand", targets), device="cuda", restarts=10)
    assert np.array_equal(whole.pose, parts.pose)
    assert np.array_equal(whole.iterations, parts.iterations)


def test_iterations_are_bounded(on_host):
    panda = ps.figures.panda()
    targets = ps.forward(panda, reachable(panda, 40, 8)).matrix("hand")
    result = ps.solve(panda, g.Pose("hand", targets), device="cuda", restarts=10, max_iterations=6)
    assert result.iterations.max() <= 6
    assert "OUT_OF_ITERATIONS" in result.status


def test_auto_takes_the_gpu_for_large_batches_alone(on_host, monkeypatch):
    panda = ps.figures.panda()
    targets = ps.forward(panda, reachable(panda, 30, 9)).matrix("hand")
    before = sum(len(m.launches) for m in on_host.modules.values())
    ps.solve(panda, g.Pose("hand", targets), device="auto")
    assert sum(len(m.launches) for m in on_host.modules.values()) == before
    monkeypatch.setattr("posable.gpu.batch.CROSSING", 10)
    ps.solve(panda, g.Pose("hand", targets), device="auto", restarts=1)
    assert sum(len(m.launches) for m in on_host.modules.values()) > before


def test_no_gpu_is_an_error_or_one_line(monkeypatch):
    import posable.gpu.batch as solving
    import posable.gpu.device as driver

    def none():
        raise driver.CudaError("the driver finds no NVIDIA GPU")

    for module in (driver, solving):
        monkeypatch.setattr(module, "gpu", none)
    monkeypatch.setattr(solving, "CROSSING", 2)
    panda = ps.figures.panda()
    goal = g.Position("hand", np.tile((0.4, 0.1, 0.5), (4, 1)))
    with pytest.raises(SolverError, match="finds no NVIDIA GPU"):
        ps.solve(panda, goal, device="cuda")
    with pytest.warns(PosableWarning, match="solved on the CPU: the driver finds no NVIDIA GPU"):
        result = ps.solve(panda, goal, device="auto")
    assert result.ok.all()


@pytest.mark.parametrize(
    ("options", "words"),
    [({"solver": "dls"}, "only 'newton'"), ({"record": True}, "trace"), ({"time_limit": 1.0}, "time limit")],
)
def test_what_a_gpu_does_not_support_is_reported(on_host, options, words):
    with pytest.raises(SolverError, match=words):
        ps.solve(ps.figures.panda(), g.Position("hand", (0.4, 0.1, 0.5)), device="cuda", **options)


def test_unknown_devices_and_precisions():
    with pytest.raises(SolverError, match="'cuda'"):
        ps.solve(ps.figures.panda(), g.Position("hand", (0.4, 0.1, 0.5)), device="gpu")
    with pytest.raises(SolverError, match="'double'"):
        ps.solve(ps.figures.panda(), g.Position("hand", (0.4, 0.1, 0.5)), precision="half")


def chain_of_balls():
    joints = [
        ps.Joint("a", ps.Ball("rotvec")),
        ps.Joint("b", ps.Ball("swing-twist"), "a", offset=(0.0, 0.3, 0.0)),
        ps.Joint("c", ps.Revolute("x"), "b", offset=(0.0, 0.3, 0.0)),
    ]
    return ps.Skeleton(joints, [ps.Site("tip", "c", (0.0, 0.3, 0.0))])


PLACES = np.array([(0.4, 0.1, 0.5), (0.45, 0.15, 0.55), (0.5, 0.2, 0.6)])
KINDS = {
    "aim": lambda panda: [g.Aim("hand", "z", PLACES)],
    "direction": lambda panda: [g.Direction("hand", "z", (1.0, 0.0, 0.0)), g.Position("hand", PLACES)],
    "plane": lambda panda: [g.Plane("hand", PLACES, (0.0, 0.0, 1.0))],
    "robust": lambda panda: [g.Position("hand", PLACES, robust=0.1)],
    "coupling": lambda panda: [g.Coupling(*panda.dof_names[:2], ratio=1.0), g.Position("hand", PLACES)],
    "avoid": lambda panda: [g.Avoid("hand", g.Sphere((0.5, 0.0, 0.5), 0.1)), g.Position("hand", PLACES)],
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_goal_ends_as_on_the_cpu(on_host, kind):
    panda = ps.figures.panda()
    goals = KINDS[kind](panda)
    there, here = ps.solve(panda, goals, device="cuda"), ps.solve(panda, goals)
    assert np.array_equal(there.ok, here.ok)
    for name, errors in ps.Problem(panda, goals).errors(there.pose).items():
        assert np.allclose(there.errors[name], errors, atol=1e-9)
        assert np.allclose(errors[~here.ok], here.errors[name][~here.ok], atol=1e-4)


def test_rotation_vectors_and_the_centre_of_mass(on_host):
    balls = chain_of_balls()
    result = ps.solve(balls, g.Position("tip", PLACES - (0.2, -0.1, 0.3)), device="cuda")
    far = np.linalg.norm(ps.forward(balls, result.pose).position("tip") - PLACES + (0.2, -0.1, 0.3), axis=1)
    assert (far <= 1e-4).all()
    human = ps.figures.human()
    hand = np.tile((0.3, 1.2, 0.3), (2, 1))
    result = ps.solve(human, [g.CenterOfMass((0.0, 0.95, 0.02)), g.Position("hand.L", hand)], device="cuda")
    frames = ps.forward(human, result.pose)
    assert np.linalg.norm(frames.center_of_mass() - (0.0, 0.95, 0.02), axis=1).max() <= 1e-4
    assert np.linalg.norm(frames.position("hand.L") - hand, axis=1).max() <= 1e-4
