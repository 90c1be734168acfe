"""Run by GPflow's interpreter: a variational process at the maximum over its hyper-parameters, by L-BFGS.

It imports nothing of this project. Called by :mod:`case_studies.tools.gpflow_process`.
"""

from __future__ import annotations

import sys
import time

import gpflow
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

LIKELIHOODS = {
    "probit": gpflow.likelihoods.Bernoulli,
    "logit": lambda: gpflow.likelihoods.Bernoulli(invlink=tf.math.sigmoid),
    "counts": gpflow.likelihoods.Poisson,
    "heavy tails": lambda: gpflow.likelihoods.StudentT(df=4.0),
}
ITERATIONS = 2000


def main(source: str, target: str) -> None:
    """Fit the process of one file, and write its hyper-parameters and the moments of f into another."""
    with np.load(source) as file:
        given = dict(file)
    number = gpflow.utilities.to_default_float
    family = gpflow.kernels.Exponential if given["series"] else gpflow.kernels.Matern32
    kernel, likelihood = family(), LIKELIHOODS[str(given["kind"])]()
    found = {"lengthscale": kernel.lengthscales, "variance": kernel.variance}
    if "prior_noise" in given:
        found["noise"] = likelihood.scale
    for name, parameter in found.items():
        mean, deviation = given[f"prior_{name}"]
        parameter.assign(np.exp(mean))
        parameter.prior = tfp.distributions.LogNormal(number(mean), number(deviation))
    constant = gpflow.mean_functions.Constant(float(given["mean"]))
    gpflow.set_trainable(constant, False)
    data = given["X"], given["y"][:, None]
    process = gpflow.models.VGP(data, kernel, likelihood, mean_function=constant)
    closure = process.training_loss_closure(compile=True)
    closure()  # what is compiled is not counted
    clock = time.process_time()
    done = gpflow.optimizers.Scipy().minimize(closure, process.trainable_variables, options={"maxiter": ITERATIONS})
    seconds = time.process_time() - clock
    mean, variance = (np.ravel(moment) for moment in process.predict_f(given["X"]))
    values = {name: float(parameter.numpy()) for name, parameter in found.items()}
    np.savez(target, f_mean=mean, f_var=variance, seconds=seconds, success=done.success, **values)


if __name__ == "__main__":
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    main(*sys.argv[1:])
