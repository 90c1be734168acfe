"""The common parts of the public step methods' signatures and docstrings.

A step method declares its own arguments and takes the common ones as ``**others: Unpack[Arguments]``. In its docstring,
``$name`` at the beginning of a line stands for the text of that name here. :func:`public_step` inserts both, so that
`help` shows everything.
"""

from __future__ import annotations

import inspect
from string import Template

from pmgp.interface.steps.base import Arguments, GaussianProcessStep

ARGUMENTS = """\
model, rng, initial_point, compile_kwargs, blocked
    As in every PyMC step method.
"""
ERRORS = """
Raises
------
ModelError
    If the model has no latent multivariate normal variable (build the process with
    ``gp.prior(..., reparameterize=False)``), {or_if},
    or the likelihood does not factorize over f where the step method needs that.
ValueError
    For settings out of range.
"""
STATISTICS = """
Notes
-----
Sample statistics: ``tune``, ``accepted``, ``acceptance_rate``, {more}``n_evaluations``
(of the {of}), ``n_cholesky``, ``n_inverse``, ``n_matmul`` (O(n^3) operations of the
iteration).

References
----------"""
OF_F = f"""\
latent : variable or str, optional
    The latent vector, in place of `vars`.
{ARGUMENTS}{ERRORS.format(or_if="or several, none of which is chosen")}"""
OF_THETA = f"""\
latent : variable or str, optional
    The multivariate normal variable that is f, if the model has several.
{ARGUMENTS}{ERRORS.format(or_if="it has no hyper-parameters, or `vars` lacks some of them")}"""

TEXTS = {
    "vars_of_f": """\
vars : list of one variable, optional
    The latent vector f.""",
    "vars_but_f": """\
vars : list of variables, optional
    All free variables except f, which is also the default.""",
    "operator": """\
operator : "metropolis", "mixture", "hmc", "smmala", "hmc-identity", "rmhmc" or AdaptiveTransition
    The transition of theta: a random walk with the covariance of the tuning draws ("metropolis"), a mixture of this
    walk and independent proposals ("mixture"), hybrid Monte Carlo scaled with that covariance ("hmc"), Langevin
    proposals with a metric ("smmala"), or your own. For comparison, there are hybrid Monte Carlo without scaling
    ("hmc-identity") and with the metric ("rmhmc"), whose steps are expensive.""",
    "target_of_operator": """\
target_acceptance : float, optional
    Acceptance rate to which the step size is tuned. The default is 0.25 for random walks, including the one in
    "mixture", 0.65 for hybrid Monte Carlo and 0.57 for "smmala".
max_leapfrog : int
    Largest number of leapfrog steps of hybrid Monte Carlo.""",
    "target_of_walk": """\
target_acceptance : float, optional
    Acceptance rate to which the random walk is tuned, between 0 and 1; 0.25 by default.""",
    "target_of_step": """\
target_acceptance : float
    Acceptance rate to which the step size is tuned, between 0 and 1.""",
    "arguments": ARGUMENTS.rstrip(),
    "rest_but_notes_of_f": OF_F.rstrip(),
    "rest_of_f_and_references": OF_F + STATISTICS.format(more="``step_size``, ", of="likelihood or its gradient"),
    "rest_of_theta_and_references": OF_THETA + STATISTICS.format(more="", of="density or its gradient"),
    "comparative_evaluation": """\
Filippone, M., Zhong, M. and Girolami, M. (2013). A comparative evaluation of stochastic-based inference methods
for Gaussian process models. Machine Learning 93,""",
}
"""Texts by the names that stand for them. A rest begins with the last arguments and ends before the references."""


def public_step[Step: type[GaussianProcessStep]](step: Step) -> Step:
    """Complete the docstring of a step method and the signature of its constructor, and return the class."""
    # There are no docstrings under `python -OO`.
    if step.__doc__ is not None:
        step.__doc__ = Template(inspect.cleandoc(step.__doc__)).substitute(TEXTS)
    constructor = vars(step).get("__init__")
    if constructor is not None:
        constructor.__signature__ = _with_step_arguments(inspect.signature(constructor))
    return step


def _with_step_arguments(own: inspect.Signature) -> inspect.Signature:
    """Return a signature with the arguments of every step method in place of ``**others``."""
    common = inspect.signature(GaussianProcessStep.__init__).parameters
    named = [parameter for parameter in own.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
    more = [common[name] for name in common if name in Arguments.__annotations__ and name not in own.parameters]
    return own.replace(parameters=[*named, *more])
