"""Processor seconds of chains from their first iteration to their last, and a limit on them."""

from __future__ import annotations

import time
from typing import Any

__all__ = ["Clock"]


class Clock:
    """A callback of `pymc.sample` that ends a chain after a number of processor seconds.

    Parameters
    ----------
    most : float
        Seconds of each chain.
    """

    def __init__(self, most: float = float("inf")) -> None:
        self.most = most
        self._chains: dict[int, tuple[float, float]] = {}

    def __call__(self, trace: Any, draw: Any) -> None:
        """Take the time of an iteration.

        Raises
        ------
        KeyboardInterrupt
            If the chain has had its time; PyMC then keeps the draws that there are.
        """
        now = time.process_time()
        first = self._chains.setdefault(draw.chain, (now, now))[0]
        self._chains[draw.chain] = (first, now)
        if now - first > self.most:
            raise KeyboardInterrupt

    @property
    def seconds(self) -> float:
        """Seconds of all chains."""
        return sum(last - first for first, last in self._chains.values())
