from functools import partial
from itertools import combinations

import arviz as az
import matplotlib as mpl
import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pandas as pd
import pytest
from nbclient import NotebookClient
from scipy.stats import binomtest, gamma, nbinom, norm, poisson

from pmgp import plots, scores
from pmgp.plots.calibration import reliability
from pmgp.plots.counts import transform_histogram
from pmgp.scores.counts import PredictedCounts
from tests.synthetic_posterior import FEATURES, make_posterior

mpl.use("Agg")


SHOWN = 0.9
"""What pages show of a figure's width."""


@pytest.fixture(autouse=True)
def letters_can_be_read():
    """Every figure that a test has drawn: no letter under nine points at the size shown."""
    yield
    sizes = [text.get_fontsize() for number in plt.get_fignums() for text in texts(plt.figure(number))]
    plt.close("all")
    assert min(sizes, default=np.inf) * SHOWN >= 9.0


def texts(figure):
    """Draw the figure and return what is written in it."""
    figure.canvas.draw()
    return [text for text in figure.findobj(mpl.text.Text) if text.get_visible() and text.get_text()]


def shown(figure):
    return [text.get_text() for text in texts(figure)]


def boxes(figure):
    """Draw the figure and return the boxes of what is written in it, without the ticks that are beyond an axis."""
    figure.canvas.draw()
    found = []
    for axes in figure.axes:
        found += [axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts]
        found += axes.get_legend().findobj(mpl.text.Text) if axes.get_legend() else []
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            found += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    return {text: text.get_window_extent() for text in found if text.get_visible() and text.get_text()}


def overlaps(figure):
    """Return the pairs of texts that overlap by more than a pixel in both directions, and texts that are cut off."""
    found = boxes(figure)
    pairs = [
        (one.get_text(), other.get_text())
        for (one, a), (other, b) in combinations(found.items(), 2)
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1
    ]
    whole = figure.bbox
    cut = [
        text.get_text()
        for text, box in found.items()
        if box.x0 < -1 or box.y0 < -1 or box.x1 > whole.x1 + 1 or box.y1 > whole.y1 + 1
    ]
    return pairs + cut


@pytest.mark.parametrize("ard", [False, True])
@pytest.mark.parametrize("plot", [plots.trace, plots.rank, plots.autocorrelation, plots.posterior])
def test_one_panel_a_hyperparameter_and_none_for_f(plot, ard):
    figure = plot(make_posterior(ard=ard))
    panels = [axes for axes in figure.axes if axes.get_title()]
    assert len(panels) == (len(FEATURES) + 1 if ard else 2)
    assert panels[-1].get_title() == "variance"
    if ard:
        assert {name for name in FEATURES if name in " ".join(shown(figure))} == set(FEATURES)


@pytest.mark.parametrize(
    ("plot", "labels"),
    [
        (partial(plots.trace, units={"lengthscale": "years"}), {"Draw", "years", "value"}),
        (plots.rank, {"Fractional ranks", "Δ ECDF of ranks"}),
        (plots.autocorrelation, {"Lag", "autocorrelation"}),
        (partial(plots.posterior, units={"lengthscale": "years"}), {"years", "value"}),
        (plots.rhat, {"draws used of each chain", "R-hat", "variance", "lengthscale[mitoses]"}),
        (plots.lengthscale, {"length-scale, logarithmic scale"}),
        (partial(plots.lengthscale, unit="years"), {"length-scale (years), logarithmic scale"}),
    ],
)
def test_axes_say_what_they_show(plot, labels):
    assert labels <= set(shown(plot(make_posterior())))


def test_traces_show_the_draws():
    idata = make_posterior(ard=False)
    lines = plots.trace(idata, ["variance"]).axes[0].lines
    for line, chain in zip(lines, idata["posterior"]["variance"], strict=True):
        np.testing.assert_array_equal(line.get_ydata(), chain)


