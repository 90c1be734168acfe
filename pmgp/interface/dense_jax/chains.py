"""A model's exact chains as programs of JAX: started, tuned and drawn together; their memory is checked beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
import pymc as pm
from pymc.exceptions import SamplingError

from pmgp.core.approximations import Approximation, ExpectationPropagation, Laplace
from pmgp.core.dense_jax.chain import Info, Point, Target
from pmgp.core.dense_jax.chains import Chains
from pmgp.core.dense_jax.fits import at_mode, propagated
from pmgp.core.dense_jax.programs import in_double
from pmgp.interface.dense_jax.devices import compiled, device_of, memory_of
from pmgp.interface.dense_jax.joint_density import JaxJointDensity
from pmgp.interface.dense_jax.learning import Learning
from pmgp.interface.model.latent_gaussian import LatentGaussianModel

START_ATTEMPTS = 20


class Settings(NamedTuple):
    """The settings of the chains.

    `approximation`: Laplace or ExpectationPropagation; `draws`: importance samples; `transitions`, `latent_moves`: see
    `PseudoMarginal`; `target_acceptance`: of the random walk; `device`, `memory`: see `JaxMatrices`.
    """

    approximation: Approximation
    draws: int
    transitions: int
    latent_moves: int
    target_acceptance: float
    device: str | None
    memory: float | None


class Drawn(NamedTuple):
    """An iteration of all chains: theta (chains, dimension), a report, log-estimates and effective sizes (chains,)."""

    theta: np.ndarray
    info: Info
    log_estimate: np.ndarray
    effective_size: np.ndarray


class VectorizedChains:
    """Chains of a model that are one program; see `pmgp.sample`.

    Raises
    ------
    ModelError, UnsupportedGraphError
        See `JaxJointDensity`.
    MemoryError
        If the chains do not fit into the memory of the device, or into the given bytes of it.
    """

    def __init__(self, model: pm.Model, parts: LatentGaussianModel, chains: int, settings: Settings) -> None:
        self.number, self._settings = chains, settings
        self.density = JaxJointDensity(model, parts)
        self._device = device_of(settings.device)
        self._initial = parts.initial_theta
        self._data = self._placed(self.density.data)
        self._programs = Chains(self._target)
        self._drawing = self._compiled()
        self.refuse_more_than(memory_of(self._device) if settings.memory is None else settings.memory)

    @in_double
    def _placed(self, values: Any) -> Any:
        return jax.device_put(values, self._device)

    def _target(self, data: Any) -> Target:
        """Return the model and the approximation as functions of JAX."""
        fit, begin = _searches(self._settings.approximation)
        prior, terms = partial(self.density.prior, data), partial(self.density.terms, data)
        return Target(prior, terms, fit, begin, *self._settings[1:4])

    @in_double
    def _compiled(self) -> Any:
        """Return the program of an iteration, whose memory is known before any is taken."""
        programs, key, none = self._programs, jax.random.key(0), np.asarray(0)
        theta = np.tile(self._initial, (self.number, 1))
        points = jax.eval_shape(programs.begin.__wrapped__, self._data, theta)
        states, start = jax.eval_shape(programs.freeze.__wrapped__, self._data, key, points)
        proposal = Learning(len(self._initial), 1, self._settings.target_acceptance).proposal
        return compiled(programs.draw.__wrapped__.lower(self._data, proposal, key, none, states, start))

    def refuse_more_than(self, memory: float) -> None:
        """Refuse chains whose iteration takes more bytes, as XLA counts them."""
        analysis = self._drawing.memory_analysis()
        needed = analysis.temp_size_in_bytes + analysis.argument_size_in_bytes + analysis.output_size_in_bytes
        if needed > memory:
            raise MemoryError(
                f"{self.number} chains with {self.density.size} latent values take {needed / 1e9:.3g} GB at once, and "
                f"{memory / 1e9:.3g} GB are allowed: run fewer chains, use a device with more memory, or inducing "
                "inputs (pmgp.gp.Sparse)"
            )

    def started(self, rng: np.random.Generator) -> Point | None:
        """Return the screen at thetas within one unit of the model's initial point; None if no chain can start."""
        theta, found = self._dispersed(rng), None
        for attempt in range(START_ATTEMPTS):
            found = self._programs.begin(self._data, self._placed(theta))
            unusable = ~np.isfinite(found.log_screen)
            if not unusable.any():
                return found
            others = self._dispersed(rng) if attempt < START_ATTEMPTS - 2 else np.tile(self._initial, (self.number, 1))
            theta[unusable] = others[unusable]
        return None

    def _dispersed(self, rng: np.random.Generator) -> np.ndarray:
        return self._initial + rng.uniform(-1.0, 1.0, (self.number, len(self._initial)))

    def iterations(self, rng: np.random.Generator, points: Point, tune: int, draws: int) -> Iterator[Drawn | None]:
        """Yield None for each iteration of tuning, and then the draws of each iteration."""
        programs, data = self._programs, self._data
        learning = Learning(len(self._initial), tune, self._settings.target_acceptance)
        tuning, freezing, drawing = (self._key(rng) for _ in range(3))
        for number in range(tune):
            points, report = programs.tune(data, learning.proposal, tuning, number, points)
            learning.learn(np.array(points.theta), report)
            yield None
        learning.freeze()
        states, start = programs.freeze(data, freezing, points)
        if not np.isfinite(states.point.log_screen).all() or not np.isfinite(states.estimate.log_evidence).all():
            raise SamplingError(
                "no chain can begin where tuning has ended: the approximation does not converge, or every importance "
                "weight vanishes, in all of them; tune longer, or give more importance samples"
            )
        for number in range(draws):
            states, info = self._drawn(learning.proposal, drawing, np.asarray(number), states, start)
            theta, estimate = np.array(states.point.theta), states.estimate
            kept = jax.tree.map(np.array, (info, estimate.log_evidence, estimate.effective_size))
            yield Drawn(theta, *kept)

    @in_double
    def _drawn(self, *given: Any) -> Any:
        return self._drawing(self._data, *given)

    @in_double
    def _key(self, rng: np.random.Generator) -> Any:
        return self._placed(jax.random.key(int(rng.integers(2**63))))

    def shown(self, theta: np.ndarray, f: np.ndarray) -> dict[str, np.ndarray]:
        """Return the trace's variables by name: (draws, dimension) and (draws, n) to (draws, ...)."""
        return self.density.shown(self._data, self._placed(theta), self._placed(f))


def _searches(approximation: Approximation) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the search for q from a start, and the search for the first start."""
    if isinstance(approximation, Laplace):
        steps, sweeps = approximation.max_iterations, approximation.sweeps
        search = partial(at_mode, tolerance=approximation.tolerance, most=steps, sweeps=sweeps)
        return search, lambda prior, terms: prior.mean
    assert isinstance(approximation, ExpectationPropagation)
    first = approximation.laplace

    def begin(prior: Any, terms: Any) -> Any:
        return at_mode(prior, terms, prior.mean, first.tolerance, first.max_iterations).sites

    return partial(propagated, tolerance=approximation.tolerance, most=approximation.max_sweeps), begin
