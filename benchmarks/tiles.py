"""Products with K that is never stored: JAX's tiles over NumPy's blocks, and two devices over one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from threadpoolctl import threadpool_limits

from pmgp.interface.covariance.tiled import TiledCovariance
from pmgp.interface.graphs.compilation import Compiler

__all__ = ["device_rows", "products", "rows", "seconds_of"]

POINTS, DIMENSION = 10_000, 8
COLUMNS = (1, 8, 32)
KERNELS = {"squared exponential": pm.gp.cov.ExpQuad, "Matern 5/2": pm.gp.cov.Matern52}
ROUNDS = 5


def rows() -> Iterator[dict[str, Any]]:
    """Processor seconds of a product with JAX, over that with NumPy, for each kernel and number of columns."""
    with threadpool_limits(1):
        for name, kernel in KERNELS.items():
            functions, vectors = products(kernel), np.random.default_rng(1).normal(size=(POINTS, max(COLUMNS)))
            for columns in COLUMNS:
                numpy, double, single = seconds_of(functions, vectors[:, :columns], process_time)
                ratios = {"JAX, float64, over NumPy": double / numpy, "JAX, float32, over NumPy": single / numpy}
                yield {"kernel": name, "n": POINTS, "columns": columns, "NumPy, seconds": numpy, **ratios}


def device_rows() -> Iterator[dict[str, Any]]:
    """Seconds of a product on one and two devices that share this machine's cores, with the load of the machine."""
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.tiles"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | flags)
    yield json.loads(done.stdout.splitlines()[-1])


def products(kernel: type, devices: Any = None) -> list[Callable[[np.ndarray], Any]]:
    """Return products by NumPy, by JAX, and by JAX in float32."""
    from pmgp.core.tiles.devices import mesh_of
    from pmgp.interface.tiles.from_graph import JaxTiledCovariance
    from pmgp.interface.tiles.settings import Settings

    X = pytensor.shared(np.random.default_rng(0).normal(size=(POINTS, DIMENSION)), shape=(None, DIMENSION))
    theta = pt.vector("theta", shape=(DIMENSION,))
    K = kernel(DIMENSION, ls=pt.exp(theta))(X) + 0.01 * pt.eye(X.shape[0])
    graphs, at = (pt.zeros(POINTS), K, theta, Compiler()), np.full(DIMENSION, 0.5)
    moments = TiledCovariance(*graphs).moments(at)
    made = [JaxTiledCovariance(*graphs, Settings(1e9, one, mesh_of(devices))) for one in ("float64", "float32")]
    return [moments.kernel.product, *(one.quick_kernel(one.moments(at)).product for one in made)]


def seconds_of(functions: list[Callable[..., Any]], vectors: np.ndarray, clock: Callable[[], float]) -> list[float]:
    """Return the least time of each of the functions, which take turns."""
    for function in functions:
        function(vectors)
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(ROUNDS):
        for function, own in zip(functions, times, strict=True):
            start = clock()
            function(vectors)
            own.append(clock() - start)
    return [min(own) for own in times]


def _on_devices() -> dict[str, Any]:
    one, two = (products(KERNELS["squared exponential"], devices)[1] for devices in (None, "all"))
    load = os.getloadavg()[0]
    seconds = seconds_of([one, two], np.random.default_rng(1).normal(size=(POINTS, 8)), perf_counter)
    figures = {"one device, seconds": seconds[0], "two, seconds": seconds[1], "times faster": seconds[0] / seconds[1]}
    return {"n": POINTS, "columns": 8, **figures, "load before": load}


if __name__ == "__main__":
    print(json.dumps(_on_devices()))
