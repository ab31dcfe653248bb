"""Marker identification: the place of each marker on the body, whatever its label, from constant distances and a fit.

Markers on one bone keep their distances, and those on neighbouring bones nearly so. In each limb every assignment of
labels to markers is compared with the distances of the figure. Markers without labels are first assigned positions on a
figure that was fitted to their bones alone (autolabel.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from itertools import permutations
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from posable.errors import PosableError
from posable.mocap.frame_solver import FrameOptions, marker_frame_solver
from posable.mocap.gaps import MAD, column_medians
from posable.mocap.marker_sets import BODY, guess, mirrored_name, place_name, placement_of
from posable.model.body_plan import SIDES, BodyPlan, body_plan
from posable.model.kinematics import Frames, forward
from posable.model.skeleton import Skeleton

LIMBS = {  # places on a limb, and those on the trunk with which it is compared
    "arm": (("SHO", "UPA", "ELB", "FRM", "WRA", "WRB", "FIN"), ("C7", "CLAV", "STRN")),
    "leg": (("THI", "KNE", "SHN", "ANK", "HEE", "TOE", "MT5"), ("*FWT", "*BWT")),
}
FAR = (0.02, 0.05, 0.10)  # [m] spread of distances among people: on one bone, across a joint, farther
STEADY = 0.01  # [m] spread of a distance on one bone
MOVED = 0.5  # cost of a changed label
MOST = 9.0  # largest cost of a pair
SAMPLES = 300  # frames from which distances are taken
BETTER = 8.0  # gain that other places of a limb's markers must have over those found with the figure
EVIDENT = 20.0  # gain that they must have over the labels of the file
STRAY = 0.016  # [m] spread of all distances of a marker to its neighbours above which its label is wrong
FEW = 20  # least number of frames that show both markers
SIZES = (0.5, 2.0)  # actor relative to the figure; outside, the unit is wrong
NEAR = 0.15  # [m] distance from a place within which a marker is recognised
CAP = 0.30  # [m] longer distances count as this


class Places:
    """The places of a marker set on a figure, and their mutual distances."""

    def __init__(self, skeleton: Skeleton, roles: Mapping[str, str] | None = None):
        plan: BodyPlan = body_plan(skeleton, roles)
        sites = {site.name: site for site in skeleton.sites}
        if "calibration" in skeleton.info:  # of an actor, the sites of its own markers
            sites |= {place_name(name): sites[name] for name in skeleton.info["calibration"].markers}
        parent = {joint.name: joint.parent for joint in skeleton.joints}
        rest = forward(skeleton, skeleton.rest)
        self.offsets: dict[str, tuple[str, np.ndarray]] = {}  # joint, offset (3,) [m]
        for name in BODY:
            if name in sites:
                self.offsets[name] = (sites[name].joint, np.asarray(sites[name].offset, dtype=float))
            elif (found := guess(plan, name)) is not None:
                self.offsets[name] = (found[0], rest.convert(found[1], to=found[0]))
        self.names = list(self.offsets)
        at = np.array([rest.convert(offset, from_=joint) for joint, offset in self.offsets.values()])
        self.gaps = np.linalg.norm(at[:, None] - at[None], axis=-1)
        bones = [joint for joint, _ in self.offsets.values()]
        self.apart = np.full(self.gaps.shape, 2)  # 0: on one bone, 1: on neighbours, 2: farther
        for i, a in enumerate(bones):
            for j, b in enumerate(bones):
                if a == b:
                    self.apart[i, j] = 0
                elif parent[a] == b or parent[b] == a:
                    self.apart[i, j] = 1

    def stated(self, names: Sequence[str]) -> dict[int, int]:
        """Return {marker: place} according to labels (M,), as indices; of two markers at one place, the first."""
        row = {name: i for i, name in enumerate(self.names)}
        given: dict[int, int] = {}
        for m, name in enumerate(names):
            place = place_name(name)
            if place in row and row[place] not in given.values():
                given[m] = row[place]
        return given

    def seen_from(self, frames: Frames, scale: float) -> np.ndarray:
        """Return the positions (T, S, 3) [m] of the places in frames of the figure, scaled to the actor."""
        return np.stack(
            [frames.convert(scale * offset, from_=joint) for joint, offset in self.offsets.values()], axis=1
        )


def distances(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the usual distance (M, M) [m] of markers with places (T, M, 3) [m], and its spread (M, M) [m]."""
    rows = np.unique(np.linspace(0, len(places) - 1, min(SAMPLES, len(places))).astype(int))
    part = places[rows]
    count = part.shape[1]
    usual, spread = np.full((count, count), np.nan), np.full((count, count), np.nan)
    a, b = np.triu_indices(count)
    gaps = np.linalg.norm(part[:, a] - part[:, b], axis=-1)
    seen = np.isfinite(gaps)
    some = seen.any(axis=0)
    a, b, gaps, seen = a[some], b[some], gaps[:, some], seen[:, some]
    usual[a, b] = usual[b, a] = column_medians(gaps)
    number = seen.sum(axis=0)
    mean = np.where(seen, gaps, 0.0).sum(axis=0) / number
    spread[a, b] = spread[b, a] = np.sqrt(np.where(seen, np.square(gaps - mean), 0.0).sum(axis=0) / number)
    return usual, spread


