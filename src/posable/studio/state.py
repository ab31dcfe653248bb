"""What a session is made of, as plain data that is never changed: the state that undo brings back, and the view."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import posable as ps
from posable.studio.drag_solver import Answer, Settings
from posable.studio.drive import Speeds
from posable.studio.files import Origin
from posable.studio.handles import Handle
from posable.studio.limbs import LimbView
from posable.studio.messages import AtLimit
from posable.studio.timeline import Timeline
from posable.studio.touching import Touch


@dataclass(frozen=True, eq=False)
class State:
    """What undo brings back, and what a project keeps."""

    scene: ps.Scene
    origin: Origin
    figure: int
    pose: np.ndarray
    handles: tuple[Handle, ...]
    timeline: Timeline
    rest: np.ndarray
    strength: dict[str, float]
    library: dict[str, dict[str, float]]
    settings: Settings
    revision: int
    blend: dict[str, float] = field(default_factory=dict)  # limbs that are not wholly IK: 0 is FK


@dataclass(frozen=True, eq=False)
class View:
    """Everything that a page shows, at one moment."""

    number: int  # counts the views: a page never goes back to an older one
    figure: int  # counts the figures that were opened
    skeleton: ps.Skeleton
    pose: np.ndarray
    frames: Any
    handles: tuple[Handle, ...]
    elbows: tuple[str, ...]
    active: str | None
    selected: str | None
    selection: tuple[str, ...]
    answer: Answer | None
    ghost: np.ndarray | None
    ghost_answer: Answer | None
    limits: tuple[AtLimit, ...]
    touches: tuple[Touch, ...]  # limbs in each other, and what is on or below the floor
    blocking: tuple[Any, ...]
    reasons: tuple[Any, ...]
    offers: tuple[str, ...]  # what would make missed handles reachable, in words
    curves: dict[str, np.ndarray]
    limb: LimbView | None
    blend: dict[str, float]
    loose: frozenset[str]  # bodies at the ends of limbs that are not wholly IK
    timeline: Timeline
    settings: Settings
    strength: dict[str, float]  # of the joints that a person made stronger or weaker than they are
    speeds: Speeds | None  # of the joints, where drags keep to velocity limits
    library: tuple[str, ...]
    name: str
    dirty: bool  # there is work that no project file has
    calm: bool  # nothing is being dragged or played: what takes longer has been worked out
