"""Small fixtures that several test modules share."""

from __future__ import annotations

import gc
import os

import numpy as np
import pytest

from pmgp.core.numerics.threads import threads_limited
from tests.durations import LARGEST, Recorder, stored
from tests.selection import SEEN, mark_slow

# PyTensor records for each node of a graph where it was made, and no test asks for that.
os.environ.setdefault("PYTENSOR_FLAGS", "traceback__limit=0")

# These are about the threads of BLAS. Elsewhere each test has one: the package limits them by itself, but what it is
# compared with does not, and PyMC's draws beside another worker's took twice the processor time with two threads.
ABOUT_THREADS = {"test_threads.py", "test_chain_threads.py"}

# The benchmarks limit the processor's time and read the machine's load, which Windows does not offer.
collect_ignore_glob = [] if os.name == "posix" else ["test_benchmark*.py"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--store-durations", action="store_true", help="store what takes long")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Recorder(config.getoption("store_durations")), "durations")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long files first, before pytest deselects by markers."""
    mark_slow(items)
    config.stash[SEEN] = list(items)
    figures = stored()
    items.sort(key=lambda item: -figures.get(item.nodeid.partition("::")[0], LARGEST))


def pytest_collection_finish() -> None:
    """Look for garbage less often: in tests of PyTensor's graphs, which have many circles, a fifth of the time went."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)


@pytest.fixture(scope="module", autouse=True)
def one_thread_of_blas(request):
    with threads_limited(None if request.path.name in ABOUT_THREADS else 1):
        yield


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


@pytest.fixture(scope="session")
def binary_data() -> tuple[np.ndarray, np.ndarray]:
    """Twenty noisy labels over two features, of which the first matters."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(20, 2))
    y = (X[:, 0] + 0.5 * rng.normal(size=20) > 0).astype(int)
    return X, y


@pytest.fixture(scope="session")
def probit_model(binary_data):
    """Gaussian process classification with a probit link, n = 20; not to be changed by a test."""
    import pymc as pm

    import pmgp

    X, y = binary_data
    with pm.Model() as model:
        lengthscale = pm.Gamma("lengthscale", 2, 1)
        variance = pm.Gamma("variance", 2, 0.5)
        gp = pm.gp.Latent(cov_func=variance * pm.gp.cov.ExpQuad(2, ls=lengthscale))
        f = gp.prior("f", X=X, reparameterize=False)
        pmgp.BernoulliProbit("y", f, observed=y)
    return model
