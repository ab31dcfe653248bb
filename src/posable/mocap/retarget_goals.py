"""The goals of retargeting over time: bone directions, end effectors, contacts, clearance.

Bone directions and the turns of pelvis, chest, head and feet are what two bodies of different build share. The scaled
positions of hands, feet and head are goals too. Standing feet and touching hands are held, and shapes stay out of
each other, of the ground and of objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby, pairwise

import numpy as np
from scipy.spatial.transform import Rotation

from posable.formats.conventions import turn_up
from posable.formats.scene import Mesh
from posable.goals import Coupling, Direction, HalfSpace, Hull, NoCollision, Orientation, Position
from posable.goals.base import Goal
from posable.goals.collision import obstacle_shape
from posable.mocap.branches import LimbError
from posable.mocap.foot_contacts import Contacts, held_places, paths_of
from posable.mocap.hand_contacts import Touch, find_touches, hand_role, nearest_on, touch_weights
from posable.mocap.role_frames import RoleFrames, frame_of, unit
from posable.mocap.supports import FootSteps, Solid, nearest_face
from posable.mocap.target_body import TargetBody, with_all_solid
from posable.model.body_plan import SIDES, body_plan
from posable.model.collision import measure, pair_tables
from posable.model.joint_values import Floats
from posable.model.kinematics import Frames, forward
from posable.model.motion import Motion
from posable.model.shapes import Shape
from posable.model.skeleton import Skeleton

TURNING = {
    "pelvis": 1.0,
    "chest": 0.3,
    "head": 0.05,
    "ankle.L": 0.01,
    "ankle.R": 0.01,
}  # weights, in leg lengths squared
BONES = (
    ("hip", "knee", 0.65), ("knee", "ankle", 0.65), ("shoulder", "elbow", 0.7), ("elbow", "wrist", 0.7),
    ("wrist", "tip", 0.05),
)  # fmt: skip
PELVIS_WEIGHT, FOOT_WEIGHT, TOUCH_WEIGHT, CLEAR_WEIGHT = 0.3, 2.0, 16.0, 2000.0
HAND_WEIGHT, TOE_WEIGHT, CROWN_WEIGHT = 2.0, 0.5, 2.0  # of positions that follow the source's, scaled
ALIKE, UNLIKE = 0.13, 0.06  # leg lengths by which shoulders and arms may differ; beyond, where hands count half
WRIST_WEIGHT = 0.02  # of a wrist at rest, in leg lengths squared
STAND_WEIGHT = 8000.0  # of a point of a sole that stands
LIE_WEIGHT = 500.0  # of an ankle or a toe that lies on the ground, along the ground
APART = 8e-4  # [m] by which they are kept apart
APART_WEIGHT = 500.0  # of shapes that come too close to each other
CLEAR_FEET, SAME_LEVEL, SWEEPS = 0.015, 0.05, 3  # [m] between standing feet; [m]; times they are moved apart
JUMP = 0.45  # [rad] of a joint from one frame to the next
SLACK = 0.05  # [rad] by which a shin leans less than the source's before its foot comes off the ground with it
EVEN = 0.02  # [rad] within which a foot is flat
LEAN = 0.09  # [rad] by which legs may lean in where the hips are wider than the source's, scaled
SCALES = 0.9, 1.15  # allowed ratio of the scale of the bodies to that of their legs
NEAR_GROUND = 0.1  # leg lengths from the ground or an object within which a body is kept out of it
NEAR_SHAPES, LOOK = 0.1, 2  # [m] within which shapes are kept apart; every LOOK-th frame is searched for them

Held = list[tuple[Goal, np.ndarray]]  # goals with their weights (t,) over time; 0: switched off


@lru_cache(maxsize=8)
def _solvable(figure: Skeleton) -> Skeleton:
    """Return the figure that is solved for: rigid bones, and nothing that passes through anything else."""
    return with_all_solid(figure.with_rigid_bones())


@lru_cache(maxsize=8)
def _target_body(figure: Skeleton, roles: tuple[tuple[str, str], ...], _skin: tuple[Mesh, ...]) -> TargetBody:
    """Return a figure with roles, kept from clip to clip; figures may differ in their skins alone."""
    return TargetBody(body_plan(figure, dict(roles)))


@lru_cache(maxsize=8)
def _above_ground(body: TargetBody) -> list[Goal]:
    """Return a goal for every probe of a figure that keeps it above the ground."""
    up = body.plan.up
    return [
        HalfSpace(probe.joint, probe.radius * up, up, at=probe.point, weight=CLEAR_WEIGHT, tolerance=np.inf)
        for probe in body.probes
    ]


class RetargetGoals:
    """A motion, a figure and the mapping between them, as goals."""

    def __init__(
        self, motion: Motion, figure: Skeleton, rows: Mapping[str, tuple[str, str]], solids: Sequence[Solid] = ()
    ):
        self.motion, self.figure, self.rows = motion, figure, rows
        self.source = body_plan(motion.skeleton, {role: pair[0] for role, pair in rows.items()})
        self.body = _target_body(
            figure, tuple((role, pair[1]) for role, pair in rows.items()), figure.info.get("skin", ())
        )
        self.target = self.body.plan
        self.solvable = _solvable(figure)
        self.leg_ratio = self.target.leg / self.source.leg
        turn = turn_up(motion.skeleton.up, figure.up)
        self.turn = np.eye(3) if turn is None else turn
        self.seen = RoleFrames(motion, self.source, self.turn, grounded=not solids)
        ratio = self.body.rest.size / self.seen.size
        low, high = (k * self.leg_ratio for k in SCALES)
        self.scale = min(max(ratio, low), high)
        self.source_solids = [solid.turned(self.turn) for solid in solids]
        self.solids = [solid.scaled(self.scale) for solid in self.source_solids]
        shapes = (obstacle_shape(Hull(one.vertices)) for one in self.solids)
        self.obstacles = tuple(shape for shape in shapes if isinstance(shape, Shape))
        root = figure.free_root
        self.turning = np.ones(figure.size, dtype=bool)
        self.turning[figure.index(root or figure.joints[0].name)] = False  # the root moves freely
        self.most_step = np.minimum(figure.velocity / motion.fps, JUMP)
        below = {name for side in SIDES for name in self.body.below[self.target[f"hip.{side}"]]}
        names = {name for joint in below if joint in figure.names for name in self._up_to(joint, "pelvis")}
        self.legs = np.zeros(figure.size, dtype=bool)
        for joint in figure.joints:
            if joint.name in names and joint.motion.dofs:
                self.legs[figure.index(joint.name)] = True
        self.steps = FootSteps(self.seen, self.source.leg, self.target.up, self.source_solids)
        self.feet = {side: self._foot_path(side) for side in SIDES}

    def _up_to(self, joint: str, role: str) -> list[str]:
        """Return a joint and those above it, up to that of a role of the trunk."""
        parent = {one.name: one.parent for one in self.figure.joints}
        ends = (self.target.roles.get(role), self.target["pelvis"], self.figure.free_root)
        out: list[str] = []
        name: str | None = joint
        while name is not None and name not in ends:
            out.append(name)
            name = parent[name]
        return out

    def _foot_path(self, side: str) -> tuple[Floats, Floats | None]:
        """Return the goal positions of the target's ankle (T, 3) [m], and the frames of its foot (T, 3, 3)."""
        up = self.target.up
        frames = self.seen.frame(f"ankle.{side}", self.steps.flat)
        above = np.broadcast_to(up, (len(self.motion), 3)) if frames is None else frames[:, :, 2]
        sole = self.seen.places[f"ankle.{side}"] - self.steps.ankle_height[side] * above
        return self.scale * sole + self.body.sole_height(side) * above + self._wider(side), frames

    def _wider(self, side: str) -> Floats:
        """Return how much farther out a foot goes than the source's, scaled (T, 3) [m]: as wide as the hips are.

        Up to LEAN the legs lean in instead, so that feet are where the source's are.
        """
        ours, theirs = (frames.places["hip.L"] - frames.places["hip.R"] for frames in (self.body.rest, self.seen))
        half = 0.5 * (np.linalg.norm(ours[0]) - self.scale * np.median(np.linalg.norm(theirs, axis=-1)))
        left = unit(theirs - (theirs @ self.target.up)[:, None] * self.target.up)
        return max(half - LEAN * self.target.leg, 0.0) * (left if side == "L" else -left)

    def goals(self, first: int, end: int) -> list[Goal]:
        """Return the goals of frames first to end; contacts, ground and objects not among them."""
        rows, size, plan = slice(first, end), self.target.leg**2, self.target
        middle = 0.5 * (plan.place("hip.L") + plan.place("hip.R"))
        point = plan.rest.convert(middle, to=plan["pelvis"])
        hips = self.seen.middle("hip")
        over_feet = (hips - self.seen.middle("ankle")) @ plan.up  # scaled as legs are, whatever the rest of the body
        rise = (self.leg_ratio - self.scale) * over_feet + self._rise()
        place = (self.scale * hips + rise[:, None] * plan.up)[rows]
        out: list[Goal] = [
            Position(plan["pelvis"], place, point=point, weight=PELVIS_WEIGHT, tolerance=np.inf, label="pelvis")
        ]
        for side in SIDES:
            ankle, frames = self.feet[side]
            role = f"ankle.{side}"
            out.append(
                Position(
                    plan[role], ankle[rows], point=plan.point(role), weight=FOOT_WEIGHT, tolerance=np.inf,
                    label=f"foot.{side}",
                )
            )  # fmt: skip
            if frames is not None:
                turn = self.body.turn(role, frames[rows])
                out.append(Orientation(plan[role], turn, weight=TURNING[role] * size, tolerance=np.inf, label=role))
        for role in ("pelvis", "chest", "head"):
            frames = self.seen.frame(role) if role in self.rows and role in self.body.rest.turns else None
            if frames is not None and self.body.rest.frame(role) is not None:
                turn = self.body.turn(role, frames[rows])
                out.append(Orientation(plan[role], turn, weight=TURNING[role] * size, tolerance=np.inf, label=role))
        return out + self._ends(rows, place) + self._bones(rows, size) + self._wrists(end - first, size)

    def _ends(self, rows: slice, hips: Floats) -> list[Goal]:
        """Return goals for the places of hands and toes, and of the crown over the hips' places (t, 3) [m]."""
        plan, rest, out = self.target, self.body.rest.places, []
        for side in SIDES:
            for role, end, weight in (("wrist", "wrist", self._hand_weight(side)), ("ankle", "toe", TOE_WEIGHT)):
                joint, end = f"{role}.{side}", f"{end}.{side}"
                if joint not in self.rows or end not in self.seen.places or end not in rest:
                    continue
                ours, theirs = rest[end][0], self.seen.places[end][rows]
                tip = f"tip.{side}"
                if role == "wrist" and tip in self.seen.places and tip in rest:  # the middle of a hand
                    ours, theirs = 0.5 * (ours + rest[tip][0]), 0.5 * (theirs + self.seen.places[tip][rows])
                point, place = plan.rest.convert(ours, to=plan[joint]), self.scale * theirs
                if role == "ankle":
                    place = place + self._wider(side)[rows]
                out.append(Position(plan[joint], place, point=point, weight=weight, tolerance=np.inf, label=end))
        top = plan.first("head", "neck", "chest")
        if "crown" in self.seen.places and top is not None:
            crown, middle = self.body.crown(), self.body.rest.middle("hip")[0]
            along = unit(self.seen.places["crown"] - self.seen.middle("hip"))[rows]
            out.append(
                Position(
                    plan[top], hips + np.linalg.norm(crown - middle) * along,
                    point=plan.rest.convert(crown, to=plan[top]),
                    weight=CROWN_WEIGHT, tolerance=np.inf, label="crown",
                )
            )  # fmt: skip
        return out

    def _hand_weight(self, side: str) -> float:
        """Return the weight of a hand's position: less where arms of another build would have to bend to reach it."""
        roles = [f"{role}.{side}" for role in ("shoulder", "elbow", "wrist")]
        if not all(role in frames.places for role in roles for frames in (self.seen, self.body.rest)):
            return HAND_WEIGHT
        ours, theirs = (
            (
                0.5 * np.median(np.linalg.norm(frames.places["shoulder.L"] - frames.places["shoulder.R"], axis=-1)),
                sum(
                    np.median(np.linalg.norm(frames.places[b] - frames.places[a], axis=-1)) for a, b in pairwise(roles)
                ),
            )
            for frames in (self.body.rest, self.seen)
        )
        apart = sum(abs(float(a - self.scale * b)) for a, b in zip(ours, theirs, strict=True))
        beyond = max(apart / self.target.leg - ALIKE, 0.0)
        return HAND_WEIGHT / (1.0 + (beyond / UNLIKE) ** 2)

    def _rise(self) -> float:
        """Return how much higher the target's hips are than the source's, scaled: their ankles differ [m]."""
        ours = np.mean([self.body.sole_height(side) for side in SIDES])
        return float(ours - self.scale * np.mean([self.steps.ankle_height[side] for side in SIDES]))

    def _bones(self, rows: slice, size: float) -> list[Goal]:
        """Return a goal for the direction of every bone of arms and legs."""
        plan, out = self.target, []
        for side in SIDES:
            for upper, lower, weight in BONES:
                a, b = f"{upper}.{side}", f"{lower}.{side}"
                if a not in self.rows or b not in self.seen.places or b not in self.body.rest.places:
                    continue
                along = (self.seen.places[b] - self.seen.places[a])[rows]
                axis = plan.rest.convert(self.body.rest.places[b][0], to=plan[a]) - plan.point(a)
                if np.linalg.norm(axis) > 1e-2 * plan.leg and (np.linalg.norm(along, axis=-1) > 1e-6).all():
                    axis = axis / np.linalg.norm(axis)
                    goal = Direction(plan[a], axis, along, weight=weight * size, tolerance=np.inf, label=f"{a} bone")
                    out.append(goal)
        return out

    def _wrists(self, count: int, size: float) -> list[Goal]:
        """Return goals that keep wrists near rest: the place of a hand and the direction of its tip leave a choice."""
        figure, out = self.solvable, []
        for side in SIDES:
            elbow, wrist = (self.target.roles.get(f"{role}.{side}") for role in ("elbow", "wrist"))
            if elbow is None or wrist is None:
                continue
            for joint in self._up_to(wrist, f"elbow.{side}"):
                for i in range(figure.size)[figure.index(joint)]:
                    leader = figure.dof_names[i - 1]  # it does not matter: its ratio is 0
                    offset = np.full(count, figure.rest[i])
                    goal = Coupling(
                        figure.dof_names[i], leader, ratio=0.0, offset=offset, weight=WRIST_WEIGHT * size,
                        tolerance=np.inf, label=f"{joint} at rest",
                    )  # fmt: skip
                    out.append(goal)
        return out

    def arms(self, first: int, end: int, figure: Skeleton) -> list[tuple[np.ndarray, LimbError]]:
        """Return, for every arm, its degrees of freedom (k,) and how far its bones are off in frames from first to end.

        The poses are those of `figure`, which has the same joints. The error is a function of poses (t, n) and of the
        rows that they are of; it returns (t,) [rad^2], the sum over both bones.
        """
        out: list[tuple[np.ndarray, LimbError]] = []
        for side in SIDES:
            roles = [f"{role}.{side}" for role in ("shoulder", "elbow", "wrist")]
            if not all(role in self.rows and role in self.seen.places for role in roles):
                continue
            chain = [name for name in self._up_to(self.target[roles[2]], "chest") if name in figure.names]
            dofs = np.concatenate([np.arange(figure.size)[figure.index(name)] for name in chain])
            wanted = [unit(self.seen.places[b] - self.seen.places[a])[first:end] for a, b in pairwise(roles)]

            def error(poses: Floats, rows: slice, roles=roles, wanted=wanted) -> Floats:
                frames = forward(figure, poses)
                at = [self.target.position(frames, role) for role in roles]
                cosines = [
                    (unit(b - a) * along[rows]).sum(axis=-1) for (a, b), along in zip(pairwise(at), wanted, strict=True)
                ]
                return (np.arccos(np.clip(cosines, -1.0, 1.0)) ** 2).sum(axis=0)

            out.append((dofs, error))
        return out

    def locks(self, poses: np.ndarray, first: int) -> Held:
        """Return a goal for each point of the soles, and its weights (t,): 1 where it stands, else 0."""
        out, rows = [], slice(first, first + len(poses))
        frames = forward(self.figure, poses)
        stands = {side: self._stands(side, frames, first, len(poses)) for side in SIDES}
        self._spread(stands, first, len(poses))
        for side in SIDES:
            places = stands[side]
            heel, toe = self.steps.heel[side][rows], self.steps.toe[side][rows]
            labels = (("heel", heel), ("outer toe", toe), ("inner toe", toe), ("ankle", heel & toe))
            ankle = (self.target[f"ankle.{side}"], self.target.point(f"ankle.{side}"))  # or a narrow foot could roll
            points = [*self.body.standing_points(side), ankle]
            for k, (joint, point) in enumerate(points):
                label, standing = labels[k]
                if standing.any():
                    goal = Position(
                        joint, places[:, k], point=point, weight=STAND_WEIGHT, tolerance=np.inf,
                        label=f"{label}.{side} stands",
                    )  # fmt: skip
                    out.append((goal, standing.astype(float)))
            out += self._lies(side, frames, rows)
        return out

    def _lies(self, side: str, frames: Frames, rows: slice) -> Held:
        """Return goals that keep the ankle and the toe of a foot that lies, as in a crawl, where they come to."""
        up, out = self.target.up, []
        joint = self.target[f"ankle.{side}"]
        points = (self.target.point(f"ankle.{side}"), self.body.soles[side][1:].mean(axis=0))
        for point, lying in zip(points, self.steps.lying[side][rows].T, strict=False):
            path = (frames.position(joint) + frames.rotation_matrix(joint) @ point)[:, None]
            if lying.any():
                place = np.nan_to_num(held_places(path, lying[:, None])[:, 0])
                weight = LIE_WEIGHT * (np.eye(3) - np.outer(up, up))
                goal = Position(joint, place, point=point, weight=weight, tolerance=np.inf, label=f"foot.{side} lies")
                out.append((goal, lying.astype(float)))
        return out

    def _stands(self, side: str, frames: Frames, first: int, count: int) -> Floats:
        """Return where heel, toes and ankle of a foot stand (t, 4, 3) [m]: one place through each stand.

        A foot stands where it comes to by itself, and as it is turned there: its limits may not let it turn as the
        source's foot does. Its height is the surface's. It is flat, or on the edge that its ankle's limits leave.
        """
        role, up = f"ankle.{side}", self.target.up
        joint, point = self.target[role], self.target.point(role)
        ankle = frames.position(joint) + frames.rotation_matrix(joint) @ point
        heel, outer, inner = soles = (self.body.soles[side] - point) @ self.body.foot_frame(side)
        width = 0.5 * abs(outer[1] - inner[1])
        places = np.zeros((count, 4, 3))
        for a, b, level, foot in self._flat_feet(side, frames, first, count):
            middle = np.median(ankle[a:b], axis=0)
            middle = middle + (self.scale * level + self.body.sole_height(side) - middle @ up) * up
            lean = self._leaning(side, foot, slice(first + a, first + b))
            ahead = np.where(lean[:, 0] > 0.0, max(outer[0], inner[0]), heel[0])
            left = np.where(lean[:, 1] > 0.0, heel[1] + width, heel[1] - width)
            edge = np.stack([ahead, left, np.full(b - a, heel[2])], axis=1)  # about which it turns
            turn = Rotation.from_euler("xy", np.stack([-lean[:, 1], lean[:, 0]], axis=1)).as_matrix()
            points = np.vstack([soles, np.zeros(3)])[None] - edge[:, None]
            places[a:b] = middle + (edge[:, None] + np.einsum("tij,tkj->tki", turn, points)) @ foot.T
        return places

    def _flat_feet(self, side: str, frames: Frames, first: int, count: int) -> Iterator[tuple[int, int, float, Floats]]:
        """Yield the rows of every stand, the height of its surface [m] and the frame of the foot there, flat (3, 3)."""
        up = self.target.up
        ahead = frames.rotation_matrix(self.target[f"ankle.{side}"]) @ self.body.foot_frame(side)[:, 0]
        for a, b, level in self.steps.stands(side):
            a, b = max(a - first, 0), min(b - first, count)
            if a < b:
                yield a, b, level, frame_of(np.cross(up, ahead[a:b].mean(axis=0)), up)

    def _leaning(self, side: str, foot: Floats, rows: slice) -> Floats:
        """Return how far a foot with frame (3, 3) leans forward and to the left with its shin (t, 2) [rad].

        It does where the shin leans further than the ankle's limits allow over a flat foot.
        """
        shin = unit(self.seen.places[f"knee.{side}"] - self.seen.places[f"ankle.{side}"])[rows]
        angles = self.body.shin_angles(shin @ foot)
        low, high = self.body.shin_ranges[side] + np.array([[-SLACK], [SLACK]])
        return angles - np.clip(angles, low, high)

    def _spread(self, places: dict[str, Floats], first: int, count: int) -> None:
        """Move feet that stand in each other apart, in place: soles may be wider than the source's feet.

        Args:
            places: {side: (t, 4, 3)} [m] of heel, outer toe, inner toe and ankle.
            first: The frame of the first row.
            count: How many rows there are.
        """
        up = self.target.up
        spans = {
            side: [(max(a - first, 0), min(b - first, count), level) for a, b, level in self.steps.stands(side)]
            for side in SIDES
        }
        pairs = [
            (one, other)
            for one in spans["L"]
            for other in spans["R"]
            if max(one[0], other[0]) < min(one[1], other[1]) and abs(one[2] - other[2]) * self.scale < SAME_LEVEL
        ]
        for _ in range(SWEEPS):
            for (a, b, _), (c, d, _) in pairs:
                left, right = places["L"][a], places["R"][c]
                across = (left[1] - left[2]) + (right[2] - right[1])  # from the inner to the outer toe of the left foot
                across = unit(across - (across @ up) * up)
                ahead = np.cross(across, up)
                widths = [0.5 * abs(float((foot[1] - foot[2]) @ across)) for foot in (left, right)]
                inner_left = min(float((left[1:3] @ across).min()), float(left[0] @ across) - widths[0])
                inner_right = max(float((right[1:3] @ across).max()), float(right[0] @ across) + widths[1])
                beside = (left[:3] @ ahead).max() > (right[:3] @ ahead).min() - CLEAR_FEET
                beside &= (right[:3] @ ahead).max() > (left[:3] @ ahead).min() - CLEAR_FEET
                lacking = inner_right + CLEAR_FEET - inner_left
                if beside and lacking > 0.0:
                    places["L"][a:b] += 0.5 * lacking * across
                    places["R"][c:d] -= 0.5 * lacking * across

    def apart(self, poses: np.ndarray) -> list[Goal]:
        """Return the goal that keeps shapes off each other and out of objects: those that come near in poses (t, n)."""
        figure = self.solvable
        if not figure.shapes:
            return []
        tables = pair_tables(figure, figure.collision_pairs, ())
        near: list[tuple[str, str]] = []
        if tables.pairs:
            close = measure(tables, np.ascontiguousarray(poses[::LOOK]), NEAR_SHAPES).min(axis=0) < NEAR_SHAPES
            joints = [shape.joint for shape in tables.rows]
            near = list(
                dict.fromkeys((joints[a], joints[b]) for (a, b), c in zip(tables.pairs, close, strict=True) if c)
            )
        if not near and not self.obstacles:
            return []
        return [NoCollision(near, self.obstacles, margin=APART, weight=APART_WEIGHT, tolerance=np.inf)]

    def clearances(self, poses: np.ndarray) -> Held:
        """Return goals that keep the body above the ground and out of objects, in frames where it comes near them."""
        up, near = self.target.up, NEAR_GROUND * self.target.leg
        frames = forward(self.figure, poses)
        out: Held = []
        by_joint = groupby(zip(self.body.probes, _above_ground(self.body), strict=True), key=lambda pair: pair[0].joint)
        for joint, pairs in by_joint:
            probes, goals = zip(*pairs, strict=True)
            place, turn = frames.position(joint), frames.rotation_matrix(joint)
            points, radii = np.array([probe.point for probe in probes]), np.array([probe.radius for probe in probes])
            close = (place @ up)[:, None] + (up @ turn) @ points.T - radii < near
            for k in np.flatnonzero(close.any(axis=0)):
                out.append((goals[k], close[:, k].astype(float)))
            for probe in probes if self.solids and not self.figure.shapes else ():
                face, normal, gap = nearest_face(self.solids, place + turn @ probe.point)
                close = gap - probe.radius < near
                if close.any():
                    goal = HalfSpace(
                        joint, face + probe.radius * normal, normal, at=probe.point, weight=CLEAR_WEIGHT,
                        tolerance=np.inf,
                    )  # fmt: skip
                    out.append((goal, close.astype(float)))
        return out

    def ground_depth(self, poses: Floats, *, feet: bool = True) -> Floats:
        """Return how deep the body, with or without its feet, is in the ground (t,) [m] in poses (t, n)."""
        up, frames, out = self.target.up, forward(self.figure, poses), np.zeros(len(poses))
        but = set() if feet else {name for side in SIDES for name in self.body.below[self.target[f"ankle.{side}"]]}
        for joint, probes in groupby(self.body.probes, key=lambda probe: probe.joint):
            if joint in but:
                continue
            low = np.array([(*probe.point, probe.radius) for probe in probes])
            heights = (frames.position(joint) @ up)[:, None] + (up @ frames.rotation_matrix(joint)) @ low[:, :3].T
            np.maximum(out, (low[:, 3] - heights).max(axis=1), out=out)
        return out

    def contacts(self, poses: np.ndarray, first: int = 0) -> Contacts:
        """Return when and where the target's feet stand: its ankles where a foot is flat, and its toes."""
        span, frames = slice(first, first + len(poses)), forward(self.figure, poses)
        rows = [(self.target[f"ankle.{side}"], self.steps.flat(side)[span].copy()) for side in SIDES]
        for side, (_, flat) in zip(SIDES, rows, strict=True):
            for a, b, _, foot in self._flat_feet(side, frames, first, len(poses)):
                flat[a:b] &= np.abs(self._leaning(side, foot, slice(first + a, first + b))).max(axis=1) < EVEN
        rows += [
            (self.target[f"toe.{side}"], self.steps.toe[side][span]) for side in SIDES if f"toe.{side}" in self.target
        ]
        points = tuple(point for point, _ in rows)
        when = np.stack([standing for _, standing in rows], axis=1)
        paths = paths_of(Motion(self.figure, poses, self.motion.fps), points)
        return Contacts(points, when, held_places(paths, when))

    def touches(self) -> list[Touch]:
        """Return what the source's hands touch, as far as the target has the same parts."""
        both = {role for role in self.source.roles if role in self.target}
        return [
            touch
            for touch in find_touches(self.motion, self.source)
            if isinstance(touch.part, str) or both.issuperset(touch.part)
        ]

    def touch_goals(self, touches: list[Touch], poses: np.ndarray, first: int, end: int) -> Held:
        """Return, for every touch, the goal of a hand (two for a touch of hands) and its weights (t,) over time."""
        ours = forward(self.figure, poses)
        out: Held = []
        for touch in touches:
            weights = touch_weights(touch, len(self.motion), self.motion.fps)[first:end]
            sides = SIDES if touch.part == "hands" else (touch.side,)
            for side in sides:
                role = hand_role(self.source, side) or ""
                if role not in self.target:
                    continue
                place = self._touched(touch, side, role, ours, slice(first, end))
                point, label = self.target.point(role), f"hand.{side}"
                goal = Position(
                    self.target[role], place, point=point, weight=TOUCH_WEIGHT, tolerance=np.inf, label=label
                )
                out.append((goal, weights))
        return out

    def _touched(self, touch: Touch, side: str, role: str, ours: Frames, rows: slice) -> np.ndarray:
        """Return where a hand that touches something goes (t, 3) [m]."""
        places = {name: path[rows] for name, path in self.seen.places.items()}
        hand = places[role]
        if touch.part == "world":
            held = slice(max(touch.first - rows.start, 0), max(touch.end - rows.start, 0))
            return np.broadcast_to(self.scale * np.median(hand[held], axis=0), hand.shape)
        if touch.part == "hands":
            other = role.replace(f".{side}", ".R" if side == "L" else ".L")
            mine, its = (self.target.position(ours, name) for name in (role, other))
            return 0.5 * (mine + its) + 0.5 * self.scale * (hand - places[other])
        a, b = touch.part
        share, away = nearest_on(places[a], places[b], hand)
        start, stop = self.target.position(ours, a), self.target.position(ours, b)
        return start + share[:, None] * (stop - start) + self.scale * away
