"""Draws at new inputs, one for each draw of the posterior."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from pytensor.tensor.variable import TensorVariable

from pmgp.core.iterative.settings import Iterative
from pmgp.core.numerics.threads import suitable_threads, threads_limited
from pmgp.interface.model.context import current_model
from pmgp.interface.model.inducing_process import inducing_process
from pmgp.interface.model.latent_variable import ModelError, find_latents
from pmgp.interface.prediction.covariates import check_order
from pmgp.interface.prediction.point_function import PointFunction
from pmgp.interface.prediction.predictor_rows import refuse_inputs, sample_rows
from pmgp.interface.prediction.rules import NotPointwiseError
from pmgp.interface.prediction.setting import PredictionTask, observed_below, of_rows, prepare


def sample_predictions(
    idata: Any,
    Xnew: Any = None,
    *,
    model: pm.Model | None = None,
    latent: Any = None,
    gp: Any = None,
    at: dict[str, Any] | None = None,
    draws: int | None = 1000,
    joint: bool = True,
    solver: Iterative | str = "auto",
    random_seed: Any = None,
    progressbar: bool = True,
) -> xr.DataTree:
    """Draw the latent variable and observations at new inputs.

    Parameters
    ----------
    idata : xarray.DataTree
        Result of `pymc.sample`, with f and the hyper-parameters in its posterior group; for multivariate normal
        observations, as for :func:`predict`, the hyper-parameters are enough.
    Xnew : (m, d) array, optional
        New inputs, on the scale of the inputs that the model was built with; for a process in time, a vector is
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
        Other data of the likelihood at the new points, as for :func:`predict`.
    draws : int or None
        At most this many draws, the same number from each chain, evenly spaced; None for one for each posterior draw.
    joint : bool
        Draw f at all new inputs together, as sample paths require; this takes O(m^2) memory, and O(m^3) time for each
        different theta, but only O(n + m) for a process in time. Otherwise f is drawn at each new input separately,
        without the correlations.
    solver : {"auto", "cholesky", "iterative"} or pmgp.marginal.Iterative
        As for :func:`predict`, for multivariate normal observations only. Joint draws are then pathwise: each takes two
        sets of iterations, however many new inputs there are, and differs from an exact draw by at most the tolerance,
        in posterior standard deviations; an (m, n) and an (m, m) matrix are held in memory.
    random_seed : int or numpy.random.Generator, optional
        The same seed gives the same draws.
    progressbar : bool

    Returns
    -------
    xarray.DataTree
        In the group ``predictions``, over ``chain``, ``draw`` and ``point``: f and the observed variables that depend
        on it, under their own names. In ``predictions_constant_data``, ``Xnew`` and the data from `at`.

        For multivariate normal observations, ``latent`` is the process without noise that is independent from one
        observation to another; noise that is correlated counts as a part of the process.

        Without Xnew, the linear predictor ``latent`` takes the place of f, and there is no second group. Several
        observed variables have their own, such as ``y_latent``.

    Warns
    -----
    UserWarning
        If an observed variable cannot be drawn at new points; the message says why.

    Raises
    ------
    ValueError
        For the reasons that :func:`predict` lists.
    MemoryError
        If an iterative solver needs more than its `memory`.
    ModelError
        If the model has no latent process whose inputs can be found.

    Notes
    -----
    For linear predictors, such as ``level + z * beta + u[group] + s[time]``, draws are made for the rows of the model's
    present data, with new groups and later times, as the notes of :func:`predict` describe. Rows of the same new group
    share its effect, and a series is drawn as a path.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> model = pmgp.models.classifier(X, X[:, 0] > 0.5)
    >>> idata = pmgp.sample(
    ...     model, draws=200, tune=200, chains=2, cores=1, random_seed=1, progressbar=False
    ... )
    >>> drawn = pmgp.sample_predictions(
    ...     idata, [[0.1], [0.5], [0.9]], model=model, random_seed=1, progressbar=False
    ... )
    >>> dict(drawn["predictions"].sizes)
    {'chain': 2, 'draw': 200, 'point': 3}
    """
    if not isinstance(joint, bool | np.bool_):
        raise ValueError(f"joint must be True or False, not {joint!r}")
    rng = _generator(random_seed)
    check_order(Xnew, current_model(model))
    if inducing_process(current_model(model)) is not None:
        raise ModelError(
            "draws of a process on inducing inputs are made by gp.conditional('new', Xnew) and then "
            "pymc.sample_posterior_predictive(idata, var_names=['new']); pmgp.predict averages over them"
        )
    if Xnew is None:
        return _rows(idata, current_model(model), latent, {"gp": gp, "at": at}, draws, rng)
    setting = prepare(idata, Xnew, model, latent, at, draws, gp, by_chain=True, solver=solver)
    if setting.rows.observed is not None:
        return _of_observations(setting, bool(joint), rng, progressbar)
    functions = setting.understood("Observations", lambda variable: _drawing(setting, variable, rng))
    f = _draw_latent(setting, bool(joint), rng, progressbar)
    drawn = dict(zip(setting.rows.names, setting.rows.split(f), strict=True))
    everywhere = slice(0, f.shape[-1])
    for name, function in functions.items():
        rows = [function(f[:, i : i + 1], theta, everywhere)[0] for i, theta in enumerate(setting.draws.theta)]
        drawn[name] = np.array(rows)
    return _tree(setting, drawn)


def _of_observations(setting: PredictionTask, joint: bool, rng: np.random.Generator, progressbar: bool) -> xr.DataTree:
    """Draw a process, and its multivariate normal observations."""
    [f] = _draw_latent(setting, joint, rng, progressbar)
    y = rng.standard_normal(f.shape)
    for indices in setting.groups():
        noise = setting.noise(setting.draws.theta[indices[0]], setting.points.Xnew)
        y[indices] = f[indices] + np.sqrt(np.maximum(noise, 0.0)) * y[indices]
    return _tree(setting, {"latent": f, setting.rows.names[0]: y})


def _rows(
    idata: Any, model: pm.Model, latent: Any, given: dict[str, Any], draws: int | None, rng: np.random.Generator
) -> xr.DataTree:
    """Draw for the rows of the model's present data."""
    latents = find_latents(model, latent)
    if not of_rows(model, latents, None):
        raise ValueError("Xnew is needed: the new inputs of the process, an array with a row for each new point")
    refuse_inputs(given)
    return sample_rows(idata, model, latents, observed_below(model, latents), draws, rng)


