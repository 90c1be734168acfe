"""Estimates along a chain and along a sparse factor, against an exact evidence, with broken twins."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import sparse

from pmgp.core.approximations import ExpectationPropagation, Laplace
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.likelihoods.log_gaussian_cox import LogGaussianCox
from pmgp.core.markov import ChainPattern, PathSampling, PrecisionPrior, SparsePattern, paths
from pmgp.core.markov.walks import ChainWalk, SparseWalk
from tests.markov.autoregressions import DATA, evidence_on_grid, prior_of, simulated
from tests.markov.cases import chain_case, lattice_case, soft_sum_case
from tests.markov.test_contract import NormalNoise, sparse_prior

SIZE, COEFFICIENT, VARIANCE = 40, 0.8, 1.5


def as_sparse(prior: PrecisionPrior, pattern_type: type[SparsePattern] = SparsePattern) -> PrecisionPrior:
    """The same prior with a pattern of any form."""
    diagonal, below = prior.values[:, :, 0, 0]
    precision = sparse.diags_array([diagonal, below[1:], below[1:]], offsets=[0, 1, -1], format="csc")
    pattern = pattern_type(precision)
    return PrecisionPrior.centered(pattern, pattern.values(precision), prior.mean)


def relative_estimates(estimator, prior, likelihood, truth, number=400):
    q = Laplace(sweeps=0).fit(prior, likelihood)
    rngs = [np.random.default_rng(seed) for seed in range(number)]
    return np.exp(np.array([estimator.estimate(rng, q, likelihood).log_evidence for rng in rngs]) - truth)


def standardized(relative):
    return (relative.mean() - 1.0) / (relative.std() / np.sqrt(len(relative)))


# Each form of a pattern with each estimator, and the kinds of data in turns, as they are the likelihood's concern.
@pytest.mark.parametrize("turn", [0, 1], ids=["chain", "sparse"])
@pytest.mark.parametrize(
    ("place", "estimator"),
    [(0, ImportanceSampling(64)), (1, PathSampling(16, width=5)), (2, PathSampling(16, width=1, threshold=1.0))],
    ids=repr,
)
def test_estimates_are_unbiased(turn, place, estimator):
    kind, form = list(DATA)[(turn + place) % len(DATA)], (lambda prior: prior, as_sparse)[turn]
    prior, likelihood = simulated(kind, SIZE, COEFFICIENT, VARIANCE, seed=2)
    truth = evidence_on_grid(likelihood, SIZE, COEFFICIENT, VARIANCE)
    assert abs(standardized(relative_estimates(estimator, form(prior), likelihood, truth))) < 3.5


def test_weights_that_resampling_drops_are_missed(monkeypatch):
    """A twin that counts the weights since the last resampling alone."""
    prior, likelihood = simulated("counts", SIZE, COEFFICIENT, VARIANCE, seed=2)
    truth = evidence_on_grid(likelihood, SIZE, COEFFICIENT, VARIANCE)
    right, resampled = paths.log_mean_exp, []

    class LastOnly(PathSampling):
        def estimate(self, rng, approximation, likelihood, draws=None):
            resampled.clear()
            found = super().estimate(rng, approximation, likelihood, draws)
            return replace(found, log_evidence=found.log_evidence - sum(resampled[:-1]))

    def noted(log_weights):
        resampled.append(right(log_weights))
        return resampled[-1]

    monkeypatch.setattr(paths, "log_mean_exp", noted)
    assert abs(standardized(relative_estimates(LastOnly(16, width=5, threshold=1.0), prior, likelihood, truth))) > 10.0


def test_an_approximation_by_moments_spreads_less():
    prior, likelihood = simulated("counts", 400, COEFFICIENT, VARIANCE, seed=3)
    estimator = PathSampling(32)
    spread = [
        np.std([estimator.estimate(np.random.default_rng(seed), q, likelihood).log_evidence for seed in range(60)])
        for q in (Laplace(sweeps=0).fit(prior, likelihood), ExpectationPropagation().fit(prior, likelihood))
    ]
    assert spread[1] < spread[0]


@pytest.mark.parametrize("case", [chain_case(6, 3), lattice_case(), soft_sum_case()], ids=["chain", "lattice", "sum"])
def test_a_normal_likelihood_has_no_spread(case):
    prior = sparse_prior(case)
    likelihood = NormalNoise(np.random.default_rng(5).normal(size=prior.size), 0.7)
    q = Laplace(sweeps=0).fit(prior, likelihood)
    estimate = PathSampling(8, width=2).estimate(np.random.default_rng(1), q, likelihood)
    assert estimate.log_evidence == pytest.approx(q.log_evidence, abs=1e-10)
    assert estimate.resamplings == 0
    assert estimate.effective_size == pytest.approx(8.0)
    given = PathSampling(8, width=2).estimate_given(
        np.random.default_rng(1), q, likelihood, q.sample(np.random.default_rng(2), 1)[0]
    )
    assert given.log_evidence == pytest.approx(q.log_evidence, abs=1e-10)


def test_sites_in_any_order_are_passed_in_time():
    prior, likelihood = simulated("counts", SIZE, COEFFICIENT, VARIANCE)
    order = np.random.default_rng(1).permutation(SIZE)
    pattern = ChainPattern(np.arange(SIZE)[order], np.ones((SIZE, 1)), SIZE)
    shuffled = PrecisionPrior.centered(pattern, prior.values)
    first, second = (Laplace().fit(prior, likelihood), Laplace().fit(shuffled, likelihood.subset(order)))
    estimates = [
        PathSampling(16).estimate(np.random.default_rng(4), q, terms)
        for q, terms in ((first, likelihood), (second, likelihood.subset(order)))
    ]
    assert estimates[1].log_evidence == pytest.approx(estimates[0].log_evidence, abs=1e-9)
    chosen = [estimate.choose(np.random.default_rng(5)) for estimate in estimates]
    np.testing.assert_allclose(chosen[1], chosen[0][order], atol=1e-8)


class Forgetting:
    """A twin that draws the retained path as any other."""

    def __init__(self, pattern, factor, draws, width, kept=None):
        super().__init__(pattern, factor, draws, width, None)


class ForgettingChain(Forgetting, ChainWalk):
    pass


class ForgettingSparse(Forgetting, SparseWalk):
    pass


class RootlessChain(ChainWalk):
    """A twin whose paths are not traced back through their ancestors."""

    def path(self, index):
        self._passed = [(group, values, None) for group, values, _ in self._passed]
        return super().path(index)


class BlindChain(ChainWalk):
    """A twin that draws the retained path's ancestor without a look at whether it leads there."""

    def resample(self, rng, group, chosen, log_weights):
        kept, self.kept = self.kept, None
        chosen[0] = rng.choice(len(log_weights), p=np.exp(log_weights) / np.exp(log_weights).sum())
        super().resample(rng, group, chosen, log_weights)
        self.kept = kept


