"""Kernels are plain Python that Numba compiles: small problems through all of them, both ways, with the same answers.

`make coverage` runs this file with POSABLE_JIT=python, where a tracer sees the lines of every kernel.
"""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import posable as ps
from posable.model import shapes

g = ps.goals
SOLVERS = [name for name in ps.solvers.names() if name != "limb"]


def solver_answers():
    """Return the answer of every solver to one problem of a limb; fabrik takes places alone."""
    limb = ps.figures.limb()
    frames = ps.forward(limb, np.clip(limb.rest + 0.2, limb.lower, limb.upper))
    out = {}
    for solver in SOLVERS:
        goals = [g.Position("hand", frames.position("hand"))]
        if solver != "fabrik":
            goals.append(g.Direction("hand", axis="x", along=frames.rotation("hand").apply((1.0, 0.0, 0.0))))
        result = ps.solve(limb, goals, solver=solver, max_iterations=5)
        out[solver] = (result.pose, result.ok)
    return out


def human_goals():
    human = ps.figures.human()
    frames = ps.forward(human, human.rest)
    hand, foot = frames.position("hand.R"), frames.position("foot.L")
    return human, {
        "orientation": [g.Orientation("hand.R", frames.rotation("hand.R")), g.Position("hand.R", hand + 0.05)],
        "aim": [g.Aim("head", axis="z", at=(0.2, 1.4, 2.0)), g.Line("hand.R", hand, (0, 1, 0))],
        "plane": [g.Plane("hand.R", hand - 0.05, (0, 1, 0)), g.HalfSpace("hand.L", (0, 1.2, 0), (0, 1, 0))],
        "pair": [g.Distance("hand.L", "hand.R", 0.4), g.Position("foot.L", foot)],
        "relative": [g.Relative("hand.L", "hand.R", (0.1, 0.2, 0.0)), g.Pose("head", frames.matrix("head"))],
        "mass": [g.CenterOfMass((0.0, 0.9, 0.02)), g.Position("foot.L", foot), g.Balance()],
        "avoid": [g.Position("hand.R", hand + 0.1), g.Avoid("hand.R", g.Sphere(hand + 0.05, 0.05))],
        "walls": [g.Avoid("elbow.R", g.Wall((0, 0, 0.3), (0, 0, -1))), g.Avoid("hand.R", "pelvis", radius=0.05)],
        "posture": [g.Position("hand.R", hand + 0.1), g.Posture(weight=1e-3), g.Coupling("elbow.R", "elbow.L")],
        "choice": [g.AnyOf([g.Position("hand.R", hand + 2.0), g.Position("hand.R", hand + 0.05)])],
        "robust": [g.Position("hand.R", hand + 3.0, robust=0.1), g.Position("hand.L", hand * (-1, 1, 1))],
        "priority": [g.Position("hand.R", hand + 0.1), g.Position("hand.L", hand + 3.0, priority=1)],
        "weighted": [g.Weighted([g.Position("hand.R", hand), g.Position("hand.L", hand)], np.eye(6) + 0.1)],
        "natural": [g.Position("hand.R", hand + 0.1), g.Natural(weight=0.1)],
    }  # fmt: skip


def goal_answers():
    """Return errors and energies of every goal after a few iterations on a person."""
    human, sets = human_goals()
    out = {}
    for name, goals in sets.items():
        result = ps.solve(human, goals, max_iterations=4, natural=name == "posture")
        out[name] = (result.pose, bool(np.all(result.ok)))
    return out


def other_answers():
    """Return what limbs, controllers, collisions, derivatives and short motions answer."""
    out = {}
    panda, limb = ps.figures.panda(), ps.figures.limb()
    arm = ps.Limb(limb, "shoulder", "elbow", "wrist", site="hand")
    pose = np.clip(limb.rest + 0.3, limb.lower, limb.upper)
    target = ps.forward(limb, pose).matrix("hand")
    out["limb"] = (arm.solve(target).pose, True)
    out["swivel"] = (np.ravel(arm.swivel_ranges(target)), True)
    out["limb solver"] = (ps.solve(limb, [g.Pose("hand", target)], solver="limb").pose, True)
    controller = ps.Controller(panda, [g.Position("hand", (0.4, 0.1, 0.5))], dt=0.01)
    for _ in range(3):
        step = controller.step()
    out["control"] = (step.pose, True)
    for method in ("cross", "adjoint", "adjusted", "finite"):
        for rows in ("position", "rotation", "pose", "axes"):
            out[f"{method} {rows}"] = (
                ps.jacobian(panda, panda.rest + 0.1, "hand", rows=rows, method=method).ravel(),
                True,
            )
    problem = ps.Problem(panda, [g.Pose("hand", ps.forward(panda, panda.rest).matrix("hand"))])
    for kind in ("exact", "gauss-newton"):
        out[f"hessian {kind}"] = (problem.hessian(panda.rest + 0.1, kind=kind).ravel(), True)
    path = np.linspace((0.4, 0.0, 0.5), (0.45, 0.1, 0.5), 4)
    out["follow"] = (ps.follow(panda, [g.Position("hand", path)], fps=30).poses.ravel(), True)
    return out


