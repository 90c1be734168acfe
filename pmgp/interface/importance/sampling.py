"""Importance sampling of theta's posterior from its maximum: few evaluations, each of which can run anywhere.

This follows Chopin and Ridgway (2017): for a few parameters and many observations, independent draws around the maximum
are better than a chain. The weights are unbiased estimates of the posterior density, so the approximation that is
maximized causes no bias; it affects only how many draws the weights are worth.
"""

from __future__ import annotations

import warnings
from typing import Any, cast

import numpy as np
import pymc as pm
import xarray as xr
from pymc.util import get_default_varnames

from pmgp.core.approximations import Approximation, Differentiable
from pmgp.core.estimators import ApproximateEvidence, Estimator
from pmgp.core.importance import log_mean, resampled
from pmgp.core.numerics.arrays import is_whole
from pmgp.core.numerics.threads import suitable_threads, threads_limited
from pmgp.interface.executors import Executors
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.importance.proper_prior import improper, refuse_circular, warn_of_constants
from pmgp.interface.importance.proposals import proposal_at_maxima
from pmgp.interface.importance.targets import LatentTarget, MarginalTarget, Target, in_units
from pmgp.interface.importance.trust import FEWEST, WORTH_EACH, Trust
from pmgp.interface.importance.weighing import Weighing
from pmgp.interface.model.context import current_model
from pmgp.interface.model.latent_variable import find_latents
from pmgp.interface.model.observed_normal import gaussian_observations
from pmgp.interface.steps.chosen import chosen_approximation
from pmgp.interface.steps.matrices import NUMPY, Matrices, matrices_of
from pmgp.interface.steps.shared import share

# ArviZ's summaries need at least four draws.
FEWEST_DRAWS = 4


