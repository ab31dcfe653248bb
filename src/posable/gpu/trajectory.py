"""Windows of a clip on the GPU: the optimisation of mocap/trajectory.py, one block of threads for each window.

The terms of every frame come from the CPU's kernels (translate.py). A step of all windows is a few launches without
synchronisation with the host: propose a damped step, evaluate it, judge it section by section, blend it where it makes
frames worse, accept or reject it. Windows that have converged are idle in further steps.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from posable.engine import jit as compiler
from posable.engine.assemble import clear_hessian, derivatives, energy_at
from posable.engine.layout import (
    CONSTANTS,
    FIGURE_SHAPES,
    INTEGERS,
    SPRING_SHAPES,
    TARGETS,
    WORKSPACE_SHAPES,
    Figure,
    Order,
    Springs,
    Workspace,
    workspace_shapes,
)
from posable.errors import SolverError
from posable.gpu import batch
from posable.gpu.device import CudaError
from posable.gpu.translate import Translator
from posable.problem import Problem

THREADS = 256  # of a window
LANES = 1 << 14  # frames that are evaluated at once
BLOCK = 64  # threads of a block that evaluates frames
MOST_DOFS = 82  # whose band fits into the shared memory of a block, 227 kB
WHOLE, PROPOSED, BLENDED = 0, 1, 2  # which frames are evaluated: all, those of a step, those that a step changes less


class StepRules(NamedTuple):
    """The constants of mocap/trajectory.py, which imports this module, and how long to go on."""

    damping: float
    least: float
    harder: float
    easier: float
    failures: int
    section: int
    blend: int
    worse: float
    usually: float
    steps: int
    gain: float
    passes: int


# --- The struct that the translated kernels read ---

UNUSED = {"factor", "step", "trial", "best", "spare", "anchor", "path"}  # of a solver, not of a frame's terms
SIZES = ("n", "b", "g", "d", "solids", "corners", "balls", "fields", "touches", "pairs", "sticky")
SHAPES = {f"figure_{name}": shape for name, shape in FIGURE_SHAPES.items()} | {"order_rows": ("n", 3)} | SPRING_SHAPES
KINDS = {name: "i" if name.removeprefix("figure_") in INTEGERS | {"order_rows"} else "f" for name in SHAPES}


@lru_cache(maxsize=1)
def source() -> str:
    """Return the CUDA C++ of all kernels; it serves every figure and every problem."""
    to = Translator("Clip")
    every: Any = {name: to.member(name, KINDS[name], *shape) for name, shape in SHAPES.items()}
    arrays: Any = (to.member(f"w_{name}", "f", *shape) for name, shape in WORKSPACE_SHAPES.items())
    one = Figure(*(every[f"figure_{name}"] for name in FIGURE_SHAPES))
    order = Order(every["order_rows"], every["order_rows"])
    goals, ws = Springs(*(every[name] for name in SPRING_SHAPES)), Workspace(*arrays)
    theta = to.member("theta", "f", "n")
    energy = to.call(energy_at, one, goals, theta, ws)
    to.call(clear_hessian, ws)
    to.call(derivatives, one, order, goals, theta, ws, 0.0)
    members = [f"int {name};" for name in SIZES]
    members += [f"const {'int' if kind == 'i' else 'double'}* {name};" for name, kind in KINDS.items()]
    members += ["const double* theta;", *(f"Lane w_{name};" for name in Workspace._fields)]
    places = []
    for name, shape in WORKSPACE_SHAPES.items():
        size = " * ".join(f"c.{one}" if isinstance(one, str) else str(one) for one in shape)
        places.append(f"c.w_{name} = Lane{{at, step}};")
        if name not in UNUSED:
            places.append(f"at += (long long)({size}) * step;")
    pointers = [f"{kind}* {name};" for name, kind in WINDOWS.items()]
    return SOURCE % {
        "members": "\n".join(members), "functions": "\n".join(to.functions), "places": "\n".join(places),
        "declarations": to.declarations(), "terms": to.source(), "energy": energy.text, "block": BLOCK,
        "constants": CONSTANTS, "targets": TARGETS, "threads": THREADS, "proposed": PROPOSED, "blended": BLENDED,
        "window_members": "\n".join([f"int {', '.join(NUMBERS)};", f"double {', '.join(FACTORS)};", *pointers]),
    }  # fmt: skip


def lane_size(n: int, b: int, g: int, d: int) -> int:
    """Return the numbers of the workspace of one frame."""
    shapes = workspace_shapes(n, b, g, d)
    return sum(math.prod(shape) for name, shape in shapes.items() if name not in UNUSED) + 1


# --- Solving ---


class _Memory:
    """Arrays on the GPU by name, and structs of their addresses."""

    def __init__(self, stream: Any):
        self.stream, self.buffers = stream, {}
        self.kept: list[Any] = []

    def send(self, name: str, values: np.ndarray, dtype: Any = np.float64) -> None:
        """Copy an array to the GPU."""
        values = np.ascontiguousarray(values, dtype=dtype)
        self.kept.append(values)  # until the copy is complete
        self.buffers[name] = batch.Buffer(self.stream, values.shape or (1,), dtype)
        if values.size:
            self.buffers[name].take(values)

    def empty(self, name: str, shape: tuple[int, ...], dtype: Any = np.float64) -> None:
        """Reserve memory, filled with zeros."""
        self.buffers[name] = batch.Buffer(self.stream, shape, dtype).fill(0)

    def struct(self, name: str, numbers: dict[str, int], doubles: dict[str, float], arrays: list[str]) -> None:
        """Send a struct of integers, then doubles, then pointers to arrays."""
        count = len(numbers) + len(numbers) % 2
        raw = np.zeros(4 * count + 8 * (len(doubles) + len(arrays)), dtype=np.uint8)
        raw[: 4 * len(numbers)] = np.array(list(numbers.values()), dtype=np.int32).view(np.uint8)
        middle = 4 * count + 8 * len(doubles)
        raw[4 * count : middle] = np.array(list(doubles.values()), dtype=np.float64).view(np.uint8)
        raw[middle:] = np.array([self.buffers[one].pointer for one in arrays], dtype=np.uint64).view(np.uint8)
        self.send(name, raw, np.uint8)


STATE = ("failed", "done", "side", "again", "broken")  # one integer of each window
NUMBERS = ("n", "windows", "total", "lanes", "own_constants", "own_targets", "failures", "section", "blend", "passes")
FACTORS = ("least", "harder", "easier", "worse", "usually", "gain")
WINDOWS = {
    "first": "const int", "count": "const int", "source": "const int", "window_of": "const int", "movable": "const int",
    **dict.fromkeys((*STATE, "free", "beyond", "bad"), "int"),
    **dict.fromkeys(("lower", "upper", "stiffness", "path"), "const double"),
    **dict.fromkeys(
        ("poses", "trial", "best", "gradient", "right", "moved", "inside", "slopes", "blocks", "energies", "energy",
         "change", "share", "usual", "lowest", "band", "damping", "work"), "double",
    ),
}  # fmt: skip


def solve_windows(
    problem: Problem, poses: np.ndarray, spans: list[tuple[int, int]], *, pull: np.ndarray, stiffness: np.ndarray,
    lower: np.ndarray, upper: np.ndarray, rules: StepRules, free: np.ndarray | None = None,
    path: np.ndarray | None = None,
) -> list[np.ndarray]:  # fmt: skip
    """Return the poses (t, n) of least energy of each window, as `TrajectoryProblem.solve` does.

    Args:
        problem: The goals; constants and targets of P frames, or of one.
        poses: (P, n) [rad, m] Where to start, and what the degrees of freedom are pulled to.
        spans: First frame and end of each window.
        pull: (n,) Stiffness of that pull.
        stiffness: (n,) Of the accelerations.
        lower: (P, n) [rad, m] Limits.
        upper: (P, n).
        rules: Of the steps.
        free: (P,) bool Frames that may change; all by default.
        path: (P, n) [rad, m] A motion whose accelerations cost nothing; none by default.

    Raises:
        SolverError: There is no GPU.
    """
    try:
        on = batch.gpu()
        on.enter()
        module = on.module(_identity(), source, compiler.cache_folder(compiler.plain(energy_at)))
        return _solve(on, module, problem, poses, spans, pull, stiffness, lower, upper, rules, free, path)
    except CudaError as error:
        raise SolverError("device 'cuda'", expected="a working NVIDIA GPU", got=str(error)) from None


@lru_cache(maxsize=1)
def _identity() -> str:
    """Return a key of the compiled module: it depends on the kernels of the engine and on this package."""
    digest = hashlib.sha256(batch._own_source())
    for path in sorted((Path(__file__).parents[1] / "engine").glob("*.py")):
        digest.update(path.read_bytes())
    return f"windows-{digest.hexdigest()[:24]}"


def _solve(on, module, problem, poses, spans, pull, stiffness, lower, upper, rules, free, path) -> list[np.ndarray]:
    n, b, g, d = problem.skeleton.size, problem.figure.body.shape[0], len(problem.springs), problem.depth
    if n > MOST_DOFS:
        raise SolverError("device 'cuda'", expected=f"a figure of at most {MOST_DOFS} degrees of freedom", got=n)
    rows = np.concatenate([np.arange(first, last) for first, last in spans])
    counts = np.array([last - first for first, last in spans])
    total, firsts = len(rows), np.concatenate([[0], np.cumsum(counts)[:-1]])
    stream = batch.Stream(on)
    memory = _Memory(stream)
    for name, table in problem.figure._asdict().items():
        memory.send(f"figure_{name}", table, np.int32 if name in INTEGERS else np.float64)
    memory.send("order_rows", problem.order.rows, np.int32)
    memory.send("kind", problem.kind, np.int32)
    for name, values in (
        ("constants", problem.constants), ("targets", problem.targets), ("pull", pull), ("home", poses),
        ("stiffness", stiffness), ("poses", np.clip(poses, lower, upper)[rows]), ("lower", lower[rows]),
        ("upper", upper[rows]), ("damping", np.full(total, rules.damping)),
        ("path", np.zeros((total, n)) if path is None else path[rows]),
    ):  # fmt: skip
        memory.send(name, values)
    for name, values in (
        ("first", firsts), ("count", counts), ("source", rows), ("window_of", np.repeat(np.arange(len(spans)), counts)),
        ("movable", np.ones(total) if free is None else free[rows]),
    ):  # fmt: skip
        memory.send(name, values, np.int32)
    frames, windows = ("trial", "best", "gradient", "right", "moved", "inside"), len(spans)
    for name in frames:
        memory.empty(name, (total, n))
    for name, shape in (
        ("slopes", (2, total, n)), ("blocks", (2, total, n, n)), ("energies", (2, total)), ("energy", (total,)),
        ("change", (total,)), ("share", (total,)), ("usual", (windows, n)), ("lowest", (windows,)),
        ("band", (total, n, 2 * n + 1)),
    ):  # fmt: skip
        memory.empty(name, shape)
    for name in STATE:
        memory.empty(name, (windows,), np.int32)
    for name, shape in (("free", (total, n)), ("beyond", (total, n)), ("bad", (total,))):
        memory.empty(name, shape, np.int32)
    lanes = min(-(-total // BLOCK) * BLOCK, LANES)
    memory.empty("work", (lanes, lane_size(n, b, g, d)))
    solids = (len(getattr(problem.figure, name)) for name in ("solid", "corner", "ball", "field", "touch", "pair"))
    memory.struct("clip", dict(zip(SIZES, (n, b, g, d, *solids, g + 1), strict=True)), {}, list(SHAPES))
    own = int(len(problem.constants) > 1), int(len(problem.targets) > 1)
    numbers = (n, windows, total, lanes, *own, rules.failures, rules.section, rules.blend, rules.passes)
    factors = {name: getattr(rules, name) for name in FACTORS}
    memory.struct("windows", dict(zip(NUMBERS, numbers, strict=True)), factors, list(WINDOWS))
    _run(module, stream, memory, windows, lanes, n, rules)
    answer = memory.buffers["best"].numpy()
    return [answer[first : first + count] for first, count in zip(firsts, counts, strict=True)]


def _run(module, stream, memory: _Memory, windows: int, lanes: int, n: int, rules: StepRules) -> None:
    """Launch the steps of all windows."""
    clip, every = memory.buffers["clip"], memory.buffers["windows"]

    def evaluate(mode: int) -> None:
        module.launch("terms", -(-lanes // BLOCK), BLOCK, stream, clip, every, ctypes.c_int(mode))

    def cooperate(name: str, *arguments: Any, shared: int = 0) -> None:
        module.launch(name, windows, THREADS, stream, every, *arguments, shared=shared)

    evaluate(WHOLE)
    cooperate("begin")
    width = 2 * n + 1
    tile = 8 * (width * width + 2 * width)
    for _ in range(rules.steps):
        for k in range(rules.passes):
            cooperate("propose", ctypes.c_int(k), shared=tile)
            evaluate(PROPOSED)
            cooperate("judge_step", ctypes.c_int(k))
        cooperate("blend")
        evaluate(BLENDED)
        cooperate("accept")


# --- The kernels ---

SOURCE = """
#define infinity (1.0 / 0.0)
#define number double
#ifndef SHARED_TILE
#define SHARED_TILE extern __shared__ double tile[];
#endif
struct Lane {  // one frame's part of an array whose elements alternate between the frames
    double* at;
    long long step;
    __device__ __forceinline__ double& operator[](long long i) const { return at[i * step]; }
};
struct Clip {
%(members)s
};
struct Windows {
%(window_members)s
};
%(functions)s

