"""Goals on the centre of mass: at a point, and above the support polygon."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from posable.engine.layout import CENTER, CONSTANTS, SIZE
from posable.engine.springs import POINT_SPRING, SIDE_SPRING
from posable.errors import GoalError
from posable.goals.base import (
    POSITION_TOLERANCE,
    Goal,
    Spring,
    nonneg,
    numbers,
    range_projector,
    set_weight,
    target_row,
    weight_along,
    weight_matrix,
)
from posable.model.kinematics import Frames, forward
from posable.model.shapes import WORLD
from posable.model.skeleton import Skeleton

UP = {"x": 0, "y": 1, "z": 2}
FEET = ("heel", "toe", "foot")  # prefixes of the names of a foot's sites, in any case


def check_mass(skeleton: Skeleton, goal: Goal) -> None:
    """Raise if a figure has no mass, and so no centre of mass."""
    if not skeleton.total_mass > 0.0:
        raise GoalError(f"{goal}", expected="a figure whose joints have mass", got="a figure without mass")


class CenterOfMass(Goal):
    """Bring the centre of mass to a point: energy 1/2 r'W r.

    Args:
        target: (..., 3) [m] in the world; leading axes make a batch.
        weight: A number, three numbers (world axes; 0 leaves an axis free) or a symmetric 3x3 matrix W.
        tolerance: [m] Error below which the goal counts as reached.
        label: Name in results; "center of mass" by default.
        priority: Level of the goal. Lower levels are solved first and never give way to higher ones.
        robust: [m] Error beyond which the force no longer grows; None: it always grows.
    """

    rows = 3

    def __init__(
        self,
        target: Any,
        *,
        weight: Any = 1.0,
        tolerance: float = POSITION_TOLERANCE,
        label: str | None = None,
        priority: int = 0,
        robust: float | None = None,
    ):
        super().__init__(label, nonneg(tolerance, "CenterOfMass: tolerance"), priority, robust)
        self.weight = weight_matrix(weight, "CenterOfMass: weight")
        self.set_target(target)

    def default_label(self) -> str:
        """Return "center of mass"."""
        return "center of mass"

    def set_target(self, target: Any) -> None:
        """Set the target (..., 3) [m]."""
        self.target = numbers(target, (3,), "CenterOfMass: target")

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """One POINT spring on the centre of mass."""
        check_mass(skeleton, self)
        data = np.zeros(CONSTANTS)
        set_weight(data, self.weight, self.robust, range_projector(self.weight))
        return [Spring(POINT_SPRING, CENTER, data, target_row(self.target), self.tolerance)]


class Balance(Goal):
    """Keep the centre of mass above a support polygon: energy w/2 max(0, distance outside)^2 for each of its edges.

    The error is the distance outside [m]. The polygon does not move with the feet: hold them with other goals.

    Args:
        polygon: (k, 3) [m] At least three points, of which the convex hull counts; or names of sites, taken where they
            are at `pose`, or of one or two links, which stand on their shapes; None: the sites of the feet or, for a
            robot, where its shapes touch the ground.
        margin: [m] How far inside the edges to stay.
        up: "x", "y" or "z"; the skeleton's own by default.
        pose: (n,) [rad, m] The pose at which named sites are taken; the rest pose by default.
        weight: A number, three numbers or a symmetric 3x3 matrix W in world axes; an edge with normal n has n'W n.
        tolerance: [m] Error below which the goal counts as reached.
        label: Name in results; "balance" by default.
        priority: Level of the goal. Lower levels are solved first and never give way to higher ones.
        robust: [m] Error beyond which the force no longer grows; None: it always grows.
    """

    def __init__(
        self,
        polygon: Any = None,
        *,
        margin: float = 0.01,
        up: str | None = None,
        pose: Any = None,
        weight: Any = 100.0,
        tolerance: float = POSITION_TOLERANCE,
        label: str | None = None,
        priority: int = 0,
        robust: float | None = None,
    ):
        super().__init__(label, nonneg(tolerance, "Balance: tolerance"), priority, robust)
        self.weight = weight_matrix(weight, "Balance: weight")
        self.margin = nonneg(margin, "Balance: margin")
        if up is not None and up not in UP:
            raise GoalError("Balance: up", expected="'x', 'y' or 'z'", got=repr(up))
        self.up, self.pose = up, pose
        self.set_target(polygon)

    def set_target(self, target: Any) -> None:
        """Set the polygon: points (k, 3) [m], names, or None."""
        named = isinstance(target, (list, tuple, set, frozenset)) and all(isinstance(name, str) for name in target)
        if target is None or named:
            self.polygon: Any = None if target is None else tuple(target)
            if self.polygon == ():
                raise GoalError("Balance: polygon", expected="points (k, 3) or names", got="none")
            return
        self.polygon = numbers(target, (3,), "Balance: polygon")
        if self.polygon.ndim != 2 or len(self.polygon) < 3:
            raise GoalError("Balance: polygon", expected="at least 3 points (k, 3)", got=f"shape {self.polygon.shape}")

    def corners(self, skeleton: Skeleton) -> np.ndarray:
        """Return the points (k, 3) [m] of the polygon."""
        if isinstance(self.polygon, np.ndarray):
            return self.polygon
        frames = forward(skeleton, skeleton.rest if self.pose is None else self.pose)
        names = self.polygon
        if names is None:
            names = [name for name in skeleton.site_names if name.lower().startswith(FEET)]
        centers = np.array([frames.position(name) for name in names]).reshape(-1, 3)
        if len(names) >= 3:
            return centers
        if self.polygon is None:
            found = ground_points(skeleton, frames, UP.get(self.up or skeleton.up or "", 2))
            got = f"{len(names)} sites of feet, and {len(found)} points of shapes that touch the ground"
        else:
            found = points_of_links(skeleton, frames, names)
            got = f"{len(names)} names, of links without shapes"
        if len(found) < 3:
            links = "names such as Balance(['left_foot', 'right_foot']) of links with shapes, or of three sites"
            raise GoalError("Balance: polygon", expected=f"points (k, 3), or {links}", got=got)
        return found

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """One SIDE spring on the centre of mass per edge of the hull; they share one error."""
        check_mass(skeleton, self)
        up = UP.get(self.up or skeleton.up or "", -1)
        if up < 0:
            raise GoalError(
                "Balance: up", expected="'x', 'y' or 'z', as the figure does not say which way is up", got=None
            )
        flat = [(up + 1) % 3, (up + 2) % 3]
        points = self.corners(skeleton)
        hull = points[convex_hull(points[:, flat])]
        out = []
        for a, b in zip(hull, np.roll(hull, -1, axis=0), strict=True):
            along = (b - a)[flat]
            along /= np.linalg.norm(along)
            data, normal = np.zeros(CONSTANTS), np.zeros(3)
            normal[flat] = -along[1], along[0]  # inward: the hull is counter-clockwise
            w = float(weight_along(self.weight, normal))
            set_weight(data, np.array([w, 0.0, 0.0, 0.0, 0.0, 0.0]), self.robust)
            data[SIZE] = self.margin
            out.append(Spring(SIDE_SPRING, CENTER, data, target_row(a, normal), self.tolerance))
        return out


def convex_hull(points: np.ndarray) -> np.ndarray:
    """Return the indices of the convex hull of points (k, 2), counter-clockwise.

    Raises:
        GoalError: The points are collinear.
    """
    order = np.lexsort((points[:, 1], points[:, 0]))

    def chain(indices: Any) -> list[int]:
        out: list[int] = []
        for k in indices:
            while len(out) >= 2:
                u, v = points[out[-1]] - points[out[-2]], points[k] - points[out[-2]]
                if u[0] * v[1] - u[1] * v[0] > 1e-12:
                    break
                out.pop()
            out.append(int(k))
        return out

    hull = chain(order)[:-1] + chain(order[::-1])[:-1]
    if len(hull) < 3:
        raise GoalError(
            "Balance: polygon", expected="points that span an area, seen from above", got="collinear points"
        )
    return np.array(hull)


def ground_points(skeleton: Skeleton, frames: Frames, up: int) -> np.ndarray:
    """Return the points (k, 3) [m] of a robot's shapes that touch the floor, within 1 cm."""
    points, heights = [np.zeros((0, 3))], [np.zeros(0)]
    for shape in skeleton.shapes:
        if shape.collides and shape.joint != WORLD and shape.kind != "plane":
            place = frames.convert(shape.points, from_=shape.joint)
            points.append(place)
            heights.append(place[:, up] - shape.radius)
    every, low = np.concatenate(points), np.concatenate(heights)
    return every[low < low.min(initial=np.inf) + 0.01]


def points_of_links(skeleton: Skeleton, frames: Frames, names: Iterable[str]) -> np.ndarray:
    """Return the points (k, 3) [m] of the shapes of joints, given by their names or those of sites on them."""
    homes = {site.name: site.joint for site in skeleton.sites}
    joints = {homes.get(name, name) for name in names}
    shapes = [shape for shape in skeleton.shapes if shape.collides and shape.joint in joints]
    return np.concatenate([np.zeros((0, 3)), *(frames.convert(shape.points, from_=shape.joint) for shape in shapes)])
