import re

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import pmgp
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.models import (
    KERNELS,
    LIKELIHOODS,
    classifier,
    count_regression,
    lengthscale_prior,
    multiclass_classifier,
    ordinal_regression,
    regression,
)

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
    assert model.compile_logp(jacobian=False, mode=INTERPRETED)(point) == pytest.approx(expected, rel=1e-6)


def test_lengthscale_prior_is_the_models(data):
    model = classifier(*data)
    value = 0.7
    logp = pm.logp(model["lengthscale"], value).eval(mode=INTERPRETED)
    assert lengthscale_prior(D).logpdf(value) == pytest.approx(float(logp))


def test_dimensions_carry_the_feature_names(data):
    model = classifier(*data, kernel="ard", feature_names=["a", "b", "c"])
    assert model.coords["feature"] == ("a", "b", "c")
    assert model.named_vars_to_dims["lengthscale"] == ("feature",)
    assert model.named_vars_to_dims["f"] == ("observation",)
    assert classifier(*data).coords["feature"] == ("x1", "x2", "x3")
    assert classifier(pd.DataFrame(data[0], columns=["u", 7, "w"]), data[1]).coords["feature"] == ("u", "7", "w")


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
        ({"y": np.zeros(N - 1)}, "one label for each of the 8 rows of X, not the shape .7,."),
        ({"y": np.full(N, -1)}, "contains -1"),
        ({"y": np.full(N, np.nan)}, "all 8 labels are missing"),
        ({"feature_names": ["a", "b"]}, "3 different names"),
        ({"feature_names": ["a", "b", "a"]}, "3 different names"),
        ({"in_time": True, "inducing": np.zeros((2, D))}, "leave out inducing"),
    ],
)
def test_bad_arguments_are_refused(data, change, message):
    with pytest.raises(ValueError, match=message):
        classifier(**({"X": data[0], "y": data[1]} | change))


# Counts.

COUNTS = np.array([0, 3, 1, 0, 7, 2, 2, 1])
EXPOSURE = np.linspace(0.5, 4.0, N)


@pytest.mark.parametrize("exposure", [None, EXPOSURE])
def test_joint_density_of_counts(data, exposure):
    X, _ = data
    model = count_regression(X, COUNTS, "matern32", exposure=exposure)
    units = np.ones(N) if exposure is None else exposure
    lengthscale, variance, level, f = 1.3, 0.8, -0.4, np.random.default_rng(1).normal(size=N)
    point = {"lengthscale_log__": np.log(lengthscale), "variance_log__": np.log(variance), "level": level, "f": f}
    covariance = variance * correlation("matern32", squared_distances(X, lengthscale)) + 1e-6 * np.eye(N)
    expected = (
        stats.gamma(1, scale=np.sqrt(D)).logpdf(lengthscale)
        + stats.expon().logpdf(variance)
        + stats.norm(np.log(COUNTS.sum() / units.sum()), 1).logpdf(level)
        + stats.multivariate_normal(np.full(N, level), covariance).logpdf(f)
        + stats.poisson(units * np.exp(f)).logpmf(COUNTS).sum()
    )
    assert model.compile_logp(jacobian=False, mode=INTERPRETED)(point) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": COUNTS - 1}, "counts must be whole numbers, 0 or more"),
        ({"y": COUNTS + 0.5}, "counts must be whole numbers"),
        ({"y": COUNTS + 1e19}, r"counts must be at most 2\*\*53, found 1e\+19"),
        ({"y": np.zeros(N)}, "all counts are 0"),
        ({"y": COUNTS[1:]}, "one count for each of the 8 rows"),
        ({"exposure": EXPOSURE[1:]}, "one exposure for each of the 8 rows"),
        ({"exposure": 0 * EXPOSURE}, "exposure must be positive"),
        ({"kernel": "linear"}, "kernel must be one of"),
    ],
)
def test_bad_counts_are_refused(data, change, message):
    with pytest.raises(ValueError, match=message):
        count_regression(**({"X": data[0], "y": COUNTS} | change))


MISSING = [True, False, None, True, False, True, False, True]


