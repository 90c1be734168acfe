"""All of a model's joint density as functions of JAX, and its variables as the trace shows them."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.util import get_default_varnames

from pmgp.core.dense_jax.fits import Terms
from pmgp.core.dense_jax.programs import program
from pmgp.interface.dense_jax.data import GraphData
from pmgp.interface.model.graph_likelihood import with_checks_as_values
from pmgp.interface.model.latent_gaussian import LatentGaussianModel, ModelError
from pmgp.interface.tiles.jax_functions import jax_function


class JaxJointDensity:
    """log p(theta), p(f|theta), the terms of log p(y|f, theta), and the trace's variables, from a model's graph.

    The functions take the data, which may change between two runs, as their first argument.

    Parameters
    ----------
    model : pymc.Model
    parts : LatentGaussianModel
        One latent vector with a covariance matrix.

    Raises
    ------
    ModelError
        If a term of the likelihood depends on several latent values.
    UnsupportedGraphError
        If PyTensor has no JAX function for an operation.
    """

    def __init__(self, model: pm.Model, parts: LatentGaussianModel) -> None:
        if not parts.sites_known:
            raise ModelError(
                f"a term of the likelihood depends on several values of {parts.latent_name!r}, or which one it depends "
                'on is not known: chain_method="vectorized" needs one for each term; use chain_method="parallel"'
            )
        self.size, self._index = len(parts.initial_moments[0]), _index_of(parts)
        named = get_default_varnames(model.unobserved_value_vars, include_transformed=False)
        self.names = [one.name for one in named]
        written = parts.graphs
        log_prior, *terms = with_checks_as_values([written.log_prior, *written.likelihood])
        prior, f = [log_prior, written.mean, written.covariance], parts.latent_value
        # JAX cannot differentiate all of its functions twice.
        gradient = pt.grad(pt.add(*[term.sum() for term in terms], 0.0), f)
        slope = pt.grad(gradient.sum(), f, disconnected_inputs="ignore")
        graphs, theta = parts.theta.write([*prior, *terms, gradient, slope, *named])
        self._data = GraphData(graphs)
        inputs, graphs = self._data.inputs, self._data.graphs
        ends = np.cumsum([0, len(prior), len(terms), 2, len(named)])
        of_prior, of_terms, derivatives, of_named = (graphs[slice(*both)] for both in pairwise(ends))
        self._prior = jax_function([theta, *inputs], of_prior)
        self._terms = jax_function([theta, f, *inputs], of_terms)
        self._derivatives = jax_function([theta, f, *inputs], derivatives)
        self._named = jax_function([theta, f, *inputs], of_named)
        self._several_draws = program()(jax.vmap(self._shown_at, in_axes=(None, 0, 0)))

    @property
    def data(self) -> tuple[Any, ...]:
        """The data as they are now."""
        return self._data.values()

    def prior(self, data: Any, theta: Any) -> tuple[Any, Any, Any]:
        """Return log p(theta) on the unconstrained scale, and the mean (n,) and covariance (n, n) of f."""
        log_prior, mean, covariance = (jnp.asarray(one, float) for one in self._prior(theta, *data))
        return log_prior, jnp.broadcast_to(mean, (self.size,)), covariance

    def terms(self, data: Any, theta: Any) -> Terms:
        """Return log p(y|f, theta) for each latent value, and its derivatives, as functions of f."""
        return Terms(partial(self._log_density, data, theta), lambda f: self._derivatives(theta, f, *data))

    def _log_density(self, data: Any, theta: Any, f: Any) -> Any:
        values = jnp.concatenate([jnp.ravel(jnp.asarray(one, float)) for one in self._terms(theta, f, *data)])
        return values if self._index is None else jnp.zeros(self.size).at[self._index].add(values)

    def shown(self, data: Any, theta: np.ndarray, f: np.ndarray) -> dict[str, np.ndarray]:
        """Return the trace's variables by name: (draws, dimension) and (draws, n) to (draws, ...)."""
        found = self._several_draws(data, theta, f)
        return {name: np.array(values) for name, values in zip(self.names, found, strict=True)}

    def _shown_at(self, data: Any, theta: Any, f: Any) -> Any:
        return self._named(theta, f, *data)


def _index_of(parts: LatentGaussianModel) -> np.ndarray | None:
    """Return the latent value of each term, or None if the terms are in the order of f."""
    return None if parts.terms is None or parts.terms.in_order else parts.terms.index
