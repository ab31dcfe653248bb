"""The target of retargeting: its soles, the points that must stay clear of obstacles, its frames at rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from posable.goals import Direction
from posable.goals.base import Goal
from posable.mocap.frame_solver import FrameOptions, FrameSolver
from posable.mocap.role_frames import PLAINLY, RoleFrames, descendants, farthest, unit
from posable.mocap.root_align import place_root
from posable.mocap.skin_extent import skin_extent, without_loose
from posable.model.body_plan import SIDES, BodyPlan, body_plan
from posable.model.joint_values import Floats
from posable.model.joints import Revolute, unit_axis
from posable.model.kinematics import forward
from posable.model.motion import Motion
from posable.model.skeleton import Skeleton
from posable.problem import Problem

SOLE = 0.02  # [m] above the lowest point of a foot within which a point is of its sole
FOOT_WIDTH = 0.35  # of a foot's length, where nothing shows it
BEYOND = 0.12  # of a foot's length by which its outline goes beyond its contact points
HAND, END = 0.1, 0.15  # leg lengths of a hand, at least; fraction of it at its end whose middle is its tip
NECK = 0.25  # leg lengths about the middle of the shoulders within which a head is over them
AHEAD = 0.5  # cosine of the angle between a foot and forward at rest
ROUND = 0.12  # of a bone's length: how thick a bone is that has no shape
SWEEP = 9  # values of each degree of freedom of an ankle from which its range is taken
EDGE = 1e-3  # least cosine of a shin's angle from upright
SPREAD, LEVEL = 0.17, 0.1  # sine of the angle from upright of a leg that is spread; of an ankle's axis from level
UPRIGHT = FrameOptions(max_iterations=100, min_gain=1e-9, damping=1e-2, independent=True, pull=1e-4)
DIRECTIONS = np.array(
    [(x, y, z) for x in (-1, 0, 1) for y in (-1, 0, 1) for z in (-1, 0, 1) if (x, y, z) != (0, 0, 0)], float
)


class Probe(NamedTuple):
    """A ball on a body that is kept out of the ground and of objects: a joint, a point (3,) in its frame, a radius."""

    joint: str
    point: Floats
    radius: float


@lru_cache(maxsize=8)
def with_all_solid(figure: Skeleton) -> Skeleton:
    """Return a figure whose visual shapes also collide, so that a drawn hand does not pass through a hip."""
    if all(shape.collides for shape in figure.shapes):
        return figure
    shapes = [s if s.collides else replace(s, contype=1, conaffinity=1) for s in figure.shapes]
    return figure.replace(shapes=shapes)


def standing_up(figure: Skeleton, roles: Mapping[str, str]) -> Skeleton:
    """Return a figure with a free root that stands along its up axis at rest.

    It is the figure itself, or one whose root is turned where the file clearly has the body along another axis.
    """
    plan, name = body_plan(figure, roles), figure.free_root
    up = figure.up_vector
    top = plan.first("head", "neck", "shoulder.L", "chest") or "pelvis"
    tall = plan.place(top) - 0.5 * (plan.place("ankle.L") + plan.place("ankle.R"))
    k = int(np.abs(tall).argmax())
    if name is None or abs(tall[k]) < PLAINLY * np.linalg.norm(tall) or abs(up[k]) > 0.5:
        return figure
    along = np.sign(tall[k]) * np.eye(3)[k]
    turn = Rotation.align_vectors([up], [along])[0]
    frames = forward(figure, figure.rest)
    placed = turn.as_matrix() @ frames.rotation_matrix(name), turn.apply(frames.position(name))
    rest = place_root(figure, figure.rest, *placed)[figure.index(name)]
    return figure.replace(joints=[replace(one, rest=rest) if one.name == name else one for one in figure.joints])


def with_straight_legs(plan: BodyPlan) -> BodyPlan:
    """Return the plan with legs that are upright at rest, seen from the front; itself where they are.

    Some files have a figure with its legs spread, as in a star jump: its feet are flat only where the legs are upright.
    """
    goals: list[Goal] = []
    for side in SIDES:
        leg = plan.place(f"ankle.{side}") - plan.place(f"hip.{side}")
        if abs(leg @ plan.left) > SPREAD * np.linalg.norm(leg) and not _level_ankle(plan, side):
            joint = plan[f"hip.{side}"]
            axis = plan.rest.rotation_matrix(joint).T @ leg
            goals.append(Direction(joint, axis / np.linalg.norm(axis), leg - (leg @ plan.left) * plan.left))
    if not goals:
        return plan
    figure = plan.skeleton
    pose = figure.rest[None].copy()
    solver = FrameSolver(Problem(figure, goals))
    root = figure.index(figure.free_root or figure.joints[0].name)
    solver.lower, solver.upper = solver.lower.copy(), solver.upper.copy()
    solver.lower[root] = solver.upper[root] = figure.rest[root]
    solver(UPRIGHT, pose, home=pose[0].copy())
    joints = [replace(one, rest=pose[0, figure.index(one.name)]) if one.motion.dofs else one for one in figure.joints]
    return body_plan(figure.replace(joints=joints), plan.roles)


def _level_ankle(plan: BodyPlan, side: str) -> bool:
    """Return whether hinges of an ankle show that its foot is flat at rest although the leg is not upright."""
    motion, name = plan.skeleton.joint(plan[f"ankle.{side}"]).motion, plan[f"ankle.{side}"]
    if not isinstance(motion, Revolute):
        return False
    axis = plan.rest.rotation_matrix(name) @ unit_axis(motion.axis)
    return abs(float(axis @ plan.up)) < LEVEL


class TargetBody:
    """A figure with roles, as retargeting sees it.

    Attributes:
        plan: Its roles, with its legs upright at rest.
        rest: Its roles' places and frames at rest, of one frame.
        soles: {side: (3, 3)} [m]: heel, outer toe and inner toe in the frame of the ankle's joint at rest.
        probes: Balls that stay out of the ground and of objects.
    """

    def __init__(self, plan: BodyPlan):
        self.plan = plan = with_straight_legs(plan)
        self.rest = RoleFrames(Motion(plan.skeleton, plan.skeleton.rest[None], 1.0), plan, np.eye(3))
        self.below = descendants(plan)
        self.shapes = plan.skeleton.shapes or without_loose(plan, skin_extent(plan.skeleton))
        self.soles = {side: self._sole(side) for side in SIDES}
        for side, other in (SIDES, SIDES[::-1]):
            if not self._has_shapes(side) and self._has_shapes(other):
                self.soles[side] = self._mirrored_sole(other, side)
        for side in SIDES:
            if f"toe.{side}" not in plan and not self._shows_toe(side):
                toe = plan.rest.convert(self.soles[side][1:].mean(axis=0), from_=plan[f"ankle.{side}"], to="world")
                self.rest.places[f"toe.{side}"] = toe[None]
            if f"wrist.{side}" in plan and f"tip.{side}" not in self.rest.places:
                self._add_tip(side)
        self.probes = self._probes()

    def _add_tip(self, side: str) -> None:
        """Add the tip of a hand that only its shapes show; an arm that ends with its forearm has none."""
        plan, wrist = self.plan, f"wrist.{side}"
        if plan[wrist] == plan.roles.get(f"elbow.{side}"):
            return
        points, _ = self._surface({name for name in self.below[plan[wrist]] if name in plan.skeleton.names})
        away = points - plan.place(wrist)
        size = np.linalg.norm(away, axis=1)
        if size.max(initial=0.0) > HAND * plan.leg:
            along = away @ away[int(size.argmax())] / size.max()
            self.rest.places[f"tip.{side}"] = points[along > (1.0 - END) * along.max()].mean(axis=0)[None]

    def crown(self) -> Floats:
        """Return the top of the head at rest (3,) [m]: the highest point over the shoulders."""
        if "crown" in self.rest.places:
            return self.rest.places["crown"][0]
        plan, middle = self.plan, self.rest.trunk[0]
        joint = plan[plan.first("head", "neck", "chest") or "pelvis"]
        points, radii = self._surface({name for name in self.below[joint] if name in plan.skeleton.names})
        away = points - middle
        height = away @ plan.up
        over = np.linalg.norm(away - np.outer(height, plan.up), axis=1) < NECK * plan.leg
        top = float((height + radii)[over].max(initial=0.0))
        return middle + top * plan.up

    def turn(self, role: str, frames: Floats) -> Floats:
        """Return how the role's joint is turned (T, 3, 3) where its part has frames (T, 3, 3)."""
        shown = self.rest.frame(role)
        assert shown is not None
        return frames @ shown[0].T @ self.rest.turns[role][0]

    def standing_points(self, side: str) -> list[tuple[str, Floats]]:
        """Return (joint, point (3,) in its frame) of heel, outer toe and inner toe: toes that bend carry their own."""
        ankle, toe = f"ankle.{side}", f"toe.{side}"
        out = [(self.plan[ankle], self.soles[side][0])]
        joint = self.plan[toe] if toe in self.plan else self.plan[ankle]
        for point in self.soles[side][1:]:
            world = self.plan.rest.convert(point, from_=self.plan[ankle], to="world")
            out.append((joint, self.plan.rest.convert(world, to=joint)))
        return out

    @staticmethod
    def shin_angles(shins: Floats) -> Floats:
        """Return how far forward and to the left (..., 2) [rad] shins lean that have directions (..., 3) in a foot."""
        ahead, left, up = np.moveaxis(shins, -1, 0)
        return np.stack([np.arctan2(ahead, np.maximum(up, EDGE)), np.arctan2(left, np.maximum(up, EDGE))], axis=-1)

    @cached_property
    def shin_ranges(self) -> dict[str, Floats]:
        """{side: (2, 2)} [rad]: how far forward and to the left a shin can lean over its foot, least and most."""
        out = {}
        for side in SIDES:
            plan, joint = self.plan, self.plan[f"ankle.{side}"]
            figure, above = plan.skeleton, {one.name: one.parent for one in plan.skeleton.joints}
            poses, name = [figure.rest], joint
            while name is not None and name != plan[f"knee.{side}"]:
                for i in range(figure.size)[figure.index(name)]:
                    low, high = (np.clip(bound[i], -0.5 * np.pi, 0.5 * np.pi) for bound in (figure.lower, figure.upper))
                    for value in np.linspace(low, high, SWEEP):
                        poses.append(figure.rest.copy())
                        poses[-1][i] = value
                name = above[name]
            frames = forward(figure, np.array(poses))
            shin = unit(plan.position(frames, f"knee.{side}") - plan.position(frames, f"ankle.{side}"))
            foot = frames.rotation_matrix(joint) @ self.foot_frame(side)
            angles = self.shin_angles(np.einsum("tji,tj->ti", foot, shin))
            out[side] = np.stack([angles.min(axis=0), angles.max(axis=0)])
        return out

    def foot_frame(self, side: str) -> Floats:
        """Return the frame of a foot (3, 3) in that of its ankle's joint: columns forward, left, up."""
        shown = self.rest.frame(f"ankle.{side}")
        assert shown is not None  # a target always has a toe
        return self.plan.rest.rotation_matrix(self.plan[f"ankle.{side}"]).T @ shown[0]

    def sole_height(self, side: str) -> float:
        """Return how far the ankle is above its sole at rest [m]."""
        joint = self.plan[f"ankle.{side}"]
        ankle = self.plan.place(f"ankle.{side}")
        low = self.plan.rest.convert(self.soles[side][0], from_=joint, to="world")
        return float((ankle - low) @ self.plan.up)

    def _surface(self, joints: set[str]) -> tuple[Floats, Floats]:
        """Return points (K, 3) [m] in the world at rest of all shapes on joints, and the radius (K,) around each."""
        points, radii = [np.zeros((0, 3))], [np.zeros(0)]
        for shape in self.shapes:
            if shape.joint in joints and shape.normal is None:
                points.append(self.plan.rest.convert(shape.points, from_=shape.joint, to="world"))
                radii.append(np.full(len(shape.points), shape.radius))
        return np.concatenate(points), np.concatenate(radii)

    def _sole(self, side: str) -> Floats:
        """Return heel, outer toe and inner toe (3, 3) in the frame of the ankle's joint."""
        plan, role = self.plan, f"ankle.{side}"
        joint = plan[role]
        ahead = self._foot_direction(side)
        across = np.cross(plan.up, ahead)
        points, radii = self._surface({name for name in self.below[joint] if name in plan.skeleton.names})
        if len(points):
            points = points - radii[:, None] * plan.up
            points = points[points @ plan.up < (points @ plan.up).min() + SOLE]
            low, along, wide = (points @ axis for axis in (plan.up, ahead, across))
            height, heel, toe = low.min(), along.min(), along.max()
            ball = height
            left, right = wide.max(), wide.min()
            if f"toe.{side}" in plan and not plan.skeleton.shapes:  # skin: a foot rolls about the joint of its toes
                toe = max(float(plan.place(f"toe.{side}") @ ahead), heel)
        else:
            names = self.below[joint]
            places = np.array([plan.rest.position(name) for name in names])
            height = (places @ plan.up).min()
            everything = [*plan.skeleton.names, *plan.skeleton.site_names]
            lowest = min(float(plan.rest.position(name) @ plan.up) for name in everything)
            height = lowest if height - lowest < 0.15 * plan.leg else height
            ankle, ball = plan.place(role), height
            heel, toe = float(ankle @ ahead), float((places @ ahead).max())
            toe = toe if toe - heel > 0.1 * plan.leg else heel + 0.2 * plan.leg
            if f"toe.{side}" in plan:
                toe = float(plan.place(f"toe.{side}") @ ahead)
                ball = float(plan.place(f"toe.{side}") @ plan.up)  # a foot rolls about the joint of its toes
            middle, half = float(ankle @ across), 0.5 * FOOT_WIDTH * (toe - heel)
            left, right = middle + half, middle - half
        outer, inner = (left, right) if side == "L" else (right, left)
        if not len(points) and f"toe.{side}" in plan:
            outer = inner = float(plan.place(f"toe.{side}") @ across)
        corners = [(heel, 0.5 * (left + right), height), (toe, outer, ball), (toe, inner, ball)]
        world = np.array([a * ahead + w * across + h * plan.up for a, w, h in corners])
        return plan.rest.convert(world, to=joint)

    def _has_shapes(self, side: str) -> bool:
        """Return whether the shapes of a foot are on its ankle or below."""
        return any(shape.joint in self.below[self.plan[f"ankle.{side}"]] for shape in self.shapes)

    def _mirrored_sole(self, side: str, to: str) -> Floats:
        """Return the sole of one foot as that of the other, which has no shapes of its own (3, 3)."""
        plan = self.plan
        sole = plan.rest.convert(self.soles[side], from_=plan[f"ankle.{side}"], to="world") - plan.place(
            f"ankle.{side}"
        )
        mirrored = sole - 2.0 * np.outer(sole @ plan.left, plan.left)
        return plan.rest.convert(plan.place(f"ankle.{to}") + mirrored, to=plan[f"ankle.{to}"])

    def _foot_direction(self, side: str) -> Floats:
        """Return where a foot points at rest (3,): along its toe, made level."""
        plan = self.plan
        along = plan.forward
        if self._shows_toe(side):
            along = self.rest.places[f"toe.{side}"][0] - plan.place(f"ankle.{side}")
            along = along - (along @ plan.up) * plan.up
        return along / np.linalg.norm(along)

    def _shows_toe(self, side: str) -> bool:
        """Return whether a joint or a site is plainly in front of an ankle at rest; else it is a corner or a sensor."""
        if f"toe.{side}" not in self.rest.places:
            return False
        along = self.rest.places[f"toe.{side}"][0] - self.plan.place(f"ankle.{side}")
        along = along - (along @ self.plan.up) * self.plan.up
        length = float(np.linalg.norm(along))
        return length > 0.05 * self.plan.leg and float(along @ self.plan.forward) > AHEAD * length

    def _probes(self) -> list[Probe]:
        """Return balls on every body that moves: corners of its shapes, or the ends of its bone."""
        out = []
        skeleton = self.plan.skeleton
        for joint in skeleton.joints:
            mine = [shape for shape in self.shapes if shape.joint == joint.name and shape.normal is None]
            if mine:
                points = np.concatenate([shape.points for shape in mine])
                radii = np.concatenate([np.full(len(shape.points), shape.radius) for shape in mine])
                scores = points @ DIRECTIONS.T / np.linalg.norm(DIRECTIONS, axis=1) + radii[:, None]
                out += [Probe(joint.name, points[k], float(radii[k])) for k in np.unique(scores.argmax(axis=0))]
        if out:
            return out + self._outlines()
        for role, joint in self.plan.roles.items():
            tips = farthest(self.plan, self.below[joint], self.plan.place(role))
            away = max(
                (np.linalg.norm(self.plan.rest.position(tip) - self.plan.place(role)) for tip in tips), default=0.0
            )
            length = max(float(away), 0.1 * self.plan.leg)
            if not role.startswith(("ankle", "toe")):
                out.append(Probe(joint, self.plan.point(role), float(min(ROUND * length, 0.06 * self.plan.leg))))
        return out + self._outlines()

    def _outlines(self) -> list[Probe]:
        """Return the ends of the soles, a little beyond: contact points in files lie inside a foot's outline."""
        out = []
        for side in SIDES:
            joint = self.plan[f"ankle.{side}"]
            world = self.plan.rest.convert(self.soles[side], from_=joint, to="world")
            world = world - np.outer(world @ self.plan.up - world[0] @ self.plan.up, self.plan.up)
            heel, outer, inner = self.plan.rest.convert(world, to=joint)
            beyond = BEYOND * (0.5 * (outer + inner) - heel)
            out += [Probe(joint, point, 0.0) for point in (heel - beyond, outer + beyond, inner + beyond)]
        return out
