"""What else a PyMC model and `pymc.sample` can be asked for, each with a step method: it works, or raises.

A feature is a function of what makes the step methods of a model. It asserts what the feature promises.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
from pymc.backends import zarr

import pmgp
from tests.support.models import LABELS, REALS, X, classifier, latent

__all__ = ["COLUMNS", "FEATURES"]

Make = Callable[..., Any]
FAST = {"compile_kwargs": {"mode": "FAST_COMPILE"}}


def beside_pymc(model: pm.Model, **options: Any) -> list[Any]:
    """A step for f, and PyMC's slice sampler for all else that is continuous."""
    others = [rv for rv in model.free_RVs if rv.name != "f" and rv.dtype.startswith("float")]
    return [pmgp.EllipticalSlice(model=model, **options, **FAST), *([pm.Slice(others, model=model)] if others else [])]


COLUMNS: dict[str, Make] = {
    "`PseudoMarginal`": lambda model, **options: pmgp.PseudoMarginal(model=model, **options, **FAST),
    "a step for theta, one for f": lambda model, **options: [
        pmgp.steps.Interweaving(model=model, **options, **FAST),
        pmgp.steps.LatentHMC(model=model, **options, **FAST),
    ],
    "a step for f beside PyMC's": beside_pymc,
}


def sample(model: pm.Model, step: Any, **settings: Any) -> Any:
    settings = {"draws": 4, "tune": 3, "chains": 1, "cores": 1, "random_seed": 7} | settings
    quiet = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
    with model, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pm.sample(step=step, **quiet | settings)


@cache
def plain(make: Make) -> tuple[pm.Model, Any]:
    """The plain model and its step methods, for all that is asked of a run and not of a model: chains forget others."""
    model = classifier()
    return model, make(model)


def same(one: Any, other: Any) -> None:
    for name in ("f", "lengthscale"):
        np.testing.assert_array_equal(one["posterior"][name], other["posterior"][name])


def runs(build: Callable[[], pm.Model], **options: Any) -> Callable[[Make], None]:
    """A feature of the model: it is sampled, and f moves."""

    def feature(make: Make) -> None:
        model = build()
        draws = sample(model, make(model, **options), draws=8)["posterior"]
        assert np.isfinite(draws["f"]).all()
        assert np.ptp(draws["f"].to_numpy(), axis=1).max() > 0.0

    return feature


def model_with(add: Callable[[Any], Any], **options: Any) -> Callable[[], pm.Model]:
    def build() -> pm.Model:
        with classifier(**options) as model:
            add(model)
        return model

    return build


def named_dimensions(make: Make) -> None:
    with pm.Model(coords={"point": [f"p{k}" for k in range(len(X))]}) as model:
        gp = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(2, ls=pm.Gamma("lengthscale", 3, 3)))
        pmgp.BernoulliProbit("y", gp.prior("f", X=X, dims="point", reparameterize=False), observed=LABELS, dims="point")
    draws = sample(model, make(model))["posterior"]
    assert draws["f"].sel(point="p3").shape == (1, 4)


def new_data(make: Make) -> None:
    with pm.Model() as model:
        inputs, labels = pm.Data("X", X), pm.Data("labels", LABELS)
        pmgp.BernoulliProbit("y", latent(X=inputs), observed=labels)
    step = make(model)
    assert sample(model, step)["posterior"]["f"].shape == (1, 4, len(X))
    with model:
        pm.set_data({"X": X[:5], "labels": LABELS[:5]})
    assert sample(model, step)["posterior"]["f"].shape == (1, 4, 5)


def missing_observations() -> pm.Model:
    with pm.Model() as model, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pm.Normal("y", latent(), 1.0, observed=np.ma.masked_array(REALS, mask=np.arange(len(REALS)) == 2))
    return model


def discrete_switch() -> pm.Model:
    with pm.Model() as model:
        switch = pm.Bernoulli("switch", 0.5)
        pm.Normal("y", latent() + 0.3 * switch, 1.0, observed=REALS)
    return model


def discrete_parameter() -> pm.Model:
    with pm.Model() as model:
        scale = 1.0 + pm.Bernoulli("which", 0.5)
        gp = pm.gp.Latent(cov_func=scale * pm.gp.cov.ExpQuad(2, ls=pm.Gamma("lengthscale", 3, 3)))
        pmgp.BernoulliProbit("y", gp.prior("f", X=X, reparameterize=False), observed=LABELS)
    return model


def whitened() -> pm.Model:
    with pm.Model() as model:
        gp = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(2, ls=pm.Gamma("lengthscale", 3, 3)))
        pmgp.BernoulliProbit("y", gp.prior("f", X=X), observed=LABELS)
    return model


