"""Reachable and dexterous workspace of a figure (Parent, Kinematic Linkages, 5.3; Tolani et al. 2000, 1).

If the site is on a limb, points are first tried in closed form, with the rest of the figure at its base pose. Points
that this does not reach are solved for the whole figure by `newton`, in batches on all cores or on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from posable._files import save_picture
from posable._solve import box_of, check_device, solve
from posable.engine.bounds import CONVERGED
from posable.engine.joints import SLIDE
from posable.engine.layout import FIRST, LAST, PARENT
from posable.errors import GoalError, PosableError
from posable.goals import Pose, Position
from posable.goals.base import nonneg, numbers
from posable.limb import Limb
from posable.limb.solver import limb_of_body
from posable.model.kinematics import as_poses, forward, path_of
from posable.model.skeleton import Skeleton
from posable.problem import Problem
from posable.solvers.base import SOLVERS, SolveOptions

CHUNK, CHUNK_ON_GPU = 2048, 1 << 17  # points per progress report
MOST_ORIENTATIONS = 1_000_000
MOST_POINTS = 2_000_000
RESTARTS = 3  # random starts before a point counts as out of reach
ROUNDS = 4  # bisections of the margin in the search for the best clearance


@dataclass(frozen=True, eq=False)
class Reach:
    """The points that a site can reach within the limits.

    Attributes:
        points: (p, 3) [m].
        reachable: (p,) bool.
        dexterity: (p,) Fraction of the orientations that can be reached there; 1 or 0 if no orientations were given.
        clearance: (p,) [rad, m] The largest distance to the nearest limit that was found, to a sixteenth of the
            narrowest joint's half range; NaN out of reach.
        volume: [m^3] Of the reachable points of a grid; NaN for given points.
        spacing: [m] Of the grid, or None.
        poses: (p, n) Poses that reach the points with that clearance; NaN out of reach.
        site: The joint or site.
    """

    points: np.ndarray
    reachable: np.ndarray
    dexterity: np.ndarray
    clearance: np.ndarray
    volume: float
    spacing: float | None
    poses: np.ndarray
    site: str

    @property
    def dexterous(self) -> np.ndarray:
        """(p,) bool: reachable in every given orientation."""
        return self.reachable & (self.dexterity >= 1.0)

    @property
    def dexterous_volume(self) -> float:
        """[m^3] Volume of the dexterous points of a grid; NaN for given points."""
        return float(np.sum(self.dexterous) * self.spacing**3) if self.spacing else float("nan")

    @property
    def shell(self) -> np.ndarray:
        """(p,) bool: reachable points of a grid with an unreachable neighbour; all reachable ones for given points."""
        if not self.spacing:
            return self.reachable.copy()
        cells = np.rint((self.points - self.points.min(axis=0, initial=np.inf)) / self.spacing).astype(int)
        inside = {tuple(cell) for cell in cells[self.reachable]}
        steps = np.concatenate([np.eye(3, dtype=int), -np.eye(3, dtype=int)])
        out = np.zeros(len(cells), dtype=bool)
        for row in np.flatnonzero(self.reachable):
            out[row] = any(tuple(cells[row] + step) not in inside for step in steps)
        return out

    def __str__(self) -> str:
        count, total = int(self.reachable.sum()), len(self.points)
        size = f", {self.volume:.4f} m^3" if self.spacing else ""
        best = f"; clearance up to {np.nanmax(self.clearance):.3f}" if count else ""
        return f"{self.site!r} reaches {count} of {total} points{size}{best}"

    def plot(self, path: str | PathLike[str]) -> None:
        """Draw three sections through the reachable points, coloured by dexterity or clearance.

        Args:
            path: The picture to write, such as a PNG or an SVG.
        """
        draw(self, path)


def reach(
    skeleton: Skeleton,
    site: str,
    points: Any = None,
    *,
    grid: float = 0.05,
    orientations: Any = None,
    base: Any = None,
    device: str = "cpu",
    progress: Callable[[float], None] | None = None,
) -> Reach:
    """Return which points a site can reach within the limits, and how well.

    Args:
        skeleton: The figure. A root that moves freely stays where it is.
        site: The joint or site.
        points: (..., 3) [m] Points to try; by default a grid over the ball that the chain could fill.
        grid: [m] Spacing of that grid.
        orientations: A number of evenly spread orientations, or SciPy rotations or (k, 3, 3); the reachable fraction
            of them is the dexterity.
        base: (n,) The pose from which the rest of the figure starts; by default the rest pose.
        device: "cpu"; "cuda": an NVIDIA GPU solves all points at once; "auto": the GPU where there is one and points
            are many.
        progress: Called with the fraction done, from 0 to 1.

    Returns:
        The workspace.

    Raises:
        GoalError: The grid is too fine, or the chain is unbounded and no points are given.
    """
    skeleton.frame(site)  # raises with the nearest name
    check_device(device, "single", RESTARTS)
    pose = as_poses(skeleton, skeleton.rest if base is None else base, "base").reshape(skeleton.size)
    turns = read_orientations(orientations)
    spacing = None
    if points is None:
        spacing = nonneg(grid, "grid")
        if not spacing:
            raise GoalError("grid", expected="a length [m] above 0", got=grid)
        tried = grid_points(skeleton, site, pose, spacing)
    else:
        tried = numbers(points, (3,), "points").reshape(-1, 3)
    still = freeze_root(skeleton)
    device = device_for(device, len(tried))
    limb = limb_to(still, site)
    alone = limb is not None and not movable_above(still, limb)
    count, k = len(tried), 0 if turns is None else len(turns)
    found = np.full((count, skeleton.size), np.nan)
    dexterity = np.zeros(count)
    done, total = 0, count * (2 + k)
    chunk = CHUNK if device == "cpu" else CHUNK_ON_GPU
    for low in range(0, count, chunk):
        part = slice(low, min(low + chunk, count))
        found[part] = try_targets(still, site, limb, alone, tried[part], pose, device)
        done = report(progress, done + part.stop - part.start, total)
        for turn in turns if turns is not None else ():
            targets = np.zeros((part.stop - part.start, 4, 4))
            targets[:, :3, :3], targets[:, :3, 3], targets[:, 3, 3] = turn, tried[part], 1.0
            near = ~np.isnan(found[part, 0])
            got = np.zeros(len(targets), dtype=bool)
            got[near] = ~np.isnan(try_targets(still, site, limb, alone, targets[near], pose, device)[:, 0])
            dexterity[part] += got
            done = report(progress, done + part.stop - part.start, total)
    reachable = ~np.isnan(found[:, 0]) if skeleton.size else np.zeros(count, dtype=bool)
    dexterity = dexterity / k if k else reachable.astype(float)
    clearance = clear_limits(still, site, tried, found, device)
    report(progress, total, total)
    volume = float(reachable.sum() * spacing**3) if spacing else float("nan")
    return Reach(tried, reachable, dexterity, clearance, volume, spacing, found, site)


def device_for(device: str, count: int) -> str:
    """Return "cpu" or "cuda" for a number of points; "auto" uses a working GPU for many points."""
    if device != "auto":
        return device
    from posable.gpu.batch import CROSSING
    from posable.gpu.device import missing

    return "cuda" if count >= CROSSING and missing() is None else "cpu"


def clear_limits(
    skeleton: Skeleton, site: str, points: np.ndarray, found: np.ndarray, device: str = "cpu"
) -> np.ndarray:
    """Move the poses (p, n) of points (p, 3) away from the limits, in place; return their clearance (p,) [rad, m].

    A point can be reached with a clearance if it can be reached within limits that are tightened by as much. The margin
    is found by bisection, for all points of equal margin at once; half the narrowest joint's range is the maximum.
    """
    dofs = chain_dofs(skeleton, site)
    half = float(np.min(skeleton.upper[dofs] - skeleton.lower[dofs], initial=np.inf)) / 2.0
    best = clearance_of(skeleton, found, dofs)
    if not 0.0 < half < np.inf:
        return best
    margins = np.full(len(points), 0.5 * half)
    step = 0.25 * half
    for _ in range(ROUNDS):
        near = np.flatnonzero(best < margins)
        if device == "cuda" and near.size:
            found[near] = try_margins(skeleton, site, dofs, margins[near], points[near], found[near])
            best[near] = clearance_of(skeleton, found[near], dofs)
        for margin in np.unique(margins) if device == "cpu" else ():
            rows = np.flatnonzero((margins == margin) & (best < margin))
            if rows.size:
                found[rows] = try_margin(skeleton, site, dofs, float(margin), points[rows], found[rows])
                best[rows] = clearance_of(skeleton, found[rows], dofs)
        margins = np.where(best >= margins, margins + step, margins - step)
        step *= 0.5
    return best


def clearance_of(skeleton: Skeleton, poses: np.ndarray, dofs: list[int]) -> np.ndarray:
    """Return the distance (p,) [rad, m] of each pose to its nearest limit; NaN for a pose of NaN."""
    room = np.minimum(poses - skeleton.lower, skeleton.upper - poses)[:, dofs]
    return np.where(np.isnan(poses).any(axis=1), np.nan, room.min(axis=1, initial=np.inf))


def try_margin(
    skeleton: Skeleton, site: str, dofs: list[int], margin: float, points: np.ndarray, poses: np.ndarray
) -> np.ndarray:
    """Return poses (p, n) that reach points within limits tightened by a margin, from poses that reach them."""
    lower, upper = skeleton.lower.copy(), skeleton.upper.copy()
    lower[dofs] += margin
    upper[dofs] -= margin
    tight = skeleton.with_limits(
        {
            name: np.stack([lower[part], upper[part]], axis=1)
            for name, part in zip(skeleton.names, skeleton.slices, strict=True)
            if part.stop > part.start and not skeleton.frozen[part].any()
        }
    )
    limb = limb_to(tight, site)
    left, out = np.ones(len(points), dtype=bool), poses.copy()
    if limb is not None:
        solution = limb.solve_target(points, swivel=None, elbow=None, limits=True, base=poses, nearest=False)
        clear = solution.ok & (clearance_of(skeleton, solution.pose, dofs) >= margin - 1e-12)  # above the limb too
        out[clear], left = solution.pose[clear], ~clear
    if left.any():
        method = SOLVERS.get("newton")(limbs=True)
        result = solve(tight, Position(site, points[left]), start=poses[left], solver=method, restarts=1, natural=False)
        rows = np.flatnonzero(left)[result.ok]
        out[rows] = result.pose[result.ok]
    better = clearance_of(skeleton, out, dofs) > clearance_of(skeleton, poses, dofs)
    return np.where(better[:, None], out, poses)


def try_margins(
    skeleton: Skeleton, site: str, dofs: list[int], margins: np.ndarray, points: np.ndarray, poses: np.ndarray
) -> np.ndarray:
    """Do as `try_margin` for all points in one batch on the GPU, each with a margin (p,) of its own."""
    from posable.gpu.batch import OwnInput, solve_each

    lower, upper = box_of(skeleton, poses[:1], True)
    tighter, looser = np.tile(lower, (len(points), 1)), np.tile(upper, (len(points), 1))
    tighter[:, dofs] += margins[:, None]
    looser[:, dofs] -= margins[:, None]
    options = SolveOptions(np.clip(poses, tighter, looser), lower, upper, restarts=RESTARTS)
    problem = Problem(skeleton, Position(site, points), on_gpu=True)
    result = solve_each(problem, options, len(points), OwnInput(None, tighter, looser))
    out = np.where((result.codes == CONVERGED)[:, None], result.poses, poses)
    better = clearance_of(skeleton, out, dofs) > clearance_of(skeleton, poses, dofs)
    return np.where(better[:, None], out, poses)


def report(progress: Callable[[float], None] | None, done: int, total: int) -> int:
    """Report the fraction done; return `done`."""
    if progress is not None:
        progress(done / max(total, 1))
    return done


def read_orientations(value: Any) -> np.ndarray | None:
    """Return orientations (k, 3, 3): the given ones, or that many evenly spread."""
    if value is None:
        return None
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        if not 1 <= value <= MOST_ORIENTATIONS:
            raise GoalError("orientations", expected=f"a number from 1 to {MOST_ORIENTATIONS}, or rotations", got=value)
        return spread_rotations(int(value))
    matrices = value.as_matrix() if isinstance(value, Rotation) else np.asarray(value, dtype=float)
    if matrices.shape[-2:] != (3, 3):
        raise GoalError("orientations", expected="a number, SciPy rotations or (k, 3, 3)", got=matrices.shape)
    return matrices.reshape(-1, 3, 3)


def spread_rotations(count: int) -> np.ndarray:
    """Return evenly spread rotations (count, 3, 3): a super-Fibonacci spiral (Alexa 2022) of unit quaternions."""
    s = np.arange(count) + 0.5
    r, big = np.sqrt(s / count), np.sqrt(1.0 - s / count)
    a, b = 2.0 * np.pi * s / np.sqrt(2.0), 2.0 * np.pi * s / 1.533751168755204288118041
    quaternions = np.stack([r * np.sin(a), r * np.cos(a), big * np.sin(b), big * np.cos(b)], axis=1)
    return Rotation.from_quat(quaternions).as_matrix()


def freeze_root(skeleton: Skeleton) -> Skeleton:
    """Return the figure with a sliding root frozen, because its reach would be unbounded."""
    root = skeleton.joints[0]
    slides = any(element.kind == SLIDE for element in root.motion.dofs)
    return skeleton.freeze(root.name) if slides and not root.frozen else skeleton


def limb_to(skeleton: Skeleton, site: str) -> Limb | None:
    """Return the limb whose last bone carries the site, or None."""
    core = limb_of_body(skeleton, int(skeleton.frame_bodies[skeleton.frame(site)]))
    return None if core is None else Limb(skeleton, core.first, core.middle, core.last, site)


def movable_above(skeleton: Skeleton, limb: Limb) -> bool:
    """Return whether any joint above a limb can move."""
    above = limb.dofs_above()
    free = ~skeleton.frozen[above] & (skeleton.upper[above] > skeleton.lower[above])
    return bool(np.any(free))


def chain_dofs(skeleton: Skeleton, site: str) -> list[int]:
    """Return the degrees of freedom, not frozen, between the root and a site."""
    moving = path_of(skeleton, int(skeleton.frame_bodies[skeleton.frame(site)]))
    return [i for i in sorted(moving) if not skeleton.frozen[i]]


def grid_points(skeleton: Skeleton, site: str, pose: np.ndarray, spacing: float) -> np.ndarray:
    """Return the points (p, 3) [m] of a grid inside the ball that the chain from its first free joint could fill."""
    centre, radius = chain_ball(freeze_root(skeleton), site, pose)
    if not np.isfinite(radius):
        raise GoalError("reach", expected="points, for a chain with a slider that has no limits", got="none")
    if 2.0 * float(radius) / spacing + 1.0 > MOST_POINTS ** (1 / 3):
        raise GoalError("grid", expected=f"at least {radius / 62:.3g} m here", got=spacing)
    steps = int(radius / spacing)
    line = spacing * np.arange(-steps, steps + 1)
    ball = np.stack(np.meshgrid(line, line, line, indexing="ij"), axis=-1).reshape(-1, 3)
    return centre + ball[np.linalg.norm(ball, axis=1) <= radius]


def chain_ball(skeleton: Skeleton, site: str, pose: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the position of the first joint of a site's chain that can move, and the chain's length from there."""
    figure, row = skeleton.figure, skeleton.frame(site)
    body = int(skeleton.frame_bodies[row])
    length, radius = float(np.linalg.norm(skeleton.frame_positions[row])), 0.0
    names = {int(skeleton.frame_bodies[k]): name for k, name in reversed(list(enumerate(skeleton.names)))}
    first = site
    while body >= 0:
        dofs = range(int(figure.body[body, FIRST]), int(figure.body[body, LAST]))
        free = [i for i in dofs if not skeleton.frozen[i]]
        for i in free:
            if figure.dof[i, 0] == SLIDE:
                length += float(np.max(np.abs([skeleton.lower[i], skeleton.upper[i]])))
        if free:
            first, radius = names[body], length
        length += float(np.linalg.norm(figure.rest[body, :3]))
        body = int(figure.body[body, PARENT])
    return forward(skeleton, pose).position(first), radius


