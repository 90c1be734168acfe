"""Posteriors by PyMC's NUTS, to compare with: ``python -m tests.references [NAME...]`` samples and stores them again.

On the models of the tests NUTS takes from ten seconds to minutes, most of it for compiling. Its draws are summarized
once, with smaller errors than a test could wait for: `references.csv` has the moments, and `references_runs.csv` the
run that gave them. A reference belongs to one model, whose log-density at two points is stored with it.
"""

from __future__ import annotations

import argparse
import platform
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from pmgp.interface.graphs.compilation import INTERPRETED

MOMENTS = Path(__file__).with_suffix(".csv")
RUNS = Path(__file__).with_name("references_runs.csv")
MODULES = (
    "tests.steps.test_routes",
    "tests.theta_updates.test_gibbs_agreement",
    "tests.time_series.test_agreement",
    "tests.linear_predictors.test_workflow",
    "tests.linear_predictors.test_maps",
    "tests.fields.test_agreement",
)
"""Test modules that define references."""
FIGURES = ["mean", "mcse_mean", "sd", "mcse_sd", "ess_bulk", "r_hat"]
CHAINS, SEED = 4, 2026
# Rounding of log-densities, relative to their size.
SAME = 1e-7


@dataclass(frozen=True)
class Reference:
    """The moments of some variables of a model by NUTS, perhaps of their logarithms."""

    name: str
    build: Callable[[], pm.Model]
    variables: tuple[str, ...]
    logs: bool = False
    tune: int = 1500
    draws: int = 4000
    target_accept: float = 0.9

    def summary(self, moments: Path = MOMENTS, runs: Path = RUNS) -> pd.DataFrame:
        """Return the stored moments by element, if they are those of this model."""
        stored = pd.read_csv(runs, index_col="reference")
        expected = stored.loc[self.name, ["log_density", "log_density_beside"]].to_numpy(float)
        if not np.allclose(log_densities(self.build()), expected, rtol=SAME, atol=0.0):
            raise AssertionError(
                f"the model of {self.name!r} is not the one that was sampled: run python -m tests.references "
                f"{self.name!r}"
            )
        return pd.read_csv(moments, index_col=["reference", "element"]).loc[self.name]

    def sampled(self) -> tuple[pd.DataFrame, dict[str, Any]]:
        """Return the moments of a new run, and how it was made."""
        model = self.build()
        seconds = time.perf_counter()
        with model, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            idata = pm.sample(
                self.draws,
                tune=self.tune,
                chains=CHAINS,
                target_accept=self.target_accept,
                random_seed=SEED,
                nuts_sampler="pymc",
                progressbar=False,
            )
        seconds = time.perf_counter() - seconds
        before, beside = log_densities(model)
        run = {
            "log_density": before,
            "log_density_beside": beside,
            "chains": CHAINS,
            "tune": self.tune,
            "draws": self.draws,
            "target_accept": self.target_accept,
            "seed": SEED,
            "divergences": int(idata["sample_stats"]["diverging"].sum()),
            "seconds": round(seconds),
            "sampler": f"NUTS of PyMC {pm.__version__}",
            "machine": platform.machine(),
        }
        return summarized(idata, self.variables, self.logs), run


def log_densities(model: pm.Model) -> np.ndarray:
    """Return log-densities at the initial point, and where each unconstrained value is larger by a tenth."""
    density, point = model.compile_logp(mode=INTERPRETED), model.initial_point()
    return np.array([float(density({name: value + by for name, value in point.items()})) for by in (0.0, 0.1)])


def summarized(idata: Any, variables: Iterable[str], logs: bool = False) -> pd.DataFrame:
    """Return the moments of variables, or of their logarithms, with their Monte Carlo errors, by element."""
    draws: xr.Dataset = idata["posterior"].to_dataset()[list(variables)]
    table = az.summary(np.log(draws) if logs else draws, round_to="none")
    return table[FIGURES].astype(float).rename_axis("element")


def apart(found: pd.DataFrame, expected: pd.DataFrame) -> pd.DataFrame:
    """Return differences of means and of standard deviations in Monte Carlo standard errors, by element of `found`."""
    other = expected.loc[found.index]
    return pd.DataFrame(
        {m: (found[m] - other[m]).abs() / np.hypot(found[f"mcse_{m}"], other[f"mcse_{m}"]) for m in ("mean", "sd")}
    )


def root_mean_square(distances: Any) -> float:
    """Return a summary of distances in standard errors; it is near one where only these are at work."""
    return float(np.sqrt(np.mean(np.square(np.ravel(distances)))))


def references() -> dict[str, Reference]:
    """Return all references by name."""
    found = [value for module in MODULES for value in vars(import_module(module)).values()]
    return {value.name: value for value in found if isinstance(value, Reference)}


def store(name: str, table: pd.DataFrame, run: dict[str, Any], moments: Path = MOMENTS, runs: Path = RUNS) -> None:
    """Write a run in the place of an older one, if there is any."""
    _replace(moments, name, table.reset_index(), "%.6g")
    _replace(runs, name, pd.DataFrame([run]), "%.12g")


def _replace(path: Path, name: str, new: pd.DataFrame, digits: str) -> None:
    new.insert(0, "reference", name)
    if path.exists():
        old = pd.read_csv(path)
        new = pd.concat([old[old["reference"] != name], new])
    new.sort_values("reference", kind="stable").to_csv(path, index=False, float_format=digits)


def main() -> None:
    known = references()
    parser = argparse.ArgumentParser(prog="python -m tests.references", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="all of them by default")
    names = parser.parse_args().names or list(known)
    if unknown := set(names) - set(known):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known are {', '.join(known)}")
    for name in names:
        table, run = known[name].sampled()
        store(name, table, run)
        least, worst = table["ess_bulk"].min(), table["r_hat"].max()
        print(f"{name}: {run['seconds']} s, ESS over {least:.0f}, R-hat up to {worst:.4f}", flush=True)


if __name__ == "__main__":
    # The test modules have references of the imported module's class, which is not that of the module that is run.
    import_module("tests.references").main()
