"""The CUDA C++ of a problem: two kernels around the lane loop, specialised for the figure and its goals.

`attempts` makes one attempt at a problem in each lane and takes the next one when it is done; `judge` evaluates every
attempt in double precision, whatever precision the lanes use, selects the best and lists the unsolved problems.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from posable.engine.assemble import energy_at
from posable.engine.layout import (
    AT,
    CONSTANTS,
    ENERGY,
    FRAME,
    ITERATIONS,
    RANDOM,
    TARGETS,
    Figure,
    Order,
    Springs,
    Workspace,
    workspace_shapes,
)
from posable.engine.newton import AUTO, NEVER, STATE_WIDTH, newton_params
from posable.engine.springs import AIM_SPRING, DIRECTION_SPRING, ORIENTATION_SPRING, POINT_SPRING
from posable.gpu import newton as lanes
from posable.gpu.partial_eval import Specialiser
from posable.gpu.symbolic import Code, table
from posable.problem import Problem

# --- The CUDA C++ of a problem ---

SMALL_FIGURE = 12  # dofs up to which every loop over the figure is unrolled and arrays stay in registers
SINGLE = {"MARGIN": 1e-6}  # thresholds below the resolution of single precision


class KernelPlan(NamedTuple):
    """What of a problem is compiled into the source, and what is read at run time."""

    moving: tuple[int, ...]  # elements that differ between problems: of targets (g, TARGETS), then of constants
    single: bool
    finish: bool  # exact curvature, no early stop: for the problems that remain at the end
    alone: bool = False  # no other attempt follows
    damping: float = 0.3
    own_limits: bool = False  # every problem has its own limits, read after the elements in `moving`
    to_start: bool = False  # a spring pulls every dof to its start; its stiffness is read last


# the columns of the target of each kind of spring, read for every problem of a batch
MOVING = {
    POINT_SPRING: (AT, AT + 3), ORIENTATION_SPRING: (FRAME, FRAME + 9), DIRECTION_SPRING: (FRAME, FRAME + 3),
    AIM_SPRING: (AT, AT + 3),
}  # fmt: skip


def moving_elements(problem: Problem) -> tuple[int, ...]:
    """Return the elements that are targets or differ between the problems.

    They are counted by rows: first those of the targets (g, TARGETS), then those of the constants (g, CONSTANTS).
    """
    moving = np.zeros((len(problem.springs), TARGETS), dtype=bool)
    for k, (kind, _, _, other) in enumerate(problem.kind.tolist()):
        if other < 0 and kind in MOVING:
            moving[k, slice(*MOVING[kind])] = True
    moving |= (problem.targets != problem.targets[0]).any(axis=0)
    others = (problem.constants != problem.constants[0]).any(axis=0)
    return tuple(np.flatnonzero(np.concatenate([moving.ravel(), others.ravel()])).tolist())


def elements(problem: Problem, chosen: tuple[int, ...], first: int = 0, last: int | None = None) -> np.ndarray:
    """Return (t, m) or (1, m): the chosen elements of problems first to last, counted as `moving_elements` does."""
    split = problem.targets.shape[1] * TARGETS
    parts = []
    for array, columns in (
        (problem.targets, [k for k in chosen if k < split]),
        (problem.constants, [k - split for k in chosen if k >= split]),
    ):
        if columns:
            rows = array if array.shape[0] == 1 else array[first:last]
            parts.append(rows.reshape(len(rows), -1)[:, columns])
    if not parts:
        return np.zeros((1, 0))
    count = max(len(part) for part in parts)
    return np.concatenate([np.broadcast_to(part, (count, part.shape[1])) for part in parts], axis=1)


class ProblemTables:
    """A problem as the partial evaluator sees it: known tables, and arrays of the thread."""

    def __init__(self, problem: Problem, plan: KernelPlan, lower: np.ndarray, upper: np.ndarray, **options: Any):
        self.part = part = problem.moving
        self.n, b, self.g = len(part.dofs), part.figure.body.shape[0], len(problem.springs)
        self.whole = problem.skeleton.size
        self.to = to = Specialiser(unroll=self.n <= SMALL_FIGURE, missing_features=problem.missing_features, **options)
        figure: Any = (table("figure_" + k, a) for k, a in zip(Figure._fields, part.figure, strict=True))
        self.figure = Figure(*figure)
        rows: Any = table("order_rows", part.order.rows)
        self.order = Order(rows, rows)
        self.tolerances = table("tolerances", problem.tolerances)
        if plan.own_limits:
            self.lower, self.upper = to.array("lower", self.n), to.array("upper", self.n)
        else:
            self.lower, self.upper = table("lower", lower[part.dofs]), table("upper", upper[part.dofs])
        constants = to.array("constants", max(self.g, 1), CONSTANTS)
        targets = to.array("targets", max(self.g, 1), TARGETS)
        moving, first = set(plan.moving), 0
        for array, values in ((targets, problem.targets[0]), (constants, problem.constants[0])):
            for k, value in enumerate(values.ravel().tolist()):
                if first + k not in moving:
                    to.store(array.storage, k, value)
            first += values.size
        self.theta, self.start = to.array("theta", self.n), to.array("start", self.n)
        pull, home = table("pull", part.pull), table("home", part.home)
        if plan.to_start:  # one number for all dofs
            pull, home = replace(to.array("pull", 1), shape=(self.n,), strides=(0,)), self.start
        springs: Any = (table("kind", part.kind), constants, targets, pull, home)
        self.springs = Springs(*springs)
        shapes = workspace_shapes(self.n, b, max(self.g, 1), part.depth)
        arrays: Any = (to.array("w_" + name, *shapes[name]) for name in Workspace._fields)  # Views in arrays' places
        self.ws = Workspace(*arrays)
        sticky: Any = self.ws.sticky
        to.store(sticky.storage, max(self.g, 1), 0.0)
        self.prepare, to.code = to.code, []
        self._known = dict(to.known)

    def tables(self) -> str:
        """Return the C++ of the tables that the code reads, and of the positions of its dofs in a whole pose."""
        kept = ", ".join(str(i) for i in self.part.dofs)
        lines = [*self.to.tables.values(), f"__constant__ int kept[] = {{{kept}}};"]
        return "\n".join(lines).replace("__constant__", "__constant__ static")

    def template(self, plan: KernelPlan) -> dict[str, Any]:
        """Return what the templates of all kernels have in common, once the pieces are written."""
        return {
            "tables": self.tables(), "declarations": self.to.declarations(), "prepare": self.to.source(self.prepare),
            "loads": loads(plan, self), "n": self.n, "g": self.g, "whole": self.whole, "block": BLOCK,
        }  # fmt: skip

    def piece(self, write: Any) -> tuple[str, Any]:
        """Return the C++ of a call, with only the tables known, and the value that it returns."""
        self.to.known = dict(self._known)
        self.to.code = []
        value = write()
        return self.to.source(), value


def source_of(problem: Problem, plan: KernelPlan, lower: np.ndarray, upper: np.ndarray) -> str:
    """Return the CUDA C++ of both kernels for a problem in a box."""
    return "\n".join(
        (
            PROLOGUE % {"number": "float" if plan.single else "double"},
            attempts_source(problem, plan, lower, upper),
            "#undef number\n#define number double",
            judge_source(problem, plan, lower, upper),
        )
    )


def lane_constants(plan: KernelPlan) -> dict[str, Any]:
    """Return the values on a GPU of constants of engine/newton.py and engine/bounds.py, by name."""
    out: dict[str, Any] = {"MAX_STEP": 2.0, **(SINGLE if plan.single else {})}
    if not plan.alone:
        out["MAX_PERTURBATIONS"] = 0.0
    return out | ({"SLOW_STEPS": 1e9} if plan.finish else {"BOUND_PASSES": 1})


def attempts_source(problem: Problem, plan: KernelPlan, lower: np.ndarray, upper: np.ndarray) -> str:
    """Return the kernel that makes attempts."""
    parts = ProblemTables(problem, plan, lower, upper, constants=lane_constants(plan))
    to = parts.to
    fixed, scale = to.array("fixed", parts.n), to.array("scale", parts.n)
    state = to.array("state", STATE_WIDTH, types={RANDOM: "d"})
    params = newton_params(
        Code("most", "f"), soft=problem.soft, damping=plan.damping,
        exact=AUTO if plan.finish or problem.soft else NEVER, tries=14.0 if plan.finish else 8.0, shrink=0.1,
        lowest_damping=1e-4,  # less lets Gauss-Newton leave its basin of attraction
        slow_gain=0.15, stationary_gain=2e-6 if plan.single else 1e-11,
    )  # fmt: skip
    f, ws, theta, start = parts.figure, parts.ws, parts.theta, parts.start
    low, up = parts.lower, parts.upper
    which = 0 if plan.finish else Code("attempt", "i")
    begin, _ = parts.piece(
        lambda: to.call(lanes.lane_begin, f, low, up, theta, start, ws, state, params, which, float(limbs(problem)))
    )
    turn, code = parts.piece(
        lambda: to.call(
            lanes.lane_turn, f, parts.order, parts.springs, parts.tolerances, low, up, theta, start, ws, fixed, scale,
            state, params,
        )
    )  # fmt: skip
    end, _ = parts.piece(lambda: to.call(lanes.lane_end, theta, ws, state))
    return ATTEMPTS % {
        **parts.template(plan),
        "begin": begin,
        "turn": turn,
        "code": to.text(code, "i"),
        "end": end,
        "random": f"state_{RANDOM}",
        "energy": f"state_{ENERGY}",
        "turns": f"state_{ITERATIONS}",
        "refill": REFILL,
        "blocks": (6 if parts.n <= SMALL_FIGURE else 8) if plan.single else 4,
    }


def judge_source(problem: Problem, plan: KernelPlan, lower: np.ndarray, upper: np.ndarray) -> str:
    """Return the kernel that judges, in double precision."""
    parts = ProblemTables(problem, plan, lower, upper)
    to = parts.to
    place, _ = parts.piece(lambda: to.call(energy_at, parts.figure, parts.springs, parts.theta, parts.ws))
    dofs = enumerate(parts.part.dofs)
    if plan.own_limits:
        bounds = "".join(f"theta[{k}] = fmin(fmax(theta[{k}], lower[{k}]), upper[{k}]);\n" for k, _ in dofs)
    else:
        bounds = "".join(bounded(f"theta[{k}]", float(lower[i]), float(upper[i])) for k, i in dofs)
    idle = "".join(
        f"x = read(starts[{i}], problem);\n{bounded('x', float(lower[i]), float(upper[i]))}answers[at + {i}] = x;\n"
        for i in sorted(set(range(parts.whole)) - set(parts.part.dofs.tolist()))
    )
    good = " && ".join(f"w_error[{k}] <= {x!r}" for k, x in enumerate(problem.tolerances.tolist()) if np.isfinite(x))
    return JUDGE % {
        **parts.template(plan),
        "idle": idle,
        "starts": starts_of(plan, parts),
        "bounds": bounds,
        "place": place,
        "good": f"({good or 'true'})",
        "given": "float" if plan.single else "double",
        "soft": "true" if problem.soft else "false",
    }


def bounded(name: str, low: float, up: float) -> str:
    """Return the C++ that clips a double to its bounds."""
    text = f"{name} = fmax({name}, {low!r});\n" if np.isfinite(low) else ""
    return text + (f"{name} = fmin({name}, {up!r});\n" if np.isfinite(up) else "")


def loads(plan: KernelPlan, parts: ProblemTables) -> str:
    """Return the C++ that reads the input of a problem, whose addresses are arguments of the kernel."""
    split = parts.g * TARGETS
    names = [f"targets[{k}]" if k < split else f"constants[{k - split}]" for k in plan.moving]
    if plan.own_limits:
        names += [f"{bound}[{k}]" for bound in ("lower", "upper") for k in range(parts.n)]
    if plan.to_start:
        names.append("pull[0]")
    return "\n".join(f"{name} = (number)read(sources[{m}], problem);" for m, name in enumerate(names))


def starts_of(plan: KernelPlan, parts: ProblemTables) -> str:
    """Return the C++ that reads the start of a problem where springs pull to it."""
    if not plan.to_start:
        return ""
    return f"for (int i = 0; i < {parts.n}; i++) start[i] = (number)read(starts[kept[i]], problem);"


def limbs(problem: Problem) -> bool:
    """Return whether goals are on different limbs: then a later attempt keeps the limbs that reach."""
    return len({int(body) for body in problem.kind[:, 1]}) > 1


BLOCK = 64  # threads per block
REFILL = 8  # idle lanes of a warp before they receive new problems together

PROLOGUE = """
typedef unsigned int uint32;
#define infinity (1.0f / 0.0f)
#define number %(number)s
struct Source { const void* base; long long step; long long at; int wide; int pad; };  // one number of each problem
__device__ __forceinline__ double read(const Source& s, long long t) {
    return s.wide ? ((const double*)s.base)[s.at + t * s.step] : (double)((const float*)s.base)[s.at + t * s.step];
}
"""

ATTEMPTS = """
namespace lane {
%(tables)s
}
extern "C" __global__ void __launch_bounds__(%(block)d, %(blocks)d) attempts(
    const Source* sources, const Source* starts, const double* best, const int* list, int count, int many, int first,
    double seed, float most_turns, uint32* counter, const int* spent, int* winner, number* poses, float* energies,
    int* codes, int* turns) {
using namespace lane;
%(declarations)s
number most = 0;
%(prepare)s
const long long total = (long long)count * many;
const uint32 everyone = __activemask();
long long unit = 0;
bool busy = false;
bool more = true;
int attempt = 0;
int problem = 0;
while (true) {
    // what every lane votes on is the same for all of them, so they fall into step here, turn by turn
    const bool idle = __ballot_sync(everyone, busy) == 0;
    const uint32 asking = __ballot_sync(everyone, !busy && more);
    if (asking != 0 && (idle || __popc(asking) >= %(refill)d)) {
        if (!busy && more) {
            unit = atomicAdd(counter, 1u);
            more = busy = unit < total;
            if (busy) {
                const int place = (int)(unit / many);
                problem = list ? list[place] : place;
                attempt = first + (int)(unit %% many);
                %(loads)s
                for (int i = 0; i < %(n)d; i++) {
                    start[i] = (number)read(starts[kept[i]], problem);
                    theta[i] = first > 0 ? (number)best[(long long)problem * %(whole)d + kept[i]] : start[i];
                }
                most = (number)(most_turns - (float)spent[problem]);
                %(random)s = (double)((uint32)seed + 2654435761u * (uint32)attempt);
                {
                %(begin)s
                }
            }
        }
    } else if (idle) {
        break;  // nobody works and nobody asks
    }
    if (busy) {
        int code;
        if ((many > 1 && winner[problem] < attempt) || (first > 0 && !(most > 0))) {
            code = -2;  // an earlier attempt has reached it, or no turn is left: this one cannot change the answer
        } else {
            %(turn)s
            code = %(code)s;
        }
        if (code != 0) {
            busy = false;
            if (code == 1 && many > 1) atomicMin(winner + problem, attempt);
            {
            %(end)s
            }
            for (int i = 0; i < %(n)d; i++) poses[unit * %(n)d + i] = theta[i];
            energies[unit] = code == -2 ? infinity : (float)%(energy)s;
            codes[unit] = code;
            turns[unit] = (int)%(turns)s;
        }
    }
}
}
"""

JUDGE = """
namespace judging {
%(tables)s
}
extern "C" __global__ void __launch_bounds__(64) judge(
    const Source* sources, const Source* starts, const int* list, int count, int many, const %(given)s* poses,
    const float* energies, const int* codes, const int* turns, int* winner, float* lowest, double* answers,
    double* errors, int* states, int* spent, int* left, int* left_count) {
using namespace judging;
%(declarations)s
const long long place_ = (long long)blockIdx.x * blockDim.x + threadIdx.x;
if (place_ >= count) return;
const int problem = list ? list[place_] : (int)place_;
%(prepare)s
%(loads)s
%(starts)s
bool reached = false;
int longest = 0;
float low = lowest[problem];
for (int k = 0; k < many && !reached; k++) {
    const long long unit = place_ * many + k;
    const int code = codes[unit];
    if (code == -2) continue;
    longest = max(longest, turns[unit]);
    if (code != 1 && !(energies[unit] <= low)) continue;
    for (int i = 0; i < %(n)d; i++) theta[i] = (double)poses[unit * %(n)d + i];
    %(bounds)s
    {
    %(place)s
    }
    reached = (code == 1 || %(soft)s) && %(good)s;
    if (reached || energies[unit] <= low) {
        low = energies[unit];
        states[problem] = reached ? 1 : code == 1 ? 2 : code;
        const long long at = (long long)problem * %(whole)d;
        double x;
        for (int i = 0; i < %(n)d; i++) answers[at + kept[i]] = theta[i];
        %(idle)s
        for (int i = 0; i < %(g)d; i++) errors[(long long)problem * %(g)d + i] = w_error[i];
    }
}
lowest[problem] = low;
spent[problem] += longest;
winner[problem] = reached ? -1 : 0x7fffffff;
if (!reached) left[atomicAdd(left_count, 1)] = problem;
}
"""
