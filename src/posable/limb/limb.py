"""The limb in closed form behind one class (Tolani et al. 2000)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from posable.errors import GoalError
from posable.limb.base import LimbCore
from posable.limb.redundancy import (
    aim,
    aim_solutions,
    aim_swivel_ranges,
    partial_solutions,
    partial_swivel_ranges,
    reachable_spins,
    solve_partial,
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

    solve_partial = solve_partial
    partial_solutions = partial_solutions
    partial_swivel_ranges = partial_swivel_ranges
    reachable_spins = reachable_spins

    aim = aim
    aim_solutions = aim_solutions
    aim_swivel_ranges = aim_swivel_ranges
