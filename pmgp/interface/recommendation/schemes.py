"""Recommendations for each kind of model: step methods, the reason for them, their cost, and alternatives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pymc as pm
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.model.inducing_process import InducingProcess
from pmgp.interface.model.latent_gaussian import ModelError
from pmgp.interface.model.latent_pieces import LatentPieces
from pmgp.interface.model.missing import hyperparameters
from pmgp.interface.recommendation.result import Recommendation, StepCall
from pmgp.interface.recommendation.traits import Traits
from pmgp.interface.sparse import SparseGibbs, SparseHMC, suggested_number
from pmgp.interface.steps import Ancillary, EllipticalSlice, LatentHMC, PseudoMarginal
from pmgp.interface.steps.shared import share, share_for_evidence
from pmgp.interface.steps.transitions import many_to_follow_gradients

MANY_HYPERPARAMETERS = 8
"""The number of elements of theta from which gradients pay if the likelihood does not factorize over f."""

AROUND_MAXIMUM = (
    "pmgp.importance(): exact as well, one evaluation for each independent draw around the maximum of the posterior; "
    "it says whether the draws can be trusted"
)

AS_A_CHECK = 'pmgp.PseudoMarginal(approximation="laplace") as a check: a different approximation, the same posterior'

WHITENED_NUTS = (
    "NUTS, PyMC's or nutpie's, on the whitened model, gp.prior without reparameterize=False: fifteen to sixty times "
    "slower for n near one hundred, far slower for several hundred"
)


def few_hyperparameters(model: pm.Model, traits: Traits) -> Recommendation:
    """Recommend step methods for a likelihood that factorizes, and few enough elements of theta for proposals."""
    reason = f"{_count(traits)}: theta is updated with f integrated out, so its moves hardly depend on the current f."
    if not traits.log_concave:
        reason += (
            " The likelihood is not log-concave, so that a Gaussian may fit p(f|y, theta) badly: check the sample "
            "statistic importance_ess, and R-hat."
        )
    alternatives = [
        "pmgp.steps.JointUpdate with pmgp.steps.LatentHMC for two or three hyper-parameters, several times slower"
    ]
    operations = "4 Cholesky factorizations and 1.5 inversions"
    if traits.sites_known:
        # Expectation propagation is the default if the sites are known.
        operations = "3 Cholesky factorizations and 1.2 inversions"
        alternatives.insert(0, AS_A_CHECK)
    return Recommendation(
        "Pseudo-marginal chain",
        (StepCall(PseudoMarginal, traits.latent),),
        reason,
        f"about {operations} per iteration",
        tuple(alternatives),
        model,
    )


def many_hyperparameters(model: pm.Model, traits: Traits) -> Recommendation:
    """Recommend step methods for a likelihood that factorizes, and many elements of theta."""
    return Recommendation(
        "Pseudo-marginal chain with trajectories",
        (StepCall(PseudoMarginal, traits.latent),),
        f"{_count(traits)}: a random walk hardly moves in so many dimensions. Trajectories do: they follow gradients "
        "of the approximation's evidence, with f integrated out, and alternate with proposals as long as these help. "
        "If an operation of the model has no gradient, only proposals are used.",
        "up to 11 Cholesky factorizations and 10 inversions per iteration, for four gradients",
        (
            'pmgp.steps.Interweaving(operator="hmc") with pmgp.steps.LatentHMC(mass="prior"), several times slower',
            WHITENED_NUTS,
        ),
        model,
    )


def time_series(model: pm.Model, traits: Traits) -> Recommendation:
    """Recommend step methods for a time series or a field, with or without hyper-parameters."""
    share(model, traits.latent.get("latent"), given_theta=traits.dimension == 0).parts.require_factorizing()
    call = StepCall(PseudoMarginal, traits.latent) if traits.dimension else StepCall(EllipticalSlice, traits.latent)
    reason = f"{_count(traits)}: theta is updated with f integrated out." if traits.dimension else ""
    return Recommendation(
        "Pseudo-marginal chain along a sparse precision" if traits.dimension else "Latent values alone",
        (call,),
        f"{reason} The precision of f is sparse: for a time series all work is proportional to its length, and for a "
        "field it is that of a sparse factorization.".strip(),
        "nothing of O(n^3); O(n) or a sparse factorization for each sweep, and a triangular solution for each particle",
        (AS_A_CHECK,) if traits.dimension else ("PyMC's NUTS",),
        model,
    )


def summed(model: pm.Model, latents: list[TensorVariable], latent: Any) -> Recommendation:
    """Recommend step methods for latent variables in linear predictors."""
    names = [rv.name for rv in latents]
    given = {} if latent is None else {"latent": names if len(names) > 1 else names[0]}
    known = not hyperparameters(model, latents)
    dense = not share_for_evidence(model, latents, latent).latent_prior.markov
    integrated = "are integrated out together" if len(names) > 1 else "is integrated out"
    return Recommendation(
        "Latent values alone" if known else "Pseudo-marginal chain with sums of latent variables",
        (StepCall(EllipticalSlice if known else PseudoMarginal, given),),
        f"the likelihood depends on linear predictors of {', '.join(names)}, which {integrated} with "
        + ("a covariance matrix." if dense else "a sparse precision."),
        "1 Cholesky factorization of as many rows as there are latent values for each sweep, and a product with the "
        "linear predictors"
        if dense
        else "nothing of O(n^3) for n observations; a sparse factorization for each sweep",
        ("PyMC's NUTS",) if known else (AS_A_CHECK,),
        model,
    )


def any_likelihood(model: pm.Model, traits: Traits) -> Recommendation:
    """Recommend step methods that need only the values of the likelihood."""
    operator = {} if traits.dimension < MANY_HYPERPARAMETERS else {"operator": "hmc"}
    return Recommendation(
        "Ancillary augmentation",
        (StepCall(Ancillary, operator | traits.latent), StepCall(EllipticalSlice, traits.latent)),
        "the likelihood does not factorize over f, or free variables depend on f: Laplace's approximation cannot be "
        "used, and these two step methods need only values of the likelihood.",
        "1 Cholesky factorization per iteration" if not operator else "about 12 Cholesky factorizations per iteration",
        (
            'pmgp.steps.LatentHMC(mass="prior") for f, which uses the gradient',
            "pmgp.steps.Interweaving in place of pmgp.steps.Ancillary",
        ),
        model,
    )


def known_hyperparameters(model: pm.Model, traits: Traits) -> Recommendation:
    """Recommend step methods for a model without hyper-parameters."""
    if traits.factorizes:
        call, reason = StepCall(LatentHMC, traits.latent), "trajectories scaled by (K^-1 + C)^-1 mix best."
    else:
        call, reason = StepCall(EllipticalSlice, traits.latent), "the likelihood does not factorize over f."
    return Recommendation(
        "Latent values alone",
        (call,),
        f"the model has no hyper-parameters, so only f is to be sampled; {reason}",
        "no Cholesky factorization after that of K",
        ("pmgp.EllipticalSlice: nothing to tune" if traits.factorizes else 'pmgp.steps.LatentHMC(mass="prior")',),
        model,
    )


def processes(model: pm.Model) -> Recommendation | None:
    """Recommend step methods for latent vectors that make up one f; return None if they do not."""
    try:
        parts = share(model, given_theta=False).parts
    except ModelError:
        return None
    if isinstance(parts.latent_vector, LatentPieces):
        return summed(model, parts.latent_vector.variables, None)
    many = many_to_follow_gradients(parts, parts.dimension)
    return Recommendation(
        "Pseudo-marginal chain with trajectories" if many else "Pseudo-marginal chain",
        (StepCall(PseudoMarginal, {}),),
        f"the latent vectors {parts.latent_name} are integrated out together, {parts.dimension} elements of theta are "
        "left, and the likelihood factorizes over the values that belong to an observation."
        + (
            " So many are moved with trajectories, which alternate with proposals as long as these help."
            if many
            else ""
        ),
        "for every Newton step or sweep, with pmgp.MultinomialLogit 1 Cholesky factorization for each of the C vectors "
        "and one more, with other likelihoods one of C n rows",
        (
            AS_A_CHECK,
            "one process with the summed covariance, (gp1 + gp2).prior(...), if processes are only summed",
            'pmgp.PseudoMarginal(estimator="sequential") for particles that are resampled between the observations: '
            "tuning chooses them by itself if no Gaussian is near p(f|y, theta) and one importance sample has all the "
            "weight, as with six classes and two hundred observations",
        ),
        model,
    )


def several_latent_vectors(model: pm.Model, names: list[str]) -> Recommendation:
    """Recommend step methods for latent vectors that do not make up a single f."""
    return Recommendation(
        "A step method for each latent vector",
        tuple(StepCall(EllipticalSlice, {"latent": name}) for name in names),
        f"the model has several latent vectors ({', '.join(names)}), and each step method updates one; PyMC chooses "
        "step methods for the other variables.",
        "1 Cholesky factorization for each latent vector per iteration",
        (
            "one process with the summed covariance, (gp1 + gp2).prior(...), if processes are only summed",
            "pmgp.recommend(model, latent=...), if the others are not processes but, say, regression coefficients",
        ),
        model,
    )


def on_inducing_inputs(model: pm.Model, process: InducingProcess) -> Recommendation:
    """Recommend step methods for a `pmgp.gp.Sparse` process."""
    other = "pmgp.steps.SparseHMC, which follows gradients, if there are more than five hyper-parameters"
    start = (
        "pmgp.sample, whose chains start near the posterior; for pymc.sample give "
        "initvals=pmgp.gp.optimize_inducing(gp, inducing=False).initvals(chains)"
    )
    reason = (
        f"{process.size} inducing inputs represent the process at {process.points} points: the chain samples an "
        "approximation of the posterior, in coordinates in which theta hardly depends on the inducing values."
    )
    if process.outputs > 1:
        reason += (
            " It has several outputs: pmgp.sample lets the step method follow a fitted Gaussian, which pymc.sample "
            "needs as pmgp.steps.SparseGibbs(approximation=pmgp.gp.optimize_inducing(gp, inducing=False))."
        )
    return Recommendation(
        "Hyper-parameters and inducing values in turn",
        (StepCall(SparseGibbs, {}),),
        reason,
        "1 or 2 Cholesky factorizations of M rows per iteration, and O(n M^2) for the rest",
        (other, "PyMC's NUTS, once its gradient is compiled", start),
        model,
    )


def several_on_inducing_inputs(model: pm.Model, names: list[str]) -> Recommendation:
    """Recommend a step method for several `pmgp.gp.Sparse` processes."""
    return Recommendation(
        "Trajectories of all processes together",
        (StepCall(SparseHMC, {}),),
        f"{', '.join(map(repr, names))} each hold the values of one process at its inducing inputs: the chain samples "
        "an approximation of the posterior, and follows the gradient of its density.",
        "a Cholesky factorization of M rows and O(n M^2) for each process and gradient; the chain learns how many "
        "gradients an iteration takes",
        (
            "pmgp.gp.Sparse once, with several covariance functions, for independent processes of one likelihood",
            "PyMC's NUTS, once its gradient is compiled",
        ),
        model,
    )


def around_the_maximum(chain: Recommendation, points: int) -> Recommendation:
    """Recommend importance sampling for few hyper-parameters and so many points that an exact chain is slow."""
    return replace(
        chain,
        name="Importance sampling from the maximum",
        reason=f"{points} latent values make each iteration of a chain expensive, and many observations make the "
        "posterior of few hyper-parameters nearly normal: independent draws around its maximum are weighted with "
        "unbiased estimates, and the weights show whether they can be trusted. pmgp.sample() does this, and runs the "
        "chain if they cannot.",
        cost="about 30 gradients to find the maximum, and a fit of the approximation for each draw",
        alternatives=(f"the chain, pm.sample(step={chain.code}): {chain.reason}", *chain.alternatives),
        weighted=True,
    )


def marginal_observations(model: pm.Model) -> Recommendation:
    """Recommend importance sampling for multivariate normal observations, which have no latent values to sample."""
    return Recommendation(
        "Importance sampling from the maximum",
        (),
        "f is integrated out already, so that only theta is left: independent draws around the maximum of its "
        "posterior are weighted with exact values, and the weights show whether they can be trusted.",
        "a Cholesky factorization and an inversion for each of some 30 gradients, and a factorization for each draw",
        ("PyMC's NUTS, pm.sample(), if the weights cannot be trusted: dozens of gradients for each draw",),
        model,
        weighted=True,
    )


def with_approximation(exact: Recommendation, points: int) -> Recommendation:
    """Add a remark about inducing inputs for models with so many points that exact chains take long."""
    approximation = (
        f"{points} latent values take long, and twice as many take eight times as long: pmgp.gp.Sparse with about "
        f"{suggested_number(points)} inducing inputs costs O(n M^2). It is an approximation; gp.diagnose says whether "
        "there are enough of them"
    )
    others = (approximation, *exact.alternatives)
    return replace(exact, alternatives=others if exact.weighted else (AROUND_MAXIMUM, *others))


def _count(traits: Traits) -> str:
    return f"{traits.dimension} hyper-parameter{'s' if traits.dimension > 1 else ''} (elements of theta)"
