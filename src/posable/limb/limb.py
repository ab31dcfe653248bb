"""The limb in closed form behind one class (Tolani et al. 2000)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from posable.errors import GoalError
from posable.limb.aim import aim
from posable.limb.base import LimbCore
from posable.limb.partial_orientation import solve_partial
from posable.limb.redundancy import (
    aim_solutions,
    aim_swivel_ranges,
    aim_with_objective,
    partial_solutions,
    partial_swivel_ranges,
    partial_with_objective,
    reachable_spins,
    solve_with_objective,
)
from posable.limb.solution import LimbSolution


class Limb(LimbCore):
    """An arm or a leg: a ball joint, a hinge on its bone, a ball joint on that bone, and a site to place.

    The swivel angle turns the middle joint about the line from the first joint to the goal: the last joint for a pose
    target, the site for a position. Every angle is computed in closed form (Tolani et al. 2000, section 3).

    Args:
        skeleton: The figure.
        first: The ball joint at the base of the limb (shoulder, hip).
        middle: The hinge (elbow, knee). Rigid joints may lie between the three.
        last: The ball joint at its end (wrist, ankle).
        site: The joint or site that is placed; by default the last joint.
        reference: (3,) World direction at which the swivel angle is zero; by default straight down.

    Raises:
        SkeletonError: The joints do not form a limb; the message says why.
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
        """Bring the site to a target.

        A position is reached with the last joint as in `base` if some swivel angle then respects the limits. Otherwise
        the last joint moves too, in a way that does not depend on `swivel`, `elbow` or `objective`; `swivel_ranges`,
        `solutions` and `elbow_circle` describe that configuration.

        If the target is out of reach, the result respects the limits and brings first the last joint, then the
        orientation, as close as possible; `ok` is False and `message` says why.

        Args:
            target: (..., 4, 4) or RigidTransform for a pose, (..., 3) [m] for a position.
            swivel: [rad] The preferred swivel angle; with limits, the nearest that respects them.
            elbow: (..., 3) [m] A point that the middle joint should be close to.
            objective: A function of the pose (n,) to minimise along the swivel, which may also return its gradient
                (n,); or "middle" for Tolani et al.'s F, the sum of the squared distances of the ball joints' angles
                from the middle of their ranges. At most one of swivel, elbow and objective; without any of them, the
                middle of the widest range that respects every limit.
            limits: Whether joint limits hold.
            base: (..., n) The pose of the rest of the figure; by default the rest pose.

        Returns:
            The solution; its fields have the leading axes of the targets.
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
        """Bring the site to a position with one of its axes along a world direction.

        Two angles remain free: the swivel, and the spin about the direction. The spin is zero where the site's axis
        after `axis` points along the limb's reference direction. Without `spin` or `wrist` it is the middle of the
        reachable spins; with limits, a search over both angles and all branches starts there and ends at the first
        solution that stays 0.1 rad clear of every limit, or at the one with the largest clearance.

        Args:
            position: (..., 3) [m].
            axis: "x", "-y", ... or (3,), an axis of the site.
            along: (..., 3), the world direction of that axis.
            swivel: [rad] The preferred swivel angle.
            spin: [rad] The spin.
            wrist: "highest", "lowest", or a point (..., 3) [m] that the last joint should be close to, as far as the
                limits allow. At most one of spin and wrist.
            objective: As in `solve`, minimised over both angles; one goal at a time.
            limits: Whether joint limits hold.
            base: (..., n) The pose of the rest of the figure; by default the rest pose.

        Returns:
            The solution; its fields have the leading axes of the goals.
        """
        if objective is not None:
            _alone("solve_partial", "objective", swivel=swivel, spin=spin, wrist=wrist)
            return partial_with_objective(self, position, axis, along, objective, limits=limits, base=base)
        return solve_partial(
            self, position, axis, along, swivel=swivel, spin=spin, wrist=wrist, limits=limits, base=base
        )

    partial_solutions = partial_solutions
    partial_swivel_ranges = partial_swivel_ranges
    reachable_spins = reachable_spins

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
        """Aim an axis of the site at a point.

        The last joint stays as in `base`. If the point cannot be aimed at, the aim comes as close as possible.

        Args:
            point: (..., 3) [m], in the world.
            axis: "x", "-y", ... or (3,), an axis of the site.
            bend: [rad] The middle joint's angle. By default, starting from the middle of its range, the first that
                stays 0.1 rad clear of every limit, or the one with the largest clearance; without limits, the one
                nearest to the rest pose.
            swivel: [rad] The preferred angle about the line from the first joint to the point; with limits, the
                nearest that respects them.
            objective: As in `solve`, minimised over the bend and the swivel; one goal at a time.
            limits: Whether joint limits hold.
            base: (..., n) The pose of the rest of the figure; by default the rest pose.

        Returns:
            The solution; its fields have the leading axes of the points.
        """
        if objective is not None:
            _alone("aim", "objective", bend=bend, swivel=swivel)
            return aim_with_objective(self, point, axis, objective, limits=limits, base=base)
        return aim(self, point, axis, bend=bend, swivel=swivel, limits=limits, base=base)

    aim_solutions = aim_solutions
    aim_swivel_ranges = aim_swivel_ranges


def _alone(what: str, chosen: str, **others: Any) -> None:
    given = [name for name, value in others.items() if value is not None]
    if given:
        raise GoalError(what, expected=f"at most one of {', '.join((*others, chosen))}", got=f"{chosen}, {given[0]}")