def place(rng, scale=0.1):
    return {"offset": scale * rng.normal(size=3), "rotation": Rotation.random(random_state=rng)}


def two_solids(a, b):
    joints = [ps.Joint("root", ps.Fixed()), ps.Joint("a", ps.Ball("zyx"), "root"), ps.Joint("b", ps.Free(), "root")]
    return ps.Skeleton(joints, shapes=[a, b], collision_pairs=[("a", "b")])


def collision_answers():
    """Return distances of solids, checked by geometry, and energies that keep them apart, checked by differences."""
    rng, out = np.random.default_rng(0), {}
    half = np.array([0.1, 0.15, 0.2])
    box, ball = shapes.box("a", half), shapes.sphere("b", 0.05)
    many = shapes.hull("b", 0.1 * rng.normal(size=(40, 3)))
    for number, offset in enumerate([(0.3, 0.0, 0.0), (0.25, 0.3, 0.0), (0.11, 0.2, 0.22), (0.05, 0.02, 0.01)]):
        figure = two_solids(box, ball)
        pose = figure.pose({"b": (*offset, 0.2, 0.1, 0.3)})
        beyond = np.abs(offset) - half
        expected = np.linalg.norm(np.maximum(beyond, 0.0)) + min(beyond.max(), 0.0) - 0.05
        found = ps.distances(figure, pose, within=1.0)[0][2]
        assert abs(found - expected) < 1e-6, (offset, found, expected)
        figure = two_solids(box.moved("a", (0.0, 0.0, 0.0), Rotation.from_rotvec((0.3, 0.2, 0.1))), many)
        out[f"hull {number}"] = ([ps.distances(figure, pose, within=1.0)[0][2]], True)
        problem = ps.Problem(figure, g.NoCollision(margin=0.3, weight=1.0))
        check = problem.check_derivatives(pose, step=1e-5)
        assert check.gradient < 1e-8, (offset, check)
        assert check.hessian < 1e-6, (offset, check)
        out[f"gradient {number}"] = (problem.gradient(pose), True)
    figure = two_solids(shapes.box("a", half), shapes.box("b", half))  # aligned: the origin is on the simplex
    deep = ps.distances(figure, figure.pose({"b": (0.15, 0.0, 0.0, 0.0, 0.0, 0.0)}), within=1.0)[0][2]
    assert abs(deep + 0.05) < 1e-6, deep
    wall, corners = g.Wall((0.0, 0.0, -0.1), (0.0, 0.0, 1.0)), np.array([(x, y, z) for x in (0, 1) for y in (0, 1)
                                                                         for z in (0, 1)]) - 0.5  # fmt: skip
    faces = np.array([(0, 1, 3), (0, 3, 2), (4, 7, 5), (4, 6, 7), (0, 5, 1), (0, 4, 5), (2, 3, 7), (2, 7, 6),
                      (0, 2, 6), (0, 6, 4), (1, 5, 7), (1, 7, 3)])  # fmt: skip
    block = g.Mesh(0.2 * corners + (0.4, 0.0, 0.0), faces, spacing=0.04)
    cloud = g.PointCloud([(0.4, 0.0, 0.0)], 0.1, spacing=0.04)
    figure, at = two_solids(shapes.sphere("a", 0.02), ball), (0.24, 0.01, 0.02)
    pose = figure.pose({"b": (*at, 0.0, 0.0, 0.0)})
    for name, obstacle, gap in (("block", block, 0.01), ("cloud", cloud, np.linalg.norm((0.16, 0.01, 0.02)) - 0.15)):
        problem = ps.Problem(figure, g.NoCollision(pairs=(), obstacles=(obstacle, wall), margin=0.05, weight=1.0))
        missing = 0.05 - problem.errors(pose)["no collision"]
        assert abs(missing - gap) < 0.012, (name, missing, gap)  # a third of the grid's spacing
        check = problem.check_derivatives(pose, step=1e-6)
        assert check.gradient < 1e-5, (name, check)
        result = ps.solve(figure, [g.Position("b", (0.4, 0.1, 0.0)), g.NoCollision(obstacles=obstacle)], start=pose,
                          max_iterations=3)  # fmt: skip
        out[name] = (result.pose, result.ok)
    return out