class Labels:
    """Markers and the places assigned to them: {marker: place}, as columns of the take and rows of the places."""

    def __init__(self, places: Places, tracks: np.ndarray, given: Mapping[int, int]):
        self.places, self.given = places, dict(given)
        self.usual, self.spread = distances(tracks)
        near = [
            self.usual[a, b] / places.gaps[i, j]
            for a, i in self.given.items()
            for b, j in self.given.items()
            if a < b and places.apart[i, j] < 2 and places.gaps[i, j] > 0.0
        ]
        near = [ratio for ratio in near if np.isfinite(ratio)]
        self.scale = float(np.median(near)) if near else 1.0

    def _pair(self, places: tuple[np.ndarray, ...], markers: tuple[np.ndarray, ...]) -> np.ndarray:
        """Return the cost of two markers at two places, given as indices that broadcast."""
        apart = self.places.apart[places]
        far = (self.usual[markers] - self.scale * self.places.gaps[places]) / np.asarray(FAR)[apart]
        unsteady = np.where(apart == 0, self.spread[markers] / STEADY, 0.0)
        cost = np.minimum(np.square(far), MOST) + np.minimum(np.square(unsteady), MOST)
        return np.where(np.isnan(cost), 0.0, cost)

    def improve(self, better: float) -> list[tuple[int, int, int]]:
        """Assign the markers of each limb to the places that fit best, if the gain is at least `better`.

        Returns:
            (marker, old place, new place) of those that changed.
        """
        changed = []
        rows = {name: i for i, name in enumerate(self.places.names)}
        for side in SIDES:
            for own, trunk in LIMBS.values():
                limb = [rows[side + name] for name in own if side + name in rows]
                held = [rows[name] for name in (name.replace("*", side) for name in trunk) if name in rows]
                changed += self._improve_limb(limb, held, better)
        return changed

    def _improve_limb(self, limb: list[int], held: list[int], better: float) -> list[tuple[int, int, int]]:
        at = {place: marker for marker, place in self.given.items()}
        markers = [at[place] for place in limb if place in at]
        if len(markers) < 3:
            return []
        now = np.array([limb.index(self.given[marker]) for marker in markers])
        spots, those = np.array(limb), np.array(markers)
        near = np.array([place for place in held if place in at], dtype=int)
        owners = np.array([at[place] for place in near], dtype=int)
        mine = spots[now]
        stays = float(np.tril(self._pair(np.ix_(mine, mine), np.ix_(those, those)), -1).sum())
        stays += float(self._pair(np.ix_(mine, near), np.ix_(those, owners)).sum())
        if stays < better:  # costs are not negative
            return []
        grid = np.ix_(spots, spots, those, those)
        pairs = self._pair(grid[:2], grid[2:])  # cost by places and markers
        grid = np.ix_(spots, those, near)
        alone = self._pair((grid[0], near), (grid[1], owners)).sum(axis=-1)

        def cost(options: np.ndarray) -> np.ndarray:
            out = MOVED * (options != now).sum(axis=1)
            for a in range(len(markers)):
                out += alone[options[:, a], a]
                for b in range(a):
                    out += pairs[options[:, a], options[:, b], a, b]
            return out

        options = _options(len(limb), len(markers))
        costs = cost(options)
        best = int(np.argmin(costs))
        if costs[best] >= stays - better:
            return []
        out = []
        for marker, before, after in zip(markers, now, options[best], strict=True):
            if before != after:
                self.given[marker] = limb[after]
                out.append((marker, limb[before], limb[after]))
        return out


