"""Time: a take to play and scrub, keyframes of one's own, and edits blended into their neighbours. No clock in here."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

import posable as ps


@dataclass(frozen=True, eq=False)
class Timeline:
    """What there is to play: a take, or keyframes by frame number, at `fps`; and where in it one is.

    The keys win over the take where there are two or more of them; `take` is None where nothing was loaded.
    """

    skeleton: ps.Skeleton
    take: ps.Motion | None = None
    markers: ps.Markers | None = None
    keys: dict[int, np.ndarray] = field(default_factory=dict)
    fps: float = 30.0
    frame: float = 0.0
    length: int = 120  # frames to scrub through where no take says it
    playing: bool = False
    loop: bool = True
    onion: bool = False

    @property
    def count(self) -> int:
        """How many frames there are to scrub through."""
        if self.take is not None and len(self.take):
            return len(self.take)
        return max(self.length, max(self.keys, default=0) + 1)

    @property
    def last(self) -> int:
        """The frame where playing ends."""
        return max(self.keys) if len(self.keys) > 1 and self.take is None else self.count - 1

    def at(self, frame: float) -> np.ndarray | None:
        """Return the pose (n,) at a frame, or None where nothing says what it is."""
        if self.take is not None and len(self.take):
            return self.take.at(frame / self.take.fps)
        if self.keys:
            return self.between(frame)
        return None

    def between(self, frame: float) -> np.ndarray:
        """Return the pose (n,) between the keys at a frame: slerp in balls, straight elsewhere, the ends held."""
        frames = sorted(self.keys)
        after = int(np.searchsorted(frames, frame, side="right"))
        if after in (0, len(frames)):
            return self.keys[frames[min(after, len(frames) - 1)]]
        a, b = frames[after - 1], frames[after]
        pair = ps.Motion(self.skeleton, np.stack([self.keys[a], self.keys[b]]), 1.0)
        return pair.at((frame - a) / (b - a))

    def motion(self, pose: np.ndarray, name: str = "") -> ps.Motion:
        """Return what an export holds: the take, the keys played through, or the one pose on screen."""
        if self.take is not None:
            return self.take
        if len(self.keys) > 1:
            frames = sorted(self.keys)
            keys = np.stack([self.keys[f] for f in frames])
            times = np.array(frames) / self.fps
            return ps.Motion.from_keyframes(self.skeleton, times, keys, fps=self.fps, name=name)
        return ps.Motion(self.skeleton, pose[None], self.fps, name)

    def with_key(self, frame: int, pose: np.ndarray) -> Timeline:
        """Return it with a key at a frame."""
        return replace(self, keys={**self.keys, int(frame): np.array(pose)})

    def without_key(self, frame: int) -> Timeline:
        """Return it without the key at a frame."""
        return replace(self, keys={f: pose for f, pose in self.keys.items() if f != int(frame)})

    def with_key_moved(self, frame: int, to: int) -> Timeline:
        """Return it with the key of one frame at another."""
        if frame not in self.keys or to < 0:
            return self
        return replace(self.without_key(frame), keys={**self.without_key(frame).keys, int(to): self.keys[frame]})

    def edited(self, frame: int, pose: np.ndarray, reach: int) -> Timeline:
        """Return it with a frame of the take at another pose (n,), blended into `reach` frames on both sides."""
        if self.take is None:
            return self.with_key(frame, pose)
        return replace(self, take=self.take.edited(frame, pose, reach=reach))

    def advanced(self, seconds: float) -> Timeline:
        """Return it after `seconds` of playing; at the end it starts again, or stops."""
        rate = self.take.fps if self.take is not None else self.fps
        frame, last = self.frame + seconds * rate, self.last
        if frame <= last:
            return replace(self, frame=frame)
        if self.loop and last > 0:
            return replace(self, frame=frame % last)
        return replace(self, frame=float(last), playing=False)