@pytest.mark.parametrize(
    "labels",
    [
        pd.Series(MISSING, dtype="boolean"),
        pd.Series(MISSING, dtype="Int64"),
        np.array(MISSING, dtype=float),
        np.array(MISSING, dtype=object),
        np.ma.masked_array([one is not False for one in MISSING], [one is None for one in MISSING]),
    ],
    ids=["boolean", "integer", "nan", "object", "masked"],
)
def test_missing_labels_may_be_masked_or_not_a_number(data, labels):
    model = classifier(data[0], labels)
    assert model["y_unobserved"].eval({}, mode=INTERPRETED).shape == (1,)
    np.testing.assert_array_equal(model.rvs_to_values[model["y_observed"]].data, [1, 0, 1, 0, 1, 0, 1])


def test_infinity_is_not_missing(data):
    with pytest.raises(ValueError, match="counts must be whole numbers"):
        count_regression(data[0], [0, np.nan, np.inf, 1, 0, 2, 1, 0])


@pytest.mark.parametrize("kind", ["str", "category", object])
def test_columns_of_text_are_refused_by_their_names(data, kind):
    X = pd.DataFrame(data[0], columns=["age", "size", "dose"])
    X["sex"] = pd.Series(["m", "f"] * (N // 2), dtype=kind)
    with pytest.raises(
        ValueError, match=r"X has text in column 'sex', such as 'm' in row 0: .* pd\.get_dummies, or read"
    ):
        classifier(X, data[1])
    model = classifier(pd.get_dummies(X), data[1])
    assert model.coords["feature"] == ("age", "size", "dose", "sex_f", "sex_m")


def test_a_column_of_digits_is_one_of_numbers(data):
    """Text that reads as numbers is numbers, and a column beside it is named."""
    X = pd.DataFrame({"a": ["1", "2"] * 4, "b": data[0][:, 0]})
    assert "f" in classifier(X, data[1]).named_vars
    with pytest.raises(ValueError, match="X has text in column 'c', such as 'x' in row 3"):
        classifier(X.assign(c=["1", "2", None, "x"] * 2), data[1])


def test_missing_inputs_of_pandas_are_refused_by_their_row(data):
    X = pd.DataFrame(data[0]).astype("Float64")
    X.iloc[2, 1] = pd.NA
    with pytest.raises(ValueError, match="X has NaN or infinite values in 1 rows; the first is row 2, in column 1"):
        classifier(X, data[1])


def test_counts_are_predicted_for_new_exposures(data):
    """The posterior is that of two draws; rates refer to one unit of exposure."""
    X, y = data
    model = count_regression(X, y, exposure=np.linspace(1.0, 3.0, N))
    draws = {"lengthscale": np.ones((1, 2)), "variance": np.ones((1, 2)), "level": np.zeros((1, 2))}
    f = np.tile(np.linspace(-1.0, 1.0, N), (1, 2, 1))
    idata = xr.DataTree.from_dict({"posterior": az.dict_to_dataset(draws | {"f": f})})
    one, three = (
        pmgp.predict(idata, X[:2], model=model, at={"exposure": exposure}, progressbar=False)["mean"]
        for exposure in (1.0, [3.0, 3.0])
    )
    np.testing.assert_allclose(three, 3.0 * one)
    np.testing.assert_allclose(one, np.exp(f[0, 0, :2]), rtol=1e-3)


def test_predicted_categories_have_their_names(data):
    X, _ = data
    grades = np.arange(N) % 3
    draws = {"lengthscale": np.ones((1, 2)), "variance": np.ones((1, 2)), "proportions": np.full((1, 2, 3), 1 / 3)}
    model = ordinal_regression(X, grades, ["low", "medium", "high"])
    cutpoints = np.tile([-0.5, 0.5], (1, 2, 1))
    idata = xr.DataTree.from_dict(
        {"posterior": az.dict_to_dataset(draws | {"f": np.zeros((1, 2, N)), "cutpoints": cutpoints})}
    )
    found = pmgp.predict(idata, X[:2], model=model, progressbar=False)
    assert list(found["category"].values) == ["low", "medium", "high"]


def test_classes_of_pupils_are_no_ordered_categories(data):
    """A dimension that is called `class` and has as many labels."""
    with pm.Model(coords={"class": ["1a", "1b", "1c"]}) as model:
        scale = pm.Exponential("scale", 1.0)
        f = pm.gp.Latent(cov_func=scale * pm.gp.cov.ExpQuad(D, ls=1.0)).prior("f", X=data[0], reparameterize=False)
        pmgp.OrdinalProbit("y", f, [-0.5, 0.5], observed=GRADES)
    idata = az.from_dict({"posterior": {"scale": np.ones((1, 2)), "f": np.zeros((1, 2, N))}})
    found = pmgp.predict(idata, data[0][:2], model=model, progressbar=False)
    assert list(found["category"].values) == [0, 1, 2]


def test_predicted_classes_have_their_names(data):
    X, _ = data
    model = multiclass_classifier(X, np.arange(N) % 3, ["ash", "elm", "oak"])
    draws = {"lengthscale": np.ones((1, 2)), "variance": np.ones((1, 2)), "f": np.zeros((1, 2, 3, N))}
    idata = xr.DataTree.from_dict({"posterior": az.dict_to_dataset(draws)})
    found = pmgp.predict(idata, X[:2], model=model, progressbar=False)
    assert list(found["category"].values) == ["ash", "elm", "oak"]


def test_masked_counts_are_missing(data):
    X, _ = data
    hidden = np.ma.masked_array(np.append(COUNTS[:-1], -99), np.arange(N) == N - 1)
    model = count_regression(X, hidden, exposure=EXPOSURE)
    assert model.named_vars["y_unobserved"] in model.free_RVs
    level = model["level"].owner.op.dist_params(model["level"].owner)[0].eval(mode=INTERPRETED)
    assert level == pytest.approx(np.log(COUNTS[:-1].sum() / EXPOSURE[:-1].sum()))
    assert "y_unobserved" in classifier(X, np.ma.masked_array(data[1] + 0.0, np.arange(N) == 2)).named_vars


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"X": np.ma.masked_array(np.zeros((N, D)), np.eye(N, D))},
            "X has masked values, 3 of 24",
        ),
        (
            {"exposure": np.ma.masked_array(EXPOSURE, np.arange(N) == 5)},
            "exposure has masked .* in row 5",
        ),
        ({"exposure": np.arange(1, N + 1).astype("timedelta64[D]")}, "exposure has dates, the first 1 day"),
        ({"X": np.full((N, D), np.datetime64("2024-01-31"))}, r"X has dates, the first 2024-01-31: give numbers"),
    ],
)
def test_masks_and_dates_that_would_be_lost_are_refused(data, change, message):
    with pytest.raises(ValueError, match=message):
        count_regression(**({"X": data[0], "y": COUNTS} | change))


