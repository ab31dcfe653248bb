"""Mutation tests of central kernels: python scripts/mutants.py [KERNEL ...]

Kernels run as plain Python. Each mutant differs from the kernel in one operator, one comparison, one constant or one
index. It runs in a fork of this process, so nothing is imported or compiled again. A mutant that passes all tests is
printed, and the exit code is 1. EQUIVALENT lists mutants that change nothing, each with its reason.
"""

from __future__ import annotations

import ast
import copy
import inspect
import os
import signal
import sys
import textwrap
import time
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType

os.environ["POSABLE_JIT"] = "python"
ROOT = Path(__file__).resolve().parents[1]
SECONDS = 60  # a mutant that takes longer is assumed to loop forever and killed

# each kernel with its tests
KERNELS = {
    "joints.exponential_coefficients": [
        "tests/engine/test_joints.py::test_exponential_coefficients",
        "tests/engine/test_joints.py::test_the_series_are_exact_to_the_last_digits",
    ],
    "joints.left_jacobian_column": ["tests/engine/test_joints.py::test_left_jacobian_and_its_rate"],
    "joints.left_jacobian_rate": ["tests/engine/test_joints.py::test_left_jacobian_and_its_rate"],
    "bounds.project": ["tests/engine/test_bounds.py"],
    "bounds.armijo": ["tests/engine/test_bounds.py"],
    "bounds.active_bounds": ["tests/engine/test_bounds.py"],
    "bounds.all_reached": ["tests/engine/test_bounds.py"],
    "ltl.factorise": ["tests/engine/test_ltl.py"],
    "ltl.substitute": ["tests/engine/test_ltl.py"],
    "ltl.multiply": ["tests/engine/test_ltl.py"],
}
AGREE = "the series and the closed forms agree there to rounding"
CHOICE = "which dofs are eliminated in pairs: the result is the same"
EMPTY = "one more turn, whose inner loop is empty"
EQUIVALENT: dict[str, str] = {
    "joints.exponential_coefficients 8:7 z < 0.25 -> z <= 0.25": AGREE,
    "joints.exponential_coefficients 8:11 0.25 -> 0.275": AGREE,
    "joints.exponential_coefficients 16:96 210.0 -> 231.00000000000003": "changes c by 1e-16: below rounding",
    "bounds.project 5:11 theta[i] < lower[i] -> theta[i] <= lower[i]": "puts the same number there",
    "bounds.project 7:13 theta[i] > upper[i] -> theta[i] >= upper[i]": "puts the same number there",
    "bounds.active_bounds 12:24 abs(gradient[i]) > largest -> abs(gradient[i]) >= largest": "the same number",
    "ltl.multiply 15:31 1 -> 2": "adds the sums of the dofs below the last dof, which are zero",
    "ltl.factorise 18:11 depth > ALONE -> depth >= ALONE": CHOICE,
    "ltl.factorise 18:11 depth > ALONE -> depth < ALONE": CHOICE,
    "ltl.factorise 18:29 visit >= 0 -> visit > 0": "a deep dof has more than one dof before it",
    "ltl.factorise 18:29 visit >= 0 -> visit <= 0": CHOICE,
    "ltl.factorise 18:38 0 -> 1": "a deep dof has more than one dof before it",
    "ltl.factorise 18:78 fixed[j] == 0.0 -> fixed[j] != 0.0": CHOICE + "; the row of a fixed dof is cleared",
    "ltl.factorise 18:90 0.0 -> 1.0": CHOICE + "; the row of a fixed dof is cleared",
    "ltl.factorise 26:43 1 -> 2": EMPTY,
    "ltl.factorise 33:43 1 -> 2": EMPTY,
}

SWAPS: dict[type, list[type]] = {
    ast.Add: [ast.Sub], ast.Sub: [ast.Add], ast.Mult: [ast.Div], ast.Div: [ast.Mult], ast.FloorDiv: [ast.Mult],
    ast.Lt: [ast.LtE, ast.Gt], ast.LtE: [ast.Lt, ast.GtE], ast.Gt: [ast.GtE, ast.Lt], ast.GtE: [ast.Gt, ast.LtE],
    ast.Eq: [ast.NotEq], ast.NotEq: [ast.Eq], ast.And: [ast.Or], ast.Or: [ast.And],
    ast.USub: [ast.UAdd],
}  # fmt: skip