def try_targets(
    skeleton: Skeleton, site: str, limb: Limb | None, alone: bool, targets: np.ndarray, pose: np.ndarray, device: str
) -> np.ndarray:
    """Return poses (t, n) that bring the site to targets (t, 3) or (t, 4, 4); NaN if none was found."""
    out = np.full((len(targets), skeleton.size), np.nan)
    if not len(targets):
        return out
    left = np.ones(len(targets), dtype=bool)
    if limb is not None:
        solution = limb.solve_target(targets, swivel=None, elbow=None, limits=True, base=pose, nearest=alone)
        out[solution.ok] = solution.pose[solution.ok]
        left = ~solution.ok & (not alone)
    if left.any():
        goal = Position(site, targets[left]) if targets.ndim == 2 else Pose(site, targets[left])
        result = solve(skeleton, goal, start=pose, restarts=RESTARTS, natural=False, device=device)
        rows = np.flatnonzero(left)[result.ok]
        out[rows] = result.pose[result.ok]
    return out


def draw(reach: Reach, path: str | PathLike[str]) -> None:
    """Draw three sections through the reachable points of a workspace to a picture file."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise PosableError("plots need matplotlib: pip install 'posable[plots]'") from None
    points = reach.points[reach.reachable]
    partly = bool(np.any((reach.dexterity > 0.0) & (reach.dexterity < 1.0)))
    colour = (reach.dexterity if partly else reach.clearance)[reach.reachable]
    label = "share of the orientations" if partly else "clearance from the limits [rad]"
    figure = Figure(figsize=(12, 4), layout="constrained")
    middle = points.mean(axis=0) if len(points) else np.zeros(3)
    depth = 0.5001 * (reach.spacing or 0.1)
    for k, (a, b) in enumerate(((0, 1), (0, 2), (1, 2))):
        axes = figure.add_subplot(1, 3, k + 1)
        across = 3 - a - b
        near = np.abs(points[:, across] - middle[across]) <= depth if len(points) else np.zeros(0, dtype=bool)
        dots = axes.scatter(points[near, a], points[near, b], c=colour[near], s=12, marker="s")
        axes.set(xlabel="xyz"[a] + " [m]", ylabel="xyz"[b] + " [m]", aspect="equal")
        axes.set_title(f"{'xyz'[across]} = {middle[across]:.2f} m")
        if k == 2 and near.any():
            figure.colorbar(dots, ax=axes, label=label)
    figure.suptitle(str(reach))
    save_picture(figure, path, dpi=120)


__all__ = ["Reach", "reach"]