@lru_cache(maxsize=16)
def _options(places: int, markers: int) -> np.ndarray:
    """Return every assignment (N, markers) of markers to different places."""
    return np.array(list(permutations(range(places), markers)))


def recognised(places: Places, frames: Frames, scale: float, tracks: np.ndarray) -> tuple[dict[int, str], np.ndarray]:
    """Return {marker: name of its place} of markers with tracks (T, M, 3) [m], and how far off each is (M,) [m].

    Args:
        places: Of the figure.
        frames: Of the figure, fitted to these markers, in the same frames.
        scale: Of the fitted figure to the one whose places they are.
        tracks: In the figure's axes.
    """
    gaps = np.linalg.norm(tracks[:, :, None] - places.seen_from(frames, scale)[:, None], axis=-1)
    seen = np.isfinite(gaps)
    squares = np.where(seen, np.square(np.minimum(np.nan_to_num(gaps, nan=CAP), CAP)), 0.0).sum(axis=0)
    cost = np.where(seen.any(axis=0), squares / np.maximum(seen.sum(axis=0), 1), CAP**2)
    labels = Labels(places, tracks, {int(m): int(s) for m, s in zip(*linear_sum_assignment(cost), strict=True)})
    moved = {marker for marker, _, _ in labels.improve(BETTER)}
    off = np.full(tracks.shape[1], np.nan)
    out = {}
    for marker, place in labels.given.items():
        off[marker] = np.sqrt(cost[marker, place])
        if off[marker] < NEAR or marker in moved:
            out[marker] = places.names[place]
    return out, off


def mislabelled(
    skeleton: Skeleton, names: Sequence[str], tracks: np.ndarray, roles: Mapping[str, str] | None = None
) -> list[tuple[int, int]]:
    """Return (marker, marker whose label it should have) for limbs whose labels are evidently on the wrong markers.

    Args:
        skeleton: The figure.
        names: (M,) Labels of the markers.
        tracks: (T, M, 3) [m].
        roles: {role: joint} of the figure.
    """
    try:
        places = Places(skeleton, roles)
    except PosableError:
        return []
    given = places.stated(names)
    labels = Labels(places, tracks, given)
    owner = {place: marker for marker, place in given.items()}
    changed = labels.improve(EVIDENT)
    if any(after not in owner for _, _, after in changed):
        return []  # to a place for which the file has no label
    return [(marker, owner[after]) for marker, _, after in changed]


def strays(
    skeleton: Skeleton, names: Sequence[str], tracks: np.ndarray, noise: float, roles: Mapping[str, str] | None = None
) -> list[int]:
    """Return the markers that keep their distance to no other marker on their bone or the next ones.

    A marker on a body has at least one such neighbour: on the same bone, or near the joint between the two bones. A
    marker without one has a wrong label, or was reconstructed on the wrong side. Markers in a wrong unit have
    none.

    Args:
        skeleton: The figure.
        names: (M,) Labels of the markers.
        tracks: (T, M, 3) [m].
        noise: [m] Standard deviation of the coordinates of markers.
        roles: {role: joint} of the figure.
    """
    try:
        places = Places(skeleton, roles)
    except PosableError:
        return []
    given = places.stated(names)
    if not SIZES[0] < Labels(places, tracks, given).scale < SIZES[1]:
        return []
    rows = np.unique(np.linspace(0, len(tracks) - 1, min(SAMPLES, len(tracks))).astype(int))
    columns, spots = np.array(list(given), dtype=int), np.array(list(given.values()), dtype=int)
    part = tracks[rows][:, columns]
    out = []
    for i, marker in enumerate(columns.tolist()):
        beside = np.flatnonzero((places.apart[spots[i], spots] < 2) & (spots != spots[i]))
        gaps = np.linalg.norm(part[:, beside] - part[:, i : i + 1], axis=-1)
        gaps = gaps[:, np.isfinite(gaps).sum(axis=0) > FEW]
        if gaps.shape[1] < 2:
            continue
        spread = MAD * column_medians(np.abs(gaps - column_medians(gaps)))
        if spread.min() > np.hypot(STRAY, 3.0 * noise):
            out.append(marker)
    return out


