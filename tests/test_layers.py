"""The import order of the modules and packages directly under src/posable. Deferred and type-checking imports count.

Each may import only those before it in ORDER; some may import even less (ONLY). A new one needs an entry in ORDER.
"""

import ast
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "posable"

FRONT = "posable"  # posable/__init__.py: the public names
ORDER = (
    "errors",
    "_files",
    "registry",
    "engine",
    "model",
    "figures",
    "goals",
    "problem",
    "solvers",
    "gpu",
    "limb",
    "_solutions",
    "_solve",
    "_differentiable",
    "torch",
    "jax",
    "control",
    "_explain",
    "_reach",
    "formats",
    "mocap",
    "_warm_up",
    "plots",
    FRONT,
    "cli",
    "studio",
    "__main__",
)
ONLY = {
    "engine": (),
    "formats": ("errors", "_files", "registry", "engine", "model"),
    "cli": ("_files", FRONT),
    "studio": ("_files", FRONT),
}
KERNEL_LIBRARIES = {"numpy", "numba", *sys.stdlib_module_names}


def modules(source):
    """Map the dotted name of every module under `source`, the folder of the package, to its path."""
    found = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source.parent).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


def imports(name, path):
    """Yield (line, dotted name) of everything that the module imports, wherever in its text the import stands."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                base = ".".join([*parents[: len(parents) - node.level + 1], *filter(None, [base])])
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def nearest(dotted, known):
    """Return the module among `known` that `dotted`, a module or a name in one, belongs to; None if it is foreign."""
    while dotted and dotted not in known:
        dotted = dotted.rpartition(".")[0]
    return dotted or None


def top_level(module):
    return module.split(".")[1] if "." in module else FRONT


def allowed(importer):
    return ONLY.get(importer, ORDER[: ORDER.index(importer)])


def faults(source):
    """Return a sentence for every import in the wrong direction, and every name that is not in ORDER."""
    known, found = modules(source), []
    for name, path in known.items():
        here = top_level(name)
        if here not in ORDER:
            found.append(f"{name}: {here!r} is missing in ORDER of tests/test_layers.py")
            continue
        for line, dotted in imports(name, path):
            target = nearest(dotted, known)
            place = f"{path.relative_to(source.parent)}:{line}"
            if target is None:
                if here == "engine" and dotted.split(".")[0] not in KERNEL_LIBRARIES:
                    found.append(f"{place}: engine may import only numpy and numba, not {dotted}")
            elif top_level(target) != here and top_level(target) not in allowed(here):
                may = ", ".join(allowed(here)) or "nothing of posable but itself"
                found.append(f"{place}: {here} imports {target}; it may import {may}")
    return found


def cycle(source):
    """Return a cycle of module imports as a list of names, or an empty list."""
    known = modules(source)
    graph = {name: {nearest(dotted, known) for _, dotted in imports(name, path)} for name, path in known.items()}
    try:
        TopologicalSorter({name: targets - {None, name} for name, targets in graph.items()}).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_imports_point_only_down_the_list():
    found = faults(SOURCE)
    assert not found, "imports that point the wrong way:\n  " + "\n  ".join(found)


def test_no_import_cycles():
    found = cycle(SOURCE)
    assert not found, "modules that import each other: " + " -> ".join(found)


@pytest.fixture
def package(tmp_path):
    """Write a package from {relative path: text} and return its folder."""

    def build(**files):
        source = tmp_path / "posable"
        for name, text in {"__init__": "", **files}.items():
            path = source / f"{name.replace('__of__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return source

    return build


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("model__of__skeleton", "from posable.goals import Position\n"),
        ("model__of__skeleton", "def f():\n    import posable.goals\n"),
        (
            "model__of__skeleton",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..goals import Position\n",
        ),
        ("model__of__skeleton", "import posable as ps\n"),
        ("model__of__skeleton", "from .. import goals\n"),
        ("engine__of__joints", "from posable.errors import PosableError\n"),
        ("engine__of__joints", "import scipy.linalg\n"),
        ("formats__of__bvh", "from posable.figures import human\n"),
        ("cli__of__info", "from posable.model.skeleton import Skeleton\n"),
        ("cli__of__info", "from ..model.skeleton import Skeleton\n"),
        ("attic", ""),
    ],
)
def test_a_wrong_import_is_found(package, file, text):
    others = dict.fromkeys(("errors", "figures", "model__of__skeleton", "goals__of____init__"), "")
    assert len(faults(package(**{**others, file: text}))) == 1


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("goals", "from posable.model.skeleton import Skeleton\nfrom .errors import GoalError\nimport scipy\n"),
        ("engine__of__joints", "import math\nimport numpy as np\nfrom .rotations import exp\n"),
        ("cli__of__info", "import posable as ps\nfrom posable import Skeleton\nfrom posable.cli.main import main\n"),
    ],
)
def test_an_allowed_import_is_not_a_fault(package, file, text):
    others = dict.fromkeys(("errors", "model__of__skeleton", "engine__of__rotations", "cli__of__main"), "")
    assert faults(package(**{**others, file: text})) == []


def test_a_cycle_is_found(package):
    source = package(goals__of__a="from posable.goals.b import B", goals__of__b="def f():\n    from .a import A")
    assert set(cycle(source)) == {"posable.goals.a", "posable.goals.b"}
