"""What is wrong with a figure: every finding, in words, with names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from posable.errors import did_you_mean
from posable.kernels.joints import Fixed, JointMotion
from posable.skeleton.joint import Joint, Site, frozen_of, limits_of, numbers_of, rotation_matrix, vector_of

WORLD = "world"  # the frame that needs no joint


def check(joints: Sequence[Joint], sites: Sequence[Site], up: str | None) -> list[str]:
    """Return everything that is wrong with a figure, in words."""
    strangers = [thing for thing in joints if not isinstance(thing, Joint)]
    strangers += [thing for thing in sites if not isinstance(thing, Site)]
    if strangers:
        return [f"expected joints and sites, Joint(...) and Site(...), got {thing!r}" for thing in strangers]
    findings: list[str] = []
    if not joints:
        findings.append("a skeleton needs at least one joint")
    names = [joint.name for joint in joints]
    findings += [f"joint name must be a non-empty string, got {n!r}" for n in names if not (isinstance(n, str) and n)]
    findings += [f"joint {name!r} appears {count} times" for name, count in Counter(names).items() if count > 1]
    known = {name for name in names if isinstance(name, str)}
    roots = [joint.name for joint in joints if joint.parent is None]
    if joints and len(roots) != 1:
        listed = ", ".join(map(repr, roots))
        findings.append(f"expected one root (a joint without a parent), got {len(roots)}: {listed}")
    for joint in joints:
        if joint.parent is not None and joint.parent not in known:
            findings.append(
                f"joint {joint.name!r} has the unknown parent {joint.parent!r}{did_you_mean(joint.parent, known)}"
            )
        findings += [f"joint {joint.name!r}: {problem}" for problem in check_joint(joint)]
    findings += [f"joints form a cycle: {' -> '.join(map(repr, cycle))}" for cycle in cycles(joints)]
    findings += check_dof_names(joints)
    site_names = [site.name for site in sites]
    findings += [f"site {name!r} appears {count} times" for name, count in Counter(site_names).items() if count > 1]
    for site in sites:
        if not (isinstance(site.name, str) and site.name):
            findings.append(f"site name must be a non-empty string, got {site.name!r}")
        if site.name in known:
            findings.append(f"site {site.name!r} has the name of a joint: a goal on it could mean either")
        if site.joint not in known:
            hint = did_you_mean(site.joint, known)
            findings.append(f"site {site.name!r} is on the unknown joint {site.joint!r}{hint}")
        findings += [f"site {site.name!r}: {problem}" for problem in check_place(site.offset, site.rotation)]
    if any(joint.name == WORLD and not is_world(joint) for joint in joints):
        findings.append(f"joint {WORLD!r}: that name is the world's own frame")
    if WORLD in site_names:
        findings.append(f"site {WORLD!r}: that name is the world's own frame")
    if up not in (None, "y", "z"):
        findings.append(f"up: expected 'y', 'z' or None, got {up!r}")
    return findings


def is_world(joint: Joint) -> bool:
    """Return whether a joint is the world's own frame: a root that never moves, at the origin (many robots have it)."""
    place = vector_of(joint.offset)
    turn = rotation_matrix(joint.rotation)
    at_origin = place is not None and turn is not None and not place.any() and np.array_equal(turn, np.eye(3))
    return joint.parent is None and isinstance(joint.motion, Fixed) and at_origin


def check_dof_names(joints: Sequence[Joint]) -> list[str]:
    """Return the names that stand for two degrees of freedom, such as those of a Ball "a" and of a joint "a.z"."""
    owners: dict[str, list[str]] = {}
    for joint in {joint.name: joint for joint in joints}.values():  # a joint that appears twice is said elsewhere
        motion = joint.motion
        if isinstance(motion, JointMotion) and not motion.problems():
            for dof in motion.dofs:
                owners.setdefault(joint.name + ("." + dof.name if dof.name else ""), []).append(joint.name)
    return [
        f"degree of freedom {name!r} is one of the joints {' and '.join(map(repr, those))} at once"
        for name, those in owners.items()
        if len(those) > 1
    ]


def check_place(offset: Any, rotation: Any) -> list[str]:
    """Return what is wrong with a constant transform."""
    out = []
    if vector_of(offset) is None:
        out.append(f"offset: expected three finite numbers [m], got {offset!r}")
    if rotation_matrix(rotation) is None:
        out.append(f"rotation: expected a SciPy Rotation or an orthonormal 3x3 matrix, got {rotation!r}")
    return out


def check_joint(joint: Joint) -> list[str]:
    """Return what is wrong with one joint by itself."""
    if not isinstance(joint.motion, JointMotion):
        return [f"motion: expected Revolute(...), Ball(...), ..., got {joint.motion!r}"]
    problems = joint.motion.problems()
    if problems:
        return problems
    out = check_place(joint.offset, joint.rotation)
    k = joint.motion.size
    box = limits_of(joint)
    if box is None:
        out.append(f"limits: expected (lower, upper) or ({k}, 2) numbers without NaN, got {joint.limits!r}")
    else:
        for dof, (low, high) in zip(joint.motion.dofs, box, strict=True):
            if low > high or (np.isinf(low) and low == high):
                out.append(f"limits{' of ' + dof.name if dof.name else ''}: lower {low:g} is above upper {high:g}")
    for what in ("rest", "gain"):
        value = numbers_of(getattr(joint, what), k)
        if value is None:
            out.append(f"{what}: expected a number or {k} numbers, all finite, got {getattr(joint, what)!r}")
        elif what == "gain" and np.any(value < 0.0):
            out.append(f"gain: expected numbers that are not negative, got {joint.gain!r}")
    if frozen_of(joint) is None:
        out.append(f"frozen: expected True, False or {k} of them, got {joint.frozen!r}")
    mass = numbers_of(joint.mass, 1)
    if mass is None or mass[0] < 0.0:
        out.append(f"mass: expected a number [kg] that is not negative, got {joint.mass!r}")
    if vector_of(joint.center) is None:
        out.append(f"center: expected three finite numbers [m], got {joint.center!r}")
    return out


def cycles(joints: Sequence[Joint]) -> list[list[str]]:
    """Return every cycle of parents, once."""
    parent = {joint.name: joint.parent for joint in joints}
    done: set[Any] = set()
    found = []
    for start in parent:
        path: list[Any] = []
        name: Any = start
        while name in parent and name not in done and name not in path:
            path.append(name)
            name = parent[name]
        if name in path:
            found.append([*path[path.index(name) :], name])
        done.update(path)
    return found
