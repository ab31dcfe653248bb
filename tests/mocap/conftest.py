"""Takes made here, so that every test runs without recordings: a human who moves, and the markers on it."""

import numpy as np
import pytest

import posable as ps


@pytest.fixture(scope="session")
def human():
    return ps.figures.human()


@pytest.fixture(scope="session")
def dance(human):
    """A motion of 240 frames at 120 Hz: smooth, inside the limits, every joint moving, the root walking."""
    rng = np.random.default_rng(3)
    seconds = np.arange(240) / 120.0
    poses = np.tile(human.rest, (len(seconds), 1))
    room = np.minimum(human.upper - human.rest, human.rest - human.lower)
    for i in range(human.size):
        size = 0.5 * min(room[i], 0.4) if i >= 6 else (0.3 if i < 3 else 0.5)
        phase, speed = rng.uniform(0.0, 2.0 * np.pi), rng.uniform(0.3, 0.8)
        poses[:, i] += size * (np.sin(2.0 * np.pi * speed * seconds + phase) - np.sin(phase))
    return ps.Motion(human, np.clip(poses, human.lower, human.upper), 120.0)


MARKERS = ("FHD", "BHD", "SHO", "UPA", "ELB", "FRM", "WRA", "WRB", "FIN", "FWT", "BWT", "THI", "KNE", "SHN", "ANK",
           "HEE", "TOE", "MT5")  # fmt: skip
NAMES = ("C7", "T10", "CLAV", "STRN", "RBAC", *(side + name for side in "LR" for name in MARKERS))


@pytest.fixture(scope="session")
def markers(human, dance):
    """The 41 markers of the dance, without noise."""
    frames = ps.forward(human, dance.poses)
    return ps.Markers(NAMES, np.stack([frames.position(name) for name in NAMES], axis=1), 120.0, "y")


def holed(markers, gone):
    """Return markers with those at gone (T, M) taken away."""
    places = markers.positions.copy()
    places[gone] = np.nan
    return ps.Markers(markers.names, places, markers.fps, markers.up)
