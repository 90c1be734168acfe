"""The search for the latent variables f of a PyMC model, with errors that explain why there are none."""

from __future__ import annotations

from collections.abc import Sequence

import pymc as pm
from pymc.distributions.distribution import PartialObservedRV
from pymc.distributions.multivariate import MvStudentTRV, ZeroSumNormalRV
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import MvNormalRV
from pytensor.tensor.variable import TensorVariable

from pmgp.core.likelihoods.checks import marked_rows
from pmgp.interface.distributions.base import value_of
from pmgp.interface.model.effects import WHITENED, effects, is_correlated, is_normal, is_standard, why_not_effect
from pmgp.interface.model.indices import beyond_the_last
from pmgp.interface.model.time_series import is_markov, is_process, kind_of, why_not_gaussian

ONE_PROCESS = (
    "a sum of independent processes is one process with the summed covariance: "
    "f = (gp1 + gp2).prior(..., reparameterize=False)"
)


class ModelError(ValueError):
    """A PyMC model that is not of the form p(theta) N(f|m, K) prod_i p(y_i|f_i, theta).

    Examples
    --------
    >>> import pmgp, pymc as pm
    >>> with pm.Model():
    ...     x = pm.Normal("x")
    ...     try:
    ...         pmgp.PseudoMarginal()
    ...     except pmgp.ModelError as error:
    ...         print("refused:", error)
    refused: ...
    """


class NotFactorizingError(ModelError):
    """Some terms of the likelihood depend on several latent values."""


def find_latents(
    model: pm.Model, latent: TensorVariable | str | Sequence[TensorVariable | str] | None = None
) -> list[TensorVariable]:
    """Return the latent variables that make up f.

    These are all free multivariate normal variables; in a model without any, time series, fields and effects of groups.

    Parameters
    ----------
    model : pymc.Model
    latent : variable or str, or a sequence of them, optional
        The variables that make up f, if not these; they may include other normal variables. The rest is theta.

    Raises
    ------
    ModelError
        If there is none, `latent` names another variable or one twice, or one depends on another; if an index in the
        data points beyond the last element of a variable.

    Examples
    --------
    >>> import pmgp
    >>> from pmgp.interface.model.latent_variable import find_latents
    >>> model = pmgp.models.classifier([[0.0], [1.0]], [0, 1])
    >>> [latent.name for latent in find_latents(model)]
    ['f']
    """
    wrong_index = beyond_the_last(model)
    if wrong_index is not None:
        raise ModelError(wrong_index)
    if latent is not None and not isinstance(latent, list | tuple):
        return [_named(model, latent)]
    found = _candidates(model) or _pieces(model) if latent is None else [_named(model, one) for one in latent]
    twice = [rv.name for position, rv in enumerate(found) if rv in found[:position]]
    if twice:
        raise ModelError(f"latent names {twice[0]!r} twice: name each latent variable once")
    if not found:
        refuse_split(model)
        raise ModelError(f"the model has no latent multivariate normal variable; {_instead(model)}")
    for rv in found:
        _check_shape(model, rv)
        others = [other.name for other in found if other is not rv and other in set(ancestors([rv]))]
        if others:
            raise ModelError(
                f"the latent variable {rv.name!r} depends on {', '.join(map(repr, others))}: latent vectors of one "
                "model must be independent of each other a priori. With latent=... one is f; the others are then "
                "hyper-parameters, and must not be a second process"
            )
    return found


def find_latent(model: pm.Model, latent: TensorVariable | str | None = None) -> TensorVariable:
    """Return the latent vector f of a model that has one: its free multivariate normal variable.

    Parameters
    ----------
    model : pymc.Model
    latent : variable or str, optional
        The variable that is f, if there are several.

    Raises
    ------
    ModelError
        If there is none, or there are several and `latent` does not say which.

    Examples
    --------
    >>> import pmgp
    >>> from pmgp.interface.model.latent_variable import find_latent
    >>> model = pmgp.models.classifier([[0.0], [1.0]], [0, 1])
    >>> find_latent(model).name
    'f'
    """
    found = find_latents(model, latent)
    if are_summed(found):
        names = ", ".join(repr(rv.name) for rv in found)
        raise ModelError(
            f"{names} are integrated out as parts of linear predictors by pmgp.PseudoMarginal, pmgp.find_map, "
            "pmgp.evidence and pmgp.loo; this function takes one latent vector. With latent=... one is f, and the "
            "others are hyper-parameters"
        )
    if len(found) > 1:
        names = ", ".join(rv.name for rv in found)
        raise ModelError(
            f"the model has several multivariate normal variables ({names}); say which is f with latent=...: the "
            "others are then hyper-parameters, and must not be a second process. Step methods and predictions take "
            f"several processes together as f, but this function does not; {ONE_PROCESS}"
        )
    return _check_vector(found[0])


