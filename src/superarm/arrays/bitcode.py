"""Kernels that are compiled to LLVM's intermediate code alone, as parts of others.

Numba makes machine code of each function that it compiles, even where nothing but other kernels
calls it: these contain it, and their own machine code is made of all of it once more. Without that
of parts, and without optimizing those that are inlined for themselves, the first decisions of an
agent take 0.8 s less (`benchmarks/first_calls.py`), and the kernels are as fast.

The classes rely on names inside of Numba, so they are used with versions that were tested alone:
see `arrays.compiled.BITCODE_VERSIONS`.
"""

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


class NoEnvironment:
    """In place of what tells machine code where the objects of its module are: there is none."""

    @staticmethod
    def set_env(env_name: str, env: Any) -> None:
        """Leave a function of that name alone."""


class BitcodeLibrary(JITCodeLibrary):
    """The optimized code of a part, which other libraries link in."""

    codegen = NoEnvironment()
    is_inlined = False

    def _optimize_final_module(self) -> None:
        if not self.is_inlined:  # or else it is optimized where it is inlined
            super()._optimize_final_module()  # type: ignore[no-untyped-call]

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """The null pointer, as for functions that have no machine code."""
        self._ensure_finalized()  # type: ignore[no-untyped-call]
        return 0


class BitcodeCompiler(Compiler):
    """Numba's compiler, whose code goes to a `BitcodeLibrary`."""

    def define_pipelines(self) -> Any:
        """Numba's own pipelines."""
        codegen = self.state.targetctx.codegen()
        name = self.state.func_id.func_qualname
        library = BitcodeLibrary(codegen, name)  # type: ignore[no-untyped-call]
        library.is_inlined = self.state.flags.forceinline
        self.state.library = library
        return super().define_pipelines()  # type: ignore[no-untyped-call]
