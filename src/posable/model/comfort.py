"""The comfort metric: how readily each joint of a figure moves, and so which changes of a pose are small.

A person's joints are identified by their roles (body_plan.py): every figure with a person's body plan has the same
metric, whatever its joints are called and however many vertebrae it has. In any figure a stronger joint (`Joint.gain`)
moves more readily, by the square of it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import wraps
from itertools import pairwise
from typing import Any

import numpy as np

from posable.engine.joints import SLIDE
from posable.engine.layout import KIND
from posable.engine.natural import Comfort
from posable.errors import PosableError
from posable.model.body_plan import SIDES, BodyPlan, body_plan
from posable.model.joints import Ball, Free
from posable.model.kinematics import place_bodies
from posable.model.skeleton import Skeleton

# Stiffness of a joint [1/rad^2] in forward bending, lateral bending and twist, and of the position of the root [1/m^2]:
# heavy parts move less readily than light ones. For the spine and the neck it is the stiffness of the whole chain,
# which is distributed over its joints.
TRAVEL, LEG = 12.0, 0.884  # [1/m^2] for a person with legs of this length [m]
TURN = (4.0, 12.0, 3.0)
SPINE, NECK = (2.0, 5.0, 1.5), (0.5, 1.0, 0.3)
LIMBS = {
    "clavicle": (4.0, 3.0, 3.0), "shoulder": (0.3, 0.35, 0.4), "elbow": (0.3, 0.3, 0.3), "wrist": (0.8, 0.8, 0.5),
    "fingers": (2.0, 2.0, 2.0), "hip": (0.5, 1.2, 1.2), "knee": (0.4, 0.4, 0.4), "ankle": (0.8, 1.5, 1.5),
    "toes": (2.5, 2.5, 2.5),
}  # fmt: skip
BONE = 10.0  # of joints without a role
SHARE = 1.0  # fraction of the joint stiffness that keeps neighbours in a chain at the same fraction of their ranges
MARGIN = 0.25  # fraction of the range at either end that is uncomfortable
FIGURES = 64  # number of figures that are cached
END = 4.0  # stiffness there, relative to the joint's own


def per_figure(function: Callable[..., Any]) -> Callable[..., Any]:
    """Cache a function's values for the most recent figures, by identity: comparing figures is slow."""
    kept: OrderedDict[tuple[Any, ...], tuple[Skeleton, Any]] = OrderedDict()

    @wraps(function)
    def known(skeleton: Skeleton, *rest: Any) -> Any:
        key = (id(skeleton), *rest)
        found = kept.get(key)
        if found is not None:  # the figure is kept alive, so that no other has its id
            return found[1]
        value = function(skeleton, *rest)
        kept[key] = (skeleton, value)
        if len(kept) > FIGURES:
            kept.popitem(last=False)
        return value

    return known


@per_figure
def person_plan(skeleton: Skeleton) -> BodyPlan | None:
    """Return the body plan of a person; None for other figures.

    A person has a head, two arms and two legs, a free root, and ball joints as hips and shoulders. A humanoid robot has
    one motor per axis instead.
    """
    balls = sum(isinstance(joint.motion, Ball) for joint in skeleton.joints)
    if balls < 4 or not isinstance(skeleton.joints[0].motion, Free):  # most robots, without placing them
        return None
    try:
        plan = body_plan(skeleton)
    except PosableError:
        return None
    if "head" not in plan:
        return None
    for role in ("hip", "shoulder"):
        for side in SIDES:
            name = f"{role}.{side}"
            if name not in plan or not isinstance(skeleton.joint(plan[name]).motion, Ball):
                return None
    return plan