def no_hyperparameters() -> pm.Model:
    with pm.Model() as model:
        f = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(2, ls=1.0)).prior("f", X=X, reparameterize=False)
        pmgp.BernoulliProbit("y", f, observed=LABELS)
    return model


def variable_between() -> pm.Model:
    with pm.Model() as model:
        noisy = pm.Normal("noisy", latent(), 0.5, shape=len(X))
        pmgp.BernoulliProbit("y", noisy, observed=LABELS)
    return model


def seed_repeats(make: Make) -> None:
    """Each run has step methods of its own: PyMC's slice sampler keeps what it has learnt."""
    model = classifier()
    same(sample(model, make(model)), sample(model, make(model)))


def chains(**settings: Any) -> Callable[[Make], None]:
    """Two chains in worker processes draw what two in sequence draw."""

    def feature(make: Make) -> None:
        together = sample(*plain(make), chains=2, cores=2, **settings)
        same(together, sample(*plain(make), chains=2))

    return feature


def stored_by_zarr(make: Make) -> None:
    from numcodecs import pickles

    consent, pickles.ALLOW_UNSAFE_PICKLE_DECODE = pickles.ALLOW_UNSAFE_PICKLE_DECODE, True
    try:
        trace = zarr.ZarrTrace()
        sample(*plain(make), trace=trace, return_inferencedata=False)
    finally:
        pickles.ALLOW_UNSAFE_PICKLE_DECODE = consent
    assert trace.posterior["f"].shape == (1, 4, len(X))


def initial_values(make: Make) -> None:
    start = {"lengthscale": 20.0, "f": np.zeros(len(X))}
    # PyMC's slice sampler keeps its width from an earlier run.
    model = classifier()
    draws = sample(model, make(model), tune=0, draws=5, initvals=start)["posterior"]
    assert abs(np.log(float(draws["lengthscale"][0, 0]) / 20.0)) < 3.0
    assert np.isfinite(draws["f"]).all()


def kept_tuning(make: Make) -> None:
    idata = sample(*plain(make), discard_tuned_samples=False)
    assert idata["warmup_posterior"]["f"].shape == (1, 3, len(X))


def posterior_predictive(make: Make) -> None:
    model, step = plain(make)
    idata = sample(model, step)
    with model:
        simulated = pm.sample_posterior_predictive(idata, progressbar=False)["posterior_predictive"]
    assert set(np.unique(simulated["y"])) <= {0, 1}


def conditional(make: Make) -> None:
    with pm.Model() as model:
        gp = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(2, ls=pm.Gamma("lengthscale", 3, 3)))
        pmgp.BernoulliProbit("y", gp.prior("f", X=X, reparameterize=False), observed=LABELS)
    idata = sample(model, make(model))
    with model:
        gp.conditional("fnew", X[:2] + 0.5)
        simulated = pm.sample_posterior_predictive(idata, var_names=["fnew"], progressbar=False)
    assert simulated["posterior_predictive"]["fnew"].shape == (1, 4, 2)


def second_vector() -> pm.Model:
    with pm.Model() as model:
        other = pm.MvNormal("weights", np.zeros(2), np.eye(2))
        pmgp.BernoulliProbit("y", latent() + X @ other, observed=LABELS)
    return model


def series(build: Callable[..., Any]) -> Callable[[], pm.Model]:
    """A time series in place of the process."""

    def model() -> pm.Model:
        with pm.Model() as model:
            f = build(sigma=pm.HalfNormal("scale", 1.0), init_dist=pm.Normal.dist(0.0, 1.0), shape=len(LABELS))
            pmgp.BernoulliProbit("y", f, observed=LABELS)
        return model

    return model


def autoregression(**settings: Any) -> Any:
    return pm.AR("f", rho=pm.Uniform("rho", -1.0, 1.0), **settings)


def random_walk(**settings: Any) -> Any:
    return pm.GaussianRandomWalk("f", **settings)


def process_in_time() -> pm.Model:
    with pm.Model() as model:
        kernel = pm.gp.cov.Matern32(1, ls=pm.InverseGamma("lengthscale", 3.0, 6.0))
        f = pmgp.gp.Markov(cov_func=kernel).prior("f", X=np.arange(float(len(LABELS))))
        pmgp.BernoulliProbit("y", f, observed=LABELS)
    return model


def areas() -> pm.Model:
    with pm.Model() as model:
        line = np.eye(len(LABELS), k=1) + np.eye(len(LABELS), k=-1)
        f = pm.CAR("f", mu=np.zeros(len(LABELS)), W=line, alpha=pm.Uniform("alpha", 0.0, 1.0), tau=1.0)
        pmgp.BernoulliProbit("y", f, observed=LABELS)
    return model


