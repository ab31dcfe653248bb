"""Goals that move: `follow` solves them frame by frame on one branch and reports on every frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from posable._solve import as_solver, box_of, starts_of
from posable.control import limit_of
from posable.engine.joints import SLIDE, TURN
from posable.engine.layout import FRAME, KIND, SPRING_KIND
from posable.engine.springs import ORIENTATION_SPRING
from posable.errors import GoalError, PosableError
from posable.goals.base import Goal, nonneg
from posable.goals.joint import Posture
from posable.mocap.retime import timed
from posable.mocap.smooth import smooth_goals
from posable.mocap.unwrap import WHOLE_TURN, full_turn_angles, within_turns
from posable.model.motion import Motion, frame_rate
from posable.model.skeleton import Skeleton
from posable.problem import Problem
from posable.solvers.base import SolveOptions
from posable.solvers.continuous import Continuous, follow_frames
from posable.solvers.hierarchy import solve_in_runs
from posable.solvers.newton import Newton
from posable.solvers.result import Result

NEAR = 1e-5  # weight of the motion to stay near
RESTARTS = 8  # for a first frame that is not reached
COARSE = 0.1  # [rad, m] a frame that moves a joint farther is solved again in smaller steps
PARTS = 8  # of such a frame
JUMP = np.radians(20.0)  # [rad] change of a robot's joint per frame that counts as a jump
STARTS = 32  # random starts at each frame from which start="any" searches
SAME = 1e-2  # [rad, m] closer poses are the same


@dataclass(frozen=True, eq=False)
class Followed(Motion):
    """A motion that follows goals.

    Attributes:
        ok: (T,) whether the frame reaches its goals within every limit, without a jump from the previous frame.
        errors: goal -> (T,) [m, rad]; 0 between waypoints that joints connect (`straight=False`), where none is due.
        iterations: (T,) Newton steps of each frame.
        largest_step: [rad, m] of any degree of freedom between two frames; for angles that can make a whole turn (the
            root of a character, a ball joint), up to whole turns.
        target_frames: (T,) which frame of the targets each frame follows, fractional if the motion was retimed.
        reasons: why frames are not ok.
    """

    ok: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    errors: Mapping[str, np.ndarray] = field(default_factory=dict)
    iterations: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=int))
    largest_step: float = 0.0
    target_frames: np.ndarray = field(default_factory=lambda: np.zeros(0))
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = "; ".join((f"{int(self.ok.sum())} of {len(self)} frames reached", *self.reasons))
        if len(self) < 2:
            return text
        steps = frame_steps(self.skeleton, self.poses)
        frame, dof = np.unravel_index(int(steps.argmax()), steps.shape)
        size = f"{np.degrees(self.largest_step):.3g} degrees"
        if self.skeleton.figure.dof[dof, KIND] == SLIDE:
            size = f"{self.largest_step:.3g} m"
        return f"{text}; largest step {size} ({self.skeleton.dof_names[dof]}, to frame {frame + 1})"


def follow(
    skeleton: Skeleton,
    goals: Goal | Iterable[Goal],
    *,
    fps: float,
    start: Any = None,
    smooth: float = 0.0,
    near: Any = None,
    velocity: Any = None,
    acceleration: Any = None,
    duration: float | str | None = None,
    times: Any = None,
    straight: bool = True,
    max_step: Any = None,
    max_iterations: int | None = None,
    solver: str = "newton",
    limits: bool = True,
    restarts: int = RESTARTS,
    seed: int = 0,
) -> Followed:
    """Return the motion that follows goals whose targets change over time.

    Each frame starts from the previous one and stays on its branch. A goal has a target for each frame, such as (T, 3),
    or one for all frames, such as (3,). A straight line is `np.linspace(a, b, 21)` (Parent, Kinematic Linkages).

    Args:
        skeleton: The figure.
        goals: One goal or several, at least one with targets for T frames.
        fps: Frames per second.
        start: (n,) [rad, m] Start of the first frame. None: the rest pose, with `restarts` if the goals are not
            reached. "any": search the branches of the figure and both directions of the path for the shortest path that
            can be followed completely.
        smooth: [s] Remove faster motion at the end, over all frames.
        near: A motion, or poses (T, n) or (n,) [rad, m], to stay close to where the goals leave freedom: a `Posture`.
        velocity: [rad/s, m/s] Limits, a number or (n,); a frame that exceeds one is not ok.
        acceleration: [rad/s^2, m/s^2] Limits, as for velocity.
        duration: [s] Duration of the motion along the same path, from rest to rest; "fastest": as fast as limits allow.
            None: frame t of the targets is at t / fps.
        times: (T,) [s] Times of the targets, which are then waypoints; the motion is sampled at fps between them.
            "fastest": waypoints without times, passed as fast as the limits allow.
        straight: Between waypoints, targets move along straight lines and rotate uniformly; False: joints take the
            shortest way.
        max_step: [rad, m] per frame, a number or (n,); a frame in which a degree of freedom moves farther is not ok.
            By default 20 degrees for figures whose joints have one degree of freedom each, no limit for characters.
        max_iterations: Newton steps per frame, at most.
        solver: Solver for goals that are not springs (choices, priorities, energies in Python).
        limits: Whether joint limits hold.
        restarts: Number of random starts for the first frame if it is not reached.
        seed: Seed of the random starts.

    Returns:
        The motion, with .ok, .errors, .iterations and .largest_step.

    Raises:
        GoalError: No goal has targets for T frames.
        SolverError: A limit is not positive.
    """
    fps, smooth = frame_rate(fps, "follow: fps"), nonneg(smooth, "follow: smooth")
    problem = _over_time(skeleton, goals if near is None else _with_near(skeleton, goals, near))
    n, total = skeleton.size, problem.batch_shape[0]
    speed = np.full(n, np.inf) if velocity is None else limit_of(velocity, n, "velocity")
    accel = np.full(n, np.inf) if acceleration is None else limit_of(acceleration, n, "acceleration")
    follower = _PathFollower(skeleton, solver, limits, restarts, seed, max_iterations)
    at = np.arange(total, dtype=float)
    if times is not None:
        at, duration = _between_waypoints(times, total, fps, duration)
    keys = None
    if times is not None and not straight:
        keys, counts = follower.through(problem, start)
        poses, iterations = _joined(keys, at), counts[np.round(at).astype(int)]
    else:
        path = problem if times is None else frames_at(problem, at)
        poses, iterations = follower.along(path, start)
        if smooth > 0.0 and len(poses) > 2:
            poses = smooth_goals(path, poses, fps, smooth, limits=limits)
    poses = within_turns(skeleton, poses) if limits else poses
    if duration is not None and len(poses) > 1:
        poses, at, iterations = _timed(poses, at, iterations, fps, duration, speed, accel)
    most = _largest(skeleton, max_step)
    return _judged(skeleton, problem, poses, fps, at, iterations, limits, speed, accel, most, keys)


def _with_near(skeleton: Skeleton, goals: Goal | Iterable[Goal], near: Any) -> list[Goal]:
    """Return goals, and a posture over the frames of a motion to stay near."""
    goals = [goals] if isinstance(goals, Goal) else list(goals)
    posture = Posture(near, weight=NEAR, label="near")
    total, given = Problem(skeleton, goals).batch_shape, Problem(skeleton, posture).batch_shape
    if given and given != total:
        raise GoalError("follow: near", expected=f"one pose, or poses for {total} frames", got=f"poses for {given}")
    return [*goals, posture]


def _judged(skeleton, problem, poses, fps, at, iterations, limits, speed, accel, max_step, keys) -> Followed:
    """Return the motion with its report: every frame against its goals and every limit.

    keys: (W, n) the poses at waypoints that joints connect; None where every frame has targets.
    """
    total = len(poses)
    errors = _errors_at_waypoints(problem, keys, at) if keys is not None else _errors(problem, poses, at)
    good, reasons = np.ones(total, dtype=bool), []
    for name, springs in problem.error_groups.items():
        missed = ~(errors[name] <= problem.tolerances[springs].max())
        good &= ~missed
        if missed.any():
            reasons.append(f"{name} by up to {errors[name].max():.3g}")
    reasons = [", ".join(reasons)] if reasons else []
    if limits:
        good &= ((poses >= skeleton.lower - 1e-9) & (poses <= skeleton.upper + 1e-9)).all(axis=1)
    largest = 0.0
    if total > 1:
        steps = frame_steps(skeleton, poses)
        largest = float(steps.max(initial=0.0))
        good[1:] &= (steps <= np.minimum(max_step, speed / fps) + 1e-9).all(axis=1)
        reasons += _beyond(skeleton, "velocity", steps * fps / speed, 1.0 + 1e-9)
    if total > 2 and np.isfinite(accel).any():
        bend = np.abs(np.diff(poses, n=2, axis=0)) * fps * fps
        good[1:-1] &= (bend <= accel * (1.0 + 1e-6) + 1e-9).all(axis=1)
        reasons += _beyond(skeleton, "acceleration", bend / accel, 1.0 + 1e-6)
    if not good.all() and not reasons:
        reasons.append("a jump")
    report = {"ok": good, "errors": errors, "iterations": iterations, "largest_step": largest, "target_frames": at}
    return Followed(skeleton, poses, fps, **report, reasons=tuple(reasons))


def _errors(problem: Problem, poses: np.ndarray, at: np.ndarray) -> dict[str, np.ndarray]:
    """Return the errors (T,) [m, rad] of each goal at poses (T, n) that follow the (fractional) frames `at` (T,)."""
    if not len(poses):
        return {name: np.zeros(0) for name in problem.error_groups}
    whole = len(at) == problem.batch_shape[0] and (at == np.arange(len(at))).all()
    asked = problem if whole else frames_at(problem, at)
    return {name: np.atleast_1d(values) for name, values in asked.errors(poses).items()}


def _errors_at_waypoints(problem: Problem, keys: np.ndarray, at: np.ndarray) -> dict[str, np.ndarray]:
    """Return the same for frames between waypoints: the error of each waypoint, at the frame next to it."""
    nearest = np.abs(at[:, None] - np.arange(len(keys))).argmin(axis=0)
    out = {}
    for name, values in problem.errors(keys).items():
        out[name] = np.zeros(len(at))
        np.maximum.at(out[name], nearest, np.atleast_1d(values))
    return out


def _beyond(skeleton: Skeleton, what: str, shares: np.ndarray, most: float) -> list[str]:
    """Return which dof is farthest beyond a limit, as text; shares (T, n) of the limit."""
    if not (shares > most).any():
        return []
    dof = int(shares.max(axis=0).argmax())
    share = f"{skeleton.dof_names[dof]} at {shares.max():.0%} of its {what} limit"
    return [f"{share} (a longer duration or duration='fastest' stays within it)"]


def _largest(skeleton: Skeleton, max_step: Any) -> np.ndarray:
    """Return how far each dof (n,) may move in a frame."""
    if max_step is not None:
        return limit_of(max_step, skeleton.size, "max_step")
    turns = np.array([dof.kind == TURN for joint in skeleton.joints for dof in joint.motion.dofs], dtype=bool)
    robot = all(len(joint.motion.dofs) <= 1 for joint in skeleton.joints)
    return np.where(turns & robot, JUMP, np.inf)


def frame_steps(skeleton: Skeleton, poses: np.ndarray) -> np.ndarray:
    """Return the change (T-1, n) [rad, m] of each dof between frames, up to whole turns for angles that wrap."""
    steps = np.diff(poses, axis=0)
    round_ = comes_round(skeleton)
    steps[:, round_] -= WHOLE_TURN * np.round(steps[:, round_] / WHOLE_TURN)
    return np.abs(steps)


def comes_round(skeleton: Skeleton) -> np.ndarray:
    """Return (n,) bool: angles of joints with several dofs whose limits allow a whole turn, such as a character's root.

    The values of such a joint may jump by a whole turn where its rotation does not. A hinge is different: without
    limits its angle is continuous, and a range wider than a turn is a limit like any other.
    """
    several = np.zeros(skeleton.size, dtype=bool)
    for joint, where in zip(skeleton.joints, skeleton.slices, strict=True):
        several[where] = len(joint.motion.dofs) > 1
    return full_turn_angles(skeleton) & several


def frames_at(problem: Problem, at: np.ndarray) -> Problem:
    """Return the problem whose frames are at (K,) of another one's: targets between frames move on straight lines and
    turn evenly.
    """
    out = problem.copy()
    total = problem.batch_shape[0]
    low = np.clip(np.floor(at).astype(int), 0, max(total - 2, 0))
    high = np.minimum(low + 1, total - 1)
    part = (at - low)[:, None, None]
    for name in ("constants", "targets"):
        rows = getattr(problem, name)
        if rows.shape[0] > 1:
            setattr(out, name, (1.0 - part) * rows[low] + part * rows[high])
    if problem.targets.shape[0] > 1:
        _turn_evenly(out, problem.targets[low], problem.targets[high], at - low)
    out.batch_shape = (len(at),)
    return out


def _over_time(skeleton: Skeleton, goals: Goal | Iterable[Goal]) -> Problem:
    """Return the problem of goals with targets for T frames."""
    problem = Problem(skeleton, goals)
    if len(problem.batch_shape) != 1:
        wanted = "goals with targets for T frames, such as (T, 3)"
        raise GoalError("follow", expected=wanted, got=f"leading axes {problem.batch_shape}")
    return problem


def _frames(problem: Problem, first: int, last: int) -> Problem:
    """Return the frames of a problem from number `first` to `last`."""
    out = problem.part(first, last)
    out.batch_shape = (last - first,)
    return out


def _turn_evenly(problem: Problem, before: np.ndarray, after: np.ndarray, part: np.ndarray) -> None:
    """Replace blended rotations and directions in problem.targets by ones between before and after (K, g, TARGETS)."""
    from scipy.spatial.transform import Rotation

    for k, kind in enumerate(problem.kind[:, SPRING_KIND]):
        if kind == ORIENTATION_SPRING:
            first = Rotation.from_matrix(before[:, k, FRAME : FRAME + 9].reshape(-1, 3, 3))
            turn = (first.inv() * Rotation.from_matrix(after[:, k, FRAME : FRAME + 9].reshape(-1, 3, 3))).as_rotvec()
            mixed = first * Rotation.from_rotvec(part[:, None] * turn)
            problem.targets[:, k, FRAME : FRAME + 9] = mixed.as_matrix().reshape(-1, 9)
        else:
            way = problem.targets[:, k, FRAME : FRAME + 3]
            length = np.linalg.norm(way, axis=1, keepdims=True)
            unit = np.abs(np.linalg.norm(before[:, k, FRAME : FRAME + 3], axis=1) - 1.0) < 1e-6
            way[unit] /= np.maximum(length[unit], 1e-12)


class _PathFollower:
    """Follows frames on one branch within hard limits, in smaller steps where a frame moves far."""

    def __init__(self, skeleton, solver, limits, restarts, seed, max_iterations):
        self.skeleton, self.solver, self.limits = skeleton, solver, limits
        self.restarts, self.seed, self.most = restarts, seed, max_iterations
        self.lower, self.upper = box_of(skeleton, skeleton.rest.reshape(1, -1), limits)
        open_ = comes_round(skeleton)
        self.lower, self.upper = np.where(open_, -np.inf, self.lower), np.where(open_, np.inf, self.upper)

    def from_start(self, problem: Problem, start: Any) -> tuple[np.ndarray, np.ndarray]:
        """Follow from a pose (n,), or from the best pose that restarts find for the first frame."""
        total = problem.batch_shape[0]
        if not total:
            return np.empty((0, self.skeleton.size)), np.zeros(0, dtype=int)
        if start is not None and problem.plain and self.solver == "newton":
            one = _frames(problem, 0, 1)
            one.batch_shape = ()
            given, _ = starts_of(one, start)
            self._freeze(given[0])
            pose = np.clip(given[0], self.lower, self.upper)
            return self.frame_by_frame(problem, follow_frames(one, pose, self.lower, self.upper, frames=1)[0][0])
        first = self.frame(problem, 0, start, self.restarts if start is None else 0)
        self._freeze(first.pose)
        if problem.plain and self.solver == "newton":
            return self.frame_by_frame(problem, first.pose)
        poses, iterations = np.empty((total, self.skeleton.size)), np.zeros(total, dtype=int)
        result = first
        for t in range(total):
            result = first if t == 0 else self.frame(problem, t, result.pose, 0)
            poses[t], iterations[t] = result.pose, result.iterations
        return poses, iterations

    def _freeze(self, pose: np.ndarray) -> None:
        frozen = self.skeleton.frozen
        self.lower, self.upper = np.where(frozen, pose, self.lower), np.where(frozen, pose, self.upper)

    def frame(self, problem: Problem, frame: int, start: Any, restarts: int) -> Result:
        """Solve one frame; without restarts, on the branch of its start."""
        one = problem.part(frame, frame + 1)
        one.batch_shape = ()
        method = Continuous() if self.solver == "newton" and not restarts else as_solver(self.solver)
        starts, _ = starts_of(one, start)
        lower, upper = box_of(self.skeleton, starts, self.limits)
        options = SolveOptions(np.clip(starts, lower, upper), lower, upper, self.most, restarts, self.seed)
        if one.plain:
            return Result(one, method.run(one, options), options, method.name, 0.0)
        one, outcome, _ = solve_in_runs(one, method, options)
        return Result(one, outcome, options, method.name, 0.0)

    def frame_by_frame(self, problem: Problem, first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Follow frames from a pose near the first one; a frame that moves far is solved again in PARTS."""
        total = problem.batch_shape[0]
        poses, iterations = np.empty((total, self.skeleton.size)), np.zeros(total, dtype=int)
        t, last = 0, first
        while t < total:
            part = problem if t == 0 else _frames(problem, t, total)
            poses[t:], _, iterations[t:], _ = follow_frames(
                part, last, self.lower, self.upper, max_step=0.5, max_iterations=self.most, frames=total - t
            )
            steps = np.abs(np.diff(np.vstack([last, poses[t:]]), axis=0)).max(axis=1)
            far = np.flatnonzero(steps > COARSE)
            far = far[far + t > 0]
            if not far.size:
                break
            t += int(far[0])
            before = poses[t - 1] if t else last
            fine = frames_at(problem, t - 1 + np.arange(1, PARTS + 1) / PARTS)
            found, _, counts, _ = follow_frames(
                fine, before, self.lower, self.upper, max_step=COARSE, max_iterations=self.most, frames=PARTS
            )
            poses[t], iterations[t] = found[-1], counts.sum()
            last = poses[t]
            t += 1
        return poses, iterations

    def along(self, path: Problem, start: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return poses (T, n) and iterations (T,) from a start: a pose, None for the rest pose, or "any"."""
        if not isinstance(start, str):
            return self.from_start(path, start)
        self._is_any(start)
        return self.from_anywhere(path)

    def _is_any(self, start: str) -> None:
        if start != "any":
            raise PosableError(f"follow: start: expected a pose, None or 'any', got {start!r}")

    def through(self, problem: Problem, start: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return poses (W, n) at waypoints that joints connect, each found from the last one, and iterations (W,).

        Where a waypoint is not reached on the branch of the last one, another branch may reach it.
        """
        if not isinstance(start, str):
            return self._through(problem, start)[1:]
        self._is_any(start)
        found = self._branches(problem, 0, full_turn_angles(self.skeleton)) or [None]
        return max((self._through(problem, pose) for pose in found), key=lambda one: one[0])[1:]

    def _through(self, problem: Problem, start: Any) -> tuple[tuple[int, float], np.ndarray, np.ndarray]:
        """Return the same from one start; first the number of waypoints reached and minus the length of the path."""
        total = problem.batch_shape[0]
        poses, iterations, reached = np.empty((total, self.skeleton.size)), np.zeros(total, dtype=int), 0
        wide = full_turn_angles(self.skeleton)
        last = start
        for t in range(total):
            result = self.frame(problem, t, last, 0)
            if not result.ok and self.restarts:
                other = self.frame(problem, t, last, self.restarts)
                result = self.frame(problem, t, other.pose, 0) if other.ok else result
            pose = result.pose.copy()
            if t:  # the same pose, fewer turns away, where the limits allow it
                near = np.where(wide, pose - WHOLE_TURN * np.round((pose - poses[t - 1]) / WHOLE_TURN), pose)
                pose = np.where((near >= self.lower) & (near <= self.upper), near, pose)
            else:
                self._freeze(pose)
            poses[t], iterations[t], last = pose, result.iterations, pose
            reached += bool(result.ok)
        return (reached, -float(np.abs(np.diff(poses, axis=0)).sum())), poses, iterations

    def from_anywhere(self, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
        """Follow from poses of every branch at the first, the middle and the last frame; return the best path.

        Joints whose range is wider than a turn are followed without limits; if possible, the path is then shifted by
        whole turns into the limits.
        """
        if not problem.plain or self.solver != "newton":
            raise PosableError("follow: start='any' expects goals that are springs, and the solver 'newton'")
        total = problem.batch_shape[0]
        if not total:
            return self.from_start(problem, None)
        self._freeze(np.clip(self.skeleton.rest, self.lower, self.upper))
        wide = full_turn_angles(self.skeleton)
        limits = self.lower, self.upper
        self.lower, self.upper = np.where(wide, -np.inf, self.lower), np.where(wide, np.inf, self.upper)
        best: tuple[Any, np.ndarray, np.ndarray] | None = None
        allowed = _largest(self.skeleton, None)
        for anchor in dict.fromkeys((0, total - 1, total // 2)):
            for pose in self._branches(problem, anchor, wide):
                ahead, first = self.frame_by_frame(_frames(problem, anchor, total), pose)
                behind, second = ahead[:0], first[:0]
                if anchor:
                    back = frames_at(problem, np.arange(anchor, -1, -1, dtype=float))
                    behind, second = self.frame_by_frame(back, ahead[0])
                poses = np.vstack([behind[:0:-1], ahead])
                poses = _into_limits(poses, *limits, wide)
                score = self._score(problem, poses, limits, allowed)
                if best is None or score > best[0]:
                    best = score, poses, np.concatenate([second[:0:-1], first])
        self.lower, self.upper = limits
        if best is None:
            return self.from_start(problem, None)
        return best[1], best[2]

    def _branches(self, problem: Problem, frame: int, wide: np.ndarray) -> list[np.ndarray]:
        """Return poses that reach a frame and differ by at least SAME, up to whole turns."""
        rng = np.random.default_rng([self.seed % 2**64, frame])
        low, high = np.maximum(self.lower, -np.pi), np.minimum(self.upper, np.pi)
        starts = rng.uniform(low, np.maximum(high, low), (STARTS, self.skeleton.size))
        starts = np.vstack([np.clip(self.skeleton.rest, self.lower, self.upper), starts])
        one = problem.part(frame, frame + 1)
        one.batch_shape = (len(starts),)
        self.lower.flags.writeable = self.upper.flags.writeable = False
        outcome = Newton().run(one, SolveOptions(starts, self.lower, self.upper, None, 1, self.seed))
        reached = (outcome.errors <= one.tolerances).all(axis=1)
        found: list[np.ndarray] = []
        for pose in outcome.poses[reached]:
            gaps = [pose - other for other in found]
            for gap in gaps:
                gap[wide] -= WHOLE_TURN * np.round(gap[wide] / WHOLE_TURN)
            if all(np.abs(gap).max() > SAME for gap in gaps):
                found.append(pose)
        return found

    def _score(self, problem: Problem, poses: np.ndarray, limits, allowed: np.ndarray) -> tuple[int, float]:
        """Return the number of frames that are followed, and minus the length of the path: higher is better."""
        steps = np.abs(np.diff(poses, axis=0))
        values = np.array([problem.evaluate(pose, member=t)[3] for t, pose in enumerate(poses)])
        good = np.asarray((values <= problem.tolerances).all(axis=1))
        if self.limits:
            good &= ((poses >= limits[0] - 1e-9) & (poses <= limits[1] + 1e-9)).all(axis=1)
        good[1:] &= (steps <= allowed).all(axis=1)
        return int(good.sum()), -float(steps.sum())


def _into_limits(poses: np.ndarray, lower: np.ndarray, upper: np.ndarray, wide: np.ndarray) -> np.ndarray:
    """Shift each angle of a path (T, n) that allows it by whole turns, to where it is farthest inside its limits."""
    out = poses.copy()
    for i in np.flatnonzero(wide & np.isfinite(lower) & np.isfinite(upper)):
        middle = 0.5 * (poses[:, i].min() + poses[:, i].max())
        out[:, i] -= WHOLE_TURN * np.round((middle - 0.5 * (lower[i] + upper[i])) / WHOLE_TURN)
    return out


# --------------------------------------------------------------------------------------------------------- waypoints


def _between_waypoints(times: Any, total: int, fps: float, duration: Any) -> tuple[np.ndarray, Any]:
    """Return the (fractional) waypoint (T,) of each frame of a motion, and the duration that remains to be chosen."""
    if isinstance(times, str):
        if times != "fastest":
            raise PosableError(f"follow: times: expected (T,) seconds or 'fastest', got {times!r}")
        per = 50  # frames between two waypoints, before they are timed
        return np.linspace(0.0, total - 1.0, per * (total - 1) + 1), duration or "fastest"
    when = np.asarray(times, dtype=float)
    if when.shape != (total,) or not np.isfinite(when).all() or (np.diff(when) <= 0.0).any():
        raise PosableError(f"follow: times: expected {total} increasing numbers of seconds, got {times!r}")
    count = int(np.floor((when[-1] - when[0]) * fps + 1e-9)) + 1
    at = np.interp(when[0] + np.arange(count) / fps, when, np.arange(total))
    return at, duration


def _joined(keys: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return poses (T, n) at fractional waypoints `at` (T,): between waypoints all joints move evenly."""
    low = np.clip(np.floor(at).astype(int), 0, max(len(keys) - 2, 0))
    part = (at - low)[:, None]
    return (1.0 - part) * keys[low] + part * keys[np.minimum(low + 1, len(keys) - 1)]


def _timed(poses, at, iterations, fps, duration, speed, accel):
    """Retime a path: poses, `at` and iterations at the frames of the new motion."""
    if isinstance(duration, str):
        if duration != "fastest":
            raise PosableError(f"follow: duration: expected seconds or 'fastest', got {duration!r}")
        if not (np.isfinite(speed).any() or np.isfinite(accel).any()):
            raise PosableError("follow: duration='fastest': expected velocity= or acceleration=, got neither")
        seconds = None
    else:
        seconds = float(duration)
        if not 0.0 < seconds < np.inf:
            raise PosableError(f"follow: duration: expected seconds above 0 or 'fastest', got {duration!r}")
    place, out = timed(poses, fps, seconds, speed, accel)
    return out, np.interp(place, np.arange(len(at)), at), iterations[np.round(place).astype(int)]
