"""Random limbs against forward kinematics and brute force: what `benchmarks/limb.py --check` and `--ranges` run.

The brute force knows the figure by its forward kinematics alone. At each of many swivel angles it places the bones by
the geometry of the triangle, lets SciPy take the ball joints' rotations apart, and asks whether some branch and some
family hold every limit. It shares no code with the closed form.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.spatial.transform import Rotation

import posable as ps
from posable.model.joints import EULER_ORDERS

TURN = 2.0 * math.pi
NEARLY = 1e-9  # [rad]: how near to the end of a range, or to a limit, either answer will do


def random_limb(rng):
    """Return a limb with generic offsets, rest rotations, hinge axis, ball joints and limits, on a moving root."""
    kinds = (*EULER_ORDERS, "rotvec", "swing-twist")

    def ball():
        return ps.Ball(kinds[rng.integers(len(kinds))], axis=tuple(rng.normal(size=3)))

    def box(count):
        low = rng.uniform(-2.8, 0.3, count)
        return np.stack([low, low + rng.uniform(0.5, 3.5, count)], axis=1)

    def place():
        return {"offset": 0.3 * rng.normal(size=3), "rotation": Rotation.random(rng=rng)}

    joints = [
        ps.Joint("root", ps.Free("zyx"), **place()),
        ps.Joint("shoulder", ball(), "root", limits=box(3), **place()),
        ps.Joint("elbow", ps.Revolute(tuple(rng.normal(size=3))), "shoulder", limits=box(1), **place()),
        ps.Joint("wrist", ball(), "elbow", limits=box(3), **place()),
    ]
    return ps.Skeleton(joints, [ps.Site("hand", "wrist", **place())])


def check(count, each=100):
    """Solve random goals of random limbs and count what is missed, by forward kinematics apart from the limb."""
    rng = np.random.default_rng(7)
    missed = outside = 0
    worst = 0.0
    for _ in range(max(1, count // each)):
        skeleton = random_limb(rng)
        limb = ps.Limb(skeleton, "shoulder", "elbow", "wrist", site="hand")
        low = np.where(np.isfinite(skeleton.lower), skeleton.lower, -2.0)
        poses = rng.uniform(low, np.where(np.isfinite(skeleton.upper), skeleton.upper, 2.0), (each, skeleton.size))
        poses[:, :6] = poses[0, :6]
        targets = ps.forward(skeleton, poses).matrix("hand")
        answer = limb.solve(targets, base=poses[0])
        gap = np.abs(ps.forward(skeleton, answer.pose).matrix("hand") - targets).max(axis=(1, 2))
        missed += int(np.sum(~answer.ok | (gap > 1e-9)))
        outside += int(np.sum(np.any((answer.pose < skeleton.lower) | (answer.pose > skeleton.upper), axis=1)))
        worst = max(worst, float(gap[answer.ok].max(initial=0.0)))
    print(f"{count} random goals, {count // each} limbs: {missed} missed, {outside} outside, worst {worst:.1e}")
    return missed + outside == 0


class BallByHand:
    """A ball joint known by what forward kinematics does to its frame."""

    def __init__(self, skeleton, base, name):
        self.order = skeleton.joint(name).motion.order
        self.part = skeleton.index(name)
        self.low, self.high = skeleton.lower[self.part], skeleton.upper[self.part]
        self.rest = turned_at(skeleton, base, name, {name: (0.0, 0.0, 0.0)})  # the frame before the joint turns it
        self.axes = np.array(
            [
                Rotation.from_matrix(self.rest.T @ turned_at(skeleton, base, name, {name: one})).as_rotvec()
                for one in np.eye(3)
            ]
        )

    def room(self, rotations):
        """Return (t,) [rad] how far the best family of the joint is inside its limits at rotations (t, 3, 3)."""
        best = np.full(len(rotations), -np.inf)
        for numbers, turns in self.families(rotations):
            room = np.full(len(rotations), np.inf)
            for m in range(3):
                value = numbers[:, m]
                if turns[m]:  # whole turns do not matter: the turn that is nearest to the middle of the limits
                    middle = 0.5 * (self.low[m] + self.high[m])
                    value = middle + (value - middle + math.pi) % TURN - math.pi
                room = np.minimum(room, np.minimum(value - self.low[m], self.high[m] - value))
            best = np.maximum(best, room)
        return best

    def families(self, rotations):
        """Yield each way (t, 3) to write rotations as the joint's numbers, and which of the three may turn round."""
        if self.order == "rotvec":
            vector = Rotation.from_matrix(rotations).as_rotvec() @ self.axes.T  # the axes are those of the frame
            yield from ((way, (False, False, False)) for way in both_ways(vector))
        elif self.order == "swing-twist":
            axis = self.axes[2]
            moved = rotations @ axis
            across = np.cross(axis, moved)
            sine = np.linalg.norm(across, axis=1)
            angle = np.arctan2(sine, moved @ axis)
            swing = across * (angle / np.maximum(sine, 1e-300))[:, None]
            for way in both_ways(swing):
                rest = Rotation.from_rotvec(way).inv() * Rotation.from_matrix(rotations)
                twist = rest.as_rotvec() @ axis
                yield np.stack([way @ self.axes[0], way @ self.axes[1], twist], axis=1), (False, False, True)
        else:
            a, b, c = Rotation.from_matrix(rotations).as_euler(self.order.upper()).T
            yield np.stack([a, b, c], axis=1), (True, True, True)
            repeated = self.order[0] == self.order[2]
            yield np.stack([a + math.pi, -b if repeated else math.pi - b, c + math.pi], axis=1), (True, True, True)