def test_posteriors_state_the_probability_of_their_interval():
    idata = make_posterior(ard=False)
    figure = plots.posterior(idata, ["variance"])
    assert "mean, and central 90% interval" in shown(figure)
    lines = [line for line in figure.axes[0].lines if len(line.get_xdata()) == 2]
    np.testing.assert_allclose(lines[0].get_xdata(), idata["posterior"]["variance"].quantile([0.05, 0.95]), rtol=0.01)
    assert overlaps(figure) == []


def test_rhat_says_that_it_does_not_show_how_close_to_one_it_is():
    figure = plots.rhat(make_posterior(ard=False, draws=1000))
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()][:2] == ["≤ 1.001", "1.003"]


def test_autocorrelation_falls_as_that_of_the_process():
    idata = make_posterior(ard=False, draws=4000, correlation=0.5)
    log_variance = idata["posterior"]["variance"]
    log_variance[:] = np.log(log_variance)
    curves = [line.get_ydata() for line in plots.autocorrelation(idata, ["variance"]).axes[0].lines]
    chains = [curve for curve in curves if np.any(curve)]
    assert len(chains) == 2
    for curve in chains:
        np.testing.assert_allclose(curve[:4], [1, 0.5, 0.25, 0.125], atol=0.08)


def test_few_draws_limit_the_lags():
    assert plots.autocorrelation(make_posterior(draws=30)).axes[0].get_xlim()[1] < 40


def test_rhat_curve_is_at_its_value():
    idata = make_posterior(ard=False, shift=2.0)
    from pmgp.diagnostics import rhat_over_iterations

    curve = rhat_over_iterations(idata)["lengthscale"]
    drawn = plots.rhat(idata).axes[0].lines[0]
    assert drawn.get_label() == "lengthscale"
    np.testing.assert_allclose(drawn.get_ydata(), curve - 1)


def test_intervals_of_lengthscales_are_quantiles_sorted_by_median():
    idata = make_posterior()
    values = idata["posterior"]["lengthscale"]
    values[..., 1] *= 10
    values[..., 2] *= 3
    figure = plots.lengthscale(idata, gamma(1, scale=2.0))
    axes = figure.axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == [
        "cell_size",
        "mitoses",
        "clump_thickness",
    ]
    thick = axes.collections[0].get_segments()[0]
    np.testing.assert_allclose(thick[:, 0], values[..., 1].quantile([0.25, 0.75]))
    assert axes.get_xscale() == "log"
    assert axes.get_xlabel() == "length-scale, logarithmic scale"


def test_density_of_one_lengthscale_is_drawn_beside_its_prior():
    prior = gamma(1, scale=2.0)
    axes = plots.lengthscale(make_posterior(ard=False, draws=2000), prior).axes[0]
    curves = {line.get_label(): line.get_xydata().T for line in axes.lines}
    x, density = curves["posterior"]
    assert np.trapezoid(density, x) == pytest.approx(1, abs=0.02)
    grid, prior_density = curves["prior"]
    np.testing.assert_allclose(prior_density, prior.pdf(grid))


def test_one_chain_has_no_ranks_to_compare():
    with pytest.raises(ValueError, match="only one"):
        plots.rank(make_posterior(chains=1))


def test_a_matrix_of_lengthscales_has_a_row_for_each_element():
    draws = np.random.default_rng(0).gamma(2.0, 1.0, (4, 100, 2, 3)) * np.arange(1, 7).reshape(2, 3) ** 3
    axes = plots.lengthscale(az.from_dict({"posterior": {"lengthscale": draws}})).axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["1, 2", "1, 1", "1, 0", "0, 2", "0, 1", "0, 0"]


def test_constants_have_no_rhat_and_hide_none():
    rng = np.random.default_rng(0)
    posterior = {f"w{k}": rng.normal(size=(4, 100)) for k in range(9)}
    posterior |= {"one": np.ones((4, 100)), "stuck": rng.normal(size=(4, 100)) + 3.0 * np.arange(4)[:, None]}
    axes = plots.rhat(az.from_dict({"posterior": dict(sorted(posterior.items()))})).axes[0]
    named = [text.get_text() for text in axes.get_legend().get_texts()]
    assert named[0] == "stuck"
    assert named[-1] == "2 others, lower at the end"
    assert "one" not in named
    assert len(axes.lines) == len(posterior)  # one fewer curve, and the limit


