"""Targets that already live on a GPU: arrays of CuPy, PyTorch, JAX, Numba, by their protocols, without a copy."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from posable.errors import GoalError

CUDA = 2  # the number of NVIDIA devices in DLPack


@dataclass(frozen=True)
class Remote:
    """Numbers in a GPU's memory: where they begin, their shape and strides [elements], and what keeps them there."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype
    owner: Any


def remote(value: Any) -> Remote | None:
    """Return what an array on a GPU says of itself, by `__cuda_array_interface__` or DLPack; None for anything else."""
    if isinstance(value, (np.ndarray, str, int, float, list, tuple)):
        return None
    told = getattr(value, "__cuda_array_interface__", None)
    if told is not None:
        dtype, shape = np.dtype(told["typestr"]), tuple(told["shape"])
        steps = told.get("strides")
        strides = contiguous(shape) if steps is None else tuple(s // dtype.itemsize for s in steps)
        return Remote(int(told["data"][0]), shape, strides, dtype, value)
    ask = getattr(value, "__dlpack_device__", None)
    return from_dlpack(value) if ask is not None and int(ask()[0]) == CUDA else None


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of an array by rows."""
    out = [1]
    for size in reversed(shape[1:]):
        out.insert(0, out[0] * size)
    return tuple(out[: len(shape)])


class _Tensor(ctypes.Structure):
    """The head of a DLManagedTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


def from_dlpack(value: Any) -> Remote:
    """Return what a DLPack capsule says; the capsule itself is kept, and frees what it holds when it goes."""
    capsule = value.__dlpack__()
    read = ctypes.pythonapi.PyCapsule_GetPointer
    read.restype, read.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    tensor = _Tensor.from_address(read(capsule, b"dltensor"))
    shape = tuple(tensor.shape[k] for k in range(tensor.ndim))
    strides = tuple(tensor.strides[k] for k in range(tensor.ndim)) if tensor.strides else contiguous(shape)
    kind = "f" if tensor.code == 2 else "i"
    dtype = np.dtype(f"{kind}{tensor.bits // 8}")
    return Remote((tensor.data or 0) + tensor.byte_offset, shape, strides, dtype, (capsule, value))


def checked_remote(value: Any, shape: tuple[int, ...], what: str) -> Remote | None:
    """Return an array on a GPU of shape (..., *shape) whose leading axes are one run of memory; None for others."""
    found = remote(value)
    if found is None:
        return None
    lead = len(found.shape) - len(shape)
    wanted = f"float32 or float64 of shape (..., {', '.join(map(str, shape))})"
    if found.shape[lead:] != shape or found.dtype not in (np.float32, np.float64):
        raise GoalError(what, expected=wanted, got=f"{found.dtype} of shape {found.shape} on the GPU")
    for axis in range(lead - 1):
        if found.strides[axis] != found.strides[axis + 1] * found.shape[axis + 1]:
            raise GoalError(what, expected="leading axes that are one run of memory", got=f"strides {found.strides}")
    return found


def remote_target(value: Any, shape: tuple[int, ...], what: str) -> tuple[Remote | None, Any]:
    """Return (the array on the GPU, what stands for it on the host), or (None, the value) for any other target."""
    found = checked_remote(value, shape, what)
    if found is None:
        return None, value
    return found, np.eye(shape[0]) if len(shape) == 2 else np.zeros(shape)
