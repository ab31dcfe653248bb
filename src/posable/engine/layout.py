"""The data layout: every array of a figure, a problem and a workspace, with name, type, shape, unit and meaning.

Kernels receive these tuples and nothing else. n is the number of degrees of freedom, b of bodies (joints that are
not fixed), g of springs, d the depth of the elimination tree (the longest row of the Hessian).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Annotated, Any, NamedTuple, get_type_hints

import numpy as np

from posable.engine.jit import kernel, small

# Features that a problem may have; entries are compiled without the kernels of those that it lacks
COUPLINGS = "couplings"  # springs between two bodies, on the center of mass, between dofs
SOLIDS = "solids"  # collision shapes

MAX_MAGNITUDE = 1e30  # largest magnitude of any number in a problem, so that products stay finite

# Columns of Figure.body
PARENT, FIRST, LAST, TURNED = 0, 1, 2, 3
# Columns of Figure.dof
KIND, AXIS, ABOVE, BODY, LEVEL = 0, 1, 2, 3, 4
# Columns of Order.rows
UP, DEPTH, VISIT = 0, 1, 2


# Columns of Figure.solid
ON_BODY, FIRST_CORNER, CORNERS, RADIUS = 0, 1, 2, 3  # body or -1 for the world, rows of Figure.corner, rounding [m]
CAPSULE, CAPSULE_AXIS, CAPSULE_RADIUS = 4, 7, 10  # a capsule around it: middle (3), half of its axis (3), radius [m]
SOLID_KIND, NORMAL = 11, 12  # kind (narrow_phase.py), the normal of a half space (3)
FIELD = 12  # where its table in Figure.field begins: of a grid, its nodes; of a hull, its extreme corners, or -1
FIRST_SEED, SEEDS, COVERING_RADIUS = 15, 16, 17  # rows of Figure.corner spread over a hull, and the covering radius [m]
REACH = 18  # [m]: radius of a ball around it whose centre is the capsule's middle
SOLID_WIDTH = 19
BALL_RADIUS = 3  # column of Figure.ball; negative where the body has no solid

# Places in Workspace.memory: what GJK and EPA need; contacts between two bodies with their loads; what the energy
# found, at which placement of the bodies; the energy beyond which a trial is rejected, 0: none; what of it other
# springs have
MAX_VERTICES, MAX_FACES, MAX_CONTACTS, CONTACT_WIDTH, CACHED_CONTACT_WIDTH = 64, 128, 32, 29, 34
CONTACTS = 32 + 5 * MAX_VERTICES + 7 * MAX_FACES + 384
CONTACTS_FOUND = CONTACTS + 1 + MAX_CONTACTS * CONTACT_WIDTH
PLACEMENT_STAMP, CONTACT_CACHE = CONTACTS_FOUND + 1, CONTACTS_FOUND + 3
REJECT_ABOVE = CONTACT_CACHE + MAX_CONTACTS * CACHED_CONTACT_WIDTH
OTHER_ENERGY = REJECT_ABOVE + 1
MEMORY = OTHER_ENERGY + 1


class Figure(NamedTuple):
    """A skeleton as the kernels see it: a tree of bodies, each moved by consecutive degrees of freedom.

    Arrays are of float64, or of int64 where `int` precedes their shape.
    """

    body: Annotated[np.ndarray, int, "b", 4]  # PARENT or -1, FIRST and LAST (exclusive) dof, TURNED (rest is not 1)
    rest: Annotated[np.ndarray, "b", 12]  # [m, 1]: constant transform to the parent body: position, rotation by rows
    # KIND (joints.py), AXIS 0..2 of the body, ABOVE: dof above it or -1, BODY, LEVEL: how many are above
    dof: Annotated[np.ndarray, int, "n", 5]
    sign: Annotated[np.ndarray, "n"]  # +1 or -1, the sense of the axis
    mass: Annotated[np.ndarray, "b", 4]  # [1, m]: share of the whole mass, center of mass in the body
    # Collision shapes; empty unless the problem has a COLLISION spring
    solid: Annotated[np.ndarray, "solids", SOLID_WIDTH]  # rounded convex hulls on bodies, see the columns above
    corner: Annotated[np.ndarray, "corners", 3]  # [m]: the corners and seeds of the solids, in their bodies
    ball: Annotated[np.ndarray, "balls", 4]  # [m]: centre, in the body, and radius of a ball around all of its solids
    field: Annotated[np.ndarray, "fields"]  # grids of signed distances [m], extreme corners of hulls (narrow_phase.py)
    touch: Annotated[np.ndarray, int, "touches", 4]  # body, other body or -1, first and last (exclusive) row of `pair`
    pair: Annotated[np.ndarray, int, "pairs", 2]  # solids that must not touch; half spaces and what stands still second


class Order(NamedTuple):
    """The elimination order of the Hessian: row i holds an entry for each dof above it, at that dof's depth."""

    # (n, 3) int64: UP: the dof above in the elimination tree or -1, DEPTH: 0 at a root;
    # VISIT: row v names the dof that comes v-th when the tree is walked depth first
    rows: np.ndarray
    tree: np.ndarray  # (n, 3) int64: the same of the figure alone, for poses at which no spring couples its branches


