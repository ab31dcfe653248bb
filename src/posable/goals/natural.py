"""The pose prior: how likely a pose is for a person, learnt from recordings.

The prior is defined on roles, not on joints, so it fits any figure with a human body plan. Each limb is described by
unit vectors in the frame of the trunk that carries it: the bones of an arm in the chest, of a leg in the pelvis, and
which way is up. A mixture of low-rank Gaussians over those vectors, learnt by `benchmarks/build_prior.py`, is the
likelihood of the limb. Left and right share one model, by mirror images.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any, ClassVar, NamedTuple

import numpy as np

from posable.engine.layout import FIRST, LAST, LEVEL, PARENT, work_size
from posable.engine.natural import Prior, prior_energies, scratch_size, with_segments
from posable.errors import GoalError
from posable.goals.base import Goal, Spring, nonneg
from posable.model.body_plan import SIDES, BodyPlan, person_plan
from posable.model.kinematics import as_poses, carriers, in_rows, place_bodies
from posable.model.skeleton import Skeleton, per_figure

MODEL = "pose_prior.npz"
STRENGTH = 0.02  # of the negative logarithm of a likelihood, against the comfort of least change
TEMPERATURE = 60.0  # of the prior in a solve: high enough that a pose passes between Gaussians without a jump
USUAL = 2.0  # [nat per feature] above the least energy up to which a reference counts as a pose that people take
CHANGE = 1.4  # of least change beside the prior, for what the prior leaves open


class Feature(NamedTuple):
    """A unit vector of a body, seen from a base; roles without a side stand for the limb's own side."""

    name: str
    base: str
    body: str  # "world" for what does not move
    along: str  # "up", "forward", "out" at rest, or the role at the other end of the bone


TRUNK = (
    Feature("up in pelvis", "pelvis", "world", "up"),
    Feature("chest up", "pelvis", "chest", "up"),
    Feature("chest forward", "pelvis", "chest", "forward"),
    Feature("head up", "chest", "head", "up"),
    Feature("head forward", "chest", "head", "forward"),
)
ARM = (
    Feature("up in chest", "chest", "world", "up"),
    Feature("collarbone", "chest", "clavicle", "out"),
    Feature("upper arm", "chest", "shoulder", "elbow"),
    Feature("forearm", "chest", "elbow", "wrist"),
    Feature("hand", "chest", "wrist", "hand"),
)
LEG = (
    Feature("up in pelvis", "pelvis", "world", "up"),
    Feature("thigh", "pelvis", "hip", "knee"),
    Feature("shank", "pelvis", "knee", "ankle"),
    Feature("foot", "pelvis", "ankle", "forward"),
)
LIMBS = {"trunk": TRUNK, "arm": ARM, "leg": LEG}


class LimbFeatures(NamedTuple):
    """A limb of a figure: its model, its side ("" for the trunk), and which of the model's features the figure has."""

    model: str
    side: str
    has: tuple[int, ...]
    bodies: np.ndarray  # (k, 2) int64: base and body, -1 for the world
    axes: np.ndarray  # (k, 12): axes of the base by rows, vector in the body


def limbs_of(plan: BodyPlan) -> list[LimbFeatures]:
    """Return the limbs of a figure, with their features bound to its bodies."""
    out = []
    for model, features in LIMBS.items():
        for side in ("",) if model == "trunk" else SIDES:
            bound = [_bound(plan, feature, side) for feature in features]
            has = tuple(k for k, row in enumerate(bound) if row is not None)
            rows = [row for row in bound if row is not None]
            if rows:
                bodies = np.array([row[0] for row in rows], dtype=np.int64)
                out.append(LimbFeatures(model, side, has, bodies, np.array([row[1] for row in rows])))
    return out


