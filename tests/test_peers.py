"""The comparison with the peers, as far as it needs none: the check, the figures it gives away, the work it draws."""

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import posable as ps

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def _from_root(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


def module(name: str):
    return importlib.import_module(f"benchmarks.peers.{name}")


def random_joints(chain, count: int = 20) -> np.ndarray:
    low, high = np.maximum(chain.lower, -3.0), np.minimum(chain.upper, 3.0)
    return np.random.default_rng(0).uniform(low, high, size=(count, len(chain.names)))


@pytest.fixture
def arm(tmp_path):
    return module("works").panda(tmp_path, 12)


def judged(work, joints, roots=None, kind="pose"):
    return module("chain").judge(work.figure.chain, work.frames, work.targets, kind, joints, roots)


def drawn_joints(work) -> np.ndarray:
    """The joints that the goals were drawn from: the same draw again."""
    chain = work.figure.chain
    return np.random.default_rng(1).uniform(chain.lower, chain.upper, size=(len(work.targets), len(chain.names)))


# ------------------------------------------------------------------------------------------- figures given away


@pytest.mark.parametrize("figure", ["human", "panda", "spider", "limb", "planar_arm"])
def test_urdf_moves_like_the_figure(figure, tmp_path):
    skeleton = ps.figures.planar_arm([0.3, 0.2]) if figure == "planar_arm" else ps.figures.get(figure)
    if any(getattr(joint.motion, "order", "") in ("rotvec", "swing-twist") for joint in skeleton.joints):
        pytest.skip("rotation vectors have no hinges")
    bodies = [*skeleton.site_names[:6], skeleton.names[-1]]
    given = module("works").make_figure(skeleton, bodies, tmp_path, figure, free_root=False)
    joints = random_joints(given.chain)
    poses = np.tile(skeleton.rest, (len(joints), 1))
    poses[:, given.columns] = joints
    frames, found = ps.forward(skeleton, poses), given.chain.frames(joints)
    for link, body in given.bodies.items():
        np.testing.assert_allclose(found[link], frames.matrix(body), atol=1e-12)
    np.testing.assert_array_equal(given.chain.lower, np.clip(skeleton.lower[given.columns], -1e4, 1e4))


def test_urdf_leaves_a_free_root_to_the_peer(tmp_path):
    skeleton = ps.figures.human()
    given = module("works").make_figure(skeleton, ["hand.L", "foot.R"], tmp_path, "human", free_root=True)
    assert len(given.chain.names) == skeleton.size - 6
    joints, rng = random_joints(given.chain), np.random.default_rng(3)
    poses = np.tile(skeleton.rest, (len(joints), 1))
    poses[:, given.columns] = joints
    poses[:, :6] = rng.uniform(-1, 1, size=(len(joints), 6))
    roots = np.tile(np.eye(4), (len(joints), 1, 1))
    roots[:, :3, 3] = poses[:, :3]
    roots[:, :3, :3] = Rotation.from_euler(skeleton.joints[0].motion.order.upper(), poses[:, 3:6]).as_matrix()
    frames, found = ps.forward(skeleton, poses), given.chain.frames(joints, roots)
    for link, body in given.bodies.items():
        np.testing.assert_allclose(found[link], frames.matrix(body), atol=1e-12)


def test_urdf_leaves_out_what_is_frozen(tmp_path):
    skeleton = ps.figures.panda().freeze(["panda_joint7"])
    given = module("works").make_figure(skeleton, ["panda_joint6"], tmp_path, "panda", free_root=False)
    assert given.chain.names == tuple(f"panda_joint{k}" for k in range(1, 7))
    with pytest.raises(KeyError):
        module("works").make_figure(skeleton, ["hand"], tmp_path, "panda", free_root=False)


# ---------------------------------------------------------------------------------------------------- the check


def test_check_passes_the_pose_that_was_drawn(arm):
    verdict = judged(arm, drawn_joints(arm))
    assert verdict.solved.all()
    assert verdict.far.max() < 1e-12
    assert verdict.turned.max() < 1e-7


@pytest.mark.parametrize(("far", "passes"), [(0.9e-3, True), (1.1e-3, False)])
def test_check_of_places(arm, far, passes):
    targets = arm.targets.copy()
    targets[:, 0, :3, 3] += far * np.array([0.0, 0.6, 0.8])
    verdict = judged(replace(arm, targets=targets), drawn_joints(arm))
    assert np.all(verdict.solved == passes)
    np.testing.assert_allclose(verdict.far, far, rtol=1e-9)


@pytest.mark.parametrize(("turned", "passes"), [(0.9e-2, True), (1.1e-2, False), (3.0, False)])
def test_check_of_turns(arm, turned, passes):
    targets = arm.targets.copy()
    targets[:, 0, :3, :3] = targets[:, 0, :3, :3] @ Rotation.from_rotvec([0.0, turned, 0.0]).as_matrix()
    work = replace(arm, targets=targets)
    verdict = judged(work, drawn_joints(arm))
    assert np.all(verdict.solved == passes)
    np.testing.assert_allclose(verdict.turned, turned, rtol=1e-6)
    assert judged(work, drawn_joints(arm), kind="position").solved.all()


def test_check_of_limits(arm):
    joints = drawn_joints(arm)
    joints[0, 3] = arm.figure.chain.upper[3] + 2e-6
    joints[1, 3] = arm.figure.chain.upper[3] + 0.5e-6
    targets = module("works").reached(arm.figure, joints, None)
    solved = judged(replace(arm, targets=targets), joints).solved
    assert not solved[0]
    assert solved[1:].all()


def test_check_lets_no_nonsense_pass(arm, tmp_path):
    joints = drawn_joints(arm)
    joints[0] = np.nan
    assert not judged(arm, joints).solved[0]
    roots = np.tile(np.diag([1.01, 1.0, 1.0, 1.0]), (len(joints), 1, 1))  # no rigid motion
    assert not judged(arm, joints, roots).solved.any()


# ----------------------------------------------------------------------------------------------------- the work


def test_work_is_the_same_each_time(arm, tmp_path):
    again = module("works").panda(tmp_path, 12)
    np.testing.assert_array_equal(again.targets, arm.targets)
    np.testing.assert_allclose(again.start, (ps.figures.panda().lower + ps.figures.panda().upper) / 2)


def test_goals_of_the_human_wander_by_5_cm_to_a_metre(tmp_path):
    work = module("works").human(tmp_path, 25)
    assert work.figure.chain.names == tuple(name.replace(".", "_") for name in ps.figures.human().dof_names)
    steps = np.linalg.norm(np.diff(work.targets[:, :, :3, 3], axis=0), axis=-1).max(axis=1)
    assert np.all((steps >= 0.05) & (steps <= 1.0))


def test_talos_is_drawn_inside_its_limits_and_starts_at_neutral(data_dir, tmp_path):
    works = module("works")
    near, far = works.talos(tmp_path, 8, data_dir, 0.5), works.talos(tmp_path, 8, data_dir, 1.0)
    assert len(near.figure.chain.names) == 30
    assert near.targets.shape == (8, 6, 4, 4)
    assert np.all((near.start >= near.figure.chain.lower) & (near.start <= near.figure.chain.upper))
    assert not np.allclose(near.targets, far.targets)


def test_worker_serves_a_pass_and_tells_answers_that_the_check_passes(arm, tmp_path):
    """Posable through the same worker as the peers: ready, a pass, answers, a share solved."""
    run, worker = module("run"), None
    entrant = run.Entrant("Posable", "posable:Session", Path(sys.executable))
    try:
        worker = run.Worker(entrant, arm.save(tmp_path), tmp_path / "log")
        assert worker.hear(600).get("ready"), (tmp_path / "log").read_text()
        assert worker.run_pass(tmp_path / "out.npz", 60.0) == {"done": 12}
        with np.load(tmp_path / "out.npz") as kept:
            entrant.passes.append(dict(kept))
    finally:
        if worker is not None:
            worker.end()
    assert run.solved_share(arm, entrant) == 1.0
    assert entrant.seconds().shape == (12,)
    assert worker.process.returncode == 0


def test_worker_tells_its_error(arm, tmp_path):
    run = module("run")
    worker = run.Worker(run.Entrant("none", "nobody", Path(sys.executable)), arm.save(tmp_path), tmp_path / "log")
    assert "nobody" in worker.hear(120)["error"]
    worker.end()


def test_every_peer_has_an_environment_and_an_adapter():
    environments = module("environments")
    names = {one.name for one in environments.ENVIRONMENTS}
    for peer in environments.PEERS:
        assert peer.environment in names
        assert (ROOT / "benchmarks" / "peers" / "adapters" / f"{peer.adapter}.py").exists()


def test_a_failed_environment_is_reported_and_not_tried_again(monkeypatch, tmp_path):
    environments = module("environments")
    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    one = environments.Environment("nothing", ("a-package==1",))
    told = {"wanted": ["a-package==1", ""], "failed": "no such package", "seconds": 1.0}
    (tmp_path / "nothing.json").write_text(json.dumps(told))
    assert environments.install(one) == "no such package"
    assert environments.interpreter("9.9") is None
    assert "needs Python 9.9" in environments.install(environments.Environment("later", ("b",), "9.9"))
