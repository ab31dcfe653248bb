"""Calibration of an actor from a generic figure: attaches markers to bones and chooses the frames to fit."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from posable.errors import PosableError, PosableWarning, unknown
from posable.formats.conventions import markers_with_up, unit_hint
from posable.mocap.actor_fit import Calibration, Fit
from posable.mocap.gaps import fill_short, noise_of, short_gap, stretches
from posable.mocap.marker_sets import are_keypoints, base_name, guess, is_virtual, place_name, placement_of
from posable.mocap.pelvis import Hips, find_hips
from posable.mocap.recognise import (
    Displaced,
    Places,
    fallen_off,
    find_displaced,
    mislabelled,
    mislabelled_note,
    recognised,
    strays,
    suspect,
)
from posable.mocap.root_align import (
    ASTRAY,
    LOOSENED,
    free_root_note,
    with_free_root,
    with_room,
)
from posable.mocap.screen import screen
from posable.mocap.verdict import STILL, lies, plan_of, unrecognised, wrong_size
from posable.model.body_plan import BodyPlan, body_plan
from posable.model.kinematics import forward
from posable.model.motion import Markers, markers_for
from posable.model.skeleton import Skeleton

FRAMES = 64  # used for the fit
DOUBTFUL = 0.1  # fraction of frames with a marker rejected above which it is reported
HOPELESS = 0.5  # above which it is not a marker of the actor
BADLY = "badly filled, or another marker?"
MOST_SCALE = 20.0  # of the actor relative to the figure; beyond, the unit of the markers is wrong
KNOWN = 4  # markers with known bones; with fewer, all are inferred from rigidity
RESETTLINGS = 2  # times that poses are solved from scratch during the fit
RECOGNITIONS = 4  # rounds of recognising markers without labels
CLOSE = 0.09  # [m] distance from its usual place within which a marker is recognised with certainty
WORSE = 1.5  # times the marker error at which names do not fit
REGROUPINGS = 3  # rounds of reattaching inferred markers
CONSIDERED = 20000  # frames of a long take that are examined
MOVING = 800  # frames from which functional centres are found
CHECKED = 32  # held-out frames on which the fit is evaluated
MISSED = 0.01  # [m] mean marker error in them that is reported
OVERFITTED = 2.0  # ratio to the error of the fitted frames that it must exceed
LIMBS = tuple(f"{role}.{side}" for role in ("hip", "knee", "shoulder", "elbow") for side in "LR")
SWEPT = 0.08  # [rad] that the joints of limbs move, below which an actor stands still
NOISY = 0.001  # [m] standard deviation of a marker's noise above which its path is smoothed first
WITHIN = 0.1  # [s] half width of that smoothing; it grows with the noise
SHOWS = 0.75  # fraction of the usual number of markers that a chosen frame must show
CANDIDATES = 400  # frames among which those for the fit are chosen


def calibrate(
    skeleton: Skeleton,
    markers: Markers,
    attachments: Mapping[str, Any] | None = None,
    frames: Iterable[int] | None = None,
    *,
    symmetric: bool = False,
    lengths: bool = True,
    roles: Mapping[str, str] | None = None,
    limits: bool = True,
) -> Skeleton:
    """Return the actor: the figure with the bone lengths of the person in the take, and a site for every marker.

    A figure with a fixed root, as robots in files have it, gets a free root, with a warning, if the markers require it.
    `print(actor.info["calibration"])` shows the quality of the fit.

    Args:
        skeleton: The generic figure.
        markers: A take in which the actor moves every joint.
        attachments: {marker: joint} or {marker: (joint, offset (3,) [m])}. Other markers are attached by sites of the
            same name, by the names of common sets (Plug-in Gait, HDM05, CMU), or else to the bone on which they move
            least.
        frames: The frames to use; by default those with the most different poses.
        symmetric: Whether left and right bones have the same length.
        lengths: Whether bone lengths are fitted, or only the offsets of markers.
        roles: {role: joint} for figures whose joint names are ambiguous.
        limits: Whether joint limits hold.

    Returns:
        The actor.

    Raises:
        PosableError: There are no frames, too few markers, or the markers are not in metres.
    """
    if not len(markers_for("calibrate", markers)):
        raise PosableError("calibrate: expected a take with frames, got none")
    if not markers.names:
        raise PosableError("calibrate: expected a take with markers, got none")
    chosen = None if frames is None else list(frames)
    skeleton = with_room(skeleton, markers)

    def fitted(figure: Skeleton) -> Skeleton:
        return _calibrate(figure, markers, attachments, chosen, symmetric, lengths, roles, limits)

    actor = _judged(fitted(skeleton), skeleton, markers)
    if skeleton.free_root is not None or actor.info["calibration"].after < ASTRAY:
        return actor
    loose = fitted(with_free_root(skeleton))
    if loose.info["calibration"].after > LOOSENED * actor.info["calibration"].after:
        return actor
    warnings.warn(f"calibrate: {free_root_note(loose)}", PosableWarning, stacklevel=2)
    return loose


def _judged(actor: Skeleton, generic: Skeleton, markers: Markers) -> Skeleton:
    """Return the actor; warn if its proportions are implausible, and keep the warning in its calibration."""
    found: Calibration = actor.info["calibration"]
    said = [wrong_size(actor, markers, generic), lies(actor, actor.info["calibration_poses"], markers)]
    said = [text for text in said if text]
    doubts = [text for text in [unrecognised(found)] if text]
    for text in (*said, *doubts):
        warnings.warn(f"calibrate: {text}", PosableWarning, stacklevel=3)
    return actor.replace(info={**actor.info, "calibration": replace(found, notes=(*said, *found.notes, *doubts))})


def _calibrate(skeleton, markers, attachments, frames, symmetric, lengths, roles, limits) -> Skeleton:
    names = list(dict.fromkeys(base_name(name) for name in markers.names if not is_virtual(name)))
    if not names:
        given = ", ".join(markers.names[:4])
        raise PosableError(f"calibrate: expected markers, got only points that a model computed ({given}, ...)")
    columns = [next(i for i, name in enumerate(markers.names) if base_name(name) == wanted) for wanted in names]
    rows = np.unique(np.linspace(0, len(markers) - 1, min(CONSIDERED, len(markers))).astype(int))
    places = _places(skeleton, markers, rows, columns)
    attached, strangers = _attach(skeleton, names, attachments, roles)
    options = (symmetric, lengths, roles, limits)
    if len(attached) < KNOWN:
        attached, strangers = _infer(skeleton, names, places, attached, roles)
        take = _Take(markers, names, columns, rows, places, ())
        fit, actor = _fitted(skeleton, take, attached, strangers, frames, True, *options)
        return _recognise(skeleton, take, fit, actor, frames, options)
    said = ()
    wrong = [] if attachments else mislabelled(skeleton, names, places, roles)
    if wrong:
        order = list(range(len(names)))
        for marker, other in wrong:
            order[other] = marker
        columns, places = [columns[i] for i in order], places[:, order]
        said = (mislabelled_note(names, wrong),)
    noise = noise_of(markers.positions)
    astray = [] if attachments else [names[k] for k in strays(skeleton, names, places, float(np.median(noise)), roles)]
    if astray:
        said += (f"not used: {', '.join(astray)}; keeps its distance to no marker near it",)
        attached = {name: place for name, place in attached.items() if name not in astray}
    take = _Take(markers, names, columns, rows, places, said, tuple(astray))
    return _fitted(skeleton, take, attached, strangers, frames, False, *options)[1]


class _Take(NamedTuple):
    """The markers to fit, by name, each with its column in the take.

    Attributes:
        rows: (T,) Frames that are considered.
        places: (T, M, 3) [m] There, in the figure's axes.
        said: Corrections of the labels, in words.
        astray: Names of markers that are not the actor's.
    """

    markers: Markers
    names: list[str]
    columns: list[int]
    rows: np.ndarray
    places: np.ndarray
    said: tuple[str, ...]
    astray: tuple[str, ...] = ()

    def without(self, displaced: list[Displaced]) -> _Take:
        """Return the take without markers while they are displaced on their bones."""
        places = self.places.copy()
        for marker, start, end, _ in displaced:
            places[start:end, self.names.index(marker)] = np.nan
        return self._replace(places=places, said=(*self.said, *(str(stretch) for stretch in displaced)))


def _recognise(skeleton: Skeleton, take: _Take, fit: Fit, actor: Skeleton, frames, options) -> Skeleton:
    """Return the actor of markers without labels, calibrated with the labels of the places where they were found.

    Rigidity alone puts each marker near its place. With its label, the calibration also uses how the marker relates to
    joints, which is more accurate.
    """
    places = Places(skeleton, options[2])
    given: dict[int, str] = {}
    stable, off = 0.0, np.zeros(0)
    best = actor
    for _ in range(RECOGNITIONS):
        found, off = recognised(places, forward(fit.figure(), fit.poses), fit.scale, take.places[fit.rows])
        stable = np.mean([found.get(k) == given.get(k) and off[k] < CLOSE for k in range(len(take.names))])
        if found == given or len(found) < KNOWN:
            break
        names = [found.get(k, f"unknown {k}") for k in range(len(take.names))]
        attached, strangers = _attach(skeleton, names, None, options[2])
        named = take._replace(names=names)
        fit, actor = _fitted(skeleton, named, attached, strangers, frames, False, *options)
        if actor.info["calibration"].after > WORSE * best.info["calibration"].after:
            stable = 0.0  # these are not the places of that set
            break
        given, best = found, _renamed(actor, dict(zip(names, take.names, strict=True)))
    calibration: Calibration = best.info["calibration"]
    shown = ", ".join(f"{take.names[k]} is {place}" for k, place in list(given.items())[:4])
    how = (
        f"{shown}, ...; {1e3 * float(np.nanmedian(off)):.0f} mm from their usual positions" if given else "bones alone"
    )
    note = (
        f"unknown labels: {len(given)} of {len(take.names)} markers were recognised by their motion ({how}); "
        f"confidence {stable:.0%}"
    )
    found = replace(calibration, notes=(note, *calibration.notes), recognised=float(stable))
    return best.replace(info={**best.info, "calibration": found})


def _renamed(actor: Skeleton, names: Mapping[str, str]) -> Skeleton:
    """Return an actor whose markers have other names {old: new}."""
    found: Calibration = actor.info["calibration"]
    taken = set(names.values())  # also by sites of the generic figure
    sites = [
        replace(site, name=names.get(site.name, site.name))
        for site in actor.sites
        if site.name in names or site.name not in taken
    ]
    markers = {names.get(name, name): value for name, value in found.markers.items()}
    left_out = tuple(names.get(name, name) for name in found.left_out)
    return actor.replace(
        sites=sites, info={**actor.info, "calibration": replace(found, markers=markers, left_out=left_out)}
    )


def _fitted(
    skeleton, take: _Take, attached, strangers, frames, inferred, symmetric, lengths, roles, limits
) -> tuple[Fit, Skeleton]:
    """Return the fit of a figure to markers that are attached to bones, and the actor."""
    markers, names, columns, rows, places, said, astray = take
    known = [names.index(name) for name in attached]
    if frames is None:
        chosen = _choose(places[:, known])
    else:
        rows = _given(frames, len(markers))
        places, chosen = _places(skeleton, markers, rows, columns), np.arange(len(rows))
    sample = places[_spread(len(places))][:, known]
    paths = dict(zip(attached, np.moveaxis(sample, 1, 0), strict=True))
    centers, hips = ({}, None) if inferred else _anatomy(skeleton, attached, roles, paths)
    fit = Fit(skeleton, attached, places[np.ix_(chosen, np.array(known))], symmetric, lengths, limits, centers, hips)
    fit.dropped += astray
    shown = np.isfinite(fit.places[..., 0])
    if not 1.0 / MOST_SCALE < fit.scale < MOST_SCALE:
        plan = plan_of(skeleton)
        hint = unit_hint(fit.scale * plan.stature, markers.unit) if plan is not None else "state it with unit="
        raise PosableError(
            f"calibrate: expected markers in metres, got an actor {fit.scale:.3g} times the figure: are they in "
            f"millimetres or centimetres? {hint}"
        )
    before = fit.settle()
    steps = fit.run()
    for _ in range(RESETTLINGS):
        if not fit.resettle():
            break
        steps += fit.run()
    for _ in range(REGROUPINGS if inferred else 1):
        if inferred:
            fit.believe()
        if not fit.reattach():
            break
        steps += fit.run()
    elsewhere = _displaced(fit, take, chosen) if frames is None and len(rows) == len(markers) else []
    options = (symmetric, lengths, roles, limits)
    if elsewhere:
        return _fitted(skeleton, take.without(elsewhere), attached, strangers, frames, inferred, *options)
    fit.trim()
    steps += fit.run()
    rejected = _rejected(fit, shown)
    hopeless = fit.dispensable([name for name, share in rejected.items() if share > HOPELESS])
    if hopeless:  # they have pulled the fit, and made samples beside them look wrong
        note = f"not used, out of place in most of the chosen frames: {_shares(rejected, hopeless)}; {BADLY}"
        without = take._replace(said=(*said, note), astray=(*astray, *hopeless))
        attached = {name: place for name, place in attached.items() if name not in hopeless}
        return _fitted(skeleton, without, attached, strangers, frames, inferred, *options)
    names_before, left_out = list(fit.names), list(astray)
    for name in strangers:
        if name.startswith("*"):  # an unlabelled trajectory of a C3D file
            left_out.append(name)
            continue
        track = places[chosen, names.index(name)]
        if not fit.adopt(name, track):
            left_out.append(name)
    if fit.names != names_before:
        steps += fit.run()
    held_out = _held_out(fit, places[:, [names.index(name) for name in fit.names]], chosen)
    notes = (*screen(markers).doubts, *said, *screen(markers).notes)
    if rejected:
        shares = _shares(rejected, rejected)
        notes += (f"out of place in some of the chosen frames and ignored there: {shares}; {BADLY}",)
    if held_out > max(MISSED, OVERFITTED * float(np.nanmean(fit.errors()))):
        notes += (
            f"held-out frames have a mean marker error of {held_out * 1e3:.0f} mm: calibrate on a take in which every "
            "joint moves",
        )
    if _stands_still(fit, roles):
        notes += (STILL,)
    used = tuple(int(frame) for frame in rows[chosen])
    fit.rows = chosen
    return fit, fit.actor(before, steps, tuple(left_out), used, notes, held_out)


def _stands_still(fit: Fit, roles: Mapping[str, str] | None) -> bool:
    """Return whether hardly any joint of a limb moves in the frames of the fit."""
    try:
        plan = body_plan(fit.generic, roles)
    except PosableError:
        return False
    limbs = [plan[role] for role in LIMBS if role in plan and plan[role] in fit.joints]
    swept = [np.ptp(fit.poses[:, fit.generic.index(joint)], axis=0).max(initial=0.0) for joint in limbs]
    return bool(swept) and float(np.median(swept)) < SWEPT


def _held_out(fit: Fit, places: np.ndarray, chosen: np.ndarray) -> float:
    """Return the mean marker error [m] over frames of places (T, M, 3) that were not chosen for the fit."""
    others = np.setdiff1d(np.arange(len(places)), chosen)
    if not len(others):
        return float("nan")
    others = others[np.linspace(0, len(others) - 1, min(CHECKED, len(others))).astype(int)]
    nearest = np.abs(others[:, None] - chosen[None]).argmin(axis=1)
    return fit.check(places[others], nearest)


def _anatomy(
    skeleton: Skeleton,
    attached: Mapping[str, tuple[str, np.ndarray]],
    roles: Mapping[str, str] | None,
    paths: Mapping[str, np.ndarray],
) -> tuple[dict[str, str], Hips | None]:
    """Return what the common marker sets imply about joints: {marker: joint level with it}, and the hips."""
    try:
        plan = body_plan(skeleton, roles)
    except PosableError:
        return {}, None
    out = {}
    for name in attached:
        found = placement_of(name)
        role = f"{found[0].center}.{found[1]}" if found is not None and found[0].center else ""
        if role in plan:
            out[name] = plan[role]
    return out, find_hips(plan, {name: joint for name, (joint, _) in attached.items()}, paths)


def _displaced(fit: Fit, take: _Take, chosen: np.ndarray) -> list[Displaced]:
    """Return the stretches in which markers are displaced on their bones."""
    columns, fps, jumps = (
        [take.names.index(name) for name in fit.names],
        take.markers.fps,
        screen(take.markers).believed,
    )
    stays = [
        stretches(np.isfinite(take.places[:, column, 0]), jumps.get(name, ()), fps)
        for name, column in zip(fit.names, columns, strict=True)
    ]

    def look(frames: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        places = take.places[frames][:, columns]
        return places, fit.solved(places, np.abs(frames[:, None] - chosen[None]).argmin(axis=1))[0]

    errors = fit.errors()
    out: list[Displaced] = []
    for i, parts in enumerate(stays):
        if len(parts) > 1 and suspect(errors[:, i]):
            out += find_displaced(fit.figure(), fit.names, i, parts, look, None, limits=fit.limits, fps=fps)
    return fallen_off(out, fit.figure(), fit.names)


def _spread(total: int) -> np.ndarray:
    """Return frames spread over a take from which functional centres are found."""
    return np.unique(np.linspace(0, total - 1, min(MOVING, total)).astype(int))


def _rejected(fit: Fit, shown: np.ndarray) -> dict[str, float]:
    """Return {marker: fraction of the chosen frames that show it in which it was rejected}, of the doubtful markers."""
    gone = (shown & ~np.isfinite(fit.places[..., 0])).sum(axis=0) / np.maximum(shown.sum(axis=0), 1)
    return {fit.names[k]: float(gone[k]) for k in np.argsort(-gone) if gone[k] > DOUBTFUL}


def _shares(rejected: Mapping[str, float], names: Iterable[str]) -> str:
    return ", ".join(f"{name} in {rejected[name]:.0%}" for name in names)


def _attach(
    skeleton: Skeleton, names: list[str], given: Mapping[str, Any] | None, roles: Mapping[str, str] | None
) -> tuple[dict[str, tuple[str, np.ndarray]], list[str]]:
    """Return {marker: (joint, offset (3,) [m])}, and the markers whose bone is unknown."""
    wanted = {base_name(name): value for name, value in (given or {}).items()}
    for name, value in wanted.items():
        if name not in names:
            raise unknown("marker", name, names)
        skeleton.index(value if isinstance(value, str) else value[0])
    plan: BodyPlan | None = None
    out: dict[str, tuple[str, np.ndarray]] = {}
    strangers: list[str] = []
    sites = {site.name: site for site in skeleton.sites}
    rest = forward(skeleton, skeleton.rest)
    keypoints = are_keypoints(names)
    for name in names:
        value = wanted.get(name)
        if value is not None and not isinstance(value, str):
            out[name] = (value[0], np.asarray(value[1], dtype=float))
            continue
        site = sites.get(name) or (None if keypoints else sites.get(place_name(name)))
        if value is None and site is not None:
            out[name] = (site.joint, np.asarray(site.offset, dtype=float))
            continue
        try:
            plan = plan or body_plan(skeleton, roles)
            place = guess(plan, name, keypoints=keypoints)
        except PosableError:
            if not given:
                raise
            place = None
        if place is not None:
            joint = value or place[0]
            out[name] = (joint, rest.convert(place[1], to=joint))
        elif value is not None:
            out[name] = (value, np.zeros(3))
        else:
            strangers.append(name)
    return out, strangers


def _infer(
    skeleton: Skeleton,
    names: list[str],
    places: np.ndarray,
    known: dict[str, tuple[str, np.ndarray]],
    roles: Mapping[str, str] | None,
) -> tuple[dict[str, tuple[str, np.ndarray]], list[str]]:
    """Return {marker: (joint, offset (3,) [m])} inferred from rigidity, and the markers that fit no bone."""
    from posable.mocap.autolabel import infer_attachments

    try:
        found = infer_attachments(body_plan(skeleton, roles), places)
    except PosableError as error:
        raise PosableError(
            "calibrate: expected markers whose bones are known by name, given in attachments={marker: joint}, or "
            f"evident from their motion; got {', '.join(names[:12])}{' ...' if len(names) > 12 else ''}; {error}"
        ) from error
    attached = {names[k]: place for k, place in sorted(found.items())} | known
    return attached, [name for name in names if name not in attached]


def _places(skeleton: Skeleton, markers: Markers, rows: np.ndarray, columns: list[int]) -> np.ndarray:
    """Return positions (T, M, 3) [m] of some frames and markers in the figure's axes, without copying a long take."""
    part = Markers(
        tuple(markers.names[k] for k in columns),
        _without_noise(markers, rows, columns),
        markers.fps,
        markers.up,
    )
    return markers_with_up(part, skeleton.up).positions