def with_walk(prior: PrecisionPrior, walk: type) -> PrecisionPrior:
    """The prior whose pattern is walked along by a twin."""
    if isinstance(prior.pattern, ChainPattern):

        @dataclass(frozen=True, eq=False)
        class Walked(ChainPattern):
            def walk(self, factor, draws, width, kept=None):
                return walk(self, factor, draws, width, kept)

        pattern = Walked(prior.pattern.where, prior.pattern.loading, prior.pattern.length)
        return PrecisionPrior.centered(pattern, prior.values, prior.mean)
    pattern = prior.pattern
    pattern.walk = lambda factor, draws, width, kept=None: walk(pattern, factor, draws, width, kept)
    return prior


def changes(prior: PrecisionPrior, estimator, number: int) -> np.ndarray:
    """Largest standardized change of some moments of (f, y), both drawn, by moves that should leave p(f|y)."""
    rng, size = np.random.default_rng(11), prior.size
    conditioned = prior.conditioning()
    assert conditioned.on(np.zeros(size), np.full(size, 0.4))
    q, found = conditioned.approximation(0.0, 0), []
    for f in prior.sample(rng, number):
        likelihood, moved = LogGaussianCox(rng.poisson(np.exp(f))), f
        for _ in range(2):
            moved = estimator.estimate_given(rng, q, likelihood, moved).choose(rng)
        found.append(np.concatenate([moments(moved, likelihood.y) - moments(f, likelihood.y)]))
    differences = np.array(found)
    return np.abs(differences.mean(axis=0) / (differences.std(axis=0) / np.sqrt(number))).max()