def mutants(tree: ast.Module) -> list[tuple[str, ast.Module]]:
    """Return every mutant of a function's tree, with a line that says what was changed."""
    out = []
    count = sum(1 for _ in ast.walk(tree))
    for index in range(count):
        for change in range(4):
            twin = copy.deepcopy(tree)
            node = next(n for k, n in enumerate(ast.walk(twin)) if k == index)
            before = ast.unparse(node) if isinstance(node, ast.expr) else ""
            if _change(node, change):
                ast.fix_missing_locations(twin)
                place = f"{getattr(node, 'lineno', 0)}:{getattr(node, 'col_offset', 0)}"
                out.append((f"{place} {before or type(node).__name__} -> {ast.unparse(node)}", twin))
    return out


def _change(node: ast.AST, which: int) -> bool:
    """Change a node in place in the `which`-th way; return whether there is such a way."""
    if isinstance(node, (ast.BinOp, ast.AugAssign, ast.UnaryOp, ast.BoolOp)):
        ways = SWAPS.get(type(node.op), [])
        if which < len(ways):
            node.op = ways[which]()  # type: ignore[assignment]  # an operator
            return True
    if isinstance(node, ast.Compare):
        ways = SWAPS.get(type(node.ops[0]), [])
        if which < len(ways):
            node.ops = [ways[which](), *node.ops[1:]]
            return True
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and which < 1:
        if isinstance(node.value, bool):
            node.value = not node.value
        else:
            node.value = node.value + 1 if isinstance(node.value, int) else 1.1 * node.value + (node.value == 0.0)
        return True
    if isinstance(node, (ast.Break, ast.Continue)) and which < 1:
        return False
    return False


def code_of(tree: ast.Module, function: FunctionType) -> CodeType:
    """Return the compiled code of the function in a tree, without its decorators."""
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    scope: dict = {}
    exec(compile(tree, function.__code__.co_filename, "exec"), function.__globals__, scope)
    return scope[function.__name__].__code__


def survives(function: FunctionType, code: CodeType, tests: list[str]) -> bool:
    """Return whether all tests pass with the mutant, in a fork."""
    child = os.fork()
    if not child:
        os.setsid()
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        function.__code__ = code
        import pytest

        options = ["-x", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist"]
        os._exit(1 if pytest.main([*options, *tests]) else 0)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def main(names: list[str]) -> int:
    """Try every mutant of the kernels; return the exit code."""
    if not hasattr(os, "fork"):
        raise SystemExit("mutants live in forks: Linux or macOS")
    os.chdir(ROOT)
    for module in ("numpy", "scipy.spatial.transform", "scipy.optimize", "hypothesis", "pytest", "posable"):
        import_module(module)
    left, total = [], 0
    for name in names or KERNELS:
        module, _, kernel = name.partition(".")
        function = getattr(import_module(f"posable.engine.{module}"), kernel).py_func
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        tree.body[0].body = [s for s in tree.body[0].body if not _is_docstring(s)]  # type: ignore[attr-defined]  # a function
        tests = KERNELS[name]
        if not survives(function, function.__code__, tests):
            raise SystemExit(f"{name}: its tests fail without any change")
        found, begin, killed = mutants(tree), time.monotonic(), 0
        for what, twin in found:
            label = f"{name} {what}"
            if label in EQUIVALENT:
                continue
            total += 1
            if survives(function, code_of(twin, function), tests):
                left.append(label)
            else:
                killed += 1
        known = sum(label.startswith(f"{name} ") for label in EQUIVALENT)
        told = f"{name}: {killed} of {len(found) - known} mutants killed"
        print(f"{told}, {time.monotonic() - begin:.0f} s", flush=True)
    for label in left:
        print(f"survives: {label}")
    print(f"{total - len(left)} of {total} mutants killed; mutants known to change nothing are left out")
    return 1 if left else 0


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