def mislabelled_note(names: Sequence[str], wrong: Sequence[tuple[int, int]]) -> str:
    """Return a finding on markers (marker, marker whose label it should have)."""
    shown = ", ".join(f"{names[marker]} is {names[other]}" for marker, other in wrong)
    return f"labels on the wrong markers throughout the take: {shown}; swapped back"


# --- Left and right, and labels swapped in the whole take ---


LIMB_ROOTS = {"leg": ("FWT", "ASI", "BWT", "PSI"), "arm": ("SHO",)}  # markers on the trunk next to a limb
FOOT = 0.2  # [m] largest distance from ankle to heel
SURELY = 0.9  # fraction of the frames in which two markers of a foot must be swapped
FOREFOOT = (("TOE", "MT5"), ("MT1", "MT5"))  # (inner, outer) neighbouring places; few sets have both pairs
_LEFT = ("LFWT", "LBWT", "LSHO", "LFHD", "LBHD")
_FRONTS = (("LFWT", "LBWT"), ("RFWT", "RBWT"), ("LFHD", "LBHD"), ("RFHD", "RBHD"), ("CLAV", "C7"), ("STRN", "T10"))
OPPOSED = -0.5  # mean agreement of left and right with the rest of the trunk, below which a pair is swapped


def pairs_on_feet(names: list[str], places: np.ndarray) -> dict[tuple[int, int], bool]:
    """Return {pair of columns of places (T, M, 3) [m]: whether they are swapped} of markers of one foot.

    A heel is farther from the knee and the toes than the ankle is, by 6 to 15 cm in all. The fifth metatarsal is on the
    outer side of the other toes. Pairs of which neither is true in nearly all frames are left out.
    """
    at = BodyAxes({name.upper(): k for k, name in enumerate(names)}, places).at
    out: dict[tuple[int, int], bool] = {}
    for side in "LR":
        if not all(side + name in at for name in ("ANK", "HEE", "KNE")):
            continue
        ankle, heel, knee = (places[:, at[side + name]] for name in ("ANK", "HEE", "KNE"))
        margins: dict[tuple[str, str], np.ndarray] = {}
        if side + "TOE" in at:
            ends = (knee, places[:, at[side + "TOE"]])
            farther = [np.linalg.norm(heel - end, axis=-1) - np.linalg.norm(ankle - end, axis=-1) for end in ends]
            nearby = np.linalg.norm(heel - ankle, axis=-1) < FOOT
            margins["ANK", "HEE"] = np.where(nearby, np.sum(farther, axis=0), np.inf)
        for inner, outer in FOREFOOT:
            if side + inner in at and side + outer in at:
                first, second = places[:, at[side + inner]], places[:, at[side + outer]]
                left = np.cross(knee - ankle, 0.5 * (first + second) - heel)
                margins[inner, outer] = np.sum(left * (second - first), axis=-1) * (1.0 if side == "L" else -1.0)
        for (a, b), margin in margins.items():
            right = margin[~np.isnan(margin)] > 0.0
            share = float(np.mean(right)) if len(right) else 0.5
            if max(share, 1.0 - share) > SURELY:
                out[at[side + a], at[side + b]] = share < 0.5
    return out


def swapped_sides(names: list[str], places: np.ndarray) -> list[tuple[int, int]]:
    """Return the pairs of columns whose left and right are swapped in places (T, M, 3) of the usual marker sets.

    Of head, shoulders and pelvis, a pair whose left and right oppose those of most others is swapped. Left, up and
    forward make a right-handed frame; each part of the body that has them all casts a vote. Limbs are compared with the
    trunk: a left thigh hangs on the left hip.
    """
    column = {name.upper(): k for k, name in enumerate(names)}
    pairs = sided_pairs(names)
    if not pairs:
        return []
    of_trunk = [pair for pair, part in pairs.items() if part == "trunk"]
    swapped = set(_opposed(of_trunk, places))
    if swapped:
        places = places.copy()
        for a, b in swapped:
            places[:, [a, b]] = places[:, [b, a]]
    middle = BodyAxes(column, places)
    trunk = middle.handedness()
    if trunk < 0.0:
        swapped ^= set(of_trunk)
    for part, near in LIMB_ROOTS.items():
        own = middle.nearer_to_own_side([pair for pair, of in pairs.items() if of == part], near)
        if own is not None and own * (trunk or 1.0) < 0.0:
            swapped |= {pair for pair, of in pairs.items() if of == part}
    return [pair for pair in pairs if pair in swapped]


