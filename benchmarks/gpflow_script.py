"""GPflow's GPMC on one problem; runs in an environment of its own, and imports nothing of this project.

Called by :mod:`benchmarks.gpflow_process` with the names of two files: the problem, and where draws go.
"""

from __future__ import annotations

import sys
from time import process_time

import gpflow
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

# As in GPflow's own example of GPMC.
LEAPFROG, FIRST_STEP, ACCEPTANCE, RATE, ADAPTED = 10, 0.01, 0.75, 0.1, 0.8


def model_of(given: np.lib.npyio.NpzFile, rng: np.random.Generator) -> gpflow.models.GPMC:
    """The model, at a start of its own within one unit of the priors' means on the log-scale."""
    X, y = given["X"], given["y"].astype(float)[:, None]
    d = X.shape[1]
    ard = str(given["kernel"]) == "ard"
    lengthscales = np.sqrt(d) * np.exp(rng.uniform(-1.0, 1.0, d if ard else ()))
    kernel = gpflow.kernels.SquaredExponential(11.0 * np.exp(rng.uniform(-1.0, 1.0)), lengthscales)
    distributions, number = tfp.distributions, gpflow.utilities.to_default_float
    kernel.lengthscales.prior = distributions.Gamma(number(1.0), number(1.0 / np.sqrt(d)))
    kernel.variance.prior = distributions.Gamma(number(1.1), number(0.1))
    counts = str(given["likelihood"]) == "poisson"
    likelihood = gpflow.likelihoods.Poisson() if counts else gpflow.likelihoods.Bernoulli()
    return gpflow.models.GPMC((X, y), kernel, likelihood)


def chain(model: gpflow.models.GPMC, tune: int, draws: int) -> tuple[float, np.ndarray, np.ndarray]:
    """Processor seconds without tracing, draws of the length-scales and of the variance."""
    helper = gpflow.optimizers.SamplingHelper(model.log_posterior_density, model.trainable_parameters)
    trajectories = tfp.mcmc.HamiltonianMonteCarlo(helper.target_log_prob_fn, FIRST_STEP, LEAPFROG)
    kernel = tfp.mcmc.SimpleStepSizeAdaptation(
        trajectories,
        num_adaptation_steps=int(ADAPTED * tune),
        target_accept_prob=gpflow.utilities.to_default_float(ACCEPTANCE),
        adaptation_rate=RATE,
    )

    @tf.function
    def sampled() -> list[tf.Tensor]:
        return tfp.mcmc.sample_chain(
            num_results=draws,
            num_burnin_steps=tune,
            current_state=helper.current_state,
            kernel=kernel,
            trace_fn=None,
        )

    traced = sampled.get_concrete_function()
    begin = process_time()
    states = traced()
    seconds = process_time() - begin
    values = helper.convert_to_constrained_values(states)
    places = [id(parameter) for parameter in model.trainable_parameters]
    wanted = (model.kernel.lengthscales, model.kernel.variance)
    lengthscale, variance = (np.asarray(values[places.index(id(parameter))]) for parameter in wanted)
    return seconds, lengthscale, variance


def main() -> None:
    """Sample all chains."""
    source, target = sys.argv[1:]
    given = np.load(source)
    seed, total, lengthscales, variances = int(given["seed"]), 0.0, [], []
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    for index in range(int(given["chains"])):
        tf.random.set_seed(1000 * seed + index)
        model = model_of(given, np.random.default_rng((seed, index)))
        seconds, lengthscale, variance = chain(model, int(given["tune"]), int(given["draws"]))
        total += seconds
        lengthscales.append(lengthscale)
        variances.append(variance)
    np.savez(target, seconds=total, lengthscale=np.stack(lengthscales), variance=np.stack(variances))


if __name__ == "__main__":
    main()