# Columns of Springs.kind
SPRING_KIND, BODY_A, GOAL, BODY_B = 0, 1, 2, 3

# Slices of a row of Springs.constants: what stays when a goal moves
POINT = 0  # 3 [m]: the point, in the body
AXES = 3  # 9: the frame, in the body, by rows; a direction in its first three
WEIGHT = 12  # 6: symmetric weight xx yy zz xy xz yz
MEASURE = 18  # 6: symmetric, the projector M on what counts as error, |M r|
ROBUST = 24  # scale of the robust loss [energy]; 0: none; OFF: the spring is disabled
SIZE = 25  # [m]: a length that the kind needs (radius, distance, margin)
POINT2 = 26  # 3 [m]: the second point of a CROSS spring, in the other body
AXES2 = 29  # 9: its part of the root of the full weight
CONSTANTS = 38  # numbers in a row
FOLLOWER, LEADER, RATIO = POINT, POINT + 1, POINT + 2  # of a COUPLING spring, in the place of a point

# Slices of a row of Springs.targets: what moves; in the axes of BODY_B, or of the world where that is -1
AT = 0  # 3 [m]: the target point; the offset of a coupling [rad, m]
FRAME = 3  # 9: the target frame, by rows; a direction in its first three
TARGETS = 12  # numbers in a row

LOCAL = 61  # size of Workspace.local: springs.py
CENTER = -1  # in BODY_A: the spring is on the center of mass

OFF = -1.0  # in ROBUST: the spring is disabled; it has no energy, no force and no error


class Springs(NamedTuple):
    """Goals as the kernels see them: springs on bodies, and springs on the degrees of freedom themselves."""

    kind: Annotated[np.ndarray, int, "g", 4]  # SPRING_KIND (springs.py), BODY_A or CENTER, its GOAL, BODY_B or -1
    constants: Annotated[np.ndarray, "g", CONSTANTS]  # see the slices above
    targets: Annotated[np.ndarray, "g", TARGETS]
    pull: Annotated[np.ndarray, "n"]  # [1]: stiffness of a spring on each dof towards `home`
    home: Annotated[np.ndarray, "n"]  # [rad, m]


class Levels(NamedTuple):
    """Goals of several strict priorities, level by level; no levels if all goals have the same priority.

    Each level is weighted down against the stricter one before it and has its own derivatives, so that its step is
    damped by its own stiffness and not by that of the stricter levels.
    """

    constants: Annotated[np.ndarray, "levels", "g", CONSTANTS]  # the springs of each level, those of others disabled
    pull: Annotated[np.ndarray, "levels", "n"]  # springs on the dofs, as in Springs
    home: Annotated[np.ndarray, "levels", "n"]  # [rad, m]
    gradient: Annotated[np.ndarray, "levels", "n"]
    hessian: Annotated[np.ndarray, "levels", "n", "d"]  # as in Workspace
    total: Annotated[np.ndarray, "rows", "d"]  # of the levels so far; no rows where there are none
    weight: Annotated[np.ndarray, "levels"]  # of each level, against the first
    scale: Annotated[np.ndarray, "levels"]  # mean of the diagonal of each Hessian
    calm: Annotated[np.ndarray, "levels"]  # stiffness that keeps the dofs where they were