def _without_noise(markers: Markers, rows: np.ndarray, columns: list[int]) -> np.ndarray:
    """Return positions (T, M, 3) [m] of some frames and markers; those of noisy markers are on cubics fitted nearby.

    Short gaps are filled where all frames are asked for, so that markers which flicker do not change the fit.

    The mean square error of a cubic fitted to frames within w is the sum of a bias, proportional to w^8, and of the
    noise, s^2 / w. It is smallest if w grows as s^(2/9).
    """
    screening = screen(markers)
    out = screening.pick(markers.positions, rows)[:, columns]
    noise = noise_of(markers.positions)[columns]
    if len(rows) == len(markers):
        fill_short(out, short_gap(markers.fps), noise)
    noisy = np.flatnonzero(noise > NOISY)
    if not len(noisy):
        return out
    reach = round(0.5 * WITHIN * markers.fps * (float(np.median(noise[noisy])) / NOISY) ** (2.0 / 9.0))
    inner = np.flatnonzero((rows >= reach) & (rows < len(markers) - reach))
    if reach < 2 or not len(inner):
        return out
    those = [columns[k] for k in noisy]
    path = np.zeros((len(inner), len(those), 3))
    for shift in range(-reach, reach + 1):
        weight = 3.0 * (3 * reach * (reach + 1) - 1 - 5 * shift**2)  # Savitzky & Golay (1964)
        weight /= (2 * reach - 1) * (2 * reach + 1) * (2 * reach + 3)
        path += weight * screening.pick(markers.positions, rows[inner] + shift)[:, those]
    grid = np.ix_(inner, noisy)
    out[grid] = np.where(np.isfinite(path), path, out[grid])
    return out


