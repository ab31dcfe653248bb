"""A differentiable layer on the GPU: `polish` refines poses to minima, `adjoint` back-propagates gradients.

Both kernels are generated from those of the CPU (engine/sensitivity.py) in double precision, for one figure and its
goals. Targets, poses and gradients stay on the GPU.
"""

from __future__ import annotations

import ctypes
import hashlib
from typing import Any, NamedTuple

import numpy as np

from posable.engine import jit as compiler
from posable.engine.layout import TARGETS
from posable.engine.sensitivity import DEGENERATE, DIFFERENCE, along, refine, solve_adjoint
from posable.errors import SolverError
from posable.goals.base import Goal, checked_device_array, contiguous
from posable.gpu import batch
from posable.gpu.codegen import BLOCK, PROLOGUE, KernelPlan, ProblemTables, moving_elements
from posable.gpu.symbolic import Code
from posable.problem import Problem

MOST = 40  # Newton steps to refine a pose to its minimum


class DeviceForwardState(NamedTuple):
    """The state of a forward pass that stays on the GPU for the backward pass.

    Attributes:
        problem: The problem, its targets on the GPU.
        plan: What of it the kernels read at run time.
        poses: (t, n) [rad, m] Minima, on the GPU.
        shape: The batch's axes.
        module: The compiled kernels.
        data: The table of where each problem's own numbers are.
        owners: What keeps those numbers alive.
    """

    problem: Problem
    plan: KernelPlan
    poses: Any
    shape: tuple[int, ...]
    module: Any
    data: Any
    owners: Any


