"""A gate against regressions that counts and never times: problems reached, iterations, evaluations, for every solver.

    python -m benchmarks gate             compare with gate.json; exit code 1 where anything got worse
    python -m benchmarks gate --store     rewrite gate.json, after a change that is meant (--solver NAME: of that alone)

Counts may differ a little between processors, as the last bit of a sum does. How much is measured when they are stored:
each set is solved again from starts moved by 1e-10, which shows what rounding can do, and that spread widens the bound.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import posable as ps
from posable.cli.bench import BODIES, ProblemSet, problem_set

STORED = Path(__file__).with_name("gate.json")
SLACK = 1.05  # counts may grow by this much
SPREADS = 2.0  # and by so many times what rounding did when they were stored
TREMBLES, TREMBLE = 5, 1e-10  # copies solved to see it, and how far their starts are moved [rad, m]
COUNT, DRIVEN_COUNT = 32, 4
DRIVEN = ("rate", "sqp")  # their loops are SciPy's: slower, and fewer problems say enough
TOO_SLOW = {("human", "sqp"), ("tree", "sqp"), ("human", "ccd"), ("human", "fabrik"), ("spider", "fabrik")}

Counts = dict[str, float]


def pairs() -> list[tuple[str, str]]:
    """Return every (figure, solver) that is counted."""
    return [
        (figure, solver)
        for figure in BODIES
        for solver in ps.solvers.names()
        if not (solver == "limb" and figure != "limb")
        and not (solver == "fabrik" and figure in ("limb", "panda"))  # it takes places, not poses
        and (figure, solver) not in TOO_SLOW
    ]


def count(problems: ProblemSet, solver: str, method: Any = None, tremble: int = 0) -> Counts:
    """Return problems reached (by forward kinematics), mean iterations and mean evaluations of one solver."""
    most = DRIVEN_COUNT if solver in DRIVEN else COUNT
    start = problems.skeleton.rest
    if tremble:
        start = start + TREMBLE * np.random.default_rng(tremble).normal(size=start.shape)
    method = solver if method is None else method
    result = ps.solve(problems.skeleton, problems.goals(slice(0, most)), solver=method, start=start, natural=False)
    return {
        "reached": int(problems.reached(result.pose).sum()),
        "iterations": round(float(np.mean(result.iterations)), 3),
        "evaluations": round(float(np.mean(result.evaluations)), 3),
    }


def store(path: Path = STORED, solvers: list[str] | None = None) -> None:
    """Count everything, or some solvers, several times over; write what is expected and how much rounding moves it."""
    out: dict[str, Any] = stored(path) if solvers else {}
    for figure, solver in pairs():
        if solvers and solver not in solvers:
            continue
        problems = problem_set(figure, COUNT)
        expected = count(problems, solver)
        trembled = [count(problems, solver, tremble=k) for k in range(1, TREMBLES + 1)]
        spread = {key: round(max(abs(other[key] - expected[key]) for other in trembled), 3) for key in expected}
        out.setdefault(figure, {})[solver] = {"expected": expected, "spread": spread}
        print(f"{figure} {solver}: {expected}, spread {spread}", flush=True)
    path.write_text(json.dumps(out, indent=1) + "\n", encoding="utf8")


def stored(path: Path = STORED) -> dict[str, Any]:
    """Return the stored expectations: {figure: {solver: {"expected": ..., "spread": ...}}}."""
    return json.loads(path.read_text(encoding="utf8"))


def worse(counts: Mapping[str, float], line: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return what is worse than expected, in words; nothing where all is well."""
    expected, spread = line["expected"], line["spread"]
    found = []
    fewest = expected["reached"] - SPREADS * spread["reached"]
    if counts["reached"] < fewest:
        found.append(f"reached {counts['reached']:g}, expected at least {fewest:g}")
    for key in ("iterations", "evaluations"):
        most = expected[key] * SLACK + SPREADS * spread[key]
        if counts[key] > most:
            found.append(f"{key} {counts[key]:g}, expected at most {most:.3g}")
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks gate", description="Compare counts with stored ones.")
    parser.add_argument("--store", action="store_true", help="rewrite the stored expectations")
    parser.add_argument("--solver", nargs="*", choices=ps.solvers.names(), help="these alone")
    chosen = parser.parse_args(arguments)
    if chosen.store:
        store(solvers=chosen.solver)
        return 0
    expectations, bad = stored(), 0
    for figure, solver in pairs():
        if chosen.solver and solver not in chosen.solver:
            continue
        counts = count(problem_set(figure, COUNT), solver)
        found = worse(counts, expectations[figure][solver])
        bad += bool(found)
        print(f"{figure:11s} {solver:20s} {'; '.join(found) or 'as good as stored'}", flush=True)
    return 1 if bad else 0
