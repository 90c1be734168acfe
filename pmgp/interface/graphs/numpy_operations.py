"""NumPy's and SciPy's equivalents of PyTensor's scalar operations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytensor.scalar as ps
from pytensor.scalar.math import Log1mexp, Sigmoid, Softplus, TriGamma
from scipy import special


class UnsupportedGraphError(TypeError):
    """A graph with an operation that has no equivalent here."""


def numpy_function(operation: ps.ScalarOp) -> Callable[..., Any]:
    """Return the equivalent of a scalar operation for arrays."""
    if isinstance(operation, ps.Cast):
        return partial(_cast, operation.o_type.dtype)
    if type(operation) in OWN:
        return OWN[type(operation)]
    module, _, name = (getattr(operation, "nfunc_spec", None) or ("",))[0].rpartition(".")
    function = getattr(special if module == "scipy.special" else np, name, None)
    if function is None:
        raise UnsupportedGraphError(f"no equivalent of {operation} in NumPy")
    return function


def _cast(dtype: str, values: np.ndarray) -> np.ndarray:
    return np.asarray(values).astype(dtype)


def _softplus(values: np.ndarray) -> np.ndarray:
    """Compute softplus with NumPy's logarithm and exponential, whose loops are vectorized; `logaddexp`'s is not."""
    return np.log1p(np.exp(-np.abs(values))) + np.maximum(values, 0.0)


def _sigmoid(values: np.ndarray) -> np.ndarray:
    """Compute the sigmoid with NumPy's exponential, which is faster than SciPy's `expit`."""
    return 1.0 / (1.0 + np.exp(-values))


def _log1mexp(values: np.ndarray) -> np.ndarray:
    """Compute log(1 - exp(x)) for x < 0 in whichever of two forms is accurate at x."""
    return np.where(values > -np.log(2.0), np.log(-np.expm1(values)), np.log1p(-np.exp(values)))


OWN: dict[type, Callable[..., Any]] = {
    Sigmoid: _sigmoid,
    Softplus: _softplus,
    Log1mexp: _log1mexp,
    TriGamma: partial(special.polygamma, 1),
}
