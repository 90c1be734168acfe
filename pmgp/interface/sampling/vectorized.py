"""All chains of a run as one JAX program, and their draws as an ordinary trace."""

from __future__ import annotations

import logging
import warnings
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import xarray as xr
from pymc.exceptions import SamplingError
from rich.progress import track

from pmgp.core.approximations import ExpectationPropagation, Laplace
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.marginal.calibration import DEFAULT_DRAWS
from pmgp.core.transitions.alternation import Alternation
from pmgp.core.transitions.mixture import IndependenceMixture
from pmgp.interface.sampling.drawing import REPORT, NoDrawsError
from pmgp.interface.sampling.report import PYTHON, report
from pmgp.interface.sampling.stored_run import Seed
from pmgp.interface.steps import JaxMatrices, PseudoMarginal
from pmgp.interface.steps.starts import unusable_start
from pmgp.interface.steps.validation import indefinite_proposals

_log = logging.getLogger("pymc.pmgp")

OPTIONS = ("progressbar", "quiet")
"""Options of `pymc.sample` that these chains take."""
ADVICE = 'chain_method="parallel", which is the default, takes it'


class VectorizedRun(NamedTuple):
    """The numbers of draws, of tuning iterations and of chains, and the seed."""

    draws: int
    tune: int
    chains: int
    seed: Seed


def vectorized(model: pm.Model, step: Any, settings: VectorizedRun, options: dict[str, Any]) -> xr.DataTree:
    """Sample a model with all chains in one program; see `sample`.

    Raises
    ------
    ValueError
        For options and settings of the step method that these chains do not take.
    MemoryError
        If the chains do not fit into the memory of the device.
    ImportError
        If JAX is not installed.
    """
    refused = sorted(options.keys() - set(OPTIONS))
    if refused:
        raise ValueError(f'chain_method="vectorized" does not take {refused[0]}=; {ADVICE}')
    if step is None:
        step = PseudoMarginal(model=model, estimator="importance", proposal="mixture", backend="jax")
    drawing = _settings_of(step, model)
    from pmgp.interface.dense_jax.chains import VectorizedChains

    parts = step.latent_model
    chains = VectorizedChains(model, parts, settings.chains, drawing)
    rng, begun = settings.seed.generator(), perf_counter()
    points = chains.started(rng)
    if points is None:
        raise SamplingError(unusable_start(parts, parts.initial_theta))
    quiet = bool(options.get("quiet"))
    shown = bool(options.get("progressbar", True)) and not quiet
    made, total = chains.iterations(rng, points, settings.tune, settings.draws), settings.tune + settings.draws
    drawn: list[Any] = []
    try:
        for one in track(made, f"Sampling {settings.chains} chains", total=total, disable=not shown):
            drawn += [] if one is None else [one]
    except KeyboardInterrupt as interruption:
        if not drawn:
            raise NoDrawsError("interrupted while tuning, so there are no draws") from interruption
    attributes = {"sampling_time": perf_counter() - begun, "tuning_steps": settings.tune}
    idata = _tree(model, chains, drawn, drawing.draws, attributes)
    _warn(idata["sample_stats"])
    found = report(idata, words=PYTHON._replace(more=lambda ess, needed: f"draws={needed} makes as many"))
    idata.attrs[REPORT] = str(found)
    if not quiet:
        _log.log(logging.INFO if found.good else logging.WARNING, str(found))
    return idata