// Energy, slope and Gauss-Newton block of frames at `poses` (mode 0) or `trial`
extern "C" __global__ void __launch_bounds__(%(block)d) terms(const Clip* clip, const Windows* windows, int mode) {
const Windows& w = *windows;
const int lane = blockIdx.x * blockDim.x + threadIdx.x;
Clip c = *clip;
const long long step = w.lanes;
double* at = w.work + lane;
%(places)s
const int n = c.n;
%(declarations)s
for (int f = lane; f < w.total; f += w.lanes) {
    const int window = w.window_of[f];
    if (w.done[window]) continue;
    if (mode == %(proposed)d && !w.again[window]) continue;
    if (mode == %(blended)d && !(w.share[f] < 1.0)) continue;
    const int side = mode == 0 ? 0 : 1 - w.side[window];
    const long long row = w.source[f], place = (long long)side * w.total + f;
    c.theta = (mode == 0 ? w.poses : w.trial) + (long long)f * n;
    c.constants = clip->constants + (w.own_constants ? row * c.g * %(constants)d : 0);
    c.targets = clip->targets + (w.own_targets ? row * c.g * %(targets)d : 0);
    c.home = clip->home + row * n;
    c.w_sticky[c.g] = 0.0;
    {
    %(terms)s
    w.energies[place] = %(energy)s;
    }
    double* slopes = w.slopes + place * n;
    double* blocks = w.blocks + place * n * n;
    for (int i = 0; i < n; i++) {
        slopes[i] = c.w_gradient[i];
        for (int j = 0; j < n - i; j++) blocks[i * n + j] = 0.0;
    }
    for (int i = 0; i < n; i++)
        for (int j = i; j >= 0; j = c.order_rows[3 * j])
            blocks[j * n + i - j] = c.w_hessian[i * c.d + c.order_rows[3 * j + 1]];
}
}