HALF = np.pi / 2
ARMS = {
    "parallel axes": [(0, HALF, 0.09, 0), (-0.42, 0, 0, 0), (-0.39, 0, 0, 0), (0, HALF, 0.11, 0), (0, -HALF, 0.09, 0),
                      (0, 0, 0.08, 0)],
    "wrist": [(0.26, -HALF, 0.67, 0), (0.68, 0, 0, 0), (-0.03, HALF, 0, 0), (0, -HALF, 0.67, 0), (0, HALF, 0, 0),
              (0, 0, 0.11, 0)],
    "skew": [(0.1, 1.1, 0.3, 0.2), (0.4, 0.7, 0.1, 0), (0.2, -1.3, -0.05, 0.4), (0, HALF, 0.3, 0), (0, -1.2, 0, 0.3),
             (0, 0, 0.1, 0)],
    "general": [(0.1, HALF, 0.3, 0), (0.4, 0.2, 0, 0), (0.1, HALF, 0.1, 0), (0.05, -HALF, 0.3, 0),
                (0.04, HALF, 0.05, 0), (0, 0, 0.1, 0)],
}  # fmt: skip


def arm_answers():
    """Return the solutions of six-axis arms; forward kinematics has to place the tool at the target."""
    rng, out = np.random.default_rng(1), {}
    for name, rows in ARMS.items():
        arm = ps.from_dh(rows, limits=np.tile([-np.pi, np.pi], (6, 1)))
        for number in range(3):
            pose = rng.uniform(arm.lower, arm.upper)
            target = ps.forward(arm, pose).matrix("tool")
            found = np.asarray(ps.solutions(arm, g.Pose("tool", target)))
            gaps = found - pose
            assert np.abs(gaps - 2 * np.pi * np.round(gaps / (2 * np.pi))).max(axis=1).min() < 1e-5, name
            assert np.abs(ps.forward(arm, found).matrix("tool") - target).max() < 1e-6, name
            out[f"{name} {number}"] = (found.ravel(), True)
        targets = ps.forward(arm, rng.uniform(-2.0, 2.0, (3, 6))).matrix("tool")
        targets[0, :3, 3] += 9.0  # out of reach
        result = ps.solve(arm, g.Pose("tool", targets), max_iterations=5)
        reached = ps.forward(arm, result.pose[result.ok]).matrix("tool")
        assert np.abs(reached - targets[result.ok]).max(initial=0.0) < 2e-4, name
        assert not result.ok[0], name
        out[f"{name} batch"] = (result.pose[1:][result.ok[1:]].ravel(), True)
    return out