def test_no_lengthscale_is_an_error():
    with pytest.raises(ValueError, match="no variable 'scale'"):
        plots.lengthscale(make_posterior(), name="scale")


def test_reliability_counts_by_hand():
    y = np.array([0, 1, 0, 1, 1])
    p = np.array([0.05, 0.08, 0.31, 0.95, 1.0])
    table = reliability(y, p)
    np.testing.assert_array_equal(table.size, [2, 1, 2])
    np.testing.assert_allclose(table.predicted, [0.065, 0.31, 0.975])
    np.testing.assert_allclose(table.observed, [0.5, 0, 1])
    interval = binomtest(1, 2).proportion_ci(0.9, method="wilson")
    np.testing.assert_allclose([table.low[0], table.high[0]], [interval.low, interval.high])


def test_calibration_shows_every_point_and_names_the_classes():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=80)
    y = (rng.uniform(size=80) < p).astype(int)
    figure = plots.calibration(y, p, ("benign", "malignant"))
    bars = figure.axes[1].containers
    assert sum(bar.get_height() for container in bars for bar in container) == 80
    assert {
        "predicted probability of malignant",
        "observed frequency of malignant",
        "observed: benign",
    } <= set(shown(figure))


def test_classes_without_names_are_called_by_their_labels():
    figure = plots.calibration([0, 1, 1], [0.2, 0.7, 0.7])
    assert {"observed: class 0", "observed: class 1"} <= set(shown(figure))


@pytest.mark.parametrize("number", [1, 5, 8, 9])
def test_counts_have_whole_numbers_on_their_axes(number):
    y = np.arange(number + 1)
    predicted = PredictedCounts((y + 0.5)[None])
    bottom = plots.calibration([0, 1] * number, [0.3] * 2 * number).axes[1]
    left = plots.counts(y, predicted).axes[0]
    for axis in (bottom.yaxis, left.xaxis, left.yaxis):
        ticks = axis.get_ticklocs()
        assert len(ticks) > 1
        np.testing.assert_array_equal(ticks, np.round(ticks))


def test_abstention_shows_both_curves_of_every_classifier():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=60)
    y = (rng.uniform(size=60) < p).astype(int)
    figure = plots.abstention(y, {"one": p, "other": 1.0 - p})
    assert [len(axes.lines) for axes in figure.axes] == [2, 2]
    line = figure.axes[0].lines[0]
    np.testing.assert_array_equal(line.get_ydata(), scores.abstention_curve(y, p).score)
    names = {f"one  {scores.capacity(y, p):.3f}", f"other  {scores.capacity(y, 1.0 - p, 'auc'):.3f}"}
    assert names <= set(shown(figure))
    assert len(plots.abstention(y, p).axes[0].lines) == 1


def test_plotting_leaves_the_users_settings_alone():
    before = dict(mpl.rcParams)
    plots.trace(make_posterior())
    plots.calibration([0, 1], [0.2, 0.7])
    assert dict(mpl.rcParams) == before


def test_a_notebook_shows_every_figure(monkeypatch):
    """The first one turns the interactive mode on; the next ones need it."""
    pytest.importorskip("ipykernel")
    monkeypatch.delenv("MPLBACKEND", raising=False)
    cells = ["import pmgp", *["pmgp.plots.calibration([0, 1], [0.2, 0.7]);"] * 2]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, kernel_name="python3").execute()
    assert [len(cell.outputs) for cell in notebook.cells] == [0, 1, 1]


def test_transform_histogram_by_hand():
    # One count spreads over the first half, one over the middle fifth, one is at the very end.
    heights = transform_histogram([0.0, 0.4, 1.0], [0.5, 0.6, 1.0], bins=10)
    expected = np.array([0.2, 0.2, 0.2, 0.2, 0.2 + 0.5, 0.5, 0, 0, 0, 1.0]) * 10 / 3
    np.testing.assert_allclose(heights, expected)


