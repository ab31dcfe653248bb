"""The private parts of Numba that the engine uses, all of them here: how code is linked, and how it is cached.

By default, Numba compiles every function separately: it optimises it together with everything that it calls, again
for each caller, and since the function is externally visible, every call passes every array of every tuple (about 300
numbers). Here a kernel stays unoptimised until an entry collects all kernels that it needs, declares them private, and
optimises them once: LLVM then drops unused arguments and inlines kernels where that pays off. This halves the
compilation time and takes a third off the time of a solve.

Numba's own cache fails permanently if one of its files is damaged, raises on a full disk, ignores a folder that it
cannot write to, and loads the whole compiler before looking up an entry. `DiskCache` avoids all of this.

Importing this module raises ImportError or AttributeError if Numba's internals are not the expected ones.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba import extending
from numba.core import cgutils, typed_passes, types, untyped_passes
from numba.core.caching import NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult
from numba.core.compiler_machinery import PassManager
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import dumps
from numba.core.typing.templates import make_intrinsic_template
from numba.np.arrayobj import make_array, populate_array

for _owner, _names in {
    JITCodeLibrary: ("_raise_if_finalized", "_optimize_final_module", "_finalize_final_module", "_optimize_functions"),
    CompileResult: ("_reduce", "_rebuild"),
    Dispatcher: ("get_call_template", "_numba_type_"),
}.items():
    for _name in _names:
        getattr(_owner, _name)

njit: Any = numba.njit  # its stubs know the public options alone

# Only entries are called from Python: the code to unpack the arguments would be most of what a kernel compiles to.
UNWRAPPED: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "no_rewrites": True}


def entry_dispatcher(
    function: Callable[..., Any],
    options: dict[str, Any],
    folder: Path,
    read: Callable[..., Any],
    write: Callable[[Path, bytes], None],
) -> Any:
    """Return the compiled form of a function that Python calls, kept in a cache folder by `read` and `write`."""
    out = njit(pipeline_class=EntryCompiler, _nrt=False, **options)(function)
    out._cache = DiskCache(function, folder, read, write)
    return _once_per_type(out)


def kernel_dispatcher(function: Callable[..., Any], options: dict[str, Any], inlined: bool) -> Any:
    """Return the compiled form of a kernel that compiled code calls."""
    return _once_per_type(
        njit(pipeline_class=KernelCompiler, _nrt=False, forceinline=inlined, **options, **UNWRAPPED)(function)
    )


class _Signatures:
    """The signatures of operators and built-in functions, resolved once for each set of argument types.

    Numba tries every candidate again for each `+` of a program, which is a third of the time that typing takes.
    """

    def __init__(self) -> None:
        self.known: dict[Any, Any] = {}
        self.depth = 0

    def __enter__(self) -> None:
        self.depth += 1
        if self.depth == 1:
            self.resolve = types.Function.get_call_type
            types.Function.get_call_type = self._of(self.resolve)

    def __exit__(self, *error: Any) -> None:
        self.depth -= 1
        if self.depth == 0:
            types.Function.get_call_type = self.resolve
            self.known.clear()

    def _of(self, resolve: Any) -> Any:
        def get_call_type(function: Any, context: Any, args: Any, kws: Any) -> Any:
            if kws:
                return resolve(function, context, args, kws)
            key = (id(context), function, args)
            if key not in self.known:
                self.known[key] = resolve(function, context, args, kws)
            return self.known[key]

        return get_call_type


_signatures = _Signatures()


def _once_per_type(dispatcher: Any) -> Any:
    """Keep Numba from compiling a kernel again for every constant that some caller passes to it."""
    resolve = dispatcher.get_call_template

    def get_call_template(args: Any, kws: Any) -> Any:
        return resolve(tuple(types.unliteral(a) for a in args), {name: types.unliteral(a) for name, a in kws.items()})

    dispatcher.get_call_template = get_call_template
    if dispatcher.targetoptions.get("no_cpython_wrapper"):
        dispatcher._insert = lambda *compiled, **named: None  # a kernel has no machine code to remember
    return dispatcher


# --- Views ---


@extending.intrinsic
def _matrix(context, flat, first, rows, columns):
    """Return rows by columns of a flat array as a view; `reshape` calls a library function, which takes 13 ns."""
    out = types.Array(flat.dtype, 2, "C")

    def write(context, builder, signature, arguments):
        source = make_array(flat)(context, builder, arguments[0])
        view = make_array(out)(context, builder)
        size = context.get_abi_sizeof(context.get_data_type(flat.dtype))
        _, begin, count, width = arguments
        populate_array(
            view, data=cgutils.gep(builder, source.data, begin), shape=[count, width],
            strides=[builder.mul(width, width.type(size)), width.type(size)], itemsize=size, meminfo=None,
        )  # fmt: skip
        return view._getvalue()

    return out(flat, types.intp, types.intp, types.intp), write


class Intrinsic:
    """What compiled code calls in the place of a kernel: instructions that are written by hand."""

    def __init__(self, of: Any):
        self._numba_type_ = types.Function(make_intrinsic_template(of, of._defn, of._name))


INTRINSICS = {"posable.engine.layout.matrix": _matrix}  # kernel -> its faster form


# --- Linking ---


class _Nowhere:
    """The code generator that a kernel's library names: a kernel has no address of its own to be set up."""

    def set_env(self, env_name: str, env: Any) -> None:
        """Do nothing: only Python code that calls a function needs its environment."""


