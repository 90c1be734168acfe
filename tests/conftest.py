"""Small fixtures that several test modules share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pmgp.core.numerics.threads import threads_limited
from tests.selection import SEEN, mark_full

# Their algorithms leave the threads of BLAS to the caller, and so does PyMC's NUTS, which they are compared with.
WITHOUT_THREADS_OF_THEIR_OWN = {
    "approximations",
    "blocks",
    "estimators",
    "exercises",
    "gaussians",
    "kernels",
    "latent_updates",
    "marginal",
    "theta_updates",
}


# Files of a minute and more. They begin before the others, which fill what time is left to either worker: a file goes
# to one worker as a whole, and a long one that comes last keeps the other one waiting.
LONG = (
    "marginal/test_geweke_pseudo_marginal.py",
    "theta_updates/test_gibbs_agreement.py",
    "latent_updates/test_geweke_operators.py",
    "blocks/test_block_operators.py",
    "theta_updates/test_gibbs_geweke.py",
    "blocks/test_block_models.py",
    "blocks/test_article_samplers.py",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Before pytest's own, which deselects by markers."""
    mark_full(items)
    config.stash[SEEN] = list(items)
    folder = Path(__file__).parent
    rank = {folder / name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: rank.get(item.path, len(LONG)))


@pytest.fixture(scope="module", autouse=True)
def one_thread_for_each_test_worker(request):
    """In the folders of the core; everything else limits threads by itself, and is tested to."""
    with threads_limited(1 if request.path.parent.name in WITHOUT_THREADS_OF_THEIR_OWN else None):
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