__device__ double second_difference(const double* x, int n) { return x[n] - 2.0 * x[0] + x[-n]; }

// The energy of the accelerations at frame t of a window, of its poses and of the path that they are relative to
__device__ double bend_of(const Windows& w, const double* poses, const double* path, int t, int count) {
    if (t < 1 || t + 1 >= count) return 0.0;
    double total = 0.0;
    for (int i = 0; i < w.n; i++) {
        const int e = t * w.n + i;
        const double x = second_difference(poses + e, w.n) - second_difference(path + e, w.n);
        total += w.stiffness[i] * x * x;
    }
    return 0.5 * total;
}

// The energy of every frame where the window begins
extern "C" __global__ void __launch_bounds__(%(threads)d) begin(const Windows* windows) {
const Windows& w = *windows;
const int window = blockIdx.x, first = w.first[window], count = w.count[window], n = w.n;
for (int t = threadIdx.x; t < count; t += blockDim.x)
    w.energy[first + t] = w.energies[first + t]
        + bend_of(w, w.poses + (long long)first * n, w.path + (long long)first * n, t, count);
for (int e = threadIdx.x; e < count * n; e += blockDim.x) {
    const long long at = (long long)first * n + e;
    w.best[at] = w.poses[at];
}
__syncthreads();
if (threadIdx.x == 0) {
    double total = 0.0;
    for (int t = 0; t < count; t++) total += w.energy[first + t];
    w.lowest[window] = total;
}
}

