"""Which step methods suit a model: the answer of the page "Which scheme should I use?", with its reason.

The rules are read off the measured figures of ``benchmarks/results/schemes.csv``, which that page shows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from html import escape
from typing import Any, NamedTuple, cast

import numpy as np
import pymc as pm
from pytensor.graph.traversal import ancestors

from pmgp.core.likelihoods.base import SiteLikelihood
from pmgp.interface.model.inducing_process import InducingProcess, inducing_process
from pmgp.interface.model.latent_gaussian import LatentGaussianModel, ModelError, find_latent
from pmgp.interface.sparse import SparseGibbs, suggested_number
from pmgp.interface.steps import Ancillary, EllipticalSlice, LatentHMC, PseudoMarginal
from pmgp.interface.steps.shared import share
from pmgp.interface.steps.transitions import FEW, many_to_follow_gradients
from pmgp.interface.weighted_sums import ADDITIVE_NUTS, number_of_weights

__all__ = ["MANY_HYPERPARAMETERS", "Recommendation", "recommend"]

MANY_HYPERPARAMETERS = 8
"""From so many elements of theta on, gradients pay beside an f that the likelihood does not factorize over."""

MANY_POINTS = 1500
"""From so many latent values on, a chain of 2,000 iterations takes five minutes or more, and eight times as long with
twice as many: with 1,372 and two hyper-parameters an iteration takes 120 milliseconds."""

# Where the curvature of the likelihood is looked at, in standard deviations of the prior of f.
PROBES = np.linspace(-4.0, 4.0, 9)

WHITENED_NUTS = (
    "NUTS, PyMC's or nutpie's, on the whitened model, gp.prior without reparameterize=False: some eight times slower "
    "where n is a hundred or so, far slower from some hundreds on"
)


class StepCall(NamedTuple):
    """A step method and what it is called with."""

    method: type
    settings: dict[str, Any]

    def __str__(self) -> str:
        """Return the call as one would write it."""
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings.items())
        return f"pmgp.{self.method.__name__}({settings})"


@dataclass(frozen=True)
class Recommendation:
    """Step methods for a model, and why these.

    Attributes
    ----------
    name : str
        Of the scheme.
    calls : tuple of StepCall
        The step methods.
    reason : str
        In words.
    cost : str
        O(n^3) operations of an iteration.
    alternatives : tuple of str
        What else to try, and when.
    model : pymc.Model
    """

    name: str
    calls: tuple[StepCall, ...]
    reason: str
    cost: str
    alternatives: tuple[str, ...]
    model: pm.Model = field(repr=False)

    @property
    def code(self) -> str:
        """What to write for ``step=``."""
        calls = ", ".join(map(str, self.calls))
        return calls if len(self.calls) == 1 else f"[{calls}]"

    def steps(self) -> list[Any]:
        """Make the step methods, anew in every call, for ``pymc.sample(step=...)``."""
        return [call.method(model=self.model, **call.settings) for call in self.calls]

    def _lines(self) -> list[tuple[str, str]]:
        return [
            ("why", self.reason),
            ("cost", self.cost),
            *[("or", alternative) for alternative in self.alternatives],
        ]

    def __str__(self) -> str:
        """Return the answer as text."""
        lines = [f"{self.name}: pm.sample(step={self.code})", *[f"  {head}: {text}" for head, text in self._lines()]]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the answer as a table, for notebooks."""
        cells = [("step", f"<code>{escape(self.code)}</code>"), *[(head, escape(text)) for head, text in self._lines()]]
        rows = "".join(f"<tr><th>{head}</th><td style='text-align: left'>{cell}</td></tr>" for head, cell in cells)
        return f"<table><caption>{escape(self.name)}</caption><tbody>{rows}</tbody></table>"


class Traits(NamedTuple):
    """What the choice depends on.

    Attributes
    ----------
    latent : dict
        How f is named to the step methods: empty where they find it by themselves.
    dimension : int
        Of theta.
    factorizes : bool
        Whether the likelihood does, and no free variable depends on f.
    sites_known : bool
        Whether the terms of the likelihood are known one by one, so that their moments can be matched.
    log_concave : bool
        Whether the likelihood was so wherever it was looked at.
    """

    latent: dict[str, str]
    dimension: int
    factorizes: bool
    sites_known: bool
    log_concave: bool