# Ordered categories.

GRADES = np.array([0, 2, 1, 1, 2, 0, 1, 2])
NAMES = ["low", "medium", "high"]


def test_joint_density_of_ordered_categories(data):
    X, _ = data
    model = ordinal_regression(X, GRADES, NAMES, "ard")
    lengthscale, variance, f = np.array([0.7, 1.3, 2.1]), 2.5, np.random.default_rng(1).normal(size=N)
    proportions = np.array([0.2, 0.5, 0.3])
    simplex = model.rvs_to_transforms[model["proportions"]]
    point = {
        "lengthscale_log__": np.log(lengthscale),
        "variance_log__": np.log(variance),
        "proportions_simplex__": simplex.forward(proportions).eval(mode=INTERPRETED),
        "f": f,
    }
    covariance = variance * correlation("ard", squared_distances(X, lengthscale)) + 1e-6 * np.eye(N)
    limits = np.sqrt(1 + variance) * stats.norm.ppf([0, 0.2, 0.7, 1])
    expected = (
        stats.gamma(1, scale=np.sqrt(D)).logpdf(lengthscale).sum()
        + stats.gamma(1.1, scale=10).logpdf(variance)
        + stats.dirichlet(np.ones(3)).logpdf(proportions)
        + stats.multivariate_normal(np.zeros(N), covariance).logpdf(f)
        + np.log(stats.norm.cdf(limits[GRADES + 1] - f) - stats.norm.cdf(limits[GRADES] - f)).sum()
    )
    assert model.compile_logp(jacobian=False, mode=INTERPRETED)(point) == pytest.approx(expected, rel=1e-6)