// Factorise the banded matrix (size, width) and solve for right (size,), both in place; return whether it is definite
__device__ bool solve_banded(double* band, double* right, int size, int width, double* tile) {
    double* row = tile + width * width;  // the row of the factor; later what is known of the solution
    double* next = row + width;  // the right side of the rows in the tile
    const int lanes = min(32, (int)blockDim.x), lane = threadIdx.x %% lanes;
    const int warp = threadIdx.x / lanes, warps = blockDim.x / lanes;
    const bool one_each = (int)blockDim.x >= width;
    for (int e = threadIdx.x; e < min(width, size) * width; e += blockDim.x) tile[e] = band[e];
    for (int e = threadIdx.x; e < min(width, size); e += blockDim.x) next[e] = right[e];
    __syncthreads();
    int head = 0;  // where row i is in the tile, whose rows go round
    for (int i = 0; i < size; i++) {
        const double pivot = tile[head * width];
        if (!(pivot > 0.0)) return false;  // the same for all threads
        const int reach = min(width, size - i);
        const bool more = i + width < size;
        double coming = 0.0, coming_right = 0.0;  // asked for before they are needed
        if (more && one_each && (int)threadIdx.x < width) coming = band[(long long)(i + width) * width + threadIdx.x];
        if (more && threadIdx.x == 0) coming_right = right[i + width];
        const double inverse = 1.0 / sqrt(pivot), y = next[head] * inverse;
        for (int k = threadIdx.x; k < reach; k += blockDim.x) {
            const double x = tile[head * width + k] * inverse;
            row[k] = x;
            band[(long long)i * width + k] = x;
        }
        __syncthreads();
        for (int k = threadIdx.x; k < reach; k += blockDim.x) {
            const int other = head + k < width ? head + k : head + k - width;
            if (k == 0) right[i] = y;
            else next[other] -= row[k] * y;
        }
        for (int k = 1 + warp; k < reach; k += warps) {
            const double x = row[k];
            if (x == 0.0) continue;
            double* to = tile + (head + k < width ? head + k : head + k - width) * width;
            for (int m = lane; m < reach - k; m += lanes) to[m] -= x * row[k + m];
        }
        if (more) {
            if (!one_each)
                for (int k = threadIdx.x; k < width; k += blockDim.x)
                    tile[head * width + k] = band[(long long)(i + width) * width + k];
            else if ((int)threadIdx.x < width) tile[head * width + threadIdx.x] = coming;
        }
        __syncthreads();
        if (more && threadIdx.x == 0) next[head] = coming_right;
        head = head + 1 < width ? head + 1 : 0;
    }
    __syncthreads();
    const int batch = min(32, width);  // rows that are read at once on the way back
    for (int end = size; end > 0; end -= batch) {
        const int start = max(end - batch, 0);
        const double* from = band + (long long)start * width;
        for (int e = threadIdx.x; e < (end - start) * width; e += blockDim.x) tile[e] = from[e];
        for (int e = threadIdx.x; e < end - start; e += blockDim.x) next[e] = right[start + e];
        __syncthreads();
        for (int i = end - 1; warp == 0 && i >= start; i--) {
            const int reach = min(width, size - i);
            const double* own = tile + (i - start) * width;
            double total = 0.0;
            for (int k = 1 + lane; k < reach; k += lanes) {
                const int place = (i + k) %% width;
                total += own[k] * row[place];
            }
            for (int o = lanes / 2; o > 0; o /= 2) total += __shfl_xor_sync(0xffffffffu, total, o);
            const double x = (next[i - start] - total) / own[0];
            __syncwarp();
            if (lane == 0) {
                row[i %% width] = x;
                right[i] = x;
            }
            __syncwarp();
        }
        __syncthreads();
    }
    return true;
}

