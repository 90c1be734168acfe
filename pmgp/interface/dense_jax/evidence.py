"""The evidence of multivariate normal observations on a device: one factorization, after which C is not kept."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from pmgp.core.dense_jax.programs import evidence_bars, in_double, log_normal, program
from pmgp.core.gaussians.dense import RELATIVE_JITTERS
from pmgp.interface.dense_jax.covariance import JaxCovariance
from pmgp.interface.dense_jax.devices import PLENTY, OfOneProcess, compiled, memory_of
from pmgp.interface.model.normal_evidence import probes_of
from pmgp.interface.model.observed_normal import ObservedNormal


class _Programs(NamedTuple):
    """Compiled functions of theta, the model's data, y and a relative jitter.

    `value`: log N(y|m, C); `bars`: the same, with its gradients in m and C, the latter estimated if there are probes.
    """

    value: Any
    bars: Any


class JaxEvidence(OfOneProcess):
    """The function from theta to log N(y|m, C) with C on a device, in double precision.

    `parts` are those of the model; `device` and errors are those of `JaxCovariance`.
    """

    def __init__(self, parts: ObservedNormal, device: str | None = None) -> None:
        super().__init__()
        self._covariance = JaxCovariance(parts.mean, parts.covariance, parts.theta, device)
        self._y, self._probed = parts.y, False

    @classmethod
    def within(cls, parts: ObservedNormal, device: str | None, memory: float | None) -> Self:
        """Return a function whose programs fit into the memory of a device, or into the given bytes of it."""
        found, size = cls(parts, device), len(parts.y)
        has = memory_of(found._covariance.device) if memory is None else memory
        if PLENTY * 8 * size**2 > has and (needed := found.needed(parts.theta.initial)) > has:
            raise MemoryError(
                f"log p(y|theta) of {size} observations and its gradient take {needed / 1e9:.3g} GB, and "
                f"{has / 1e9:.3g} GB are allowed: use a device with more memory, or inducing inputs (pmgp.gp.Sparse)"
            )
        return found

    def value(self, theta: np.ndarray) -> float:
        """Return log p(y|theta); minus infinity if C is indefinite."""
        found = (float(self._call(self._programs.value, theta, jitter)) for jitter in (0.0, *RELATIVE_JITTERS))
        return next(filter(np.isfinite, found), -np.inf)

    def with_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return log p(y|theta) with its gradient; minus infinity if C is indefinite."""
        for jitter in (0.0, *RELATIVE_JITTERS):
            value, mean_bar, covariance_bar = self._call(self._programs.bars, theta, jitter, self._signs)
            if np.isfinite(float(value)):
                return float(value), self._covariance.pullback(theta, covariance_bar, np.array(mean_bar))
        return -np.inf, np.zeros_like(theta)

    def probed(self) -> Self:
        """Return the same function with gradients that are estimated, in less time."""
        found = copy(self)
        found._probed = True
        return found

    @in_double
    def needed(self, theta: np.ndarray) -> int:
        """Return the bytes that the largest of the programs takes."""
        given = *self._covariance.at(theta), self._y, 0.0
        programs = [compiled(one.__wrapped__.lower(*given)).memory_analysis() for one in self._programs]
        taken = [one.temp_size_in_bytes + one.output_size_in_bytes for one in programs]
        return max(*taken, 8 * len(self._y) ** 2 + self._covariance.temporary(theta))

    def _call(self, function: Any, theta: np.ndarray, *given: Any) -> Any:
        return function(*self._covariance.at(theta), self._y, *given)

    @cached_property
    def _signs(self) -> np.ndarray | None:
        return probes_of(len(self._y)) if self._probed else None

    @cached_property
    def _programs(self) -> _Programs:
        moments = self._covariance.moments

        def value(theta: Any, data: tuple[Any, ...], y: Any, jitter: Any) -> Any:
            return log_normal(*moments(theta, data), y, jitter)

        def bars(theta: Any, data: tuple[Any, ...], y: Any, jitter: Any, signs: Any = None) -> Any:
            return evidence_bars(*moments(theta, data), y, jitter, signs)

        return _Programs(program()(value), program()(bars))
