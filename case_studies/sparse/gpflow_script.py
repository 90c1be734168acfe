"""Run by GPflow's interpreter: the bound's maximum by L-BFGS, then log predictive densities, printed as JSON."""

from __future__ import annotations

import json
import sys
import time

import gpflow
import numpy as np
import tensorflow_probability as tfp


def _gamma(shape_and_rate: np.ndarray) -> tfp.distributions.Gamma:
    return tfp.distributions.Gamma(*shape_and_rate.astype(float))


def main(path: str) -> None:
    """Fit the process of a file, and print what it says of the held-out labels."""
    with np.load(path) as file:
        given = dict(file)
    kernel = gpflow.kernels.SquaredExponential(lengthscales=float(given["start"]))
    kernel.lengthscales.prior, kernel.variance.prior = _gamma(given["lengthscale"]), _gamma(given["variance"])
    process = gpflow.models.SVGP(kernel, gpflow.likelihoods.Bernoulli(), given["Z"], whiten=True)
    gpflow.set_trainable(process.inducing_variable, False)
    seen = given["X"], given["y"][:, None].astype(float)
    clock = time.process_time()
    loss = process.training_loss_closure(seen, compile=True)
    gpflow.optimizers.Scipy().minimize(loss, process.trainable_variables, options={"maxiter": 5000})
    seconds = time.process_time() - clock
    density = process.predict_log_density((given["X_new"], given["y_new"][:, None].astype(float)))
    print(json.dumps({"log_density": np.ravel(density).tolist(), "seconds": seconds}))


if __name__ == "__main__":
    main(sys.argv[1])