// The damped step of a window into its box; `pass` 0 decides which degrees of freedom are free
extern "C" __global__ void __launch_bounds__(%(threads)d) propose(const Windows* windows, int pass) {
SHARED_TILE
const Windows& w = *windows;
const int window = blockIdx.x, first = w.first[window], count = w.count[window], n = w.n, width = 2 * n + 1;
if (threadIdx.x == 0) w.again[window] = !w.done[window] && (pass == 0 || w.again[window] == 2);
__syncthreads();
if (!w.again[window]) return;
const long long base = (long long)first * n, here = (long long)w.side[window] * w.total + first;
const double* poses = w.poses + base;
const double* blocks = w.blocks + here * n * n;
double* usual = w.usual + (long long)window * n;
if (pass == 0) {
    for (int e = threadIdx.x; e < count * n; e += blockDim.x) {
        const int t = e / n, i = e %% n;
        double slope = w.slopes[here * n + e], s = w.stiffness[i];
        for (int k = t - 1; k <= t + 1; k++)
            if (k >= 1 && k + 1 < count) {
                const int f = k * n + i;
                const double bend = second_difference(poses + f, n) - second_difference(w.path + base + f, n);
                slope += (k == t ? -2.0 : 1.0) * s * bend;
            }
        const double x = poses[e], low = w.lower[base + e], up = w.upper[base + e];
        w.gradient[base + e] = slope;
        w.free[base + e] = !((x <= low + 1e-10 && slope > 0.0) || (x >= up - 1e-10 && slope < 0.0) || low >= up)
            && w.movable[first + t];
        w.moved[base + e] = 0.0;
        // the quantile of the stiffness of a degree of freedom over the frames
        const double place = w.usually * (count - 1), own = blocks[(long long)e * n];
        int rank = 0;
        for (int k = 0; k < count; k++) {
            const double other = blocks[((long long)k * n + i) * n];
            rank += other < own || (other == own && k < t);
        }
        const int low_rank = (int)place;
        if (rank == low_rank) w.inside[base + i] = own;
        if (rank == min(low_rank + 1, count - 1)) w.inside[base + n + i] = own;
    }
    __syncthreads();
    const double place = w.usually * (count - 1), share = place - (int)place;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        usual[i] = w.inside[base + i] + share * (w.inside[base + n + i] - w.inside[base + i]);
    __syncthreads();
}
double mean = 0.0;
for (int i = 0; i < n; i++) mean += usual[i];
mean /= n;
double* band = w.band + base * width;
for (int e = threadIdx.x; e < count * n; e += blockDim.x) {
    const int t = e / n, i = e %% n;
    const bool left = t + 2 < count, middle = t > 0 && t + 1 < count, last = t > 1;
    const double own = (left ? 1.0 : 0.0) + (middle ? 4.0 : 0.0) + (last ? 1.0 : 0.0);
    const double one = -2.0 * ((middle ? 1.0 : 0.0) + (left ? 1.0 : 0.0)), s = w.stiffness[i];
    const int* free = w.free + base;
    const double* moved = w.moved + base;
    double* row = band + (long long)e * width;
    const bool own_free = free[e];
    for (int k = 0; k < width; k++) row[k] = 0.0;
    double right = own_free ? -w.gradient[base + e] : moved[e];
    if (own_free) {
        row[0] = blocks[(long long)e * n] + own * s + w.damping[first + t] * (usual[i] + 1e-3 * mean);
        for (int k = 1; k < n - i; k++)
            if (free[e + k]) row[k] = blocks[(long long)e * n + k];
            else right -= blocks[(long long)e * n + k] * moved[e + k];
        for (int k = 1; k <= i; k++)
            if (!free[e - k]) right -= blocks[(long long)(e - k) * n + k] * moved[e - k];
        if (t + 1 < count) {
            if (free[e + n]) row[n] = one * s;
            else right -= one * s * moved[e + n];
        }
        if (left) {
            if (free[e + 2 * n]) row[2 * n] = s;
            else right -= s * moved[e + 2 * n];
        }
        if (t >= 1 && !free[e - n]) {
            const bool before = t - 1 > 0 && t < count, beyond = t + 1 < count;
            right -= -2.0 * ((before ? 1.0 : 0.0) + (beyond ? 1.0 : 0.0)) * s * moved[e - n];
        }
        if (t >= 2 && !free[e - 2 * n]) right -= s * moved[e - 2 * n];
    } else {
        row[0] = 1.0;
    }
    w.right[base + e] = right;
}
__syncthreads();
const bool definite = solve_banded(band, w.right + base, count * n, width, tile);
__syncthreads();
if (threadIdx.x == 0) w.broken[window] = !definite;
for (int e = threadIdx.x; e < count * n; e += blockDim.x) {
    const double x = poses[e], low = w.lower[base + e], up = w.upper[base + e];
    const double step = definite ? w.right[base + e] : 0.0;
    const double inside = fmin(fmax(step, low - x), up - x);
    w.inside[base + e] = inside;
    w.beyond[base + e] = definite && w.free[base + e] && inside != step;
    w.trial[base + e] = fmin(fmax(x + inside, low), up);
}
}

