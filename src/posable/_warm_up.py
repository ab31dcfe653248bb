"""Ahead-of-time compilation of what a program will need, so that no later call waits for the compiler.

Compiled code does not depend on the figure or on the kinds of goals, only on which parts of Posable are used. Each
function below does a small piece of work that calls all compiled entries of one part.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from posable import figures, goals
from posable._explain import explain
from posable._reach import reach
from posable._solve import Session, solve
from posable.control import Controller
from posable.errors import PosableError, unknown
from posable.goals.base import Goal
from posable.limb import Limb
from posable.mocap.calibrate import calibrate
from posable.mocap.follow import follow
from posable.mocap.keyframes import keyframes
from posable.mocap.retarget import retarget
from posable.mocap.smooth import smooth
from posable.mocap.track import track
from posable.model.jacobians import jacobian, jacobian_rate
from posable.model.kinematics import forward
from posable.model.motion import Markers, Motion
from posable.model.skeleton import Skeleton
from posable.problem import Problem
from posable.solvers.base import SOLVERS

PLACE = (0.4, 0.9, 0.3)  # [m]: within the reach of the hand below


def solve_once(skeleton: Skeleton, wanted: list[Goal], solver: str) -> None:
    """Solve alone, in a session and in a batch, and read every attribute of the results."""
    _ = str(solve(skeleton, wanted, solver=solver, max_iterations=3))
    starts = np.tile(skeleton.rest, (32, 1))
    _ = solve(skeleton, wanted, start=starts, solver=solver, max_iterations=2).ok
    session = Session(skeleton, wanted, solver=solver, max_iterations=3)
    _ = session.solve().blocking


def _hand() -> tuple[Skeleton, list[Goal]]:
    human = figures.human()
    return human, [goals.Position("hand.R", PLACE), goals.Pose("head", forward(human, human.rest).matrix("head"))]


def _kinematics() -> None:
    human, wanted = _hand()
    for rows in ("position", "rotation", "pose", "axes"):
        jacobian(human, human.rest, "hand.R", rows=rows)
    for method in ("cross", "adjoint", "adjusted", "finite"):
        jacobian(human, human.rest, "hand.R", method=method)
    jacobian_rate(human, human.rest, np.zeros(human.size), "hand.R")
    problem = Problem(human, wanted)
    problem.hessian(human.rest), problem.hessian(human.rest, method="direct"), problem.residuals(human.rest)


def _limb() -> None:
    human = figures.human()
    limb = Limb(human, "shoulder.R", "elbow.R", "wrist.R", site="hand.R")
    target = forward(human, human.rest).matrix("hand.R")
    limb.solve(target), limb.solutions(target), limb.swivel_ranges(target), limb.elbow_circle(target)
    limb.swivel(human.rest), limb.solve_partial(target[:3, 3], "x", target[:3, 0]), limb.aim(PLACE, "x")


def _control() -> None:
    human, wanted = _hand()
    Controller(human, wanted, dt=0.01).step({"hand.R": PLACE})


def _motion() -> None:
    human = figures.human()
    clip = _clip(human)
    place = forward(human, human.rest).position("hand.R")
    follow(human, goals.Position("hand.R", np.tile(place, (8, 1))), fps=30.0, smooth=0.1)
    smooth(clip)
    keyframes(human, {0.0: clip.poses[0], 1.0: clip.poses[-1]}, fps=30.0)
    retarget(clip, human)


def _markers() -> None:
    human = figures.human()
    clip = _clip(human)
    names = tuple(name for name in human.site_names if name.isupper() or name[0].isupper())
    frames = forward(human, clip.poses)
    markers = Markers(names, np.stack([frames.position(name) for name in names], axis=1), clip.fps, "y")
    track(calibrate(human, markers), markers)


def _clip(human: Skeleton) -> Motion:
    swing = 0.1 * np.sin(np.linspace(0.0, 6.0, 60))[:, None]
    return Motion(human, np.clip(human.rest + swing, human.lower, human.upper), 60.0)


def _reach() -> None:
    human, wanted = _hand()
    explain(human, wanted, human.rest)
    reach(human, "hand.R", grid=0.5)


PARTS: dict[str, Callable[[], None]] = {
    "kinematics": _kinematics,
    "reach": _reach,
    "limb": _limb,
    "control": _control,
    "motion": _motion,
    "markers": _markers,
}


def warm_up(
    skeleton: Skeleton | None = None,
    wanted: Goal | Iterable[Goal] | None = None,
    *,
    solvers: Iterable[str] = ("newton",),
    parts: Iterable[str] = (),
    progress: Callable[[str, float], None] | None = None,
) -> dict[str, float]:
    """Compile, or load from the cache, what a program will need.

    Call it before a control loop, then `posable.forbid_compiling()`: whatever was left out then raises an error
    instead of stopping the loop for seconds.

    Args:
        skeleton: The figure to solve for; the human by default.
        wanted: Its goals; a position and a pose by default.
        solvers: The solvers to compile, by name.
        parts: What else is needed: "kinematics" (Jacobians, Hessians, residuals), "reach", "limb", "control", "motion"
            (follow, smooth, keyframes, retarget), "markers" (calibrate, track).
        progress: Called after each part with its name and the seconds that it took.

    Returns:
        The seconds of each part, by its name.
    """
    if not isinstance(skeleton, Skeleton | None):
        raise PosableError(f"warm_up: expected a Skeleton, got {skeleton!r}")
    figure, usual = _hand()
    figure = skeleton or figure
    given: list[Goal]
    if wanted is not None:
        given = [wanted] if isinstance(wanted, Goal) else list(wanted)
    elif skeleton is None:
        given = usual
    else:
        body = skeleton.site_names[-1] if skeleton.site_names else skeleton.names[-1]
        given = [goals.Pose(body, forward(skeleton, skeleton.rest).matrix(body))]
    jobs: list[tuple[str, Callable[[], Any]]] = []
    for solver in solvers:
        SOLVERS.get(solver)  # raises for an unknown name before anything is compiled
        jobs.append((f"solver {solver}", _solving(figure, given, solver)))
    for part in parts:
        if part not in PARTS:
            raise unknown("part", part, PARTS)
        jobs.append((part, PARTS[part]))
    taken = {}
    for name, job in jobs:
        begin = time.perf_counter()
        job()
        taken[name] = time.perf_counter() - begin
        if progress is not None:
            progress(name, taken[name])
    return taken


def _solving(skeleton: Skeleton, wanted: list[Goal], solver: str) -> Callable[[], None]:
    return lambda: solve_once(skeleton, wanted, solver)
