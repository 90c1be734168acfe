"""Over models of many forms, predictions are the averages of PyMC's own draws, within Monte Carlo error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytest
import xarray as xr
from pytensor.graph.traversal import ancestors

import pmgp
from pmgp.interface.graphs.compilation import INTERPRETED

N, M, REPEATS = 12, 4, 300
QUIETLY = {"random_seed": 11, "progressbar": False, "compile_kwargs": {"mode": INTERPRETED}}


@pytest.fixture(scope="module", autouse=True)
def quick_compilation():
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield


def two_kernels(scale, lengthscale):
    return scale**2 * pm.gp.cov.ExpQuad(2, ls=lengthscale, active_dims=[0]) + pm.gp.cov.Matern32(
        2, ls=1.0, active_dims=[1]
    )


KERNELS = {
    "exponentiated quadratic": lambda scale, lengthscale: scale**2 * pm.gp.cov.ExpQuad(2, ls=lengthscale),
    "relevance": lambda scale, lengthscale: scale**2 * pm.gp.cov.Matern52(2, ls=lengthscale * np.array([0.7, 2.0])),
    "additive": two_kernels,
    "periodic": lambda scale, lengthscale: scale**2 * pm.gp.cov.Periodic(2, period=2.0, ls=lengthscale),
    "product": lambda scale, lengthscale: (
        pm.gp.cov.RatQuad(2, ls=lengthscale, alpha=1.5) * (scale**2 + pm.gp.cov.Linear(2, c=0.0))
    ),
    "white noise": lambda scale, lengthscale: (
        scale**2 * pm.gp.cov.Exponential(2, ls=lengthscale) + pm.gp.cov.WhiteNoise(0.4)
    ),
}
MEANS = {
    "zero": pm.gp.mean.Zero,
    "constant": lambda: pm.gp.mean.Constant(0.5),
    "linear": lambda: pm.gp.mean.Linear(coeffs=np.array([0.3, -0.2]), intercept=0.1),
}
# Of the name, the linear predictor, and a positive number for each observation.
LIKELIHOODS = {
    "probit": lambda name, eta, size, **kw: pmgp.BernoulliProbit(name, eta, **kw),
    "logit": lambda name, eta, size, **kw: pm.Bernoulli(name, logit_p=eta, **kw),
    "poisson": lambda name, eta, size, **kw: pm.Poisson(name, size * pm.math.exp(0.5 * eta), **kw),
    "binomial": lambda name, eta, size, **kw: pm.Binomial(name, n=size, p=pm.math.sigmoid(eta), **kw),
    "cox": lambda name, eta, size, **kw: pmgp.likelihoods.LogGaussianCox(name, 0.5 * eta, size, **kw),
    "negative binomial": lambda name, eta, size, **kw: pm.NegativeBinomial(
        name, mu=pm.math.exp(0.5 * eta), alpha=size, **kw
    ),
    "student": lambda name, eta, size, **kw: pm.StudentT(name, nu=6, mu=eta, sigma=size, **kw),
    "gamma": lambda name, eta, size, **kw: pm.Gamma(name, alpha=size, beta=size * pm.math.exp(-0.5 * eta), **kw),
    "ordered": lambda name, eta, size, **kw: pm.OrderedLogistic(name, eta=eta, cutpoints=[-0.5, 0.8], **kw),
    "ordinal": lambda name, eta, size, **kw: pmgp.OrdinalProbit(name, eta, [-0.5, 0.8], size, **kw),
    "zero-inflated": lambda name, eta, size, **kw: pm.ZeroInflatedPoisson(
        name, psi=0.6, mu=size * pm.math.exp(0.5 * eta), **kw
    ),
    "beta": lambda name, eta, size, **kw: pm.Beta(name, mu=pm.math.sigmoid(eta), nu=1.0 + size, **kw),
}
DISCRETE = {"poisson", "binomial", "cox", "negative binomial", "ordered", "ordinal", "zero-inflated", "probit", "logit"}
SELECTIONS = {"all": np.arange(N), "repeated": np.repeat(np.arange(N), 2)[::-1], "part": np.arange(N)[2:9]}
COVARIATES = ("none", "own", "inputs")
CASES = list(range(len(LIKELIHOODS)))


@dataclass
class Case:
    """A model drawn at random, at old and at new points."""

    likelihood: str
    kernel: str
    mean: str
    selection: str
    covariates: str
    X: np.ndarray
    Xnew: np.ndarray
    rng: np.random.Generator

    @classmethod
    def drawn(cls, seed: int) -> Case:
        """Every likelihood has its turn; the rest is by chance."""
        rng = np.random.default_rng(seed)
        chosen = [str(rng.choice(list(options))) for options in (KERNELS, MEANS, SELECTIONS, COVARIATES)]
        likelihood = list(LIKELIHOODS)[seed % len(LIKELIHOODS)]
        return cls(likelihood, *chosen, rng.normal(size=(N, 2)), rng.normal(size=(M, 2)), rng)

    def data(self, number: int, X: np.ndarray) -> dict[str, np.ndarray]:
        """What belongs to observations."""
        sizes = self.rng.integers(1, 5, size=number)
        return {"size": sizes, "Z": X if self.covariates == "inputs" else self.rng.normal(size=(number, 2))}

    def build(self, data: dict[str, np.ndarray], new: dict[str, np.ndarray]) -> tuple[pm.Model, pm.Model]:
        """The model, and the same with PyMC's conditional at the new points."""
        return self._model(data, None), self._model(data, new)

    def _model(self, data: dict[str, np.ndarray], new: dict[str, np.ndarray] | None) -> pm.Model:
        index = SELECTIONS[self.selection]
        with pm.Model() as model:
            scale, lengthscale = pm.HalfNormal("scale"), pm.HalfNormal("lengthscale")
            beta = pm.Normal("beta", shape=2)
            gp = pm.gp.Latent(mean_func=MEANS[self.mean](), cov_func=KERNELS[self.kernel](scale, lengthscale))
            X = pm.Data("X", self.X)
            f = gp.prior("f", X=X, reparameterize=False)
            if new is None:
                # The inputs belong to places, and are repeated like f.
                Z = X[index] if self.covariates == "inputs" else pm.Data("Z", data["Z"])
                self._observe("y", f[index], pm.Data("size", data["size"]), Z, beta, observed=self._plausible())
            else:
                self._observe("ynew", gp.conditional("fnew", self.Xnew), new["size"], new["Z"], beta)
        return model

    def _observe(self, name: str, f: Any, size: Any, Z: Any, beta: Any, **kwargs: Any) -> None:
        eta = f if self.covariates == "none" else f + pm.math.dot(Z, beta)
        LIKELIHOODS[self.likelihood](name, eta, size, **kwargs)

    def _plausible(self) -> np.ndarray:
        number = len(SELECTIONS[self.selection])
        return np.ones(number, int) if self.likelihood in DISCRETE else np.full(number, 0.5)

    def posterior(self) -> xr.DataTree:
        """Three points, each many times."""
        points = {
            "scale": np.array([0.5, 0.9, 1.2]),
            "lengthscale": np.array([0.6, 1.0, 1.5]),
            "beta": self.rng.normal(size=(3, 2)) * 0.4,
            "f": np.sin(self.X.sum(axis=1)) * np.array([[0.5], [0.8], [1.0]]),
        }
        variables = {
            name: (
                ("chain", "draw", *(f"{name}_{i}" for i in range(values.ndim - 1))),
                np.repeat(values, REPEATS, 0)[None],
            )
            for name, values in points.items()
        }
        return xr.DataTree.from_dict({"posterior": xr.Dataset(variables)})


