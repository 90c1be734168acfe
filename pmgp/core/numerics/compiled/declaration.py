"""Declare kernels: the types of their arguments, when they are compiled, and where the result is stored.

Half of the compilation time is a fixed cost of each function, so a separate function for a part of a kernel takes
as long to compile as the kernel. There are few such functions. Loops run over a whole slice of an array, ``for i
in range(len(part))``. With other bounds numba checks whether each index counts from the end, and does not use the
processor's vector instructions, which makes a loop four to ten times slower. Assignments to slices are as slow, so
arrays are filled in loops.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from functools import cache, cached_property, update_wrapper
from pathlib import Path
from types import FunctionType
from typing import Any

from numba import njit, types

NOTHING, NUMBER, COUNT, FLAG = types.void, types.float64, types.int64, types.boolean
# Arguments that are read; an array that may be written to is also accepted. Matrices for LAPACK are passed as their
# transposes, because numba takes an array of one element, which is in both orders, for one in C order.
VECTOR = types.Array(NUMBER, 1, "C", readonly=True)
COUNTS = types.Array(COUNT, 1, "C", readonly=True)
STRIDED = types.Array(NUMBER, 1, "A", readonly=True)
ROWS = types.Array(NUMBER, 2, "C", readonly=True)
WRITTEN_VECTOR = types.Array(NUMBER, 1, "C")
WRITTEN_ROWS = types.Array(NUMBER, 2, "C")

# Divisions follow IEEE as NumPy's do; callbacks from C, which take as long to compile as the kernel, are not made.
OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True, "no_cfunc_wrapper": True}
_warned: list[str] = []


def digest_of(folder: Path) -> str:
    """Return a digest of the modules in a folder, which changes with any of them."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        source = path.read_bytes()
        digest.update(f"{path.name} {len(source)} ".encode() + source)
    return digest.hexdigest()[:16]


@cache
def _digest_of_kernels(folder: Path) -> str:
    """Return a digest of the kernels in a folder, and of the kernels here, which they call."""
    here = Path(__file__).parent
    return "_".join(digest_of(each) for each in dict.fromkeys((here, folder)))


class Kernel:
    """A function that is compiled when it is first needed, or read from numba's cache then.

    Numba considers its stored code valid as long as the function's own file stays the same. It stores functions under
    their names; the names used here also identify the kernels that the function was compiled with.

    If no folder is writable, the function is compiled in every process, and a warning says so once.
    """

    def __init__(self, function: Callable[..., Any], signature: Any) -> None:
        self.signature = signature
        self.function = function
        update_wrapper(self, function)

    @cached_property
    def compiled(self) -> Callable[..., Any]:
        """Numba's function, for this signature only."""
        try:
            return njit(self.signature, cache=True, **OPTIONS)(_named_by_digest(self.function))
        except RuntimeError as error:
            _warn_once(str(error))
            return njit(self.signature, **OPTIONS)(self.function)

    @property
    def _numba_type_(self) -> types.Dispatcher:
        """The type that numba gives this kernel inside another one."""
        return types.Dispatcher(self.compiled)

    def __call__(self, *arguments: Any) -> Any:
        """Call the compiled function; frequent callers hold `compiled` instead."""
        return self.compiled(*arguments)

    def __reduce__(self) -> str:
        """Pickle the kernel by its name, so that numba's cache finds functions that call it in any process."""
        return self.function.__qualname__


def kernel(result: Any, *arguments: Any, owner: Kernel | None = None) -> Callable[[Callable[..., Any]], Kernel]:
    """Declare a kernel for arguments of these types.

    `owner`: a kernel that the function calls, from the module in which the result gets the function's name.
    """

    def declared(function: Callable[..., Any]) -> Kernel:
        if owner is not None:
            function.__module__, function.__qualname__ = owner.__module__, function.__name__
        return Kernel(function, result(*arguments))

    return declared


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Declare a function that is compiled into each kernel that calls it."""
    return njit(**OPTIONS)(function)


def _named_by_digest(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, with its module and the kernels' digest in its qualified name.

    So functions that one factory makes for several modules are stored apart: with a single file, two processes that
    write at the same time could leave the code of one under the name of the other.
    """
    assert isinstance(function, FunctionType)
    digest = _digest_of_kernels(Path(function.__code__.co_filename).parent)
    named = FunctionType(function.__code__, function.__globals__, function.__name__, closure=function.__closure__)
    module = function.__module__.rpartition(".")[2]
    named.__module__, named.__qualname__ = function.__module__, f"{module}_{function.__qualname__}_{digest}"
    return named


def _warn_once(reason: str) -> None:
    if not _warned:
        _warned.append(reason)
        warnings.warn(
            f"numba has no folder for compiled functions ({reason}): each process compiles them again, which takes "
            "seconds; set the environment variable NUMBA_CACHE_DIR to a writable folder",
            UserWarning,
            stacklevel=5,
        )