def _named(model: pm.Model, latent: TensorVariable | str) -> TensorVariable:
    others = [rv for rv in model.free_RVs if is_normal(rv) or is_correlated(rv)]
    candidates = [*_candidates(model), *_time_series(model), *others]
    name = latent if isinstance(latent, str) else latent.name
    for rv in candidates:
        if rv.name == name or model.rvs_to_values[rv].name == name:
            return _check_shape(model, rv)
    names = ", ".join(rv.name for rv in candidates) or "none"
    raise ModelError(
        f"{name!r} is not a free multivariate normal variable of the model, nor a time series, a field or a normal "
        f"variable; those are: {names}"
    )


def _candidates(model: pm.Model) -> list[TensorVariable]:
    """Return the free multivariate normal variables, except conditionals of others at new inputs."""
    normal = list(filter(is_dense, model.free_RVs))
    data = set(ancestors([*model.observed_RVs, *model.potentials]))
    return [rv for rv in normal if rv in data or not set(normal) & (set(ancestors([rv])) - {rv})]


def _time_series(model: pm.Model) -> list[TensorVariable]:
    """Return the free time series and fields."""
    return [rv for rv in model.free_RVs if is_markov(rv)]


def _pieces(model: pm.Model) -> list[TensorVariable]:
    """Return the time series, fields and effects of groups, in the order of their definition."""
    found = {*_time_series(model), *effects(model), *filter(is_correlated, model.free_RVs)}
    return [rv for rv in model.free_RVs if rv in found]


def are_summed(latents: list[TensorVariable]) -> bool:
    """Return whether latent variables are summed in linear predictors: not a single one, and not only dense ones."""
    others = [rv for rv in latents if not is_dense(rv)]
    return bool(others) and (len(latents) > 1 or not is_markov(others[0]))


def is_dense(rv: TensorVariable) -> bool:
    """Return whether a variable is a process with a covariance matrix: multivariate normal, but not effects."""
    return _made_by(rv, MvNormalRV) and not is_correlated(rv)


def have_rows(latents: list[TensorVariable]) -> bool:
    """Return whether latent variables belong to an index and not to inputs: effects, series, fields and their sums."""
    return are_summed(latents) or all(is_markov(rv) and not is_process(rv) for rv in latents)


def names_of(latents: list[TensorVariable]) -> str:
    """Return the names of variables, for errors."""
    return ", ".join(rv.name for rv in latents)


def refuse_time_series(variables: list[TensorVariable], what: str, instead: str) -> None:
    """Refuse time series and fields, and their sums, where the covariance of f at inputs is needed."""
    if are_summed(variables):
        names = ", ".join(repr(rv.name) for rv in variables)
        raise ModelError(
            f"{names} are parts of linear predictors, which have no inputs of their own: {what} are made for the rows "
            "of the model's data. Set new data with pm.set_data, and call pmgp.predict(idata) or "
            "pmgp.sample_predictions(idata), which take new groups and times too"
        )
    for rv in variables:
        if is_markov(rv):
            raise ModelError(f"{rv.name!r} is a {kind_of(rv)}, and {what} are not available for it: {instead}")


def _made_by(rv: TensorVariable, kind: type) -> bool:
    return rv.owner is not None and isinstance(rv.owner.op, kind)


def _check_vector(rv: TensorVariable) -> TensorVariable:
    if rv.ndim != 1:
        raise ModelError(
            f"the latent variable {rv.name!r} has {rv.ndim} dimensions; only vectors are supported here, and only "
            "step methods and predictions support several of them"
        )
    return rv


def _check_shape(model: pm.Model, rv: TensorVariable) -> TensorVariable:
    if is_markov(rv):
        reason = why_not_gaussian(model, rv)
        if reason is not None:
            raise ModelError(f"the {kind_of(rv)} {rv.name!r} cannot be f: {reason}")
        return rv
    if is_normal(rv):
        reason = why_not_effect(model, rv)
        if reason is not None:
            raise ModelError(f"the normal variable {rv.name!r} cannot be integrated out: {reason}")
        return rv
    if model.rvs_to_transforms[rv] is not None:
        raise ModelError(f"the latent variable {rv.name!r} has a transform, so it is not normal: leave that out")
    if rv.ndim not in (1, 2):
        raise ModelError(
            f"the latent variable {rv.name!r} has {rv.ndim} dimensions; only vectors are supported, or several of "
            "them in the shape (outputs, n)"
        )
    return rv


def whitened_processes(model: pm.Model) -> list[str]:
    """Return the names of variables that are whitened Gaussian processes, which PyMC's naming shows."""
    return [rv.name for rv in model.free_RVs if rv.name.endswith(WHITENED)]


def on_inducing_inputs(rv: TensorVariable) -> bool:
    """Return whether a variable has the whitened values of a process on inducing inputs."""
    return hasattr(rv.tag, "inducing_process")


def refuse_split(model: pm.Model) -> None:
    """Refuse multivariate normal observations some of which are missing: PyMC has no density of the others alone."""
    for rv in model.observed_RVs:
        if not isinstance(rv.owner.op, PartialObservedRV):
            continue
        whole, missing = rv.owner.inputs
        if _made_by(whole, MvNormalRV):
            name = rv.name.removesuffix("_observed")
            raise ModelError(
                f"the multivariate normal observations {name!r} are missing in {marked_rows(value_of(missing))}, and "
                f"PyMC has split off {name}_unobserved, a variable to be sampled: leave out these rows of X and of the "
                "observations. pmgp.predict gives new observations there"
            )


