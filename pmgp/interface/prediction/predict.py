"""Expectations at new inputs, averaged over posterior draws of theta and f (equation 20 of the first article)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pmgp.core.iterative.settings import Iterative
from pmgp.core.numerics.threads import suitable_threads, threads_limited
from pmgp.interface.model.context import current_model
from pmgp.interface.model.inducing_process import inducing_process
from pmgp.interface.model.labels import category_names
from pmgp.interface.prediction.averages import parts_of
from pmgp.interface.prediction.covariates import check_order
from pmgp.interface.prediction.existing import existing
from pmgp.interface.prediction.predictor_rows import predict_rows, refuse_inputs
from pmgp.interface.prediction.responses import Expectation, expectations_of
from pmgp.interface.prediction.setting import PredictionTask, find_predicted, observed_below, of_rows, prepare

LATENT = ("latent_mean", "square", "latent_variance")


def predict(
    idata: Any,
    Xnew: Any = None,
    *,
    model: pm.Model | None = None,
    latent: Any = None,
    gp: Any = None,
    at: dict[str, Any] | None = None,
    draws: int | None = 1000,
    block_size: int | None = None,
    solver: Iterative | str = "auto",
    progressbar: bool = True,
) -> xr.Dataset:
    """Return the predictive distribution at new inputs, averaged over the posterior.

    Parameters
    ----------
    idata : xarray.DataTree
        Result of `pymc.sample`, with f and the hyper-parameters in its posterior group, or the draws of f at the
        maximum, ``pmgp.find_map(model).trace``. For multivariate normal observations, such as those of
        `pymc.gp.Marginal`, the hyper-parameters are enough, as in the results of :func:`pmgp.importance`.
    Xnew : (m, d) array, optional
        New inputs, on the scale of the inputs that the model was built with. If these are a function of a `pymc.Data`,
        that is the scale of the data, but for a process in time the scale of its times. For the latter, a vector is
        accepted too. Leave Xnew out for a model of group effects, autoregressions and random walks, and for the rows of
        the model's data (see the notes).
    model : pymc.Model, optional
        The model that was sampled; taken from the context if it is not given.
    latent : variable or str, optional
        The variable f, or a sequence of variables, if other multivariate normal variables are hyper-parameters.
    gp : pymc.gp.Latent or list of these, optional
        The process whose prior is f, or those of several latent vectors in any order. It knows its inputs; without it,
        the graph of the covariance is searched for the inputs, but it does not contain all of them, or not in their
        order, if `active_dims` selects columns of a plain array. Give gp in this case.
    at : dict, optional
        Other data of the likelihood at the new points, such as exposures, numbers of trials or covariates. It maps the
        name of a `pymc.Data` to an array of shape (m, ...), or to one number for all new points.
    draws : int or None
        At most this many posterior draws are used, evenly spaced over all chains; None for all.
    block_size : int, optional
        Number of new inputs handled at a time; by default, as many as need a few tens of megabytes.
    solver : {"auto", "cholesky", "iterative"} or pmgp.marginal.Iterative
        For multivariate normal observations only: whether linear systems are solved with a Cholesky factorization or
        iteratively, without an n by n matrix. With "auto", a factorization is used for up to 10,000 observations.
    progressbar : bool

    Returns
    -------
    xarray.Dataset
        Over the dimension ``point``, ``latent_mean`` and ``latent_variance`` of f at the new inputs, and for the
        observed variable that depends on f

        - ``probability`` of the label 1, if it is binary;
        - ``complement``, the probability of the label 0, for `BernoulliProbit` and `BernoulliLogit`, which stays
          accurate where ``probability`` rounds to 1;
        - ``probabilities`` of its categories, over ``point`` and ``category``, if it is categorical or ordinal, and
          also the expected label ``mean`` for `OrdinalProbit`; the categories have the coordinates of the model's
          dimension ``category``, of the rows of f, or, for a list of processes, of ``class``, if there is one of their
          number, and otherwise numbers from 0;
        - the expected observation ``mean`` otherwise.

        They are computed in closed form for a probit link, and otherwise by quadrature. If the variable depends on more
        than two latent vectors, or on two with large variances, the points are those of a Sobol sequence, different
        ones for each draw. With several observed variables, these names are prefixed with the variable's name and an
        underscore.

        For multivariate normal observations, ``latent_mean`` and ``latent_variance`` are those of the process without
        noise that is independent from one observation to another, and ``mean`` and ``variance`` those of a new
        observation. Noise that is correlated counts as a part of the process. The attribute ``solved`` says how linear
        systems were solved.

        With several latent vectors, ``latent_mean`` and ``latent_variance`` have a dimension ``process`` before
        ``point``, with the names of the variables; ``f[0], f[1], ...``, or its coordinates, for the rows of a matrix.

    Warns
    -----
    UserWarning
        If an observed variable cannot be predicted at new points, or its distribution has no mean at some draws of the
        posterior; the message says why. The latent variable's mean and variance are still returned.

    Raises
    ------
    ValueError
        If Xnew has no rows, the wrong number of columns, columns of a DataFrame in another order than the model's
        features, or values that are not finite; if a name in `at` is not a `pymc.Data` of the likelihood, or its values
        have the wrong shape or are not finite; if the posterior lacks a variable, or its draws have weights.
    ModelError
        If the model has no latent process whose inputs can be found, or its linear systems cannot be solved
        iteratively.
    NotConvergedError
        If an iterative solver reaches its cap. The message gives the residual and advice.
    MemoryError
        If an iterative solver needs more than its `memory`.

    Notes
    -----
    If the model has a process on inducing inputs, :class:`pmgp.gp.Sparse`, its method `predict` makes the predictions
    of that approximation; `latent`, `gp`, `at` and `block_size` then cannot be given.

    For linear predictors, such as ``level + z * beta + u[group] + s[time]``, predictions are made for the rows of the
    model's present data: set new data with `pymc.set_data`, and call this function without `Xnew`. New groups are new
    elements of ``u``, and new times are new elements at the end of ``s``: give the variables ``dims``, and lengthen
    these with ``model.set_dim("group", 12, coord_values=...)``. Given theta, a new group has its prior's distribution,
    and a series continues from its last value. ``latent_mean`` and ``latent_variance`` describe the whole predictor as
    the model writes it. Several observed variables have their own, such as ``y_latent_mean`` over ``y_point``.

    For processes with inputs, the rows of the model's data are taken where `Xnew` is not given. If observations depend
    on linear predictors of a process, as on ``f[i] - f[j]``, that is the only way to predict them; new inputs are then
    rows after the old ones, in the data that are set.

    An observation may select one latent value, as in ``f[index]``: a new point is then one more place, observed once.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> model = pmgp.models.classifier(X, X[:, 0] > 0.5)
    >>> idata = pmgp.sample(
    ...     model, draws=200, tune=200, chains=2, cores=1, random_seed=1, progressbar=False
    ... )
    >>> found = pmgp.predict(idata, [[0.1], [0.5], [0.9]], model=model, progressbar=False)
    >>> list(found.data_vars)
    ['probability', 'complement', 'latent_mean', 'latent_variance']
    >>> (found["probability"] > 0.9).values
    array([False, False,  True])
    """
    check_order(Xnew, current_model(model))
    process = inducing_process(current_model(model))
    if process is not None:
        given = {"latent": latent, "gp": gp, "at": at, "block_size": block_size}
        _refuse([name for name, value in given.items() if value is not None])
        return process.predict(idata, Xnew, model=model, draws=draws)
    latents = find_predicted(current_model(model), latent)
    if of_rows(current_model(model), latents, Xnew):
        refuse_inputs({"Xnew": Xnew, "gp": gp, "at": at, "block_size": block_size})
        model = current_model(model)
        return predict_rows(idata, model, latents, observed_below(model, latents), draws)
    if Xnew is None:
        raise ValueError("Xnew is needed: the new inputs of the process, an array with a row for each new point")
    setting = prepare(idata, Xnew, model, latent, at, draws, gp, solver=solver)
    if setting.rows.observed is not None:
        return _of_observations(setting, block_size, progressbar)
    found = setting.understood("Expected observations", lambda variable: expectations_of(setting.points, variable))
    prefixed = len(setting.observed) > 1
    expectations = {
        f"{name}_{kind}" if prefixed else kind: function
        for name, kinds in found.items()
        for kind, function in kinds.items()
    }
    averages = existing(_averages(setting, expectations, block_size, progressbar), stacklevel=2)
    labels = None if setting.rows.single else setting.rows.labels(setting.points.model)
    return _dataset(setting, averages, labels)


def _of_observations(setting: PredictionTask, block_size: int | None, progressbar: bool) -> xr.Dataset:
    """Return the moments of a process and of its multivariate normal observations."""
    Xnew = setting.points.Xnew

    def noise(
        mean: np.ndarray, variance: np.ndarray, theta: list[np.ndarray], where: slice, parts: range
    ) -> np.ndarray:
        return setting.noise(theta, Xnew[where])

    averages = _averages(setting, {"noise": noise}, block_size, progressbar)
    added, (mean,), (variance,) = averages.pop("noise"), averages["latent_mean"], averages["latent_variance"]
    averages = {"mean": mean, "variance": variance + added, **averages}
    found = _dataset(setting, averages, None)
    return found.assign_attrs(solved=setting.processes.solved)


def _averages(
    setting: PredictionTask, expectations: dict[str, Expectation], block_size: int | None, progressbar: bool
) -> dict[str, np.ndarray]:
    """Return averages over the draws, with the shapes of `_sums`."""
    with threads_limited(suitable_threads(setting.processes.size)):
        sums = _sums(setting, expectations, block_size, progressbar)
    averages = {name: values / len(setting.draws.theta) for name, values in sums.items()}
    square = averages.pop("square")
    # The law of total variance: within draws of (theta, f), and between them.
    averages["latent_variance"] += np.maximum(square - averages["latent_mean"] ** 2, 0.0)
    return averages


def _refuse(names: list[str]) -> None:
    if names:
        raise ValueError(f"{names[0]} cannot be given for a process on inducing inputs: see gp.predict")


def _sums(
    setting: PredictionTask, expectations: dict[str, Expectation], block_size: int | None, progressbar: bool
) -> dict[str, np.ndarray]:
    """Return sums over the draws, of shapes (C, m) for the latent vectors, (m,) and (m, categories)."""
    number, theta = len(setting.points.Xnew), setting.draws.theta
    sums = {name: np.zeros((setting.rows.number, number)) for name in LATENT}
    for indices, given in setting.conditionals(block_size, progressbar):
        for where, means, variance in given.pointwise():
            sums["latent_mean"][:, where] += means.sum(axis=1)
            sums["square"][:, where] += np.square(means).sum(axis=1)
            sums["latent_variance"][:, where] += len(indices) * variance
            for name, expectation in expectations.items():
                values = sum(
                    expectation(means[:, place], variance, theta[draw], where, parts_of(draw, len(theta)))
                    for place, draw in enumerate(indices)
                )
                if name not in sums:
                    sums[name] = np.zeros((number, *np.shape(values)[1:]))
                sums[name][where] += values
    return sums


def _dataset(setting: PredictionTask, averages: dict[str, np.ndarray], processes: list[str] | None) -> xr.Dataset:
    variables: dict[str, Any] = {}
    coordinates: dict[str, Any] = {"point": np.arange(averages["latent_mean"].shape[-1])}
    for name in (name for name in averages if name not in LATENT):
        values = averages[name]
        category = name.replace("probabilities", "category")
        variables[name] = (("point", category)[: values.ndim], values)
        if values.ndim == 2:
            coordinates[category] = category_names(setting.points.model, setting.rows.variables, values.shape[1])
    for name in ("latent_mean", "latent_variance"):
        variables[name] = ("point", averages[name][0]) if processes is None else (("process", "point"), averages[name])
    if processes is not None:
        coordinates["process"] = processes
    return xr.Dataset(variables, coords=coordinates, attrs={"draws": len(setting.draws.theta)})
