"""An actor from a generic figure: marker offsets and bone lengths fitted together over chosen frames of a take.

Variable projection: for given offsets and lengths the poses are solved to their end by the compiled walk, limits held;
then one Gauss-Newton step over offsets and lengths, with the poses eliminated from the normal equations (their Schur
complement), so that a step knows how the poses will answer. A handful of steps is enough.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from posable.errors import PosableError, PosableWarning, unknown
from posable.formats.axes import markers_with_up
from posable.kinematics import forward
from posable.motion import Markers
from posable.skeleton import Skeleton
from posable.tracking.bodyplan import BodyPlan, body_plan
from posable.tracking.fitting import Fit
from posable.tracking.markersets import base_name, guess
from posable.tracking.roots import ASTRAY, LOOSENED, free_joint, with_free_root, words_of_loosening
from posable.tracking.sources import markers_for
from posable.tracking.unnamed import infer_attachments

FRAMES = 64  # chosen from a take
MOST_SCALE = 20.0  # of an actor to the figure, or the markers' unit is another
KNOWN = 4  # markers of known bones, or all are found from rigidity
RESETTLINGS = 2  # of the poses, with what is fitted by then
REGROUPINGS = 3  # after which markers found from rigidity are looked at again
CONSIDERED = 20000  # frames of a long take that are looked at
CANDIDATES = 400  # frames among which they are chosen


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
    """Return the actor: the figure with the lengths of the person in the take, and a site for every marker.

    attachments: {marker: joint} or {marker: (joint, offset (3,) [m])}; what it leaves open comes from the sites of
    the same name, from the names of the usual sets (Plug-in Gait, HDM05, CMU), or, for other names, from the bone on
    which the marker moves least. frames: which to use; by default those with the most different poses.
    symmetric: left and right bones keep one length. lengths=False fits the offsets alone. roles {role: joint} helps
    where a figure's names say too little. A figure that is bolted down, as robots in files are, is let loose, with a
    warning, where the markers ask for it. `print(actor.info["calibration"])` tells how it went.
    """
    if not len(markers_for("calibrate", markers)):
        raise PosableError("calibrate: expected a take with frames, got none")
    chosen = None if frames is None else list(frames)

    def fitted(figure: Skeleton) -> Skeleton:
        return _calibrate(figure, markers, attachments, chosen, symmetric, lengths, roles, limits)

    actor = fitted(skeleton)
    if free_joint(skeleton) is not None or actor.info["calibration"].after < ASTRAY:
        return actor
    loose = fitted(with_free_root(skeleton))
    if loose.info["calibration"].after > LOOSENED * actor.info["calibration"].after:
        return actor
    warnings.warn(f"calibrate: {words_of_loosening(loose)}", PosableWarning, stacklevel=2)
    return loose


def _calibrate(skeleton, markers, attachments, frames, symmetric, lengths, roles, limits) -> Skeleton:
    names = list(dict.fromkeys(base_name(name) for name in markers.names))
    columns = [next(i for i, name in enumerate(markers.names) if base_name(name) == wanted) for wanted in names]
    rows = np.unique(np.linspace(0, len(markers) - 1, min(CONSIDERED, len(markers))).astype(int))
    places = _places(skeleton, markers, rows, columns)
    attached, strangers = _attach(skeleton, names, attachments, roles)
    inferred = len(attached) < KNOWN
    if inferred:
        attached, strangers = _infer(skeleton, names, places, attached, roles)
    known = [names.index(name) for name in attached]
    if frames is None:
        chosen = _choose(places[:, known])
    else:
        rows = _given(frames, len(markers))
        places, chosen = _places(skeleton, markers, rows, columns), np.arange(len(rows))
    fit = Fit(skeleton, attached, places[np.ix_(chosen, np.array(known))], symmetric, lengths, limits)
    if not 1.0 / MOST_SCALE < fit.scale < MOST_SCALE:
        raise PosableError(
            f"calibrate: expected markers in metres, got an actor {fit.scale:.3g} times the figure: "
            "are they in millimetres or centimetres? ps.load(file, unit=...) reads a file whose unit is not stated"
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
    left_out = []
    for name in strangers:
        if name.startswith("*"):  # what C3D files call a trajectory that nobody has labelled
            left_out.append(name)
            continue
        track = places[chosen, names.index(name)]
        if not fit.adopt(name, track):
            left_out.append(name)
    if len(fit.names) > len(attached):
        steps += fit.run()
    return fit.actor(before, steps, tuple(left_out), tuple(int(frame) for frame in rows[chosen]))


def _attach(
    skeleton: Skeleton, names: list[str], given: Mapping[str, Any] | None, roles: Mapping[str, str] | None
) -> tuple[dict[str, tuple[str, np.ndarray]], list[str]]:
    """Return {marker: (joint, offset (3,))}, and the markers whose bone is not known."""
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
    for name in names:
        value = wanted.get(name)
        if value is not None and not isinstance(value, str):
            out[name] = (value[0], np.asarray(value[1], dtype=float))
            continue
        if value is None and name in sites:
            out[name] = (sites[name].joint, np.asarray(sites[name].offset, dtype=float))
            continue
        try:
            plan = plan or body_plan(skeleton, roles)
            place = guess(plan, name)
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
    """Return {marker: (joint, offset (3,))} from rigidity over the take, and the markers that hang on nothing."""
    try:
        found = infer_attachments(body_plan(skeleton, roles), places)
    except PosableError as error:
        raise PosableError(
            "calibrate: expected markers whose bones are known by name, given in attachments={marker: joint}, or plain "
            f"from how they move; got {', '.join(names[:12])}{' ...' if len(names) > 12 else ''}; {error}"
        ) from error
    attached = {names[k]: place for k, place in sorted(found.items())} | known
    return attached, [name for name in names if name not in attached]


def _places(skeleton: Skeleton, markers: Markers, rows: np.ndarray, columns: list[int]) -> np.ndarray:
    """Return the places (T, M, 3) [m] of some frames and markers in the figure's axes; of an hour never all of it."""
    part = Markers(
        tuple(markers.names[k] for k in columns),
        markers.positions[np.ix_(rows, np.array(columns, dtype=int))],
        markers.fps,
        markers.up,
    )
    return markers_with_up(part, skeleton.up).positions


