"""The gate: problems reached, iterations and evaluations of every solver, against stored counts. Nothing is timed.

After a change that is meant: python -m benchmarks gate --store
"""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import posable as ps
from posable.cli.bench import BODIES, problem_set

PATH = Path(__file__).resolve().parents[1] / "benchmarks" / "gate.py"
SPEC = importlib.util.spec_from_file_location("posable_gate", PATH)
gate = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(gate)
STORED = gate.stored()


@pytest.fixture(scope="module")
def problems():
    return {figure: problem_set(figure, gate.COUNT) for figure in BODIES}


def test_every_solver_is_counted_on_several_figures():
    counted = {(figure, solver) for figure, lines in STORED.items() for solver in lines}
    assert counted == set(gate.pairs())
    for solver in set(ps.solvers.names()) - {"limb", "fabrik"}:
        assert sum(name == solver for _, name in counted) >= 4


@pytest.mark.parametrize(("figure", "solver"), gate.pairs())
def test_no_solver_got_worse(figure, solver, problems):
    assert not gate.worse(gate.count(problems[figure], solver), STORED[figure][solver])


WORSENED = [
    ("newton", "human", {"damping": 100.0}),
    ("levenberg-marquardt", "panda", {"damping": 30.0}),
    ("trust-region", "human", {"radius": 0.02}),
    ("bfgs", "limb", {"alpha": 0.49}),
    ("lbfgs", "tree", {"memory_size": 2}),
    ("projected-gradient", "planar_arm", {"first_step": "one"}),
    ("projected-cg", "spider", {"curvature": False}),
    ("transpose", "limb", {"step": 0.02}),
    ("pseudoinverse", "human", {"max_step": 0.05}),
    ("dls", "human", {"damping": 0.2}),
    ("sdls", "spider", {"max_angle": 0.05}),
    ("svd", "human", {"threshold": 0.3}),
    ("qr", "human", {"max_step": 0.05}),
    ("rate", "tree", {"damping": 0.2}),
    ("ccd", "limb", {"max_turn": 0.02}),
    ("sqp", "panda", {"tolerance": 1e-3}),
]


@pytest.mark.parametrize(("solver", "figure", "options"), WORSENED, ids=[line[0] for line in WORSENED])
def test_the_gate_sees_a_solver_made_worse(solver, figure, options, problems):
    method = ps.solvers.get(solver)(**options)
    assert gate.worse(gate.count(problems[figure], solver, method), STORED[figure][solver])


def test_the_gate_sees_one_more_miss_than_rounding_explains():
    line = {
        "expected": {"reached": 32, "iterations": 10.0, "evaluations": 20.0},
        "spread": {"reached": 0, "iterations": 0.0, "evaluations": 0.0},
    }
    assert not gate.worse({"reached": 32, "iterations": 10.4, "evaluations": 20.9}, line)
    assert gate.worse({"reached": 31, "iterations": 10.0, "evaluations": 20.0}, line)
    assert gate.worse({"reached": 32, "iterations": 10.6, "evaluations": 20.0}, line)
    assert gate.worse({"reached": 32, "iterations": 10.0, "evaluations": 21.1}, line)


def test_bounds_stay_tight():
    """A bound that rounding has widened to twice what is expected would let a regression through."""
    ratios = [
        gate.SLACK + gate.SPREADS * line["spread"][key] / max(line["expected"][key], 1.0)
        for lines in STORED.values()
        for line in lines.values()
        for key in ("iterations", "evaluations")
    ]
    assert np.median(ratios) < 1.1
    assert np.quantile(ratios, 0.9) < 1.5
