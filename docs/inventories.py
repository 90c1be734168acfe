"""Links to the pages of PyMC and ArviZ for names that these pages mention; no network is needed to make them."""

from __future__ import annotations

import importlib
import inspect
import zlib
from pathlib import Path
from typing import Any

__all__ = ["NAMES", "SITES", "whole", "write"]

SITES = {
    "pymc": "https://www.pymc.io/projects/docs/en/stable/",
    "arviz": "https://python.arviz.org/en/stable/",
}
ABBREVIATIONS = {"pm": "pymc", "az": "arviz"}
SAMPLING, MODEL, GP = "api/samplers.html", "api/model/core.html", "api/gp/implementations.html"
COV, MEAN, CONTINUOUS = "api/gp/cov.html", "api/gp/mean.html", "api/distributions/continuous.html"
DISCRETE, MULTIVARIATE = "api/distributions/discrete.html", "api/distributions/multivariate.html"
NAMES = {
    "pymc.sample": SAMPLING,
    "pymc.sample_posterior_predictive": SAMPLING,
    "pymc.Slice": SAMPLING,
    "pymc.Model": MODEL,
    "pymc.Deterministic": MODEL,
    "pymc.Potential": MODEL,
    "pymc.set_data": MODEL,
    "pymc.Data": "api/data.html",
    "pymc.find_MAP": "api/tuning.html",
    "pymc.gp": "api/gp.html",
    "pymc.gp.Latent": GP,
    "pymc.gp.Marginal": GP,
    "pymc.gp.MarginalApprox": GP,
    "pymc.gp.HSGP": GP,
    "pymc.gp.TP": GP,
    "pymc.gp.cov": COV,
    "pymc.gp.cov.ExpQuad": COV,
    "pymc.gp.cov.Matern52": COV,
    "pymc.gp.cov.WhiteNoise": COV,
    "pymc.gp.mean.Constant": MEAN,
    "pymc.Gamma": CONTINUOUS,
    "pymc.InverseGamma": CONTINUOUS,
    "pymc.LogNormal": CONTINUOUS,
    "pymc.Normal": CONTINUOUS,
    "pymc.StudentT": CONTINUOUS,
    "pymc.Bernoulli": DISCRETE,
    "pymc.Binomial": DISCRETE,
    "pymc.Categorical": DISCRETE,
    "pymc.NegativeBinomial": DISCRETE,
    "pymc.Poisson": DISCRETE,
    "pymc.Dirichlet": MULTIVARIATE,
    "pymc.MvNormal": MULTIVARIATE,
    "arviz.summary": "index.html",
    "arviz.loo": "index.html",
    "arviz.compare": "index.html",
    "arviz.plot_trace_dist": "index.html",
}
"""Names, each with the page that lists it: addresses of the names' own pages change from release to release."""


def write(folder: Path) -> dict[str, tuple[str, str]]:
    """Write an inventory for each site into the folder; return what `intersphinx_mapping` needs."""
    for site in SITES:
        names = {name: page for name, page in NAMES.items() if name.startswith(f"{site}.")}
        lines = [f"{name} py:{_role(name)} 1 {page} -\n" for name, page in sorted(names.items())]
        header = f"# Sphinx inventory version 2\n# Project: {site}\n# Version: stable\n# zlib-compressed\n"
        body = zlib.compress("".join(lines).encode())
        (folder / f"{site}.inv").write_bytes(header.encode() + body)
    return {site: (address, str(folder / f"{site}.inv")) for site, address in SITES.items()}


def _role(name: str) -> str:
    """Kind of the object; fails where the installed package has no such name."""
    try:
        found: Any = importlib.import_module(name)
    except ModuleNotFoundError:
        parent, _, last = name.rpartition(".")
        found = getattr(importlib.import_module(parent), last)
    return "module" if inspect.ismodule(found) else "class" if inspect.isclass(found) else "function"


def whole(text: str) -> str:
    """Return the name without parentheses and abbreviations."""
    first, dot, rest = text.removesuffix("()").partition(".")
    return ABBREVIATIONS.get(first, first) + dot + rest