def moments(f, y):
    return np.concatenate([f, f**2, f[1:] * f[:-1], f * y])


FORMS = {"chain": lambda: prior_of(4, 0.8, 1.0), "sparse": lambda: as_sparse(prior_of(4, 0.8, 1.0))}
ALWAYS = PathSampling(4, width=1, threshold=1.0)


SOME, MANY = 1500, 3000
"""Numbers of draws that reject most twins, and the one that changes the distribution least."""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("estimator", [ALWAYS, PathSampling(4, width=2), ImportanceSampling(4)], ids=repr)
def test_estimates_given_a_draw_leave_its_distribution(form, estimator):
    number = MANY if estimator is ALWAYS and form == "chain" else SOME
    assert changes(FORMS[form](), estimator, number) < 4.0


@pytest.mark.parametrize(
    ("form", "twin", "number"),
    [
        ("chain", ForgettingChain, SOME),
        ("sparse", ForgettingSparse, SOME),
        ("chain", RootlessChain, SOME),
        ("chain", BlindChain, MANY),
    ],
)
def test_broken_twins_change_it(form, twin, number):
    assert changes(with_walk(FORMS[form](), twin), ALWAYS, number) > 6.0


def test_retained_paths_find_other_ancestors():
    """The end of a long path moves, though few particles are as old as it."""
    prior, likelihood = simulated("counts", 400, 0.5, 1.0)
    q, rng = ExpectationPropagation().fit(prior, likelihood), np.random.default_rng(3)
    f = start = q.sample(rng, 1)[0]
    for _ in range(5):
        f = PathSampling(16, width=8, threshold=1.0).estimate_given(rng, q, likelihood, f).choose(rng)
    assert (f != start).mean() > 0.95


def test_a_likelihood_that_is_not_divisible_is_refused():
    prior, likelihood = simulated("counts", 5, 0.5, 1.0)
    q = Laplace().fit(prior, likelihood)

    class Whole:
        def log_likelihood(self, f):
            return likelihood.log_likelihood(f)

    with pytest.raises(ValueError, match="without the others"):
        PathSampling(4).estimate(np.random.default_rng(0), q, Whole())


@pytest.mark.parametrize("settings", [{"draws": 0}, {"width": 0}, {"threshold": 1.5}])
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        PathSampling(**settings)


@pytest.mark.parametrize("width", [1, 3])
def test_blocks_grow_from_the_normals_of_the_generator(width):
    """As draws made of given normals, which NumPy makes."""
    prior = sparse_prior(chain_case(7, width))
    factor, draws = prior.pattern.factorize(prior.values), 5
    normals = np.random.default_rng(3).standard_normal((prior.pattern.length, width, draws))[::-1]
    expected = factor.sample_from(normals.transpose(2, 0, 1).reshape(draws, -1))
    rng, following, found = np.random.default_rng(3), np.zeros((width, draws)), []
    for part in (slice(4, prior.pattern.length), slice(0, 4)):
        found.insert(0, factor.grown(rng, part, following))
        following = found[0][0]
    np.testing.assert_allclose(np.concatenate(found).transpose(2, 0, 1), expected, rtol=1e-12, atol=1e-12)
    assert rng.random() == _after(normals.size)


def _after(number: int) -> float:
    rng = np.random.default_rng(3)
    rng.standard_normal(number)
    return rng.random()
