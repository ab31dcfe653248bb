"""A subject: name, title, the module that measures it, and what it requires."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from benchmarks.page import Page

BESIDE_CHECKOUT = Path(__file__).resolve().parents[2] / "shared" / "data"


@dataclass(frozen=True)
class Subject:
    """One benchmark. `module` has a function `evidence(page: Page) -> None`; it is imported when it runs.

    `needs` lists requirements: "data" (the recordings), "gpu" (an NVIDIA GPU) or a Python module. Without them the
    subject is skipped, with the reason.
    """

    name: str
    title: str
    module: str
    needs: tuple[str, ...] = ()
    environment: str = ""

    def missing(self) -> str:
        """Return why this cannot run here, or nothing."""
        for need in self.needs:
            if need == "data" and data_folder() is None:
                return "no recordings: set POSABLE_DATA to their folder"
            if need == "gpu" and (reason := no_gpu()):
                return reason
            if need not in ("data", "gpu") and find_spec(need) is None:
                return f"no module {need!r}: pip install {need}"
        return ""

    def load(self) -> Callable[[Page], None]:
        """Return the function that measures."""
        return import_module(self.module).evidence


def no_gpu() -> str:
    """Return why there is no GPU to measure, or nothing."""
    from posable.gpu.device import missing

    reason = missing()
    return f"no GPU: {reason}" if reason else ""


def data_folder() -> Path | None:
    """Return the folder of the recorded motions and robots: $POSABLE_DATA, or shared/data beside the checkout."""
    folder = Path(os.environ.get("POSABLE_DATA", BESIDE_CHECKOUT))
    return folder if folder.is_dir() else None