def polished(result: Any, goals: list[Goal]) -> DeviceForwardState:
    """Refine the poses of a result on the GPU to their minima, in place."""
    answers, options = result.on_gpu, result.options
    if answers is None:
        raise SolverError("a layer on the GPU", expected="targets that are on the GPU", got="none")
    on = batch.gpu()
    on.enter()
    problem = Problem(result.problem.skeleton, goals, on_gpu=True)
    plan = KernelPlan(moving_elements(problem), False, False)
    name = hashlib.sha256(f"layer {batch.identity(problem, plan, (options.lower, options.upper))}".encode())
    folder = compiler.cache_folder(compiler.plain(refine))
    module = on.module(name.hexdigest()[:32], lambda: source_of(problem, plan, options.lower, options.upper), folder)
    stream, total = answers.pose.stream, answers.pose.shape[0]
    given, order = batch.device_targets(problem, plan.moving, stream, total)
    data, count = batch.sources(given, order, stream), ctypes.c_int(total)
    module.launch("polish", -(-total // BLOCK), BLOCK, stream, data, answers.pose, count, ctypes.c_int(MOST))
    stream.wait()
    return DeviceForwardState(problem, plan, answers.pose, result.shape, module, data, given)


def adjoint(solved: DeviceForwardState, slopes: Any) -> Any:
    """Return how a loss changes with the numbers (t, m) that differ between problems, on the GPU.

    Args:
        solved: Of the forward pass.
        slopes: (t, n) float64, contiguous, on the GPU: how the loss changes with the poses.

    Returns:
        (t, m) NaN for a pose that has no derivative.
    """
    given = checked_device_array(slopes, solved.poses.shape[1:], "gradients")
    if given is None or given.dtype != np.float64 or given.strides != contiguous(solved.poses.shape):
        raise SolverError("gradients", expected="float64 (t, n) on the GPU, contiguous", got=type(slopes).__name__)
    total, stream = solved.poses.shape[0], solved.poses.stream
    out = batch.Buffer(stream, (total, len(solved.plan.moving)), np.float64)
    batch.gpu().settle()  # wait for the gradients
    solved.module.launch(
        "adjoint", -(-total // BLOCK), BLOCK, stream, solved.data, solved.poses, ctypes.c_void_p(given.pointer),
        ctypes.c_int(total), out,
    )  # fmt: skip
    stream.wait()
    return out


def columns(solved: DeviceForwardState, label: str) -> tuple[list[int], list[int]]:
    """Return, of a goal: elements of its target, and the columns of `adjoint`'s answer that belong to them."""
    elements, places = batch.target_columns(solved.problem, solved.problem.label_index[label])
    return elements, [solved.plan.moving.index(place) for place in places]


def source_of(problem: Problem, plan: KernelPlan, lower: np.ndarray, upper: np.ndarray) -> str:
    """Return the CUDA C++ of both kernels for a problem in a box."""
    polish = ProblemTables(problem, plan, lower, upper)
    to = polish.to
    fixed, scale = to.array("fixed", polish.n), to.array("scale", polish.n)
    steps, _ = polish.piece(
        lambda: to.call(
            refine, polish.figure, polish.order, polish.springs, polish.lower, polish.upper, polish.theta, polish.ws,
            fixed, scale, Code("most", "i"),
        )
    )  # fmt: skip
    back = ProblemTables(problem, plan, lower, upper)
    again = back.to
    held, sizes = again.array("fixed", back.n), again.array("scale", back.n)
    vector = again.array("vector", back.n)
    solved, code = back.piece(
        lambda: again.call(
            solve_adjoint, back.figure, back.order, back.springs, back.lower, back.upper, back.theta, back.ws, held,
            sizes, vector,
        )
    )  # fmt: skip
    found = again.text(code, "i")
    slope, value = back.piece(
        lambda: again.call(along, back.figure, back.order, back.springs, back.theta, back.ws, vector)
    )
    split = back.g * TARGETS
    first, second = ({**one.template(plan), "begin": BEGIN % one.template(plan)} for one in (polish, back))
    return "\n".join(
        (
            PROLOGUE % {"number": "double"},
            POLISH % {**first, "steps": steps},
            ADJOINT
            % {
                **second, "solved": solved, "code": found, "slope": slope,
                "value": again.text(value, "f"), "half": 0.5 / DIFFERENCE, "difference": DIFFERENCE,
                "m": len(plan.moving), "none": DEGENERATE,
                "slots": ", ".join(str(k if k < split else -1) for k in plan.moving) or "-1",
            },
        )
    )  # fmt: skip


# Begins a kernel in which each thread has one problem
BEGIN = """
%(declarations)s
const long long problem = (long long)blockIdx.x * blockDim.x + threadIdx.x;
if (problem >= count) return;
%(prepare)s
%(loads)s
"""

POLISH = """
namespace polishing {
%(tables)s
}
extern "C" __global__ void __launch_bounds__(%(block)d) polish(
    const Source* sources, double* poses, int count, int most) {
using namespace polishing;
%(begin)s
for (int i = 0; i < %(n)d; i++) theta[i] = poses[problem * %(whole)d + kept[i]];
{
%(steps)s
}
for (int i = 0; i < %(n)d; i++) poses[problem * %(whole)d + kept[i]] = theta[i];
}
"""

ADJOINT = """
namespace adjoining {
%(tables)s
__constant__ static int slots[] = {%(slots)s};
}
extern "C" __global__ void __launch_bounds__(%(block)d) adjoint(
    const Source* sources, const double* poses, const double* slopes, int count, double* out) {
using namespace adjoining;
%(begin)s
for (int i = 0; i < %(n)d; i++) {
    theta[i] = poses[problem * %(whole)d + kept[i]];
    vector[i] = slopes[problem * %(whole)d + kept[i]];
}
int found;
{
%(solved)s
found = %(code)s;
}
double before = 0.0;
for (int s = 0; s < 2 * %(m)d; s++) {
    const int slot = slots[s / 2];
    double value = 0.0;
    if (slot >= 0) {
        const double kept_target = targets[slot];
        targets[slot] = kept_target + (s %% 2 == 0 ? %(difference)r : -%(difference)r);
        {
        %(slope)s
        value = %(value)s;
        }
        targets[slot] = kept_target;
    }
    if (s %% 2 == 0) before = value;
    else out[problem * %(m)d + s / 2] = found >= %(none)d ? nan("") : -%(half)r * (before - value);
}
}
"""
