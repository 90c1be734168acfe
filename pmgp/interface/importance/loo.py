"""Leave-one-out predictive densities with the latent value integrated out, for ArviZ.

The plain weights of a draw (theta, f), 1 / p(y_i|f_i, theta), vary wildly, because f_i was fitted to y_i. Here the
weights are p^(y_-i|theta) / p^(y|theta), both estimated from the same importance samples of f, one of which is the draw
itself (Vehtari et al. 2016, section 3.6, with weights instead of expectation propagation's approximation). Together
with the draw, these samples come from the pseudo-marginal chain's extended target. So the weights have exactly the mean
p(y_-i) / p(y), however few samples there are.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from pytensor.tensor.variable import TensorVariable
from rich.progress import track

from pmgp.core.approximations import Approximation
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.estimators.importance import CompletedParticles
from pmgp.core.gaussians import BlockApproximation
from pmgp.core.importance import (
    Terms,
    block_evidence_left_out,
    integrated_evidence_left_out,
    log_evidence_left_out,
)
from pmgp.core.likelihoods.shared_sites import SharingLikelihood
from pmgp.core.marginal.evaluation import Ready
from pmgp.core.numerics.arrays import is_whole
from pmgp.core.numerics.threads import suitable_threads, threads_limited
from pmgp.interface.importance.estimates import Estimates
from pmgp.interface.importance.theta_draws import latent_draws, some_draws, theta_draws
from pmgp.interface.importance.trust import FEWEST
from pmgp.interface.model.context import current_model
from pmgp.interface.model.coupled_predictors import CoupledPredictors
from pmgp.interface.model.latent_gaussian import LatentGaussianModel, ModelError
from pmgp.interface.model.latent_variable import below, find_latents
from pmgp.interface.model.missing import hyperparameters
from pmgp.interface.model.time_series import is_markov, kind_of
from pmgp.interface.steps.chosen import integrating
from pmgp.interface.steps.shared import share_for_evidence

# Leaving values out takes an n x n matrix, which a series does not otherwise need.
LONGEST_SERIES = 2000


def loo(
    idata: Any,
    *,
    model: pm.Model | None = None,
    draws: int | None = 1000,
    particles: int = 8,
    approximation: Approximation | str = "auto",
    latent: Any = None,
    random_seed: Any = None,
    compile_kwargs: dict[str, Any] | None = None,
    progressbar: bool = True,
) -> Any:
    """Estimate log p(y_i|y_-i) for each observation: leave-one-out cross-validation with f integrated out.

    The model may have one process or several.

    It uses `arviz.loo`, which smooths the weights and gives their Pareto k^, but with weights for the hyper-parameters
    only. Weights for draws of (theta, f), as from `pymc.compute_log_likelihood`, are far less even.

    Parameters
    ----------
    idata : xarray.DataTree
        Result of `pymc.sample`, with f and the hyper-parameters in its posterior group.
    model : pymc.Model, optional
        The model that was sampled; taken from the context if it is not given.
    draws : int or None
        At most this many draws, the same number from each chain, evenly spaced; None for all.
    particles : int
        Importance samples of f for each draw, an even number; more samples make the weights less noisy. This takes
        ``draws * particles * n`` evaluations of the likelihood, besides a fit for each different theta. They are those
        of the other processes where one of several is normal given them, and is integrated out.
    approximation : ExpectationPropagation, Laplace, "auto", "ep" or "laplace"
        Source of the importance samples; the result depends on it only through its noise.
    latent : variable or str, or a list of them, optional
        The variables that are f, if the model has several multivariate normal variables.
    random_seed : int or numpy.random.Generator, optional
    compile_kwargs : dict, optional
        Passed to PyTensor, as in `pymc.sample`.
    progressbar : bool

    Returns
    -------
    arviz_stats.ELPDData
        With pointwise values ``elpd_i`` and ``pareto_k``; `arviz.compare` takes a dict of them. Its ``p`` counts the
        hyper-parameters' share of the effective number of parameters, as f is integrated out. Values are in the
        order of the observations, with their coordinates; those of several observed variables have names such as
        ``y[3]``.

    Warns
    -----
    UserWarning
        From ArviZ, if some k^ are too large.

    Raises
    ------
    ModelError
        If the model is not of the form that `PseudoMarginal` needs, a term of the likelihood depends on several
        latent values, or f is a time series of more than 2,000 values.
    ValueError
        For settings out of range, for a posterior that lacks variables, and if p(y|theta) is not finite at some draws.

    Notes
    -----
    Each observation is left out by itself, also if several belong to one latent value, as in ``f[index]`` or in the
    effect of a group. So models with different groups of the same observations can be compared.

    References
    ----------
    Vehtari, A., Mononen, T., Tolvanen, V., Sivula, T. and Winther, O. (2016). Bayesian leave-one-out cross-validation
    approximations for Gaussian latent variable models. Journal of Machine Learning Research 17.

    Examples
    --------
    >>> import arviz as az, numpy as np, pmgp
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> model = pmgp.models.classifier(X, X[:, 0] > 0.5)
    >>> idata = pmgp.sample(
    ...     model, draws=200, tune=200, chains=2, cores=1, random_seed=1, progressbar=False
    ... )
    >>> found = pmgp.loo(idata, model=model, random_seed=1, progressbar=False)
    >>> int(found.n_data_points)
    20

    With the result ``other`` for another model, ``az.compare({"smooth": found, "rough": other})`` ranks the two.
    """
    if not is_whole(particles, 2) or particles % 2:
        raise ValueError(f"particles must be an even number, at least 2, not {particles}")
    import arviz_stats

    model = current_model(model)
    latents = find_latents(model, latent)
    _refuse_long(latents[0], int(model.eval_rv_shapes()[latents[0].name][-1]))
    posterior = some_draws(idata, [*latents, *hyperparameters(model, latents)], model, draws)
    _refuse_other_observations(idata, model)
    parts = share_for_evidence(model, latents, latent, compile_kwargs)
    _refuse_joint_terms(parts)
    _refuse_unobserved(model, latents)
    estimates = Estimates(parts, integrating(parts, particles) or ImportanceSampling(particles), approximation)
    size = parts.initial_moments[0].size
    _refuse_few(posterior)
    rng = np.random.default_rng(random_seed)
    with threads_limited(suitable_threads(size)):
        theta = theta_draws(posterior, model, latents)
        values = latent_draws(posterior, model, latents, parts, theta)
        rows = np.array(list(_log_densities(parts, estimates, rng, theta, values, progressbar)))
    observed = _observed(parts, values[:1])
    labels = _labels(idata, model, parts, latents, values[:1], theta[0], observed)
    return arviz_stats.loo(_tree(posterior, rows[:, observed], *labels), pointwise=True)


def _refuse_long(f: TensorVariable, length: int) -> None:
    if is_markov(f) and length > LONGEST_SERIES:
        raise ModelError(
            f"leaving out each of the {length} values of the {kind_of(f)} {f.name!r} needs a matrix with as many rows, "
            f"which takes too long; up to {LONGEST_SERIES} values are supported"
        )


def _refuse_joint_terms(parts: LatentGaussianModel) -> None:
    if not parts.sites_known or not hasattr(parts.likelihood(parts.initial_theta), "log_density"):
        raise ModelError(
            f"it is not known which value of {parts.latent_name!r} belongs to an observation: a term of the likelihood "
            "depends on several of them, or the likelihood has no method log_density"
        )


def _refuse_unobserved(model: pm.Model, latents: list[TensorVariable]) -> None:
    if not below(model, latents):
        names = ", ".join(potential.name for potential in model.potentials)
        raise ModelError(
            f"the likelihood is a potential ({names}), which has no observations that could be left out: write it as "
            "an observed variable, for example a pm.CustomDist"
        )


def _refuse_other_observations(idata: Any, model: pm.Model) -> None:
    """Refuse a model whose observations are not those that are stored with the draws."""
    stored = idata.get("observed_data", {})
    for observed in model.observed_RVs:
        if observed.name not in stored:
            continue
        drawn, present = stored[observed.name].to_numpy(), model.rvs_to_values[observed].eval()
        if drawn.shape != present.shape or not np.array_equal(drawn, present, equal_nan=drawn.dtype.kind == "f"):
            raise ValueError(
                f"the model has other observations of {observed.name!r} than those that the draws were made with: "
                "restore them, or sample again"
            )


def _refuse_few(posterior: xr.Dataset) -> None:
    total = posterior.sizes["chain"] * posterior.sizes["draw"]
    if total < FEWEST:
        raise ValueError(f"{total} draws are too few to judge the weights; at least {FEWEST} are needed")


def _log_densities(
    parts: LatentGaussianModel,
    estimates: Estimates,
    rng: np.random.Generator,
    theta: np.ndarray,
    values: np.ndarray,
    progressbar: bool,
) -> Any:
    """Yield log p^(y|theta) / p^(y_-j|theta), (J,), for each draw; successive draws with the same theta share a fit."""
    ready, last = None, None
    for one, f in track(zip(theta, values, strict=True), "Leaving out", total=len(theta), disable=not progressbar):
        if last is None or not np.array_equal(one, last):
            ready, last = estimates.ready(one), one
        yield _of_draw(parts, estimates, rng, one, ready, f)


def _of_draw(
    parts: LatentGaussianModel,
    estimates: Estimates,
    rng: np.random.Generator,
    theta: np.ndarray,
    ready: Ready | None,
    f: np.ndarray,
) -> np.ndarray:
    left_out = None
    if ready is not None:
        complete: Any = estimates.given(rng, ready, f)
        approximation: Any = ready.approximation
        terms = _terms(parts, ready.likelihood, theta)
        if isinstance(complete, CompletedParticles):
            left_out = integrated_evidence_left_out(complete, terms)
        else:
            in_blocks = isinstance(approximation, BlockApproximation)
            leave_out: Any = block_evidence_left_out if in_blocks else log_evidence_left_out
            left_out = leave_out(approximation, terms, complete.particles)
    if left_out is None or not np.isfinite(complete.log_evidence):
        raise ValueError("p(y|theta) is not finite at some of the draws: do they come from this model and its data?")
    return complete.log_evidence - left_out


def _terms(parts: LatentGaussianModel, likelihood: Any, theta: np.ndarray) -> Terms:
    """Return the observations one by one, at a theta."""
    where = parts.latent_vector.counted_at(parts.initial_moments[0].size // parts.latent_vector.number)
    if parts.terms is None:
        of_predictors = (likelihood.inner if isinstance(likelihood, SharingLikelihood) else likelihood).log_density
    else:
        of_predictors, where = partial(parts.terms.flat, theta=theta), where[parts.terms.index]
    predictors: Any = parts.latent_vector.predictors

    def after(at: Any) -> Any:
        return lambda values: of_predictors(np.ascontiguousarray(at(values)))

    coupled = isinstance(predictors, CoupledPredictors)
    return Terms(after(predictors.of), where, after(predictors.of_sites) if coupled else None)


def _observed(parts: LatentGaussianModel, f: np.ndarray) -> np.ndarray:
    """Return the places of the observations among the terms, of which a closed form has one for each predictor.

    A label has a log-density of exactly zero if f is far on its side of zero, but not if f is far on the other side.
    """
    terms = _terms(parts, parts.likelihood(parts.initial_theta), parts.initial_theta)
    if parts.terms is not None:
        return np.arange(terms.where.size)
    rows = np.concatenate([f, f + 0.1, f - 0.1, -f, np.zeros_like(f)])
    return np.flatnonzero((terms.log_density(rows) != 0.0).any(axis=0))


def _labels(
    idata: Any,
    model: pm.Model,
    parts: LatentGaussianModel,
    latents: list[TensorVariable],
    f: np.ndarray,
    theta: np.ndarray,
    places: np.ndarray,
) -> tuple[str, str, np.ndarray]:
    """Return name, dimension and coordinates of the observations."""
    if parts.terms is not None:
        shapes = {name: found.shape[1:] for name, found in parts.terms_by_name(f, theta).items()}
        if len(shapes) > 1:
            names = [f"{name}[{place}]" for name, shape in shapes.items() for place in range(np.prod(shape, dtype=int))]
            return parts.latent_name, "observation", np.array(names)
    name = str(below(model, latents)[0].name)
    if name not in idata.get("observed_data", {}):
        return name, f"{name}_dim_0", places
    variable = idata["observed_data"][name]
    # Elements of tables, row by row, have numbers.
    if variable.ndim != 1 or places.max() >= variable.size:
        return name, f"{name}_element", places
    [dimension] = variable.dims
    return name, str(dimension), variable[dimension].to_numpy()[places]


def _tree(
    posterior: xr.Dataset, log_densities: np.ndarray, name: str, dimension: str, labels: np.ndarray
) -> xr.DataTree:
    """Return the draws with the densities in place of the pointwise log-likelihood, for `arviz.loo`."""
    values = log_densities.reshape(posterior.sizes["chain"], posterior.sizes["draw"], -1)
    coordinates = {"chain": posterior["chain"], "draw": posterior["draw"], dimension: labels}
    variable = xr.DataArray(values, coordinates, ("chain", "draw", dimension))
    return xr.DataTree.from_dict({"posterior": posterior, "log_likelihood": xr.Dataset({name: variable})})
