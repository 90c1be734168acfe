"""The contract that PyMC asks of a step method, kept in one place: chains, states, pickles, threads."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Self

from pymc.step_methods.compound import BlockedStep

from pmgp.core.numerics.threads import threads_limited
from pmgp.interface.steps.threads import ThreadShare


class ChainStep(BlockedStep):
    """A step method that is pickled with its functions, and without what only its constructor needed.

    It limits the threads of BLAS while it computes, and only then. Subclasses define `_refresh_data`, and `_reset`,
    which starts the state of a chain. What changes while a chain runs is a field of their `_state_class`, or one of
    their `_caches`.
    """

    default_blocked = True
    _granted: ThreadShare | None = None
    _threads: ThreadShare = ThreadShare(None)

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Forget the arguments, which PyMC keeps for copies: they hold the model, and `__reduce__` copies without."""
        step = super().__new__(cls, *args, **kwargs)
        if isinstance(step, cls):
            for name in [name for name in vars(step) if name.startswith("_")]:
                delattr(step, name)
        return step

    def share_threads(self, granted: ThreadShare) -> None:
        """Tell the chains of this step method how many threads each of them may use."""
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
        """Attributes that are functions of the state, with what stands there until they are computed."""
        return {}

    def _forget(self) -> None:
        self.__dict__.update(self._caches())

    def setup_chain(self, rng: Any, tune: int, draws: int) -> None:
        """Forget the last chain, take this chain's random generator, and read the data again."""
        super().setup_chain(rng, tune, draws)
        self._threads = self._granted or ThreadShare.untold()
        with threads_limited(1):
            self._refresh_data()
            self._reset(tune, draws)

    @property
    def sampling_state(self) -> Any:
        """The chain's state; setting it drops what is cached."""
        return BlockedStep.sampling_state.fget(self)

    @sampling_state.setter
    def sampling_state(self, state: Any) -> None:
        BlockedStep.sampling_state.fset(self, state)
        self._forget()

    def __getstate__(self) -> dict[str, Any]:
        """Leave caches behind."""
        return self.__dict__ | self._caches()

    def __reduce__(self) -> tuple[Any, ...]:
        """Make the copy without PyMC's `__new__`, which looks for a model."""
        return object.__new__, (type(self),), self.__getstate__()
