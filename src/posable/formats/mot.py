"""OpenSim motion tables, MOT and STO, written: time, then one column per degree of freedom."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from posable.engine.joints import SLIDE
from posable.errors import FormatError
from posable.formats.base import Format, Options
from posable.formats.scene import Scene
from posable.model.motion import Motion


def write(scene: Scene, suffix: str, options: Options) -> Mapping[str, Iterable[bytes]]:
    """Return the bytes of a table: angles in degrees (MOT) or radians (STO), slides in metres."""
    if scene.motion is None:
        raise FormatError("MOT and STO hold motion", expected="a Motion", found="none")
    return {suffix: _table(scene.motion, degrees=suffix == ".mot")}


def _table(motion: Motion, *, degrees: bool) -> Iterator[bytes]:
    names = ["_".join(name.replace(".", "_").split()) for name in motion.skeleton.dof_names]
    head = [
        motion.name or "motion", "version=1", f"nRows={len(motion)}", f"nColumns={len(names) + 1}",
        f"inDegrees={'yes' if degrees else 'no'}", "endheader",
    ]  # fmt: skip
    yield ("\n".join(head) + "\n" + "\t".join(["time", *names]) + "\n").encode()
    kinds = [dof.kind for joint in motion.skeleton.joints for dof in joint.motion.dofs]
    scales = np.array([1.0 if kind == SLIDE or not degrees else 180.0 / np.pi for kind in kinds])
    for t, pose in enumerate(motion.poses):
        yield ("\t".join(f"{value:.9g}" for value in (t / motion.fps, *(pose * scales).tolist())) + "\n").encode()


FORMAT = Format(
    "MOT/STO", (".mot", ".sto"), "motion", "degrees (MOT) or radians (STO), metres; written only", None, None, write
)
