"""The contents of a file: a figure, its motions, markers, and meshes to display."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from posable.errors import FormatError
from posable.model.motion import Markers, Motion
from posable.model.skeleton import Skeleton


@dataclass(frozen=True, eq=False)
class Mesh:
    """A surface to display, rigidly attached to one joint or skinned to several.

    In a pose, a skinned vertex is at the sum of `weights * T_world_joint * inverse_bind * vertex` over its bones.

    Attributes:
        name: Name of the mesh.
        vertices: (V, 3) [m] in the frame of `joint`, or in the mesh's own frame if it is skinned.
        faces: (F, 3) indices of vertices.
        joint: The joint that a rigid mesh is attached to; None for the world.
        joints: Names of the K joints of a skinned mesh.
        inverse_bind: (K, 4, 4) inverse bind matrices of those joints.
        bones: (V, k) indices into `joints`.
        weights: (V, k) skinning weights.
        color: (3,) or, for each face, (F, 3) sRGB from 0 to 1; None if the file does not say.
    """

    name: str
    vertices: NDArray[np.float64]
    faces: NDArray[np.int32]
    joint: str | None = None
    joints: tuple[str, ...] = ()
    inverse_bind: NDArray[np.float64] | None = None
    bones: NDArray[np.int32] | None = None
    weights: NDArray[np.float64] | None = None
    color: NDArray[np.float64] | None = None

    def __repr__(self) -> str:
        return f"<Mesh {self.name!r}: {len(self.vertices)} vertices, {len(self.faces)} triangles>"


class _SkeletonField:
    """The field `Scene.skeleton`: given as a Skeleton or None, read as a Skeleton or an error.

    A descriptor, so that `load(path).skeleton` is a Skeleton to type checkers without a test for None.
    """

    @overload
    def __get__(self, scene: None, owner: type[Scene]) -> None: ...
    @overload
    def __get__(self, scene: Scene, owner: type[Scene]) -> Skeleton: ...
    def __get__(self, scene: Scene | None, owner: type[Scene]) -> Skeleton | None:
        if scene is None:
            return None  # the default of the field
        skeleton = scene.__dict__["skeleton"]
        if skeleton is None:
            raise FormatError(f"scene {scene.name!r}", expected="a skeleton", found=scene.summary() or "nothing")
        return skeleton

    def __set__(self, scene: Scene, value: Skeleton | None) -> None:
        scene.__dict__["skeleton"] = value


@dataclass(frozen=True, eq=False)
class Scene:
    """The contents of a file.

    Attributes:
        skeleton: The figure. Reading it raises a `FormatError` if the file has none; check `has_skeleton` first where
            that is possible.
        motion: The first motion, or None.
        markers: Marker trajectories, or None.
        meshes: Surfaces to display.
        motions: Every motion by name.
        name: Name of the file without its suffix, or the name that the file gives.
        notes: What was repaired or assumed while reading.
        info: Further data of the format.
    """

    skeleton: _SkeletonField = _SkeletonField()
    motion: Motion | None = None
    markers: Markers | None = None
    meshes: tuple[Mesh, ...] = ()
    motions: Mapping[str, Motion] = field(default_factory=dict)
    name: str = ""
    notes: tuple[str, ...] = ()
    info: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_skeleton(self) -> bool:
        """Whether there is a skeleton."""
        return self.__dict__["skeleton"] is not None

    def replace(self, **changes: Any) -> Scene:
        """Return a scene with some fields changed."""
        return Scene(**{**{item.name: self.__dict__[item.name] for item in fields(self)}, **changes})

    def summary(self) -> str:
        """Return what the scene holds in a few words; an empty text if it holds nothing."""
        parts = []
        if self.has_skeleton:
            parts.append(f"{len(self.skeleton.joints)} joints")
        if self.motion is not None:
            parts.append(f"{len(self.motion)} frames")
        if self.markers is not None:
            parts.append(f"{len(self.markers.names)} markers")
        return ", ".join(parts)

    def __repr__(self) -> str:
        skeleton = self.skeleton if self.has_skeleton else None
        parts = [repr(part) for part in (skeleton, self.motion, self.markers) if part is not None]
        if self.meshes:
            parts.append(f"{len(self.meshes)} meshes")
        return f"<Scene {self.name!r}: {', '.join(parts) or 'empty'}>"
