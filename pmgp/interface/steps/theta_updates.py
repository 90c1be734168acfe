"""The schemes that update theta beside f as PyMC step methods, to be combined with a step method for f."""

from __future__ import annotations

from dataclasses import field, replace
from typing import Any, ClassVar, Unpack

import numpy as np
import pymc as pm
from pymc.step_methods.compound import StepMethodState
from pymc.step_methods.state import dataclass_state

from pmgp.core import approximations
from pmgp.core.approximations import Approximation
from pmgp.core.gaussians.dense import INDEFINITE
from pmgp.core.numerics.linalg import NotPositiveDefiniteError
from pmgp.core.registry import resolve
from pmgp.core.theta_updates import schemes
from pmgp.core.theta_updates.densities import JointState, LatentPart
from pmgp.core.transitions.base import AdaptiveTransition
from pmgp.interface.model.conjugacy import find_conjugate_variance
from pmgp.interface.model.derivatives import DifferentiableLatentModel
from pmgp.interface.steps.base import ACCEPTANCE, COUNTS, EVALUATIONS, Arguments, GaussianProcessStep
from pmgp.interface.steps.progress import ThetaProgress
from pmgp.interface.steps.public import public_step
from pmgp.interface.steps.starts import refusing_start
from pmgp.interface.steps.transitions import chosen_operator
from pmgp.interface.steps.validation import check_hyperparameters


@dataclass_state
class ThetaState(StepMethodState):
    """Everything that changes while a chain runs."""

    tune: bool
    adaptations: tuple[Any, ...]
    theta_names: list[str] = field(metadata={"frozen": True})


