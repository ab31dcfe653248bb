"""Momentum's marker tracking, in its own process and environment: `python momentum_tracking.py IN.npz OUT.npz`.

IN holds urdf (text, with a link for every marker and joint), markers and joints (names of these links), and take_0,
take_1, ... (T, M, 3) [m], NaN where a marker is not seen. OUT holds where the joints are in each, (T, J, 3) [m].
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parent / "adapters"), str(Path(__file__).resolve().parent)]

CM = 100.0


def main(source: str, target: str) -> None:
    """Track every take with the character as it is; Momentum's own defaults hold."""
    from momentum import rooted
    from pymomentum import geometry, marker_tracking

    told = np.load(source)
    urdf = rooted(re.sub("<mujoco>.*</mujoco>", "", str(told["urdf"])))
    character = geometry.Character.load_urdf_from_bytes(urdf.encode())
    names = character.skeleton.joint_names
    locators = [geometry.Locator(str(name), names.index(str(name))) for name in told["markers"]]
    character = character.with_locators(locators, replace=True)
    joints = [names.index(str(name)) for name in told["joints"]]
    tracking, calibration = marker_tracking.TrackingConfig(), marker_tracking.CalibrationConfig()
    out = {}
    for key in (key for key in told.files if key.startswith("take_")):
        seen = [
            [
                geometry.Marker(str(name), np.nan_to_num(CM * place).astype(float), bool(np.isnan(place).any()))
                for name, place in zip(told["markers"], frame, strict=True)
            ]
            for frame in told[key]
        ]
        motion = marker_tracking.process_markers(
            character, np.zeros(0, dtype=np.float32), seen, tracking, calibration, calibrate=False
        )
        states = geometry.model_parameters_to_skeleton_state(character, np.asarray(motion))
        out[key] = np.asarray(states)[:, joints, :3] / CM
    np.savez(target, **out)


if __name__ == "__main__":
    main(*sys.argv[1:])
