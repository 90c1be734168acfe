import arviz
import numpy as np
import pytest

from pmgp import diagnostics
from tests.synthetic_posterior import make_posterior


def test_hyperparameters_are_what_is_not_along_the_observations():
    assert diagnostics.hyperparameter_names(make_posterior()) == ["lengthscale", "variance"]


def test_hyperparameters_are_found_without_named_dimensions():
    idata = make_posterior(ard=True, n=12)
    unnamed = idata["posterior"].to_dataset().rename(observation="f_dim_0", feature="lengthscale_dim_0")
    idata["posterior"] = idata["posterior"].__class__(unnamed)
    assert diagnostics.hyperparameter_names(idata) == ["lengthscale", "variance"]


def test_latent_values_of_other_lengths_are_no_hyperparameters():
    """With missing observations, which PyMC divides; with inducing inputs; at the nodes of a mesh."""
    draws = {"lengthscale": (), "cutpoints": (2,), "f": (30,), "y_unobserved": (3,), "y": (30,), "g_rotated_": (7,)}
    posterior = {name: np.ones((2, 10, *shape)) for name, shape in (draws | {"field": (16, 16)}).items()}
    idata = arviz.from_dict({"posterior": posterior, "observed_data": {"y_observed": np.ones(27)}})
    assert diagnostics.hyperparameter_names(idata) == ["lengthscale", "cutpoints"]
    named = arviz.from_dict(
        {"posterior": {name: posterior[name] for name in ("lengthscale", "f", "y_unobserved", "y")}},
        dims={"f": ["row"], "y": ["row"]},
    )
    assert diagnostics.hyperparameter_names(named) == ["lengthscale"]


def test_rhat_at_the_last_point_is_that_of_all_draws():
    idata = make_posterior()
    curves = diagnostics.rhat_over_iterations(idata, points=5)
    np.testing.assert_array_equal(curves["draws"], [80, 160, 240, 320, 400])
    full = arviz.rhat(idata["posterior"].to_dataset()[["lengthscale", "variance"]])
    np.testing.assert_allclose(curves["lengthscale"].isel(draws=-1), full["lengthscale"])
    np.testing.assert_allclose(curves["variance"].isel(draws=-1), full["variance"])


def test_rhat_at_given_points_uses_only_the_first_draws():
    idata = make_posterior(draws=200)
    # A level that only the second half of one chain has cannot be seen in the first half.
    late = idata["posterior"]["variance"].to_numpy()
    late[1, 100:] += 100
    curve = diagnostics.rhat_over_iterations(idata, ["variance"], points=[100, 200])["variance"]
    assert curve[0] < 1.1 < 1.3 < curve[1]


def test_chains_that_disagree_have_a_high_rhat():
    curves = diagnostics.rhat_over_iterations(make_posterior(shift=2.0))
    assert (curves["lengthscale"].isel(draws=-1) > 1.5).all()
    assert curves["variance"].isel(draws=-1) < 1.1


@pytest.mark.parametrize(
    ("posterior", "points", "message"),
    [
        ({"chains": 1}, 5, "2 chains"),
        ({"draws": 8}, 5, "10 draws"),
        ({"draws": 50}, [20, 60], "between 10 and 50, the number of draws"),
        ({"draws": 50}, [5, 50], "between 10"),
        ({"draws": 50}, 0, "points must be at least 1, .* not 0"),
        ({"draws": 50}, [], "points must be a number of them, or a list of whole numbers"),
        ({"draws": 50}, [10.5, 20.0], "a list of whole numbers"),
    ],
)
def test_rhat_refuses_what_says_nothing(posterior, points, message):
    with pytest.raises(ValueError, match=message):
        diagnostics.rhat_over_iterations(make_posterior(**posterior), points=points)


def test_ess_per_second_divides_the_smallest_by_the_time():
    idata = make_posterior()
    ess = arviz.ess(idata["posterior"].to_dataset()[["lengthscale", "variance"]])
    smallest = min(float(ess["lengthscale"].min()), float(ess["variance"]))
    found = diagnostics.ess_per_second(idata)
    assert found["ess"] == pytest.approx(smallest)
    assert found["seconds"] == 20
    assert found["ess_per_second"] == pytest.approx(smallest / 20)
    assert found["variable"].startswith("lengthscale[") or found["variable"] == "variance"


def test_ess_per_second_of_chosen_variables():
    idata = make_posterior()
    found = diagnostics.ess_per_second(idata, ["variance"])
    assert found["variable"] == "variance"
    assert found["ess"] == pytest.approx(float(arviz.ess(idata["posterior"]["variance"])))


def test_ess_per_second_needs_a_time_and_draws():
    idata = make_posterior()
    del idata["posterior"].attrs["sampling_time"]
    with pytest.raises(ValueError, match="sampling_time"):
        diagnostics.ess_per_second(idata)
    idata["posterior"].attrs["sampling_time"] = 0.0
    with pytest.raises(ValueError, match="sampling_time must be positive, not 0 s"):
        diagnostics.ess_per_second(idata)
    with pytest.raises(ValueError, match="10 draws"):
        diagnostics.ess_per_second(make_posterior(draws=5))


def test_operation_counts_are_means_an_iteration():
    counts = diagnostics.operation_counts(make_posterior())
    assert counts == {"n_cholesky": 3.5, "n_inverse": 0, "n_matmul": 1, "n_newton": 4}


def test_operation_counts_leave_out_what_was_not_recorded():
    idata = make_posterior()
    del idata["sample_stats"]["n_newton"]
    assert "n_newton" not in diagnostics.operation_counts(idata)
    del idata["sample_stats"]
    with pytest.raises(ValueError, match="no group sample_stats"):
        diagnostics.operation_counts(idata)


def test_one_parameter_for_each_column_of_a_table_is_a_hyperparameter():
    rng = np.random.default_rng(0)
    posterior = {"lengthscale": rng.gamma(2.0, size=(2, 50, 3)), "f": rng.normal(size=(2, 50, 3, 30))}
    for observed, dims in ((np.ones((3, 30)), {}), (np.ones((30, 3)), {}), (np.ones((3, 30)), DIMS_OF_TABLES)):
        idata = arviz.from_dict({"posterior": posterior, "observed_data": {"y": observed}}, dims=dims)
        assert diagnostics.hyperparameter_names(idata) == ["lengthscale"]


DIMS_OF_TABLES = {"lengthscale": ["output"], "f": ["output", "row"], "y": ["output", "row"]}


def test_where_no_hyperparameter_is_found_names_are_asked_for():
    idata = arviz.from_dict({"posterior": {"f": np.ones((2, 50, 30))}, "observed_data": {"y": np.ones(30)}})
    with pytest.raises(ValueError, match=r"none counts as a hyper-parameter; .*var_names=\['f'\]"):
        diagnostics.ess_per_second(idata)