__device__ double mean_about(const double* values, int t, int count, int section) {
    double total = 0.0;
    for (int k = max(t - section, 0); k <= min(t + section, count - 1); k++) total += values[k];
    return total / (2 * section + 1);
}

// Which frames a step makes worse; whether it is solved again with what its bounds hold
extern "C" __global__ void __launch_bounds__(%(threads)d) judge_step(const Windows* windows, int pass) {
const Windows& w = *windows;
const int window = blockIdx.x, first = w.first[window], count = w.count[window], n = w.n;
if (!w.again[window]) return;
const long long base = (long long)first * n, ahead = (long long)(1 - w.side[window]) * w.total + first;
for (int t = threadIdx.x; t < count; t += blockDim.x) {
    const double after = w.energies[ahead + t] + bend_of(w, w.trial + base, w.path + base, t, count);
    w.change[first + t] = after - w.energy[first + t];
}
double mean = 0.0;
for (int t = 0; t < count; t++) mean += w.energy[first + t];
mean /= count;
__syncthreads();
for (int t = threadIdx.x; t < count; t += blockDim.x)
    w.bad[first + t] = w.broken[window] || mean_about(w.change + first, t, count, w.section)
        > w.worse * (mean_about(w.energy + first, t, count, w.section) + mean);
__syncthreads();
bool more = false;
if (pass + 1 < w.passes && !w.broken[window])
    for (int e = 0; e < count * n && !more; e++) more = w.bad[first + e / n] && w.beyond[base + e];
if (more)
    for (int e = threadIdx.x; e < count * n; e += blockDim.x)
        if (w.beyond[base + e]) {
            w.moved[base + e] = w.inside[base + e];
            w.free[base + e] = 0;
        }
__syncthreads();
if (threadIdx.x == 0) w.again[window] = more ? 2 : 0;
}

