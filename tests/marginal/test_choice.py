"""Which estimator tuning chooses, from spread and counted work; and that a chain with what was chosen is exact."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from pmgp.core.approximations import ExpectationPropagation, Laplace
from pmgp.core.estimators import ImportanceSampling, OrthantSampling, SequentialSampling, suitable
from pmgp.core.estimators.base import Size
from pmgp.core.gaussians import BlockPrior, DensePrior
from pmgp.core.likelihoods import BernoulliLogit, BernoulliProbit, MultinomialLogit, OrdinalProbit
from pmgp.core.marginal import calibration, choice
from pmgp.core.marginal.calibration import LARGE_SPREAD, TARGET_SPREAD, choose_draws, inefficiency, measured_beside
from pmgp.core.marginal.choice import choose_estimator
from pmgp.core.marginal.evaluation import Evaluator
from pmgp.core.marginal.pseudo_marginal import Frozen, PseudoMarginalChain
from tests.confirmation import confirmed
from tests.marginal.geweke import ToyModel, largest_change, learned

LABELS = np.array([0, 1, 1, 0, 1, 1])
OWN, ORTHANTS = ImportanceSampling(), OrthantSampling()
SCHEME = PseudoMarginalChain(OWN)


class Strong:
    """A hundred labels of a process in ten dimensions with a standard deviation of thirty; theta is the log of ls^2."""

    def __init__(self, ordinal: bool = False) -> None:
        rng = np.random.default_rng(1)
        X = rng.normal(size=(100, 10))
        self.squares = np.square(X[:, None] - X).sum(axis=-1)
        f = np.linalg.cholesky(self.prior(np.array([2.2])).covariance) @ rng.normal(size=100)
        v = f + rng.normal(size=100)
        thresholds = np.array([-10.0, 10.0])
        self.terms = (
            OrdinalProbit(np.digitize(v, thresholds), thresholds, 1.0)
            if ordinal
            else BernoulliProbit((v > 0).astype(int))
        )

    def log_prior(self, theta):
        return 0.0

    def prior(self, theta):
        covariance = 1000.0 * np.exp(-0.5 * self.squares / np.exp(theta[0])) + 1e-3 * np.eye(100)
        return DensePrior(np.zeros(100), np.asfortranarray(covariance))

    def likelihood(self, theta):
        return self.terms


class Classes(Strong):
    """Sixty labels of four classes, of processes with such a covariance times a share."""

    def __init__(self, share: float) -> None:
        self.share = share
        rng = np.random.default_rng(1)
        X = rng.normal(size=(60, 10))
        self.squares = np.square(X[:, None] - X).sum(axis=-1)
        f = np.linalg.cholesky(self._covariance(2.2)) @ rng.normal(size=(60, 4))
        self.terms = MultinomialLogit(np.argmax(f + rng.gumbel(size=f.shape), axis=1), 4)

    def _covariance(self, theta: float) -> np.ndarray:
        return self.share * 1000.0 * np.exp(-0.5 * self.squares / np.exp(theta)) + 1e-3 * np.eye(60)

    def prior(self, theta):
        return BlockPrior([DensePrior(np.zeros(60), np.asfortranarray(self._covariance(theta[0])))] * 4)


SEQUENTIAL = SequentialSampling()
FEW = Evaluator(Classes(0.001), ExpectationPropagation()), [np.array([2.2]), np.array([2.0])]
FAR = Evaluator(Classes(1.0), ExpectationPropagation()), [np.array([2.2]), np.array([2.0])]
WEAK = Evaluator(ToyModel(LABELS), ExpectationPropagation()), [np.array([0.0, 1.2]), np.array([0.3, 0.8])]
STRONG = Evaluator(Strong(), ExpectationPropagation()), [np.array([2.2]), np.array([2.0])]


def chosen(evaluate, thetas, seed=1, others=(ORTHANTS,), scheme=SCHEME):
    return choose_estimator(np.random.default_rng(seed), scheme, others, thetas, evaluate, None)


def test_labels_that_say_little_keep_importance_sampling():
    assert chosen(*WEAK).estimator is None


@pytest.mark.parametrize("ordinal", [False, True])
def test_where_importance_weights_vary_orthants_are_chosen(ordinal):
    evaluate = Evaluator(Strong(ordinal), ExpectationPropagation())
    found = chosen(evaluate, STRONG[1])
    assert found.estimator is ORTHANTS
    assert (found.draws, found.spread < 0.2) == (16, True)
    assert choose_draws(np.random.default_rng(1), OWN, STRONG[1], evaluate, None)[1] > TARGET_SPREAD


@pytest.mark.parametrize("case", [WEAK, STRONG])
def test_the_choice_depends_on_the_seed_alone(case):
    assert chosen(*case, seed=3) == chosen(*case, seed=3)


@pytest.mark.parametrize(
    ("case", "other"), [(WEAK, ORTHANTS), (STRONG, ORTHANTS), (FEW, SEQUENTIAL), (FAR, SEQUENTIAL)]
)
def test_the_chains_own_random_numbers_are_those_without_others(case, other):
    """So that what keeps importance sampling draws what it would have drawn without a choice."""
    evaluate, thetas = case
    alone, beside = np.random.default_rng(5), np.random.default_rng(5)
    without = choose_estimator(alone, SCHEME, (), thetas, evaluate, None)
    with_others = choose_estimator(beside, SCHEME, (other,), thetas, evaluate, None)
    assert alone.uniform() == beside.uniform()
    assert without.estimator is None
    if with_others.estimator is None:
        assert with_others == without


class NotMeasured(OrthantSampling):
    def estimate(self, *arguments):
        raise AssertionError("measured, though its least price is higher")


def test_what_cannot_be_cheaper_is_not_measured():
    assert chosen(*WEAK, others=(NotMeasured(),)).estimator is None
    with pytest.raises(AssertionError, match="measured"):
        chosen(*STRONG, others=(NotMeasured(),))


def test_without_a_posterior_point_nothing_is_chosen():
    found = chosen(STRONG[0], [])
    assert (found.estimator, found.draws) == (None, 64)


@pytest.mark.parametrize("spread", [0.3, 1.0])
def test_the_inefficiency_is_that_of_a_chain_of_estimates(spread):
    """By what a state is worth that is held for as long as its estimate lets it."""
    rng, steps = np.random.default_rng(1), 400_000
    errors = spread * rng.standard_normal(steps) - 0.5 * spread**2
    levels, held, stored = np.log(rng.random(steps)), [0], errors[0] + spread**2
    for error, level in zip(errors, levels, strict=True):
        if level < error - stored:
            held.append(0)
            stored = error
        held[-1] += 1
    times = np.array(held[1:-1], dtype=float)
    # What is independent from state to state has a mean of this variance, in units of its own over the iterations.
    found = np.square(times).sum() / times.sum()
    batches = [np.square(part).sum() / part.sum() for part in np.array_split(times, 50)]
    assert abs(inefficiency(spread) - found) < 4.0 * np.std(batches) / np.sqrt(50)


def test_a_chain_that_sticks_has_no_efficiency():
    with warnings.catch_warnings(action="error"):
        found = [inefficiency(spread) for spread in (0.0, 1.0, 5.0, 50.0, 1000.0, np.inf)]
    assert found[0] == pytest.approx(1.0)
    assert np.all(np.diff(found[:4]) > 0.0)
    assert found[4:] == [np.inf, np.inf]


def test_where_the_screen_is_dear_more_draws_are_made_than_suffice():
    """And the fewest where they are, or where an estimator is no dearer with more of them."""

    class Free(ImportanceSampling):
        def work(self, size, draws):
            return 0.0

    class Dear(ImportanceSampling):
        def work(self, size, draws):
            return 1e12 * draws

    class Unpriced:
        """Importance sampling of unknown work."""

        draws, antithetic, calibration_pool, estimate = "auto", True, 1024, ImportanceSampling().estimate

    evaluate, thetas = FEW
    found = [chosen(evaluate, thetas, others=(), scheme=PseudoMarginalChain(own())) for own in (Free, Dear, Unpriced)]
    assert [each.draws for each in found] == [512, 16, 16]
    assert found[0].spread < found[1].spread == found[2].spread < TARGET_SPREAD


@pytest.mark.parametrize(
    ("draws", "spread", "sufficient"), [(64, 1.0, True), (128, 0.5, True), (128, 0.8, False), (512, 0.9, False)]
)
def test_sixty_four_suffice_by_the_spread_that_they_would_have(draws, spread, sufficient):
    assert choice._sufficient(choice.Choice(None, draws, spread)) == sufficient


def test_few_importance_samples_suffice_though_more_are_chosen():
    evaluate, thetas = FEW

    class Free(ImportanceSampling):
        def work(self, size, draws):
            return 0.0

    assert chosen(evaluate, thetas, others=(NeverRun(),), scheme=PseudoMarginalChain(Free())).draws == 512


def test_work_grows_with_the_observations_and_the_draws():
    for estimator in suitable(BernoulliProbit(LABELS)):
        assert estimator.work(Size(100), 16) < estimator.work(Size(100), 32) < estimator.work(Size(200), 32)
    # The preparation is most of it: twice the observations are nearly eight times the work.
    assert 6.0 < ORTHANTS.work(Size(2000), 16) / ORTHANTS.work(Size(1000), 16) < 8.0


def test_work_for_several_vectors_grows_with_them_and_the_draws():
    for estimator in suitable(MultinomialLogit(LABELS, 3), several=True):
        small, large = Size(300, 3, divisible=True), Size(600, 6, divisible=True)
        assert estimator.work(small, 16) < estimator.work(small, 32) < estimator.work(large, 32)
    assert SEQUENTIAL.work(Size(300, 3, divisible=True), 64) < SEQUENTIAL.work(Size(300, 3), 64)


def test_estimates_that_are_rarely_renewed_cost_less():
    """Refreshment is part of the price: never, orthants are made at proposals alone."""
    found = chosen(*STRONG, scheme=PseudoMarginalChain(OWN, refresh_every=0))
    assert found.estimator is ORTHANTS
    assert (SCHEME.refreshed_every(True), SCHEME.refreshed_every(False)) == (1, 10)


def test_orthants_are_for_likelihoods_of_limits():
    kinds = [
        [type(estimator) for estimator in suitable(likelihood)]
        for likelihood in (BernoulliLogit(LABELS), BernoulliProbit(LABELS), OrdinalProbit(LABELS, [0.5], 1.0))
    ]
    both = [ImportanceSampling, OrthantSampling]
    assert kinds == [[ImportanceSampling], both, both]


def test_sequential_estimates_are_for_several_vectors_with_terms_that_are_known_one_by_one():
    class Mixed:
        separate = False
        log_density = None

    found = [[type(one) for one in suitable(each, several=True)] for each in (MultinomialLogit(LABELS), Mixed())]
    assert found == [[ImportanceSampling, SequentialSampling], [ImportanceSampling]]


# Several classes


def test_classes_that_say_little_keep_importance_sampling():
    assert chosen(*FEW, others=(SEQUENTIAL,)).estimator is None


def test_where_one_weight_has_nearly_all_sequential_estimates_are_chosen():
    found = chosen(*FAR, others=(SEQUENTIAL,))
    assert found.estimator is SEQUENTIAL
    assert found.draws is not None
    assert found.draws >= 64


def test_particles_that_are_found_show_what_importance_weights_do_not():
    """The spread by 512 importance samples of their own, and if a stored estimate holds one from the posterior."""
    evaluate, thetas = FAR
    draws, said = choose_draws(np.random.default_rng(1), OWN, thetas, evaluate, None)
    (_, found), beside = measured_beside(np.random.default_rng(2), (OWN, draws), SEQUENTIAL, thetas, evaluate, None)
    assert draws == 512
    assert max(2.0 * said, LARGE_SPREAD) < beside
    assert found < 0.3 * beside


def test_with_a_good_approximation_both_say_the_same():
    evaluate, thetas = FEW
    draws, said = choose_draws(np.random.default_rng(1), OWN, thetas, evaluate, None)
    _, beside = measured_beside(np.random.default_rng(2), (OWN, draws), SEQUENTIAL, thetas, evaluate, None)
    assert said == pytest.approx(beside, rel=0.3)


def test_the_number_of_particles_follows_the_spread():
    evaluate, thetas = FAR
    draws, spread = choose_draws(np.random.default_rng(3), SEQUENTIAL, thetas, evaluate, None)
    fixed = [
        choose_draws(np.random.default_rng(3), SequentialSampling(number), thetas, evaluate, None)
        for number in (64, 256)
    ]
    assert [number for number, _ in fixed] == [64, 256]
    assert fixed[0][1] == pytest.approx(2.0 * fixed[1][1])
    assert spread == pytest.approx(fixed[1][1] * np.sqrt(256 / draws))


class NeverRun(SequentialSampling):
    def estimate(self, *arguments):
        raise AssertionError("measured, though few importance samples suffice")


def test_where_few_importance_samples_suffice_nothing_else_is_measured():
    assert chosen(*FEW, others=(NeverRun(),)).estimator is None
    with pytest.raises(AssertionError, match="measured"):
        chosen(*FAR, others=(NeverRun(),))


# Chains


class Wavering(PseudoMarginalChain):
    """The broken twin: a choice that goes on, at each theta for the estimator that gives the likelier value."""

    def _estimate(self, rng, evaluation, frozen):
        kinds = [frozen._replace(estimator=estimator) for estimator in (None, frozen.estimator)]
        return max((super(Wavering, self)._estimate(rng, evaluation, kind) for kind in kinds), key=log_evidence)


def log_evidence(estimate) -> float:
    return estimate.log_evidence


def drift(scheme: PseudoMarginalChain, replicates: int = 1900, seed: int = 1) -> float:
    """With orthants chosen, of one draw each, and q as poor as the approximation's own."""
    frozen = Frozen(learned(), None, 1, OrthantSampling(1))
    return largest_change(scheme, frozen, Laplace(sweeps=0), replicates, repeats=6, seed=seed)


