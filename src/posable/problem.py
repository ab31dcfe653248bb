"""Problem: a figure and its goals, packed into flat arrays once; energy, derivatives and residuals at any pose."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from posable.engine.assemble import evaluate, take_targets
from posable.engine.jit import entry, run_chunks
from posable.engine.joints import SLIDE
from posable.engine.layout import (
    BODY_A,
    BODY_B,
    CENTER,
    CONSTANTS,
    COUPLINGS,
    DEPTH,
    FOLLOWER,
    KIND,
    LEADER,
    OFF,
    POINT,
    ROBUST,
    SOLIDS,
    SPRING_KIND,
    TARGETS,
    Figure,
    Springs,
    work_size,
)
from posable.engine.springs import ANGLE_SPRINGS, COLLISION_SPRING, COUPLING_SPRING, PIXEL_SPRING
from posable.errors import GoalError, SkeletonError, UnknownName
from posable.goals.base import CHUNK, Goal, Spring, UnknownInGoal, goals_in, unique_names
from posable.model.kinematics import (
    Part,
    as_poses,
    coupled_dofs,
    coupled_order,
    one_pose,
    part_of,
    scratch,
    whole_figure,
)
from posable.model.skeleton import Skeleton

if TYPE_CHECKING:
    from posable.goals.compose import AnyOf
    from posable.goals.energy import DerivativeCheck, VectorEnergy


def common_shape(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the batch shape of targets with these leading axes."""
    try:
        return np.broadcast_shapes(*shapes) if shapes else ()
    except ValueError:
        raise GoalError("targets", expected="leading axes that agree", got=f"shapes {shapes}") from None


MOST_TEMPLATES = 64
_TEMPLATES: dict[Any, dict[str, Any]] = {}  # everything but goals and targets, by the keys of the goals
_NO_TARGET = np.zeros(0)


def constants_key(skeleton: Skeleton, goals: tuple[Any, ...]) -> Any:
    """Return a key of what the constants of a problem depend on, None if one of its goals has none."""
    if skeleton.couplings or skeleton.loops or not goals:
        return None
    keys = [goal.constants_key() if isinstance(goal, Goal) else None for goal in goals]
    return None if None in keys else (id(skeleton), *keys)  # the template keeps the skeleton alive, and so its id


EXTRA = 8  # vectors of n numbers beyond the workspace, for the solver loops
COMBINATIONS = 256  # of the members of several AnyOf goals


