"""The number of BLAS threads of a chain: its share in `pmgp.sample`, or a default that suits its process.

PyMC does not tell step methods how many chains run beside them. Chains that run side by side are in worker processes,
so by default a chain in a worker takes one thread, and a chain in the main process as many as PyMC takes cores by
default. An existing limit, such as PyMC's in workers that are not forked, is never raised.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from multiprocessing import parent_process
from typing import Any, NamedTuple

from pmgp.core.numerics.threads import suitable_threads, threads_limited

# The largest number of cores that `pymc.sample` uses by default.
CORES = 4


class ThreadShare(NamedTuple):
    """The cores that a chain may use, or None for no limit; an explicit number also applies to few latent values."""

    cores: int | None
    explicit: bool = False

    @classmethod
    def granted(cls, blas_cores: Any, cores: int, chains: int) -> ThreadShare:
        """Return the share of each of several chains on a number of cores; `blas_cores` is `pymc.sample`'s."""
        given = cores if blas_cores == "auto" else blas_cores
        return cls(None if given is None else max(1, given // min(cores, chains)), blas_cores != "auto")

    @classmethod
    def default(cls) -> ThreadShare:
        """Return the share of a chain in this process that was given none."""
        return cls(CORES if parent_process() is None else 1)

    def limited(self, n: int) -> AbstractContextManager[None]:
        """Limit BLAS threads for a chain with n latent values to the user's number, or to one that suits n."""
        if self.explicit:
            return threads_limited(self.cores, exactly=True)
        return threads_limited(suitable_threads(n, self.cores))