def _bound(plan: BodyPlan, feature: Feature, side: str) -> tuple[tuple[int, int], np.ndarray] | None:
    """Return (base, body), (12,) of a feature on a figure, None where it has no such joint."""
    skeleton = plan.skeleton
    _, turned, _ = place_bodies(skeleton, skeleton.rest[None])

    def role(name: str) -> str:
        return name if name in plan or name == "world" else f"{name}.{side}"

    def body_of(name: str) -> int:
        return int(skeleton.frame_bodies[skeleton.frame(plan[name])])

    base, body = role(feature.base), role(feature.body)
    if base not in plan or (body != "world" and body not in plan):
        return None
    named = {"up": plan.up, "forward": plan.forward, "out": plan.left if side == "L" else -plan.left}
    vector = named.get(feature.along)
    if vector is None:
        end = role(feature.along)
        if end not in plan:
            return None
        vector = plan.place(end) - plan.place(body)
        if not np.linalg.norm(vector) > 0.0:
            return None
    frame = np.stack([plan.left, plan.up, plan.forward])  # its rows: a vector of the world in the figure's axes
    if side == "R":
        frame = np.diag([-1.0, 1.0, 1.0]) @ frame
    a = body_of(base)
    b = -1 if body == "world" else body_of(body)
    if b >= 0 and a not in carriers(skeleton.figure, b):
        return None
    local = vector if b < 0 else turned[0, b].T @ vector
    axes = frame @ turned[0, a]  # K with K R_base' = the figure's axes at rest
    return (a, b), np.concatenate([axes.ravel(), local / np.linalg.norm(local)])


def features_of(skeleton: Skeleton, limb: LimbFeatures, poses: np.ndarray) -> np.ndarray:
    """Return the features (t, 3 k) of a limb at poses (t, n)."""
    _, turned, _ = place_bodies(skeleton, poses)
    out = []
    for (a, b), row in zip(limb.bodies, limb.axes, strict=True):
        world = np.broadcast_to(row[9:], (len(poses), 3)) if b < 0 else turned[:, b] @ row[9:]
        out.append(np.einsum("ij,tkj,tk->ti", row[:9].reshape(3, 3), turned[:, a], world))
    return np.concatenate(out, axis=1)


@cache
def model() -> dict[str, np.ndarray]:
    """Return the learnt mixtures: for each limb its weights, means, noises and factors."""
    with (files("posable.goals") / MODEL).open("rb") as file:
        return dict(np.load(file))


@per_figure
def prior_of(skeleton: Skeleton, weight: float, temperature: float) -> Prior:
    """Return the prior of poses on a figure, ready for the kernels.

    Args:
        skeleton: The figure.
        weight: Against the comfort of least change.
        temperature: 1 gives the likelihood itself; more blends its Gaussians, so that a pose moves from one to the
            next without a jump.

    Raises:
        GoalError: The figure does not have a person's body plan.
    """
    plan = person_plan(skeleton)
    if plan is None:
        raise GoalError("Natural", expected="a figure with a person's body plan", got=repr(skeleton))
    limbs = limbs_of(plan)
    size = 3 * max(len(limb.has) for limb in limbs)
    rank = max(model()[f"{name}.factor"].shape[2] for name in LIMBS)
    rows, feature, axes, level, mean, inverse, factor = [], [], [], [], [], [], []
    for limb in limbs:
        spans = [_span(skeleton, int(a), int(b)) for a, b in limb.bodies]
        levels = skeleton.figure.dof[:, LEVEL]
        tip = max((span[0] for span in spans if span[0] >= 0), key=lambda i: levels[i], default=-1)
        if tip < 0:
            continue
        components = _components(limb, size, rank)
        rows.append((len(feature), len(feature) + len(spans), len(level), len(level) + len(components[0]), tip, 0, 0))
        feature += [(int(a), int(b), *span) for (a, b), span in zip(limb.bodies, spans, strict=True)]
        axes += list(limb.axes)
        for values, more in zip((level, mean, inverse, factor), components, strict=True):
            values += list(more)
    factors, means = np.array(factor), np.array(mean)
    precision = np.eye(size) - factors @ np.swapaxes(factors, 1, 2)
    precision *= (np.array(inverse) / temperature)[:, None, None]
    probe = np.concatenate([factors, means[:, :, None]], axis=2)  # (c, m, r + 1)
    offset = np.einsum("cmq,cm->cq", probe, means)
    offset[:, -1] *= 0.5
    prior = Prior(
        np.array(rows, dtype=np.int64), np.full(len(rows), STRENGTH * weight * temperature),
        np.zeros(len(rows)), np.array(feature, dtype=np.int64), np.zeros((0, 0), dtype=np.int64), np.array(axes),
        np.array(level) / temperature, np.array(inverse) / temperature,
        np.ascontiguousarray(probe.transpose(1, 0, 2)).reshape(size, -1), offset.ravel(),
        precision.reshape(len(level), -1), np.einsum("cij,cj->ci", precision, means),
    )  # fmt: skip
    return with_segments(prior, skeleton.figure, skeleton.order)


