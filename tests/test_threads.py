"""BLAS uses as many threads as suits the problem, for as long as a computation lasts."""

from __future__ import annotations

import arviz as az
import numpy as np
import pytest

import pmgp
from pmgp.core.numerics import threads
from pmgp.core.numerics.threads import (
    SMALLEST_THREADED,
    available_cores,
    blas_threads,
    suitable_threads,
    threads_limited,
)
from pmgp.interface.model.latent_gaussian import LatentGaussianModel
from pmgp.interface.prediction.latent_process import LatentProcess


@pytest.fixture(autouse=True)
def three_threads():
    """Whatever the machine and its environment: BLAS would use three."""
    with threads_limited(3, exactly=True):
        yield


def test_small_problems_get_one_thread():
    assert suitable_threads(SMALLEST_THREADED - 1) == 1
    assert suitable_threads(SMALLEST_THREADED - 1, cores=8) == 1


def test_large_problems_get_the_cores_that_there_are(monkeypatch):
    monkeypatch.setattr(threads, "available_cores", lambda: 6)
    assert suitable_threads(SMALLEST_THREADED) == 6
    assert suitable_threads(SMALLEST_THREADED, cores=2) == 2
    assert suitable_threads(SMALLEST_THREADED, cores=8) == 6
    assert suitable_threads(SMALLEST_THREADED, cores=0) == 1


@pytest.mark.parametrize(("text", "cores"), [("100000 100000", 1), ("50000 100000", 1), ("max 100000", None)])
def test_the_quota_of_a_container_counts(monkeypatch, tmp_path, text, cores):
    unlimited = available_cores() if cores is None else cores
    monkeypatch.setattr(threads, "QUOTA", tmp_path / "cpu.max")
    threads.QUOTA.write_text(text)
    assert available_cores() == unlimited


def test_a_limit_holds_inside_its_block_only():
    with threads_limited(1):
        assert blas_threads() == 1
    assert blas_threads() == 3


def test_a_limit_does_not_raise_the_number():
    with threads_limited(5):
        assert blas_threads() == 3
    with threads_limited(5, exactly=True):
        assert blas_threads() == 5
    assert blas_threads() == 3


def test_no_limit():
    with threads_limited(None, exactly=True):
        assert blas_threads() == 3


def test_the_number_is_restored_after_an_error():
    with pytest.raises(ZeroDivisionError), threads_limited(1):
        1 / 0  # noqa: B018
    assert blas_threads() == 3


def test_a_function_that_calls_itself_restores_the_number():
    """One limit, entered while it holds: by a decorated function, and by hand."""

    @threads_limited(1)
    def deeper(times):
        assert blas_threads() == 1
        return times if times == 0 else deeper(times - 1)

    for _ in range(2):
        deeper(2)
        assert blas_threads() == 3
    limit = threads_limited(2)
    with limit, limit:
        assert blas_threads() == 2
    assert blas_threads() == 3


@pytest.fixture
def seen(monkeypatch):
    """Threads of BLAS whenever a covariance is built."""
    numbers = set()
    prior = LatentGaussianModel.prior

    def recorded(self, theta):
        numbers.add(blas_threads())
        return prior(self, theta)

    monkeypatch.setattr(LatentGaussianModel, "prior", recorded)
    return numbers


@pytest.mark.parametrize("compute", [pmgp.marginal.log_likelihood, pmgp.find_map], ids=lambda f: f.__name__)
def test_functions_limit_the_threads(probit_model, compute, seen):
    compute(probit_model)
    assert seen == {1}
    assert blas_threads() == 3


def test_predictions_limit_the_threads(probit_model, monkeypatch):
    seen = set()
    given_theta = LatentProcess.given_theta

    def recorded(self, *arguments):
        seen.add(blas_threads())
        return given_theta(self, *arguments)

    monkeypatch.setattr(LatentProcess, "given_theta", recorded)
    posterior = az.from_dict(
        {"posterior": {"f": np.zeros((1, 4, 20)), "lengthscale": np.ones((1, 4)), "variance": np.ones((1, 4))}}
    )
    pmgp.predict(posterior, np.zeros((2, 2)), model=probit_model, progressbar=False)
    pmgp.sample_predictions(posterior, np.zeros((2, 2)), model=probit_model, progressbar=False)
    assert seen == {1}
    assert blas_threads() == 3
