"""BLAS threads of a chain: what PyMC's `sample` was asked for, or what suits the number of latent values.

PyMC limits the threads of its workers only where it does not fork them, and does not tell step methods of
`blas_cores`; they find it in the call of `sample` that they serve.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from types import FrameType
from typing import NamedTuple

from pymc.sampling import mcmc

from pmgp.core.numerics.threads import suitable_threads, threads_limited

__all__ = ["ThreadShare", "share_of_chain"]


class ThreadShare(NamedTuple):
    """What `pymc.sample` grants a chain.

    Attributes
    ----------
    cores : int or None
        Threads for each chain: `blas_cores` over the number of chains that run at a time. PyMC makes ``"auto"`` the
        number of `cores`. None where the user wants no limit, or where there is no `pymc.sample`.
    explicit : bool
        Whether the user gave `blas_cores`, as a number or as None.
    """

    cores: int | None = None
    explicit: bool = False

    def limited(self, n: int) -> AbstractContextManager[None]:
        """Limit the threads of BLAS for a chain with n latent values: to what the user asked for, or what suits n."""
        if self.explicit:
            return threads_limited(self.cores, exactly=True)
        return threads_limited(suitable_threads(n, self.cores))


def share_of_chain() -> ThreadShare | None:
    """What the call of `pymc.sample` that is under way grants; None outside of one, as in a spawned worker."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code is mcmc.sample.__code__ and "num_blas_cores_per_worker" in frame.f_locals:
            given, cores = frame.f_locals["blas_cores"], frame.f_locals["num_blas_cores_per_worker"]
            return ThreadShare(None if cores is None else max(1, cores), given != "auto")
        frame = frame.f_back
    return None
