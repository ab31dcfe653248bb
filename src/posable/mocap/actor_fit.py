"""The fit of marker offsets and bone lengths of an actor to chosen frames of a take.

Variable projection: for given offsets and lengths the poses are solved to convergence by the compiled frame solver,
inside the limits; then one Gauss-Newton step is made over offsets and lengths, with the poses eliminated from the
normal equations (Schur complement), so that the step accounts for their response. A handful of steps is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from scipy.sparse import csr_array, vstack

from posable.engine.layout import ABOVE
from posable.mocap.frame_solver import FrameOptions, marker_frame_solver
from posable.mocap.gaps import thresholds
from posable.mocap.marker_sets import listed
from posable.mocap.normal_equations import eliminate_poses, marker_rows, solve_symmetric
from posable.mocap.pelvis import Hips
from posable.mocap.root_align import best_turn, move_figure
from posable.model.body_plan import words_of
from posable.model.joints import Site
from posable.model.kinematics import forward, path_of, place_bodies
from posable.model.skeleton import Skeleton

STEPS = 25  # Gauss-Newton steps, at most
NOISE = 0.01  # [m] expected residual of a marker
OFFSET_SPREAD = 0.10  # [m] expected error of the first guess of an offset
LENGTH_SPREAD = 0.06  # of bone lengths relative to the scale of the figure: 4 to 6 % among 99 actors (CMU)
SIDE_SPREAD = 0.03  # of bone lengths relative to the other side: 2 to 5 % among them
CENTER_SPREAD = (0.02, 0.03)  # [m] of a joint's centre level with a marker, along and across the bone
HIP_SPREAD = 0.04  # [m] of a hip's centre about the estimate from the width and depth of the pelvis
HIP_SIDES = 0.01  # [m] of a hip's centre relative to the mirror image of the other
ROBUST, ROBUST_AT_FIRST = 0.03, 0.10  # [m] error beyond which its force no longer grows, finally and at first
WRONG, WRONG_AT_FIRST = 0.03, 0.20  # [m] error below which a sample is never rejected, finally and at first
POSE_PULL = 1e-4  # [m^2/rad^2] towards the rest pose, for degrees of freedom without markers
GAINED = 0.9  # relative energy below which a frame solved again counts as improved
STICKS = 0.7  # relative scatter at which a marker is moved to another bone
LOOSE = 0.03  # [m] scatter beyond which an unnamed marker belongs to no bone
REMOTE = 1.1  # factor on the scatter of a marker for every joint between its bone and one that carries others
_SETTLE = FrameOptions(max_iterations=100, min_gain=1e-6, independent=True, pull=POSE_PULL, damping=1e-1)
_REFINE = FrameOptions(max_iterations=15, min_gain=1e-6, independent=True, pull=POSE_PULL, damping=1e-3)
TRIMMINGS = 2  # rounds of rejection in a row
LEAST_SEEN = 4  # markers that are always kept in a frame

Prior: TypeAlias = tuple[csr_array, np.ndarray, np.ndarray]  # rows (R, P), values (R,), weights (R,)


@dataclass(frozen=True, eq=False)
class Calibration:
    """The result of a calibration, in `actor.info["calibration"]`; it can be printed.

    Attributes:
        before: [m] Mean marker error over the chosen frames with the first guesses.
        after: [m] Mean marker error with the fitted actor.
        markers: {name: (joint, error [m])}.
        scale: Of the whole figure.
        lengths: {joint: further factor of its bone's length}.
        left_out: Markers that belong to no bone.
        frames: The frames that were used.
        steps: Number of Gauss-Newton steps.
        notes: Warnings.
        held_out: [m] Mean marker error on frames that the fit did not use; NaN if there are none.
        certainty: {joint: standard deviation of its bone's length [m]}, from the markers and the priors.
        recognised: Fraction of the markers recognised with confidence in a take without labels; 1 with labels.
    """

    before: float
    after: float
    markers: Mapping[str, tuple[str, float]]
    scale: float
    lengths: Mapping[str, float]
    left_out: tuple[str, ...]
    frames: tuple[int, ...]
    steps: int
    notes: tuple[str, ...] = ()
    held_out: float = float("nan")
    certainty: Mapping[str, float] = field(default_factory=dict)
    recognised: float = 1.0

    def __str__(self) -> str:
        worst = sorted(self.markers.items(), key=lambda item: -item[1][1])[:5]
        changed = sorted(self.lengths.items(), key=lambda item: -abs(item[1] - 1.0))[:5]
        held_out = f", {self.held_out * 1e3:.1f} mm on held-out frames" if np.isfinite(self.held_out) else ""
        lines = [
            f"calibrated on {len(self.frames)} frames: mean marker error {self.before * 1e3:.1f} mm before, "
            f"{self.after * 1e3:.1f} mm after {self.steps} steps{held_out}; figure scaled by {self.scale:.3f}",
            "  worst markers: " + ", ".join(f"{name} on {bone} {error * 1e3:.1f} mm" for name, (bone, error) in worst),
            "  largest changes of bone length, as factors: "
            + ", ".join(f"{name} {factor:.3f}" for name, factor in changed),
        ]
        if self.certainty:
            least = sorted(self.certainty.items(), key=lambda item: -item[1])[:3]
            middle = float(np.median(list(self.certainty.values())))
            words = ", ".join(f"{name} {spread * 1e3:.0f} mm" for name, spread in least)
            lines.append(f"  standard deviation of bone lengths: {middle * 1e3:.0f} mm (median); largest: {words}")
        if self.left_out:
            lines.append(f"  left out: {listed(self.left_out)}")
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])


class Fit:
    """The state of a calibration: offsets (M, 3) [m], factors of bone lengths (G,), poses (K, n) of its frames.

    Hips may shift in all three directions, (H, 3) [m] in the axes of the pelvis: their positions relative to its
    markers differ more between actors than a bone's length.
    """

    def __init__(self, skeleton, attached, places, symmetric, lengths, limits, centers, hips=None):
        self.generic = skeleton
        self.names = list(attached)
        self.joints = [joint for joint, _ in attached.values()]
        self.guesses = np.array([offset for _, offset in attached.values()])
        self.places = places  # (K, M, 3) [m], NaN where unseen
        self.rows = np.arange(len(places))  # (K,) of the take's considered frames, those that are fitted
        self.dropped: list[str] = []  # markers that are not the actor's
        self.limits = limits
        self.robust = ROBUST_AT_FIRST
        self.centers = dict(centers)  # {marker: joint whose centre is level with it}
        self.groups = _length_groups(skeleton, symmetric) if lengths else {}
        self.factors = np.ones(len(set(self.groups.values())))
        self.hips: Hips | None = hips if lengths else None
        self.shifts = np.zeros((len(self.hips.joints) if self.hips else 0, 3))
        self.pairs = _side_pairs(skeleton, self.groups)
        self.rest = forward(skeleton, skeleton.rest)
        self.scale = self._first_scale()
        self.offsets = self.guesses * self.scale
        self.guesses = self.offsets.copy()
        self.poses = np.empty((0, skeleton.size))
        self.energy = np.inf
        self._figures: list[tuple[tuple[Any, ...], Skeleton]] = []
        self._known_prior: tuple[tuple[Any, ...], Prior] | None = None

    def _first_scale(self) -> float:
        """Return the actor's size relative to the figure's, from distances of markers on the same or adjacent bones."""
        rest = self.rest
        at_rest = np.array([rest.convert(o, from_=j) for j, o in zip(self.joints, self.guesses, strict=True)])
        parent = {joint.name: joint.parent for joint in self.generic.joints}
        ours, theirs = 0.0, 0.0
        for a, first in enumerate(self.joints):
            for b, second in enumerate(self.joints[:a]):
                if first == second or parent[first] == second or parent[second] == first:
                    gaps, apart = (
                        np.linalg.norm(self.places[:, a] - self.places[:, b], axis=-1),
                        float(np.linalg.norm(at_rest[a] - at_rest[b])),
                    )
                    if np.isfinite(gaps).any() and apart > 0.0:  # not those of a cluster, whose places are unknown
                        ours += apart
                        theirs += float(np.nanmedian(gaps))
        return theirs / ours if ours > 0.0 and theirs > 0.0 else 1.0

    # ------------------------------------------------------------------------------------------------------ figures

    def figure(self) -> Skeleton:
        """Return the figure with the present parameters; the last two are cached, for steps that are undone."""
        key = (self._parameters().tobytes(), *self.names, *self.joints)
        for known, figure in self._figures:
            if known == key:
                return figure
        old = self._figures[-1] if self._figures and self._figures[-1][0][1:] == key[1:] else None
        self._figures = [*self._figures[-1:], (key, self._figure(None if old is None else old[1]))]
        return self._figures[-1][1]

    def _figure(self, like: Skeleton | None) -> Skeleton:
        """Return the figure with the present parameters; `like` has the same joints and sites elsewhere, if given."""
        joints = []
        for joint in self.generic.joints:
            factor = self.scale * self._factor(joint.name)
            base = np.asarray(joint.offset, dtype=float)
            center = np.asarray(joint.center, dtype=float) * self.scale * self._factor_below(joint.name)
            moved = base if joint.parent is None else base * factor + self._shift(joint.name)
            joints.append(replace(joint, offset=moved, center=center))
        others = [
            replace(site, offset=np.asarray(site.offset, dtype=float) * self.scale * self._factor_below(site.joint))
            for site in self.generic.sites
            if site.name not in self.names and site.name not in self.dropped
        ]
        mine = [Site(n, j, o) for n, j, o in zip(self.names, self.joints, self.offsets, strict=True)]
        if like is not None:
            return like.moved(joints, others + mine)
        return self.generic.replace(joints=joints, sites=others + mine)

    def _factor(self, joint: str) -> float:
        return float(self.factors[self.groups[joint]]) if joint in self.groups else 1.0

    def _shift(self, joint: str) -> np.ndarray:
        """Return the shift (3,) [m] of a hip in its parent's frame; zero for any other joint."""
        if self.hips is None or joint not in self.hips.joints:
            return np.zeros(3)
        return self._shift_axes(joint) @ self.shifts[self.hips.joints.index(joint)]

    def _shift_axes(self, joint: str) -> np.ndarray:
        """Return the axes (3, 3) of a hip's shift, as columns, in its parent's frame."""
        assert self.hips is not None  # the caller's joint is one of them
        parent = next(other.parent for other in self.generic.joints if other.name == joint)
        pelvis = self.joints[self.names.index(self.hips.front[0])]
        return self.rest.rotation_matrix(parent).T @ self.rest.rotation_matrix(pelvis) @ self.hips.axes

    def _factor_below(self, joint: str) -> float:
        """Return the length factor below a joint: of its children's offsets, or its own if it has no children."""
        below = [self._factor(child.name) for child in self.generic.joints if child.parent == joint]
        return float(np.mean(below)) if below else self._factor(joint)

    # -------------------------------------------------------------------------------------------------------- poses

    def settle(self) -> float:
        """Solve the poses from scratch, the root from the markers of the trunk first; return the mean error [m]."""
        figure = self.figure()
        rest = forward(figure, figure.rest)
        at_rest = np.array([rest.position(name) for name in self.names])
        trunk = _trunk_weights(figure, self.joints)
        starts = []
        for targets in self.places:
            r, t = best_turn(at_rest, targets, trunk)
            starts.append(move_figure(figure, figure.rest, r, t))
        self.poses = np.array(starts)
        self.robust = ROBUST_AT_FIRST
        errors, notes = self._solve(figure, _SETTLE)
        energies = notes[:, 0]
        usual = np.median(energies)
        for k in np.flatnonzero(energies > 4.0 * usual):  # bent the wrong way: start from a frame that is not
            best = int(np.argmin(energies))
            r, t = best_turn(self._model(figure, self.poses[best]), self.places[k], trunk)
            trial = move_figure(figure, self.poses[best], r, t)[None].copy()
            kept = self.poses[k].copy()
            self.poses[k] = trial
            _, again = self._solve(figure, _SETTLE, slice(k, k + 1))
            if again[0, 0] >= energies[k]:
                self.poses[k] = kept
        self.robust = ROBUST
        errors = self.trim(WRONG_AT_FIRST)
        return float(np.nanmean(errors))

    def trim(self, least: float = WRONG) -> np.ndarray:
        """Reject samples with unusually large errors and solve again; return the errors (K, M) [m].

        This is a redescending loss: rejected samples have no weight.
        """
        figure = self.figure()
        errors, notes = self._solve(figure, _REFINE)
        for _ in range(TRIMMINGS):
            wrong = errors > _usual_misses(errors, least)
            wrong &= np.isfinite(np.where(wrong, np.nan, self.places[..., 0])).sum(axis=1, keepdims=True) >= LEAST_SEEN
            if not wrong.any():
                break
            self.places[wrong] = np.nan
            errors, notes = self._solve(figure, _REFINE)
        self.energy = self._total(notes)
        return errors

    def resettle(self) -> bool:
        """Solve the poses from scratch with the present parameters and keep the improved ones.

        A frame that the first guesses bent the wrong way would hold the fit back. Returns whether any improved.
        """
        figure = self.figure()
        _, before = self._solve(figure, _REFINE)
        kept, energies = self.poses.copy(), before[:, 0].copy()
        self.settle()
        _, after = self._solve(figure, _REFINE)
        worse = after[:, 0] >= energies
        self.poses[worse] = kept[worse]
        _, notes = self._solve(figure, _REFINE)
        self.energy = self._total(notes)
        return bool((after[:, 0] < GAINED * energies).any())

    def _model(self, figure: Skeleton, pose: np.ndarray) -> np.ndarray:
        frames = forward(figure, pose)
        return np.array([frames.position(name) for name in self.names])

    def _solve(
        self, figure: Skeleton, options: FrameOptions, part: slice = slice(None)
    ) -> tuple[np.ndarray, np.ndarray]:
        frame_solver = marker_frame_solver(figure, self.names, limits=self.limits, robust=self.robust)
        frame_solver.pull = _pull_shares(figure)
        return frame_solver(options, self.poses[part], targets=self.places[part])

    def _total(self, notes: np.ndarray) -> float:
        rows, values, weights = self._prior()
        return float(notes[:, 0].sum() + 0.5 * (weights * np.square(rows @ self._parameters() - values)).sum())

    # --------------------------------------------------------------------------------------------------- parameters

    def _parameters(self) -> np.ndarray:
        return np.concatenate([self.offsets.ravel(), self.factors, self.shifts.ravel()])

    def _prior(self) -> Prior:
        """Return the prior as rows (R, P), values (R,) and weights (R,): rows @ parameters = values.

        Offsets are near their first guesses or, for a marker level with the centre of a joint, near that centre, which
        moves with the lengths. Bones have the proportions of the figure, and both sides the same lengths. Model errors
        occur in every frame, so weights are proportional to the number of frames.
        """
        key = (self.guesses.tobytes(), *self.names, *self.joints, *self.centers)
        if self._known_prior is None or self._known_prior[0] != key:
            parts: list[tuple[np.ndarray, np.ndarray | float, float]] = []
            self._marker_and_length_prior(lambda *part: parts.append(part))
            self._known_prior = (key, self._packed(parts))
        known = self._known_prior[1]
        if self.hips is None:
            return known
        parts = []
        self._hip_prior(self.hips, lambda *part: parts.append(part))
        more = self._packed(parts)
        rows = csr_array(vstack((known[0], more[0])))
        return rows, np.concatenate((known[1], more[1])), np.concatenate((known[2], more[2]))

    def _packed(self, parts: list[tuple[np.ndarray, np.ndarray | float, float]]) -> Prior:
        """Return rows with their values and spreads as a prior."""
        rows = [np.atleast_2d(row) for row, _, _ in parts]
        values = [np.broadcast_to(value, len(row)) for row, (_, value, _) in zip(rows, parts, strict=True)]
        spreads = np.repeat([spread for _, _, spread in parts], [len(row) for row in rows])
        return csr_array(np.vstack(rows)), np.concatenate(values), len(self.places) * np.square(NOISE / spreads)

    def _marker_and_length_prior(self, add: Callable[[np.ndarray, np.ndarray | float, float], None]) -> None:
        """Add the rows of the prior for the offsets of markers and the lengths of bones."""
        m, g = self.offsets.size, len(self.factors)
        total = m + g + self.shifts.size
        for i, name in enumerate(self.names):
            row = np.zeros((3, total))
            row[:, 3 * i : 3 * i + 3] = np.eye(3)
            level = self._level(i) if name in self.centers else None
            if level is None:
                add(row, self.guesses[i], OFFSET_SPREAD)
                continue
            by_factor, axes = level
            row[:, m : m + g] -= by_factor
            value = self.guesses[i] - by_factor.sum(axis=1)  # the guess relative to the centre, at the figure's lengths
            add(axes[:1] @ row, axes[:1] @ value, CENTER_SPREAD[0])
            add(axes[1:] @ row, axes[1:] @ value, CENTER_SPREAD[1])
        one = np.zeros((g, total))
        one[:, m : m + g] = np.eye(g)
        if g:
            relative = one.copy()
            relative[:, m : m + g] -= 1.0 / g
            add(relative, 0.0, LENGTH_SPREAD)
            add(one, 1.0, 10.0)
        for a, b in self.pairs:
            add(one[a] - one[b], 0.0, SIDE_SPREAD)

    def _hip_prior(self, hips: Hips, add: Callable[[np.ndarray, np.ndarray | float, float], None]) -> None:
        """Add the rows of the prior that tie hips to the markers of the pelvis and to each other."""
        m, g = self.offsets.size, len(self.factors)
        total = m + g + self.shifts.size
        front = [self.names.index(name) for name in hips.front]
        around = [self.names.index(name) for name in (*hips.front, *hips.back)]
        expected, axes = hips.expected(*hips.size), hips.axes.T
        turn, _ = best_turn(hips.shape, self.offsets[around])
        for side, joint in enumerate(hips.joints):
            row = np.zeros((3, total))
            row[:, m + g + 3 * side : m + g + 3 * side + 3] = np.eye(3)
            if joint in self.groups:
                row[:, m + self.groups[joint]] += axes @ hips.base[side] * self.scale
            functional = row.copy()
            for i in front:
                row[:, 3 * i : 3 * i + 3] -= axes / len(front)
            add(row, expected[side], HIP_SPREAD)
            if joint in hips.centers:
                for i in around:
                    functional[:, 3 * i : 3 * i + 3] -= axes / len(around)
                center, spread = hips.centers[joint]
                add(functional, axes @ turn @ (center - hips.shape.mean(axis=0)), spread)
        row = np.zeros((3, total))
        row[:, m + g : m + g + 3] = np.eye(3)
        row[:, m + g + 3 : m + g + 6] = -np.diag([-1.0, 1.0, 1.0])
        add(row, 0.0, HIP_SIDES)

    def _level(self, i: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Return how the centre that a marker is level with depends on the factors.

        Returns:
            Its derivative (3, G) in the frame of the marker's joint, and axes (3, 3) there as rows, the first along the
            bone; None if they are not on one chain.
        """
        joint, center = self.joints[i], self.centers[self.names[i]]
        joints = {other.name: other for other in self.generic.joints}
        chain = [center]
        while chain[-1] != joint and joints[chain[-1]].parent is not None:
            chain.append(joints[chain[-1]].parent)
        if chain[-1] != joint:
            return None
        turn = self.rest.rotation_matrix(joint).T
        by_factor = np.zeros((3, len(self.factors)))
        for name in chain[:-1]:
            if name not in self.groups:
                return None
            parent = joints[name].parent
            offset = np.asarray(joints[name].offset, dtype=float) * self.scale
            by_factor[:, self.groups[name]] += turn @ self.rest.rotation_matrix(parent) @ offset
        parent = joints[center].parent
        if parent is None:
            return None
        u, _, _ = np.linalg.svd((turn @ (self.rest.position(center) - self.rest.position(parent))).reshape(3, 1))
        return by_factor, u.T

    def _put(self, parameters: np.ndarray) -> None:
        self.offsets = parameters[: self.offsets.size].reshape(-1, 3)
        self.factors = parameters[self.offsets.size :][: len(self.factors)]
        self.shifts = parameters[self.offsets.size + len(self.factors) :].reshape(-1, 3)

    def believe(self) -> None:
        """Use the present offsets as first guesses, since guesses along a bone may be far off."""
        self.guesses = self.offsets.copy()

    def run(self) -> int:
        """Take Gauss-Newton steps until the energy no longer decreases; return their number."""
        damping, steps = 1e-4, 0
        while steps < STEPS and damping < 1e4:
            steps += 1
            figure = self.figure()
            matrix, slope = self._normal_equations(figure)
            old, poses, energy = self._parameters(), self.poses.copy(), self.energy
            change = solve_symmetric(matrix + damping * np.diag(np.diag(matrix)), -slope)
            if change is None:  # not convex here
                damping = max(damping, 1e-5) * 10.0
                continue
            if len(self.factors):  # lengths stay positive
                lengths = change[self.offsets.size :][: len(self.factors)]
                change *= min(1.0, 0.2 / max(np.abs(lengths).max(), 1e-12))
            self._put(old + change)
            _, notes = self._solve(self.figure(), _REFINE)
            self.energy = self._total(notes)
            if self.energy < energy:
                damping = max(damping * 0.2, 1e-8)
                if energy - self.energy < 1e-4 * energy:
                    break
            else:
                self._put(old)
                self.poses, self.energy = poses, energy
                damping = max(damping, 1e-5) * 10.0
        return steps

    def _normal_equations(self, figure: Skeleton) -> tuple[np.ndarray, np.ndarray]:
        """Return the matrix (P, P) and gradient (P,) of the energy over offsets and factors, with the poses eliminated.

        In the frame of its bone a marker moves with its offset, so that part of the Jacobian is the identity.
        """
        residuals, by_pose, by_factor, seen = self._jacobians(figure)
        m, g, n = self.offsets.size, len(self.factors) + self.shifts.size, figure.size
        pulls = POSE_PULL * _pull_shares(figure)
        matrix, slope = np.zeros((m + g, m + g)), np.zeros(m + g)
        inner, half = np.empty((n, n)), np.empty((n, m + g + 1))
        gaps = pulls * (self.poses - figure.rest)
        eliminate_poses(residuals, by_pose, by_factor, seen, pulls, gaps, inner, half, matrix, slope)
        matrix = np.tril(matrix) + np.tril(matrix, -1).T
        rows, values, weights = self._prior()
        matrix += (rows.T @ (rows * weights[:, None])).toarray()
        slope += rows.T @ (weights * (rows @ self._parameters() - values))
        return matrix, slope

    def _jacobians(self, figure: Skeleton) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return residuals (K, 3M), their derivatives by pose (K, 3M, n) and by factor (K, 3M, G), and roots (K, 3M).

        Each marker's rows are in the frame of its bone, scaled by the root of its weight in the loss; those of unseen
        markers are zero, and so are the columns of degrees of freedom that a limit holds.
        """
        positions, rotations, twists = place_bodies(figure, self.poses, twists=True)
        sites, bones = ([figure.frame(name) for name in names] for names in (self.names, self.joints))
        bodies = figure.frame_bodies[bones]
        last = np.array([max(path_of(figure, int(body)), default=-1) for body in bodies])
        moves, vectors = self._moves(figure)
        rows = (len(self.poses), 3 * len(self.names))
        out = (
            np.empty(rows),
            np.empty((*rows, figure.size)),
            np.empty((*rows, len(self.factors) + self.shifts.size)),
            np.empty(rows),
        )
        free = np.full(figure.size, np.inf)
        lower, upper = (figure.lower, figure.upper) if self.limits else (-free, free)
        marker_rows(
            np.ascontiguousarray(self.places), positions, rotations, twists, bodies, figure.frame_positions[sites],
            figure.frame_rotations[bones], np.ascontiguousarray(figure.figure.dof[:, ABOVE]), last, moves, vectors,
            self.robust, self.poses, lower, upper, *out,
        )  # fmt: skip
        return out

    def _moves(self, figure: Skeleton) -> tuple[np.ndarray, np.ndarray]:
        """Return (marker, body, parameter) (S, 3) of what lengths and shifts move, and how far (S, 3) [m] there."""
        joints = {joint.name: joint for joint in self.generic.joints}
        by_bone: dict[str, list[tuple[int, int, np.ndarray]]] = {}
        for bone in dict.fromkeys(self.joints):
            found, joint = by_bone.setdefault(bone, []), joints[bone]
            while joint.parent is not None:
                row = figure.frame(joint.parent)
                body, turn = int(figure.frame_bodies[row]), figure.frame_rotations[row]
                if joint.name in self.groups:
                    offset = np.asarray(joint.offset, dtype=float) * self.scale
                    found.append((body, self.groups[joint.name], turn @ offset))
                if self.hips is not None and joint.name in self.hips.joints:
                    first = len(self.factors) + 3 * self.hips.joints.index(joint.name)
                    axes = turn @ self._shift_axes(joint.name)
                    found += [(body, first + x, axes[:, x]) for x in range(3)]
                joint = joints[joint.parent]
        moves = [(i, body, column) for i, bone in enumerate(self.joints) for body, column, _ in by_bone[bone]]
        vectors = [vector for bone in self.joints for _, _, vector in by_bone[bone]]
        return np.array(moves, dtype=np.int64).reshape(-1, 3), np.array(vectors).reshape(-1, 3)

    # ------------------------------------------------------------------------------------------- which bone it is on

    def _scatter(self, figure: Skeleton, joint: str, track: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the RMS scatter [m] of a marker's positions (K, 3) in a joint's frame, and their median."""
        local = forward(figure, self.poses).convert(track, to=joint)
        good = local[np.isfinite(local).all(axis=-1)]
        if len(good) < 3:
            return np.inf, np.zeros(3)
        middle = np.median(good, axis=0)
        return float(np.sqrt(np.mean(np.sum((good - middle) ** 2, axis=-1)))), middle

    def reattach(self) -> bool:
        """Move markers to an adjacent bone on which they scatter much less; return whether any was moved."""
        figure = self.figure()
        moved = False
        parent = {joint.name: joint.parent for joint in figure.joints}
        for i, (name, joint) in enumerate(zip(self.names, self.joints, strict=True)):
            if self.hips is not None and name in (*self.hips.front, *self.hips.back):
                continue
            near = [parent[joint], *(other for other, above in parent.items() if above == joint)]
            here, _ = self._scatter(figure, joint, self.places[:, i])
            options = [(*self._scatter(figure, other, self.places[:, i]), other) for other in near if other is not None]
            best = min(options, key=lambda option: option[0], default=None)
            if best is not None and best[0] < STICKS * here and here > 0.5 * NOISE and name:
                self.joints[i], self.offsets[i], self.guesses[i] = best[2], best[1], best[1]
                self.centers.pop(name, None)
                moved = True
        if moved:
            _, notes = self._solve(self.figure(), _REFINE)
            self.energy = self._total(notes)
        return moved

    def adopt(self, name: str, track: np.ndarray) -> bool:
        """Attach a marker of unknown name to the bone on which it moves least; return whether it is rigid there.

        A limb without markers moves with the body, and so does what it carries: bones far from any marker count less.
        """
        figure = self.figure()
        bones = [joint.name for joint in figure.joints if joint.motion.dofs]
        options = [(*self._scatter(figure, joint, track), joint) for joint in bones]
        scatter, middle, bone = min(options, key=lambda option: option[0] * REMOTE ** self._from_markers(option[2]))
        if not scatter < LOOSE:
            return False
        self.names.append(name)
        self.joints.append(bone)
        self.offsets = np.vstack([self.offsets, middle])
        self.guesses = np.vstack([self.guesses, middle])
        self.places = np.concatenate([self.places, track[:, None]], axis=1)
        _, notes = self._solve(self.figure(), _REFINE)
        self.energy = self._total(notes)
        return True

    def _from_markers(self, bone: str) -> int:
        """Return the number of joints that lie between a bone and the nearest one above it that carries a marker."""
        parents = {joint.name: joint.parent for joint in self.generic.joints}
        steps, above = 0, bone
        while above is not None and above not in self.joints:
            steps, above = steps + 1, parents[above]
        return steps

    def dispensable(self, names: list[str]) -> list[str]:
        """Return the markers among `names` that can be left out: not those of the hips, and none if few remain."""
        held = (*self.hips.front, *self.hips.back) if self.hips is not None else ()
        gone = [name for name in names if name not in held]
        return gone if len(self.names) - len(gone) >= LEAST_SEEN else []

    def errors(self) -> np.ndarray:
        """Return the marker errors (K, M) [m] of the fitted frames."""
        return self._solve(self.figure(), _REFINE)[0]

    def check(self, places: np.ndarray, nearest: np.ndarray) -> float:
        """Return the mean marker error [m] over frames that were not fitted, NaN without any.

        Args:
            places: (F, M, 3) [m] The markers there.
            nearest: (F,) The fitted frames whose poses they start from.
        """
        if not len(places) or not np.isfinite(places).any():
            return float("nan")
        errors = self.solved(places, nearest)[1]
        errors = errors[np.isfinite(errors) & (errors < WRONG_AT_FIRST)]
        return float(errors.mean()) if errors.size else float("nan")

    def solved(self, places: np.ndarray, nearest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return poses (F, n) and errors (F, M) [m] of frames with places (F, M, 3) [m].

        nearest: (F,) The fitted frames whose poses they start from.
        """
        frame_solver = marker_frame_solver(self.figure(), self.names, limits=self.limits, robust=self.robust)
        frame_solver.pull = _pull_shares(self.figure())
        poses = self.poses[nearest].copy()
        return poses, frame_solver(_SETTLE, poses, targets=places)[0]

    def _certainty(self, figure: Skeleton) -> dict[str, float]:
        """Return {joint: standard deviation of its bone's length [m]}.

        The inverse of the normal equations. Errors of the model are the same in every frame, as in the prior, so that
        more frames of the same poses do not reduce it.
        """
        if not self.groups:
            return {}
        matrix, _ = self._normal_equations(figure)
        unit = np.zeros(len(matrix))
        variances = []
        for k in range(self.offsets.size, self.offsets.size + len(self.factors)):
            unit[k] = 1.0
            column = solve_symmetric(matrix, unit)
            unit[k] = 0.0
            variances.append(np.inf if column is None else max(float(column[k]), 0.0))
        spreads = np.sqrt(np.array(variances) * len(self.places)) * NOISE
        offsets = {joint.name: np.asarray(joint.offset, dtype=float) for joint in self.generic.joints}
        return {
            joint: float(spreads[group] * self.scale * np.linalg.norm(offsets[joint]))
            for joint, group in self.groups.items()
        }

    def actor(
        self, before: float, steps: int, left_out, frames, notes: tuple[str, ...], held_out: float = float("nan")
    ) -> Skeleton:
        """Return the fitted figure, with its calibration in `info`."""
        figure = self.figure()
        errors, _ = self._solve(figure, _REFINE)
        count = np.isfinite(errors).sum(axis=0)
        mean = np.where(count, np.nansum(errors, axis=0) / np.maximum(count, 1), np.nan)
        middle = float(self.factors.mean()) if len(self.factors) else 1.0
        found = Calibration(
            before,
            float(np.nanmean(errors)),
            {n: (j, float(e)) for n, j, e in zip(self.names, self.joints, mean, strict=True)},
            self.scale * middle,
            {joint: self._factor(joint) / middle for joint in self.groups},
            left_out,
            frames,
            steps,
            notes,
            held_out,
            self._certainty(figure),
        )
        best_first = self.poses[np.argsort(np.nanmean(errors, axis=1))]
        return figure.replace(info={**figure.info, "calibration": found, "calibration_poses": best_first})


def _usual_misses(errors: np.ndarray, least: float) -> np.ndarray:
    """Return thresholds (M,) [m] above which samples of errors (K, M) are wrong.

    A marker that is wrong for much of the take would raise its own threshold, so the usual one is an upper bound.
    """
    limits = thresholds(errors, least)
    return np.minimum(limits, max(least, 2.0 * float(np.median(limits[np.isfinite(limits)]))))


def _length_groups(skeleton: Skeleton, symmetric: bool) -> dict[str, int]:
    """Return {joint: index of its length factor}; if symmetric, left and right share one."""
    out: dict[str, int] = {}
    keys: dict[tuple[int, str], int] = {}
    depth: dict[str, int] = {}
    for joint in skeleton.joints:
        depth[joint.name] = depth[joint.parent] + 1 if joint.parent is not None else 0
        if joint.parent is None or not np.any(joint.offset):
            continue
        side, word = words_of(joint.name)
        key = (depth[joint.name], word) if symmetric and side else (-1, joint.name)
        out[joint.name] = keys.setdefault(key, len(keys))
    return out


def _side_pairs(skeleton: Skeleton, groups: Mapping[str, int]) -> list[tuple[int, int]]:
    """Return the pairs of factors (left, right) of bones that are mirror images by name."""
    depth: dict[str, int] = {}
    sided: dict[tuple[int, str], dict[str, int]] = {}
    for joint in skeleton.joints:
        depth[joint.name] = depth[joint.parent] + 1 if joint.parent is not None else 0
        side, word = words_of(joint.name)
        if side and joint.name in groups:
            sided.setdefault((depth[joint.name], word), {})[side] = groups[joint.name]
    return [(pair["L"], pair["R"]) for pair in sided.values() if len(pair) == 2 and pair["L"] != pair["R"]]


def _trunk_weights(skeleton: Skeleton, joints: list[str]) -> np.ndarray:
    """Return weights (M,) of the markers in the first placement of the root, small for those below many joints."""
    depth: dict[str, int] = {}
    for joint in skeleton.joints:
        moves = len(joint.motion.dofs) if joint.parent is not None else 0
        depth[joint.name] = moves + (depth[joint.parent] if joint.parent is not None else 0)
    levels = np.array([depth[joint] for joint in joints], dtype=float)
    return np.exp(-0.25 * (levels - levels.min()))


def _pull_shares(skeleton: Skeleton) -> np.ndarray:
    """Return weights (n,) of the pull towards the rest pose: zero for the root."""
    out = np.ones(skeleton.size)
    for joint in skeleton.joints:
        if joint.motion.dofs:
            out[skeleton.index(joint.name)] = 0.0
            break
    return out
