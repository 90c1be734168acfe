"""Models that differ in one thing, a likelihood or a covariance; all with ``lengthscale`` and ``f``, and n = 8."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

import pmgp

__all__ = ["COVARIANCES", "LABELS", "LIKELIHOODS", "N", "X", "classifier", "latent"]

N = 8
X = np.random.default_rng(1).normal(size=(N, 2))
LABELS = np.array([0, 1, 1, 0, 1, 0, 0, 1])
COUNTS = np.array([0, 2, 1, 0, 5, 1, 0, 3])
CATEGORIES = np.array([0, 2, 1, 0, 2, 1, 0, 2])
REALS = np.array([-0.3, 1.2, 0.4, -0.9, 2.1, 0.1, -0.5, 1.6])
cov = pm.gp.cov


def latent(name: str = "f", X: Any = X) -> Any:
    """A process with a squared exponential covariance; needs an open model."""
    lengthscale = pm.Gamma(f"lengthscale{name[1:]}", 3, 3)
    return pm.gp.Latent(cov_func=cov.ExpQuad(2, ls=lengthscale)).prior(name, X=X, reparameterize=False)


def observed(observe: Callable[[Any], Any]) -> Callable[[], pm.Model]:
    """A model with the observations that `observe` adds for f."""

    def build() -> pm.Model:
        with pm.Model() as model:
            observe(latent())
        return model

    return build


def covered(kernel: Callable[[Any], Any]) -> Callable[[], pm.Model]:
    """A model of labels with the covariance function that `kernel` makes of a length-scale."""

    def build() -> pm.Model:
        with pm.Model() as model:
            function = kernel(pm.Gamma("lengthscale", 3, 3))
            f = pm.gp.Latent(cov_func=function).prior("f", X=pm.Data("X", X), reparameterize=False)
            pmgp.BernoulliProbit("y", f, observed=LABELS)
        return model

    return build


def classifier(**options: Any) -> pm.Model:
    """The plain model of labels."""
    with pm.Model(**options) as model:
        pmgp.BernoulliProbit("y", latent(), observed=LABELS)
    return model


def thresholds() -> Any:
    ordered = pm.distributions.transforms.ordered
    return pm.Normal("thresholds", 0, 1, shape=2, transform=ordered, initval=[-0.5, 0.5])


def three_processes() -> pm.Model:
    with pm.Model() as model:
        pmgp.MultinomialLogit("y", [latent(name) for name in ("f", "f_one", "f_two")], observed=CATEGORIES)
    return model


def mean_and_scale() -> pm.Model:
    with pm.Model() as model:
        pm.Normal("y", latent("f"), pt.exp(latent("f_scale")), observed=REALS)
    return model


def mixed_processes() -> pm.Model:
    with pm.Model() as model:
        pm.Normal("y", latent("f") + pt.roll(latent("f_other"), 1), 0.5, observed=REALS)
    return model


def two_processes() -> pm.Model:
    with pm.Model() as model:
        scores = pt.stack([latent("f"), latent("f_other"), pt.zeros(N)], axis=-1)
        pm.Categorical("y", logit_p=scores, observed=CATEGORIES)
    return model


def two_terms(f: Any) -> None:
    pmgp.BernoulliProbit("labels", f, observed=LABELS)
    pm.Poisson("counts", mu=pt.exp(f), observed=COUNTS)


def fixed_effects(f: Any) -> None:
    Z = pm.Data("Z", np.linspace(-1.0, 1.0, 2 * N).reshape(N, 2))
    pm.Bernoulli("y", logit_p=f + Z @ pm.Normal("beta", 0, 1, shape=2), observed=LABELS)


def survival(f: Any) -> None:
    ended = LABELS == 1
    pm.Exponential("y", lam=pt.exp(-f[ended]), observed=1.0 + COUNTS[ended])
    pm.Potential("survived", -(1.0 + COUNTS[~ended]) * pt.exp(-f[~ended]))


def one_covariance(matrix: Callable[[Any], dict[str, Any]]) -> Callable[[], pm.Model]:
    """A model whose f is a plain `pm.MvNormal`."""

    def build() -> pm.Model:
        with pm.Model() as model:
            squares = np.square(X[:, None] - X).sum(axis=-1)
            K = pt.exp(-0.5 * squares / pm.Gamma("lengthscale", 3, 3) ** 2) + 1e-6 * np.eye(N)
            pmgp.BernoulliProbit("y", pm.MvNormal("f", mu=np.zeros(N), **matrix(K)), observed=LABELS)
        return model

    return build


def hsgp() -> pm.Model:
    with pm.Model() as model:
        gp = pm.gp.HSGP(m=[3, 3], c=2.0, cov_func=cov.ExpQuad(2, ls=pm.Gamma("lengthscale", 3, 3)))
        pmgp.BernoulliProbit("y", gp.prior("f", X=X), observed=LABELS)
    return model


LIKELIHOODS: dict[str, Callable[[], pm.Model]] = {
    "`pmgp.BernoulliProbit`": observed(lambda f: pmgp.BernoulliProbit("y", f, observed=LABELS)),
    "`pmgp.BernoulliLogit`": observed(lambda f: pmgp.BernoulliLogit("y", f, observed=LABELS)),
    "`pmgp.likelihoods.LogGaussianCox`": observed(lambda f: pmgp.likelihoods.LogGaussianCox("y", f, observed=COUNTS)),
    "`pmgp.likelihoods.LogGaussianCox` with exposures": observed(
        lambda f: pmgp.likelihoods.LogGaussianCox("y", f, exposure=1.0 + np.arange(N), observed=COUNTS)
    ),
    "the same, exposures a `pm.Data`": observed(
        lambda f: pmgp.likelihoods.LogGaussianCox(
            "y", f, exposure=pm.Data("exposure", 1.0 + np.arange(N)), observed=COUNTS
        )
    ),
    "`pmgp.likelihoods.StochasticVolatility`": observed(
        lambda f: pmgp.likelihoods.StochasticVolatility("y", f, observed=REALS)
    ),
    "`pmgp.OrdinalProbit`, free thresholds": observed(
        lambda f: pmgp.OrdinalProbit("y", f, thresholds(), observed=CATEGORIES)
    ),
    "`pm.Bernoulli`": observed(lambda f: pm.Bernoulli("y", logit_p=f, observed=LABELS)),
    "`pm.Binomial`": observed(lambda f: pm.Binomial("y", n=5, logit_p=f, observed=COUNTS)),
    "`pm.Poisson`": observed(lambda f: pm.Poisson("y", mu=pt.exp(f), observed=COUNTS)),
    "`pm.NegativeBinomial`, free dispersion": observed(
        lambda f: pm.NegativeBinomial("y", mu=pt.exp(f), alpha=pm.Gamma("dispersion", 2, 0.5), observed=COUNTS)
    ),
    "`pm.ZeroInflatedPoisson`": observed(lambda f: pm.ZeroInflatedPoisson("y", psi=0.7, mu=pt.exp(f), observed=COUNTS)),
    "`pm.HurdlePoisson`": observed(lambda f: pm.HurdlePoisson("y", psi=0.7, mu=pt.exp(f), observed=COUNTS)),
    "`pm.Truncated` counts, from 1 on": observed(
        lambda f: pm.Truncated("y", pm.Poisson.dist(pt.exp(f)), lower=1, observed=1 + COUNTS)
    ),
    "`pm.NormalMixture`": observed(
        lambda f: pm.NormalMixture("y", w=[0.6, 0.4], mu=pt.stack([f, 0.0 * f], axis=-1), sigma=1.0, observed=REALS)
    ),
    "`pm.Gamma`": observed(lambda f: pm.Gamma("y", alpha=2.0, beta=2.0 * pt.exp(-f), observed=1.0 + COUNTS)),
    "`pm.Normal`, free scale": observed(
        lambda f: pm.Normal("y", mu=f, sigma=pm.HalfNormal("noise", 1), observed=REALS)
    ),
    "`pm.StudentT`": observed(lambda f: pm.StudentT("y", nu=4, mu=f, sigma=0.5, observed=REALS)),
    "`pm.Laplace`, free scale": observed(lambda f: pm.Laplace("y", f, pm.HalfNormal("noise", 1), observed=REALS)),
    "`pm.AsymmetricLaplace`, for quantiles": observed(
        lambda f: pm.AsymmetricLaplace("y", mu=f, b=2.0, q=0.2, observed=REALS)
    ),
    "`pm.OrderedProbit`": observed(
        lambda f: pm.OrderedProbit("y", eta=f, cutpoints=thresholds(), compute_p=False, observed=CATEGORIES)
    ),
    "`pm.OrderedLogistic`": observed(
        lambda f: pm.OrderedLogistic("y", eta=f, cutpoints=thresholds(), compute_p=False, observed=CATEGORIES)
    ),
    "fixed effects, `f + Z @ beta`, Z a `pm.Data`": observed(fixed_effects),
    "`pm.CustomDist` with a `logp`": observed(
        lambda f: pm.CustomDist("y", f, logp=lambda value, f: -(pt.abs(value - f) ** 1.5), observed=REALS)
    ),
    "`pm.Potential` of f": observed(lambda f: pm.Potential("y", -0.5 * pt.square(f - REALS))),
    "two terms of the same f": observed(two_terms),
    "a part of f observed, a `pm.Potential` for the rest": observed(survival),
    "f at repeated points, `f[index]`": observed(
        lambda f: pmgp.BernoulliProbit("y", f[np.repeat(np.arange(N), 2)], observed=np.repeat(LABELS, 2))
    ),
    "sums of two latent values": observed(lambda f: pm.Poisson("y", mu=pt.exp(f[1:] + f[:-1]), observed=COUNTS[1:])),
    "`pmgp.MultinomialLogit` of three processes": three_processes,
    "`pm.Categorical` of two processes": two_processes,
    "`pm.Normal`, its mean and log scale a process each": mean_and_scale,
    "a process here and one elsewhere, `f + roll(g, 1)`": mixed_processes,
}

COVARIANCES: dict[str, Callable[[], pm.Model]] = {
    "`ExpQuad`": covered(lambda ls: cov.ExpQuad(2, ls=ls)),
    "`Matern52`": covered(lambda ls: cov.Matern52(2, ls=ls)),
    "`Matern32`": covered(lambda ls: cov.Matern32(2, ls=ls)),
    "`Matern12`, `Exponential`": covered(lambda ls: cov.Exponential(2, ls=ls)),
    "`RatQuad`": covered(lambda ls: cov.RatQuad(2, alpha=2.0, ls=ls)),
    "`Periodic`": covered(lambda ls: cov.Periodic(2, period=3.0, ls=ls)),
    "`Cosine` of one feature": covered(lambda ls: cov.Cosine(2, ls=ls, active_dims=[0])),
    "`Linear`, `Polynomial`": covered(lambda ls: ls * cov.Linear(2, c=0.5) + cov.Polynomial(2, c=0.5, d=2, offset=1.0)),
    "`Constant`, `WhiteNoise`": covered(lambda ls: cov.ExpQuad(2, ls=ls) + cov.Constant(1.0) + cov.WhiteNoise(0.1)),
    "sums, products, powers": covered(
        lambda ls: cov.ExpQuad(2, ls=ls) * cov.Matern32(2, ls=1.0) + cov.ExpQuad(2, ls=2) ** 2
    ),
    "a length-scale for each feature": covered(
        lambda ls: cov.ExpQuad(2, ls=pm.Gamma("lengthscales", 3, 3, shape=2)) * ls
    ),
    "`active_dims`": covered(lambda ls: cov.ExpQuad(2, ls=ls, active_dims=[0]) + cov.Linear(2, c=0.0, active_dims=[1])),
    "`WarpedInput`": covered(
        lambda ls: cov.WarpedInput(
            2, cov_func=cov.ExpQuad(2, ls=ls), warp_func=lambda x, a: pt.tanh(a * x), args=(1.5,)
        )
    ),
    "`ScaledCov`": covered(
        lambda ls: cov.ScaledCov(
            2, cov_func=cov.ExpQuad(2, ls=ls), scaling_func=lambda x, a: a + x[:, 0] ** 2, args=(1.0,)
        )
    ),
    "`Gibbs`": covered(
        lambda ls: cov.Gibbs(2, active_dims=[0], lengthscale_func=lambda x, a: a + 0.1 * pt.sqr(x), args=(ls,))
    ),
    "`pm.MvNormal(cov=...)`": one_covariance(lambda K: {"cov": K}),
    "`pm.MvNormal(chol=...)`": one_covariance(lambda K: {"chol": pt.linalg.cholesky(K)}),
    "`pm.gp.HSGP`": hsgp,
}