class Workspace(NamedTuple):
    """Scratch memory of one solve, carved from one flat array; nothing in it outlives the call."""

    sine: Annotated[np.ndarray, "n"]  # of each turning dof
    cosine: Annotated[np.ndarray, "n"]
    origin: Annotated[np.ndarray, 3]  # [m]: world position of the root body; all positions below are relative to it
    position: Annotated[np.ndarray, "b", 3]  # [m]: body origins, in world axes
    rotation: Annotated[np.ndarray, "b", 9]  # body frames in the world, by rows
    twist: Annotated[np.ndarray, "n", 6]  # world twist [w; v] of each dof at `origin`
    wrench: Annotated[np.ndarray, "b", 6]  # [m; F] on each body at `origin`, gathered from all it carries
    stiffness: Annotated[np.ndarray, "b", 21]  # symmetric 6x6: rotation block (6), translation block (6), coupling (9)
    gradient: Annotated[np.ndarray, "n"]
    hessian: Annotated[np.ndarray, "n", "d"]  # row i by depth of the dofs above it
    factor: Annotated[np.ndarray, "n", "d"]  # L of H = L'L, in the same layout
    step: Annotated[np.ndarray, "n"]
    trial: Annotated[np.ndarray, "n"]
    best: Annotated[np.ndarray, "n"]
    spare: Annotated[np.ndarray, "n"]
    anchor: Annotated[np.ndarray, "n"]
    path: Annotated[np.ndarray, "n"]  # one number per depth of the elimination tree
    chain: Annotated[np.ndarray, 6, "d"]  # the twists of the dofs above the current one, by depth
    frame: Annotated[np.ndarray, 9]  # a rotation by rows, for one body at a time
    error: Annotated[np.ndarray, "g"]  # [m, rad]: how far each spring is from its goal
    sticky: Annotated[np.ndarray, "sticky"]  # one-sided springs that count as two-sided while the last entry is 1
    row: Annotated[np.ndarray, CONSTANTS]  # one spring whose target is on another body, its weights turned
    target: Annotated[np.ndarray, TARGETS]  # its target, placed in the world
    load: Annotated[np.ndarray, 27]  # wrench (6) and stiffness (21) of that spring
    local: Annotated[np.ndarray, LOCAL]  # one spring in its point and direction: springs.py
    center: Annotated[np.ndarray, 3]  # [m]: center of mass, relative to `origin`
    mass: Annotated[np.ndarray, "b", 4]  # [1, m]: share of the mass that each body carries, and its moment
    column: Annotated[np.ndarray, "n", 3]  # [m]: how each dof moves the center of mass
    ball: Annotated[np.ndarray, "b", 3]  # [m]: centres of the balls around the bodies' solids, relative to `origin`
    memory: Annotated[np.ndarray, MEMORY]  # of narrow_phase.py: a simplex, a polytope, contacts


# Columns of the state of a solve, kept between two calls of a loop
(
    RANDOM,  # state of the generator of random starts
    PHASE,  # FRESH before the first entry, then what comes next
    ENERGY,  # at the current pose
    DAMPING,  # of the next step, relative to the metric
    ITERATIONS,  # so far
    EVALUATIONS,  # of the energy, so far
    SLOW,  # consecutive steps with too little progress
    RESTARTS,  # so far
    BEST,  # energy of the best pose so far
    OWN_STATE,  # where a method's own columns begin
) = range(10)
FRESH, GOING = 0.0, 1.0  # values of PHASE

# Columns of the params of a loop
(
    CHUNK_ITERATIONS,  # iterations before it returns to its caller
    MAX_ITERATIONS,  # in all
    MAX_RESTARTS,
    SOFT,  # 1: the energy is minimised beyond the goals' tolerances
    OWN_PARAMS,  # where a method's own columns begin
) = range(5)


# --- The shapes of a record's arrays, from its annotations ---

Shapes = dict[str, tuple[int | str, ...]]  # of every array of a record, in order: numbers, and names of sizes


