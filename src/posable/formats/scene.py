"""What a file has: a figure, its motions, markers, and meshes to look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posable.model.motion import Markers, Motion
from posable.model.skeleton import Skeleton


@dataclass(frozen=True, eq=False)
class Mesh:
    """A surface to look at, rigid on one joint or skinned to several.

    `vertices` (V, 3) [m] in the frame of `joint`, or in the mesh's own frame where it is skinned; `faces` (F, 3). A
    skinned mesh has `joints`, K names, their `inverse_bind` (K, 4, 4), and for every vertex `bones` (V, k), indices
    into `joints`, and `weights` (V, k). In a pose a vertex is at the sum of `weights * T_world_joint * inverse_bind *
    vertex`.
    """

    name: str
    vertices: NDArray[np.float64]
    faces: NDArray[np.int32]
    joint: str | None = None
    joints: tuple[str, ...] = ()
    inverse_bind: NDArray[np.float64] | None = None
    bones: NDArray[np.int32] | None = None
    weights: NDArray[np.float64] | None = None

    def __repr__(self) -> str:
        return f"<Mesh {self.name!r}: {len(self.vertices)} vertices, {len(self.faces)} triangles>"


@dataclass(frozen=True, eq=False)
class Scene:
    """Everything that a file holds; what it does not hold is None or empty.

    `motions` has every take by name and `motion` is the first of them. `notes` says what was repaired or assumed.
    """

    skeleton: Skeleton | None = None
    motion: Motion | None = None
    markers: Markers | None = None
    meshes: tuple[Mesh, ...] = ()
    motions: Mapping[str, Motion] = field(default_factory=lambda: MappingProxyType({}))
    name: str = ""
    notes: tuple[str, ...] = ()
    info: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def __repr__(self) -> str:
        parts = [repr(part) for part in (self.skeleton, self.motion, self.markers) if part is not None]
        if self.meshes:
            parts.append(f"{len(self.meshes)} meshes")
        return f"<Scene {self.name!r}: {', '.join(parts) or 'empty'}>"
