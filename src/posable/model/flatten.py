"""The flat arrays of joints and sites that the kernels read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from posable.engine.layout import ABOVE, DEPTH, LEVEL, SOLID_WIDTH, UP, VISIT, Figure, Order
from posable.model.joints import Joint, Site, bounds_of, frozen_of, limits_of, numbers_of, rotation_matrix


def parents_first(joints: Sequence[Joint]) -> tuple[Joint, ...]:
    """Return the joints in the given order, except that parents come first."""
    by_name = {joint.name: joint for joint in joints}
    placed: dict[str, Joint] = {}
    for joint in joints:
        chain = []
        current: Joint | None = joint
        while current is not None and current.name not in placed:
            chain.append(current)
            current = by_name[current.parent] if current.parent is not None else None
        for member in reversed(chain):
            placed[member.name] = member
    return tuple(placed.values())


def flatten(joints: Sequence[Joint], sites: Sequence[Site]) -> dict[str, Any]:
    """Return the arrays of a Skeleton by name.

    Args:
        joints: Valid joints, parents first.
        sites: Valid sites.
    """
    rows = _Rows()
    for joint in joints:
        rows.add(joint)
    frames = [rows.place[joint.name] for joint in joints]
    for site in sites:
        body, p, r = rows.place[site.joint]
        frames.append((body, p + r @ np.asarray(site.offset, dtype=float), r @ rotation_matrix(site.rotation)))
    return {
        **rows.arrays(),
        "frame_bodies": frozen_array(np.array([f[0] for f in frames], dtype=np.int64)),
        "frame_positions": frozen_array(np.array([f[1] for f in frames]).reshape(-1, 3)),
        "frame_rotations": frozen_array(np.array([f[2] for f in frames]).reshape(-1, 3, 3)),
    }


class _Rows:
    """The rows of a figure's arrays while its joints are added."""

    def __init__(self):
        self.bodies: list[tuple[int, int, int, int]] = []
        self.rests: list[np.ndarray] = []  # of each body: position and rotation in its parent
        self.masses: list[np.ndarray] = []
        self.dofs: list[tuple[int, int, int, int, int]] = []
        self.signs: list[float] = []
        self.dof_names: list[str] = []
        self.slices: list[slice] = []
        self.values: dict[str, list[Any]] = {
            name: [] for name in ("limits", "rest", "gain", "frozen", "velocity", "effort")
        }
        self.place: dict[str, tuple[int, np.ndarray, np.ndarray]] = {}  # joint -> body, position and rotation in it
        self.last_dof: list[int] = []  # of each body

    def add(self, joint: Joint) -> None:
        """Add a joint: a body if it moves, else a frame on the body of its parent."""
        body, p, r = self.place[joint.parent] if joint.parent is not None else (-1, np.zeros(3), np.eye(3))
        p, r = p + r @ np.asarray(joint.offset, dtype=float), r @ rotation_matrix(joint.rotation)  # type: ignore[operator]  # a valid joint
        self.slices.append(slice(len(self.dofs), len(self.dofs) + joint.motion.size))
        if joint.motion.size or body < 0:
            body = self._add_body(joint, body, p, r @ joint.motion.basis)
            p, r = np.zeros(3), joint.motion.basis.T
        self.place[joint.name] = (body, p, r)
        if joint.mass:
            _add_mass(self.masses[body], joint.mass, p + r @ np.asarray(joint.center, dtype=float))

    def _add_body(self, joint: Joint, parent: int, p: np.ndarray, r: np.ndarray) -> int:
        """Add the body of a joint at position p (3,) and rotation r (3, 3) in its parent; return its index."""
        first, count = len(self.dofs), joint.motion.size
        turned = 0 if parent >= 0 and np.array_equal(r, np.eye(3)) else 1
        above = self.last_dof[parent] if parent >= 0 else -1
        body = len(self.bodies)
        self.bodies.append((parent, first, first + count, turned))
        self.rests.append(np.concatenate([p, r.ravel()]))
        self.masses.append(np.zeros(4))
        for element in joint.motion.dofs:
            level = self.dofs[above][LEVEL] + 1 if above >= 0 else 0
            self.dofs.append((element.kind, element.axis, above, body, level))
            above = len(self.dofs) - 1
            self.signs.append(element.sign)
            self.dof_names.append(joint.name + ("." + element.name if element.name else ""))
        self.last_dof.append(above)
        given = {
            "limits": limits_of(joint), "frozen": frozen_of(joint), "rest": numbers_of(joint.rest, count),
            "gain": numbers_of(joint.gain, count), "velocity": bounds_of(joint.velocity, count),
            "effort": bounds_of(joint.effort, count),
        }  # fmt: skip
        for name, value in given.items():
            self.values[name] += list(value)  # type: ignore[arg-type]  # valid joints: never None
        return body

    def arrays(self) -> dict[str, Any]:
        """Return the arrays of the joints added."""
        n = len(self.dofs)
        mass = np.array(self.masses).reshape(-1, 4)
        total_mass = float(mass[:, 0].sum())
        if total_mass > 0.0:
            mass[:, 0] /= total_mass
        dofs = np.array(self.dofs, dtype=np.int64).reshape(n, 5)
        figure = Figure(
            frozen_array(np.array(self.bodies, dtype=np.int64).reshape(-1, 4)),
            frozen_array(np.array(self.rests)),
            frozen_array(dofs),
            frozen_array(np.array(self.signs, dtype=float)),
            frozen_array(mass),
            *(frozen_array(np.zeros((0, width))) for width in (SOLID_WIDTH, 3, 4)),
            frozen_array(np.zeros(0)),
            *(frozen_array(np.zeros((0, width), dtype=np.int64)) for width in (4, 2)),
        )
        limits = np.array(self.values["limits"], dtype=float).reshape(n, 2)
        lower, upper = frozen_array(limits[:, 0].copy()), frozen_array(limits[:, 1].copy())
        rest, gain, velocity, effort = (
            np.array(self.values[name], dtype=float).reshape(n) for name in ("rest", "gain", "velocity", "effort")
        )
        return {
            "size": n,
            "dof_names": tuple(self.dof_names),
            "slices": tuple(self.slices),
            "lower": lower,
            "upper": upper,
            "rest": frozen_array(np.clip(rest, lower, upper)),
            "gain": frozen_array(gain),
            "velocity": frozen_array(velocity),
            "effort": frozen_array(effort),
            "_frozen": frozen_array(np.array(self.values["frozen"], dtype=bool).reshape(n) | (gain == 0.0)),
            "figure": figure,
            "order": elimination_order(dofs, ()),
            "total_mass": total_mass,
        }