def _opposed(pairs: list[tuple[int, int]], places: np.ndarray) -> list[tuple[int, int]]:
    """Return the pairs (left, right) of the trunk whose direction in places (T, M, 3) opposes those of the others."""
    across = [places[:, left] - places[:, right] for left, right in pairs]
    out = []
    for k, pair in enumerate(pairs):
        agreements = [np.einsum("ti,ti->t", across[k], other) for i, other in enumerate(across) if i != k]
        votes = [float(np.nanmean(np.sign(one))) for one in agreements if np.isfinite(one).any()]
        if len(votes) > 1 and np.mean(votes) < OPPOSED:
            out.append(pair)
    return out if 2 * len(out) < len(pairs) else []


_PARTS = {"hip": "leg", "knee": "leg", "ankle": "leg", "shoulder": "arm", "elbow": "arm", "wrist": "arm", "hand": "arm"}


def sided_pairs(names: list[str]) -> dict[tuple[int, int], str]:
    """Return {(left column, right column): "trunk", "leg" or "arm"} of markers that have a mirror image."""
    column = {name.upper(): k for k, name in enumerate(names)}
    out = {}
    for k, name in enumerate(names):
        found = placement_of(name)
        other = column.get(mirrored_name(name).upper(), k)
        if found is not None and found[1] == "L" and other != k:
            out[(k, other)] = _PARTS.get(found[0].on[0], "trunk")
    return out


class BodyAxes:
    """Directions of a body from the markers of the usual sets, by canonical name."""

    def __init__(self, column: dict[str, int], places: np.ndarray):
        self.places = places
        self.at: dict[str, int] = {}
        for name, k in column.items():
            found = placement_of(name)
            if found is not None:
                self.at.setdefault(found[2], k)

    def mean(self, *names: str) -> np.ndarray | None:
        """Return the mean place (T, 3) of the markers that are there."""
        columns = [self.at[name] for name in names if name in self.at]
        return self.places[:, columns].mean(axis=1) if columns else None

    def upward(self) -> np.ndarray | None:
        """Return the direction (T, 3) of the trunk from below; without a chest or a head, that from the feet."""
        hips = self.mean("LFWT", "RFWT", "LBWT", "RBWT", "SACR")
        top = self.mean("C7", "CLAV", "LSHO", "RSHO", "LFHD", "RFHD")
        feet = self.mean("LANK", "RANK", "LHEE", "RHEE")
        if hips is None or (top is None and feet is None):
            return None
        return top - hips if top is not None else hips - feet

    def handedness(self) -> float:
        """Return above 0 where left, up and forward are right-handed, below 0 where mirrored, 0 where unknown."""
        up = self.upward()
        votes = []
        for left, right, front, back in (
            (("LFWT", "LBWT"), ("RFWT", "RBWT"), ("LFWT", "RFWT"), ("LBWT", "RBWT", "SACR")),
            (("LSHO",), ("RSHO",), ("CLAV", "STRN"), ("C7", "T10")),
            (("LFHD", "LBHD"), ("RFHD", "RBHD"), ("LFHD", "RFHD"), ("LBHD", "RBHD")),
            (("LFWT", "LBWT"), ("RFWT", "RBWT"), ("LTOE", "RTOE"), ("LHEE", "RHEE")),
        ):
            ends = [self.mean(*part) for part in (left, right, front, back)]
            if up is None or any(end is None for end in ends):
                continue
            a, b, c, d = ends
            volume = np.sum(np.cross(a - b, up) * (c - d), axis=-1)  # type: ignore[operator]  # none is None
            volume = volume[np.isfinite(volume)]
            if len(volume):
                votes.append(float(np.mean(np.sign(volume))))
        return float(np.mean(votes)) if votes else 0.0

    def fronts(self) -> dict[tuple[int, int], bool]:
        """Return {columns of a marker in front and one behind: whether they are swapped} of pelvis, head and chest.

        Left and right must be correct: with up, they determine forward. Unclear pairs are left out.
        """
        up, left, right = self.upward(), self.mean(*_LEFT), self.mean(*(name.replace("L", "R", 1) for name in _LEFT))
        if up is None or left is None or right is None:
            return {}
        forward = np.cross(left - right, up)
        out = {}
        for front, back in _FRONTS:
            if front in self.at and back in self.at:
                ahead = np.sum((self.places[:, self.at[front]] - self.places[:, self.at[back]]) * forward, axis=-1)
                ahead = ahead[np.isfinite(ahead)]
                share = float(np.mean(ahead > 0.0)) if len(ahead) else 0.5
                if max(share, 1.0 - share) > SURELY:
                    out[self.at[front], self.at[back]] = share < 0.5
        return out

    def nearer_to_own_side(self, pairs: list[tuple[int, int]], near: tuple[str, ...]) -> float | None:
        """Return above 0 where markers of limbs are nearer to the trunk's marker of their own side, below 0 if not."""
        ends = [(self.at.get("L" + name), self.at.get("R" + name)) for name in near]
        votes = []
        for left, right in ends:
            if left is None or right is None:
                continue
            for a, b in pairs:
                if left in (a, b) or right in (a, b):
                    continue
                own, other = (
                    np.linalg.norm(self.places[:, a] - self.places[:, x], axis=-1)
                    + np.linalg.norm(self.places[:, b] - self.places[:, y], axis=-1)
                    for x, y in ((left, right), (right, left))
                )
                gap = (other - own)[np.isfinite(other - own)]
                if len(gap):
                    votes.append(float(np.mean(np.sign(gap))))
        return float(np.mean(votes)) if votes else None


