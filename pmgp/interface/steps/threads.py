"""BLAS threads of a chain: its share, which `pmgp.sample` tells it, or what suits a chain that nobody has told.

PyMC does not tell step methods how many chains run beside them. Chains that run side by side are in worker processes,
so that a chain in one of these takes one thread, and one in the main process as many as PyMC has cores by default. A
limit that holds already, as PyMC sets it in workers that are not forked, is never raised.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from multiprocessing import parent_process
from typing import Any, NamedTuple

from pmgp.core.numerics.threads import suitable_threads, threads_limited

# Cores that `pymc.sample` uses at most by default.
CORES = 4


class ThreadShare(NamedTuple):
    """The threads that a chain may use.

    Attributes
    ----------
    cores : int or None
        How many; None for no limit.
    explicit : bool
        Whether the user gave a number, or None, which then holds for few latent values too.
    """

    cores: int | None
    explicit: bool = False

    @classmethod
    def granted(cls, blas_cores: Any, cores: int, chains: int) -> ThreadShare:
        """Share of each chain, where so many run on so many cores: `blas_cores` is that of `pymc.sample`."""
        given = cores if blas_cores == "auto" else blas_cores
        return cls(None if given is None else max(1, given // min(cores, chains)), blas_cores != "auto")

    @classmethod
    def untold(cls) -> ThreadShare:
        """Share of a chain in this process that has been told none."""
        return cls(CORES if parent_process() is None else 1)

    def limited(self, n: int) -> AbstractContextManager[None]:
        """Limit the threads of BLAS for a chain with n latent values: to what the user asked for, or what suits n."""
        if self.explicit:
            return threads_limited(self.cores, exactly=True)
        return threads_limited(suitable_threads(n, self.cores))