def _components(limb: LimbFeatures, size: int, rank: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return level (c,), mean (c, size), inverse (c,) and factor (c, size, rank) of a limb's Gaussians.

    Features that the figure does not have are left out of the Gaussians (marginal distribution).
    """
    weights, means, noise, factors = (
        model()[f"{limb.model}.{part}"].astype(float) for part in ("weight", "mean", "noise", "factor")
    )
    rows = np.concatenate([np.arange(3 * k, 3 * k + 3) for k in limb.has])
    count, width = len(weights), len(rows)
    mean, factor = np.zeros((count, size)), np.zeros((count, size, rank))
    mean[:, :width] = means[:, rows]
    level = np.empty(count)
    for c in range(count):
        u = factors[c, rows]
        values, vectors = np.linalg.eigh(noise[c] * np.eye(u.shape[1]) + u.T @ u)
        factor[c, :width, : u.shape[1]] = u @ vectors / np.sqrt(values)  # precision (1 - V V') / noise
        log_det = (width - u.shape[1]) * np.log(noise[c]) + np.log(values).sum()
        level[c] = 0.5 * log_det - np.log(weights[c])
    return level, mean, 1.0 / noise, factor


def _span(skeleton: Skeleton, base: int, body: int) -> tuple[int, int, int]:
    """Return the dofs that turn a body against its base, as the last of them, the one that ends them, and a sense."""
    if body < 0:
        return _last_dof(skeleton, base), -1, -1
    return _last_dof(skeleton, body), _last_dof(skeleton, base), 1


def _last_dof(skeleton: Skeleton, body: int) -> int:
    """Return the last dof that moves a body, -1 where none does."""
    while body >= 0:
        if skeleton.figure.body[body, LAST] > skeleton.figure.body[body, FIRST]:
            return int(skeleton.figure.body[body, LAST]) - 1
        body = int(skeleton.figure.body[body, PARENT])
    return -1


class Natural(Goal):
    """Prefer poses that people take, where the other goals leave a choice.

    The energy is the negative logarithm of a pose's likelihood among recorded ones, limb by limb (a prior learnt from
    CMU's motion capture). It is the lowest priority of a solve, below every goal whatever its weight: goals that can
    be reached are reached. It applies to any figure with a human body plan.

    Args:
        weight: Relative to the comfort of least change, which decides what the prior leaves open.
        label: Name in results.
    """

    plain: ClassVar[bool] = True
    is_prior: ClassVar[bool] = True

    def __init__(self, weight: float = 1.0, *, label: str | None = None):
        super().__init__(label, np.inf, 0, None)
        self.weight = nonneg(weight, "Natural: weight")

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """None: it is minimised below them (solvers/natural.py)."""
        prior_of(skeleton, self.weight, TEMPERATURE)
        return []

    def energy(self, skeleton: Skeleton, pose: Any) -> Any:
        """Return the negative log likelihood [nat] of a pose (n,), or of many (..., n): lower is more natural."""
        poses = as_poses(skeleton, pose)
        rows = np.ascontiguousarray(in_rows(poses))
        prior = prior_of(skeleton, 1.0 / STRENGTH, 1.0)
        depth = int(skeleton.order.rows[:, 1].max()) + 1
        work = np.empty(work_size(skeleton.size, skeleton.figure.body.shape[0], 0, depth))
        out = np.empty(len(rows))
        prior_energies(skeleton.figure, prior, rows, work, np.empty(scratch_size(prior, depth)), depth, out)
        return float(out[0]) if poses.ndim == 1 else out.reshape(poses.shape[:-1])
