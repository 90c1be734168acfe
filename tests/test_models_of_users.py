"""Models as users write them: taken apart without loss, and sampled."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose

import pmgp
from tests.steps.test_contract import FAST

N = 10
RNG = np.random.default_rng(31)
X = RNG.normal(size=(N, 2))
SIGNAL = np.sin(2.0 * X[:, 0])
LABELS = (SIGNAL > 0.0).astype(int)
COUNTS = RNG.poisson(np.exp(SIGNAL))
REALS = SIGNAL + 0.2 * RNG.normal(size=N)
CENSORED = np.arange(N) % 3 == 0


def process(X=X, kernel=None, mean=None, **settings):
    kernel = pm.gp.cov.Matern52(X.shape[1], ls=pm.Gamma("lengthscale", 2, 1)) if kernel is None else kernel
    gp = pm.gp.Latent(mean_func=pm.gp.mean.Zero() if mean is None else mean, cov_func=kernel)
    return gp.prior("f", X=X, reparameterize=False, **settings)


def poisson(f, observed=COUNTS, **settings):
    pm.Poisson("y", mu=pt.exp(f), observed=observed, **settings)


def binomial_with_trials():
    pm.Binomial("y", n=np.arange(1, N + 1), logit_p=process(), observed=np.arange(N) // 2)


def weibull_by_pymc():
    beta = pt.exp(process())
    times = np.exp(REALS)
    upper = np.where(CENSORED, times, np.inf)
    pm.Censored("y", pm.Weibull.dist(alpha=pm.Gamma("alpha", 4, 2), beta=beta), lower=None, upper=upper, observed=times)


def ordered_categories():
    ordered = pm.distributions.transforms.ordered
    cuts = pm.Normal("cuts", 0, 1, shape=2, transform=ordered, initval=[-0.5, 0.5])
    pm.OrderedLogistic("y", eta=process(), cutpoints=cuts, observed=np.digitize(REALS, [-0.5, 0.5]))


def zero_inflated():
    pm.ZeroInflatedPoisson("y", psi=pm.Beta("psi", 2, 2), mu=pt.exp(process()), observed=COUNTS)


def mixture_of_noise():
    f, weights = process(), pm.Dirichlet("weights", [1, 1])
    pm.Mixture("y", w=weights, comp_dists=[pm.Normal.dist(f, 0.3), pm.Normal.dist(f, 2.0)], observed=REALS)


def two_classes():
    p = pm.math.sigmoid(process())
    pm.Categorical("y", p=pt.stack([1.0 - p, p], axis=1), observed=LABELS)


def offset_and_group_effects():
    groups = pm.Normal("groups", 0.0, pm.HalfNormal("spread", 1.0), shape=3)
    poisson(process() + np.log(np.linspace(1.0, 2.0, N)) + groups[np.arange(N) % 3])


def two_outcomes():
    f = process()
    pm.Bernoulli("y", logit_p=f, observed=LABELS.astype(bool))
    pm.StudentT("z", nu=4, mu=f, sigma=0.5, observed=REALS)


def replicates_in_columns():
    pm.Normal("y", process()[:, None], 0.3, observed=np.column_stack([REALS, REALS + 0.1]))


def kernels_and_a_mean():
    variance, slopes = pm.Gamma("variance", 2, 1), pm.Normal("slopes", 0.0, 1.0, shape=2)
    kernel = variance * pm.gp.cov.ExpQuad(2, ls=[1.0, 2.0]) + pm.gp.cov.Linear(2, c=0.0) * pm.gp.cov.Matern32(2, ls=1.0)
    poisson(process(kernel=kernel, mean=pm.gp.mean.Linear(slopes, 0.5)))


def two_outputs():
    inputs = np.column_stack([X[:, 0], np.arange(N) % 2])
    W = pm.Normal("W", 0.0, 1.0, shape=(2, 1), initval=np.ones((2, 1)))
    coupled = pm.gp.cov.Coregion(2, W=W, kappa=np.ones(2), active_dims=[1])
    poisson(process(inputs, pm.gp.cov.ExpQuad(2, ls=1.0, active_dims=[0]) * coupled))


def square_inputs():
    pm.Bernoulli("y", logit_p=process(np.arange(25.0).reshape(5, 5)), observed=LABELS[:5])


def names_data_and_a_penalty():
    model = pm.modelcontext(None)
    model.add_coord("place", [f"p{i}" for i in range(N)])
    rate = pm.Deterministic("rate", pt.exp(process(pm.Data("X", X), pm.gp.cov.ExpQuad(2, ls=pm.Gamma("ls", 2, 1)))))
    pm.Potential("penalty", -0.5 * pt.square(pt.log(model["ls"])))
    pm.Poisson("y", rate, observed=pm.Data("counts", COUNTS), dims="place")


def frames_and_single_precision():
    frame = pd.DataFrame(X.astype("float32"), columns=["a", "b"])
    pm.Normal("y", process(frame.to_numpy()), 0.3, observed=pd.Series(REALS.astype("float32")))


def whole_numbers_and_lists():
    poisson(process(np.arange(N)[:, None]), observed=COUNTS.tolist())


def one_observation():
    poisson(process(X[:1]), observed=COUNTS[:1])


def a_density_of_ones_own():
    pm.CustomDist("y", process(), logp=lambda y, f: -pt.square(y - f) - 0.1 * (y - f) ** 4, observed=REALS)


MODELS = [
    binomial_with_trials,
    weibull_by_pymc,
    ordered_categories,
    zero_inflated,
    mixture_of_noise,
    two_classes,
    offset_and_group_effects,
    two_outcomes,
    replicates_in_columns,
    kernels_and_a_mean,
    two_outputs,
    square_inputs,
    names_data_and_a_penalty,
    frames_and_single_precision,
    whole_numbers_and_lists,
    one_observation,
    a_density_of_ones_own,
]


@pytest.mark.parametrize("write", MODELS, ids=lambda write: write.__name__)
def test_the_parts_are_those_of_the_model_and_a_chain_runs(write):
    with pm.Model() as model:
        write()
    step = pmgp.PseudoMarginal(model=model, compile_kwargs=FAST)
    parts, rng = step.latent_model, np.random.default_rng(1)
    assert parts.sites_known
    theta = parts.initial_theta + 0.3 * rng.normal(size=parts.dimension)
    prior, likelihood = parts.prior(theta), parts.likelihood(theta)
    f = prior.sample(rng, 2)
    assert_allclose(parts.terms.sites(f, theta).sum(axis=1), likelihood.log_likelihood(f), rtol=1e-10)
    whole = model.compile_logp(**FAST)({**parts.unravel(theta), "f": f[0]})
    parts_of_it = parts.log_prior(theta) + prior.log_density(f[0]) + likelihood.log_likelihood(f[0])
    assert parts_of_it == pytest.approx(whole, rel=1e-6, abs=1e-6)
    step.setup_chain(np.random.default_rng(2), 6, 4)
    point = model.initial_point()
    for iteration in range(10):
        if iteration == 6:
            step.stop_tuning()
        point, [stats] = step.step(point)
        assert np.isfinite(stats["log_marginal_likelihood"])
        assert all(np.isfinite(value).all() for value in point.values())


TIMES = np.exp(REALS)


def in_two_parts(f, alpha):
    """Times to failure of some, and for the others only that they are longer than the time observed."""
    pm.Weibull("y", alpha=alpha, beta=pt.exp(f[~CENSORED]), observed=TIMES[~CENSORED])
    pm.Potential("survived", -((TIMES[CENSORED] / pt.exp(f[CENSORED])) ** alpha))


def in_one_part(f, alpha):
    survived = -((TIMES / pt.exp(f)) ** alpha)
    density = pm.logp(pm.Weibull.dist(alpha=alpha, beta=pt.exp(f)), TIMES)
    pm.Potential("y", pt.switch(CENSORED, survived, density))


def test_a_likelihood_of_two_parts_of_different_length_is_sampled_as_one():
    draws = []
    for observe in (in_two_parts, in_one_part):
        with pm.Model():
            observe(process(), pm.Gamma("alpha", 4, 2))
            step = pmgp.PseudoMarginal(compile_kwargs=FAST)
            quiet = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
            idata = pm.sample(40, tune=60, chains=1, cores=1, step=step, random_seed=3, **quiet)
        assert step.approximation == pmgp.approximations.ExpectationPropagation()
        draws.append(idata["posterior"]["alpha"].to_numpy())
    assert len(np.unique(draws[0])) > 3
    assert_allclose(draws[0], draws[1], rtol=1e-6)
