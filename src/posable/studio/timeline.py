"""Time: a take, a layer of keys over it, and the current frame. There is no clock in this module.

The layer is an edit of the take: at the frame of a key the figure has the pose of the key, and around it the change
blends into the take. Without a take, the keys are the motion. `at` shows exactly what `motion` exports.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import posable as ps

LONGEST, FASTEST = 1_000_000, 1000.0  # largest number of frames, highest frame rate
EASINGS = ("smooth", "linear", "stepped")
Keys = dict[int, np.ndarray]


@dataclass(frozen=True, eq=False)
class Timeline:
    """What can be played, at `fps`, and the current frame.

    Attributes:
        take: The motion that was loaded, or None.
        keys: Poses (n,) by frame: a layer over the take, or the whole motion where there is no take.
        drafts: Poses (n,) by frame that were edited while auto-key was off: each affects only its own frame.
        length: Number of frames if there is no take.
        fade: Frames over which a key's change fades into the take.
        easing: How keys without a take are blended.
    """

    skeleton: ps.Skeleton
    take: ps.Motion | None = None
    markers: ps.Markers | None = None
    keys: Keys = field(default_factory=dict)
    drafts: Keys = field(default_factory=dict)
    fps: float = 30.0
    frame: float = 0.0
    length: int = 120
    playing: bool = False
    loop: bool = True
    onion: bool = False
    autokey: bool = True
    fade: int = 12
    easing: str = "smooth"

    @property
    def count(self) -> int:
        """The number of frames to scrub through."""
        if self.take is not None and len(self.take):
            return len(self.take)
        return max(self.length, max(self.keys, default=0) + 1)

    @property
    def last(self) -> int:
        """The frame at which playback ends."""
        return max(self.keys) if len(self.keys) > 1 and self.take is None else self.count - 1

    @property
    def shown(self) -> int:
        """The current frame, rounded."""
        return round(self.frame)

    @property
    def edited(self) -> ps.Motion | None:
        """The take with the layer of keys applied."""
        if self.take is None or not len(self.take):
            return None
        return _layered(self.take, self.keys, self.fade)

    def at(self, frame: float) -> np.ndarray | None:
        """Return the pose (n,) at a frame, or None if there is neither a take nor a key."""
        if frame == round(frame) and round(frame) in self.drafts:
            return self.drafts[round(frame)]
        edited = self.edited
        if edited is not None:
            return edited.at(frame / edited.fps)
        return self.between(frame) if self.keys else None

    def between(self, frame: float) -> np.ndarray:
        """Return the pose (n,) between the keys at a frame: slerp for balls, linear elsewhere, constant at the ends."""
        frames = sorted(self.keys)
        after = int(np.searchsorted(frames, frame, side="right"))
        if after in (0, len(frames)):
            return self.keys[frames[min(after, len(frames) - 1)]]
        a, b = frames[after - 1], frames[after]
        share = (frame - a) / (b - a)
        share = {"smooth": share * share * (3.0 - 2.0 * share), "linear": share, "stepped": 0.0}[self.easing]
        return ps.Motion(self.skeleton, np.stack([self.keys[a], self.keys[b]]), 1.0).at(share)

    def motion(self, pose: np.ndarray, name: str = "") -> ps.Motion:
        """Return the motion to export: every frame as shown, or the current pose."""
        edited = self.edited
        if edited is None and len(self.keys) < 2:
            return ps.Motion(self.skeleton, pose[None], self.fps, name)
        if edited is not None:
            poses = np.array(edited.poses)
        else:
            poses = np.stack([self.between(frame) for frame in range(self.last + 1)])
        for frame, draft in self.drafts.items():
            if frame < len(poses):
                poses[frame] = draft
        return ps.Motion(self.skeleton, poses, self.fps, name)

    def posed(self, pose: np.ndarray) -> Timeline:
        """Return a timeline with a pose edited at the current frame: a key, or a draft if auto-key is off."""
        drafts = {frame: draft for frame, draft in self.drafts.items() if frame != self.shown}
        if self.autokey:
            return replace(self, keys={**self.keys, self.shown: np.array(pose)}, drafts=drafts)
        return replace(self, drafts={**drafts, self.shown: np.array(pose)})

    def with_key(self, frame: int, pose: np.ndarray) -> Timeline:
        """Return a timeline with a key at a frame."""
        drafts = {at: draft for at, draft in self.drafts.items() if at != int(frame)}
        return replace(self, keys={**self.keys, int(frame): np.array(pose)}, drafts=drafts)

    def without_key(self, frame: int) -> Timeline:
        """Return a timeline without the key, or the draft, at a frame."""
        return replace(
            self,
            keys={at: pose for at, pose in self.keys.items() if at != int(frame)},
            drafts={at: pose for at, pose in self.drafts.items() if at != int(frame)},
        )

    def with_key_moved(self, frame: int, to: int) -> Timeline:
        """Return a timeline with a key moved to another frame; within a take, to one of its frames."""
        if frame not in self.keys or to < 0:
            return self
        to = min(int(to), self.count - 1) if self.take is not None else int(to)
        kept = {at: pose for at, pose in self.keys.items() if at != frame}
        return replace(self, keys={**kept, to: self.keys[frame]})

    def next_key(self, step: int) -> int:
        """Return the frame of the next key after the current frame, or with a negative step the previous one."""
        if step > 0:
            return min([k for k in self.keys if k > self.shown], default=self.shown)
        return max([k for k in self.keys if k < self.shown], default=self.shown)

    def reach(self) -> list[tuple[int, int]]:
        """Return the ranges of frames that the layer changes."""
        if self.take is None:
            return []
        ends: list[tuple[int, int]] = []
        for key in sorted(self.keys):
            low, high = max(key - self.fade, 0), min(key + self.fade, self.count - 1)
            if ends and low <= ends[-1][1] + 1:
                ends[-1] = (ends[-1][0], high)
            else:
                ends.append((low, high))
        return ends

    def advanced(self, seconds: float) -> Timeline:
        """Return the timeline after `seconds` of playback; at the end it loops or stops."""
        frame, last = self.frame + seconds * self.fps, self.last
        if frame <= last:
            return replace(self, frame=frame)
        if self.loop and last > 0:
            return replace(self, frame=frame % last)
        return replace(self, frame=float(last), playing=False)


_layers: OrderedDict[tuple[int, int, int], tuple[Any, Any, ps.Motion]] = OrderedDict()


def _layered(take: ps.Motion, keys: Keys, fade: int) -> ps.Motion:
    """Return a take with keys applied, cached: neither is ever changed in place."""
    if not keys:
        return take
    key = (id(take), id(keys), fade)
    if key not in _layers:
        within = {frame: pose for frame, pose in keys.items() if frame < len(take)}
        _layers[key] = (take, keys, take.layered(within, fade=fade))  # keeping both keeps their ids unique
        while len(_layers) > 4:
            _layers.popitem(last=False)
    return _layers[key][2]