def shapes_of(record: Any) -> Shapes:
    """Return the shapes of the arrays of a named tuple; an array of integers has `int` before its shape."""
    hints = get_type_hints(record, include_extras=True)
    return {name: tuple(one for one in hint.__metadata__ if one is not int) for name, hint in hints.items()}


FIGURE_SHAPES, SPRING_SHAPES, WORKSPACE_SHAPES = shapes_of(Figure), shapes_of(Springs), shapes_of(Workspace)
_HINTS = get_type_hints(Figure, include_extras=True) | get_type_hints(Springs, include_extras=True)
INTEGERS = frozenset(name for name, hint in _HINTS.items() if int in hint.__metadata__)


def size_of(shapes: Shapes, **sizes: int) -> int:
    """Return how many numbers the arrays of a record hold."""
    return sum(math.prod(sizes[one] if isinstance(one, str) else one for one in shape) for shape in shapes.values())


def workspace_shapes(n: int, b: int, g: int, d: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of every array of a `Workspace`."""
    sizes = {"n": n, "b": b, "g": g, "d": d, "sticky": g + 1}
    return {
        name: tuple(sizes[one] if isinstance(one, str) else one for one in shape)
        for name, shape in WORKSPACE_SHAPES.items()
    }


@lru_cache(maxsize=256)
def work_size(n: int, b: int, g: int, d: int) -> int:
    """Return the size of the flat array that `workspace` divides."""
    return size_of(WORKSPACE_SHAPES, n=n, b=b, g=g, d=d, sticky=g + 1)


# --- Records as views of flat arrays ---


@small
def clear(out):
    """Set the numbers of an array (m,) to zero."""
    for i in range(out.shape[0]):
        out[i] = 0.0


@small
def matrix(flat, first, rows, columns):
    """Return rows x columns numbers of a flat array, from index `first` on, as a view."""
    return flat[first : first + rows * columns].reshape(rows, columns)


@small
def take_vector(flat, first, size):
    """Return a view of `size` numbers of a flat array, from index `first` on, and the index after them."""
    return flat[first : first + size], first + size


@small
def take_matrix(flat, first, rows, columns):
    """Return a view of rows x columns numbers of a flat array, from index `first` on, and the index after them."""
    return matrix(flat, first, rows, columns), first + rows * columns


@small
def take_matrices(flat, first, count, rows, columns):
    """Return a view of `count` such matrices, and the index after them."""
    last = first + count * rows * columns
    return flat[first:last].reshape(count, rows, columns), last


def carver(record: Any, shapes: Shapes, arguments: str, **sizes: str) -> kernel:
    """Return a kernel (flat, i, *arguments) -> (record, j): its arrays as views of a flat array, from i up to j.

    Args:
        record: A named tuple.
        shapes: Of its arrays.
        arguments: The names of the kernel's other arguments.
        **sizes: What the sizes in `shapes` that are no arguments are, in terms of those.
    """
    lines = [f"def carve(flat, i, {arguments}):"]
    for name, shape in shapes.items():
        takes = ("take_vector", "take_matrix", "take_matrices")[len(shape) - 1]
        lines.append(f"    {name}_, i = {takes}(flat, i, {', '.join(sizes.get(str(one), str(one)) for one in shape)})")
    lines.append(f"    return record({', '.join(f'{name}_' for name in shapes)}), i")
    names = {"record": record, "take_vector": take_vector, "take_matrix": take_matrix, "take_matrices": take_matrices}
    exec(compile("\n".join(lines), __file__, "exec"), names)
    return small(names["carve"])


carve_workspace = carver(Workspace, WORKSPACE_SHAPES, "n, b, g, d", sticky="g + 1")


@kernel
def workspace(figure, g, work, d):
    """Return the `Workspace` of a figure with g springs as views of a flat array, and the rest of that array."""
    ws, end = carve_workspace(work, 0, figure.dof.shape[0], figure.body.shape[0], g, d)
    ws.sticky[g] = ws.memory[REJECT_ABOVE] = 0.0
    return ws, work[end:]


@small
def springs_of_level(springs, levels, k):
    """Return the springs of a level, those of the others switched off."""
    return Springs(springs.kind, levels.constants[k], springs.targets, levels.pull[k], levels.home[k])