def recommend(model: pm.Model | None = None, *, latent: Any = None) -> Recommendation:
    """Recommend step methods for a model with a latent Gaussian process, from measured figures.

    Parameters
    ----------
    model : pymc.Model, optional
        That of the ``with`` block by default.
    latent : variable or str, optional
        The latent vector f, if the model has several candidates; without it, each of them gets a step method.

    Returns
    -------
    Recommendation
        Prints the step methods with the reason; its ``steps()`` makes them.

    Raises
    ------
    ModelError
        If the model has no latent multivariate normal variable (build the process with
        ``gp.prior(..., reparameterize=False)``), no observed variable depends on it, a hyper-parameter is discrete, or
        there is a second process besides the `latent` that was named.

    Examples
    --------
    >>> with model:  # doctest: +SKIP
    ...     recommendation = pmgp.recommend()
    ...     idata = pm.sample(step=recommendation.steps())
    """
    model = pm.modelcontext(model)
    process = inducing_process(model)
    if process is not None:
        return _on_inducing_inputs(model, process)
    exact = _exact(model, latent)
    if number_of_weights(model) > FEW:
        exact = replace(exact, alternatives=(ADDITIVE_NUTS, *exact.alternatives))
    points = _latent_values(model)
    return exact if points < MANY_POINTS else _with_approximation(exact, points)


def _exact(model: pm.Model, latent: Any) -> Recommendation:
    """Step methods whose target is the posterior."""
    candidates = [rv.name for rv in model.free_RVs if _is_latent(model, rv.name)]
    if latent is None and len(candidates) > 1:
        return _processes(model) or _several_latent_vectors(model, candidates)
    traits = _traits(model, latent)
    if not traits.dimension:
        return _known_hyperparameters(model, traits)
    if not traits.factorizes:
        return _any_likelihood(model, traits)
    if traits.dimension <= FEW:
        return _few_hyperparameters(model, traits)
    return _many_hyperparameters(model, traits)


def _latent_values(model: pm.Model) -> int:
    """How many the largest process has."""
    shapes = [rv.type.shape for rv in model.free_RVs if _is_latent(model, rv.name)]
    return max((shape[-1] or 0 for shape in shapes if shape), default=0)


def _with_approximation(exact: Recommendation, points: int) -> Recommendation:
    approximation = (
        f"{points} latent values take long, and twice as many eight times as long: pmgp.gp.Sparse with some "
        f"{suggested_number(points)} inducing inputs costs O(n M^2). It is an approximation; its gp.diagnose says "
        "whether there are enough of them"
    )
    return replace(exact, alternatives=(approximation, *exact.alternatives))


def _on_inducing_inputs(model: pm.Model, process: InducingProcess) -> Recommendation:
    """For a process of `pmgp.gp.Sparse`."""
    other = "pmgp.SparseHMC, which follows gradients, where there are more than five hyper-parameters"
    return Recommendation(
        "Hyper-parameters and inducing values in turn",
        (StepCall(SparseGibbs, {}),),
        f"the process is seen through {process.size} inducing inputs by {process.points} points: what is sampled is an "
        "approximation of the posterior, by moves that hardly depend on each other.",
        "1 or 2 Cholesky factorizations of M rows an iteration, and O(n M^2) for the rest",
        (other, "PyMC's NUTS, once its gradient is compiled"),
        model,
    )


def _is_latent(model: pm.Model, name: str) -> bool:
    try:
        find_latent(model, name)
    except ModelError:
        return False
    return True


def _traits(model: pm.Model, latent: Any) -> Traits:
    parts = share(model, latent).parts
    parts.refuse_other_processes(model)
    theta = parts.ravel(model.initial_point())
    prior, likelihood = parts.prior(theta), cast("SiteLikelihood", parts.likelihood(theta))
    variance = prior.variance.copy()
    factorizes = _factorizes(model, parts)
    places = prior.mean + np.multiply.outer(PROBES, np.sqrt(variance))
    return Traits(
        latent={} if latent is None else {"latent": parts.latent.name},
        dimension=parts.dimension,
        factorizes=factorizes,
        sites_known=factorizes and parts.sites_known,
        log_concave=factorizes and all(_nowhere_negative(likelihood.curvature(f)) for f in places),
    )


def _nowhere_negative(curvature: np.ndarray) -> bool:
    return bool((curvature >= -1e-8 * np.abs(curvature).max()).all())


def _factorizes(model: pm.Model, parts: LatentGaussianModel) -> bool:
    """Whether p(y|f, theta) is a product over f of what is observed."""
    others = [rv for rv in model.free_RVs if rv is not parts.latent]
    if others and parts.latent_value in set(ancestors(model.logp(vars=others, sum=False))):
        return False
    try:
        parts.require_factorizing()
    except ModelError:
        return False
    return True