def both_ways(vectors):
    """Return rotation vectors (t, 3), and those that turn the other way round."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors, vectors * (1.0 - TURN / np.maximum(length, 1e-12))


def turned_at(skeleton, base, frame, values):
    """Return the rotation (3, 3) of a frame with some joints of a base pose at other values."""
    pose = np.array(base, dtype=float)
    for name, value in values.items():
        pose[skeleton.index(name)] = value
    return ps.forward(skeleton, pose).rotation_matrix(frame)


def brute_force(limb, base, target, grid):
    """Return (t,) [rad] how far inside every limit the best solution is at swivel angles (t,); for a pose target.

    A place is the pose target with the last joint left out: target (3,), the last joint as it is in base.
    """
    skeleton, first, middle, last = limb.skeleton, limb.first, limb.middle, limb.last
    shoulder, wrist = (BallByHand(skeleton, base, name) for name in (first, last))
    still = np.array(base, dtype=float)
    still[skeleton.index(first)] = 0.0
    at = ps.forward(skeleton, still)
    origin = at.position(first)
    place = target
    if target.ndim == 2:
        offset = at.rotation_matrix(limb.site).T @ (at.position(last) - at.position(limb.site))
        place = target[:3, 3] + target[:3, :3] @ offset
    tip = last if target.ndim == 2 else limb.site
    goal = place - origin
    best = np.full(len(grid), -np.inf)
    for bend in bends_to(skeleton, still, middle, tip, origin, float(np.linalg.norm(goal))):
        posed = still.copy()
        posed[skeleton.index(middle)] = bend
        at = ps.forward(skeleton, posed)
        turns = circle_turns(limb.reference, goal, at.position(tip) - origin, at.position(middle) - origin, grid)
        room = shoulder.room(shoulder.rest.T @ turns @ shoulder.rest)
        if target.ndim == 2:
            posed[skeleton.index(last)] = 0.0
            carried = turns @ ps.forward(skeleton, posed).rotation_matrix(last)
            tool = at.rotation_matrix(last).T @ at.rotation_matrix(limb.site)
            wanted = np.swapaxes(carried, 1, 2) @ target[:3, :3] @ tool.T
            room = np.minimum(room, wrist.room(wanted))
        best = np.maximum(best, room)
    return best


def bends_to(skeleton, still, middle, tip, origin, distance):
    """Return the middle joint's angles inside its limits that bring the tip to a distance: a sine, from three poses."""
    where = skeleton.index(middle)
    squares = []
    for angle in (0.0, 0.5 * math.pi, math.pi):
        pose = still.copy()
        pose[where] = angle
        squares.append(float(np.sum((ps.forward(skeleton, pose).position(tip) - origin) ** 2)))
    mean = 0.5 * (squares[0] + squares[2])
    a, b = squares[0] - mean, squares[1] - mean  # distance^2 = mean + a cos + b sin
    size, gain = math.hypot(a, b), distance**2 - mean
    if abs(gain) > size:
        return
    low, high = skeleton.lower[where][0], skeleton.upper[where][0]
    for side in (1.0, -1.0):
        angle = math.atan2(b, a) + side * math.acos(gain / size)
        angle = 0.5 * (low + high) + (angle - 0.5 * (low + high) + math.pi) % TURN - math.pi
        if low - NEARLY <= angle <= high + NEARLY:
            yield angle


