"""A stand-in for a GPU: the very source that a GPU would get, compiled by the machine's own C++ compiler.

It has the interface of posable.gpu.device, so everything above it runs unchanged: blocks and threads one after
another, streams that are always done, device memory that is plain memory.
"""

import ctypes
import shutil
import subprocess

import numpy as np

SHIM = r"""
#include <cmath>
#include <cstring>
#include <algorithm>
using namespace std;
#define __global__
#define __device__
#define __constant__ const
#define __forceinline__ inline
#define __launch_bounds__(...)
struct Three { unsigned x, y, z; };
static Three blockIdx, blockDim, threadIdx;
static inline float __int_as_float(unsigned x) { float y; memcpy(&y, &x, 4); return y; }
template <class T, class V> static inline T atomicAdd(T* p, V v) { T old = *p; *p = old + v; return old; }
template <class T, class V> static inline T atomicMin(T* p, V v) { T old = *p; if (v < old) *p = v; return old; }
static inline unsigned __activemask() { return 1; }
static inline unsigned __ballot_sync(unsigned, bool x) { return x; }
#define __noinline__
#define SHARED_TILE static double tile[1 << 16];
static inline void __syncthreads() {}
static inline void __syncwarp() {}
static inline double __shfl_xor_sync(unsigned, double, int) { return 0.0; }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
extern "C" void place(unsigned block, unsigned thread, unsigned threads) {
    blockIdx.x = block; threadIdx.x = thread; blockDim.x = threads;
}
"""


COOPERATIVE = {"begin", "propose", "judge_step", "blend", "accept"}  # whose threads wait for each other


def compiler():
    """Return the machine's C++ compiler, or None."""
    return shutil.which("g++") or shutil.which("clang++") or shutil.which("c++")


class Gpu:
    def __init__(self, folder):
        self.folder, self.modules, self.processors, self.name = folder, {}, 2, "host"
        self.sources = []

    def enter(self):
        pass

    def settle(self):
        pass

    def free_memory(self):
        return 1 << 30

    def fetch(self, pointer, out):
        ctypes.memmove(out.ctypes.data, pointer, out.nbytes)
        return out

    def module(self, name, source, folder):
        if name not in self.modules:
            text = source()
            self.sources.append(text)
            path = self.folder / f"{name}.cpp"
            path.write_text(SHIM + text)
            library = path.with_suffix(".so")
            subprocess.run(
                [compiler(), "-O0", "-shared", "-fPIC", "-w", str(path), "-o", str(library)],
                check=True,
                capture_output=True,
                text=True,
            )
            self.modules[name] = Module(ctypes.CDLL(str(library)))
        return self.modules[name]


class Module:
    def __init__(self, library):
        self.library = library
        self.launches = []

    def blocks(self, name, threads):
        return 2

    def launch(self, name, blocks, threads, stream, *arguments, shared=0):
        self.launches.append((name, blocks, threads))
        values = [
            ctypes.c_void_p(a.pointer if isinstance(a, Buffer) else 0) if a is None or isinstance(a, Buffer) else a
            for a in arguments
        ]
        function = getattr(self.library, name)
        function.restype = None
        threads = 1 if name in COOPERATIVE else threads
        for block in range(blocks):
            for thread in range(threads):
                self.library.place(block, thread, threads)
                function(*values)


class Stream:
    def __init__(self, on):
        self.gpu, self.handle = on, 0

    def wait(self):
        pass


class Buffer:
    def __init__(self, stream, shape, dtype):
        self.stream, self.shape, self.dtype = stream, tuple(shape), np.dtype(dtype)
        self.memory = np.empty(max(int(np.prod(shape)), 1), self.dtype)
        self.pointer = self.memory.ctypes.data

    def fill(self, word):
        self.memory.view(np.uint32)[...] = word
        return self

    def take(self, values):
        ctypes.memmove(self.pointer, values.ctypes.data, values.nbytes)
        return self

    def give(self, out):
        ctypes.memmove(out.ctypes.data, self.pointer, out.nbytes)
        return out

    def numpy(self):
        return self.give(np.empty(self.shape, self.dtype))

    def part(self, first, last):
        out = object.__new__(Buffer)
        out.stream, out.shape, out.dtype = self.stream, (last - first, *self.shape[1:]), self.dtype
        width = int(np.prod(self.shape[1:]))
        out.memory = self.memory[first * width : last * width]
        out.pointer = self.pointer + first * width * self.dtype.itemsize
        return out

    @property
    def __cuda_array_interface__(self):
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.pointer, False), "version": 3}


class Pinned:
    def __init__(self, on):
        pass

    def array(self, shape, dtype):
        return np.empty(shape, dtype)
