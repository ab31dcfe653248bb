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

import posable as ps

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


PARTS = {"solvers": solver_answers, "goals": goal_answers, "others": other_answers}


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
    done = subprocess.run(
        command, env={**os.environ, "POSABLE_JIT": other}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    there, here = json.loads(done.stdout.splitlines()[-1]), answers(part)
    assert here.keys() == there.keys()
    for name in here:
        np.testing.assert_allclose(here[name][0], there[name][0], atol=1e-6, rtol=1e-6, err_msg=name)
        assert here[name][1] == there[name][1], name


if __name__ == "__main__":
    print(json.dumps(answers(sys.argv[1])))