class KernelLibrary(JITCodeLibrary):
    """The code of a kernel: LLVM's language, neither optimised nor placed in memory."""

    @property
    def codegen(self) -> Any:
        """What Numba tells about the function's environment after it is placed."""
        return _Nowhere()

    def finalize(self) -> None:
        """Leave the code as it is, for the entries to collect."""
        self._raise_if_finalized()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0: there is no machine code."""
        self._ensure_finalized()
        return 0

    def _get_module_for_linking(self) -> Any:
        """Return the kernel's code with all that it needs, for a function that Numba compiles in its own way."""
        if self._shared_module is None:
            whole = self._final_module.clone()
            _link_all(whole, self)
            for function in whole.functions:
                if not function.is_declaration:
                    function.linkage = "linkonce_odr"
            self._shared_module = whole
        return self._shared_module

    def _optimize_functions(self, ll_module: Any) -> None:
        """Leave the code as it is."""
        ll_module.data_layout = self._codegen._data_layout


class EntryLibrary(JITCodeLibrary):
    """The code of an entry and of everything under it."""

    def finalize(self) -> None:
        """Collect every library that is needed, once each; make their functions private; optimise and place it all."""
        self._raise_if_finalized()
        module = self._final_module
        own = {function.name for function in module.functions if not function.is_declaration}
        _link_all(module, self)
        for function in module.functions:
            if not function.is_declaration and function.name not in own:
                function.linkage = "internal"
        self._optimize_final_module()
        module.verify()
        self._finalize_final_module()


def _link_all(module: Any, library: Any) -> None:
    """Link into a module every library that `library` needs, also by way of kernels, each of them once."""
    seen = set()
    waiting = list(library._linking_libraries)
    while waiting:
        needed = waiting.pop()
        if needed in seen:
            continue
        seen.add(needed)
        if hasattr(library, "_reload_init"):  # since Numba 0.63
            library._reload_init.update(needed._reload_init)
        if isinstance(needed, KernelLibrary):
            module.link_in(needed._final_module, preserve=True)
            waiting += needed._linking_libraries
        else:
            module.link_in(needed._get_module_for_linking(), preserve=True)


# What a kernel needs of Numba's pipeline: it has no closures, no literal unrolling, nothing to inline or to rewrite.
PASSES = (
    untyped_passes.TranslateByteCode, untyped_passes.FixupArgs, untyped_passes.IRProcessing,
    untyped_passes.ReconstructSSA, typed_passes.NopythonTypeInference, typed_passes.PreLowerStripPhis,
    typed_passes.IRLegalization, typed_passes.AnnotateTypes, typed_passes.NativeLowering, typed_passes.NoPythonBackend,
)  # fmt: skip


class _OwnLibrary(Compiler):
    """Numba's compiler, which writes into a given library."""

    library_class: type[JITCodeLibrary]

    def define_pipelines(self) -> list[Any]:
        """Return the one pipeline."""
        out = PassManager("kernel")
        for one in PASSES:
            out.add_pass(one, one.__name__)
        out.finalize()
        return [out]

    def __init__(self, typing: Any, target: Any, library: Any, *arguments: Any):
        own = self.library_class(target.codegen(), self.library_class.__name__)
        own.enable_object_caching()
        super().__init__(typing, target, own, *arguments)

    def compile_extra(self, func: Any) -> Any:
        """Compile a function; Numba holds its compiler lock meanwhile."""
        with _signatures:
            return super().compile_extra(func)


class KernelCompiler(_OwnLibrary):
    """Compiles kernels."""

    library_class = KernelLibrary


class EntryCompiler(_OwnLibrary):
    """Compiles entries."""

    library_class = EntryLibrary


# --- Caching ---


class DiskCache(NullCache):
    """Compiled code on disk: one file per function, argument types and machine, with a checksum."""

    def __init__(
        self, function: Callable[..., Any], folder: Path, read: Callable[..., Any], write: Callable[[Path, bytes], None]
    ):
        self._function, self._folder, self._read, self._write = function, folder, read, write

    @property
    def cache_path(self) -> str:  # type: ignore[override]  # a property there too, but untyped
        """The folder."""
        return str(self._folder)

    def _path(self, signature: Any, codegen: Any) -> Path:
        function = self._function
        identity = (
            function.__module__, function.__qualname__, hashlib.sha256(function.__code__.co_code).hexdigest(),
            [str(t) for t in signature], codegen.magic_tuple(), numba.__version__, sys.version, sys.platform,
        )  # fmt: skip
        digest = hashlib.sha256(repr(identity).encode()).hexdigest()[:24]
        return self._folder / f"{function.__qualname__.rpartition('.')[2]}-{digest}.bin"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled function for these types, None where there is none that can be used.

        The target is not refreshed first, as Numba does: finished code needs none of the compiler's registries.
        """
        path = self._path(sig, target_context.codegen())
        return self._read(path, lambda body: CompileResult._rebuild(target_context, *pickle.loads(body)))

    def save_overload(self, sig: Any, cres: Any) -> None:
        """Keep a compiled function."""
        self._write(self._path(sig, cres.codegen), dumps(cres._reduce()))