def _given(frames: Iterable[int], total: int) -> np.ndarray:
    """Return the frames that the caller wants used."""
    rows = np.array(sorted({int(frame) for frame in frames}), dtype=int)
    if not len(rows) or rows[0] < 0 or rows[-1] >= total:
        raise PosableError(f"calibrate: expected frames from 0 to {total - 1}, got {list(rows[:5])}")
    return rows


def _choose(places: np.ndarray) -> np.ndarray:
    """Return the frames to use: half as they come and half the most different ones."""
    seen = np.isfinite(places).all(axis=-1)
    enough = seen.sum(axis=1) >= max(4, np.quantile(seen.sum(axis=1), 0.5))
    candidates = np.flatnonzero(enough)
    if not len(candidates):
        raise PosableError("calibrate: expected frames that show at least 4 markers, got none")
    candidates = candidates[np.linspace(0, len(candidates) - 1, min(CANDIDATES, len(candidates))).astype(int)]
    shape = places[candidates]
    shape = shape - np.nanmean(shape, axis=1, keepdims=True)
    shape = np.where(np.isfinite(shape), shape, 0.0).reshape(len(candidates), -1)
    count = min(FRAMES, len(candidates))
    picked = list(np.linspace(0, len(candidates) - 1, max(1, count // 2)).astype(int))  # half as they come
    far = np.min([np.linalg.norm(shape - shape[k], axis=1) for k in picked], axis=0)
    while len(picked) < count:
        picked.append(int(np.argmax(far)))
        far = np.minimum(far, np.linalg.norm(shape - shape[picked[-1]], axis=1))
    return np.sort(candidates[np.unique(picked)])
