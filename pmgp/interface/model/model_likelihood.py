"""p(y|f, theta) as a function of theta: in closed form, or from its graph, whose structure is found by evaluations."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol

import numpy as np

from pmgp.core.likelihoods import Likelihood
from pmgp.core.likelihoods.coupled_sites import CoupledLikelihood, RepeatedSites
from pmgp.core.likelihoods.shared_sites import SharingLikelihood
from pmgp.interface.distributions.closed_forms import ClosedForm
from pmgp.interface.model.checks import refuse_impossible
from pmgp.interface.model.coupled_predictors import CoupledPredictors
from pmgp.interface.model.graph_likelihood import (
    DivisibleBlockLikelihood,
    DivisibleLikelihood,
    PyTensorBlockLikelihood,
    PyTensorLikelihood,
    compile_likelihood,
)
from pmgp.interface.model.joint_terms import JointTerms
from pmgp.interface.model.latent_pieces import LatentPieces, PredictorValues
from pmgp.interface.model.latent_variable import NotFactorizingError
from pmgp.interface.model.latent_vector import LatentVector
from pmgp.interface.model.likelihood_terms import LikelihoodTerms
from pmgp.interface.model.missing_gradients import naming_missing_gradients
from pmgp.interface.model.observations import Observations
from pmgp.interface.model.probes import Probes
from pmgp.interface.model.theta_vector import ThetaVector


class ModelLikelihood(Protocol):
    """The likelihood of a model, in the form that the core takes."""

    @property
    def terms(self) -> LikelihoodTerms | None:
        """The terms of a likelihood that is given by its graph, or None."""

    def __call__(self, theta: np.ndarray) -> Likelihood:
        """Return p(y|f, theta) as a function of f."""

    def refresh_data(self, probes: Probes) -> None:
        """Read the observations again, and find the structure of the likelihood from its values at the probes."""

    def refuse_impossible(self, probes: Probes) -> None:
        """Refuse observations whose likelihood is zero at all probes."""

    def require_factorizing(self) -> None:
        """Refuse a likelihood that does not factorize over f."""

    def compile_derivatives(self, second: bool, theta: np.ndarray, f: np.ndarray) -> None:
        """Compile the gradient in f, or gradient and `second` derivative, for many calls."""


class ClosedFormLikelihood:
    """A likelihood of the core, with one observation for each latent value."""

    terms = None

    def __init__(self, closed_form: ClosedForm, observations: Observations) -> None:
        self._closed_form = closed_form
        self._observations = observations

    def __call__(self, theta: np.ndarray) -> Likelihood:
        """Return p(y|f, theta)."""
        return self._closed_form(theta)

    def refresh_data(self, probes: Probes) -> None:
        """Read the observations again."""
        self._observations.require_length(probes.sites)
        self._closed_form.refresh(probes.theta)

    def refuse_impossible(self, probes: Probes) -> None:
        """Do nothing: a closed form has checked its observations."""

    def require_factorizing(self) -> None:
        """Do nothing: closed forms factorize."""

    def compile_derivatives(self, second: bool, theta: np.ndarray, f: np.ndarray) -> None:
        """Do nothing: there is nothing to compile."""


class GraphLikelihood:
    """A likelihood that is given by its graph.

    `latent` is the vector on which it depends: f, or linear predictors. Graphs are compared near some `values` of that.
    `divided` says whether algorithms need the terms of some latent values without the others.
    """

    def __init__(
        self,
        joint: JointTerms,
        latent: LatentVector | PredictorValues | CoupledPredictors,
        theta: ThetaVector,
        observations: Observations,
        values: np.ndarray,
        divided: bool = False,
    ) -> None:
        at = values + np.linspace(-0.5, 0.5, values.size), theta.initial
        names = [variable.name for variable in joint.variables]
        terms = latent.write(joint.likelihood)
        self.functions = compile_likelihood(names, terms, latent.vector, theta, at, latent.number)
        self._several, self._divided = latent.several, divided
        self._observations = observations

    @property
    def terms(self) -> LikelihoodTerms:
        """The terms, each with the latent value to which it belongs."""
        return self.functions.terms

    def __call__(self, theta: np.ndarray) -> Likelihood:
        """Return p(y|f, theta)."""
        divided = self._divided and self.terms.separate
        if self._several:
            return (DivisibleBlockLikelihood if divided else PyTensorBlockLikelihood)(self.functions, theta)
        return (DivisibleLikelihood if divided else PyTensorLikelihood)(self.functions, theta)

    def refresh_data(self, probes: Probes) -> None:
        """Read the data again; find whether the likelihood factorizes, and to which latent value a term belongs."""
        self.functions.refresh_data()
        points = list(probes)
        theta, f, _ = points[0]
        for name, values in self.terms.by_name(f[None, :], theta).items():
            self._observations.refuse_shape(name, values.shape[1:], probes.sites)
        self.terms.locate(points)
        if self._divided:
            self.terms.find_divisible(points)

    @property
    def _coupling(self) -> str | None:
        """Why the likelihood does not factorize over f, or None if it does."""
        if self.terms.separate:
            return None
        if self._several:
            return "some of its terms depend on values of the latent vectors that have different indices"
        if self.terms.additive is None:
            return "some of its terms depend on several latent values, and have been zero or not a number so far"
        return None if self.terms.additive else "its logarithm is not a sum over latent values"

    def refuse_impossible(self, probes: Probes) -> None:
        """Refuse observations whose likelihood is zero or not a number at all probes."""
        refuse_impossible(self.terms, self._observations, probes)

    def require_factorizing(self) -> None:
        """Refuse a likelihood that does not factorize over f, or that may not."""
        if self._coupling is not None:
            raise NotFactorizingError(
                f"the likelihood does not factorize over {self._observations.latent_name!r}: {self._coupling}; "
                f"each observation must depend on one latent value{' of each vector' if self._several else ''}"
            )

    def compile_derivatives(self, second: bool, theta: np.ndarray, f: np.ndarray) -> None:
        """Compile the gradient in f, or gradient and `second` derivative, including Numba's work at the first call."""
        function = self.functions.derivatives if second else self.functions.gradient
        function.compile()
        function(f, theta)


