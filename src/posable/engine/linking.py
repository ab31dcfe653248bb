"""Compiles each entry and all the kernels under it as one program.

Left alone, Numba finishes every function by itself: it optimises it together with all that it calls, again for each
caller, and because anybody might call it from anywhere, every call passes every array of every tuple (some 300
numbers). Here a kernel stays unoptimised code until an entry collects all that it needs, declares it private, and
has it optimised once: LLVM then drops the arguments that a kernel does not read and puts it into its caller where
that pays. It compiles in half the time, and a solve takes two thirds of the time.
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


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


def _link_all(module: Any, library: JITCodeLibrary) -> None:
    """Link into a module every library that `library` needs, also by way of kernels, each of them once."""
    seen = set()
    waiting = list(library._linking_libraries)
    while waiting:
        needed = waiting.pop()
        if needed in seen:
            continue
        seen.add(needed)
        library._reload_init.update(needed._reload_init)
        if isinstance(needed, KernelLibrary):
            module.link_in(needed._final_module, preserve=True)
            waiting += needed._linking_libraries
        else:
            module.link_in(needed._get_module_for_linking(), preserve=True)


class _OwnLibrary(Compiler):
    """Numba's compiler, with a library of ours to write into."""

    library_class: type[JITCodeLibrary]

    def __init__(self, typing: Any, target: Any, library: Any, *arguments: Any):
        own = self.library_class(target.codegen(), self.library_class.__name__)
        own.enable_object_caching()
        super().__init__(typing, target, own, *arguments)


class KernelCompiler(_OwnLibrary):
    """Compiles kernels."""

    library_class = KernelLibrary


class EntryCompiler(_OwnLibrary):
    """Compiles entries."""

    library_class = EntryLibrary