def _generator(random_seed: Any) -> np.random.Generator:
    try:
        return np.random.default_rng(random_seed)
    except (TypeError, ValueError) as error:
        message = f"random_seed must be a whole number, 0 or more, or a numpy.random.Generator, not {random_seed!r}"
        raise ValueError(message) from error


def _draw_latent(setting: PredictionTask, joint: bool, rng: np.random.Generator, progressbar: bool) -> np.ndarray:
    """Draw the latent vectors at the new inputs, (C, draws, m)."""
    with threads_limited(suitable_threads(setting.processes.size)):
        return _drawn(setting, joint, rng, progressbar)


def _drawn(setting: PredictionTask, joint: bool, rng: np.random.Generator, progressbar: bool) -> np.ndarray:
    number = len(setting.points.Xnew)
    # At single inputs all draws are made at once, in order, so that the result does not depend on the block size.
    shape = setting.rows.number, len(setting.draws.theta), number
    drawn = np.empty(shape) if joint else rng.standard_normal(shape)
    for indices, given in setting.conditionals(number if joint else None, progressbar):
        if joint:
            drawn[:, indices] = given.jointly(rng)
            continue
        for where, means, variance in given.pointwise():
            drawn[:, indices, where] = means + np.sqrt(variance)[:, None] * drawn[:, indices, where]
    return drawn


def _drawing(setting: PredictionTask, observed: TensorVariable, rng: np.random.Generator) -> PointFunction:
    """Return draws of an observed variable as a function of the latent values."""
    if observed.ndim != 1:
        raise NotPointwiseError(f"an observation of it has {observed.ndim} dimensions; only vectors can be drawn")
    try:
        function = setting.points.function(observed, observed, random_seed=int(rng.integers(2**31)))
    except NotPointwiseError:
        raise
    except (TypeError, ValueError, NotImplementedError) as error:
        raise NotPointwiseError(f"its distribution cannot be built with parameters at new points: {error}") from error
    number = len(setting.points.Xnew)
    try:
        function(np.zeros((setting.rows.number, 1, number)), setting.draws.theta[0], slice(0, number))
    except NotImplementedError as error:
        raise NotPointwiseError(f"its distribution cannot be drawn from: {error}") from error
    return function


def _tree(setting: PredictionTask, drawn: dict[str, np.ndarray]) -> xr.DataTree:
    coordinates = setting.coordinates
    shape = len(coordinates["chain"]), len(coordinates["draw"])
    points = setting.points
    point = {"point": np.arange(len(points.Xnew))}
    predictions: dict[str, Any] = {}
    for name, values in drawn.items():
        if values.ndim == 2:
            predictions[name] = (("chain", "draw", "point"), values.reshape(*shape, -1))
            continue
        row, names = _rows_of(points.model, name)
        dimensions = ("chain", "draw", row, "point")
        predictions[name] = (dimensions, np.moveaxis(values, 0, 1).reshape(*shape, len(values), -1))
        coordinates = coordinates | names
    constant: dict[str, Any] = {"Xnew": (("point", "feature"), points.Xnew)}
    for name, value in points.at.items():
        constant[name] = _named(name, value, len(points.Xnew))
    return xr.DataTree.from_dict(
        {
            "predictions": xr.Dataset(predictions, coords={**coordinates, **point}),
            "predictions_constant_data": xr.Dataset(constant, coords=point),
        }
    )


def _rows_of(model: pm.Model, name: str) -> tuple[str, dict[str, Any]]:
    """Return the dimension of a matrix's rows, and its coordinates."""
    row = (model.named_vars_to_dims.get(name) or (None,))[0]
    if row is None:
        return f"{name}_dim_0", {}
    names = model.coords.get(row)
    return row, {} if names is None else {row: list(names)}


def _named(name: str, value: np.ndarray, number: int) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the dimensions of data at the new points, and the data."""
    first = ("point",) if value.ndim and len(value) == number else tuple(f"{name}_dim_0" for _ in value.shape[:1])
    return (*first, *(f"{name}_dim_{i}" for i in range(1, value.ndim))), value