class Problem:
    """A figure and its goals, ready for the solvers.

    Args:
        skeleton: The figure. Its couplings (mimic joints) and closed loops become goals too.
        goals: One goal or several. Targets with leading axes make a batch of that shape.
        on_gpu: Whether targets may be in a GPU's memory.
    """

    def __init__(self, skeleton: Skeleton, goals: Goal | Iterable[Goal], *, on_gpu: bool = False):
        if not isinstance(skeleton, Skeleton):
            raise SkeletonError(f"expected a Skeleton, such as posable.figures.human(), got {skeleton!r}")
        self.skeleton = skeleton
        self._goals: tuple[Goal, ...] = tuple(goals) if type(goals) is list else goals_in(goals)
        key = constants_key(skeleton, self._goals)
        template = _TEMPLATES.get(key)
        if key is not None and template is None and any(goal.target_batch for goal in self._goals):
            template = self._template_of_first(key, on_gpu)
        if template is not None:
            self.__dict__ = template | {"_goals": self._goals, "_moved": {}}
            self._pack_targets(on_gpu)
            return
        self._targets: np.ndarray | None = None
        self._moved: dict[int, np.ndarray] = {}  # targets written since the goals were last rebuilt
        if skeleton.couplings or skeleton.loops:
            from posable.goals.relative import mimic_goals

            self._goals += mimic_goals(skeleton)
        self._collect(skeleton, on_gpu)
        if key is not None and 0 not in self.batch_shape:  # an empty batch has no targets
            self._keep_template(key)

    def _collect(self, skeleton: Skeleton, on_gpu: bool) -> None:
        """Convert the goals to springs and pack them."""
        self._kept: dict[Any, Any] = {}  # see `once`
        self.springs: list[Spring] = []
        self.owners: list[int] = []  # the goal of each spring
        self.choices: list[tuple[AnyOf, list[slice]]] = []  # each AnyOf, and the springs of its members
        self.customs: list[tuple[VectorEnergy, slice]] = []  # each energy in Python, and the springs of its model
        n = skeleton.size
        self.pull, self.home = np.zeros(n), np.zeros(n)
        self.soft = False  # whether the energy is minimised beyond the goals' tolerances
        self.off: frozenset[int] = frozenset()  # the disabled goals
        plain = True
        for k, goal in enumerate(self._goals):
            if not isinstance(goal, Goal):
                raise GoalError("goals", expected="goals such as Position('hand.R', (0.4, 1.2, 0.3))", got=repr(goal))
            if goal.device_array is not None and not on_gpu:
                raise goal.on_a_gpu()
            try:
                members = self._register(goal)
            except UnknownName as error:
                raise UnknownInGoal(goal, error) from None
            plain = plain and (goal.plain or goal.is_posture) and goal.priority == self._goals[0].priority
            self.springs += members
            self.owners += [k] * len(members)
        self.priors = tuple(k for k, goal in enumerate(self._goals) if goal.is_prior)
        self.plain = plain and not self.customs  # one level, no energy in Python, no choice: one run of the solver
        self._pack(skeleton)

    def _template_of_first(self, key: Any, on_gpu: bool) -> dict[str, Any] | None:
        """Return the template of a batch, made from its first problem; None if the batch is empty."""
        if any(0 in goal.target_batch for goal in self._goals):
            return None
        first = [
            goal.moved(goal.target[(0,) * len(goal.target_batch)]) if goal.target_batch else goal
            for goal in self._goals
        ]
        Problem(self.skeleton, first, on_gpu=on_gpu)
        return _TEMPLATES.get(key)

    def first_alone(self) -> Problem:
        """Return a single problem with everything of this batch but its targets."""
        out = object.__new__(Problem)
        out.__dict__.update(self.__dict__)
        out.batch_shape = ()
        out._targets = self._template_targets.copy() if self.streams_targets else self.targets[:1].copy()
        return out

    def _keep_template(self, key: Any) -> None:
        """Keep everything but the targets for further problems whose goals differ only in their targets."""
        _ = self.first_rows, self.work_size, self.labels  # once, not for each problem
        if len(_TEMPLATES) >= MOST_TEMPLATES:
            _TEMPLATES.clear()
        kept = {name: value for name, value in self.__dict__.items() if name not in ("_goals", "_moved", "batch_shape")}
        kept["springs"] = [spring._replace(targets=_NO_TARGET) for spring in self.springs]
        kept["_targets"] = self.targets[:1].copy()
        _TEMPLATES[key] = kept

    def _pack_targets(self, on_gpu: bool) -> None:
        """Pack the goals' numeric targets into those of a template."""
        template = self.targets
        shapes: list[tuple[int, ...]] = []
        for goal in self._goals:
            if goal.device_array is not None and not on_gpu:
                raise goal.on_a_gpu()
            if goal.target.ndim > len(goal.target_shape):
                shapes.append(goal.target_batch)
        self.batch_shape = common_shape(shapes)
        self.constants = self.constants.copy()  # callers may write into them
        if shapes:
            self._template_targets, self._targets = template, None
            return
        self._targets = targets = template.copy()
        for row, goal in zip(self.first_rows, self._goals, strict=True):
            take_targets(goal.target.reshape(1, -1), targets, row)

    def target_values(self) -> list[np.ndarray]:
        """Return the numeric targets (t, k) of each goal of a batch."""
        shape, size = self.batch_shape, math.prod(self.batch_shape)
        values = []
        for goal in self._goals:
            value = goal.target
            if goal.target_batch != shape:
                value = np.broadcast_to(value, (*shape, *goal.target_shape))
            values.append(value.reshape(size, math.prod(goal.target_shape)))
        return values

    @property
    def targets(self) -> np.ndarray:
        """The springs' targets (t, g, TARGETS), or (1, g, TARGETS) where no goal has leading axes.

        Those of a batch are packed on first access: a GPU is sent the goals' own arrays.
        """
        if self._targets is None:
            self._targets = self._packed_targets()
        return self._targets

    @targets.setter
    def targets(self, targets: np.ndarray) -> None:
        self._targets = targets

    @property
    def streams_targets(self) -> bool:
        """Whether the targets have not been packed yet."""
        return self._targets is None

    def _packed_targets(self) -> np.ndarray:
        """Pack the goals' targets on every core."""
        template, rows, values = self._template_targets, self.first_rows, self.target_values()
        size = math.prod(self.batch_shape)
        targets = np.empty((size, *template.shape[1:]))

        def work(piece: slice) -> None:
            targets[piece] = template
            for row, value in zip(rows, values, strict=True):
                take_targets(value[piece], targets[piece], row)

        run_chunks(work, size, CHUNK)
        return targets

    @property
    def goals(self) -> tuple[Goal, ...]:
        """The goals as they are now."""
        if self._moved:
            goals = list(self._goals)
            for k, target in self._moved.items():
                goals[k] = goals[k].moved(target)
            self._goals, self._moved = tuple(goals), {}
        return self._goals

    @property
    def given_goals(self) -> tuple[Goal, ...]:
        """The goals as they are now, without the couplings and closed loops of the figure, which come last."""
        return self.goals[: len(self._goals) - len(self.skeleton.couplings) - len(self.skeleton.loops)]

    @cached_property
    def first_rows(self) -> tuple[int, ...]:
        """The first spring of each goal; -1 where it has none."""
        return tuple(self.owners.index(k) if k in self.owners else -1 for k in range(len(self._goals)))

    def _register(self, goal: Goal) -> list[Spring]:
        """Return the springs of a goal, and record its choices and pulls."""
        if goal.is_choice:
            return self._choice_springs(goal)
        if goal.is_posture:
            self._add_posture(goal)
        return self._springs_of(goal, len(self.springs))

    def _springs_of(self, goal: Goal, first: int) -> list[Spring]:
        """Return the springs of a goal, from number `first` on, and keep its energy in Python where it has one."""
        energy = goal.python_energy(self.skeleton)
        if energy is None:
            return goal.springs(self.skeleton)
        out = energy.springs()
        self.customs.append((energy, slice(first + len(energy.measured), first + len(out))))
        return out

    def _add_posture(self, goal: Any) -> None:
        """Add the springs of a posture on the degrees of freedom to those that are there."""
        from posable.goals.joint import joined_pulls

        pull, home = goal.pulls(self.skeleton)
        self.pull, self.home = joined_pulls(self.pull, self.home, pull, home)
        self.soft = True

    def _choice_springs(self, goal: Any) -> list[Spring]:
        """Return the springs of all members, and record which member each belongs to."""
        out: list[Spring] = []
        parts = []
        for member in goal.members:
            first = len(self.springs) + len(out)
            out += self._springs_of(member, first)
            parts.append(slice(first, len(self.springs) + len(out)))
        self.choices.append((goal, parts))
        if np.prod([len(parts) for _, parts in self.choices]) > COMBINATIONS:
            raise GoalError(f"{goal}", expected=f"at most {COMBINATIONS} combinations of members", got="more")
        return out

    def _pack(self, skeleton: Skeleton) -> None:
        springs = self.springs
        rows = [(one.kind, one.body, owner, one.other) for one, owner in zip(springs, self.owners, strict=True)]
        self.kind = np.array(rows, dtype=np.int64).reshape(-1, 4)
        self.tolerances = np.array([spring.tolerance for spring in springs], dtype=float)
        self.coupled = any(spring.other >= 0 or spring.kind < 0 or spring.body == CENTER for spring in springs)
        self.batch_shape = common_shape([batch for spring in springs if (batch := spring.batch)])
        self.figure = self._figure_with_solids(skeleton)
        self.constants = self._stack([spring.constants for spring in springs], CONSTANTS)
        self.targets = self._stack([spring.targets for spring in springs], TARGETS)
        self.has_solids = self.figure is not skeleton.figure
        self.order = coupled_order(skeleton, self._groups()) if self.coupled else skeleton.order
        self.idle = np.array([spring.idle for spring in springs], dtype=bool)  # (g,): of weight zero
        for energy, part in self.customs:
            self.idle[part] = energy.idle
        self.soft = self.soft or bool(np.isinf(self.tolerances[~self.idle]).any())
        self.tolerances[self.idle] = np.inf
        self.depth = int(self.order.rows[:, DEPTH].max()) + 1 if skeleton.size else 1

    def _figure_with_solids(self, skeleton: Skeleton) -> Figure:
        """Return the figure with its collision shapes, and set the rows of each COLLISION spring."""
        colliding = [k for k, spring in enumerate(self.springs) if spring.kind == COLLISION_SPRING]
        if not colliding:
            return skeleton.figure
        from posable.model.collision import coupled_by_contacts, joined_tables

        every = tuple(self.goals[self.owners[k]].tables(skeleton) for k in colliding)  # type: ignore[attr-defined]  # NoCollision
        figure, spans = joined_tables(skeleton, every)
        self._contact_groups = coupled_by_contacts(skeleton, every)
        for k, span in zip(colliding, spans, strict=True):
            self.springs[k].constants[POINT : POINT + 2] = span
        return figure

    def _stack(self, rows: list[np.ndarray], width: int) -> np.ndarray:
        """Return the springs' rows (..., width) as (t, g, width), or as (1, g, width) if no row has leading axes."""
        size = int(np.prod(self.batch_shape)) if any(row.ndim > 1 for row in rows) else 1
        out = np.empty((size, len(rows), width))
        for k, row in enumerate(rows):
            out[:, k] = row if row.ndim == 1 else np.broadcast_to(row, (*self.batch_shape, width)).reshape(size, width)
        return out

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: not the compiled code, which the other process loads or compiles itself."""
        return self.__dict__ | {"_kept": {}}

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return the cached result of `make`, shared by problems that differ only in their targets."""
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= MOST_TEMPLATES:
                self._kept.clear()
            found = self._kept[key] = make()
        return found

    def fitted(self, loop: entry) -> Callable[..., Any]:
        """Return a compiled loop with only the features that this problem needs."""
        found = self._kept.get(loop)
        if found is None:
            found = self._kept[loop] = loop.without(*self.missing_features).compiled
        return found

    @property
    def moving(self) -> Part:
        """The part of the figure that the goals move; all of it if dofs are coupled or have springs."""
        if self.coupled or np.count_nonzero(self.pull):
            return self.whole
        return self.once("moving", lambda: part_of(self.whole, self.kind[:, BODY_A].tolist()))

    @property
    def whole(self) -> Part:
        """The whole figure as a part."""
        return whole_figure(self.figure, self.order, self.depth, self.kind, self.pull, self.home)

    @property
    def missing_features(self) -> list[str]:
        """The features (engine/layout.py) that this problem does not have and that need not be compiled."""
        return [name for name, has in ((COUPLINGS, self.coupled), (SOLIDS, self.has_solids)) if not has]

    def packed(self, member: int = 0) -> Springs:
        """Return the springs of one problem of the batch, as the kernels read them."""
        constants = self.constants[member if self.constants.shape[0] > 1 else 0]
        targets = self.targets[member if self.targets.shape[0] > 1 else 0]
        return Springs(self.kind, constants, targets, self.pull, self.home)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels of the goals, numbered if they repeat."""
        return tuple(unique_names([goal.label for goal in self._goals]))

    @cached_property
    def label_index(self) -> dict[str, int]:
        """The index of each goal, by its label."""
        return {label: k for k, label in enumerate(self.labels)}

    @cached_property
    def error_names(self) -> tuple[str, ...]:
        """The name of each spring's error: its goal's label, and the spring's own name."""
        pairs = zip(self.springs, self.owners, strict=True)
        return tuple(self.labels[owner] + ("." + spring.name if spring.name else "") for spring, owner in pairs)

    @cached_property
    def error_groups(self) -> dict[str, list[int]]:
        """The springs of each error name; the largest of their errors is reported."""
        groups: dict[str, list[int]] = {}
        for k, name in enumerate(self.error_names):
            groups.setdefault(name, []).append(k)
        return groups

    def _groups(self) -> tuple[tuple[int, ...], ...]:
        """Return the degrees of freedom that goals couple across branches."""
        groups: list[tuple[int, ...]] = []
        for k, spring in enumerate(self.springs):
            if spring.kind >= 0 and spring.body == CENTER:
                return (tuple(range(self.skeleton.size)),)
            if spring.kind == COUPLING_SPRING:
                groups.append((int(self.constants[0, k, FOLLOWER]), int(self.constants[0, k, LEADER])))
            elif spring.kind == COLLISION_SPRING:
                groups += self._contact_groups
            elif spring.other >= 0:
                groups.append(coupled_dofs(self.skeleton, spring.body, spring.other))
        return tuple(dict.fromkeys(groups))

    @cached_property
    def work_size(self) -> int:
        """The size of the scratch memory of one solve."""
        n, b, g = self.skeleton.size, self.skeleton.figure.body.shape[0], len(self.springs)
        return work_size(n, b, g, self.depth) + EXTRA * n

    def broadcast(self, shape: tuple[int, ...]) -> None:
        """Broadcast the targets to a batch shape."""
        if shape == self.batch_shape or not self.batch_shape:
            return
        for name in ("constants", "targets"):
            rows = getattr(self, name)
            if rows.shape[0] > 1:
                each = rows.shape[1:]
                rows = np.broadcast_to(rows.reshape(*self.batch_shape, *each), (*shape, *each))
                setattr(self, name, rows.reshape(-1, *each).copy())
        self.batch_shape = shape

    def spread(self, count: int) -> None:
        """Give each of `count` problems its own constants and targets."""
        self.constants = np.repeat(self.constants, count // self.constants.shape[0], axis=0)
        self.targets = np.repeat(self.targets, count // self.targets.shape[0], axis=0)

    def part(self, first: int, last: int | None) -> Problem:
        """Return the problems from `first` to `last` of the batch, with their own arrays."""
        return self.rows(slice(first, last))

    def rows(self, rows: slice | np.ndarray) -> Problem:
        """Return some problems of the batch, with their own arrays."""
        out = object.__new__(Problem)
        out.__dict__.update(self.__dict__)
        out.pull, out.home, out._moved = self.pull.copy(), self.home.copy(), self._moved.copy()
        for name in ("constants", "targets"):
            every = getattr(self, name)
            setattr(out, name, every[rows].copy() if len(every) > 1 else every.copy())
        return out

    def alone(self, member: int) -> Problem:
        """Return one problem of the batch, with its own arrays."""
        out = self.part(member, member + 1)
        out.batch_shape = ()
        return out

    def measures_angle(self, spring: int) -> bool:
        """Return whether a spring's error is an angle [rad] and not a length [m]."""
        if self.kind[spring, SPRING_KIND] == COUPLING_SPRING:
            return self.skeleton.figure.dof[int(self.constants[0, spring, FOLLOWER]), KIND] != SLIDE
        return self.kind[spring, SPRING_KIND] in ANGLE_SPRINGS

    def measures_pixels(self, spring: int) -> bool:
        """Return whether a spring's error is in pixels."""
        return self.kind[spring, SPRING_KIND] == PIXEL_SPRING

    # --- Changes without packing ---

    def copy(self) -> Problem:
        """Return an independent problem with the same figure and current goals."""
        return self.rows(slice(None))

    def with_own_targets(self) -> Problem:
        """Return the same problem with independent targets."""
        out = object.__new__(Problem)
        out.__dict__ = self.__dict__ | {"_targets": self.targets.copy(), "_moved": self._moved.copy()}
        return out

    def move_to(self, goal: int, target: Any) -> None:
        """Move a goal of a single problem to another target; numeric targets are only written."""
        shape, targets = self._goals[goal].target_shape, self.targets
        plain = isinstance(target, (np.ndarray, tuple, list))
        value = target.as_matrix() if not plain and hasattr(target, "as_matrix") else target
        if shape and len(targets) == 1 and (plain or isinstance(value, np.ndarray)):
            try:
                value = np.array(value, dtype=float)
            except (TypeError, ValueError, OverflowError):
                value = _NO_TARGET  # `moved` raises with the reason
            if value.shape == shape and take_targets(value.reshape(1, -1), targets, self.first_rows[goal]):
                self._moved[goal] = value
                return
        self.move(goal, self.goals[goal].moved(target))

    def move(self, goal: int, moved: Goal) -> None:
        """Replace a goal by the same goal with another target, without packing again; it stays enabled or disabled."""
        if moved.device_array is not None:
            raise moved.on_a_gpu()
        rows = [k for k, owner in enumerate(self.owners) if owner == goal]
        if moved.target_shape and not moved.target_batch and len(self.targets) == 1:
            take_targets(moved.target.reshape(1, -1), self.targets, rows[0])
            self._goals = (*self.goals[:goal], moved, *self.goals[goal + 1 :])
            return
        energy = moved.python_energy(self.skeleton)
        springs = moved.springs(self.skeleton) if energy is None else energy.springs()
        if len(springs) != len(rows):
            raise GoalError(f"{moved}", expected=f"a target that makes {len(rows)} springs", got=f"{len(springs)}")
        for spring in springs:
            if spring.batch and not self.batch_shape:
                raise GoalError(f"{moved}", expected="a target for one pose", got=f"a batch {spring.batch}")
        self.constants = self.constants.copy()  # others may share them
        for k, spring in zip(rows, springs, strict=True):
            off = self.constants[:, k, ROBUST] < 0.0
            self.constants[:, k], self.targets[:, k] = spring.constants, spring.targets
            self.constants[off, k, ROBUST] = OFF
        self._goals = (*self.goals[:goal], moved, *self.goals[goal + 1 :])
        if moved.is_posture:
            self._sum_postures()

    def _sum_postures(self) -> None:
        """Add up the postures that are enabled."""
        self.pull, self.home = np.zeros(self.skeleton.size), np.zeros(self.skeleton.size)
        self._kept = {}
        for k, goal in enumerate(self.goals):
            if goal.is_posture and k not in self.off:
                self._add_posture(goal)

    def enable(self, goal: int, on: bool = True) -> None:
        """Enable or disable a goal. A disabled goal has no energy, no force and no error."""
        self.off = self.off - {goal} if on else self.off | {goal}
        if self._goals[goal].is_posture:
            self._sum_postures()
        self.constants = self.constants.copy()  # others may share them
        for k, owner in enumerate(self.owners):
            if owner == goal:
                self.constants[:, k, ROBUST] = self.springs[k].constants[..., ROBUST].max() if on else OFF

    # --- Choices ---

    def combinations(self) -> list[tuple[int, ...]]:
        """Return every choice of members of the AnyOf goals; one empty choice if there are none."""
        return list(product(*(range(len(parts)) for _, parts in self.choices)))

    def choose(self, constants: np.ndarray, combination: tuple[int, ...]) -> None:
        """Disable, in constants (..., g, CONSTANTS), all members of the AnyOf goals but the chosen ones."""
        for (_, parts), chosen in zip(self.choices, combination, strict=True):
            if all((constants[..., part, ROBUST] < 0.0).all() for part in parts):
                continue  # the whole goal is disabled
            for member, part in enumerate(parts):
                for k in range(part.start, part.stop):
                    robust = self.springs[k].constants[..., ROBUST].max()
                    constants[..., k, ROBUST] = robust if member == chosen else OFF

    # --- Evaluation ---

    def evaluate(
        self, pose: Any, *, exact: bool = True, member: int = 0
    ) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
        """Return energy, gradient (n,), Hessian (n, n) and the springs' errors (g,) at one pose (n,).

        Of AnyOf goals the members of the lowest energy count, unless a solve has switched the others off.
        """
        theta = np.ascontiguousarray(as_poses(self.skeleton, pose).reshape(self.skeleton.size))
        springs = self.packed(member)
        if not self.choices and not self.customs:
            return self._evaluate(theta, springs, exact)
        springs = springs._replace(constants=springs.constants.copy(), targets=springs.targets.copy())
        constants = springs.constants
        values: list[tuple[int, float]] = []  # of each energy in Python, whose model lacks the constant term
        true_errors = []
        if self.customs:
            from posable.goals.energy import fill_model, measured_rows, place_vectors

            vectors = place_vectors(self.skeleton, theta, [energy for energy, _ in self.customs])
            for (energy, part), at in zip(self.customs, vectors, strict=True):
                if constants[part.start, ROBUST] >= 0.0:
                    value, slope, hessian = energy.model(at, measured_rows(springs, energy, part))
                    fill_model(constants[part], springs.targets[part], at, slope, hessian)
                    values.append((part.start, value))
                    if (error := energy.error(at)) is not None:
                        true_errors.append((part.start, error))
        decided = all(
            sum(constants[part.start, ROBUST] >= 0.0 for part in parts if part.stop > part.start) <= 1
            for _, parts in self.choices
        )
        answers = []
        for combination in [()] if decided else self.combinations():
            chosen = constants.copy()
            self.choose(chosen, combination) if combination else None
            on = {k for k, _ in values if chosen[k, ROBUST] >= 0.0}
            total, gradient, hessian, errors = self._evaluate(theta, springs._replace(constants=chosen), exact)
            for k, error in true_errors:
                errors[k] = error if k in on else 0.0
            total += sum(value for k, value in values if k in on)
            answers.append((total, gradient, hessian, errors))
        return min(answers, key=lambda answer: answer[0])

    def _evaluate(self, theta: np.ndarray, springs: Springs, exact: bool) -> tuple[float, Any, Any, Any]:
        n, g = self.skeleton.size, len(self.springs)
        gradient, hessian, errors = np.empty(n), np.empty((n, n)), np.empty(g)
        total = evaluate(
            self.figure, self.order, springs, theta, scratch(self.work_size), self.depth, float(exact), gradient,
            hessian, errors,
        )  # fmt: skip
        return total, gradient, hessian, errors

    def _map_poses(self, pose: Any, function: Any) -> Any:
        """Return function(pose, member) for one pose, or for poses with leading axes against the targets' own."""
        poses = as_poses(self.skeleton, pose)
        if poses.ndim == 1 and not self.batch_shape:
            return function(poses, 0)
        shape = np.broadcast_shapes(poses.shape[:-1], self.batch_shape)
        flat = np.broadcast_to(poses, (*shape, self.skeleton.size)).reshape(-1, self.skeleton.size)
        members = np.broadcast_to(np.arange(int(np.prod(self.batch_shape))).reshape(self.batch_shape), shape).ravel()
        every = np.array([function(theta, int(member)) for theta, member in zip(flat, members, strict=True)])
        return every.reshape(*shape, *every.shape[1:])

    def energy(self, pose: Any) -> Any:
        """Return the energy at a pose (n,), a float, or at poses (..., n), an array: the sum over the goals."""
        return self._map_poses(pose, lambda theta, member: self.evaluate(theta, member=member)[0])

    def gradient(self, pose: Any) -> np.ndarray:
        """Return the gradient (..., n) of the energy at poses (..., n)."""
        return self._map_poses(pose, lambda theta, member: self.evaluate(theta, member=member)[1])

    def errors(self, pose: Any) -> dict[str, Any]:
        """Return how far each goal is from its target [m, rad] at poses (..., n), by label."""
        values = self._map_poses(pose, lambda theta, member: self.evaluate(theta, member=member)[3])
        out = {name: values[..., springs].max(axis=-1) for name, springs in self.error_groups.items()}
        return {name: float(value) if np.ndim(value) == 0 else value for name, value in out.items()}

    def hessian(self, pose: Any, *, kind: str = "exact", method: str = "gathered") -> np.ndarray:
        """Return the Hessian (..., n, n) of the energy at poses (..., n).

        kind: "exact" or "gauss-newton". method: "gathered" (mathematics.md), or "direct", goal by goal
        (Erleben & Andrews 2018, algorithm 4), for goals on one body each.
        """
        if kind not in ("exact", "gauss-newton"):
            raise GoalError("hessian: kind", expected="'exact' or 'gauss-newton'", got=repr(kind))
        if method == "gathered":
            return self._map_poses(
                pose, lambda theta, member: self.evaluate(theta, exact=kind == "exact", member=member)[2]
            )
        if method == "direct":
            return self._map_poses(pose, lambda theta, member: self._direct(theta, kind == "exact", member))
        raise GoalError("hessian: method", expected="'gathered' or 'direct'", got=repr(method))

    def _direct(self, pose: np.ndarray, exact: bool, member: int) -> np.ndarray:
        from posable.engine.reference import MOST_ROWS, direct_hessian

        n, g = self.skeleton.size, len(self.springs)
        gradient, hessian = np.empty(n), np.empty((n, n))
        if self.coupled or self.customs or self.choices:
            kind = self.kind
            failed = int(np.argmax((kind[:, SPRING_KIND] < 0) | (kind[:, BODY_A] == CENTER) | (kind[:, BODY_B] >= 0)))
        else:
            failed = direct_hessian(
                self.figure, self.packed(member), np.ascontiguousarray(pose), scratch(self.work_size), self.depth,
                float(exact), np.empty(117), np.empty((MOST_ROWS * max(g, 1), n)), gradient, hessian,
            )  # fmt: skip
        if failed >= 0:
            goal = self.goals[self.owners[failed]]
            raise GoalError(f"hessian: {goal}", expected="goals on one body each for method='direct'", got=None)
        return hessian

    def residuals(self, pose: Any, *, jacobian: bool = False, vectors: bool = False) -> Any:
        """Return the stacked residuals (m,) at a pose (n,), or (residuals, Jacobian (m, n)): the energy is 1/2 r'r.

        vectors: an orientation as the rotation vector of its error (3 rows, whose rows of the Jacobian are those of
            the angular velocity), not as three axes (9 rows).
        """
        if self.customs or self.choices:
            raise GoalError("residuals", expected="squared residuals", got="an energy in Python or a choice")
        if self.batch_shape:
            raise GoalError("residuals", expected="targets for one pose", got=f"a batch of shape {self.batch_shape}")
        theta = np.ascontiguousarray(one_pose(self.skeleton, pose))
        r, j = self._residuals(theta, self.packed(), self.roots(vectors), vectors)
        return (r, j) if jacobian else r

    def _residuals(
        self, theta: np.ndarray, springs: Springs, roots: np.ndarray, vectors: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        from posable.engine.residuals import residual_rows, residuals_and_jacobian

        rows = int(residual_rows(springs, int(vectors)))
        r, j = np.zeros(rows), np.zeros((rows, self.skeleton.size))
        work = scratch(self.work_size)
        residuals_and_jacobian(self.skeleton.figure, springs, roots, theta, work, self.depth, int(vectors), r, j)
        return r, j

    def roots(self, vectors: bool) -> np.ndarray:
        """Return (g, 9): C by rows with C'C the weight of each spring, as engine/residuals.py reads it."""
        from posable.engine.residuals import weight_roots

        if (self.kind[:, SPRING_KIND] == COLLISION_SPRING).any():
            raise GoalError("NoCollision", expected="a solver of energies, such as 'newton'", got="one of residuals")
        return weight_roots(self.kind, self.constants[0], vectors)

    def check_derivatives(self, pose: Any, *, step: float = 1e-3) -> DerivativeCheck:
        """Compare gradient and exact Hessian at a pose (n,) with differences of the energy and of the gradient."""
        from posable.goals.energy import DerivativeCheck, first_differences, relative_gap

        theta = as_poses(self.skeleton, pose).reshape(self.skeleton.size)
        _, gradient, hessian, _ = self.evaluate(theta)
        slope = first_differences(lambda x: self.evaluate(x)[0], theta, 0.5 * step)
        curve = first_differences(lambda x: self.evaluate(x)[1], theta, 0.5 * step)
        return DerivativeCheck(relative_gap(gradient, slope), relative_gap(hessian, curve))
