"""The optimisation behind `retarget`: frame by frame for a start, over all frames, and again where that falls short.

The first pass smooths and holds the feet, the second keeps shapes apart and hands in contact. Frames in which feet
still slip, shapes overlap or joints are too fast are solved again, each with its neighbours.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.ndimage import gaussian_filter1d, maximum_filter1d

from posable.engine.layout import OFF, ROBUST, WEIGHT
from posable.goals import Orientation, Position
from posable.goals.base import Goal
from posable.mocap.branches import choose_branches, followed
from posable.mocap.frame_solver import FrameOptions, FrameSolver
from posable.mocap.gaps import blend_weight, runs
from posable.mocap.hand_contacts import Touch
from posable.mocap.retarget_goals import Held, RetargetGoals
from posable.mocap.retime import slowed, within_steps
from posable.mocap.root_align import place_root
from posable.mocap.root_chart import RootChart
from posable.mocap.smooth import CAREFUL, HOLD, STANDS, box_of, goal_stiffness, reach_of, smooth_goals
from posable.mocap.trajectory import Effort
from posable.mocap.unwrap import continuous
from posable.model.body_plan import SIDES
from posable.model.collision import measure, pair_tables
from posable.model.kinematics import forward
from posable.model.motion import Motion
from posable.model.shapes import Shape
from posable.model.skeleton import Skeleton
from posable.problem import Problem

PASSES = 2  # of the whole clip; what is near the ground and objects is found again before each
CALMINGS, CALMER = 1, 8.0  # times joints that are too fast are made stiffer, and the factor
SLOWINGS, CORNER = 3, 0.05  # times joints that are still too fast are clamped; [s] over which corners are rounded
MOVED = 1e-3  # [rad] change of a joint below which a frame is not solved again
FREEINGS, DEEP, SHOWS = 5, 0.007, 0.0095  # times frames are solved again whose shapes overlap; [m] by which, at first
# and from the third time on
LIFT = 0.1  # [s] over which a figure is raised out of the ground
FIRMER, CALMLY = 4.0, 2.0  # by which shapes then keep off each other harder, and joints are stiffer, each time: limbs
# that cross go round the same side in neighbouring frames
SEAM = 32  # frames on either side of where two pieces are blended that may change with it
STUCK = 1.5  # ratio of a frame's energies beyond which a walk through the clip is stuck there
ROOT = 0.19  # of the smoothing's seconds: standard deviation of the Gaussian that smooths the reference of the root
EFFORT = Effort(4, 1e-4)  # of the first pass: its targets are rough
REFINING = Effort(8, 3e-4)  # of the second
CARE = Effort(6, 3e-4, CAREFUL)  # about single frames, where limits make feet slip
STANDINGS = 2  # times steps that still slip are solved again
SETTLE = FrameOptions(max_iterations=200, min_gain=1e-7, damping=1e-1, independent=True, pull=1e-5)
WALK = FrameOptions(max_iterations=20, min_gain=1e-5, damping=1e-2, pull=1e-4)


@lru_cache(maxsize=8)
def _chart(figure: Skeleton) -> RootChart:
    """Return the chart of a figure, kept from clip to clip."""
    return RootChart(figure)


class Smoothing(NamedTuple):
    """How a piece is smoothed.

    seconds: [s] faster motion is removed; stiffness (n,): how stiffly its goals hold each degree of freedom;
    path (t, n): a motion whose accelerations cost nothing.
    """

    seconds: float
    stiffness: np.ndarray
    path: np.ndarray | None = None


class RetargetSolver:
    """Solves the goals of retargeting for poses."""

    def __init__(self, goals: RetargetGoals, device: str = "cpu"):
        self.wanted, self.motion, self.device = goals, goals.motion, device
        self.figure, self.solvable, self.target = goals.figure, goals.solvable, goals.target
        self.chart = _chart(self.solvable)

    def solve(self, first: int, end: int, contacts: bool, touches: list[Touch], seconds: float) -> np.ndarray:
        """Return the poses (t, n) of frames first to end."""
        goals, chart = self.wanted.goals(first, end), self.chart
        problem = Problem(chart.inner, goals)
        problem.broadcast((end - first,))
        start = chart.enter(self._start(goals))
        FrameSolver(problem)(SETTLE, start, home=start[0])
        turning, energies = followed(problem, start[0], 0, end - first, WALK)
        if len(turning) > 2:
            back, others = followed(problem, turning[-1], end - first - 1, end - first, WALK)
            stuck = energies > STUCK * others  # on the way there, not on the way back
            turning[stuck] = back[stuck]
            limbs = self.wanted.arms(first, end, chart.inner)
            turning = choose_branches(problem, turning, limbs, self.motion.fps, WALK)
        poses = chart.leave(turning, np.tile(self.figure.rest, (len(turning), 1)))
        if len(poses) < 3:
            return continuous(self.figure, poses)
        steps, rows = self.wanted.steps, slice(first, end)
        standing = np.any([(steps.heel[side] | steps.toe[side])[rows] for side in SIDES], axis=0)
        toes = any(f"toe.{side}" in self.target for side in SIDES)  # they hang down as long as nothing holds them
        rise = self._eased(self.wanted.ground_depth(poses, feet=not toes), standing)
        if rise.any():  # a thicker body than the source's lies, sits or crawls higher
            lift = rise[:, None] * self.target.up
            goals = [g.moved(g.target + lift) if isinstance(g, Position) else g for g in goals]
            poses = self._raised(poses, rise)
        how = Smoothing(seconds, self._stiffness(goals, poses))
        locks = self.wanted.locks(poses, first) if contacts else []
        mine = [touch for touch in touches if touch.first < end and touch.end > first]
        for k in range(PASSES):
            apart = [(goal, np.ones(len(poses))) for goal in (self.wanted.apart(poses) if k else ())]
            held = [*locks, *self.wanted.clearances(poses), *apart]
            if k and mine:
                held += self.wanted.touch_goals(mine, poses, first, end)
            problem = self._with(goals, held, len(poses))
            effort = REFINING if k else EFFORT
            if k and contacts and self._slipping(poses, first).any():
                effort = effort._replace(passes=2)  # limits keep a foot from standing
            poses = self._smoothed(problem, poses, effort, how)
            if not k:  # smoothing flattens fast motion: joints get back what the first pass took (twicing, Tukey 1977)
                how = how._replace(path=np.where(self.wanted.turning, self.within_speed(poses), 0.0))
        touched = self.wanted.touch_goals(mine, poses, first, end) if mine else []
        for _ in range(STANDINGS if contacts else 0):
            slipping = self._slipping(poses, first)
            if not slipping.any():
                break
            locks = self.wanted.locks(poses, first)
            poses = self._solved_again(goals, [*locks, *touched], poses, how, slipping)
        poses = self._untangled(goals, [*locks, *touched], poses, how)
        for _ in range(CALMINGS):
            fast = self._too_fast(poses)
            if not fast.any():
                break
            dofs = fast.any(axis=0)
            factors = np.where(self.wanted.legs, 2.0, CALMER)  # feet stand first
            how = how._replace(stiffness=np.where(dofs, factors, 1.0) * how.stiffness)
            held, asked = [*locks, *touched], np.asarray(fast.any(axis=1))
            poses = self._solved_again(goals, held, poses, how, asked)
            poses = self._untangled(goals, held, poses, how)
        return continuous(self.figure, self._lifted(self._slowed(goals, [*locks, *touched], poses, how), first))

    def _stiffness(self, goals: list[Goal], poses: np.ndarray) -> np.ndarray:
        """Return how stiffly goals hold each degree of freedom (n,) in poses (t, n)."""
        problem = Problem(self.solvable, goals)
        problem.broadcast((len(poses),))
        return goal_stiffness(problem, poses, np.full(self.figure.size, HOLD))

    def _lifted(self, poses: np.ndarray, first: int) -> np.ndarray:
        """Return poses (t, n) raised out of the ground where no foot is flat on it, as in a cartwheel or a leap."""
        flat = np.any([self.wanted.steps.flat(side)[first : first + len(poses)] for side in SIDES], axis=0)
        return self._raised(poses, self._eased(self.wanted.ground_depth(poses), flat))

    def _eased(self, depth: np.ndarray, standing: np.ndarray) -> np.ndarray:
        """Return how far (t,) [m] a body is raised that is so deep (t,) [m] in the ground: 0 where it stands (t,)."""
        reach = max(1, round(LIFT * self.motion.fps))
        deep = np.where(standing | (depth < DEEP), 0.0, depth)
        rise = gaussian_filter1d(maximum_filter1d(deep, 2 * reach + 1), 0.5 * reach)
        away = 1.0 - gaussian_filter1d(maximum_filter1d(standing.astype(float), reach + 1), 0.3 * reach)
        return np.where(standing, 0.0, rise * away)

    def _raised(self, poses: np.ndarray, rise: np.ndarray) -> np.ndarray:
        """Return poses (t, n) raised by (t,) [m]."""
        root = self.figure.free_root
        assert root is not None  # the figure was given one
        frames = forward(self.figure, poses[0])
        turn, place = frames.rotation_matrix(root), frames.position(root)
        low, high = (place_root(self.figure, poses[0], turn, place + up) for up in (0.0, self.target.up))
        return poses + rise[:, None] * (high - low)

    def _slowed(self, goals: list[Goal], held: Held, poses: np.ndarray, how: Smoothing) -> np.ndarray:
        """Return poses (t, n) with joints that are still too fast clamped to their limits; the others compensate."""
        slow = np.zeros(self.figure.size, dtype=bool)
        lower, upper = box_of(self.solvable, poses, True)
        for _ in range(SLOWINGS):
            fast = self._too_fast(poses).any(axis=0) & ~slow
            if not fast.any():
                break
            slow |= fast
            paths = slowed(poses[:, fast], self.wanted.most_step[fast], CORNER * self.motion.fps)
            paths = np.clip(paths, lower[:, fast], upper[:, fast])
            lower[:, fast] = upper[:, fast] = paths
            asked = np.asarray((np.abs(np.clip(poses, lower, upper) - poses) > MOVED).any(axis=1))
            poses = self._solved_again(goals, held, poses, how, asked, (lower, upper))
            poses = self._untangled(goals, held, poses, how, (lower, upper))
        return self.within_speed(poses)

    def within_speed(self, poses: np.ndarray) -> np.ndarray:
        """Return poses (t, n) with steps made shorter where they break a velocity limit, whatever that costs."""
        fast = self._too_fast(poses).any(axis=0)
        if not fast.any():
            return poses
        out = poses.copy()
        out[:, fast] = within_steps(poses[:, fast], self.wanted.most_step[fast])
        return out

    def _smoothed(
        self, problem: Problem, poses: np.ndarray, effort: Effort, how: Smoothing, asked: np.ndarray | None = None,
        box: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> np.ndarray:  # fmt: skip
        """Return poses (t, n) that are optimal for a problem over all frames, or around the given ones (t,)."""
        chart, stiffness = self.chart, how.stiffness
        inner = chart.enter(poses, ROOT * how.seconds * self.motion.fps)
        better = smooth_goals(
            problem, inner, self.motion.fps, max(how.seconds, 1e-3), threads=1,  # a piece has one thread
            effort=effort, stiffness=chart.columns(stiffness, stiffness[0], stiffness[3]), asked=asked,
            box=None if box is None else chart.box(box, inner),
            path=None if how.path is None else chart.columns(how.path), device=self.device,
        )  # fmt: skip
        return chart.leave(better, poses)

    def _untangled(
        self, goals: list[Goal], held: Held, poses: np.ndarray, how: Smoothing,
        box: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> np.ndarray:  # fmt: skip
        """Return poses (t, n) solved again where shapes are still inside each other, objects or the ground.

        box: bounds (t, n) instead of the limits.
        """
        depth = self._depth_anywhere(poses)
        deep = depth > DEEP
        for k in range(FREEINGS):
            if not deep.any():
                break
            calm = Smoothing(how.seconds, CALMLY**k * how.stiffness, how.path if k < 2 else None)
            before, poses = poses, self._solved_again(goals, held, poses, calm, deep, box, FIRMER**k)
            moved = np.flatnonzero((poses != before).any(axis=1))
            depth[moved] = self._depth_anywhere(poses[moved])
            deep = depth > (SHOWS if k else DEEP)
        return poses

    def _solved_again(
        self, goals: list[Goal], held: Held, poses: np.ndarray, how: Smoothing, asked: np.ndarray,
        box: tuple[np.ndarray, np.ndarray] | None = None, firmness: float = 1.0,
    ) -> np.ndarray:  # fmt: skip
        """Return poses (t, n) solved again around given frames (t,), with the dofs that limits hold; others stay.

        What is near in poses keeps off each other, ground and objects. held: goals with their weights (t,) over time,
        such as those of feet that stand and hands that touch. box: bounds (t, n) instead of the limits. firmness: how
        much harder than usual shapes keep off each other, ground and objects.
        """
        out = poses.copy()
        margin = reach_of(how.seconds, self.motion.fps) + 2  # a frame meets the two on either side of it
        for a, b in runs(maximum_filter1d(asked, 2 * margin + 1)):
            part, rows = out[a:b], slice(a, b)
            apart = [(goal, np.full(b - a, firmness)) for goal in self.wanted.apart(part)]
            near = [*((goal, firmness * weights) for goal, weights in self.wanted.clearances(part)), *apart]
            some = [(goal.moved(goal.target[rows]), weights[rows]) for goal, weights in held if weights[rows].any()]
            problem = self._with([goal.moved(goal.target[rows]) for goal in goals], [*some, *near], b - a)
            bounds = None if box is None else (box[0][rows], box[1][rows])
            mine = how if how.path is None else how._replace(path=how.path[rows])
            out[a:b] = self._smoothed(problem, part, CARE, mine, asked[rows], bounds)
        return out

    def fix_seam(self, poses: np.ndarray, first: int, begin: int, contacts: bool, seconds: float) -> None:
        """Push shapes out of each other where two pieces were blended, from frame `first` to `begin`, in place.

        On either side of the seam an arm may have gone another way round the body: what lies between passes through.
        """
        a, b = max(first - SEAM, 0), min(begin + SEAM, len(poses))
        part = poses[a:b]
        if self.depth(part).max(initial=0.0) < DEEP:
            return
        goals = self.wanted.goals(a, b)
        how = Smoothing(seconds, self._stiffness(goals, part))
        better = self._untangled(goals, self.wanted.locks(part, a) if contacts else [], part, how)
        weight = np.ones(b - a)
        if a:
            weight[: first - a] = blend_weight(first - a)
        if b < len(poses):
            weight[begin - a :] = blend_weight(b - begin)[::-1]
        poses[a:b] += weight[:, None] * (better - part)

    def depth(self, poses: np.ndarray, obstacles: tuple[Shape, ...] = ()) -> np.ndarray:
        """Return how deep shapes of the figure are in each other and in obstacles (t,) [m] in poses (t, n)."""
        tables = pair_tables(self.solvable, self.solvable.collision_pairs, obstacles)
        if not tables.pairs:
            return np.zeros(len(poses))
        return np.maximum(-measure(tables, np.ascontiguousarray(poses), 0.0).min(axis=1), 0.0)

    def _depth_anywhere(self, poses: np.ndarray) -> np.ndarray:
        """Return how deep the figure is in itself, in objects and in the ground (t,) [m] in poses (t, n)."""
        return np.maximum(self.depth(poses, self.wanted.obstacles), self.wanted.ground_depth(poses))

    def _too_fast(self, poses: np.ndarray) -> np.ndarray:
        """Return where (t, n) a degree of freedom breaks its velocity limit or jumps from the frame before."""
        step = np.abs(np.diff(poses, axis=0, prepend=poses[:1]))
        return (step > self.wanted.most_step * (1.0 + 1e-9)) & self.wanted.turning

    def _slipping(self, poses: np.ndarray, first: int) -> np.ndarray:
        """Return where (t,) a standing foot slips plainly, of poses of frames from `first` on: its whole step."""
        found = self.wanted.contacts(poses, first)
        slips = found.slips(Motion(self.figure, poses, self.motion.fps))
        out = np.zeros(len(poses), dtype=bool)
        for (_, start, end), slip in zip(found.steps(), slips, strict=True):
            out[start:end] |= slip > STANDS
        return out

    def _start(self, goals: list[Goal]) -> np.ndarray:
        """Return the rest pose (1, n) with its root at the place of the first frame."""
        turned = next(goal for goal in goals if goal.label == "pelvis" and isinstance(goal, Orientation))
        place = next(goal for goal in goals if goal.label == "pelvis" and isinstance(goal, Position))
        pose = np.clip(self.solvable.rest, self.solvable.lower, self.solvable.upper)
        frames = forward(self.figure, pose)
        name, pelvis = self.figure.free_root, self.target["pelvis"]
        assert name is not None  # the figure was given one
        change = np.asarray(turned.target)[0] @ frames.rotation_matrix(pelvis).T
        return place_root(self.figure, pose, change @ frames.rotation_matrix(name), np.asarray(place.target)[0])[
            None
        ].copy()

    def _with(self, goals: list[Goal], extra: Held, count: int) -> Problem:
        """Return the problem of all goals; each of `extra` comes with its weights (t,) over time, 0: switched off."""
        problem = Problem(self.chart.inner, [*goals, *(goal for goal, _ in extra)])
        problem.broadcast((count,))
        problem.spread(count)  # its feet stand at different times
        for k, owner in enumerate(problem.owners):
            if len(goals) <= owner < len(goals) + len(extra):  # the rest are couplings and loops of the figure
                weights = extra[owner - len(goals)][1]
                problem.constants[:, k, WEIGHT : WEIGHT + 6] *= weights[:, None]
                problem.constants[weights <= 0.0, k, ROBUST] = OFF
        return problem
