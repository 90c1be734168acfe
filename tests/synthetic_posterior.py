"""A posterior with known properties, in the shape PyMC and pmgp's step methods give it."""

import arviz
import numpy as np
import xarray as xr

FEATURES = ("clump_thickness", "cell_size", "mitoses")


def autoregressive(rng, shape, correlation):
    """Draw stationary AR(1) chains (chain, draw, ...) with unit variance along the draws."""
    draws = rng.normal(size=shape)
    for t in range(1, shape[1]):
        draws[:, t] = correlation * draws[:, t - 1] + np.sqrt(1 - correlation**2) * draws[:, t]
    return draws


def make_posterior(chains=2, draws=400, ard=True, n=12, correlation=0.6, shift=0.0, seed=1):
    """Build a DataTree; `shift` moves the last chain's log length-scales apart by that much."""
    rng = np.random.default_rng(seed)
    shape = (chains, draws, len(FEATURES)) if ard else (chains, draws)
    log_lengthscale = 0.7 + 0.3 * autoregressive(rng, shape, correlation)
    log_lengthscale[-1] += shift
    idata = arviz.from_dict(
        {
            "posterior": {
                "lengthscale": np.exp(log_lengthscale),
                "variance": np.exp(2 + 0.5 * autoregressive(rng, (chains, draws), correlation)),
                "f": rng.normal(size=(chains, draws, n)),
            },
            "sample_stats": {
                "n_cholesky": np.full((chains, draws), 3.0) + (np.arange(draws) % 2),
                "n_inverse": np.zeros((chains, draws)),
                "n_matmul": np.ones((chains, draws)),
                "n_newton": np.full((chains, draws), 4.0),
                "accepted": np.ones((chains, draws), dtype=bool),
            },
            "observed_data": {"y": rng.integers(0, 2, size=n)},
        },
        coords={"feature": list(FEATURES), "observation": np.arange(n)},
        dims={
            "lengthscale": ["feature"] if ard else [],
            "f": ["observation"],
            "y": ["observation"],
        },
    )
    idata["posterior"].attrs["sampling_time"] = 20.0
    assert isinstance(idata, xr.DataTree)
    return idata
