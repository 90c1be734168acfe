"""Common parts of the signatures and docstrings of the public step methods, written once.

A step method declares its own arguments and takes those of all as ``**others: Unpack[Arguments]``. In its docstring,
``$name`` at the beginning of a line stands for the text of that name here. :func:`public_step` puts in both, so that
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
    or the likelihood does not factorize over f where that is needed.
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
{ARGUMENTS}{ERRORS.format(or_if="or several and it is not said which")}"""
OF_THETA = f"""\
latent : variable or str, optional
    Which multivariate normal variable is f, if the model has several.
{ARGUMENTS}{ERRORS.format(or_if="no hyper-parameters, or not all of them are given")}"""

TEXTS = {
    "vars_of_f": """\
vars : list of one variable, optional
    The latent vector f.""",
    "vars_but_f": """\
vars : list of variables, optional
    Must be all free variables but f, the default.""",
    "operator": """\
operator : "metropolis", "mixture", "hmc", "smmala", "hmc-identity", "rmhmc" or AdaptiveTransition
    How theta moves: a random walk with the covariance of the tuning draws, the same mixed with independent proposals,
    hybrid Monte Carlo scaled by it, Langevin proposals with a metric, or a transition of your own. For comparison,
    hybrid Monte Carlo that is not scaled ("hmc-identity"), or with the metric ("rmhmc"), whose steps are expensive.""",
    "target_of_operator": """\
target_acceptance : float, optional
    Rate that the step size is tuned to, by default 0.25, that of the random walk in "mixture" too; 0.65 for those of
    hybrid Monte Carlo, 0.57 for "smmala".
max_leapfrog : int
    Largest number of leapfrog steps of hybrid Monte Carlo.""",
    "target_of_walk": """\
target_acceptance : float
    Rate that the random walk is tuned to, between 0 and 1.""",
    "target_of_step": """\
target_acceptance : float
    Rate that the step size is tuned to, between 0 and 1.""",
    "arguments": ARGUMENTS.rstrip(),
    "rest_but_notes_of_f": OF_F.rstrip(),
    "rest_of_f_and_references": OF_F + STATISTICS.format(more="``step_size``, ", of="likelihood or its gradient"),
    "rest_of_theta_and_references": OF_THETA + STATISTICS.format(more="", of="density or its gradient"),
    "comparative_evaluation": """\
Filippone, M., Zhong, M. and Girolami, M. (2013). A comparative evaluation of stochastic-based inference methods
for Gaussian process models. Machine Learning 93,""",
}
"""By the name that stands for them; a rest begins with the arguments that come last, and leads to the references."""


def public_step[Step: type[GaussianProcessStep]](step: Step) -> Step:
    """Complete the docstring of a step method, and the signature of its constructor."""
    # There are no docstrings under `python -OO`.
    if step.__doc__ is not None:
        step.__doc__ = Template(inspect.cleandoc(step.__doc__)).substitute(TEXTS)
    constructor = vars(step).get("__init__")
    if constructor is not None:
        constructor.__signature__ = _with_step_arguments(inspect.signature(constructor))
    return step


def _with_step_arguments(own: inspect.Signature) -> inspect.Signature:
    """The arguments that every step method takes, in place of ``**others``."""
    common = inspect.signature(GaussianProcessStep.__init__).parameters
    named = [parameter for parameter in own.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
    more = [common[name] for name in common if name in Arguments.__annotations__ and name not in own.parameters]
    return own.replace(parameters=[*named, *more])
