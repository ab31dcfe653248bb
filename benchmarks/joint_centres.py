"""Joint centres of calibrated actors beside a functional method that knows no skeleton: spheres and hinges."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import least_squares

import posable as ps
from benchmarks.page import Page
from benchmarks.recordings import read_markers
from posable.formats.conventions import turn_up
from posable.mocap.marker_sets import placement_of

MM = 1e3
TUNED = {"HDM05 dg_03-05_02": "hdm05/HDM_dg_03-05_02_120.c3d"}  # what priors were chosen on
HELD_OUT = {
    "CMU 85_12": "cmu/85_12.c3d",
    "CMU 02_01": "cmu/02_01.c3d",
    "HDM05 dg_06-03_03": "hdm05/HDM_dg_06-03_03_120.c3d",
    "Plug-in Gait": "c3d/PiG_Motion-FlatFoot-Hole.c3d",
}
PELVIS = ("LFWT", "RFWT", "LBWT", "RBWT")
LIMIT = 15.0  # [mm]
SKIN = 0.005  # [m] by which skin moves on bone: beyond, a sample counts less
BLOCKS = 4  # parts of a take, each left out once: how far the reference moves says how sure it is
SURE = 10.0  # [mm]: a reference that moves further is no reference
ENOUGH = 20.0  # [deg] of motion in either direction that a ball joint needs (Camomilla et al. 2006)
ENOUGH_HINGE = 90.0  # [deg] that a hinge needs: in a walk, of 60, the skin of the thigh moves as much as the axis says
TOO_LITTLE = "too little motion"
MOST = 1500  # frames of a take that the reference is fitted to
MODELLED = {"hip": "FEP", "knee": "FEO", "ankle": "TIO", "wrist": "RAO"}  # Plug-in Gait's own centres, in its file


def tracks(markers: ps.Markers, up: str) -> Callable[..., np.ndarray]:
    """Return a function of places (LKNE, ...) that gives their paths (T, k, 3) [m], in axes whose up axis is `up`."""
    column = {}
    for k, name in enumerate(markers.names):
        found = placement_of(name)
        if found is not None:
            column.setdefault(found[2], k)
    turn = turn_up(markers.up, up)
    positions = markers.positions if turn is None else markers.positions @ turn.T
    return lambda *places: positions[:, [column[place] for place in places]]


class Cluster:
    """The frames of a rigid cluster of markers with paths (T, k, 3): rotations (T, 3, 3) and middles (T, 3)."""

    def __init__(self, paths: np.ndarray):
        seen = np.asarray(np.isfinite(paths).all(axis=(1, 2)))
        self.middle = paths.mean(axis=1)
        flat = np.where(seen[:, None, None], paths - self.middle[:, None], 0.0)
        shape = flat[np.argmax(seen)]
        for _ in range(5):
            u, _, v = np.linalg.svd(np.einsum("tki,kj->tij", flat, shape))
            u[:, :, 2] *= np.sign(np.linalg.det(u @ v))[:, None]
            self.turn = u @ v
            shape = np.median(np.einsum("tji,tkj->tki", self.turn[seen], flat[seen]), axis=0)
        self.turn[~seen] = np.nan

    def local(self, paths: np.ndarray) -> np.ndarray:
        """Return paths (T, 3) or (T, k, 3) in the frames of the cluster."""
        middle = self.middle if paths.ndim == 2 else self.middle[:, None]
        return np.einsum("tji,t...j->t...i", self.turn, paths - middle)

    def world(self, point: np.ndarray) -> np.ndarray:
        """Return the path (T, 3) of a point (3,) of the cluster."""
        return self.turn @ point + self.middle


def sphere(paths: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return the centre (3,) about which paths (T, k, 3) keep their distances, by a robust geometric fit."""
    paths = paths[np.isfinite(paths).all(axis=(1, 2))]
    radii = np.median(np.linalg.norm(paths - start, axis=-1), axis=0)

    def misses(x: np.ndarray) -> np.ndarray:
        return (np.linalg.norm(paths - x[:3], axis=-1) - x[3:]).ravel()

    return least_squares(misses, np.r_[start, radii], loss="soft_l1", f_scale=SKIN).x[:3]