# --- Markers that fell off and were put back elsewhere on their bone ---


ELSEWHERE = 0.025  # [m] shift on its bone that is reported; a marker put back 60 mm away shows 26 to 70 mm
HELD = 0.03  # [m] error beyond which the force of a marker no longer grows
SUSPECT = 0.004  # [m] mean error of a marker below which it is not examined
MOST_STEP = 3.0  # largest ratio of the step into a stretch to the shift of the stretch; beyond, something else jumps
EDGE = 0.1  # [s] at the ends of a stretch that are compared with its neighbours
MOST_STAYS = 12  # number of stretches compared: the longest ones
LOOKED_AT = 24  # frames examined per stretch
_SOLVE = FrameOptions(max_iterations=50, min_gain=1e-6, independent=True, pull=1e-4, damping=1e-2)


class Displaced(NamedTuple):
    """A stretch of a take in which a marker is displaced on its bone: (first frame, end), and by how much [m]."""

    marker: str
    start: int
    end: int
    off: float

    def __str__(self) -> str:
        frames = f"frames {self.start}-{self.end - 1}"
        where = f"{self.marker} is {1e3 * self.off:.0f} mm from its position on its bone in {frames}"
        return f"{where}, as if it had fallen off and been put back elsewhere: ignored there"


def place_from(
    kept: Sequence[int], figure: Skeleton, names: Sequence[str], marker: int, poses: np.ndarray, places: np.ndarray,
    limits: bool,
) -> np.ndarray:  # fmt: skip
    """Return the positions (K, 3) [m] of a marker on its bone, in poses determined by other markers.

    Args:
        kept: Indices of the other markers.
        figure: With a site for each marker.
        names: (M,) Of the markers.
        marker: Index of the marker.
        poses: (K, n) Start poses.
        places: (K, M, 3) [m] Of the markers.
        limits: Whether joint limits hold.
    """
    frame_solver = marker_frame_solver(figure, [names[k] for k in kept], limits=limits, robust=HELD)
    found = poses.copy()
    for k in range(len(found)):  # with a pull to its start pose
        frame_solver(_SOLVE, found[k : k + 1], targets=places[k : k + 1, kept], home=poses[k])
    return place_on_bone(figure, names[marker], found, places[:, marker])