def test_transform_histogram_is_level_for_the_right_distribution_only():
    rng = np.random.default_rng(0)
    rates = rng.uniform(0.5, 20, size=4000)
    y = rng.poisson(rates)

    def heights(predicted):
        return transform_histogram(predicted.cumulative(y - 1), predicted.cumulative(y))

    right = heights(PredictedCounts(rates[None]))
    # A bin holds about 400 points, so that its height has a standard deviation of at most 0.05.
    np.testing.assert_allclose(right, 1, atol=0.2)
    assert heights(PredictedCounts.log_normal(np.log(rates), np.full(4000, 0.6)))[[0, -1]].max() < 0.6


@pytest.mark.parametrize(("factor", "scale"), [(1, "symlog"), (100, "log")])
def test_counts_are_drawn_within_and_outside_their_intervals(factor, scale):
    rates = np.linspace(1, 30, 40) * factor
    y = np.random.default_rng(1).poisson(rates)
    y[0] = 500 * factor
    right = poisson(rates)
    low, high = right.ppf(0.05), right.ppf(0.95)
    figure = plots.counts(y, PredictedCounts(rates[None]), "calls")
    axes = figure.axes[0]
    lines = {line.get_label().split(" (")[0]: line.get_xydata() for line in axes.lines}
    inside, outside = lines["count within its interval"], lines["count outside"]
    assert len(inside) + len(outside) == 40
    assert [rates[0], y[0]] in outside.tolist()
    np.testing.assert_array_equal(len(inside), np.sum((low <= y) & (y <= high)))
    np.testing.assert_array_equal(axes.collections[0].get_segments()[5], [[rates[5], low[5]], [rates[5], high[5]]])
    assert {"predicted mean of calls", "observed calls", "density of points"} <= set(shown(figure))
    assert axes.get_xscale() == scale


@pytest.mark.parametrize("missing", [np.nan, np.ma.masked])
def test_missing_counts_are_refused(missing):
    y = np.ma.array(np.full(5, 2.0))
    y[3] = missing
    with pytest.raises(ValueError, match="must be finite; leave out the missing counts"):
        plots.counts(y, PredictedCounts(np.full((1, 5), 2.5)))


def test_counts_without_a_mean_are_refused():
    with pytest.raises(ValueError, match="must be finite; leave out the missing counts"):
        plots.counts(np.ones(2), PredictedCounts.log_normal([0.0, 0.0], [1.0, 1e4]))


def test_a_plot_of_counts_takes_distributions_of_ones_own():
    class Scattered:
        distribution = nbinom(2.0, 0.3 * np.ones(30))
        mean = distribution.mean()
        quantile, cumulative = distribution.ppf, distribution.cdf

    y = Scattered.distribution.rvs(random_state=1)
    below = transform_histogram(Scattered.cumulative(y - 1), Scattered.cumulative(y))
    bars = plots.counts(y, Scattered()).axes[1].containers[0]
    np.testing.assert_allclose([bar.get_height() for bar in bars], below)


@pytest.mark.parametrize("missing", [np.nan, np.ma.masked])
def test_missing_measurements_are_refused(missing):
    y = np.ma.array(np.zeros(5))
    y[3] = missing
    with pytest.raises(ValueError, match="must be finite; leave out the missing measurements"):
        plots.measurements(y, np.zeros(5), np.ones(5))


def test_measurements_are_drawn_within_and_outside_their_intervals():
    mean, sd = np.linspace(-3.0, 1.0, 40), np.full(40, 0.5)
    y = np.random.default_rng(1).normal(mean, sd)
    y[0] = -9.0
    figure = plots.measurements(y, mean, sd, "depth")
    axes = figure.axes[0]
    lines = {line.get_label().split(" (")[0]: line.get_xydata() for line in axes.lines}
    inside, outside = lines["value within its interval"], lines["value outside"]
    assert len(inside) + len(outside) == 40
    assert [mean[0], y[0]] in outside.tolist()
    np.testing.assert_array_equal(len(inside), np.sum(np.abs(y - mean) <= norm.ppf(0.95) * sd))
    assert {"predicted mean of depth", "observed depth", "density of points"} <= set(shown(figure))


