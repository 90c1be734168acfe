"""Small problems with several latent vectors, and what dense linear algebra says about them."""

from __future__ import annotations

import numpy as np
from scipy.linalg import block_diag
from scipy.special import logsumexp

from pmgp.core.gaussians import BlockPrior, DensePrior
from pmgp.core.likelihoods import MultinomialLogit


def kernel(x: np.ndarray, variance: float, lengthscale: float) -> np.ndarray:
    """Squared exponential, with a jitter."""
    squares = np.square(x[:, None, :] - x[None, :, :]).sum(axis=-1)
    return np.asfortranarray(variance * np.exp(-0.5 * squares / lengthscale**2) + 1e-4 * np.eye(len(x)))


def classification(n: int, classes: int, seed: int = 0, means: bool = False) -> tuple[BlockPrior, MultinomialLogit]:
    """Labels drawn from processes with a kernel each."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    parts = [DensePrior(means * 0.5 * rng.normal(size=n), kernel(x, 2.0 + c, 1.0 + 0.3 * c)) for c in range(classes)]
    prior = BlockPrior(parts)
    f = prior.sample(rng, 1).reshape(classes, n)
    return prior, MultinomialLogit((f + rng.gumbel(size=f.shape)).argmax(axis=0), classes)


def dense_prior(prior: BlockPrior) -> DensePrior:
    """The same prior as one dense one."""
    covariance = block_diag(*[np.tril(k) + np.tril(k, -1).T for k in prior.covariances])
    return DensePrior(prior.mean, np.asfortranarray(covariance))


def dense_matrix(blocks: np.ndarray) -> np.ndarray:
    """(n, C, C) blocks as a matrix over flat vectors."""
    n, number, _ = blocks.shape
    full = np.zeros((number, n, number, n))
    full[:, np.arange(n), :, np.arange(n)] = blocks
    return full.reshape(number * n, number * n)


def site_blocks(matrix: np.ndarray, n: int) -> np.ndarray:
    """Return the blocks of a matrix over flat vectors that belong to one site each: (n, C, C)."""
    number = len(matrix) // n
    return np.einsum("cidi->icd", matrix.reshape(number, n, number, n))


def rank_one(n: int, weights: tuple[float, ...], seed: int = 0) -> tuple[BlockPrior, MultinomialLogit, float]:
    """Labels with K_c = w_c x x', whose evidence is an integral over as many slopes as there are classes, at any n.

    The softmax needs differences of slopes alone, but the slopes are summed over all the same, on a grid.
    """
    rng = np.random.default_rng(seed)
    x, scale = rng.normal(size=n), np.sqrt(weights)
    covariance = np.outer(x, x)
    parts = [DensePrior(np.zeros(n), np.asfortranarray(w * covariance + 1e-8 * np.eye(n))) for w in weights]
    slopes = scale * rng.normal(size=len(weights))
    labels = (np.outer(slopes, x) + rng.gumbel(size=(len(weights), n))).argmax(axis=0)
    likelihood = MultinomialLogit(labels, len(weights))
    axis = np.linspace(-6.0, 6.0, 49)
    grid = np.stack(np.meshgrid(*[axis] * len(weights), indexing="ij"), axis=-1).reshape(-1, len(weights))
    values = [
        likelihood.log_likelihood((u[:, :, None] * (scale[:, None] * x)).reshape(len(u), -1))
        for u in np.array_split(grid, 40)
    ]
    terms = np.concatenate(values) - 0.5 * np.square(grid).sum(axis=1)
    step = np.log((axis[1] - axis[0]) / np.sqrt(2.0 * np.pi))
    return BlockPrior(parts), likelihood, float(logsumexp(terms) + len(weights) * step)
