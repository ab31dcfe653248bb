"""What of the driver's side works without a GPU."""

import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import posable as ps
from posable.errors import GoalError
from posable.goals.base import device_array, from_dlpack
from posable.gpu import device as driver


def test_compiled_code_is_kept_under_its_name(monkeypatch, tmp_path):
    compiled = []
    monkeypatch.setattr(driver, "compiled", lambda source, architecture: compiled.append(source) or b"code")
    monkeypatch.setattr(driver, "Module", lambda on, image: image)

    def fresh():
        out = object.__new__(driver.Gpu)
        out.architecture, out._modules, out._lock = "sm_90", {}, threading.Lock()
        return out

    one = fresh()
    assert one.module("panda", lambda: "text", tmp_path) == b"code"
    assert one.module("panda", lambda: "text", tmp_path) == b"code"
    assert fresh().module("panda", lambda: "text", tmp_path) == b"code"
    assert compiled == ["text"]
    assert [path.name for path in tmp_path.iterdir()] == ["panda.sm_90.cubin"]


def test_an_error_of_the_driver_is_raised():
    assert driver.checked((0, 5)) == 5
    with pytest.raises(driver.CudaError, match="2"):
        driver.checked((2,))


def test_arrays_say_where_they_are():
    told = {"shape": (4, 3), "typestr": "<f4", "data": (4096, False), "strides": (24, 8)}
    found = device_array(SimpleNamespace(__cuda_array_interface__=told))
    assert found is not None
    assert (found.pointer, found.shape, found.strides, found.dtype) == (4096, (4, 3), (6, 2), np.float32)
    assert device_array(np.zeros(3)) is None
    assert device_array((1.0, 2.0, 3.0)) is None


def test_dlpack_gives_address_shape_and_strides():
    pytest.importorskip("cuda.core")
    array = np.zeros((4, 6), np.float32)[:, ::2]
    found = from_dlpack(array, stream=-1)
    assert (found.pointer, found.shape, found.strides) == (array.ctypes.data, (4, 3), (6, 2))
    assert found.dtype == np.float32


def test_dlpack_without_cuda_core_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.core.utils", None)
    array = SimpleNamespace(__dlpack_device__=lambda: (2, 0))
    with pytest.raises(GoalError, match=r"pip install 'posable\[gpu\]'"):
        ps.goals.Position("hand", array)
