"""SciPy's BLAS, LAPACK and special functions, for kernels to call.

Their addresses differ from process to process. Compiled code names them by symbols, which are resolved when it is
loaded, so that numba's cache holds for every process. LAPACK takes all arguments by reference; here they are one tuple:
numbers, arrays, and pairs of an array and the number of its first element, for parts of a matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import get_cython_function_address, intrinsic

LOWER, LEFT, RIGHT, NOT_TRANSPOSED, TRANSPOSED, NOT_UNIT, UNIT = (ord(letter) for letter in "LLRNTNU")
BLAS, LAPACK, SPECIAL = "scipy.linalg.cython_blas", "scipy.linalg.cython_lapack", "scipy.special.cython_special"


def _symbol(library: str, name: str) -> str:
    """Return a name under which LLVM finds a function of SciPy."""
    symbol = f"pmgp_{name}"
    llvm.add_symbol(symbol, get_cython_function_address(library, name))
    return symbol


def _reference(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return a pointer to an argument."""
    if isinstance(kind, types.BaseTuple):
        start = _reference(context, builder, kind[0], builder.extract_value(value, 0))
        numbers = builder.bitcast(start, ir.DoubleType().as_pointer())
        return builder.bitcast(builder.gep(numbers, [builder.extract_value(value, 1)]), cgutils.voidptr_t)
    if isinstance(kind, types.Array):
        return builder.bitcast(context.make_array(kind)(context, builder, value).data, cgutils.voidptr_t)
    if isinstance(kind, types.Integer):
        value = context.cast(builder, value, kind, types.int32)
    return builder.bitcast(cgutils.alloca_once_value(builder, value), cgutils.voidptr_t)


def _routine(library: str, name: str, result: Any = types.void) -> Callable[..., Any]:
    """Return a routine of BLAS or LAPACK; if its result is declared as an integer, it returns its status."""
    symbol = _symbol(library, name)
    status = isinstance(result, types.Integer)

    @intrinsic
    def call(typing_context: Any, arguments: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            parts = cgutils.unpack_tuple(builder, values[0])
            pointers = [_reference(context, builder, *part) for part in zip(arguments, parts, strict=True)]
            returned = context.get_value_type(result) if isinstance(result, types.Float) else ir.VoidType()
            if status:
                info = cgutils.alloca_once(builder, ir.IntType(32))
                pointers.append(builder.bitcast(info, cgutils.voidptr_t))
            kind = ir.FunctionType(returned, [cgutils.voidptr_t] * len(pointers))
            value = builder.call(cgutils.get_or_insert_function(builder.module, kind, symbol), pointers)
            if status:
                return builder.load(info)
            return value if isinstance(result, types.Float) else context.get_dummy_value()

        return result(arguments), generate

    return call


def _function(name: str, cython_name: str) -> Callable[..., Any]:
    """Return a special function of a number; Cython's second argument is ignored."""
    symbol = _symbol(SPECIAL, cython_name)

    @intrinsic
    def call(typing_context: Any, argument: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            kind = ir.FunctionType(ir.DoubleType(), [ir.DoubleType(), ir.IntType(32)])
            function = cgutils.get_or_insert_function(builder.module, kind, symbol)
            return builder.call(function, [values[0], ir.Constant(ir.IntType(32), 0)])

        return types.float64(types.float64), generate

    return call


@intrinsic
def uniform(typing_context: Any, next_double: Any, state: Any) -> Any:
    """Return the next number of `numpy.random.Generator.random`, given the addresses from its bit generator."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = ir.FunctionType(ir.DoubleType(), [cgutils.voidptr_t])
        function = builder.inttoptr(values[0], kind.as_pointer())
        return builder.call(function, [builder.inttoptr(values[1], cgutils.voidptr_t)])

    return types.float64(types.int64, types.int64), generate


ddot = _routine(BLAS, "ddot", types.float64)
dgemm = _routine(BLAS, "dgemm")
dsymm = _routine(BLAS, "dsymm")
dsymv = _routine(BLAS, "dsymv")
dsyrk = _routine(BLAS, "dsyrk")
dtrmm = _routine(BLAS, "dtrmm")
dtrmv = _routine(BLAS, "dtrmv")
dtrsm = _routine(BLAS, "dtrsm")
dtrsv = _routine(BLAS, "dtrsv")
dlauum = _routine(LAPACK, "dlauum", types.int32)
dpotrf = _routine(LAPACK, "dpotrf", types.int32)
dpotrs = _routine(LAPACK, "dpotrs", types.int32)
erfcx = _function("erfcx", "__pyx_fuse_1erfcx")
log_ndtr = _function("log_ndtr", "__pyx_fuse_1log_ndtr")
ndtr = _function("ndtr", "__pyx_fuse_1ndtr")
