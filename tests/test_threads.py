"""BLAS uses as many threads as suits the problem, for as long as a computation lasts."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import local

import arviz as az
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

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
from tests.posix import requires_posix


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


# In several threads of Python


def test_a_limit_holds_in_every_thread():
    """The library that sets the number would let only the first thread do so, and would say nothing."""

    def limited(threads):
        with threads_limited(threads, exactly=True):
            return blas_threads()

    with ThreadPoolExecutor(1) as other:
        assert [other.submit(limited, threads).result() for threads in (1, 2)] == [1, 2]
        assert blas_threads() == limited(3) == 3
        assert other.submit(limited, 1).result() == 1
    assert blas_threads() == 3


@pytest.mark.parametrize("first_out", [0, 1])
def test_the_lowest_limit_of_all_threads_holds_until_the_last_one_leaves(first_out):
    """Limits that several threads save and restore by turns would leave a number that nobody asked for."""
    limits = threads_limited(1), threads_limited(2)
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        one.submit(limits[0].__enter__).result()
        other.submit(limits[1].__enter__).result()
        assert blas_threads() == 1
        places = (one, other) if first_out == 0 else (other, one)
        places[0].submit(limits[first_out].__exit__).result()
        assert blas_threads() == (2 if first_out == 0 else 1)
        places[1].submit(limits[1 - first_out].__exit__).result()
        assert blas_threads() == 3


def test_a_number_that_something_else_sets_inside_is_kept():
    with threads_limited(4, exactly=True):
        with threadpool_limits(2):
            with threads_limited(3):
                assert blas_threads() == 2
            assert blas_threads() == 2
        assert blas_threads() == 4
    assert blas_threads() == 3


class Fixed:
    """A library whose number cannot be set."""

    threading_layer = "pthreads"

    def get_num_threads(self):
        return 4

    def set_num_threads(self, threads):
        pass


class OfEachThread(Fixed):
    """A library with OpenMP, in which each thread has its own number."""

    threading_layer = "openmp"

    def __init__(self):
        self.own = local()

    def get_num_threads(self):
        return getattr(self.own, "number", 4)

    def set_num_threads(self, threads):
        self.own.number = threads


def test_a_library_that_cannot_be_limited_is_named_once(monkeypatch):
    library = threads._Library(Fixed())
    monkeypatch.setattr(threads, "_libraries", lambda: (library,))
    words = r"keeps 4 threads, and cannot be limited to 1: .*OPENBLAS_NUM_THREADS=1"
    with pytest.warns(UserWarning, match=words), threads_limited(1):
        pass
    with warnings.catch_warnings(action="error"), threads_limited(2):
        pass


def test_threads_with_numbers_of_their_own_do_not_change_each_other_s(monkeypatch):
    library = threads._Library(OfEachThread())
    monkeypatch.setattr(threads, "_libraries", lambda: (library,))
    limit = threads_limited(1)
    with ThreadPoolExecutor(1) as other:
        with threads_limited(2):
            other.submit(limit.__enter__).result()
            assert (blas_threads(), other.submit(blas_threads).result()) == (2, 1)
        assert (blas_threads(), other.submit(blas_threads).result()) == (4, 1)
        other.submit(limit.__exit__).result()
        assert other.submit(blas_threads).result() == 4


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_has_no_other_threads():
    requires_posix()
    limit = threads_limited(1)
    with ThreadPoolExecutor(1) as other, threads_limited(2):
        other.submit(limit.__enter__).result()
        child = multiprocessing.get_context("fork").Process(target=_limited_to_two)
        child.start()
        child.join()
        other.submit(limit.__exit__).result()
    assert child.exitcode == 0


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_that_leaves_its_parent_s_block_has_the_threads_from_before():
    requires_posix()
    with threads_limited(1):
        child = multiprocessing.get_context("fork").Process(target=_left)
        child.start()
        child.join()
    assert child.exitcode == 0


def _left():
    with warnings.catch_warnings(action="error"):
        threads_limited(1).__exit__()
    assert blas_threads() == 3


def _limited_to_two():
    with threads_limited(2, exactly=True):
        assert blas_threads() == 2


DRAWN_IN_THREADS = """
from concurrent.futures import ThreadPoolExecutor
import numpy as np, pmgp
X = np.random.default_rng(1).normal(size=(300, 2))
model = pmgp.models.classifier(X, X.sum(axis=1) > 0.0)
step = pmgp.PseudoMarginal(model=model)
settings = dict(draws=3, tune=3, chains=2, random_seed=1, progressbar=False, quiet=True, step=step)
alone = pmgp.sample(model, cores=1, **settings)
for workers in (1, 2):
    drawn = pmgp.sample(model, cores=2, executor=ThreadPoolExecutor(workers), **settings)
    np.testing.assert_array_equal(drawn.posterior["f"], alone.posterior["f"])
"""


def test_chains_in_threads_are_those_of_a_run_without_an_executor():
    """With three hundred points products are large enough for BLAS to share them, which changes their rounding."""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "2", "PYTHONWARNINGS": "ignore"}
    subprocess.run([sys.executable, "-c", DRAWN_IN_THREADS], check=True, env=environment)