def test_categories_are_drawn_as_divided_bars_and_reliability():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(4), size=30)
    y = np.array([rng.choice(4, p=row) for row in p])
    figure = plots.categories(y, p, ["poor", "fair", "good", "excellent"])
    bars, *panels = figure.axes
    heights = np.array([[bar.get_height() for bar in container] for container in bars.containers])
    assert heights.shape == (4, 30)
    np.testing.assert_allclose(heights.sum(axis=0), 1)
    expected = p @ np.arange(4)
    np.testing.assert_allclose(heights.T, p[np.lexsort((expected, y))])
    assert [axes.get_title() for axes in panels] == ["fair or above", "good or above", "excellent"]
    table = reliability(y >= 2, p[:, 2:].sum(axis=1), 5)
    drawn = panels[1].containers[0].lines[0].get_xydata()
    np.testing.assert_allclose(drawn, np.column_stack([table.predicted, table.observed]))
    assert f"poor ({(y == 0).sum()})" in shown(figure)


def test_classes_are_drawn_as_bars_counts_and_a_reject_curve():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(6), size=30)
    y = np.array([rng.choice(6, p=row) for row in p])
    names = [f"kind {k}" for k in range(6)]
    bars, counts, rejects = plots.classes(y, p, names).axes
    heights = np.array([[bar.get_height() for bar in container] for container in bars.containers])
    own = p[np.arange(30), y]
    np.testing.assert_allclose(heights.T, p[np.lexsort((own, y))])
    assert bars.get_legend().get_title().get_text() == "class"
    expected = scores.classes.confusion_matrix(y, p)
    assert [text.get_text() for text in counts.texts] == [str(count) for count in expected.ravel()]
    share = expected / np.maximum(expected.sum(axis=1, keepdims=True), 1)
    np.testing.assert_allclose(counts.images[0].get_array(), share)
    assert (counts.get_ylabel(), counts.get_xlabel()) == ("observed", "most probable")
    curve = scores.classes.abstention_curve(y, p)
    np.testing.assert_allclose(rejects.lines[0].get_xydata(), np.column_stack([curve.abstention, curve.score]))


@pytest.mark.parametrize("number", [3, 15, 25])
def test_no_two_classes_have_the_same_color(number):
    y = np.arange(number)
    bars = plots.classes(y, np.full((number, number), 1 / number), [str(k) for k in y]).axes[0]
    assert len({container.patches[0].get_facecolor() for container in bars.containers}) == number


def test_a_category_that_no_point_has_is_drawn_too():
    figure = plots.categories([0, 1, 1], np.full((3, 3), 1 / 3), ["low", "medium", "high"])
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["low (1)", "medium (2)"]
    assert "high" in shown(figure)


LIKERT = ["strongly disagree", "disagree", "neither agree nor disagree", "agree", "strongly agree"]
LONG = [f"customer cancelled the contract within {k} years" for k in range(7)]


@pytest.mark.parametrize(
    ("plot", "names", "sizes"),
    [
        (plots.categories, LIKERT, [5] * 5),
        (plots.categories, LIKERT, [1, 1, 12, 12, 12]),
        (plots.categories, LIKERT[1:4], [8] * 3),
        (plots.categories, [f"quality of {k}" for k in range(10)], [3] * 10),
        (plots.categories, LONG, [3] * 7),
        (plots.classes, LIKERT, [5] * 5),
        (plots.classes, LIKERT, [1, 1, 12, 12, 12]),
        (plots.classes, ["low", "middle", "high"], [8] * 3),
        (plots.classes, LONG, [3] * 7),
        (plots.classes, [f"species {k} of the genus" for k in range(20)], [1] * 20),
    ],
)
def test_names_of_categories_neither_overlap_nor_are_cut_off(plot, names, sizes, rng):
    y = np.repeat(np.arange(len(names)), sizes)
    figure = plot(y, rng.dirichlet(np.ones(len(names)), size=len(y)), names)
    assert overlaps(figure) == []
    extents = [axes.get_window_extent() for axes in figure.axes]
    assert min(min(extent.width, extent.height) for extent in extents) > 1.5 * figure.dpi