def importance(
    model: pm.Model | None = None,
    *,
    draws: int = 200,
    start: dict[str, Any] | None = None,
    climbs: int | None = None,
    estimator: Estimator | str = "auto",
    approximation: Approximation | str = "auto",
    latent: Any = None,
    backend: Matrices | str = "numpy",
    executor: Executors | None = None,
    random_seed: Any = None,
    compile_kwargs: dict[str, Any] | None = None,
    progressbar: bool = True,
) -> xr.DataTree:
    """Draw from the posterior by importance sampling from t distributions at its maxima.

    This is for many observations and few hyper-parameters: each draw takes one evaluation of p(y|theta), which for a
    Gaussian likelihood is a single Cholesky factorization. The posterior density, with f integrated out approximately,
    is maximized, and its curvature at the maximum gives the scale of the t. Draws of theta are weighted with unbiased
    estimates of p(theta, y), so they are exact in the same sense as the chain of :class:`pmgp.PseudoMarginal`.

    With a length-scale for each feature, the posterior may have several maxima. Climbs, optimizations from other
    points, look for them; the proposal is a mixture of t distributions, one around each maximum that is found. Weights
    do not reveal a maximum that no climb finds and no draw is near.

    For 1,000 or more multivariate normal observations, climbs follow gradients that random probes estimate, in about
    half of the time. For more than 4,000, maxima are sought given a random subset of 2,000 or more observations. They
    are tracked while the subset is doubled again and again, so that few gradients need all observations. A maximum that
    only more observations show is not found, unless a draw is near it.

    With at least twenty draws for each hyper-parameter, a t has two widths along each axis, from the density on both
    sides of its maximum, and the second half of the draws come from another mixture, fitted to the first half. Climbs
    from the draws with the largest weights look for more maxima. All draws are weighted using both mixtures. The result
    states how many draws they are worth; if these are too few, draw more, or run the chain.

    Parameters
    ----------
    model : pymc.Model, optional
        A model with latent values f, as for `PseudoMarginal`, or with multivariate normal observations, such as those
        of `pymc.gp.Marginal`. The model on the context stack by default.
    draws : int
        Number of weighted draws of theta. The trace has as many draws as these are worth.
    start : dict, optional
        Values of hyper-parameters at which the search for the first maximum starts; by default that is the model's
        initial point, or for 1,000 or more multivariate normal observations the maximum given 250 of them.
    climbs : int, optional
        Number of climbs that look for other maxima. Each takes about five to ten gradients; 0 leaves out the search. By
        default there are two for each hyper-parameter, from points that are dispersed around the first maximum. For
        1,000 or more multivariate normal observations there are eight, from the maxima given 250 of them, different
        ones each time.
    estimator : Estimator, "auto", "importance", "annealed", "orthant" or "sequential"
        Estimates p(y|theta) if there is an f. ``"orthant"`` needs labels with a probit link. ``"auto"`` is importance
        sampling, ``"sequential"`` for a time series, or ``"rao-blackwell"`` if one of several processes is normal given
        the others and the data. By default there are 256 importance samples.
    approximation : "auto", "ep", "laplace", ExpectationPropagation or Laplace
        Source of the importance samples of f, and of the evidence that is maximized. ``"auto"`` is expectation
        propagation, or Laplace's method where the terms of the likelihood cannot be evaluated one by one.
    latent : variable or str, or a sequence of them, optional
        The variables f, if the model has several multivariate normal variables.
    backend : "numpy", "jax" or JaxMatrices
        Computes and factorizes the covariance. With JAX it is on a device, which :class:`pmgp.steps.JaxMatrices`
        chooses, and weights are the same up to rounding, as are gradients given all observations.
    executor : concurrent.futures.Executor, or a function that makes one, optional
        Computes the weights of the draws; the results do not depend on it. See `sample` for workers that die, stall, or
        differ.
    random_seed : int or numpy.random.Generator, optional
    compile_kwargs : dict, optional
        Passed to PyTensor, as in `pymc.sample`.
    progressbar : bool

    Returns
    -------
    xarray.DataTree
        The group ``posterior`` has draws of all variables, including f, chosen by weight, as many as the weights are
        worth. The group ``importance`` has theta (on the unconstrained scale) and ``log_weight`` of all draws.
        ``attrs`` has the number of ``maxima`` found, ``pareto_k``, ``effective_size``, ``trusted`` (0 or 1), ``words``
        and, for proper priors, ``log_evidence`` with its ``standard_error``.

    Warns
    -----
    UserWarning
        If the weights cannot be trusted, or are worth fewer than five draws for each hyper-parameter; and where a
        potential or a transformation changes the constant of the prior, and so the evidence.

    Raises
    ------
    ImportError
        If ``backend="jax"`` and JAX is not installed.
    MemoryError
        If the covariance and the gradient do not fit into the device's memory.
    ModelError
        If the model is not of one of these forms, or has an angle whose transformation is circular, or if multivariate
        normal observations are missing or differ in number from the rows of X.
    ValueError
        For too few draws, for ``estimator="none"``, for a model or an estimator that the backend does not take, if the
        density is not finite at the start, and if all weights vanish.

    References
    ----------
    Chopin, N. and Ridgway, J. (2017). Leave Pima Indians alone: binary regression as a benchmark for Bayesian
    computation. Statistical Science 32.

    Cornuet, J.-M., Marin, J.-M., Mira, A. and Robert, C. P. (2012). Adaptive multiple importance sampling. Scandinavian
    Journal of Statistics 39; here each draw is weighted using a proposal that was fitted without it, so that weights do
    not reduce themselves, and the evidence is unbiased.

    Geweke, J. (1989). Bayesian inference in econometric models using Monte Carlo integration. Econometrica 57: the t
    with two widths.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> model = pmgp.models.classifier(X, X[:, 0] > 0.5)
    >>> idata = pmgp.importance(model, random_seed=1, progressbar=False)
    >>> print(idata.attrs["words"])
    effective sample size ... of 200 (Pareto k 0..., limit 0.57): reliable
    """
    if not is_whole(draws, FEWEST):
        raise ValueError(
            f"draws must be an integer of at least {FEWEST}, so that the tail of the weights can be judged, not {draws}"
        )
    if estimator == "none" or isinstance(estimator, ApproximateEvidence):
        raise ValueError('estimator="none" estimates nothing, and weights would be biased; use "importance"')
    if climbs is not None and not is_whole(climbs, 0):
        raise ValueError(f"climbs must be an integer of 0 or more, not {climbs}")
    model = current_model(model)
    refuse_circular(model)
    target = target_of(model, estimator, approximation, latent, compile_kwargs, matrices_of(backend))
    if not improper(model.free_RVs):
        latents = [] if isinstance(target, MarginalTarget) else find_latents(model, latent)
        warn_of_constants(model, latents, stacklevel=3)
    weighing = begun(model, target, start, executor, random_seed, compile_kwargs, progressbar, climbs)
    trust, dimension = weighing.drawn(draws), weighing.theta.shape[1]
    if not trust.suffices(dimension):
        warnings.warn(
            f"importance sampling from the maximum: {trust.words}; for {dimension} hyper-parameters the effective "
            f"sample size must be at least {WORTH_EACH * dimension}. Make more draws, or sample this model with a "
            "chain, pmgp.PseudoMarginal, or with NUTS if there are no latent values",
            stacklevel=2,
        )
    return tree_of(model, weighing, trust)


