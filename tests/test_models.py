import numpy as np
import pymc as pm
import pytest
from scipy import stats

from pmgp.models import KERNELS, LIKELIHOODS, classifier, lengthscale_prior

N, D = 8, 3


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, D)), np.arange(N) % 2


def squared_distances(X, lengthscale):
    scaled = X / lengthscale
    return np.sum((scaled[:, None] - scaled[None]) ** 2, axis=-1)


def correlation(kernel, r2):
    """Return the kernels as Rasmussen and Williams (2006), equations 4.9 and 4.17, write them."""
    r = np.sqrt(r2)
    return {
        "rbf": np.exp(-r2 / 2),
        "ard": np.exp(-r2 / 2),
        "matern32": (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r),
        "matern52": (1 + np.sqrt(5) * r + 5 * r2 / 3) * np.exp(-np.sqrt(5) * r),
    }[kernel]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_joint_density_is_that_of_the_article(data, kernel, likelihood):
    X, y = data
    model = classifier(X, y, kernel, likelihood)
    rng = np.random.default_rng(1)
    lengthscale = rng.uniform(0.5, 2, size=D) if kernel == "ard" else np.array(1.3)
    variance, f = 2.5, rng.normal(size=N)
    point = {
        "lengthscale_log__": np.log(lengthscale),
        "variance_log__": np.log(variance),
        "f": f,
    }
    covariance = variance * correlation(kernel, squared_distances(X, lengthscale))
    link = stats.norm.logcdf if likelihood == "probit" else lambda z: -np.log1p(np.exp(-z))
    expected = (
        stats.gamma(1, scale=np.sqrt(D)).logpdf(lengthscale).sum()
        + stats.gamma(1.1, scale=10).logpdf(variance)
        + stats.multivariate_normal(np.zeros(N), covariance + 1e-6 * np.eye(N)).logpdf(f)
        + link((2 * y - 1) * f).sum()
    )
    assert model.compile_logp(jacobian=False)(point) == pytest.approx(expected, rel=1e-6)


def test_lengthscale_prior_is_the_models(data):
    model = classifier(*data)
    value = 0.7
    logp = pm.logp(model["lengthscale"], value).eval()
    assert lengthscale_prior(D).logpdf(value) == pytest.approx(float(logp))


def test_dimensions_carry_the_feature_names(data):
    model = classifier(*data, kernel="ard", feature_names=["a", "b", "c"])
    assert model.coords["feature"] == ("a", "b", "c")
    assert model.named_vars_to_dims["lengthscale"] == ("feature",)
    assert model.named_vars_to_dims["f"] == ("observation",)
    assert classifier(*data).coords["feature"] == ("x1", "x2", "x3")


def test_only_f_and_the_hyperparameters_are_free(data):
    assert [rv.name for rv in classifier(*data).free_RVs] == ["lengthscale", "variance", "f"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kernel": "linear"}, "kernel must be one of rbf, ard"),
        ({"likelihood": "poisson"}, "likelihood must be one of probit, logit"),
        ({"X": np.zeros(N)}, "table"),
        ({"X": np.zeros((0, D))}, "not empty"),
        ({"X": np.full((N, D), np.nan)}, "NaN or infinite values in 8 rows"),
        ({"y": np.zeros(N - 1)}, "one label a row"),
        ({"y": np.full(N, -1)}, "holds also -1"),
        ({"y": np.full(N, np.nan)}, "holds also nan"),
        ({"feature_names": ["a", "b"]}, "3 different names"),
        ({"feature_names": ["a", "b", "a"]}, "3 different names"),
    ],
)
def test_bad_arguments_are_refused(data, change, message):
    with pytest.raises(ValueError, match=message):
        classifier(**({"X": data[0], "y": data[1]} | change))