def _add_mass(row: np.ndarray, mass: float, centre: np.ndarray) -> None:
    """Add a mass [kg] at centre (3,) to a body's row (4,): its mass and centre of mass."""
    total = row[0] + mass
    row[1:] = (row[0] * row[1:] + mass * centre) / total
    row[0] = total


def frozen_array(array: np.ndarray) -> np.ndarray:
    """Return a contiguous read-only array: one type for all figures, so that kernels are compiled once."""
    array = np.ascontiguousarray(array)
    array.flags.writeable = False
    return array


def elimination_order(dof: np.ndarray, groups: Iterable[Iterable[int]]) -> Order:
    """Return the elimination tree of the Hessian: the skeleton's own, merged where goals couple its branches.

    Args:
        dof: (n, 5) Figure.dof.
        groups: Degrees of freedom that some goal couples with one another, including all above them.
    """
    n = dof.shape[0]
    patterns = [set() for _ in range(n)]  # columns below i with an entry in row i
    for i in range(n):
        above = int(dof[i, ABOVE])
        if above >= 0:
            patterns[i] = patterns[above] | {above}
    for group in groups:
        members = sorted(set(group))
        for k, i in enumerate(members):
            patterns[i] |= set(members[:k])
    rows = np.zeros((n, 3), dtype=np.int64)
    for i in range(n - 1, -1, -1):
        up = max(patterns[i], default=-1)
        rows[i, UP] = up
        if up >= 0:
            patterns[up] |= patterns[i] - {up}  # fill-in
    for i in range(n):
        up = rows[i, UP]
        rows[i, DEPTH] = rows[up, DEPTH] + 1 if up >= 0 else 0
    below = [[] for _ in range(n + 1)]
    for i in range(n - 1, -1, -1):
        below[rows[i, UP]].append(i)  # the last list holds the roots
    stack, visit = list(below[-1]), 0
    while stack:
        i = stack.pop()
        rows[visit, VISIT] = i
        visit += 1
        stack.extend(below[i])
    return Order(frozen_array(rows))