def _given(frames: Iterable[int], total: int) -> np.ndarray:
    """Return the frames given by the caller."""
    rows = np.array(sorted({int(frame) for frame in frames}), dtype=int)
    if not len(rows) or rows[0] < 0 or rows[-1] >= total:
        raise PosableError(f"calibrate: expected frames from 0 to {total - 1}, got {list(rows[:5])}")
    return rows


def _choose(places: np.ndarray) -> np.ndarray:
    """Return the frames to use: half evenly spaced, half with the most different poses."""
    seen = np.isfinite(places).all(axis=-1)
    enough = seen.sum(axis=1) >= max(4, SHOWS * np.quantile(seen.sum(axis=1), 0.5))
    candidates = np.flatnonzero(enough)
    if not len(candidates):
        raise PosableError("calibrate: expected frames that show at least 4 markers, got none")
    candidates = candidates[np.linspace(0, len(candidates) - 1, min(CANDIDATES, len(candidates))).astype(int)]
    shape = _without_gaps(places, candidates)
    shape = (shape - shape.mean(axis=1, keepdims=True)).reshape(len(candidates), -1)
    count = min(FRAMES, len(candidates))
    picked = list(np.linspace(0, len(candidates) - 1, max(1, count // 2)).astype(int))  # evenly spaced
    far = np.min([np.linalg.norm(shape - shape[k], axis=1) for k in picked], axis=0)
    while len(picked) < count:
        picked.append(int(np.argmax(far)))
        far = np.minimum(far, np.linalg.norm(shape - shape[picked[-1]], axis=1))
    return np.sort(candidates[np.unique(picked)])


def _without_gaps(places: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return some frames (t, M, 3) [m] of places (T, M, 3), on straight lines where a marker is not seen.

    Markers that are never seen are left out: occasional gaps of a marker must not make a pose look unusual.
    """
    out = places[rows]
    seen = np.isfinite(out[..., 0])
    for k in np.flatnonzero(~seen.all(axis=0) & seen.any(axis=0)):
        known = np.flatnonzero(np.isfinite(places[:, k, 0]))
        out[:, k] = np.stack([np.interp(rows, known, places[known, k, x]) for x in range(3)], axis=-1)
    return out[:, np.isfinite(out[..., 0]).all(axis=0)]