def _settings_of(step: Any, model: pm.Model) -> Any:
    """Return the settings of a step method as those of the chains, or refuse it."""
    if not isinstance(step, PseudoMarginal) or not isinstance(step._matrices, JaxMatrices):
        raise ValueError(
            'chain_method="vectorized" runs the chain of pmgp.PseudoMarginal(backend="jax"): give that as step, or '
            "leave step out"
        )
    if set(step.vars) != set(model.value_vars) or step.latent_model.imputation is not None:
        raise ValueError(f"a variable of the model is left to another step method, or is missing data; {ADVICE}")
    chain, approximation = step.scheme, step.approximation
    estimator, transition = chain.estimator, chain.transition
    if not isinstance(estimator, ImportanceSampling) or not estimator.antithetic or estimator.draws == 1:
        raise ValueError(f'chain_method="vectorized" estimates by pairs of importance samples, not {estimator!r}')
    if type(approximation) not in (Laplace, ExpectationPropagation):
        raise ValueError(f'chain_method="vectorized" does not know the approximation {approximation!r}')
    # By turns with trajectories is what "auto" stands for where there are many hyper-parameters.
    mixture = transition.proposals if isinstance(transition, Alternation) else transition
    if not isinstance(mixture, IndependenceMixture) or not chain.delayed_acceptance:
        raise ValueError(
            'chain_method="vectorized" moves theta on the screen by proposal="mixture", which is its "auto", not by '
            f"{transition!r}; {ADVICE}"
        )
    if chain.refresh_every not in (None, 1):
        raise ValueError(f'chain_method="vectorized" refreshes in every iteration; {ADVICE}')
    from pmgp.interface.dense_jax.chains import Settings

    draws = DEFAULT_DRAWS if estimator.draws == "auto" else int(estimator.draws)
    counts = chain.transitions, chain.latent_moves, mixture.target_acceptance
    return Settings(approximation, draws, *counts, step._matrices.device, step._matrices.memory)


def _tree(model: pm.Model, chains: Any, drawn: list[Any], draws: int, attributes: dict[str, Any]) -> xr.DataTree:
    """Return the draws with their statistics, observations and constants, as `pymc.sample` does."""
    from arviz_base import from_dict, make_attrs
    from pymc.backends.arviz import coords_and_dims_for_inferencedata, find_constants, find_observations

    theta, f = (np.stack(part, axis=1) for part in ([d.theta for d in drawn], [d.info.latent for d in drawn]))
    by_chain = [chains.shown(*one) for one in zip(theta, f, strict=True)]
    posterior = {name: np.stack([one[name] for one in by_chain]) for name in by_chain[0]}
    statistics = {name: np.stack(part, axis=1) for name, part in _statistics(drawn, draws).items()}
    groups = {"posterior": posterior, "sample_stats": statistics}
    data = {"observed_data": find_observations(model), "constant_data": find_constants(model)}
    coords, dims = coords_and_dims_for_inferencedata(model)
    return from_dict(
        groups | {name: found for name, found in data.items() if found},
        coords=coords,
        dims=dims,
        sample_dims=["chain", "draw"],
        attrs={group: make_attrs(attributes, inference_library=pm) for group in groups},
    )


def _statistics(drawn: list[Any], draws: int) -> dict[str, list[np.ndarray]]:
    """Return the sample statistics of `PseudoMarginal` that these chains have."""
    return {
        "accepted": [d.info.accepted.astype(float) for d in drawn],
        "acceptance_rate": [d.info.rate for d in drawn],
        "screen_acceptance_rate": [d.info.screened.rate for d in drawn],
        "log_marginal_likelihood": [d.log_estimate for d in drawn],
        "importance_ess": [d.effective_size for d in drawn],
        "importance_draws": [np.full(len(d.log_estimate), draws) for d in drawn],
        "n_newton": [d.info.screened.steps for d in drawn],
        "indefinite": [~d.info.screened.definite for d in drawn],
        "converged": [d.info.screened.converged for d in drawn],
        "exact": [np.full(len(d.log_estimate), True) for d in drawn],
    }


def _warn(statistics: Any) -> None:
    """Say how many proposals were rejected since K was indefinite, or since the approximation did not converge."""
    indefinite, failed = int(statistics["indefinite"].sum()), int((~statistics["converged"]).sum())
    total = int(statistics["converged"].size)
    if indefinite:
        warnings.warn(indefinite_proposals(indefinite, total), UserWarning, stacklevel=4)
    if failed:
        warnings.warn(
            f"at {failed} of {total} proposals the approximation did not converge, and they were rejected: the draws "
            'are from the posterior where it does; idata.sample_stats["converged"] says when. If they are many, give '
            "approximation=pmgp.approximations.ExpectationPropagation(max_sweeps=200)",
            UserWarning,
            stacklevel=4,
        )