def test_a_chosen_estimator_takes_the_place_of_the_chains_own():
    class Unused(ImportanceSampling):
        def estimate(self, *arguments):
            raise AssertionError("the chain's own estimator")

        estimate_given = estimate_from = estimate

    assert np.isfinite(drift(PseudoMarginalChain(Unused()), replicates=5))


@pytest.mark.parametrize("refresh_every", [0, 3])
def test_joint_distribution_is_kept_with_a_choice_that_is_fixed(refresh_every):
    scheme = PseudoMarginalChain(ImportanceSampling(1), refresh_every=refresh_every)
    assert confirmed(lambda seed: drift(scheme, seed=seed), 4.0) < 4.0


def test_a_choice_that_goes_on_is_rejected():
    assert drift(Wavering(ImportanceSampling(1), refresh_every=0), replicates=3800) > 4.0


@pytest.mark.parametrize(("estimator", "draws"), [(OWN, 64), (SequentialSampling(), 256)])
def test_of_estimates_that_are_seen_a_few_times_half_the_spread_is_asked_for(estimator, draws):
    """A few of these do not show their tails."""
    spreads = [[2.0, 1.4, 0.9, 0.6, 0.4, 0.3]] * 4
    assert calibration._chosen(estimator, spreads) == (draws, 0.9 if estimator is OWN else 0.4)