@per_figure
def comfort_of(skeleton: Skeleton) -> Comfort:
    """Return the comfort metric of a figure."""
    slides = skeleton.figure.dof[:, KIND] == SLIDE
    stiffness = np.where(slides, TRAVEL, 1.0)
    pairs: list[tuple[int, int, float, float]] = []
    plan = person_plan(skeleton)
    if plan is not None:
        axes = place_bodies(skeleton, skeleton.rest[None], twists=True)[2][0, :, :3]  # (n, 3), in the world
        shares = (axes @ np.stack([plan.left, plan.forward, plan.up], axis=1)) ** 2  # bend, side, twist
        parts = _parts(plan)
        for joint in skeleton.names:  # joints without a role are no joints of a person: a hip bone, a jaw
            where = skeleton.index(joint)
            stiffness[where] = shares[where] @ LIMBS[parts[joint]] if joint in parts else BONE
        for chain, total in ((_between(plan, "pelvis", "chest"), SPINE), (_between(plan, "chest", "head"), NECK)):
            for joint in chain:
                where = skeleton.index(joint)
                stiffness[where] = len(chain) * shares[where] @ total
            pairs += _shared(skeleton, chain, stiffness)
        root = skeleton.slices[0]
        travel = TRAVEL * (LEG / plan.leg) ** 2 if plan.leg > 0.0 else TRAVEL  # whatever the file's unit
        stiffness[root] = np.where(slides[root], travel, shares[root] @ TURN)
    stiffness = stiffness * np.where(skeleton.gain > 0.0, skeleton.gain, 1.0) ** -2.0  # stronger joints move more
    span = skeleton.upper - skeleton.lower
    bounded = np.isfinite(span) & (span < 2.0 * np.pi) & ~slides
    with np.errstate(invalid="ignore"):
        inner = np.stack([skeleton.lower + MARGIN * span, skeleton.upper - MARGIN * span], axis=1)
    inner = np.where(bounded[:, None], inner, [-np.inf, np.inf])
    inner = np.stack([np.minimum(inner[:, 0], skeleton.rest), np.maximum(inner[:, 1], skeleton.rest)], axis=1)
    return Comfort(
        stiffness,
        np.ascontiguousarray(inner),
        np.where(bounded, END * stiffness, 0.0),
        np.array([pair[:2] for pair in pairs], dtype=np.int64).reshape(-1, 2),
        np.array([pair[2:] for pair in pairs], dtype=float).reshape(-1, 2),
    )


def _path(skeleton: Skeleton, joint: str) -> list[str]:
    """Return the joints from the root to this one."""
    out = [joint]
    while (parent := skeleton.joint(out[-1]).parent) is not None:
        out.append(parent)
    return out[::-1]


def _between(plan: BodyPlan, base: str, tip: str) -> list[str]:
    """Return the moving joints after that of role `base`, up to and including that of role `tip`."""
    if base not in plan or tip not in plan:
        return []
    path = _path(plan.skeleton, plan[tip])
    if plan[base] not in path:
        return []
    after = path[path.index(plan[base]) + 1 :]
    return [name for name in after if plan.skeleton.joint(name).motion.size]


def _parts(plan: BodyPlan) -> dict[str, str]:
    """Return the part of a limb that each of its joints belongs to, given by the last role above it."""
    skeleton = plan.skeleton
    role_of = {joint: role.partition(".")[0] for role, joint in plan.roles.items() if "." in role}
    out: dict[str, str] = {}
    for joint in skeleton.joints:  # parents first
        part = role_of.get(joint.name)
        above = out.get(joint.parent or "")
        if part in ("hand", "toe") or (part is None and above in ("wrist", "ankle")):
            part = "toes" if part == "toe" or above == "ankle" else "fingers"
        if part is None:
            part = above
        if part is not None:
            out[joint.name] = part
    return out


def _shared(skeleton: Skeleton, chain: Iterable[str], stiffness: np.ndarray) -> list[tuple[int, int, float, float]]:
    """Return (dof, dof above, stiffness, ratio) of neighbours in a chain that turn about the same axes."""
    out = []
    for above, below in pairwise(chain):
        if skeleton.joint(above).motion != skeleton.joint(below).motion:
            continue
        a, b = skeleton.index(below), skeleton.index(above)
        for i, j in zip(range(a.start, a.stop), range(b.start, b.stop), strict=True):
            spans = skeleton.upper[[i, j]] - skeleton.lower[[i, j]]
            ratio = spans[0] / spans[1] if np.isfinite(spans).all() and (spans > 0.0).all() else 1.0
            out.append((i, j, SHARE * stiffness[i], float(np.clip(ratio, 0.25, 4.0))))
    return out