// Frames that a step makes worse stay where they are; it is blended in beside them
extern "C" __global__ void __launch_bounds__(%(threads)d) blend(const Windows* windows) {
const Windows& w = *windows;
const int window = blockIdx.x, first = w.first[window], count = w.count[window], n = w.n;
if (w.done[window]) return;
for (int t = threadIdx.x; t < count; t += blockDim.x) {
    int far = w.blend + 1;  // from the nearest frame that stays
    for (int k = max(t - far, 0); k <= min(t + far, count - 1); k++)
        if (w.bad[first + k]) far = min(far, abs(k - t));
    const double share = fmin(fmax((far - 1.0) / w.blend, 0.0), 1.0);
    w.share[first + t] = share;
    const double smooth = share * share * (3.0 - 2.0 * share);
    if (share < 1.0)
        for (long long e = (long long)(first + t) * n; e < (long long)(first + t + 1) * n; e++)
            w.trial[e] = w.poses[e] + smooth * (w.trial[e] - w.poses[e]);
}
}

// Take the step, or refuse it
extern "C" __global__ void __launch_bounds__(%(threads)d) accept(const Windows* windows) {
const Windows& w = *windows;
const int window = blockIdx.x, first = w.first[window], count = w.count[window], n = w.n;
if (w.done[window]) return;
const long long base = (long long)first * n, ahead = (long long)(1 - w.side[window]) * w.total + first;
for (int t = threadIdx.x; t < count; t += blockDim.x) {
    w.damping[first + t] *= w.bad[first + t] ? w.harder : w.easier;
    w.change[first + t] = w.energies[ahead + t] + bend_of(w, w.trial + base, w.path + base, t, count);
}
__syncthreads();
double before = 0.0, total = 0.0;
for (int t = 0; t < count; t++) {
    before += w.energy[first + t];
    total += w.change[first + t];
}
const double lowest = w.lowest[window];
__syncthreads();
if (!(total < (1.0 + w.worse) * before)) {
    for (int t = threadIdx.x; t < count; t += blockDim.x) w.damping[first + t] *= w.harder / w.easier;
    if (threadIdx.x == 0 && ++w.failed[window] == w.failures) w.done[window] = 1;
    return;
}
for (int t = threadIdx.x; t < count; t += blockDim.x) {
    w.damping[first + t] = fmax(w.damping[first + t], w.least);
    w.energy[first + t] = w.change[first + t];
}
for (int e = threadIdx.x; e < count * n; e += blockDim.x) {
    w.poses[base + e] = w.trial[base + e];
    if (total < lowest) w.best[base + e] = w.trial[base + e];
}
if (threadIdx.x == 0) {
    w.failed[window] = 0;
    w.side[window] = 1 - w.side[window];
    w.lowest[window] = fmin(lowest, total);
    if (fabs(before - total) < w.gain * before) w.done[window] = 1;
}
}
"""