def test_a_short_name_of_a_small_category_leaves_the_others_level(rng):
    sizes = [2, 5, 10, 12, 21]
    names = ["Fair", "Good", "Very Good", "Premium", "Ideal"]
    figure = plots.categories(np.repeat(np.arange(5), sizes), rng.dirichlet(np.ones(5), size=50), names)
    assert {label.get_rotation() for label in figure.axes[0].get_xticklabels()} == {0.0}
    assert overlaps(figure) == []


def test_wrong_labels_probabilities_and_names_are_refused(rng):
    p, labels = rng.uniform(size=60), rng.integers(2, size=60)
    for y, probability, words in [
        (2 * labels - 1, p, "labels must be 0 or 1"),
        (labels, 2.0 * p, "between 0 and 1"),
        (labels, np.where(p < 0.1, np.nan, p), "between 0 and 1"),
        (labels[1:], p, "equal length"),
    ]:
        with pytest.raises(ValueError, match=words):
            plots.calibration(y, probability)
    with pytest.raises(ValueError, match="bins must be at least 1, not 0"):
        plots.calibration(labels, p, bins=0)
    with pytest.raises(ValueError, match="there are 1 names for 2 classes: no"):
        plots.calibration(labels, p, classes=["no"])
    Q = rng.dirichlet(np.ones(3), size=60)
    c = rng.integers(3, size=60)
    for plot in (plots.categories, plots.classes):
        plt.close(plot(c.astype(float), Q, [0, 1, 2]))
        with pytest.raises(ValueError, match="there are 2 names for 3 classes: a, b"):
            plot(c, Q, ["a", "b"])
        with pytest.raises(ValueError, match="sum to 1"):
            plot(c, 2.0 * Q, ["a", "b", "c"])
    with pytest.raises(ValueError, match="sd must be positive"):
        plots.measurements(p, p, np.zeros(60))


def test_variables_are_named_one_by_one_too(rng):
    idata = az.from_dict({"posterior": {"variance": rng.gamma(2.0, 1.0, (2, 50)), "other": rng.normal(size=(2, 50))}})
    one, several = plots.trace(idata, "variance"), plots.trace(idata, ["variance"])
    assert len(one.axes) == len(several.axes)
    plt.close("all")
    for plot in (plots.trace, plots.rank, plots.autocorrelation, plots.posterior, plots.rhat):
        with pytest.raises(ValueError, match="the posterior has no 'v'; its variables are variance, other"):
            plot(idata, "v")
        with pytest.raises(ValueError, match="the posterior is asked for no variable"):
            plot(idata, [])


def bands(**columns):
    time = np.arange(12.0)
    return pd.DataFrame({"time": time, "low": time - 1.0, "median": time, "high": time + 1.0} | columns)


def test_a_trend_is_drawn_in_order_of_time():
    table = bands(forecast=np.arange(12) > 8)
    observed = ([0.0, 1.0, 2.0], [1, 2, 3]), ([], [])
    for rows in (table, table.sample(frac=1.0, random_state=1)):
        curves = {
            line.get_label().split(":")[0]: line.get_xdata() for line in plots.trend(rows, *observed).axes[0].lines
        }
        np.testing.assert_array_equal(curves["trend"], np.arange(9.0))
        np.testing.assert_array_equal(curves["forecast"], np.arange(8.0, 12.0))
    alone = plots.trend(bands(forecast=True), *observed).axes[0]
    assert alone.get_legend_handles_labels()[1] == ["forecast: median, and its interval of 90 %", "observed"]


def test_both_intervals_of_counts_are_named():
    table = bands(forecast=False, count_low=0, count_high=9)
    labels = plots.trend(table, ([2.0], [1]), ([], [])).axes[0].get_legend_handles_labels()[1]
    assert {"counts: interval of 90 %", "trend: median, and its interval of 90 %"} <= set(labels)