def _few_hyperparameters(model: pm.Model, traits: Traits) -> Recommendation:
    reason = f"{_count(traits)}: theta moves in its own posterior, with f integrated out, and so nearly independently."
    if not traits.log_concave:
        reason += (
            " The likelihood is not log-concave, so that a Gaussian may fit p(f|y, theta) badly: look at the sample "
            "statistic importance_ess, and at R-hat."
        )
    alternatives = ["pmgp.JointUpdate with pmgp.LatentHMC for two or three hyper-parameters, several times slower"]
    operations = "4 Cholesky factorizations and 1.5 inversions"
    if traits.sites_known:
        # Expectation propagation, the default where it can be had.
        operations = "3 Cholesky factorizations and 1.2 inversions"
        alternatives.insert(0, 'pmgp.PseudoMarginal(approximation="laplace") as a check: another q, the same posterior')
    return Recommendation(
        "Pseudo-marginal chain",
        (StepCall(PseudoMarginal, traits.latent),),
        reason,
        f"about {operations} an iteration",
        tuple(alternatives),
        model,
    )


def _many_hyperparameters(model: pm.Model, traits: Traits) -> Recommendation:
    return Recommendation(
        "Pseudo-marginal chain with trajectories",
        (StepCall(PseudoMarginal, traits.latent),),
        f"{_count(traits)}: a random walk hardly moves in so many dimensions. Trajectories do, on the evidence of the "
        "approximation, with f integrated out, in turns with proposals as far as these help; an operation of the model "
        "without a gradient leaves the proposals.",
        "up to 11 Cholesky factorizations and 10 inversions an iteration, for four gradients",
        ('pmgp.Interweaving(operator="hmc") with pmgp.LatentHMC(variant="v2"), several times slower', WHITENED_NUTS),
        model,
    )


def _any_likelihood(model: pm.Model, traits: Traits) -> Recommendation:
    operator = {} if traits.dimension < MANY_HYPERPARAMETERS else {"operator": "hmc"}
    return Recommendation(
        "Ancillary augmentation",
        (StepCall(Ancillary, operator | traits.latent), StepCall(EllipticalSlice, traits.latent)),
        "the likelihood does not factorize over f, or free variables depend on f: what needs Laplace's approximation "
        "cannot be used, and these two need the likelihood's value alone.",
        "1 Cholesky factorization an iteration" if not operator else "about 12 Cholesky factorizations an iteration",
        ('pmgp.LatentHMC(variant="v2") for f, which uses the gradient', "pmgp.Interweaving in place of pmgp.Ancillary"),
        model,
    )


def _known_hyperparameters(model: pm.Model, traits: Traits) -> Recommendation:
    if traits.factorizes:
        call, reason = StepCall(LatentHMC, traits.latent), "trajectories scaled by (K^-1 + C)^-1 mix best."
    else:
        call, reason = StepCall(EllipticalSlice, traits.latent), "the likelihood does not factorize over f."
    return Recommendation(
        "Latent values alone",
        (call,),
        f"the model has no hyper-parameters, so that only f is to be sampled; {reason}",
        "none an iteration, once K is factorized",
        ("pmgp.EllipticalSlice: nothing to tune" if traits.factorizes else 'pmgp.LatentHMC(variant="v2")',),
        model,
    )


def _processes(model: pm.Model) -> Recommendation | None:
    """For latent vectors that make up one f; None where they cannot, or the likelihood does not factorize over it."""
    try:
        parts = share(model, given_theta=False).parts
    except ModelError:
        return None
    many = many_to_follow_gradients(parts)
    return Recommendation(
        "Pseudo-marginal chain with trajectories" if many else "Pseudo-marginal chain",
        (StepCall(PseudoMarginal, {}),),
        f"the latent vectors {parts.latent_name} are integrated out together, {parts.dimension} elements of theta are "
        "left, and the likelihood factorizes over the values that belong to an observation."
        + (" So many are moved by trajectories, in turns with proposals as far as these help." if many else ""),
        "for every Newton step or sweep, 1 Cholesky factorization for each of the C vectors and one more for "
        "pmgp.MultinomialLogit, and one of C n rows for other likelihoods",
        (
            'pmgp.PseudoMarginal(approximation="laplace") as a check: another q, the same posterior',
            "one process with the summed covariance, (gp1 + gp2).prior(...), where processes are only summed",
        ),
        model,
    )


def _several_latent_vectors(model: pm.Model, names: list[str]) -> Recommendation:
    return Recommendation(
        "A step method for each latent vector",
        tuple(StepCall(EllipticalSlice, {"latent": name}) for name in names),
        f"the model has several latent vectors ({', '.join(names)}), and each step method updates one; PyMC chooses "
        "step methods for the other variables.",
        "1 Cholesky factorization for each latent vector an iteration",
        (
            "one process with the summed covariance, (gp1 + gp2).prior(...), where processes are only summed",
            "pmgp.recommend(model, latent=...), where the others are no processes but, say, regression coefficients",
        ),
        model,
    )


def _count(traits: Traits) -> str:
    return f"{traits.dimension} hyper-parameter{'s' if traits.dimension > 1 else ''} (elements of theta)"
