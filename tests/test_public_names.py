"""The public names: every name of the contract is there, is what it should be, and costs nothing until it is used."""

import ast
import inspect
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import posable

SOURCE = Path(posable.__file__).parent

# What programs outside this repository call. A module that exists must offer its names through `posable`.
CONTRACT = {
    "errors": ("PosableError", "PosableWarning"),
    "model.skeleton": ("Skeleton",),
    "model.joints": (
        "Joint",
        "Site",
        "Fixed",
        "Revolute",
        "Prismatic",
        "Universal",
        "Planar",
        "Ball",
        "Free",
    ),
    "model.body_plan": ("body_plan", "BodyPlan"),
    "model.dh": ("from_dh",),
    "model.kinematics": ("forward",),
    "model.jacobians": ("jacobian", "jacobian_rate"),
    "_solutions": ("Solutions", "solutions"),
    "_solve": ("solve", "Session"),
    "control": ("Controller",),
    "problem": ("Problem",),
    "solvers.result": ("Result", "Status"),
    "solvers.sensitivity": ("Block",),
    "solvers.reasons": ("Reason",),
    "solvers.remedy": ("Remedy",),
    "_explain": ("explain",),
    "_reach": ("reach", "Reach"),
    "limb": ("Limb", "LimbSolution"),
    "formats": ("load", "save", "Scene"),
    "model.motion": ("Motion", "Markers"),
    "mocap.follow": ("follow",),
    "mocap.calibrate": ("calibrate",),
    "mocap.track": ("track",),
    "mocap.motion_quality": ("motion_quality",),
    "mocap.retarget": ("retarget",),
    "mocap.smooth": ("smooth",),
}
SUBMODULES = ("errors", "figures", "goals", "solvers")


def exists(module):
    path = SOURCE / module.replace(".", "/")
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def test_the_table_holds_the_contract():
    due = {name: f"posable.{home}" for home, names in CONTRACT.items() if exists(home) for name in names}
    missing = {name: home for name, home in due.items() if posable._HOME.get(name) != home}
    assert not missing, f"add to _HOME of src/posable/__init__.py: {missing}"
    assert {name for name in SUBMODULES if exists(name)} <= set(posable._SUBMODULES)


def test_the_type_checker_sees_the_same_names():
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    seen = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            assert alias.asname == alias.name, f"write `{alias.name} as {alias.name}`: it marks a public name"
            seen[alias.name] = node.module
    homes = {name: posable._ELSEWHERE.get(name, f"posable.{name}") for name in posable._SUBMODULES}
    assert seen == {**posable._HOME, **{name: home.rpartition(".")[0] for name, home in homes.items()}}


@pytest.mark.parametrize("name", posable._HOME)
def test_a_name_is_what_it_says(name):
    value = getattr(posable, name)
    assert value is getattr(import_module(posable._HOME[name]), name)
    if name[0].isupper():
        assert inspect.isclass(value)
    else:
        assert callable(value)
        assert not inspect.isclass(value)
    assert inspect.getdoc(value), f"{name} has no docstring"


@pytest.mark.parametrize("name", posable._SUBMODULES)
def test_a_submodule_is_a_module(name):
    assert inspect.ismodule(getattr(posable, name))


def test_no_module_hides_a_public_name():
    # importing posable.solve would put that module in the place of the function posable.solve
    files = {path.stem for path in SOURCE.iterdir()}
    assert not files & set(posable._HOME)


def test_all_and_dir_list_every_name():
    assert set(posable.__all__) == {"__version__", *posable._SUBMODULES, *posable._HOME}
    assert len(posable.__all__) == len(set(posable.__all__))
    assert set(posable.__all__) <= set(dir(posable))


def test_an_unknown_name_suggests():
    with pytest.raises(AttributeError, match="has no attribute 'PosableEror', did you mean 'PosableError'"):
        posable.PosableEror  # noqa: B018


def test_import_is_fast_and_loads_no_heavy_library():
    program = """
import json, sys, time
start = time.perf_counter()
import posable
seconds = time.perf_counter() - start
print(json.dumps([seconds, sorted({"numba", "scipy"} & set(sys.modules))]))
"""
    runs = [json.loads(subprocess.check_output([sys.executable, "-c", program])) for _ in range(3)]
    assert all(heavy == [] for _, heavy in runs)
    assert min(seconds for seconds, _ in runs) < 0.3
