"""Correction of draws of a marginalized model: weights for theta, draws of f, and a diagnosis.

A draw of theta has a density proportional to p(theta) p~(y|theta). Let p^(y|theta) be an unbiased estimate, and f one
of its particles, chosen by weight. The pair (theta, f) with the weight p^ / p~ is then a weighted draw from
p(theta, f|y): this is importance sampling on the extended distribution of the pseudo-marginal chain.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from pytensor.tensor.variable import TensorVariable
from rich.progress import track

from pmgp.core.approximations import Approximation
from pmgp.core.estimators import ApproximateEvidence, Estimator
from pmgp.core.importance import log_mean, resampled
from pmgp.core.numerics.threads import suitable_threads, threads_limited
from pmgp.interface.importance.estimates import Estimates
from pmgp.interface.importance.theta_draws import theta_draws
from pmgp.interface.importance.trust import trust_in
from pmgp.interface.integrated.approximate import LOG_EVIDENCE
from pmgp.interface.model.context import current_model
from pmgp.interface.model.latent_gaussian import find_latent
from pmgp.interface.model.missing import hyperparameters
from pmgp.interface.model.posterior import posterior_of
from pmgp.interface.steps.shared import share


def correct(
    idata: Any,
    *,
    model: pm.Model | None = None,
    resample: bool = True,
    estimator: Estimator | str = "auto",
    approximation: Approximation | str = "auto",
    latent: Any = None,
    random_seed: Any = None,
    compile_kwargs: dict[str, Any] | None = None,
    progressbar: bool = True,
) -> xr.DataTree:
    """Turn draws of a marginalized model into draws of the original model, including f.

    Parameters
    ----------
    idata : xarray.DataTree
        Draws of the model that :func:`pmgp.marginal.approximate` returns, from any sampler, with
        ``log_marginal_likelihood`` in their posterior.
    model : pymc.Model, optional
        The model that was marginalized; the model on the context stack by default.
    resample : bool
        Whether to resample the draws by weight, chain by chain. The result can be used like the draws of any sampler,
        though some draws occur several times. If False, all draws stay, and ``sample_stats["log_weight"]`` has the logs
        of their weights.
    estimator : Estimator, "auto", "importance", "annealed", "orthant" or "sequential"
        ``"orthant"`` needs labels with a probit link. ``"auto"`` means importance sampling, or ``"sequential"`` for a
        time series. The default number of importance samples of f is 256.
    approximation : Laplace, ExpectationPropagation, "auto", "laplace" or "ep"
        Source of the importance samples; it may differ from the approximation in the marginalized model.
    latent : variable or str, optional
        The variable f, if the model has several multivariate normal variables.
    random_seed : int or numpy.random.Generator, optional
    compile_kwargs : dict, optional
        Passed to PyTensor, as in `pymc.sample`.
    progressbar : bool

    Returns
    -------
    xarray.DataTree
        ``posterior`` has the variables of `idata`, and f. ``sample_stats`` has the estimate
        ``log_marginal_likelihood``, and ``log_weight`` for draws that are not resampled. ``observed_data`` has the
        observations of the model that was marginalized; other groups are unchanged.
        The attributes ``pareto_k``, ``effective_size`` and ``words`` of the tree say whether the weights can be
        trusted; ``log_mean_weight`` estimates log p(y) - log p~(y), the error in the approximation's evidence for the
        whole model.

    Warns
    -----
    UserWarning
        If the weights cannot be trusted. In this case, use `PseudoMarginal`.

    Raises
    ------
    ModelError
        If the model is not of the form that `PseudoMarginal` needs.
    ValueError
        If the posterior lacks variables, the estimator is ``"none"``, which corrects nothing, or all weights of a chain
        are zero.
    """
    if estimator == "none" or isinstance(estimator, ApproximateEvidence):
        raise ValueError('estimator="none" estimates nothing, so nothing would be corrected; use "importance"')
    model = current_model(model)
    f = find_latent(model, latent)
    posterior = posterior_of(idata, hyperparameters(model, [f]), model, weights=True)
    if LOG_EVIDENCE not in posterior:
        raise ValueError(
            f"the posterior has no draws of {LOG_EVIDENCE}: give draws of pmgp.marginal.approximate's model"
        )
    parts = share(model, latent, compile_kwargs=compile_kwargs, given_theta=False).parts
    size, rng = parts.initial_moments[0].size, np.random.default_rng(random_seed)
    estimates = Estimates(parts, estimator, approximation)
    with threads_limited(suitable_threads(size)):
        theta = track(theta_draws(posterior, model, [f]), "Correcting", disable=not progressbar)
        log_evidence, latent_values = zip(*[_drawn(estimates, rng, one, size) for one in theta], strict=True)
    shape = posterior.sizes["chain"], posterior.sizes["draw"]
    found = xr.DataArray(np.reshape(log_evidence, shape), posterior[LOG_EVIDENCE].coords, ("chain", "draw"))
    draws = posterior.drop_vars(LOG_EVIDENCE).assign(
        {f.name: _latent(model, f, np.reshape(latent_values, (*shape, -1)))}
    )
    statistics = xr.Dataset({LOG_EVIDENCE: found, "log_weight": found - posterior[LOG_EVIDENCE]})
    attributes = _verdict(statistics["log_weight"].to_numpy())
    if resample:
        chosen = [resampled(rng, chain, len(chain)) for chain in statistics["log_weight"].to_numpy()]
        draws, statistics = _taken(draws, chosen), _taken(statistics.drop_vars("log_weight"), chosen)
    return _tree(idata, draws, statistics, attributes, _observations(model))


def _drawn(estimates: Estimates, rng: np.random.Generator, theta: np.ndarray, size: int) -> tuple[float, np.ndarray]:
    """Return an estimate of log p(y|theta), and a draw of f, which is NaN where p(y|theta) is estimated as zero."""
    ready = estimates.ready(theta)
    estimate = None if ready is None else estimates.fresh(rng, ready)
    if estimate is None or not np.isfinite(estimate.log_evidence):
        return -np.inf, np.full(size, np.nan)
    return estimate.log_evidence, estimate.choose(rng)


def _latent(model: pm.Model, f: TensorVariable, values: np.ndarray) -> xr.DataArray:
    """Return draws of f, (chains, draws, n), with the dimension and coordinates that f has in the model."""
    [dimension] = model.named_vars_to_dims.get(f.name) or [f"{f.name}_dim_0"]
    labels = model.coords.get(dimension)
    index = np.arange(values.shape[-1]) if labels is None else np.asarray(labels)
    return xr.DataArray(values, {dimension: index}, ("chain", "draw", dimension))


def _verdict(log_weights: np.ndarray) -> dict[str, Any]:
    """Return the diagnosis of the weights, and warn if it is bad."""
    if not np.isfinite(log_weights.max(axis=1)).all():
        raise ValueError(
            "all weights of a chain vanish: are these draws of this model, marginalized, with the same data?"
        )
    mean, trust = log_mean(log_weights.ravel()), trust_in(log_weights.ravel())
    if not trust.reliable:
        warnings.warn(
            f"the correction: {trust.words}. The approximation is too far from the posterior at some draws: sample the "
            "model with pmgp.PseudoMarginal, or give better estimates, such as "
            "estimator=pmgp.estimators.ImportanceSampling(1024)",
            stacklevel=3,
        )
    return {
        "pareto_k": trust.pareto_k,
        "effective_size": trust.effective_size,
        "words": trust.words,
        "log_mean_weight": mean.value,
    }


def _taken(draws: xr.Dataset, chosen: list[np.ndarray]) -> xr.Dataset:
    """Replace the draws of each chain by the chosen ones."""
    rows = [draws.isel(chain=[i], draw=index).drop_vars("draw") for i, index in enumerate(chosen)]
    return xr.concat(rows, "chain")


def _observations(model: pm.Model) -> xr.Dataset:
    """Return the observations with their dimensions and coordinates, as `pymc.sample` does."""
    from arviz_base import from_dict
    from pymc.backends.arviz import coords_and_dims_for_inferencedata, find_observations

    coords, dims = coords_and_dims_for_inferencedata(model)
    groups = from_dict({"observed_data": find_observations(model)}, coords=coords, dims=dims)
    return groups["observed_data"].to_dataset()


def _tree(
    idata: Any,
    draws: xr.Dataset,
    statistics: xr.Dataset,
    attributes: dict[str, Any],
    observations: xr.Dataset,
) -> xr.DataTree:
    coordinates = {name: idata["posterior"][name].to_numpy() for name in ("chain", "draw")}
    groups = {name: idata[name].to_dataset() for name in idata.children if name not in ("posterior", "sample_stats")}
    groups["observed_data"] = observations
    groups |= {"posterior": draws.assign_coords(coordinates), "sample_stats": statistics.assign_coords(coordinates)}
    tree = xr.DataTree.from_dict(groups)
    tree.attrs = attributes
    return tree