def close(draws: np.ndarray, expected: np.ndarray) -> bool:
    """Whether means over draws are as expected; rare events have a spread that a few draws may not show."""
    error = draws.std(axis=0) / np.sqrt(len(draws))
    return bool(np.all(np.abs(draws.mean(axis=0) - expected) < 4.5 * error + 5.0 / len(draws)))


@pytest.mark.parametrize("seed", CASES)
def test_predictions_are_averages_of_pymc(seed):
    case = Case.drawn(seed)
    data, new = case.data(len(SELECTIONS[case.selection]), case.X), case.data(M, case.Xnew)
    model, conditional = case.build(data, new)
    idata = case.posterior()
    at = {v.name: new[v.name] for v in model.data_vars if v.name in new and v in set(ancestors([model["y"]]))}
    prediction = pmgp.predict(idata, case.Xnew, model=model, at=at, draws=None, progressbar=False)
    with conditional:
        group = pm.sample_posterior_predictive(idata, var_names=["fnew", "ynew"], **QUIETLY)["posterior_predictive"]
    f, y = (group[name].to_numpy()[0] for name in ("fnew", "ynew"))
    assert close(f, prediction["latent_mean"].to_numpy())
    assert close(np.square(f - prediction["latent_mean"].to_numpy()), prediction["latent_variance"].to_numpy())
    for name in set(prediction.data_vars) & {"mean", "probability"}:
        assert close(y, prediction[name].to_numpy())
    if "probabilities" in prediction:
        assert close(y[..., None] == np.arange(3), prediction["probabilities"].to_numpy())
    assert len(prediction.data_vars) > 2
