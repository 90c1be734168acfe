"""GPflow's variational process with a softmax: run by GPflow's interpreter, and imports nothing of this project.

Called with the names of two files: training part and new inputs, and where probabilities go. Inducing inputs are those
of the training part, so that q is any normal distribution with the classes independent. The expectations that GPflow
takes with fresh draws in every step are taken at fixed points here, so that L-BFGS can find the optimum.
"""

from __future__ import annotations

import sys
import time

import gpflow
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from scipy.stats import norm, qmc

POINTS, ITERATIONS = 128, 2000


class FixedSoftmax(gpflow.likelihoods.Softmax):
    """The softmax with expectations at the points of a Sobol sequence and their mirror images."""

    def __init__(self, classes: int) -> None:
        super().__init__(classes)
        half = norm.ppf(qmc.Sobol(classes, seed=0).random(POINTS // 2))
        self.normals = tf.constant(np.concatenate([half, -half])[:, None, :])

    def _variational_expectations(
        self, X: tf.Tensor, Fmu: tf.Tensor, Fvar: tf.Tensor, Y: tf.Tensor, epsilon: tf.Tensor = None
    ) -> tf.Tensor:
        values = Fmu + tf.sqrt(Fvar) * self.normals
        labels = tf.broadcast_to(tf.cast(Y[:, 0], tf.int32), tf.shape(values)[:2])
        entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=values, labels=labels)
        return -tf.reduce_mean(entropy, axis=0)


def fitted(X: np.ndarray, y: np.ndarray, classes: int) -> gpflow.models.SVGP:
    """The maximum of the bound plus the log priors of `pmgp.models.classifier`."""
    d = X.shape[1]
    kernel = gpflow.kernels.SquaredExponential(lengthscales=np.sqrt(d), variance=10.0)
    number = gpflow.utilities.to_default_float
    kernel.lengthscales.prior = tfp.distributions.Gamma(number(1.0), number(1.0 / np.sqrt(d)))
    kernel.variance.prior = tfp.distributions.Gamma(number(1.1), number(0.1))
    model = gpflow.models.SVGP(kernel, FixedSoftmax(classes), X.copy(), num_latent_gps=classes, whiten=True)
    gpflow.set_trainable(model.inducing_variable, False)
    loss = model.training_loss_closure((X, y[:, None].astype(float)), compile=True)
    gpflow.optimizers.Scipy().minimize(loss, model.trainable_variables, options={"maxiter": ITERATIONS})
    return model


def main() -> None:
    """Fit, and average the softmax over draws of f at the new inputs."""
    source, target = sys.argv[1:]
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    given = np.load(source)
    begin = time.process_time()
    model = fitted(given["X"], given["y"], int(given["classes"]))
    mean, variance = (part.numpy() for part in model.predict_f(given["new"]))
    normals = np.random.default_rng(int(given["seed"])).standard_normal((int(given["draws"]), *mean.shape))
    probabilities = tf.nn.softmax(mean + np.sqrt(variance) * normals).numpy().mean(axis=0)
    kernel = {name: float(getattr(model.kernel, name).numpy()) for name in ("lengthscales", "variance")}
    np.savez(target, probabilities=probabilities, seconds=time.process_time() - begin, **kernel)


if __name__ == "__main__":
    main()
