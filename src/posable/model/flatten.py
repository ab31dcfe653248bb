"""From joints and sites to the flat arrays that the kernels read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from posable.engine.layout import ABOVE, DEPTH, LEVEL, SOLID_WIDTH, UP, VISIT, Figure, Order
from posable.model.joints import Joint, Site, bounds_of, frozen_of, limits_of, rotation_matrix


def parents_first(joints: Sequence[Joint]) -> tuple[Joint, ...]:
    """Return the joints in the order given, but no joint before its parent."""
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
    """Compile joints, parents first, and sites to the arrays of a Figure and of the frames on its bodies."""
    bodies: list[tuple[int, int, int, int]] = []
    rests, masses = [], []
    dofs: list[tuple[int, int, int, int, int]] = []
    signs, dof_names, slices = [], [], []
    box, rest_pose, gain, frozen = [], [], [], []
    velocity, effort = [], []
    place: dict[str, tuple[int, np.ndarray, np.ndarray]] = {}  # joint -> body, position and rotation in the body
    last_dof: list[int] = []  # of each body
    for joint in joints:
        offset, rotation = np.asarray(joint.offset, dtype=float), rotation_matrix(joint.rotation)
        assert rotation is not None  # checked before
        body, p, r = place[joint.parent] if joint.parent is not None else (-1, np.zeros(3), np.eye(3))
        p, r = p + r @ offset, r @ rotation
        elements, basis = joint.motion.dofs, joint.motion.basis
        first = len(dofs)
        slices.append(slice(first, first + len(elements)))
        if elements or body < 0:
            r = r @ basis
            turned = 0 if body >= 0 and np.array_equal(r, np.eye(3)) else 1
            above = last_dof[body] if body >= 0 else -1
            bodies.append((body, first, first + len(elements), turned))
            rests.append(np.concatenate([p, r.ravel()]))
            masses.append(np.zeros(4))
            body = len(bodies) - 1
            for element in elements:
                level = dofs[above][LEVEL] + 1 if above >= 0 else 0
                dofs.append((element.kind, element.axis, above, body, level))
                above = len(dofs) - 1
                signs.append(element.sign)
                dof_names.append(joint.name + ("." + element.name if element.name else ""))
            last_dof.append(above)
            p, r = np.zeros(3), basis.T
            limits = limits_of(joint)
            assert limits is not None  # checked before
            box += [tuple(pair) for pair in limits]
            rest_pose += list(np.broadcast_to(np.asarray(joint.rest, dtype=float), len(elements)))
            gain += list(np.broadcast_to(np.asarray(joint.gain, dtype=float), len(elements)))
            held = frozen_of(joint)
            speed, force = bounds_of(joint.velocity, len(elements)), bounds_of(joint.effort, len(elements))
            assert held is not None  # checked before
            assert speed is not None
            assert force is not None
            frozen += held.tolist()
            velocity += speed.tolist()
            effort += force.tolist()
        place[joint.name] = (body, p, r)
        if joint.mass:
            _add_mass(masses[body], joint.mass, p + r @ np.asarray(joint.center, dtype=float))
    frames = [place[joint.name] for joint in joints]
    for site in sites:
        body, p, r = place[site.joint]
        rotation = rotation_matrix(site.rotation)
        frames.append((body, p + r @ np.asarray(site.offset, dtype=float), r @ rotation))
    n = len(dofs)
    mass = np.array(masses).reshape(-1, 4)
    total_mass = float(mass[:, 0].sum())
    if total_mass > 0.0:
        mass[:, 0] /= total_mass
    limits = np.array(box, dtype=float).reshape(n, 2)
    dof_array = np.array(dofs, dtype=np.int64).reshape(n, 5)
    figure = Figure(
        frozen_array(np.array(bodies, dtype=np.int64).reshape(-1, 4)),
        frozen_array(np.array(rests)),
        frozen_array(dof_array),
        frozen_array(np.array(signs, dtype=float)),
        frozen_array(mass),
        *(frozen_array(np.zeros((0, width))) for width in (SOLID_WIDTH, 3, 4)),
        *(frozen_array(np.zeros((0, width), dtype=np.int64)) for width in (4, 2)),
    )
    lower, upper = frozen_array(limits[:, 0].copy()), frozen_array(limits[:, 1].copy())
    return {
        "size": n,
        "dof_names": tuple(dof_names),
        "slices": tuple(slices),
        "lower": lower,
        "upper": upper,
        "rest": frozen_array(np.clip(np.array(rest_pose, dtype=float).reshape(n), lower, upper)),
        "gain": frozen_array(np.array(gain, dtype=float).reshape(n)),
        "velocity": frozen_array(np.array(velocity, dtype=float).reshape(n)),
        "effort": frozen_array(np.array(effort, dtype=float).reshape(n)),
        "_frozen": frozen_array(
            np.array(frozen, dtype=bool).reshape(n) | (np.array(gain, dtype=float).reshape(n) == 0.0)
        ),
        "figure": figure,
        "order": elimination_order(dof_array, ()),
        "total_mass": total_mass,
        "frame_bodies": frozen_array(np.array([f[0] for f in frames], dtype=np.int64)),
        "frame_positions": frozen_array(np.array([f[1] for f in frames]).reshape(-1, 3)),
        "frame_rotations": frozen_array(np.array([f[2] for f in frames]).reshape(-1, 3, 3)),
    }


def _add_mass(row: np.ndarray, mass: float, centre: np.ndarray) -> None:
    """Add a mass [kg] at centre (3,) to a body's row (4,): its mass and centre of mass."""
    total = row[0] + mass
    row[1:] = (row[0] * row[1:] + mass * centre) / total
    row[0] = total


def frozen_array(array: np.ndarray) -> np.ndarray:
    """Return an array in one piece that cannot be written: one type, or every kernel is compiled twice."""
    array = np.ascontiguousarray(array)
    array.flags.writeable = False
    return array


def elimination_order(dof: np.ndarray, groups: Iterable[Iterable[int]]) -> Order:
    """Return the elimination tree of the Hessian: the skeleton's own, joined where goals couple its branches.

    dof is Figure.dof; each group lists degrees of freedom that some goal couples with one another, with all above them.
    """
    n = dof.shape[0]
    patterns = [set() for _ in range(n)]  # the lower-numbered dofs with which i has an entry
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
            patterns[up] |= patterns[i] - {up}  # fill-in: what i touched, the dof above it touches too
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
