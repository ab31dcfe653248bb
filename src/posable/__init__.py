"""Posable: inverse kinematics for people, characters and robots.

This module holds the public names. Each is imported when it is first used, so `import posable` is fast.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

if TYPE_CHECKING:  # for type checkers; tests/test_public_names.py compares these names with _HOME
    from posable import errors as errors
    from posable import figures as figures
    from posable import goals as goals
    from posable import plots as plots
    from posable import solvers as solvers
    from posable._explain import Explanation as Explanation
    from posable._explain import explain as explain
    from posable._reach import Reach as Reach
    from posable._reach import reach as reach
    from posable._solutions import Solutions as Solutions
    from posable._solutions import solutions as solutions
    from posable._solve import Session as Session
    from posable._solve import solve as solve
    from posable._warm_up import warm_up as warm_up
    from posable.control import Controller as Controller
    from posable.engine.jit import CompilingForbidden as CompilingForbidden
    from posable.engine.jit import forbid_compiling as forbid_compiling
    from posable.errors import PosableError as PosableError
    from posable.errors import PosableWarning as PosableWarning
    from posable.formats import Scene as Scene
    from posable.formats import load as load
    from posable.formats import save as save
    from posable.limb import Limb as Limb
    from posable.limb import LimbSolution as LimbSolution
    from posable.mocap.calibrate import calibrate as calibrate
    from posable.mocap.cameras import Keypoints as Keypoints
    from posable.mocap.follow import follow as follow
    from posable.mocap.keyframes import keyframes as keyframes
    from posable.mocap.motion_quality import motion_quality as motion_quality
    from posable.mocap.retarget import retarget as retarget
    from posable.mocap.smooth import smooth as smooth
    from posable.mocap.track import track as track
    from posable.model import shapes as shapes
    from posable.model import twists as twists
    from posable.model.body_plan import BodyPlan as BodyPlan
    from posable.model.body_plan import body_plan as body_plan
    from posable.model.camera import Camera as Camera
    from posable.model.camera import load_cameras as load_cameras
    from posable.model.collision import distances as distances
    from posable.model.dh import from_dh as from_dh
    from posable.model.jacobians import jacobian as jacobian
    from posable.model.jacobians import jacobian_rate as jacobian_rate
    from posable.model.joints import Ball as Ball
    from posable.model.joints import Fixed as Fixed
    from posable.model.joints import Free as Free
    from posable.model.joints import Joint as Joint
    from posable.model.joints import Planar as Planar
    from posable.model.joints import Prismatic as Prismatic
    from posable.model.joints import Revolute as Revolute
    from posable.model.joints import Site as Site
    from posable.model.joints import Universal as Universal
    from posable.model.kinematics import forward as forward
    from posable.model.motion import Markers as Markers
    from posable.model.motion import Motion as Motion
    from posable.model.skeleton import Skeleton as Skeleton
    from posable.problem import Problem as Problem
    from posable.solvers.reasons import Reason as Reason
    from posable.solvers.remedy import Remedy as Remedy
    from posable.solvers.result import Result as Result
    from posable.solvers.result import Status as Status
    from posable.solvers.sensitivity import Block as Block

__version__ = "0.2.0"

_SUBMODULES = ("errors", "figures", "goals", "plots", "shapes", "solvers", "twists")
_ELSEWHERE = {
    "shapes": "posable.model.shapes",
    "twists": "posable.model.twists",
}  # submodules that are not directly in the package

_HOME = {
    "PosableError": "posable.errors",
    "PosableWarning": "posable.errors",
    "Ball": "posable.model.joints",
    "Fixed": "posable.model.joints",
    "Free": "posable.model.joints",
    "Joint": "posable.model.joints",
    "Planar": "posable.model.joints",
    "Prismatic": "posable.model.joints",
    "Revolute": "posable.model.joints",
    "Site": "posable.model.joints",
    "Skeleton": "posable.model.skeleton",
    "Controller": "posable.control",
    "Universal": "posable.model.joints",
    "BodyPlan": "posable.model.body_plan",
    "body_plan": "posable.model.body_plan",
    "Camera": "posable.model.camera",
    "load_cameras": "posable.model.camera",
    "distances": "posable.model.collision",
    "from_dh": "posable.model.dh",
    "forward": "posable.model.kinematics",
    "Limb": "posable.limb",
    "LimbSolution": "posable.limb",
    "Reach": "posable._reach",
    "reach": "posable._reach",
    "jacobian": "posable.model.jacobians",
    "Block": "posable.solvers.sensitivity",
    "Explanation": "posable._explain",
    "Problem": "posable.problem",
    "Reason": "posable.solvers.reasons",
    "Remedy": "posable.solvers.remedy",
    "Result": "posable.solvers.result",
    "Session": "posable._solve",
    "Status": "posable.solvers.result",
    "explain": "posable._explain",
    "warm_up": "posable._warm_up",
    "CompilingForbidden": "posable.engine.jit",
    "forbid_compiling": "posable.engine.jit",
    "solve": "posable._solve",
    "Solutions": "posable._solutions",
    "solutions": "posable._solutions",
    "jacobian_rate": "posable.model.jacobians",
    "load": "posable.formats",
    "save": "posable.formats",
    "Scene": "posable.formats",
    "Motion": "posable.model.motion",
    "Markers": "posable.model.motion",
    "calibrate": "posable.mocap.calibrate",
    "Keypoints": "posable.mocap.cameras",
    "follow": "posable.mocap.follow",
    "keyframes": "posable.mocap.keyframes",
    "motion_quality": "posable.mocap.motion_quality",
    "retarget": "posable.mocap.retarget",
    "smooth": "posable.mocap.smooth",
    "track": "posable.mocap.track",
}

if not TYPE_CHECKING:  # hidden from type checkers, which would accept any name
    __all__ = ["__version__", *_SUBMODULES, *_HOME]  # noqa: PLE0604

    def __getattr__(name: str) -> _Any:
        if name in _SUBMODULES:
            return _import_module(_ELSEWHERE.get(name, f"posable.{name}"))
        if name not in _HOME:
            from posable.errors import did_you_mean

            raise AttributeError(f"module 'posable' has no attribute {name!r}{did_you_mean(name, __all__)}")
        value = globals()[name] = getattr(_import_module(_HOME[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