def begun(
    model: pm.Model,
    target: Target,
    start: dict[str, Any] | None,
    executor: Executors | None,
    random_seed: Any,
    compile_kwargs: dict[str, Any] | None,
    progressbar: bool,
    climbs: int | None = None,
) -> Weighing:
    """Find the maxima, around which draws can be weighed; see `importance` for the arguments."""
    rng = np.random.default_rng(random_seed)
    with threads_limited(suitable_threads(target.size)):
        target = in_units(target)
        # Draws from the proposal do not depend on how many climbs there were.
        [own] = rng.spawn(1)
        proposal = proposal_at_maxima(model, target, start, own, climbs, compile_kwargs, progressbar)
    return Weighing(target, proposal, rng, executor, progressbar)


def target_of(
    model: pm.Model,
    estimator: Estimator | str,
    approximation: Approximation | str,
    latent: Any,
    compile_kwargs: dict[str, Any] | None,
    matrices: Matrices = NUMPY,
) -> Target:
    """Return the posterior of theta; see `importance` for the arguments."""
    observed = gaussian_observations(model)
    if observed is not None and latent is None:
        return MarginalTarget(model, observed, compile_kwargs, matrices)
    parts = share(model, latent, compile_kwargs=compile_kwargs, given_theta=False).parts
    smooth = cast(Differentiable, chosen_approximation(approximation, parts, tight=True))
    return LatentTarget(parts, smooth, estimator, approximation, matrices)


def tree_of(model: pm.Model, weighing: Weighing, trust: Trust) -> xr.DataTree:
    """Return a trace of draws that are chosen by weight, with the weighed draws in a group of their own."""
    size = max(int(trust.effective_size), FEWEST_DRAWS)
    chosen = weighing.rng.permutation(resampled(weighing.rng, weighing.log_weights, size))
    theta, found = weighing.theta, weighing.weighed
    points = [weighing.target.unravel(theta[i], found[i].f) for i in chosen]
    imputation = weighing.target.imputation
    if imputation is not None:
        seeds = weighing.rng.integers(2**63, size=len(points))
        points = [p | imputation.drawn(np.random.default_rng(s), p) for p, s in zip(points, seeds, strict=True)]
    theta = weighing.target.units * theta
    return _tree(model, points, theta, weighing.log_weights, _attributes(model, weighing, trust))


def _attributes(model: pm.Model, weighing: Weighing, trust: Trust) -> dict[str, Any]:
    found: dict[str, Any] = {"pareto_k": trust.pareto_k, "effective_size": trust.effective_size, "words": trust.words}
    found |= {"maxima": weighing.maxima, "trusted": int(trust.suffices(weighing.theta.shape[1]))}
    if improper(model.free_RVs):
        return found
    mean = log_mean(weighing.log_weights)
    return found | {"log_evidence": mean.value, "standard_error": mean.standard_error}


def _tree(
    model: pm.Model,
    points: list[dict[str, np.ndarray]],
    theta: np.ndarray,
    log_weights: np.ndarray,
    attributes: dict[str, Any],
) -> xr.DataTree:
    """Return a trace of one chain, with the weighed draws in a group of their own."""
    import arviz_base

    variables = get_default_varnames(model.unobserved_value_vars, include_transformed=False)
    natural = model.compile_fn(variables, inputs=model.value_vars, mode=INTERPRETED, point_fn=True)
    rows = [natural(point) for point in points]
    draws = {v.name: np.array([row[i] for row in rows])[None] for i, v in enumerate(variables)}
    dims = {name: list(model.named_vars_to_dims[name]) for name in draws if name in model.named_vars_to_dims}
    coords = {name: np.asarray(values) for name, values in model.coords.items() if values is not None}
    tree = arviz_base.from_dict({"posterior": draws}, dims=dims, coords=coords)
    weighed = {"theta": (("sample", "element"), theta), "log_weight": ("sample", log_weights)}
    tree["importance"] = xr.DataTree(xr.Dataset(weighed))
    tree.attrs.update(attributes)
    return tree
