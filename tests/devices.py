"""A product with K, its gradient, and the same of a deep process, on all devices of JAX; run as a program.

`python -m tests.devices FILE [ADDRESS NUMBER]` stores the results. With an address this process, of this number, is
one of two that share the work, and a fit is made too.
"""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pmgp.core.deep.likelihoods import LIKELIHOODS
from pmgp.core.deep.network import Network
from pmgp.core.deep.training import Stage, batch_gradient, begin
from pmgp.core.tiles.blocks import TileInputs
from pmgp.core.tiles.devices import by_rows, everywhere, mesh_of
from pmgp.core.tiles.memory import within
from pmgp.core.tiles.products import Tiles
from pmgp.deep import RandomFeatureGP

N = 150


def exponential(inputs: TileInputs, rows: Any, columns: Any) -> Any:
    """Return the squared exponential kernel between points that are scaled by shared inputs."""
    left, right = (part["X"] / inputs.shared["scale"] for part in (inputs.rows, inputs.columns))
    return jnp.exp(-0.5 * jnp.square(left[:, None] - right[None]).sum(axis=2))


def gradients(devices: Any) -> dict[str, np.ndarray]:
    """Return what tiles give, and a gradient of two layers from a batch."""
    X, mesh = np.random.default_rng(0).normal(size=(N, 3)), mesh_of(devices)
    leaves = jax.tree.leaves(deep_gradient(X, X[:, 0] ** 2, mesh))
    return by_tiles(devices) | {f"deep {number}": np.asarray(leaf) for number, leaf in enumerate(leaves)}


def by_tiles(devices: Any) -> dict[str, np.ndarray]:
    """Return a product, and the gradient of a quadratic form in the scales."""
    rng, mesh = np.random.default_rng(0), mesh_of(devices)
    X, vectors = rng.normal(size=(N, 3)), rng.normal(size=(N, 2))
    inputs = TileInputs({}, {"scale": np.array([1.0, 2.0, 0.5])}, {"X": X}, {"X": X})
    shared, _, _ = Tiles(exponential, N, 32, mesh).gradient_of_pairs(inputs, vectors, vectors)
    product = within(exponential, N, mesh, inputs, 2, False, 1e9).call(inputs, vectors)
    return {"product": np.asarray(product), "gradient": np.asarray(shared["scale"])}


def fitted(devices: Any) -> dict[str, np.ndarray]:
    """Return what a fit of one layer finds."""
    X = np.random.default_rng(1).normal(size=(N, 3))
    settings = {"steps": 2, "batch_size": 20, "frozen_steps": 1, "validation_fraction": 0.0, "dtype": "float64"}
    process = RandomFeatureGP(1, 5, devices=devices, **settings).fit(X, np.sin(X[:, 0]), progressbar=False)
    prediction = process.predict(X[:3], draws=2)["mean"].to_numpy()
    return {"bound": np.asarray(process.history_[-1]["bound"]), "prediction": prediction}


def deep_gradient(X: np.ndarray, y: np.ndarray, mesh: Any) -> Any:
    """Return the bound and its gradient from a batch, for two layers."""
    network, likelihood = Network(3, (2, 1), 8), LIKELIHOODS["gaussian"]
    # Away from the start, where some gradients are zero.
    parameters = jax.tree.map(lambda part: part + 0.3, begin(network, likelihood, np.asarray(X, float)).parameters)
    given = [parameters, network.frozen(jax.random.key(1), "float64"), X, y, jax.random.key(2)]
    stage = Stage(1, 3, 40, 0.01, 0, by_rows(mesh))
    return batch_gradient(network, likelihood, stage, *everywhere(given, mesh))


if __name__ == "__main__":
    if len(sys.argv) > 2:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(sys.argv[2], 2, int(sys.argv[3]))
    jax.config.update("jax_enable_x64", True)
    assert len(jax.devices()) == 2, jax.devices()
    np.savez(sys.argv[1], **gradients("all"), **(fitted("all") if len(sys.argv) > 2 else {}))
