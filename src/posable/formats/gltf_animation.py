"""The animations of a glTF file: keyframes per node and path, sampled at a steady rate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from posable.formats.gltf_container import Container
from posable.formats.source import Source, shown

Floats = NDArray[np.float64]
DEFAULT_FPS = 30.0
_LEAST_FPS = 24.0
_WIDTHS = {"translation": ("VEC3",), "rotation": ("VEC4",), "scale": ("VEC3",), "weights": ("SCALAR",)}
_MOST_NUMBERS = 200_000  # that a few keyframes of a small file may be sampled to


@dataclass
class Track:
    """What one channel does to one node: `values` (K, w) at `times` (K,) [s], with tangents if it is a cubic spline."""

    node: int
    path: str
    times: Floats
    values: Floats
    interpolation: str
    tangents: tuple[Floats, Floats] | None = None  # arriving, leaving

    def sample(self, when: Floats) -> Floats:
        """Return the values (T, w) at `when` (T,) [s]; rotations as unit quaternions xyzw."""
        times, values = self.times, self.values
        if len(times) == 1:
            return np.repeat(values, len(when), axis=0)
        before = np.clip(np.searchsorted(times, when, side="right") - 1, 0, len(times) - 2)
        span = times[before + 1] - times[before]
        share = np.clip((when - times[before]) / span, 0.0, 1.0)[:, None]
        start, end = values[before], values[before + 1]
        if self.interpolation == "STEP":
            result = np.where(share >= 1.0, end, start)
        elif self.tangents is not None:
            arriving, leaving = self.tangents
            u, d = share, span[:, None]
            result = (
                (2 * u**3 - 3 * u**2 + 1) * start + d * (u**3 - 2 * u**2 + u) * leaving[before]
                + (3 * u**2 - 2 * u**3) * end + d * (u**3 - u**2) * arriving[before + 1]
            )  # fmt: skip
        elif self.path == "rotation":
            result = _slerp(start, end, share)
        else:
            result = start + share * (end - start)
        if self.path == "rotation":
            length = np.linalg.norm(result, axis=1, keepdims=True)
            result = np.where(length > 1e-9, result / np.maximum(length, 1e-300), [0.0, 0.0, 0.0, 1.0])
        return result


def _slerp(start: Floats, end: Floats, share: Floats) -> Floats:
    """Return unit quaternions on the shorter arc between `start` and `end`."""
    cosine = np.sum(start * end, axis=1, keepdims=True)
    end = np.where(cosine < 0, -end, end)
    angle = np.arccos(np.clip(np.abs(cosine), 0.0, 1.0))
    sine = np.sin(angle)
    close = sine < 1e-6
    safe = np.where(close, 1.0, sine)
    a = np.where(close, 1.0 - share, np.sin((1.0 - share) * angle) / safe)
    b = np.where(close, share, np.sin(share * angle) / safe)
    return a * start + b * end


@dataclass
class Animation:
    """An animation: its name, what it moves, and its frame rate if that is stated."""

    name: str
    tracks: list[Track]
    fps: float | None = None


def read_animation(container: Container, index: int) -> Animation:
    """Return an animation's name and its tracks."""
    entry = container.list("animations")[index]
    tracks = []
    for k, channel in enumerate(entry["channels"]):
        where = ("animations", index, "channels", k)
        target = channel["target"]
        if "node" not in target or target["path"] not in ("translation", "rotation", "scale"):
            if target["path"] not in _WIDTHS and "extensions" not in target:
                raise container.error((*where, "target", "path"), " or ".join(_WIDTHS), shown(target["path"]))
            continue
        container.item("nodes", target["node"], (*where, "target", "node"))
        if channel["sampler"] >= len(entry["samplers"]):
            raise container.error(
                (*where, "sampler"), f"an index into {len(entry['samplers'])} samplers", channel["sampler"]
            )
        place = ("animations", index, "samplers", channel["sampler"])
        tracks.append(_read_track(container, entry["samplers"][channel["sampler"]], place, target))
    return Animation(entry.get("name", ""), tracks, _stated_rate(entry))


def _stated_rate(entry: dict) -> float | None:
    """Return the frame rate that our own writer leaves in `extras`: a single keyframe does not tell it."""
    extras = entry.get("extras")
    fps = extras.get("fps") if isinstance(extras, dict) else None
    return float(fps) if isinstance(fps, int | float) and not isinstance(fps, bool) and 0 < fps < 1e6 else None


def _read_track(container: Container, sampler: dict, place: tuple, target: dict) -> Track:
    path, interpolation = target["path"], sampler.get("interpolation", "LINEAR")
    if interpolation not in ("LINEAR", "STEP", "CUBICSPLINE"):
        raise container.error((*place, "interpolation"), "LINEAR, STEP or CUBICSPLINE", shown(interpolation))
    times = container.accessor(sampler["input"], (*place, "input"), kinds=("SCALAR",))[:, 0]
    values = container.accessor(sampler["output"], (*place, "output"), kinds=_WIDTHS[path])
    if not np.all(np.diff(times) > 0) or times[0] < 0 or times[-1] > 1e9:
        raise container.error((*place, "input"), "times that increase from 0", "times that do not")
    tangents = None
    keys = len(times) * (3 if interpolation == "CUBICSPLINE" else 1)
    if len(values) != keys:
        raise container.error((*place, "output"), f"{keys} values", len(values))
    if interpolation == "CUBICSPLINE":
        triples = values.reshape(len(times), 3, -1)
        tangents, values = (triples[:, 0], triples[:, 2]), triples[:, 1]
    if path == "rotation":
        length = np.linalg.norm(values, axis=1, keepdims=True)
        if not np.all(length > 1e-6):
            raise container.error((*place, "output"), "quaternions that are not zero", "a zero")
        values = values / length if tangents is None else values
    return Track(target["node"], path, times, values, interpolation, tangents)


def frame_times(source: Source, tracks: list[Track], fps: float | None, width: int) -> tuple[Floats, float]:
    """Return the times to sample at, and their rate: the keyframes' own where they are evenly spaced."""
    times = np.unique(np.concatenate([track.times for track in tracks]))
    start, length = times[0], times[-1] - times[0]
    keys = len(times)
    rate = fps
    if rate is None:
        rate = _own_rate(times) or DEFAULT_FPS
        rate *= np.ceil(_LEAST_FPS / rate)  # a few keyframes far apart: frames between them, and still one on each
    most = max(keys * 2, max(_MOST_NUMBERS, 4 * len(source.data)) // width, 2)
    if length * rate > most:
        rate = most / length
        source.warn(f"an animation of {length:g} s was sampled at {rate:g} frames a second, to keep it small")
    count = int(np.floor(length * rate + 1e-3)) + 1
    return start + np.arange(count) / rate, rate


def _own_rate(times: Floats) -> float | None:
    """Return the rate at which all keyframes fall on frames: that of the closest two, if every other gap fits it."""
    if len(times) < 2:
        return None
    gaps = np.diff(times)
    frames = gaps / gaps.min()
    if gaps.min() <= 0 or np.abs(frames - np.round(frames)).max() > 0.02 * max(1.0, 1e-5 / gaps.min()):
        return None
    rate = float(np.sum(np.round(frames)) / (times[-1] - times[0]))
    whole = round(rate)
    return float(whole) if whole and abs(rate - whole) < 1e-3 * whole else rate
