"""Solutions that are stopped at random: exact means by enumeration, the article's weights for the record, and twins."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from case_studies.iterative.truncation import Printed
from pmgp.core.iterative import roulette
from pmgp.core.iterative.preconditioners import Identity, random_pivots
from pmgp.core.iterative.roulette import Matched, Roulette, increments
from pmgp.core.iterative.solvers import NotConvergedError
from tests.iterative.dense_kernel import DenseKernel, squared_exponential

RNG = np.random.default_rng(0)
N = 12
KERNEL = DenseKernel(squared_exponential(RNG.standard_normal((N, 2))))
C = KERNEL.K + 0.2 * np.eye(N)
B = RNG.standard_normal(N)
X = np.linalg.solve(C, B)
PRECONDITIONERS = {"none": Identity(N), "pivots": random_pivots(KERNEL, np.full(N, 0.2), 3, RNG)}
SURVIVALS = {"matched": Matched(), "printed": Printed(0.2)}


def probabilities(solver, preconditioner):
    """P of each increment: one before the threshold, and falling after it."""
    limit, found, reached, after = solver.threshold * np.sqrt(N), [], 0.0, 0
    for _, norm in increments(C.__matmul__, B, preconditioner):
        if norm < limit:
            reached = reached or norm
            found.append(solver.survival.probability(found[-1] if after else 1.0, after, norm / reached))
            after += 1
        else:
            found.append(1.0)
    return np.array(found)


def expectation(solver, preconditioner):
    """The mean over all stops: a uniform number in each interval between two of the P_j, by the interval's length."""
    P = probabilities(solver, preconditioner)
    bounds = np.append(np.unique(P)[::-1], 0.0)
    middle = 0.5 * (bounds[:-1] + bounds[1:])
    return solver.stopped_at(middle, C.__matmul__, B, preconditioner) @ (bounds[:-1] - bounds[1:])


@pytest.mark.parametrize("survival", SURVIVALS.values(), ids=SURVIVALS)
@pytest.mark.parametrize("preconditioner", PRECONDITIONERS.values(), ids=PRECONDITIONERS)
def test_the_mean_over_all_stops_is_the_solution(survival, preconditioner):
    assert_allclose(expectation(Roulette(0.5, survival), preconditioner), X, atol=1e-9)


def test_increments_without_their_weight_are_rejected(monkeypatch):
    """The twin divides by one: a solution that is truncated at random."""
    solver, preconditioner = Roulette(0.5), PRECONDITIONERS["none"]

    def unweighted(uniforms, *system):
        P, parts = probabilities(solver, preconditioner), [one for one, _ in increments(*system)]
        return np.column_stack([sum(p for p, q in zip(parts, P, strict=True) if u < q) for u in uniforms])

    P = probabilities(solver, preconditioner)
    bounds = np.append(np.unique(P)[::-1], 0.0)
    found = unweighted(0.5 * (bounds[:-1] + bounds[1:]), C.__matmul__, B, preconditioner)
    twin = found @ (bounds[:-1] - bounds[1:])
    assert np.max(np.abs(twin - X)) > 1e-3


def quadratics(shared, size=4000):
    """x1'x2 for pairs of estimates: unbiased for x'x if they are independent."""
    rng = np.random.default_rng(1)
    uniforms = rng.random((2, size))
    one = Roulette(1.0).stopped_at(uniforms[0], C.__matmul__, B, PRECONDITIONERS["none"])
    other = Roulette(1.0).stopped_at(uniforms[0 if shared else 1], C.__matmul__, B, PRECONDITIONERS["none"])
    return np.einsum("ij,ij->j", one, other)


@pytest.mark.parametrize(("shared", "rejected"), [(False, False), (True, True)])
def test_two_estimates_of_one_run_are_independent(shared, rejected):
    """The twin shares its uniform numbers, and its mean has the variance in it."""
    found = quadratics(shared)
    score = abs(found.mean() - X @ X) / (found.std(ddof=1) / np.sqrt(len(found)))
    assert score > 6.0 if rejected else score < 3.0


def test_the_printed_weights_are_a_truncation_for_all_that_is_seen():
    """For the record: with beta = 1 hardly one in ten thousand goes four increments further, and none to the end."""
    solver = Roulette(1.0, Printed(1.0))
    P = probabilities(solver, PRECONDITIONERS["none"])
    after = P[P < 1.0]
    assert after[3] < 1e-4
    found = solver.solve(np.random.default_rng(2), C.__matmul__, B, PRECONDITIONERS["none"], 1000)
    assert np.linalg.norm(found.mean(axis=1) - X) > 0.01 * np.linalg.norm(X)


def test_matched_weights_vary_far_less_than_the_printed_ones():
    """Their second moments over all stops: the sum of |delta_j|^2 / P_j, cross terms left out."""
    parts = [one @ one for one, _ in increments(C.__matmul__, B, PRECONDITIONERS["none"])]
    moments = {
        name: np.sum(parts / probabilities(Roulette(1.0, survival), PRECONDITIONERS["none"]))
        for name, survival in {"matched": Matched(), "printed": Printed(1.0)}.items()
    }
    assert moments["printed"] > 1e6 * moments["matched"]


def test_the_cap_gives_no_estimate():
    with pytest.raises(NotConvergedError, match="has not stopped after 1 iterations"):
        Roulette(1e-6, cap=1).solve(np.random.default_rng(0), C.__matmul__, B, PRECONDITIONERS["none"])


def test_the_mean_over_all_signs_is_the_exact_gradient():
    """Rademacher vectors, all 2^10 of them: E r'C^-1 dC r = tr(C^-1 dC)."""
    n = 10
    signs = 1.0 - 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
    dC = RNG.standard_normal((n, n))
    dC, small = dC + dC.T, C[:n, :n]
    estimates = np.einsum("ki,ij,kj->k", np.linalg.solve(small, signs.T).T, dC, signs)
    assert_allclose(estimates.mean(), np.trace(np.linalg.solve(small, dC)), rtol=1e-10)


def test_rounding_ends_the_run():
    count = sum(1 for _ in increments(C.__matmul__, B, PRECONDITIONERS["none"]))
    assert N <= count < 4 * N
    assert roulette.ROUNDING < 1e-10