def field() -> pm.Model:
    with pm.Model() as model:
        lattice = pmgp.gp.Lattice((len(LABELS) // 2, 2))
        f = pmgp.gp.SPDE(lattice, lengthscale=pm.InverseGamma("lengthscale", 3.0, 6.0), sigma=1.0).prior("f")
        pmgp.BernoulliProbit("y", f, observed=LABELS)
    return model


def groups_and_series() -> pm.Model:
    with pm.Model() as model:
        tau, group = pm.HalfNormal("tau", 1.0), np.arange(len(LABELS)) % 3
        u, f = pm.Normal("u", 0.0, tau, shape=3), autoregression(shape=len(LABELS), init_dist=pm.Normal.dist(0.0, 1.0))
        pmgp.BernoulliProbit("y", u[group] + f, observed=LABELS)
    return model


def groups_and_process() -> pm.Model:
    with pm.Model() as model:
        tau, group = pm.HalfNormal("tau", 1.0), np.arange(len(LABELS)) % 3
        u = pm.Normal("u", 0.0, tau, shape=3)
        f = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(2, ls=1.0)).prior("f", X=X, reparameterize=False)
        pmgp.BernoulliProbit("y", u[group] + f, observed=LABELS)
    return model


def effects_of_two_parameters() -> pm.Model:
    with pm.Model() as model:
        tau, group = pm.HalfNormal("tau", 1.0), np.arange(len(LABELS)) % 3
        u, f = pm.Normal("u", 0.0, tau, shape=3), pm.Normal("f", 0.0, tau, shape=3)
        pm.Normal("y", u[group], pm.math.exp(f[group]), observed=np.linspace(-1.0, 1.0, len(LABELS)))
    return model


def structured_and_unstructured() -> pm.Model:
    with pm.Model() as model:
        number = len(LABELS)
        line, rho = np.eye(number, k=1) + np.eye(number, k=-1), pm.Uniform("rho", 0.0, 1.0)
        theta, f = pm.Normal("theta", 0.0, 1.0, shape=number), pm.ICAR("f", W=line)
        pmgp.BernoulliProbit("y", pm.math.sqrt(1.0 - rho) * theta + pm.math.sqrt(rho) * f, observed=LABELS)
    return model


FEATURES: dict[str, Callable[[Make], None]] = {
    "`coords` and `dims`": named_dimensions,
    "`pm.Data`, and `pm.set_data` with another n": new_data,
    "`pm.Deterministic` of f and theta": runs(
        model_with(lambda model: pm.Deterministic("d", model["f"] * model["lengthscale"]))
    ),
    "`pm.Potential` of theta": runs(model_with(lambda model: pm.Potential("p", -model["lengthscale"]))),
    "a free variable that nothing depends on": runs(model_with(lambda _: pm.Normal("alone"))),
    'another multivariate normal among the hyper-parameters, `latent="f"`': runs(second_vector, latent="f"),
    "no hyper-parameters": runs(no_hyperparameters),
    "missing (masked) observations": runs(missing_observations),
    "`pm.AR` for f": runs(series(autoregression)),
    "`pm.GaussianRandomWalk` for f": runs(series(random_walk)),
    "`pmgp.gp.Markov` for f": runs(process_in_time),
    "`pm.CAR` for f": runs(areas),
    "`pmgp.gp.SPDE` for f": runs(field),
    "effects of groups beside a time series": runs(groups_and_series),
    "effects of groups in the mean and in the scale": runs(effects_of_two_parameters),
    'effects of groups beside a process, `latent=["u", "f"]`': runs(groups_and_process, latent=["u", "f"]),
    "BYM2: `pm.ICAR` beside effects of areas": runs(structured_and_unstructured),
    "a random variable between f and the data": runs(variable_between),
    "a discrete variable of the likelihood, for a step method of its own": runs(discrete_switch),
    "a discrete hyper-parameter of the covariance": runs(discrete_parameter),
    "f whitened by `gp.prior`": runs(whitened),
    "`random_seed`": seed_repeats,
    "`cores=2`": chains(),
    '`mp_ctx="spawn"`': chains(mp_ctx="spawn"),
    "`initvals`, `tune=0`": initial_values,
    "`discard_tuned_samples=False`": kept_tuning,
    "`trace=ZarrTrace()`": stored_by_zarr,
    "`pm.sample_posterior_predictive`": posterior_predictive,
    "`gp.conditional`": conditional,
}
