"""MNIST by HMC with gradients on a device of JAX: ``python -m case_studies.sparse.mnist_jax``.

The problem of the article's section 4.4 with all 60,000 digits and 500 inducing inputs, if JAX finds an accelerator; on
a CPU a small part of it. The chain starts at a mode that L-BFGS finds with the same gradients.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
from scipy.optimize import minimize

import pmgp
from case_studies.sparse import data, held_out
from case_studies.sparse.problems import inducing_inputs, problem, sparse, typical_lengthscale
from case_studies.tools.stream import stream
from pmgp.interface.dense_jax.devices import device_of

__all__ = ["ON_ACCELERATOR", "ON_CPU", "Size", "mode", "run"]

SEED = 2015


class Size(NamedTuple):
    """Digits that are seen and held out, inducing inputs and their kernel, steps of L-BFGS, and those of the chain."""

    seen: int
    held_out: int
    inducing: int
    kernel: str
    ascent: int
    tune: int
    draws: int


ON_ACCELERATOR = Size(60_000, 10_000, 500, "ARD", 200, 300, 1000)
ON_CPU = Size(1000, 1000, 50, "isotropic", 60, 60, 120)
KEPT = 100
"""Draws that predictions average."""


def run(size: Size, device: str | None = None) -> dict[str, Any]:
    """Sample, and return seconds of each part, the time of a gradient, and the score of held-out digits.

    Raises MemoryError before the work begins if the device has too little.
    """
    seconds: dict[str, float] = {}
    digits = data.load("mnist", 0, SEED, size.seen, size.held_out)
    digits_problem, rng = problem("mnist", digits), stream(SEED, "mnist by JAX")
    with _timed(seconds, "inducing inputs"):
        Z = inducing_inputs(rng, digits, "kmeans", size.inducing)
    model, process = sparse(digits_problem, size.kernel, Z)
    with _timed(seconds, "compilation"), model:
        step = pmgp.steps.SparseHMC(backend=pmgp.steps.JaxMatrices(device))
    with _timed(seconds, "mode"):
        start, evaluations = mode(step, model, typical_lengthscale(digits), size.ascent)
    with _timed(seconds, "chain"), model:
        idata = pm.sample(
            size.draws, tune=size.tune, chains=1, cores=1, step=step, initvals=start, random_seed=SEED, quiet=True,
            compute_convergence_checks=False, discard_tuned_samples=False,
        )  # fmt: skip
    made = sum(int(idata[part]["n_evaluations"].sum()) for part in ("sample_stats", "warmup_sample_stats"))
    with _timed(seconds, "predictions"):
        found = held_out.summary(held_out.prediction(process, model, idata, digits, KEPT), digits)
    rates = {"per gradient": (seconds["mode"] + seconds["chain"]) / (made + evaluations)}
    return found | {f"seconds {name}": value for name, value in (seconds | rates).items()}


def mode(step: Any, model: pm.Model, lengthscale: float, steps: int) -> tuple[dict[str, np.ndarray], int]:
    """Return values of all variables after a number of steps of L-BFGS, and the number of gradients that these took."""
    point = model.initial_point()
    point |= {"lengthscale_log__": np.full_like(point["lengthscale_log__"], np.log(lengthscale))}
    where = step._vector(point)

    def downhill(vector: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = step.function(vector)
        return -float(value), -slope

    found = minimize(downhill, where, jac=True, method="L-BFGS-B", options={"maxiter": steps, "maxcor": 20})
    values = step._named(found.x)
    back = {"lengthscale": np.exp(values["lengthscale_log__"]), "variance": np.exp(values["variance_log__"])}
    return back | {"f_rotated_": values["f_rotated_"]}, found.nfev


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    clock = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - clock
    print(f"{name}: {seconds[name]:.1f} seconds", flush=True)


def main(words: list[str] | None = None) -> None:
    """Run what the command line asks for, and print it."""
    line = ArgumentParser("python -m case_studies.sparse.mnist_jax", description=__doc__)
    line.add_argument("--device", help="such as gpu:1; by default the one that JAX chooses")
    for name in ("seen", "held_out", "inducing", "ascent", "tune", "draws"):
        line.add_argument(f"--{name.replace('_', '-')}", type=int, help=_defaults(name))
    line.add_argument("--kernel", choices=("isotropic", "ARD"), help=_defaults("kernel"))
    given = vars(line.parse_args(words))
    if not data.available("mnist"):
        line.error(f"PMGP_DATA names no folder with {data.FILES['mnist']}")
    device = device_of(given["device"])
    size = ON_CPU if device.platform == "cpu" else ON_ACCELERATOR
    size = size._replace(**{name: given[name] for name in Size._fields if given[name] is not None})
    print(f"{device.device_kind}: {size}", flush=True)
    for name, value in run(size, given["device"]).items():
        print(f"{name:24s} {value:10.4g}", flush=True)


def _defaults(name: str) -> str:
    """Return the defaults of an argument in words."""
    return f"{getattr(ON_ACCELERATOR, name)}, or {getattr(ON_CPU, name)} on a CPU"


if __name__ == "__main__":
    main()
