"""The specialiser: what is known is done, what is left is C++ that computes the same."""

import ctypes
import subprocess

import numpy as np
import pytest

import posable as ps
from posable.engine import bounds, newton
from posable.gpu.batch import moving_of
from posable.gpu.codegen import KernelPlan, lane_constants, source_of
from posable.gpu.partial_eval import Specialiser
from posable.gpu.symbolic import Code, Unsupported, table


def walk(tree, x, out):
    """Sum, over a chain of parents, what each gives; stop early where x says so."""
    total = 0.0
    j = 3
    while j >= 0:
        if x > 10.0 and j == 1:
            break
        total += tree[j, 1] * x
        j = int(tree[j, 0])
    for k in range(4):
        if x < 0.0 and k == 2:
            continue
        out[k] = total * k if k != 1 else min(total, 5.0)
    return total


def newton_root(x):
    guess = x
    steps = 0
    while abs(guess * guess - x) > 1e-12 * x:
        guess = 0.5 * (guess + x / guess)
        steps += 1
        if steps > 50:
            return -1.0
    return guess


def early(x, y):
    if x > y:
        return x, 1
    if x == y or root_is(y):
        return y, 2
    return 0.0, 3


def root_is(y):
    return y * y == y


def ask(thing):
    return thing.colour


TREE = np.array([[-1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [2.0, 4.0]])


@pytest.fixture
def compiled(tmp_path, host_gpu):
    """Compile what a specialiser wrote, as a function of doubles x, y that fills out."""

    def build(to, lines):
        source = "#include <cmath>\n#include <algorithm>\nusing namespace std;\n#define number double\n"
        source += "\n".join(to.tables.values()).replace("__constant__", "static const")
        source += 'extern "C" void run(double x, double y, double* result) {\n' + to.declarations() + to.source()
        source += "\n" + lines + "}\n"
        path = tmp_path / f"f{len(list(tmp_path.iterdir()))}.cpp"
        path.write_text(source)
        library = path.with_suffix(".so")
        subprocess.run(["c++", "-O0", "-shared", "-fPIC", "-w", str(path), "-o", str(library)], check=True)
        run = ctypes.CDLL(str(library)).run
        run.argtypes = (ctypes.c_double, ctypes.c_double, ctypes.c_void_p)

        def call(x, y=0.0, size=8):
            result = np.zeros(size)
            run(x, y, result.ctypes.data)
            return result

        return call

    return build


@pytest.mark.parametrize("unroll", [True, False])
def test_loops_branches_and_tables(compiled, unroll):
    to = Specialiser(unroll=unroll)
    out = to.array("out", 4)
    total = to.call(walk, table("tree", TREE), Code("x", "f"), out)
    run = compiled(to, f"for (int k = 0; k < 4; k++) result[k] = out[k];\nresult[4] = {to.text(total)};")
    for x in (3.0, 12.0, -2.0):
        expected = np.zeros(4)
        value = walk(TREE, x, expected)
        got = run(x)
        assert got[4] == value
        kept = [k for k in range(4) if not (x < 0.0 and k == 2)]  # what is not written is anything
        assert np.array_equal(got[kept], expected[kept])


def test_a_known_chain_leaves_no_loop():
    to = Specialiser(unroll=True)
    to.call(walk, table("tree", TREE), Code("x", "f"), to.array("out", 4))
    text = to.source()
    assert "while" not in text
    assert "tree" not in text
    assert not to.tables


def test_a_loop_whose_end_is_not_known(compiled):
    to = Specialiser(unroll=True)
    value = to.call(newton_root, Code("x", "f"))
    run = compiled(to, f"result[0] = {to.text(value)};")
    for x in (2.0, 9.0, 1e6):
        assert run(x)[0] == newton_root(x)


def test_early_returns_and_calls_that_are_made_only_where_needed(compiled):
    to = Specialiser(unroll=True)
    value, way = to.call(early, Code("x", "f"), Code("y", "f"))
    run = compiled(to, f"result[0] = {to.text(value)}; result[1] = {to.text(way)};")
    for x, y in ((2.0, 1.0), (1.0, 1.0), (0.5, 1.0), (0.5, 2.0)):
        assert tuple(run(x, y)[:2]) == early(x, y)


def test_zeros_and_ones_leave_nothing_behind():
    to = Specialiser(unroll=True)
    x = Code("x", "f")
    assert to.binary("*", 0.0, x) == 0.0
    assert to.binary("*", x, 1.0) is x
    assert to.binary("+", x, 0.0) is x
    assert to.binary("-", x, 0.0) is x
    assert to.code == []


def test_what_it_does_not_know_is_refused():
    with pytest.raises((Unsupported, AttributeError)):
        Specialiser(unroll=True).call(ask, Code("x", "f"))


@pytest.mark.parametrize("more", [[], [ps.goals.Relative("hand.L", "hand.R", (0.1, 0.2, 0.0))]])
def test_many_springs_on_a_large_figure_are_written(more):
    """Loops over them are not laid out: what no spring needs, such as contacts, must not be written either."""
    human = ps.figures.human()
    goals = [ps.goals.Position(site.name, np.zeros((3, 3))) for site in human.sites[:20]]
    problem = ps.Problem(human, [*goals, *more])
    plan = KernelPlan(moving_of(problem), single=True, finish=False, alone=True)
    one = problem.first_alone() if problem.streams_targets else problem
    assert "solid" not in source_of(one, plan, human.lower, human.upper)


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("finish", [True, False])
def test_the_constants_of_a_gpu_replace_those_of_the_cpu(single, finish):
    names = lane_constants(KernelPlan((), single, finish))
    assert len(names) >= 3
    for name in names:
        assert isinstance(getattr(newton, name, getattr(bounds, name, None)), (int, float)), name
