"""Posable: say what you want of a figure, get the pose that does it.

The public names, nothing else. Each is imported when it is first used, so that `import posable` stays fast.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

if TYPE_CHECKING:  # the same names again, for type checkers; tests/test_public_names.py keeps the two alike
    from posable import errors as errors
    from posable import figures as figures
    from posable import goals as goals
    from posable import plots as plots
    from posable import solvers as solvers
    from posable.errors import PosableError as PosableError
    from posable.errors import PosableWarning as PosableWarning
    from posable.explanation import Explanation as Explanation
    from posable.explanation import explain as explain
    from posable.formats import Scene as Scene
    from posable.formats import load as load
    from posable.formats import save as save
    from posable.front import Session as Session
    from posable.front import solve as solve
    from posable.jacobians import jacobian as jacobian
    from posable.jacobians import jacobian_rate as jacobian_rate
    from posable.kinematics import forward as forward
    from posable.limb import Limb as Limb
    from posable.limb import LimbSolution as LimbSolution
    from posable.motion import Markers as Markers
    from posable.motion import Motion as Motion
    from posable.problem import Problem as Problem
    from posable.skeleton import Ball as Ball
    from posable.skeleton import Fixed as Fixed
    from posable.skeleton import Free as Free
    from posable.skeleton import Joint as Joint
    from posable.skeleton import Planar as Planar
    from posable.skeleton import Prismatic as Prismatic
    from posable.skeleton import Revolute as Revolute
    from posable.skeleton import Site as Site
    from posable.skeleton import Skeleton as Skeleton
    from posable.skeleton import Universal as Universal
    from posable.skeleton import from_dh as from_dh
    from posable.solvers.result import Block as Block
    from posable.solvers.result import Result as Result
    from posable.solvers.result import Status as Status
    from posable.tracking import calibrate as calibrate
    from posable.tracking import follow as follow
    from posable.tracking import keyframes as keyframes
    from posable.tracking import retarget as retarget
    from posable.tracking import smooth as smooth
    from posable.tracking import track as track
    from posable.workspace import Reach as Reach
    from posable.workspace import reach as reach

__version__ = "0.1.0"

_SUBMODULES = ("errors", "figures", "goals", "plots", "solvers")

_HOME = {
    "PosableError": "posable.errors",
    "PosableWarning": "posable.errors",
    "Ball": "posable.skeleton",
    "Fixed": "posable.skeleton",
    "Free": "posable.skeleton",
    "Joint": "posable.skeleton",
    "Planar": "posable.skeleton",
    "Prismatic": "posable.skeleton",
    "Revolute": "posable.skeleton",
    "Site": "posable.skeleton",
    "Skeleton": "posable.skeleton",
    "Universal": "posable.skeleton",
    "from_dh": "posable.skeleton",
    "forward": "posable.kinematics",
    "Limb": "posable.limb",
    "LimbSolution": "posable.limb",
    "Reach": "posable.workspace",
    "reach": "posable.workspace",
    "jacobian": "posable.jacobians",
    "Block": "posable.solvers.result",
    "Explanation": "posable.explanation",
    "Problem": "posable.problem",
    "Result": "posable.solvers.result",
    "Session": "posable.front",
    "Status": "posable.solvers.result",
    "explain": "posable.explanation",
    "solve": "posable.front",
    "jacobian_rate": "posable.jacobians",
    "load": "posable.formats",
    "save": "posable.formats",
    "Scene": "posable.formats",
    "Motion": "posable.motion",
    "Markers": "posable.motion",
    "calibrate": "posable.tracking",
    "follow": "posable.tracking",
    "keyframes": "posable.tracking",
    "retarget": "posable.tracking",
    "smooth": "posable.tracking",
    "track": "posable.tracking",
}

if not TYPE_CHECKING:  # hidden from type checkers: they would take any name for a public one
    __all__ = ["__version__", *_SUBMODULES, *_HOME]  # noqa: PLE0604

    def __getattr__(name: str) -> _Any:
        if name in _SUBMODULES:
            return _import_module(f"posable.{name}")
        if name not in _HOME:
            from posable.errors import did_you_mean

            raise AttributeError(f"module 'posable' has no attribute {name!r}{did_you_mean(name, __all__)}")
        value = globals()[name] = getattr(_import_module(_HOME[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