def place_on_bone(figure: Skeleton, name: str, poses: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return places (K, 3) [m] of a marker in the frame of the bone that has its site, in poses (K, n)."""
    return forward(figure, poses).convert(places, to=next(site.joint for site in figure.sites if site.name == name))


def find_displaced(
    figure: Skeleton,
    names: Sequence[str],
    marker: int,
    stays: Sequence[tuple[int, int]],
    look: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    home: np.ndarray | None,
    *,
    limits: bool,
    fps: float,
) -> list[Displaced]:
    """Return the stretches in which a marker is displaced on its bone, compared with a reference stretch.

    The reference is the stretch in which it is nearest to `home`, or the first long one. A marker's position on its
    bone also depends on the pose, so a shift counts only if it also shows between the end of one stretch and the
    beginning of the next, in poses solved with the marker and without it.

    Args:
        figure: With a site for each marker.
        names: (M,) Of the markers.
        marker: Index of the marker.
        stays: (first frame, end) of its stretches, at least one.
        look: Returns places (F, M, 3) [m] and poses (F, n) of frames (F,).
        home: (3,) [m] Its position on its bone according to the actor, if known.
        limits: Whether joint limits hold.
        fps: Frames per second.
    """
    stays = sorted(sorted(stays, key=lambda stay: stay[0] - stay[1])[:MOST_STAYS])
    edge = max(1, round(EDGE * fps))
    inner = [np.linspace(a, b - 1, min(LOOKED_AT, b - a)).astype(int) for a, b in stays]
    first = [np.linspace(a, a + edge - 1, min(LOOKED_AT // 4, edge)).astype(int) for a, _ in stays]
    last = [np.linspace(b - edge, b - 1, min(LOOKED_AT // 4, edge)).astype(int) for _, b in stays]

    def middles(frames: np.ndarray, local: np.ndarray, parts: list[np.ndarray]) -> np.ndarray:
        inside = [np.isin(frames, rows) & np.isfinite(local).all(axis=-1) for rows in parts]
        return np.array([np.median(local[rows], axis=0) if rows.any() else np.full(3, np.nan) for rows in inside])

    def steps(frames: np.ndarray, local: np.ndarray) -> np.ndarray:
        jumps = middles(frames, local, first)[1:] - middles(frames, local, last)[:-1]
        return np.concatenate([np.zeros((1, 3)), np.cumsum(jumps, axis=0)])

    frames = np.unique(np.concatenate([*first, *last]))
    places, poses = look(frames)
    tracked = steps(frames, place_on_bone(figure, names[marker], poses, places[:, marker]))
    if not (np.linalg.norm(tracked, axis=-1) > 0.5 * ELSEWHERE).any():
        return []
    every = list(range(len(names)))
    by_all = steps(frames, place_from(every, figure, names, marker, poses, places, limits))
    frames = np.unique(np.concatenate([*inner, *first, *last]))
    places, poses = look(frames)
    others = [k for k in every if k != marker]
    free = place_from(others, figure, names, marker, poses, places, limits)
    usual, by_others = middles(frames, free, inner), steps(frames, free)
    lengths = np.array([b - a for a, b in stays])
    first_long = int(np.argmax(2 * lengths >= lengths.max()))
    off = np.full(len(stays), np.nan) if home is None else np.linalg.norm(usual - home, axis=-1)
    counts = first_long if np.isnan(off).all() else int(np.nanargmin(off))
    shift, size, held_back = (np.linalg.norm(way - way[counts], axis=-1) for way in (usual, by_others, by_all))
    clear = (np.minimum(np.minimum(shift, size), held_back) > ELSEWHERE) & (size < MOST_STEP * shift)
    return [Displaced(names[marker], a, b, float(size[k])) for k, (a, b) in enumerate(stays) if clear[k]]


def fallen_off(found: Sequence[Displaced], figure: Skeleton, names: Sequence[str]) -> list[Displaced]:
    """Return the displaced stretches of markers, without those that half of the markers there share.

    One marker falls off and is put back elsewhere. If all of a limb seem displaced, its poses are wrong instead, and
    without its markers it would have none.

    Args:
        found: The stretches.
        figure: With a site for each marker.
        names: (M,) Of the markers.
    """
    bone = {name: next(site.joint for site in figure.sites if site.name == name) for name in names}
    above = {joint: _next_above(figure, joint, set(bone.values())) for joint in set(bone.values())}
    out = []
    for each in found:
        joint = bone[each.marker]
        beside = {joint, above[joint], *(below for below, other in above.items() if other == joint)}
        there = [name for name in names if bone[name] in beside]
        moved = {other.marker for other in found if other.start < each.end and other.end > each.start}
        if len(moved.intersection(there)) < max(2, 0.5 * len(there)):
            out.append(each)
    return out


def _next_above(figure: Skeleton, joint: str, marked: Collection[str]) -> str | None:
    """Return the nearest joint above one that carries markers, None if there is none."""
    parent = figure.joint(joint).parent
    while parent is not None and parent not in marked:
        parent = figure.joint(parent).parent
    return parent


def suspect(errors: np.ndarray) -> bool:
    """Return whether a marker with errors (T,) [m], NaN where it was left out, may be displaced on its bone."""
    seen = errors[np.isfinite(errors)]
    return not seen.size or seen.mean() > SUSPECT