PRICES = ["$0_to_$50", "$50_to_$90", "over $90_$"]
"""As formulas, the first two would lose their dollars, and the third could not be read."""


def test_dollars_in_names_begin_no_formula(rng):
    probabilities = rng.dirichlet(np.ones(3), size=30)
    y = np.arange(30) % 3
    labels = {"dims": {"lengthscale": ["feature"]}, "coords": {"feature": PRICES}}
    idata = az.from_dict({"posterior": {"lengthscale": rng.gamma(2.0, 1.0, (2, 100, 3))}}, **labels)
    counts = np.arange(30.0)
    figures = (
        plots.calibration(y > 1, probabilities[:, 2], PRICES[1:]),
        plots.categories(y, probabilities, PRICES),
        plots.classes(y, probabilities, PRICES),
        plots.measurements(counts, counts, np.ones(30), PRICES[2]),
        plots.trend(bands(forecast=False), ([2.0], [1]), ([], []), PRICES[0], PRICES[2], PRICES),
        plots.lengthscale(idata, unit=PRICES[2]),
        plots.trace(idata),
        plots.rhat(idata),
    )
    for figure in figures:
        # Drawn, an escaped dollar is one.
        written = " ".join(shown(figure)).replace("\\$", "$")
        assert any(name in written for name in PRICES), written


def test_long_names_do_not_leave_the_picture(rng):
    name = "customer cancelled the contract within one year"
    figure = plots.calibration(np.arange(30) % 2, rng.uniform(size=30), [name, "stayed"])
    figure.canvas.draw()
    width = figure.bbox.width
    for axes in figure.axes:
        box = axes.get_legend().get_window_extent()
        assert box.x1 <= width
        assert axes.get_window_extent().width > 0.6 * width


def test_a_trend_without_a_time_is_refused():
    with pytest.raises(ValueError, match="the table of the trend has no rows"):
        plots.trend(bands(forecast=False).iloc[:0], ([], []), ([], []))


def test_forecasts_before_and_after_a_trend_are_drawn_apart():
    """Each reaches to the trend beside it, and no line crosses the trend."""
    forecast = np.isin(np.arange(12), [0, 1, 9, 10, 11]).astype(object)
    axes = plots.trend(bands(forecast=forecast), ([2.0], [1]), ([], [])).axes[0]
    drawn = [line.get_xdata() for line in axes.lines if len(line.get_xdata()) > 1]
    for found, expected in zip(drawn, [[0, 1, 2], np.arange(2, 9), [8, 9, 10, 11]], strict=True):
        np.testing.assert_array_equal(found, expected)
    assert sum("forecast" in text for text in axes.get_legend_handles_labels()[1]) == 1


@pytest.mark.parametrize(
    ("counts", "scale"),
    [
        ([3, 0, 30], "linear"),
        ([0, 3, 700], "symlog"),
        ([5, 60], "symlog"),
        ([150_000, 260_000], "linear"),
        ([120, 400_000], "log"),
    ],
)
def test_counts_fill_their_axes(counts, scale):
    """A logarithmic axis from zero would put large counts of one size into a corner."""
    predicted = scores.counts.PredictedCounts.log_normal(np.log(np.maximum(counts, 0.5)), np.full(len(counts), 1e-4))
    axes = plots.counts(counts, predicted).axes[0]
    assert axes.get_xscale() == scale
    assert len(axes.get_xticks()) <= 12
    transformed = axes.transData.transform([[min(counts), min(counts)], [max(counts), max(counts)]])
    assert np.ptp(axes.transAxes.inverted().transform(transformed), axis=0).min() > 0.5


@pytest.mark.parametrize(("size", "text"), [(5e11, "5e+11 mean"), (120.0, "120 mean"), (0.5, "0.5 mean")])
def test_means_of_densities_are_written_briefly(size, text):
    draws = size * np.random.default_rng(1).uniform(0.98, 1.02, (2, 200))
    figure = plots.posterior(az.from_dict({"posterior": {"variance": draws}}))
    assert [one.get_text() for one in figure.axes[0].texts] == [text]
    assert len(figure.axes[0].get_xticks()) <= 7