def test_prior_proportions_are_those_of_the_labels(data):
    """Whatever the variance, f plus noise falls between the cut points with the proportions as probabilities."""
    with ordinal_regression(data[0], GRADES, NAMES) as model:
        draw = pm.draw(
            [model["variance"], model["proportions"], model["cutpoints"]], 50, random_seed=1, mode=INTERPRETED
        )
    for variance, proportions, cutpoints in zip(*draw, strict=True):
        below = stats.norm(0, np.sqrt(1 + variance)).cdf(cutpoints)
        np.testing.assert_allclose(np.diff([0, *below, 1]), proportions, atol=1e-9)


def test_cut_points_are_named_after_their_neighbors(data):
    model = ordinal_regression(data[0], GRADES, NAMES)
    assert model.coords["cutpoint"] == ("low | medium", "medium | high")
    assert model.named_vars_to_dims["cutpoints"] == ("cutpoint",)
    assert [rv.name for rv in model.free_RVs] == ["lengthscale", "variance", "proportions", "f"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"categories": NAMES[:2]}, "three different categories or more, not"),
        ({"categories": ["low", "low", "high"]}, "three different categories"),
        ({"y": GRADES + 1}, "labels must be 0, ..., 2, but y contains 3"),
        ({"feature_names": ["a"]}, "3 different names"),
    ],
)
def test_bad_categories_are_refused(data, change, message):
    with pytest.raises(ValueError, match=message):
        ordinal_regression(**({"X": data[0], "y": GRADES, "categories": NAMES} | change))


def test_joint_density_of_classes(data):
    X, _ = data
    model = multiclass_classifier(X, GRADES, NAMES, "ard")
    assert model.named_vars_to_dims["f"] == ("class", "observation")
    assert model.coords["class"] == tuple(NAMES)
    lengthscale, variance = np.array([0.7, 1.3, 2.1]), 2.5
    f = np.random.default_rng(1).normal(size=(3, N))
    point = {"lengthscale_log__": np.log(lengthscale), "variance_log__": np.log(variance), "f": f}
    covariance = variance * correlation("ard", squared_distances(X, lengthscale)) + 1e-6 * np.eye(N)
    expected = (
        stats.gamma(1, scale=np.sqrt(D)).logpdf(lengthscale).sum()
        + stats.gamma(1.1, scale=10).logpdf(variance)
        + stats.multivariate_normal(np.zeros(N), covariance).logpdf(f).sum()
        + (f[GRADES, np.arange(N)] - np.log(np.exp(f).sum(axis=0))).sum()
    )
    assert model.compile_logp(jacobian=False, mode=INTERPRETED)(point) == pytest.approx(expected, rel=1e-6)


def test_a_class_may_have_no_observation(data):
    model = multiclass_classifier(data[0], np.minimum(GRADES, 1), NAMES)
    assert model.initial_point()["f"].shape == (3, N)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": NAMES[:2]}, "three different classes or more, not"),
        ({"classes": ["low", "low", "high"]}, "three different classes"),
        ({"classes": 3}, "classes must be a list of names, such as .*, not 3"),
        ({"classes": "abc"}, "classes must be a list of names"),
        ({"y": GRADES + 1}, "labels must be 0, ..., 2, but y contains 3"),
        ({"feature_names": ["a"]}, "3 different names"),
        ({"kernel": "linear"}, "kernel must be one of"),
    ],
)
def test_bad_classes_are_refused(data, change, message):
    with pytest.raises(ValueError, match=message):
        multiclass_classifier(**({"X": data[0], "y": GRADES, "classes": NAMES} | change))


