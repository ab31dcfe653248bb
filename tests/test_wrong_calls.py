"""Arguments that make no sense raise Posable's own errors, or are answered."""

import contextlib
import io
import os
from typing import Any

import numpy as np
import pytest

import posable as ps

g = ps.goals
ARM = ps.figures.planar_arm([0.5, 0.4])
PANDA = ps.figures.panda()
REACH = g.Position("hand", (0.3, 0.2, 0.4))
PATH = g.Position("hand", np.tile((0.3, 0.2, 0.4), (3, 1)))
MOTION = ps.Motion(PANDA, np.tile(PANDA.rest, (5, 1)), 60.0)
HUGE = 10**400  # an integer that no float holds
NONSENSE = (1.5, np.nan, "nonsense", [], [[1, 2], [3]], {}, b"x", 1j, object())


def session_move(value: Any) -> None:
    ps.Session(PANDA, [REACH]).move("hand", (value, 0.0, 0.0))


CALLS = {
    "load": ps.load,
    "save": lambda value: ps.save("out.npz", value),
    "solve start": lambda value: ps.solve(PANDA, REACH, start=value),
    "solve goals": lambda value: ps.solve(PANDA, value),
    "Session.move": session_move,
    "Controller dt": lambda value: ps.Controller(PANDA, [REACH], dt=value),
    "Controller velocity": lambda value: ps.Controller(PANDA, [REACH], dt=0.01, velocity=value),
    "AnyOf": g.AnyOf,
    "Weighted": lambda value: g.Weighted(value, np.eye(3)),
    "Coupling ratio": lambda value: g.Coupling("a", "b", ratio=value),
    "Posture stiffness": lambda value: ps.Problem(PANDA, [g.Posture(stiffness=value)]),
    "Position robust": lambda value: g.Position("hand", (0, 0, 0), robust=value),
    "Balance": g.Balance,
    "solvers.get": ps.solvers.get,
    "figures.get": ps.figures.get,
    "planar_arm": ps.figures.planar_arm,
    "from_dh": lambda value: ps.from_dh([value]),
    "Skeleton.pose": PANDA.pose,
    "Skeleton.pose of a joint": lambda value: PANDA.pose({"panda_joint1": value}),
    "Skeleton.with_limits": PANDA.with_limits,
    "Skeleton.index": PANDA.index,
    "Skeleton.to_qpos": PANDA.to_qpos,
    "Skeleton.from_qpos": PANDA.from_qpos,
    "forward": lambda value: ps.forward(PANDA, value),
    "jacobian rows": lambda value: ps.jacobian(PANDA, PANDA.rest, "hand", rows=value),
    "jacobian method": lambda value: ps.jacobian(PANDA, PANDA.rest, "hand", method=value),
    "reach points": lambda value: ps.reach(ARM, "tip", value),
    "reach grid": lambda value: ps.reach(ARM, "tip", grid=value),
    "Motion.at": MOTION.at,
    "Motion fps": lambda value: ps.Motion(PANDA, MOTION.poses, value),
    "Markers names": lambda value: ps.Markers(value, np.zeros((2, 1, 3)), 30.0),
    "follow fps": lambda value: ps.follow(PANDA, [PATH], fps=value),
    "follow smooth": lambda value: ps.follow(PANDA, [PATH], fps=30.0, smooth=value),
    "retarget": lambda value: ps.retarget(MOTION, value),
    "motion_quality": ps.motion_quality,
    "warm_up": ps.warm_up,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_nonsense_raises_nothing_but_our_own_errors(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for value in NONSENSE:
        with contextlib.suppress(ps.PosableError):
            call(value)
    with pytest.raises(ps.PosableError):
        call(HUGE)


def test_a_number_is_not_taken_for_an_open_file(tmp_path):
    (tmp_path / "walk.csv").write_text("time,a.x\n0,1\n")
    with open(tmp_path / "walk.csv") as file:
        with pytest.raises(ps.PosableError, match="expected a path, got"):
            ps.load(file.fileno())  # type: ignore[arg-type]
        assert os.fstat(file.fileno())
        assert file.read(4) == "time"
    with pytest.raises(ps.PosableError, match="expected a path"):
        ps.load(io.BytesIO(b""))  # type: ignore[arg-type]


def test_a_time_limit_that_no_float_holds_is_no_limit():
    assert ps.solve(PANDA, REACH, time_limit=HUGE).ok
