"""The minibatch bound, and a compiled function that makes many steps of Adam on it (article, equations 8 to 12)."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.scipy.special import logsumexp

from pmgp.core.deep.likelihoods import JaxLikelihood
from pmgp.core.deep.network import Network


class Stage(NamedTuple):
    """Settings of a run of steps.

    `length` is the number of steps in one call, `samples` the Monte Carlo samples for each point, `batch` the points
    of a step, `rate` Adam's learning rate; hyper-parameters stay where they are before step `frozen_until`. `sharding`
    distributes the rows of a batch over several devices, and is None for one.
    """

    length: int
    samples: int
    batch: int
    rate: float
    frozen_until: int
    sharding: Any = None


class TrainingState(NamedTuple):
    """The state that the next step needs: its number, the parameters, and Adam's moments for q and for theta."""

    step: Any
    parameters: dict[str, Any]
    moments: dict[str, Any]


def begin(network: Network, likelihood: JaxLikelihood, X: Any) -> TrainingState:
    """Return the state before the first step."""
    parameters = network.start(X.dtype, float(X.var(axis=0).sum()) or None)
    parameters["likelihood"] = [jnp.asarray(value, X.dtype) for value in likelihood.start]
    groups = _groups(parameters)
    moments = {name: optax.adam(1.0).init(groups[name]) for name in groups}  # the same at any learning rate
    return TrainingState(jnp.zeros((), jnp.int32), parameters, moments)


@partial(jax.jit, static_argnames=("network", "samples", "local"))
def latent_draws(
    network: Network, parameters: Any, frozen: Any, X: Any, key: Any, samples: int, local: bool | None = None
) -> Any:
    """Draw f from q, shape (samples, n, C); all points share the weights of a draw unless `local`."""
    keys = jax.random.split(key, samples)
    chosen = network.local if local is None else local
    return jax.vmap(lambda one: network.forward(parameters, frozen, X, one, chosen))(keys)


def bound(
    network: Network,
    likelihood: JaxLikelihood,
    parameters: Any,
    frozen: Any,
    X: Any,
    y: Any,
    key: Any,
    total: int,
    samples: int,
) -> Any:
    """Return an unbiased estimate of the bound on log p(y), in nats, from a batch of the `total` observations."""
    f = latent_draws(network, parameters, frozen, X, key, samples)
    terms = jax.vmap(lambda one: likelihood.log_density(y, one, parameters["likelihood"]))(f)
    return total / len(y) * jnp.sum(jnp.mean(terms, axis=0)) - network.divergence(parameters)


@partial(jax.jit, static_argnames=("network", "likelihood", "stage"))
def batch_gradient(
    network: Network, likelihood: JaxLikelihood, stage: Stage, parameters: Any, frozen: Any, X: Any, y: Any, key: Any
) -> tuple[Any, Any]:
    """Return minus the bound per observation from a batch that the key draws, and its gradient in the parameters.

    Several devices compute the terms of their own rows of the batch, with the random numbers that one device would
    use, and the gradient is added up over all of them.
    """
    index_key, draw_key = jax.random.split(key)
    indices = jax.random.randint(index_key, (stage.batch,), 0, len(y))
    inputs, seen = (_dealt(part[indices], stage.sharding) for part in (X, y))

    def objective(parameters: Any) -> Any:
        value = bound(network, likelihood, parameters, frozen, inputs, seen, draw_key, len(y), stage.samples)
        return -value / len(y)

    return jax.value_and_grad(objective)(parameters)


def _dealt(array: Any, sharding: Any) -> Any:
    return array if sharding is None else jax.lax.with_sharding_constraint(array, sharding)


@partial(jax.jit, static_argnames=("network", "likelihood", "stage"))
def advance(
    network: Network,
    likelihood: JaxLikelihood,
    stage: Stage,
    state: TrainingState,
    frozen: Any,
    X: Any,
    y: Any,
    key: Any,
) -> tuple[TrainingState, Any]:
    """Take `stage.length` steps; return the state after them, and the mean of their bounds.

    A step's random numbers depend on the key and on its number only, so that an interrupted run can be continued.
    """

    def step(state: TrainingState, _: None) -> tuple[TrainingState, Any]:
        step_key = jax.random.fold_in(key, state.step)
        value, gradient = batch_gradient(network, likelihood, stage, state.parameters, frozen, X, y, step_key)
        return _adam(state, gradient, stage), -value * len(y)

    state, bounds = jax.lax.scan(step, state, length=stage.length)
    return state, jnp.mean(bounds)


def _adam(state: TrainingState, gradient: Any, stage: Stage) -> TrainingState:
    """Take a step of Adam for q, and one for theta unless it is frozen; theta's moments begin when it is freed."""
    optimizer = optax.adam(stage.rate)
    gradients, values = _groups(gradient), _groups(state.parameters)
    moments, moved = {}, {}
    for name in values:
        updates, moments[name] = optimizer.update(gradients[name], state.moments[name])
        moved[name] = optax.apply_updates(values[name], updates)
    free = state.step >= stage.frozen_until
    kept = (moved["theta"], moments["theta"]), (values["theta"], state.moments["theta"])
    theta, moments["theta"] = jax.tree.map(lambda new, old: jnp.where(free, new, old), *kept)
    return TrainingState(state.step + 1, {"q": moved["q"], **theta}, moments)


def _groups(parameters: dict[str, Any]) -> dict[str, Any]:
    """Split a vector into the parameters of q and the hyper-parameters."""
    return {"q": parameters["q"], "theta": {name: parameters[name] for name in ("theta", "likelihood")}}


@partial(jax.jit, static_argnames=("network", "likelihood", "samples"))
def predictive_density(
    network: Network, likelihood: JaxLikelihood, parameters: Any, frozen: Any, X: Any, y: Any, key: Any, samples: int
) -> Any:
    """Return the log predictive density of each observation, (n,), in nats: the log of the mean over draws of f."""
    f = latent_draws(network, parameters, frozen, X, key, samples)
    return density_over_draws(likelihood, f, y, parameters["likelihood"])


def density_over_draws(likelihood: JaxLikelihood, f: Any, y: Any, theta: Any) -> Any:
    """Return the log of the mean over draws, (draws, n, C), of the density of each observation: (n,)."""
    terms = jax.vmap(lambda one: likelihood.log_density(y, one, theta))(f)
    return logsumexp(terms, axis=0) - jnp.log(len(f))
