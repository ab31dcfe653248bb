"""The limb in closed form: Tolani et al. 2000, all of it, behind one class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from posable.errors import GoalError
from posable.limb.aim import aim
from posable.limb.base import LimbCore
from posable.limb.partial_orientation import reachable_spins, solve_partial
from posable.limb.redundancy import (
    aim_solutions,
    aim_swivel_ranges,
    aim_with_objective,
    partial_solutions,
    partial_swivel_ranges,
    partial_with_objective,
    solve_with_objective,
)
from posable.limb.solution import LimbSolution, SwivelRange


class Limb(LimbCore):
    """An arm or a leg: a ball joint, a hinge on its bone, a ball joint on that bone, and a site to place.

    skeleton: any figure. first, middle, last: joints of it that form a limb, or SkeletonError says why they do not;
    rigid joints may stand between them. site: what is placed; by default the last joint itself. reference (3,): the
    direction in the world where the swivel angle is zero; by default straight down.

    The swivel angle turns the middle joint about the line from the first joint to the goal: to the last joint for a
    pose target, to the site for a position. Every angle is found in closed form (Tolani et al. 2000, section 3).
    """

    def solve(
        self,
        target: Any,
        *,
        swivel: Any = None,
        elbow: Any = None,
        objective: Callable[..., Any] | str | None = None,
        limits: bool = True,
        base: Any = None,
    ) -> LimbSolution:
        """Bring the site to a target: (4, 4) or RigidTransform for a pose, (3,) [m] for a place; leading axes for many.

        swivel [rad]: the angle wanted; with limits on, the nearest that holds them. elbow (3,) [m]: where the middle
        joint should be near. objective: a function of the pose (n,), least along the swivel; it may return its gradient
        (n,) too; "middle" is Tolani et al.'s F, the squared distances of the ball joints' angles from the middle of
        their ranges. With none of them: the middle of the widest range that holds every limit. base (n,): the pose of
        the rest of the figure, by default at rest.

        A place is reached with the last joint as it is in base, if any swivel angle then holds the limits; else with it
        held another way, the same whatever is wished: `swivel_ranges`, `solutions` and `elbow_circle` are about that.

        Out of reach, the answer holds the limits, brings the last joint as near as it can, then the orientation; `ok`
        is false and the message says why.
        """
        options = {"swivel": swivel, "elbow": elbow, "objective": objective}
        given = [name for name, value in options.items() if value is not None]
        if len(given) > 1:
            raise GoalError("solve", expected="at most one of swivel, elbow, objective", got=" and ".join(given))
        if objective is not None:
            return solve_with_objective(self, target, objective, limits=limits, base=base)
        return self.solve_target(target, swivel=swivel, elbow=elbow, limits=limits, base=base)

    def solve_partial(
        self,
        position: Any,
        axis: Any,
        along: Any,
        *,
        swivel: Any = None,
        spin: Any = None,
        wrist: Any = None,
        objective: Callable[..., Any] | str | None = None,
        limits: bool = True,
        base: Any = None,
    ) -> LimbSolution:
        """Bring the site to a place (3,) [m] with its `axis` ("x", ... or (3,)) along a direction (3,) of the world.

        Leading axes for many. Two angles are free: the swivel, and the spin about the direction, zero where the axis of
        the site after `axis` points along the limb's reference direction. spin [rad]: given. wrist: "highest",
        "lowest", or a point (3,) [m] that the last joint should be near; with limits on, as near as they allow. Without
        either it is the middle of the reachable spins; with limits on, a search over both angles, all branches and all
        families begins there and ends with the first answer that stays 0.1 rad clear of every limit, or with the one
        that stays farthest. objective: as in `solve`, least over both angles (one goal at a time).
        """
        if objective is not None:
            _alone("solve_partial", "objective", swivel=swivel, spin=spin, wrist=wrist)
            return partial_with_objective(self, position, axis, along, objective, limits=limits, base=base)
        return solve_partial(
            self, position, axis, along, swivel=swivel, spin=spin, wrist=wrist, limits=limits, base=base
        )

    def partial_solutions(
        self, position: Any, axis: Any, along: Any, *, swivel: float = 0.0, spin: float = 0.0, base: Any = None
    ) -> list[LimbSolution]:
        """Return every solution of a partial orientation at given angles: both bends, both families of each ball joint.

        Args:
            position: (3,) [m], the place of the site.
            axis: "x", ... or (3,), an axis of the site.
            along: (3,), the direction of that axis in the world.
            swivel: [rad].
            spin: [rad], about the direction.
            base: (n,), the pose of the rest of the figure, by default at rest.

        Returns:
            The solutions. Limits are not enforced: `ok` says which of them hold them.
        """
        return partial_solutions(self, position, axis, along, swivel=swivel, spin=spin, base=base)

    def partial_swivel_ranges(
        self, position: Any, axis: Any, along: Any, *, spin: float, base: Any = None
    ) -> list[SwivelRange]:
        """Return all ranges of swivel angles [rad] at which a partial orientation with a spin holds every limit."""
        return partial_swivel_ranges(self, position, axis, along, spin=spin, base=base)

    def reachable_spins(
        self, position: Any, axis: Any, along: Any, *, limits: bool = True, base: Any = None
    ) -> list[tuple[float, float]]:
        """Return the ranges [(lo, hi), ...] of spins [rad] at which the bend lets the last joint be where it must."""
        return reachable_spins(self, position, axis, along, limits=limits, base=base)

    def aim(
        self,
        point: Any,
        axis: Any,
        *,
        bend: Any = None,
        swivel: Any = None,
        objective: Callable[..., Any] | str | None = None,
        limits: bool = True,
        base: Any = None,
    ) -> LimbSolution:
        """Aim the site's own `axis` ("x", ... or (3,)) from the site at a point (3,) [m] of the world.

        Leading axes for many. bend [rad]: the middle joint's angle; without it, one that stays 0.1 rad clear of every
        limit, from the middle of its range on, or as far as it can; with limits off, the one nearest to its rest.
        swivel [rad]: about the line from the first joint to the point; with limits on, the nearest that holds them. The
        last joint stays as it is in base. objective: as in `solve`, least over the bend and the swivel (one goal at a
        time). Out of reach, the aim comes as near as it can.
        """
        if objective is not None:
            _alone("aim", "objective", bend=bend, swivel=swivel)
            return aim_with_objective(self, point, axis, objective, limits=limits, base=base)
        return aim(self, point, axis, bend=bend, swivel=swivel, limits=limits, base=base)

    def aim_solutions(
        self, point: Any, axis: Any, *, bend: float, swivel: float = 0.0, limits: bool = True, base: Any = None
    ) -> list[LimbSolution]:
        """Return every solution of an aim at given angles: both families of the first ball joint.

        Args:
            point: (3,) [m], to aim at.
            axis: "x", ... or (3,), an axis of the site.
            bend: [rad], the middle joint's angle.
            swivel: [rad], about the line from the first joint to the point.
            limits: Whether the last joint, which stays as it is in base, is brought inside its limits.
            base: (n,), the pose of the rest of the figure, by default at rest.

        Returns:
            The solutions, none where the point is too near for this bend. Limits are not enforced: `ok` says which of
            them hold them.
        """
        return aim_solutions(self, point, axis, bend=bend, swivel=swivel, limits=limits, base=base)

    def aim_swivel_ranges(self, point: Any, axis: Any, *, bend: float, base: Any = None) -> list[SwivelRange]:
        """Return all ranges of swivel angles [rad] at which an aim with a bend [rad] holds every limit."""
        return aim_swivel_ranges(self, point, axis, bend=bend, base=base)


def _alone(what: str, chosen: str, **others: Any) -> None:
    given = [name for name, value in others.items() if value is not None]
    if given:
        raise GoalError(what, expected=f"at most one of {', '.join((*others, chosen))}", got=f"{chosen}, {given[0]}")
