"""BLAS threads of a chain: what PyMC's `sample` was asked for, or what suits the number of latent values.

PyMC limits the threads of its workers only where it does not fork them, and does not tell step methods of
`blas_cores`; they find it in the call of `sample` that they serve.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
from pymc.sampling import mcmc

from pmgp.core.numerics.threads import suitable_threads, threads_limited
from pmgp.interface.steps.pickling import PickledStep

__all__ = ["LimitedThreads", "ThreadShare", "share_of_chain"]


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


class LimitedThreads(PickledStep):
    """Base of step methods that limit the threads of BLAS while they compute, and only then.

    Subclasses define `_start_chain`, `_update`, the attribute `latent_name` and, where tuning leaves something to be
    done, `_finish_tuning`.
    """

    latent_name: str
    _threads = ThreadShare()
    _n = 0

    def setup_chain(self, rng: Any, tune: int, draws: int) -> None:
        """Forget the last chain and take this chain's random generator."""
        super().setup_chain(rng, tune, draws)
        # A spawned worker has it from the process that pickled the step.
        self._threads = share_of_chain() or self._threads
        with threads_limited(1):
            self._start_chain(tune, draws)

    def step(self, point: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
        """One iteration."""
        self._n = point[self.latent_name].size
        with self._threads.limited(self._n):
            return self._update(point)

    def stop_tuning(self) -> None:
        """End the tuning phase."""
        super().stop_tuning()
        with self._threads.limited(self._n):
            self._finish_tuning()

    def _start_chain(self, tune: int, draws: int) -> None:
        raise NotImplementedError

    def _update(self, point: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
        raise NotImplementedError

    def _finish_tuning(self) -> None:
        """What is to be done between tuning and sampling: nothing."""

    def __getstate__(self) -> dict[str, Any]:
        """Tell a spawned worker what `pymc.sample` grants."""
        return super().__getstate__() | {"_threads": share_of_chain() or self._threads}
