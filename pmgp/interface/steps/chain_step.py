"""PyMC's contract for step methods, implemented once: chains, states, pickles, threads."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Self

from pymc.step_methods.compound import BlockedStep

from pmgp.core.numerics.threads import threads_limited
from pmgp.interface.steps.threads import ThreadShare


class ChainStep(BlockedStep):
    """A step method that is pickled with its functions but without its constructor's arguments.

    It limits the threads of BLAS only while it computes. Subclasses define `_refresh_data`, and `_reset`, which starts
    the state of a chain. Attributes that change while a chain runs are fields of their `_state_class` or are among
    their `_caches`.
    """

    _granted: ThreadShare | None = None
    _threads: ThreadShare = ThreadShare(None)

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Drop the arguments, which PyMC keeps for copies: they hold the model, and `__reduce__` does not need them."""
        step = super().__new__(cls, *args, **kwargs)
        if isinstance(step, cls):
            for name in [name for name in vars(step) if name.startswith("_")]:
                delattr(step, name)
        return step

    def share_threads(self, granted: ThreadShare) -> None:
        """Set the number of threads that each chain of this step method may use."""
        self._granted = granted

    def _limited(self, n: int) -> AbstractContextManager[None]:
        """Limit the threads of BLAS to the chain's share, for n latent values."""
        return self._threads.limited(n)

    def _refresh_data(self) -> None:
        """Read the model's data again."""
        raise NotImplementedError

    def _reset(self, n_tune: int, n_draws: int) -> None:
        """Start the state of a chain."""
        raise NotImplementedError

    def _caches(self) -> dict[str, Any]:
        """Return attributes that are functions of the state, with their values before they are computed."""
        return {}

    def _forget(self) -> None:
        self.__dict__.update(self._caches())

    def setup_chain(self, rng: Any, tune: int, draws: int) -> None:
        """Forget the last chain, take this chain's random generator, and read the data again."""
        super().setup_chain(rng, tune, draws)
        self._threads = self._granted or ThreadShare.default()
        with threads_limited(1):
            self._refresh_data()
            self._reset(tune, draws)

    @property
    def sampling_state(self) -> Any:
        """The chain's state; setting it drops the caches."""
        return BlockedStep.sampling_state.fget(self)

    @sampling_state.setter
    def sampling_state(self, state: Any) -> None:
        BlockedStep.sampling_state.fset(self, state)
        self._forget()

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes with empty caches."""
        return self.__dict__ | self._caches()

    def __reduce__(self) -> tuple[Any, ...]:
        """Make copies without PyMC's `__new__`, which looks for a model."""
        return object.__new__, (type(self),), self.__getstate__()