def hinge(paths: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a point (3,) near `start` and the direction (3,) of the axis about which paths (T, k, 3) go in circles."""
    paths = paths[np.isfinite(paths).all(axis=(1, 2))]
    centred = paths - paths.mean(axis=0)
    axis = np.linalg.svd(centred.reshape(-1, 3), full_matrices=False)[2][2]
    count = paths.shape[1]

    def misses(x: np.ndarray) -> np.ndarray:
        direction = x[3:6] / np.linalg.norm(x[3:6])
        arms = paths - x[:3]
        along = arms @ direction
        radii = np.linalg.norm(arms - along[..., None] * direction, axis=-1)
        tether = 1e-3 * np.append((x[:3] - start) @ direction, np.linalg.norm(x[3:6]) - 1.0)
        return np.r_[(radii - x[6 : 6 + count]).ravel(), (along - x[6 + count :]).ravel(), tether]

    arms = paths - start
    along = arms @ axis
    radii = np.linalg.norm(arms - along[..., None] * axis, axis=-1)
    first = np.r_[start, axis, np.median(radii, axis=0), np.median(along, axis=0)]
    x = least_squares(misses, first, loss="soft_l1", f_scale=SKIN).x
    return x[:3], x[3:6] / np.linalg.norm(x[3:6])


def spans(paths: np.ndarray, centre: np.ndarray) -> tuple[float, float]:
    """Return the angles [deg] that paths (T, 3) sweep about a centre, in the widest direction and across it."""
    arms = paths[np.isfinite(paths).all(axis=-1)] - centre
    arms /= np.linalg.norm(arms, axis=-1, keepdims=True)
    axes = np.linalg.svd(arms - arms.mean(axis=0), full_matrices=False)[2]
    low, high = np.quantile((arms - arms.mean(axis=0)) @ axes.T, [0.02, 0.98], axis=0)
    widths = np.degrees(2.0 * np.arcsin(np.clip(0.5 * (high - low), 0.0, 1.0)))
    return float(widths[0]), float(widths[1])


@dataclass(frozen=True)
class Reference:
    """A functional joint centre beside ours: off [mm], sure to [mm], motion (two angles) [deg], what rules it out."""

    joint: str
    off: float
    sure: float
    motion: tuple[float, float]
    doubt: str = ""

    @property
    def moved(self) -> bool:
        """Whether the joint moved enough for a reference, certain or not."""
        return self.doubt != TOO_LITTLE


def thinned(paths: np.ndarray) -> np.ndarray:
    """Return at most `MOST` frames of paths (T, ...)."""
    return paths[:: max(1, -(-len(paths) // MOST))]


def without_blocks(total: int) -> list[np.ndarray]:
    """Return rows of a take with each of its blocks left out in turn."""
    return [np.setdiff1d(np.arange(total), part) for part in np.array_split(np.arange(total), BLOCKS)]


def ball(joint: str, paths: np.ndarray, ours: np.ndarray) -> tuple[Reference, np.ndarray]:
    """Return the reference of a ball joint and its centre; markers (T, k, 3) and ours (T, 3) in the frame above it."""
    mine, paths = np.nanmedian(ours, axis=0), thinned(paths)
    centre = sphere(paths, mine)
    moved = [np.linalg.norm(sphere(paths[rows], mine) - centre) for rows in without_blocks(len(paths))]
    motion = spans(paths[:, -1], centre)
    return _reference(joint, mine - centre, float(max(moved)), motion, min(motion) >= ENOUGH), centre


def knee(joint: str, paths: np.ndarray, ours: np.ndarray) -> Reference:
    """Return the reference of a knee: the distance of ours from the axis about which the shank turns."""
    mine, paths = np.nanmedian(ours, axis=0), thinned(paths)
    point, axis = hinge(paths, mine)
    moved = []
    for rows in without_blocks(len(paths)):
        other, direction = hinge(paths[rows], mine)
        gap = (point - other) - (point - other) @ direction * direction
        moved.append(np.linalg.norm(gap))
    off = (mine - point) - (mine - point) @ axis * axis
    motion = spans(paths[:, -1], point)
    return _reference(joint, off, max(moved), motion, motion[0] >= ENOUGH_HINGE)


def _reference(joint: str, off: np.ndarray, moved: float, motion: tuple[float, float], enough: bool) -> Reference:
    doubt = "" if enough else TOO_LITTLE
    if not doubt and moved * MM > SURE:
        doubt = "not certain"
    return Reference(joint, MM * float(np.linalg.norm(off)), MM * float(moved), motion, doubt)


def regressed_hip(at: Callable[..., np.ndarray], side: str) -> np.ndarray:
    """Return the path (T, 3) of a hip by the regression of Harrington et al. (2007)."""
    front, back = at("LFWT", "RFWT"), at("LBWT", "RBWT")
    across = front[:, 0] - front[:, 1]
    width = np.nanmedian(np.linalg.norm(across, axis=-1))
    left = across / np.linalg.norm(across, axis=-1, keepdims=True)
    ahead = front.mean(axis=1) - back.mean(axis=1)
    depth = np.nanmedian(np.linalg.norm(ahead, axis=-1))
    ahead -= np.sum(ahead * left, axis=-1, keepdims=True) * left
    ahead /= np.linalg.norm(ahead, axis=-1, keepdims=True)
    up = np.cross(ahead, left)
    out = (0.33 * width + 0.0073) * (1.0 if side == "L" else -1.0)
    return front.mean(axis=1) + out * left - (0.30 * width + 0.0109) * up - (0.24 * depth + 0.0099) * ahead


def steadier(pelvis: Cluster, thigh: np.ndarray, functional: np.ndarray, regressed: np.ndarray) -> np.ndarray:
    """Return the hip (3,) in the frame of the pelvis from which markers (T, k, 3) of the thigh keep their distances.

    A functional centre that is not certain may still be far nearer to it than a regression, whose error turns the frame
    of the thigh, and with it the knee's axis.
    """
    options = [functional, regressed]
    spreads = [np.nanstd(np.linalg.norm(thigh - pelvis.world(hip)[:, None], axis=-1), axis=0) for hip in options]
    return min(zip(spreads, options, strict=True), key=lambda option: float(option[0].sum()))[1]


def compare(markers: ps.Markers) -> tuple[list[Reference], Any]:
    """Return the references of hips, knees and wrists beside those of a calibrated and tracked human."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        take = ps.track(ps.calibrate(ps.figures.human(), markers), markers, threads=1)
    frames = ps.forward(take.motion.skeleton, take.motion.poses)
    at = tracks(markers, take.motion.skeleton.up or "y")
    pelvis = Cluster(at(*PELVIS))
    out = []
    for side in ("L", "R"):
        found, hip = ball(
            f"hip.{side}", pelvis.local(at(f"{side}THI", f"{side}KNE")), pelvis.local(frames.position(f"hip.{side}"))
        )
        if found.doubt:
            regressed = np.nanmedian(pelvis.local(regressed_hip(at, side)), axis=0)
            hip = steadier(pelvis, at(f"{side}THI", f"{side}KNE"), hip, regressed) if found.moved else regressed
        thigh = Cluster(np.concatenate([pelvis.world(hip)[:, None], at(f"{side}THI", f"{side}KNE")], axis=1))
        shank = thigh.local(at(f"{side}SHN", f"{side}ANK"))
        out += [found, knee(f"knee.{side}", shank, thigh.local(frames.position(f"knee.{side}")))]
        try:
            forearm = Cluster(at(f"{side}FRM", f"{side}WRA", f"{side}WRB"))
        except KeyError:
            continue
        hand = forearm.local(at(f"{side}FIN"))
        out.append(ball(f"wrist.{side}", hand, forearm.local(frames.position(f"wrist.{side}")))[0])
    return out, take


def modelled(markers: ps.Markers, take: Any) -> list[list[Any]]:
    """Return [joint, mean distance left, right [mm]] from the centres that a file of Plug-in Gait brings."""
    turn = turn_up(markers.up, take.motion.skeleton.up)
    frames = ps.forward(take.motion.skeleton, take.motion.poses)
    rows = []
    for joint, label in MODELLED.items():
        row: list[Any] = [joint]
        for side in ("L", "R"):
            theirs = markers.positions[:, markers.index(side + label)]
            theirs = theirs if turn is None else theirs @ turn.T
            gaps = np.linalg.norm(frames.position(f"{joint}.{side}") - theirs, axis=-1)
            row.append(MM * float(np.nanmean(gaps)))
        rows.append(row)
    return rows


def evidence(page: Page) -> None:
    """Write the page: a table for each take, and Plug-in Gait's own centres."""
    assert page.data is not None  # it is among this subject's needs
    page.text(
        "The human figure is calibrated to takes and tracked. *Reference*: a functional centre from the markers "
        "alone, without a skeleton: hips are the point of the pelvis from which the markers of the thigh keep their "
        "distances, knees the axis about which those of the shank go in circles on the thigh, whose frame has the hip, "
        "functional or by regression (Harrington et al. 2007), from which its markers are steadier; wrists the point "
        "of the forearm from which the hand's keeps its distance. *Motion*: what was swept in the widest direction and "
        f"across it; balls need {ENOUGH:g}° in both, hinges {ENOUGH_HINGE:g}°. *Certain to*: how far the reference "
        f"moves when a quarter of the take is left out; beyond {SURE:g} mm it does not count. {LIMIT:g} mm is allowed. "
        f"Priors were chosen on {', '.join(TUNED)}; the other takes were only judged."
    )
    worst: dict[str, float] = {}
    for name, file in {**TUNED, **HELD_OUT}.items():
        if page.quick and name not in TUNED:
            continue
        markers = read_markers(page.data / file)
        found, take = compare(markers)
        rows = [
            [one.joint, *one.motion, one.doubt or round(one.sure, 1), None if one.doubt else one.off] for one in found
        ]
        page.table(
            f"{name}: {len(markers)} frames{', tuned on' if name in TUNED else ''}",
            ["joint", "motion [deg]", "across [deg]", "certain to [mm]", "off the reference [mm]"],
            rows,
        )
        worst |= {f"{name} {one.joint}": one.off for one in found if not one.doubt}
        if "LFEO" in markers.names:
            page.table(
                f"{name}: mean distance from the centres that Plug-in Gait wrote into the file",
                ["joint", "left [mm]", "right [mm]"],
                modelled(markers, take),
            )
    within = sum(off <= LIMIT for off in worst.values())
    page.text(f"Within {LIMIT:g} mm: {within} of {len(worst)} centres that moved enough to be judged.")
    page.value("off_mm", worst)
