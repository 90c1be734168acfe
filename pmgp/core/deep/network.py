"""Layers of random features, their weights and frequencies under q, and the divergence of q from the prior.

The prior is W ~ N(0, 1) and Omega_ij ~ N(0, 1 / l_i^2), independently in each layer; q is a normal for each entry. In
the formulas, rows are points: F(l + 1) = Phi(F(l) Omega(l)) W(l), and F(0) = X.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import jax
import jax.numpy as jnp

from pmgp.core.deep.features import KERNELS

OMEGA = ("var-fixed", "var-resampled", "prior-fixed")
LOG_SPREAD = -3.0  # q(W) starts narrow: from the prior's spread, training takes several times as many steps.


@dataclass(frozen=True)
class Network:
    """The architecture of a deep process; its parameters are stored separately, in trees.

    - `inputs`: columns of X
    - `widths`: number of processes in each layer; the last one is the number of latent processes of the likelihood
    - `features`: columns of Omega in each layer
    - `kernel`: a name of `KERNELS`
    - `omega`: learn q(Omega), with the same standard normals in all steps or with new ones, or keep Omega at a draw
      from its prior
    - `local`: whether to draw the values of a layer independently for each point (local reparameterization), or its
      weights
    - `fed_forward`: whether hidden layers take X as inputs, in addition to the layer below
    """

    inputs: int
    widths: tuple[int, ...]
    features: int
    kernel: str = "rbf"
    omega: str = "var-fixed"
    local: bool = True
    fed_forward: bool = True

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Inputs and outputs of each layer."""
        extra = self.inputs if self.fed_forward else 0
        return [(self.inputs, self.widths[0]), *((below + extra, width) for below, width in pairwise(self.widths))]

    def start(self, dtype: Any, spread: float | None = None) -> dict[str, Any]:
        """Return the initial parameters: the prior for Omega, and a narrow normal around zero for W.

        Two trees, each with a list over the layers: ``theta`` with log variances and log length-scales, and ``q`` with
        means and log standard deviations of W and of Omega. A layer has one length-scale, such that the root mean
        squared distance of two of its inputs is sqrt(2) length-scales: `spread` is the sum of the variances of X's
        columns, by default one for each, and processes have a variance of one.
        """
        copies = KERNELS[self.kernel].copies
        spread = self.inputs if spread is None else spread
        theta, q = [], []
        for number, (below, width) in enumerate(self.shapes):
            variance = self.widths[number - 1] + self.fed_forward * spread if number else spread
            log_scale = jnp.full(below, math.log(variance) / 2, dtype)
            theta.append({"log_variance": jnp.zeros((), dtype), "log_lengthscales": log_scale})
            weights = jnp.zeros((self.features * copies, width), dtype)
            part = {"mean": weights, "log_sd": weights + LOG_SPREAD}
            if self.omega != "prior-fixed":
                frequencies = jnp.zeros((below, self.features), dtype)
                part |= {"omega_mean": frequencies, "omega_log_sd": frequencies - log_scale[:, None]}
            q.append(part)
        return {"theta": theta, "q": q}

    def frozen(self, key: Any, dtype: Any) -> list[Any]:
        """Draw the standard normals for the Omega of each layer, shape (inputs of the layer, features)."""
        keys = jax.random.split(key, len(self.widths))
        return [
            jax.random.normal(one, (below, self.features), dtype)
            for one, (below, _) in zip(keys, self.shapes, strict=True)
        ]

    def forward(self, parameters: dict[str, Any], frozen: list[Any], X: Any, key: Any, local: bool) -> Any:
        """Draw the last layer's values from q once: shape (n, latent processes).

        With `local`, the values have the right distribution at each point, but not jointly; otherwise points share W.
        """
        return self._through(parameters, frozen, X, key, _local_values if local else _drawn_values)[1]

    def last_features(self, parameters: dict[str, Any], frozen: list[Any], X: Any, key: Any) -> Any:
        """Return Phi of the last layer, (n, features times copies), with the weights below it at their means."""
        return self._through(parameters, frozen, X, key, lambda Phi, q, _: Phi @ q["mean"])[0]

    def _through(
        self, parameters: dict[str, Any], frozen: list[Any], X: Any, key: Any, values: Callable[[Any, Any, Any], Any]
    ) -> tuple[Any, Any]:
        """Return the features and the values of the last layer, where `values` takes Phi, q and a key."""
        Phi, F = None, None
        layers = zip(parameters["theta"], parameters["q"], frozen, strict=True)
        for number, (theta, q, normals) in enumerate(layers):
            omega_key, weight_key = jax.random.split(jax.random.fold_in(key, number))
            inputs = (X,) if not number else (F, X) if self.fed_forward else (F,)
            Phi = self.layer_features(theta, q, normals, inputs, omega_key)
            F = values(Phi, q, weight_key)
        return Phi, F

    def layer_features(self, theta: Any, q: Any, normals: Any, inputs: Sequence[Any], key: Any) -> Any:
        """Return Phi of one layer, shape (n, features times copies), for arrays whose columns are its inputs.

        Each array has a product of its own, so that no gradient in X is computed, and draws share the product with X.
        """
        if self.omega == "var-resampled":
            normals = jax.random.normal(key, normals.shape, normals.dtype)
        if self.omega == "prior-fixed":
            omega = jnp.exp(-theta["log_lengthscales"])[:, None] * normals
        else:
            omega = q["omega_mean"] + jnp.exp(q["omega_log_sd"]) * normals
        ends = list(accumulate(part.shape[-1] for part in inputs))[:-1]
        projections = sum(part @ rows for part, rows in zip(inputs, jnp.split(omega, ends), strict=True))
        return KERNELS[self.kernel].features(projections, jnp.exp(theta["log_variance"]))

    def divergence(self, parameters: dict[str, Any]) -> Any:
        """Return KL(q || prior) in nats, for W of all layers and, if it is learned, Omega."""
        total = 0.0
        for theta, q in zip(parameters["theta"], parameters["q"], strict=True):
            total += normal_divergence(q["mean"], q["log_sd"], 0.0)
            if self.omega != "prior-fixed":
                total += normal_divergence(q["omega_mean"], q["omega_log_sd"], -theta["log_lengthscales"][:, None])
        return total


def normal_divergence(mean: Any, log_sd: Any, prior_log_sd: Any) -> Any:
    """Return the summed divergence of independent normals from N(0, exp(2 prior_log_sd)), in nats."""
    log_ratio = log_sd - prior_log_sd
    return jnp.sum((jnp.exp(2 * log_ratio) + (mean * jnp.exp(-prior_log_sd)) ** 2 - 1) / 2 - log_ratio)


def _local_values(Phi: Any, q: Any, key: Any) -> Any:
    """Draw values from N(Phi m, Phi^2 s^2), independently for each point."""
    mean = Phi @ q["mean"]
    variance = Phi**2 @ jnp.exp(2 * q["log_sd"])
    # Ramps may all be zero at a point. The square root has no gradient there, and the chosen branch must not see it.
    positive = variance > 0
    deviation = jnp.where(positive, jnp.sqrt(jnp.where(positive, variance, 1)), 0)
    return mean + deviation * jax.random.normal(key, mean.shape, mean.dtype)


def _drawn_values(Phi: Any, q: Any, key: Any) -> Any:
    """Draw weights once, and return the values of all points with them."""
    normals = jax.random.normal(key, q["mean"].shape, q["mean"].dtype)
    return Phi @ (q["mean"] + jnp.exp(q["log_sd"]) * normals)