def limb_answers():
    """Return poses of random limbs for whole and partial targets, aims, and targets out of reach."""
    rng, out = np.random.default_rng(2), {}
    for first, last in (("zyx", "xyx"), ("swing-twist", "rotvec")):
        joints = [
            ps.Joint("root", ps.Free("zyx"), **place(rng, 0.3)),
            ps.Joint("shoulder", ps.Ball(first, axis=(1, 2, 3)), "root", limits=[(-2.0, 2.0)] * 3, **place(rng, 0.3)),
            ps.Joint("elbow", ps.Revolute((1, 0, 1)), "shoulder", limits=(-2.5, 1.0), **place(rng, 0.3)),
            ps.Joint("wrist", ps.Ball(last), "elbow", limits=[(-2.0, 2.0)] * 3, **place(rng, 0.3)),
        ]
        figure = ps.Skeleton(joints, [ps.Site("hand", "wrist", **place(rng, 0.3))])
        limb = ps.Limb(figure, "shoulder", "elbow", "wrist", site="hand")
        pose = np.where(np.isfinite(figure.lower), rng.uniform(-0.9, 0.9, figure.size), 0.1)
        target = ps.forward(figure, pose).matrix("hand")
        axis, along = np.array([1.0, 0.0, 0.0]), target[:3, 0]
        solved = {
            "whole": limb.solve(target, base=pose), "swivel": limb.solve(target, swivel=0.4, base=pose),
            "point": limb.solve(target[:3, 3], base=pose),
            "partial": limb.solve_partial(target[:3, 3], axis, along, base=pose),
            "lowest wrist": limb.solve_partial(target[:3, 3], axis, along, wrist="lowest", base=pose),
            "aim": limb.aim(target[:3, 3] + target[:3, 0], axis, base=pose),
        }  # fmt: skip
        far = target.copy()
        far[:3, 3] += 5.0
        for name, solution in solved.items():
            assert solution.ok, (name, solution.message)
            at = ps.forward(figure, solution.pose).matrix("hand")
            assert ((solution.pose >= figure.lower - 1e-9) & (solution.pose <= figure.upper + 1e-9)).all(), name
            if name == "aim":
                ray = target[:3, 3] + target[:3, 0] - at[:3, 3]
                assert np.abs(np.cross(at[:3, 0], ray)).max() < 1e-8
            else:
                assert np.abs(at[:3, 3] - target[:3, 3]).max() < 1e-8, name
            if name in ("whole", "swivel"):
                assert np.abs(at - target).max() < 1e-8, name
            if "partial" in name:
                assert np.abs(at[:3, 0] - along).max() < 1e-8
            out[f"{first} {name}"] = (solution.pose, True)
        missed = {"far": limb.solve(far, base=pose)}
        if first == "swing-twist":  # seconds as plain Python
            missed["far partial"] = limb.solve_partial(far[:3, 3], axis, along, base=pose)
        for name, solution in missed.items():
            assert not solution.ok
            assert ((solution.pose >= figure.lower - 1e-9) & (solution.pose <= figure.upper + 1e-9)).all(), name
            out[f"{first} {name}"] = (solution.pose, False)
    return out


def marker_answers():
    """Return the motion of a limb that follows markers: those of a known motion, which it has to find again."""
    limb = ps.figures.limb()
    sites = [ps.Site(f"{joint} {k}", joint, offset) for joint in ("shoulder", "elbow", "wrist")
             for k, offset in enumerate(0.1 * np.eye(3))]  # fmt: skip
    actor = limb.replace(sites=(*limb.sites, *sites))
    middle = np.clip(actor.rest, actor.lower + 0.2, actor.upper - 0.2)
    poses = middle + np.linspace(0.0, 0.15, 6)[:, None]
    places = np.stack([ps.forward(actor, poses).position(site.name) for site in sites], axis=1)
    places[2:4, 4] = np.nan
    take = ps.track(actor, ps.Markers([site.name for site in sites], places, 100.0), threads=1)
    moved = np.stack([ps.forward(actor, take.motion.poses).position(site.name) for site in sites], axis=1)
    assert np.nanmax(np.abs(moved - places)) < 3e-3  # six frames: the start of the motion is smoothed
    smooth = ps.smooth(take.motion, 0.02)
    return {"track": (take.motion.poses.ravel(), True), "smooth": (smooth.poses.ravel(), True)}


PARTS = {
    "solvers": solver_answers, "goals": goal_answers, "others": other_answers, "collision": collision_answers,
    "arms": arm_answers, "limbs": limb_answers, "markers": marker_answers,
}  # fmt: skip


def answers(part):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = PARTS[part]()
    return {name: [np.asarray(values, dtype=float).tolist(), bool(ok)] for name, (values, ok) in found.items()}


@pytest.mark.parametrize("part", PARTS)
def test_as_python_and_compiled(part):
    """Numba may contract a product and a sum; what a few iterations make of that is far below a tolerance."""
    other = "linked" if os.environ.get("POSABLE_JIT") == "python" else "python"
    command = [sys.executable, str(Path(__file__)), part]
    env = {**os.environ, "POSABLE_JIT": other, "COVERAGE_PROCESS_CONFIG": ""}  # tracing it tells nothing and is slow
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    there, here = json.loads(done.stdout.splitlines()[-1]), answers(part)
    assert here.keys() == there.keys()
    for name in here:
        np.testing.assert_allclose(here[name][0], there[name][0], atol=1e-6, rtol=1e-6, err_msg=name)
        assert here[name][1] == there[name][1], name


if __name__ == "__main__":
    print(json.dumps(answers(sys.argv[1])))