NAMED = np.array(["medium", "low", "high", "low", "low", "high", "medium", "low"])
RECODED = {
    "two": (classifier, (), 7 - 3 * (NAMED == "low"), NAMED != "low"),
    "two with names": (classifier, (), np.where(NAMED == "low", "no", "yes"), NAMED != "low"),
    "from 1": (multiclass_classifier, (NAMES,), GRADES + 1, GRADES),
    "names of classes": (multiclass_classifier, (NAMES,), NAMED, [NAMES.index(name) for name in NAMED]),
    "others": (multiclass_classifier, (NAMES,), 10 * GRADES, GRADES),
    "names of categories": (ordinal_regression, (NAMES,), NAMED, [NAMES.index(name) for name in NAMED]),
    "ordered": (ordinal_regression, (NAMES,), np.char.upper(NAMED), [NAMES.index(name) for name in NAMED]),
}


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(("build", "names", "labels", "expected"), RECODED.values(), ids=RECODED)
def test_the_advice_on_other_labels_keeps_classes_and_missing_ones_apart(data, build, names, labels, expected, missing):
    """The names of classes are not in alphabetical order, in which np.unique would number them."""
    labels, expected = labels.astype(object), np.ma.masked_array(expected, np.zeros(N))
    if missing:
        labels[3], expected[3] = None, np.ma.masked
    with pytest.raises(ValueError, match=r"but y contains .*; recode them") as refused:
        build(data[0], labels, *names)
    code = re.search(r"for example (.*?)(, which|$)", str(refused.value)).group(1)
    code = code.replace("[LOWEST, ..., HIGHEST]", "['LOW', 'MEDIUM', 'HIGH']")
    found = eval(code, {"np": np, "pd": pd, "y": pd.Series(labels.tolist()), "classes": NAMES, "categories": NAMES})
    assert np.ma.masked_invalid(np.ma.masked_array(found, dtype=float)).tolist() == expected.tolist()
    assert "y" in build(data[0], found, *names).named_vars


# Measurements.

MEASURED = 3.0 + 1e-4 * np.array([0.1, 1.2, -0.3, 0.8, 2.0, -1.1, 0.4, 0.6])


def test_joint_density_of_measurements(data):
    """In a unit in which they hardly vary, so that a jitter or a prior without a unit would be seen."""
    X, _ = data
    model = regression(X, MEASURED, "matern52")
    spread = MEASURED.std()
    lengthscale, variance, noise = 1.3, 0.8 * spread**2, 0.3 * spread
    values = {"lengthscale": lengthscale, "variance": variance, "noise": noise}
    point = {f"{name}_log__": np.log(value) for name, value in values.items()}
    covariance = variance * correlation("matern52", squared_distances(X, lengthscale))
    covariance += (noise**2 + 1e-6 * spread**2) * np.eye(N) + spread**2
    expected = (
        stats.gamma(1, scale=np.sqrt(D)).logpdf(lengthscale)
        + stats.gamma(2, scale=spread**2 / 2).logpdf(variance)
        + stats.gamma(2, scale=spread / 4).logpdf(noise)
        + stats.multivariate_normal(np.full(N, MEASURED.mean()), covariance).logpdf(MEASURED)
    )
    assert model.compile_logp(jacobian=False, mode=INTERPRETED)(point) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.full(N, 2.5)}, "all measurements are 2.5"),
        ({"y": np.array([0.1 + 0.2, *[0.3] * (N - 1)])}, "all measurements are 0.3"),
        ({"y": np.append(MEASURED[1:], np.nan)}, "measurements must be finite, but y contains nan"),
        ({"y": np.ma.masked_array(MEASURED, np.arange(N) == 2)}, "y has masked values, 1 of 8, the first in row 2"),
        ({"y": MEASURED[1:]}, "one measurement for each of the 8 rows"),
        ({"kernel": "linear"}, "kernel must be one of"),
    ],
)
def test_bad_measurements_are_refused(data, change, message):
    with pytest.raises(ValueError, match=message):
        regression(**({"X": data[0], "y": MEASURED} | change))
