"""An NVIDIA GPU through cuda.bindings: compile C++, allocate memory, launch kernels.

Everything goes through the driver API (package cuda-bindings), imported when a GPU is first used. Compiled code is
cached beside that of the CPU, under a hash of its source.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from posable.engine.jit import read_cached, write_cached

POINTER = ctypes.c_void_p
DEFAULT_SHARED = 48 << 10  # [bytes] of shared memory that a kernel may use without asking


class CudaError(RuntimeError):
    """An error of the CUDA driver or compiler."""


def missing() -> str | None:
    """Return why no GPU can be used, or None if one can."""
    try:
        gpu()
    except CudaError as error:
        return str(error)
    return None


def checked(answer: tuple[Any, ...]) -> Any:
    """Return the values of a driver call without its status; raise CudaError if that is an error."""
    code, *rest = answer
    if int(code) != 0:
        raise CudaError(f"CUDA: {getattr(code, 'name', code)}")
    return rest[0] if len(rest) == 1 else tuple(rest) or None


@lru_cache(maxsize=1)
def gpu() -> Gpu:
    """Return the first GPU; raise CudaError with the reason if there is none."""
    try:
        from cuda.bindings import driver
    except ImportError:
        raise CudaError("the package cuda-bindings is not installed: pip install 'posable[gpu]'") from None
    try:
        checked(driver.cuInit(0))
        count = checked(driver.cuDeviceGetCount())
    except Exception as error:  # without a driver, the bindings raise their own errors
        raise CudaError(f"no driver for an NVIDIA GPU answers ({error})") from None
    if count == 0:
        raise CudaError("the driver finds no NVIDIA GPU")
    return Gpu(driver)


class Gpu:
    """The first GPU of the machine, in its primary context, which CuPy, PyTorch and JAX use too."""

    def __init__(self, driver: Any):
        self.driver = driver
        device = checked(driver.cuDeviceGet(0))
        self.context = checked(driver.cuDevicePrimaryCtxRetain(device))
        self.enter()
        of = driver.CUdevice_attribute

        def ask(what: Any) -> int:
            return int(checked(driver.cuDeviceGetAttribute(what, device)))

        self.processors = ask(of.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
        major, minor = (
            ask(of.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
            ask(of.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
        )
        self.architecture = f"sm_{major}{minor}"
        self.name = checked(driver.cuDeviceGetName(100, device)).split(b"\0")[0].decode()
        pool = checked(driver.cuDeviceGetDefaultMemPool(device))  # freed memory is kept for the next call
        keep = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        checked(driver.cuMemPoolSetAttribute(pool, keep, driver.cuuint64_t(1 << 34)))
        self._modules: dict[str, Any] = {}
        self._lock = threading.Lock()

    def enter(self) -> None:
        """Make this thread use the GPU."""
        checked(self.driver.cuCtxSetCurrent(self.context))

    def settle(self) -> None:
        """Wait until all work on the GPU is done, in every stream."""
        checked(self.driver.cuCtxSynchronize())

    def fetch(self, pointer: int, out: np.ndarray) -> np.ndarray:
        """Copy memory of the GPU to the host."""
        self.enter()
        checked(self.driver.cuMemcpyDtoH(out.ctypes.data, pointer, out.nbytes))
        return out

    def free_memory(self) -> int:
        """Return how many bytes are free."""
        return int(checked(self.driver.cuMemGetInfo())[0])

    def module(self, name: str, source: Callable[[], str], folder: Path) -> Module:
        """Return the kernels of a C++ source, generated and compiled once and cached on disk under its name."""
        with self._lock:
            if name not in self._modules:
                path = folder / f"{name}.{self.architecture}.cubin"
                image = read_cached(path)
                if image is None:
                    image = compiled(source(), self.architecture)
                    write_cached(path, image)
                self._modules[name] = Module(self, image)
            return self._modules[name]


def compiled(source: str, architecture: str) -> bytes:
    """Return the machine code of a CUDA C++ source."""
    try:
        from cuda.bindings import nvrtc

        program = checked(nvrtc.nvrtcCreateProgram(source.encode(), b"posable.cu", 0, [], []))
    except Exception as error:
        raise CudaError(f"the CUDA compiler (NVRTC) does not answer: {error}") from None
    options = [f"--gpu-architecture={architecture}".encode(), b"--fmad=true", b"-w"]
    (code,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if int(code) != 0:
        log = b" " * checked(nvrtc.nvrtcGetProgramLogSize(program))
        checked(nvrtc.nvrtcGetProgramLog(program, log))
        raise CudaError(f"the CUDA compiler refuses the source: {log.decode()[:2000]}")
    image = b" " * checked(nvrtc.nvrtcGetCUBINSize(program))
    checked(nvrtc.nvrtcGetCUBIN(program, image))
    checked(nvrtc.nvrtcDestroyProgram(program))
    return image


class Module:
    """Compiled kernels."""

    def __init__(self, on: Gpu, image: bytes):
        self.gpu = on
        self._image = np.frombuffer(image, dtype=np.uint8).copy()
        self._module = checked(on.driver.cuModuleLoadData(self._image.ctypes.data))
        self._kernels: dict[str, Any] = {}
        self._shared: dict[str, int] = {}  # [bytes] that kernels have been allowed

    def kernel(self, name: str) -> Any:
        """Return a kernel by its name."""
        if name not in self._kernels:
            self._kernels[name] = checked(self.gpu.driver.cuModuleGetFunction(self._module, name.encode()))
        return self._kernels[name]

    def blocks(self, name: str, threads: int) -> int:
        """Return how many blocks of a kernel fit on the GPU at once."""
        ask = self.gpu.driver.cuOccupancyMaxActiveBlocksPerMultiprocessor
        return max(1, int(checked(ask(self.kernel(name), threads, 0)))) * self.gpu.processors

    def launch(self, name: str, blocks: int, threads: int, stream: Stream, *arguments: Any, shared: int = 0) -> None:
        """Launch a kernel; arguments: ctypes numbers, Buffers, None for a null pointer; shared: bytes of a block."""
        if shared > self._shared.get(name, DEFAULT_SHARED):
            most = self.gpu.driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            checked(self.gpu.driver.cuFuncSetAttribute(self.kernel(name), most, shared))
            self._shared[name] = shared
        values = [
            POINTER(a.pointer if isinstance(a, Buffer) else 0) if a is None or isinstance(a, Buffer) else a
            for a in arguments
        ]
        pointers = (POINTER * len(values))(*(ctypes.addressof(v) for v in values))
        checked(
            self.gpu.driver.cuLaunchKernel(
                self.kernel(name), blocks, 1, 1, threads, 1, 1, shared, stream.handle, ctypes.addressof(pointers), 0
            )
        )


class Stream:
    """A CUDA stream."""

    def __init__(self, on: Gpu):
        self.gpu = on
        self.handle = checked(on.driver.cuStreamCreate(1))

    def wait(self) -> None:
        """Wait until all of its work is done."""
        checked(self.gpu.driver.cuStreamSynchronize(self.handle))

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self.gpu.driver.cuStreamDestroy(self.handle)


class Buffer:
    """An array on the GPU, which CuPy, PyTorch, JAX and Numba can read without a copy."""

    def __init__(self, stream: Stream, shape: tuple[int, ...], dtype: Any):
        self.stream, self.shape, self.dtype = stream, tuple(int(s) for s in shape), np.dtype(dtype)
        self.bytes = max(int(np.prod(self.shape)) * self.dtype.itemsize, 4)
        self.owner: Buffer | None = self  # until there is something to free
        try:
            self.pointer = int(checked(stream.gpu.driver.cuMemAllocAsync(self.bytes, stream.handle)))
        except CudaError as error:
            raise CudaError(f"{error}: {self.bytes / 2**20:.0f} MiB do not fit on the GPU") from None
        self.owner = None

    def fill(self, word: int) -> Buffer:
        """Set every 32-bit word."""
        driver = self.stream.gpu.driver
        checked(driver.cuMemsetD32Async(self.pointer, word, self.bytes // 4, self.stream.handle))
        return self

    def take(self, values: np.ndarray) -> Buffer:
        """Copy from the host, asynchronously if the host's memory is pinned."""
        copy = self.stream.gpu.driver.cuMemcpyHtoDAsync
        checked(copy(self.pointer, values.ctypes.data, values.nbytes, self.stream.handle))
        return self

    def give(self, out: np.ndarray) -> np.ndarray:
        """Copy to the host; complete once the stream has been synchronised."""
        copy = self.stream.gpu.driver.cuMemcpyDtoHAsync
        checked(copy(out.ctypes.data, self.pointer, out.nbytes, self.stream.handle))
        return out

    def numpy(self) -> np.ndarray:
        """Return a copy on the host."""
        out = np.empty(self.shape, self.dtype)
        self.stream.gpu.enter()
        self.give(out)
        self.stream.wait()
        return out

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.pointer, False),
            "version": 3,
            "strides": None,
            "stream": int(self.stream.handle) or None,
        }

    def part(self, first: int, last: int) -> Buffer:
        """Return a view of some rows."""
        out = object.__new__(Buffer)
        out.stream, out.shape, out.dtype = self.stream, (last - first, *self.shape[1:]), self.dtype
        row = int(np.prod(self.shape[1:])) * self.dtype.itemsize
        out.bytes, out.pointer, out.owner = (last - first) * row, self.pointer + first * row, self
        return out

    def __del__(self) -> None:
        if self.owner is None and not sys.is_finalizing():  # at exit the context is destroyed anyway
            self.stream.gpu.driver.cuMemFreeAsync(self.pointer, self.stream.handle)


class Pinned:
    """Pinned host memory for asynchronous copies; grows as needed and is reused."""

    def __init__(self, on: Gpu):
        self.gpu, self.size, self._pointer = on, 0, None

    def array(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Return the memory as an array; its previous content is lost."""
        needed = max(int(np.prod(shape)) * np.dtype(dtype).itemsize, 4)
        if needed > self.size:
            self._free()
            self._pointer = int(checked(self.gpu.driver.cuMemHostAlloc(needed, 0)))
            self.size = needed
        assert self._pointer is not None
        raw: Any = (ctypes.c_char * needed).from_address(self._pointer)
        return np.frombuffer(raw, dtype=dtype, count=int(np.prod(shape))).reshape(shape)

    def _free(self) -> None:
        if self._pointer is not None:
            self.gpu.driver.cuMemFreeHost(self._pointer)
            self._pointer = None

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self._free()