class SummedLikelihood:
    """A likelihood of linear predictors, which `inner` takes, as a function of the latent pieces and their sums."""

    def __init__(self, inner: GraphLikelihood, latent: LatentPieces) -> None:
        self._inner, self._latent = inner, latent

    @property
    def terms(self) -> LikelihoodTerms:
        """The terms, each with the predictor to which it belongs."""
        return self._inner.terms

    def __call__(self, theta: np.ndarray) -> Likelihood:
        """Return p(y|f, theta)."""
        coupled = self._latent.coupled
        if coupled is None:
            return SharingLikelihood(self._inner(theta), self._latent.shared)
        return CoupledLikelihood(RepeatedSites(self._inner(theta), coupled.shared), coupled.design)

    def _of_predictors(self, probes: Probes) -> Probes:
        """Return probes of the predictors in place of f."""
        found = self._latent.predictors
        mean, variance = found.of(probes.mean), found.variances(probes.variance)
        return replace(probes, number=found.number, mean=mean, variance=variance)

    def refresh_data(self, probes: Probes) -> None:
        """Read the data again."""
        self._inner.refresh_data(self._of_predictors(probes))

    def refuse_impossible(self, probes: Probes) -> None:
        """Refuse observations whose likelihood is zero or not a number at all probes."""
        self._inner.refuse_impossible(self._of_predictors(probes))

    def require_factorizing(self) -> None:
        """Refuse a likelihood that does not factorize over the predictors."""
        self._latent.require_factorizing(self._inner.terms.separate)

    def compile_derivatives(self, second: bool, theta: np.ndarray, f: np.ndarray) -> None:
        """Compile the gradient in f, or gradient and `second` derivative, including Numba's work at the first call."""
        self._inner.compile_derivatives(second, theta, self._latent.predictors.of(f))


def naming_gradients_in_f(latent: str) -> AbstractContextManager[None]:
    """Raise an error that names an operation in a likelihood's graph without a gradient in f, with advice."""
    return naming_missing_gradients(repr(latent), "write it with PyTensor's own, or give it a gradient")