class _ThetaStep(ThetaProgress, GaussianProcessStep):
    """A scheme of the core, moved by PyMC."""

    _state_class = ThetaState
    stats_dtypes_shapes: ClassVar = ACCEPTANCE | EVALUATIONS | COUNTS
    _current: JointState | None

    def __init__(self, vars: Any, scheme: schemes.Scheme, factorizing: bool = False, **others: Any) -> None:
        gradient, metric = scheme.operator.derivatives > 0, scheme.operator.derivatives > 1
        super().__init__(vars, factorizing=factorizing or metric, gradient=gradient, **others)
        self.model = DifferentiableLatentModel(self.latent_model, gradient=gradient, metric=metric)
        self.scheme = scheme
        self._reset(0, 0)

    def _own_variables(self, vars: list[Any] | None, model: pm.Model) -> list[Any]:
        return check_hyperparameters(vars, model, self.latent_model, type(self).__name__)

    def _reset(self, n_tune: int, n_draws: int) -> None:
        super()._reset(n_tune, n_draws)
        self.adaptations = self.scheme.start(self.latent_model.dimension, n_tune)

    def _update(self, point: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        outcome = self.scheme.step(self.rng, self._synchronized(point), self.model, self.adaptations, self.tune)
        self._current, self.adaptations = outcome.current, outcome.adaptations
        theta, together = outcome.current
        self.shared_model.remember(theta, together.prior)
        moved = self.latent_model.unravel(theta) | self.latent_model.unravel_latent(together.f, theta)
        return moved, self._statistics(*outcome.infos)

    def _synchronized(self, point: dict[str, np.ndarray]) -> JointState:
        """Return the chain's state, computed again only if another step method has moved theta."""
        theta, f = self.latent_model.ravel(point), self.latent_model.ravel_latent(point)
        if self._current is not None and np.array_equal(theta, self._current.theta):
            return self._current._replace(latent=self._current.latent._replace(f=f))
        current = JointState(theta, LatentPart(self.shared_model.prior(theta), f))
        if self._current is None:
            with refusing_start(self.latent_model, point):
                self._check_start(current)
        return current

    def _check_start(self, current: JointState) -> None:
        if current.latent.prior.factorized() is None:
            raise NotPositiveDefiniteError(INDEFINITE)
        if not np.isfinite(self.model.log_prior(current.theta)):
            raise FloatingPointError("the prior density of the hyper-parameters is not finite there")
        if not np.isfinite(self.model.likelihood(current.theta).log_likelihood(current.latent.f)):
            raise FloatingPointError("the log-likelihood is not finite there")


@public_step
class Ancillary(_ThetaStep):
    """Update the hyper-parameters given the whitened latent values (ancillary augmentation, AA).

    Theta moves under p(theta|nu, y) with nu = L^-1 (f - m) fixed, and f = m + L nu moves with it. The scheme mixes well
    where the data say little about f. Combine it with a step method for f.

    Parameters
    ----------
    $vars_but_f
    $operator
    $target_of_operator
    $rest_of_theta_and_references
    $comparative_evaluation section 2.1.

    Examples
    --------
    >>> import numpy as np, pmgp, pymc as pm
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> model = pmgp.models.classifier(X, X[:, 0] > 0.5)
    >>> with model:
    ...     step = [pmgp.steps.Ancillary(), pmgp.steps.LatentHMC()]
    ...     idata = pm.sample(20, step=step, tune=20, chains=1, cores=1, random_seed=1, progressbar=False)
    """

    name = "ancillary"

    def __init__(
        self,
        vars: list[Any] | None = None,
        *,
        operator: AdaptiveTransition | str = "metropolis",
        target_acceptance: float | None = None,
        max_leapfrog: int = 10,
        **others: Unpack[Arguments],
    ) -> None:
        scheme = schemes.AncillaryScheme(chosen_operator(operator, target_acceptance, max_leapfrog))
        super().__init__(vars, scheme, **others)


@public_step
class Sufficient(_ThetaStep):
    """Update the hyper-parameters given the latent values (sufficient augmentation, SA).

    Theta moves under p(theta|f, y), and f does not move. The scheme is slow where theta and f are strongly coupled, as
    they usually are. Combine it with a step method for f.

    Parameters
    ----------
    $vars_but_f
    $operator
    conjugate_variance : bool
        Also draw a variance to which K is proportional from its full conditional, if its prior is inverse-gamma.
        This needs ``gp.prior(..., jitter=0)``; see :func:`pmgp.interface.model.conjugacy.find_conjugate_variance`.
    $target_of_operator
    $rest_of_theta_and_references
    $comparative_evaluation section 2.1.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> with pmgp.models.classifier(X, X[:, 0] > 0.5):
    ...     methods = [pmgp.steps.Sufficient(), pmgp.EllipticalSlice()]
    """

    name = "sufficient"
    _scheme: ClassVar[type[schemes.SufficientScheme]] = schemes.SufficientScheme

    def __init__(
        self,
        vars: list[Any] | None = None,
        *,
        operator: AdaptiveTransition | str = "metropolis",
        conjugate_variance: bool = True,
        target_acceptance: float | None = None,
        max_leapfrog: int = 10,
        **others: Unpack[Arguments],
    ) -> None:
        scheme = self._scheme(chosen_operator(operator, target_acceptance, max_leapfrog))
        super().__init__(vars, scheme, **others)
        if conjugate_variance:
            variance = find_conjugate_variance(pm.modelcontext(others.get("model")), self.latent_model)
            self.scheme = replace(scheme, variance=variance)


@public_step
class Interweaving(Sufficient):
    """Update the hyper-parameters given f, then given the whitened f (ASIS, interweaving of SA and AA).

    The whitened values are computed from f and the theta that the first update left (Yu and Meng 2011). Acceptance
    statistics are means over the two updates. Combine it with a step method for f.

    Parameters
    ----------
    $vars_but_f
    $operator
        Each of the two updates has its own step size.
    conjugate_variance : bool
        As in :class:`Sufficient`, in the first update.
    $target_of_operator
    $rest_of_theta_and_references
    Yu, Y. and Meng, X.-L. (2011). To center or not to center: that is not the question. JCGS 20.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> with pmgp.models.classifier(X, X[:, 0] > 0.5):
    ...     methods = [pmgp.steps.Interweaving(), pmgp.steps.LatentHMC(mass="prior")]
    """

    name = "interweaving"
    _scheme: ClassVar[type[schemes.SufficientScheme]] = schemes.InterweavingScheme


@public_step
class Surrogate(_ThetaStep):
    """Update the hyper-parameters given surrogate data (SURR).

    A noisy copy g of f is drawn, and theta moves with g and the whitened residual of f given g fixed; f moves with
    theta as far as g and the prior let it. The noise matches the information of each observation about its latent
    value, so the likelihood must factorize over f. Combine it with a step method for f.

    Parameters
    ----------
    $vars_but_f
    $target_of_walk
    $rest_of_theta_and_references
    Murray, I. and Adams, R. P. (2010). Slice sampling covariance hyperparameters of latent Gaussian models. NIPS 23.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> with pmgp.models.classifier(X, X[:, 0] > 0.5):
    ...     methods = [pmgp.steps.Surrogate(), pmgp.steps.LatentHMC(mass="prior")]
    """

    name = "surrogate"

    def __init__(
        self, vars: list[Any] | None = None, *, target_acceptance: float | None = None, **others: Unpack[Arguments]
    ) -> None:
        scheme = schemes.SurrogateScheme(chosen_operator("metropolis", target_acceptance))
        super().__init__(vars, scheme, factorizing=True, **others)


@public_step
class JointUpdate(_ThetaStep):
    """Propose the hyper-parameters and the latent values together (KHR).

    Theta' comes from a random walk, f' from an approximation of p(f|y, theta'), and both are accepted or rejected
    together. The step method can be used alone, but mixes better beside a step method for f. The likelihood must
    factorize over f.

    Parameters
    ----------
    $vars_but_f
    approximation : Laplace, ExpectationPropagation, "laplace" or "ep"
        The Gaussian from which f' is drawn.
    $target_of_walk
    $rest_of_theta_and_references
    Knorr-Held, L. and Rue, H. (2002). On block updating in Markov random field models for disease mapping.
    Scandinavian Journal of Statistics 29.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> with pmgp.models.classifier(X, X[:, 0] > 0.5):
    ...     methods = [pmgp.steps.JointUpdate(approximation="ep"), pmgp.EllipticalSlice()]
    """

    name = "joint_update"

    def __init__(
        self,
        vars: list[Any] | None = None,
        *,
        approximation: Approximation | str = "laplace",
        target_acceptance: float | None = None,
        **others: Unpack[Arguments],
    ) -> None:
        self.approximation = resolve(approximation, approximations.NAMES, Approximation, "approximation")
        scheme = schemes.JointScheme(chosen_operator("metropolis", target_acceptance), self.approximation)
        super().__init__(vars, scheme, factorizing=True, **others)
