"""The built-in figures by name: `posable.figures.human()`, or `posable.figures.get("human")`.

A figure is a function that returns a Skeleton, in a file of this package, with one line in the table below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posable.errors import did_you_mean
from posable.registry import Registry

if TYPE_CHECKING:
    from posable.figures._human import human as human
    from posable.figures.creatures import spider as spider
    from posable.figures.creatures import tree as tree
    from posable.figures.robots import limb as limb
    from posable.figures.robots import panda as panda
    from posable.figures.robots import planar_arm as planar_arm
    from posable.model.skeleton import Skeleton

FIGURES = Registry("figure")
FIGURES.lazy("human", "posable.figures._human:human")
FIGURES.lazy("limb", "posable.figures.robots:limb")
FIGURES.lazy("planar_arm", "posable.figures.robots:planar_arm")
FIGURES.lazy("panda", "posable.figures.robots:panda")
FIGURES.lazy("spider", "posable.figures.creatures:spider")
FIGURES.lazy("tree", "posable.figures.creatures:tree")


def names() -> tuple[str, ...]:
    """Return the names of all figures."""
    return FIGURES.names()


def get(name: str, **options: Any) -> Skeleton:
    """Return a built-in figure.

    Args:
        name: One of `names()`.
        **options: Arguments of the figure's function.

    Raises:
        UnknownName: With the closest name.
    """
    return FIGURES.get(name)(**options)


if not TYPE_CHECKING:
    __all__ = ["FIGURES", "get", "names", *FIGURES.names()]  # noqa: PLE0604

    def __getattr__(name: str) -> Any:
        if name not in FIGURES:
            raise AttributeError(f"module 'posable.figures' has no attribute {name!r}{did_you_mean(name, __all__)}")
        value = globals()[name] = FIGURES.get(name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
