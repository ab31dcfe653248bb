"""How deep the parts of a robot penetrate each other, by coal, from the vertices of the meshes in its MJCF file.

Nothing of Posable is used: MuJoCo places the geoms and says which pairs may collide (bits, excluded bodies, parents);
coal measures the convex hulls of all their vertices, as MuJoCo collides them, and primitives as they are.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

SLACK = 1e-4  # [m]: pairs that are deeper at home are parts that fit into each other
_SPHERE, _CAPSULE, _ELLIPSOID, _CYLINDER, _BOX, _MESH = 2, 3, 4, 5, 6, 7  # mjtGeom


class TrueMeshes:
    """The geoms of a robot as coal's solids.

    Args:
        path: An MJCF file.
        home: A pose (nq,) as `qpos`; pairs that touch there are left out.
    """

    def __init__(self, path: Path, home: np.ndarray):
        mujoco: Any = import_module("mujoco")  # its names are made when it is loaded
        self.coal: Any = import_module("coal")
        self.model = mujoco.MjModel.from_xml_path(str(path))
        self.data = mujoco.MjData(self.model)
        self.place = mujoco.mj_forward
        self.solids = {g: self._solid(g) for g in range(self.model.ngeom)}
        self.pairs = np.array(self._pairs(), dtype=int).reshape(-1, 2)
        apart = np.array([depth <= SLACK for depth in self._depths(home)], dtype=bool)
        self.pairs = self.pairs[apart]

    def _solid(self, g: int) -> Any:
        coal, model = self.coal, self.model
        kind, size = int(model.geom_type[g]), np.asarray(model.geom_size[g], dtype=float)
        if kind == _MESH:
            mesh = int(model.geom_dataid[g])
            first, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
            points = coal.StdVec_Vec3s()
            for point in np.unique(np.asarray(model.mesh_vert[first : first + count], dtype=float), axis=0):
                points.append(point)
            return coal.Convex.convexHull(points, True, "Qt")
        if kind == _SPHERE:
            return coal.Sphere(size[0])
        if kind == _CAPSULE:
            return coal.Capsule(size[0], 2.0 * size[1])
        if kind == _ELLIPSOID:
            return coal.Ellipsoid(size)
        if kind == _CYLINDER:
            return coal.Cylinder(size[0], 2.0 * size[1])
        return coal.Box(2.0 * size) if kind == _BOX else None

    def _pairs(self) -> list[tuple[int, int]]:
        """Return the pairs of geoms that may collide, by MuJoCo's rules."""
        model = self.model
        excluded = {frozenset((int(code) >> 16, int(code) & 0xFFFF)) for code in model.exclude_signature}
        known = [g for g, solid in self.solids.items() if solid is not None]
        out = []
        for i, a in enumerate(known):
            for b in known[i + 1 :]:
                one, two = int(model.geom_bodyid[a]), int(model.geom_bodyid[b])
                bits = (int(model.geom_contype[a]) & int(model.geom_conaffinity[b])) | (
                    int(model.geom_contype[b]) & int(model.geom_conaffinity[a]))  # fmt: skip
                if bits and frozenset((one, two)) not in excluded and not self._related(one, two):
                    out.append((a, b))
        return out

    def _related(self, one: int, two: int) -> bool:
        """Return whether two bodies are welded together, or parent and child, neither of them fixed to the world."""
        weld, parent = self.model.body_weldid, self.model.body_parentid
        first, second = int(weld[one]), int(weld[two])
        above, beyond = int(weld[parent[first]]), int(weld[parent[second]])
        return first == second or bool(first and second and (first == beyond or second == above))

    def _depths(self, qpos: np.ndarray) -> np.ndarray:
        """Return the depth of penetration [m] of every pair at a pose, 0 for pairs that are apart."""
        coal, data = self.coal, self.data
        data.qpos[:] = qpos
        self.place(self.model, data)
        out = np.zeros(len(self.pairs))
        one, two = self.pairs.T
        reach = self.model.geom_rbound[one] + self.model.geom_rbound[two]
        near = np.linalg.norm(data.geom_xpos[one] - data.geom_xpos[two], axis=1) < reach
        frames = {
            g: coal.Transform3s(data.geom_xmat[g].reshape(3, 3).copy(), data.geom_xpos[g].copy())
            for g in np.unique(self.pairs[near]).tolist()
        }
        request = coal.DistanceRequest()
        for k in np.flatnonzero(near).tolist():
            a, b = self.pairs[k].tolist()
            apart = coal.distance(self.solids[a], frames[a], self.solids[b], frames[b], request, coal.DistanceResult())
            out[k] = max(0.0, -apart)
        return out

    def deepest(self, qpos: np.ndarray) -> np.ndarray:
        """Return the depth (t,) [m] of the worst pair at each pose (t, nq)."""
        return np.array([self._depths(pose).max(initial=0.0) for pose in qpos])
