"""Targets on a GPU: arrays of CuPy, PyTorch, JAX or Numba, accessed through their protocols without a copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from posable.errors import GoalError

CUDA = 2  # the device type of NVIDIA GPUs in DLPack
LEGACY_STREAM = 1  # the default stream, in DLPack's numbering


@dataclass(frozen=True)
class DeviceArray:
    """An array in the memory of a GPU.

    Attributes:
        pointer: Address of its first element.
        shape: Its shape.
        strides: [elements].
        dtype: Type of its elements.
        owner: The object that keeps the memory alive.
    """

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype
    owner: Any


def device_array(value: Any) -> DeviceArray | None:
    """Return an array on a GPU by its `__cuda_array_interface__` or DLPack; None for anything else."""
    if isinstance(value, (np.ndarray, str, int, float, list, tuple)):
        return None
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is not None:
        dtype, shape = np.dtype(interface["typestr"]), tuple(interface["shape"])
        steps = interface.get("strides")
        strides = contiguous(shape) if steps is None else tuple(s // dtype.itemsize for s in steps)
        return DeviceArray(int(interface["data"][0]), shape, strides, dtype, value)
    ask = getattr(value, "__dlpack_device__", None)
    return from_dlpack(value) if ask is not None and int(ask()[0]) == CUDA else None


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides [elements] of a C-contiguous array."""
    out = [1]
    for size in reversed(shape[1:]):
        out.insert(0, out[0] * size)
    return tuple(out[: len(shape)])


def from_dlpack(value: Any, stream: int = LEGACY_STREAM) -> DeviceArray:
    """Return the memory of an array that supports only DLPack, through cuda.core.

    Args:
        value: An array with `__dlpack__`.
        stream: The CUDA stream that its data must be ready on; -1: do not wait.

    Raises:
        GoalError: cuda.core is not installed.
    """
    try:
        from cuda.core.utils import StridedMemoryView
    except ImportError:
        raise GoalError(
            "an array on the GPU that supports only DLPack",
            expected="the package cuda-core: pip install 'posable[gpu]'",
        ) from None
    view = StridedMemoryView.from_dlpack(value, stream_ptr=stream)
    shape = tuple(view.shape)
    return DeviceArray(view.ptr, shape, tuple(view.strides or contiguous(shape)), np.dtype(view.dtype), view)


def checked_device_array(value: Any, shape: tuple[int, ...], what: str) -> DeviceArray | None:
    """Return an array on a GPU of shape (..., *shape) whose leading axes are contiguous; None for anything else.

    Raises:
        GoalError: Its shape, type or layout does not fit.
    """
    found = device_array(value)
    if found is None:
        return None
    lead = len(found.shape) - len(shape)
    wanted = f"float32 or float64 of shape (..., {', '.join(map(str, shape))})"
    if found.shape[lead:] != shape or found.dtype not in (np.float32, np.float64):
        raise GoalError(what, expected=wanted, got=f"{found.dtype} of shape {found.shape} on the GPU")
    for axis in range(lead - 1):
        if found.strides[axis] != found.strides[axis + 1] * found.shape[axis + 1]:
            raise GoalError(what, expected="contiguous leading axes", got=f"strides {found.strides}")
    return found