def _instead(model: pm.Model) -> str:
    """Return advice for a model without a latent process, which names what it has in its place."""
    build = "build one with gp.prior(..., reparameterize=False) or pm.MvNormal"
    for rv in filter(on_inducing_inputs, model.free_RVs):
        return (
            f"{rv.name!r} has the values at the inducing inputs of a pmgp.gp.Sparse, which are sampled, not integrated "
            "out: pmgp.sample chooses a step method for them. For what integrates f out, build pm.gp.Latent with "
            "gp.prior(..., reparameterize=False)"
        )
    for name in whitened_processes(model):
        return (
            f"{name!r} is a whitened Gaussian process: build it with gp.prior(..., reparameterize=False). In place of "
            "pm.gp.LatentKron, which always whitens, take pm.gp.Latent with a product of kernels, each with its own "
            "active_dims, at pm.math.cartesian of the inputs"
        )
    for rv in model.free_RVs:
        if "_hsgp_coeffs" in rv.name:
            return (
                f"{rv.name!r} are the coefficients of an HSGP, which approximates a process with a few basis "
                "functions: PyMC's NUTS samples it, without a step method of this package"
            )
        if _made_by(rv, MvStudentTRV):
            return f"{rv.name!r} is multivariate Student t, and only Gaussian processes are supported; {build}"
    if any(_made_by(rv, MvNormalRV) for rv in model.observed_RVs):
        return (
            "the multivariate normal one is observed. In a model of pm.gp.Marginal the latent values are integrated "
            "out: PyMC's NUTS samples its hyper-parameters, and so do pmgp.sample and pmgp.importance. The log "
            "evidence is pmgp.importance(model).attrs['log_evidence']. For pmgp.loo and pmgp.cross_validate build f "
            "with pm.gp.Latent, and observe pm.Normal('y', f, noise)"
        )
    for rv in model.free_RVs:
        if isinstance(rv.owner.op, ZeroSumNormalRV):
            return (
                f"{rv.name!r} is a ZeroSumNormal, which is not integrated out: write pm.Normal({rv.name!r}, 0, sigma, "
                "shape=G), whose sum the level beside it takes up, or leave it to PyMC's NUTS"
            )
        if is_standard(model, rv) and rv.ndim:
            return (
                f"{rv.name!r} is a normal variable with a known standard deviation: latent=[{rv.name!r}] integrates it "
                "out. If hyper-parameters multiply it, let them do so once and before an index, as in "
                "(sigma[kind] * z)[group] and (chol @ z)[0, group]"
            )
    for rv in model.free_RVs:
        if is_normal(rv) and rv.ndim and why_not_effect(model, rv) is None:
            return f"{rv.name!r} is normal and has one element: latent=[{rv.name!r}] integrates it out"
        if rv.ndim and not is_normal(rv) and below(model, [rv]):
            return f"{rv.name!r} is not normal, and only normal effects are integrated out; for a process, {build}"
    return build


def below(model: pm.Model, latents: list[TensorVariable]) -> list[TensorVariable]:
    """Return the observed variables that depend on f."""
    return [rv for rv in model.observed_RVs if set(latents) & set(ancestors([rv]))]


def without_data(model: pm.Model, latents: list[TensorVariable]) -> list[TensorVariable]:
    """Return the free variables that depend on f and that no data depend on, such as conditionals at new inputs."""
    data = set(ancestors([*model.observed_RVs, *model.potentials]))
    others = [rv for rv in model.free_RVs if rv not in data and rv not in latents]
    return [rv for rv in others if set(latents) & set(ancestors([rv]))]


def refuse_children(model: pm.Model, latent: str, children: list[TensorVariable]) -> None:
    """Raise an error about free variables that depend on f, with advice."""
    names = ", ".join(child.name for child in children)
    message = f"the free variables {names} depend on {latent!r}; only observed ones may. "
    observed = set(ancestors([*model.observed_RVs, *model.potentials]))
    if all(_made_by(child, MvNormalRV) and child not in observed for child in children):
        message += (
            "These are conditionals at new inputs, on which no data depend: add them to the model after sampling, "
            f"and draw them with pm.sample_posterior_predictive(idata, var_names={[c.name for c in children]})"
        )
    elif not observed & set(children):
        message += (
            "No data depend on these: if they are the observations, give observed=..., with missing ones masked; "
            "otherwise draw them after sampling, with pm.sample_posterior_predictive"
        )
    else:
        message += (
            "Integrate them out, a normal one by adding its variance to the covariance (pm.gp.cov.WhiteNoise), or "
            "sample with pmgp.steps.Ancillary and pmgp.EllipticalSlice, which pmgp.recommend writes out"
        )
    raise ModelError(message)