def circle_turns(reference, goal, tip, elbow, grid):
    """Return rotations (t, 3, 3) of the world that carry the tip to the goal and the elbow to swivel angles (t,)."""
    n = goal / np.linalg.norm(goal)
    u = reference - (reference @ n) * n
    u /= np.linalg.norm(u)
    t = tip / np.linalg.norm(tip)
    e = elbow - (elbow @ t) * t
    e /= np.linalg.norm(e)
    before = np.stack([t, e, np.cross(t, e)])
    out = np.cos(grid)[:, None] * u + np.sin(grid)[:, None] * np.cross(n, u)
    after = np.stack([np.broadcast_to(n, out.shape), out, np.cross(n, out)], axis=2)
    return after @ before


def disagreements(limb, base, target, grid):
    """Return the swivel angles at which the ranges and the brute force disagree, by more than rounding explains."""
    ranges = limb.swivel_ranges(target, base=base)
    inside = np.zeros(len(grid), dtype=bool)
    near = np.zeros(len(grid), dtype=bool)
    for lo, hi in ranges:
        inside |= (grid - lo) % TURN <= hi - lo
        for end in (lo, hi):
            near |= np.abs(np.sin(0.5 * (grid - end))) < NEARLY
    room = brute_force(limb, base, target, grid)
    return grid[(inside != (room >= 0.0)) & ~near & (np.abs(room) > NEARLY)]


def check_ranges(count, angles=3600, seed=8):
    """Compare swivel ranges with brute force: as many poses, and as many places with the last joint as it is."""
    rng = np.random.default_rng(seed)
    grid = np.linspace(-math.pi, math.pi, angles, endpoint=False) + 1e-4
    wrong = {"poses": 0, "places": 0}
    widths = []
    for number in range(count):
        skeleton = random_limb(rng)
        limb = ps.Limb(skeleton, "shoulder", "elbow", "wrist", site="hand")
        low = np.where(np.isfinite(skeleton.lower), skeleton.lower, -2.0)
        pose = rng.uniform(low, np.where(np.isfinite(skeleton.upper), skeleton.upper, 2.0))
        frame = ps.forward(skeleton, pose).matrix("hand")
        for kind, target in (("poses", frame), ("places", frame[:3, 3])):
            off = disagreements(limb, pose, target, grid)
            widths.append(sum(hi - lo for lo, hi in limb.swivel_ranges(target, base=pose)))
            if len(off):
                wrong[kind] += 1
                print(f"  problem {number}, {kind}: {len(off)} angles from {off[0]:.6f} rad")
    counts = ", ".join(f"{number} {kind}" for kind, number in wrong.items())
    print(f"swivel ranges of {count} problems against {angles} angles each: {counts} disagree")
    narrow = 100 * np.mean(np.less(widths, 0.05))
    print(
        f"they are {100 * np.mean(widths) / TURN:.1f}% of the circle on average, {narrow:.1f}% narrower than 0.05 rad"
    )
    return not any(wrong.values())
