"""Chains on 49 areas agree with PyMC's NUTS."""

from __future__ import annotations

import numpy as np
import pymc as pm

import pmgp
from tests.fields.models import counts_on, lattice_neighbors
from tests.references import Reference, apart, root_mean_square, summarized


def areas(neighbors):
    alpha, tau = pm.Uniform("alpha", 0.0, 1.0), pm.Gamma("tau", 3.0, 1.0)
    n = len(neighbors)
    return pm.CAR("s", mu=np.zeros(n), W=neighbors, alpha=alpha, tau=tau)


def model() -> pm.Model:
    return counts_on(areas, 49, lattice_neighbors(7, 7))


NUTS = Reference("areas", model, ("level", "slope", "alpha", "tau", "s"))
SOME = ["level", "slope", "alpha", "tau", *(f"s[{place}]" for place in range(0, 49, 12))]


def test_areas_agree_with_nuts():
    with model():
        step = pmgp.PseudoMarginal()
        settings = {"progressbar": False, "compute_convergence_checks": False}
        idata = pm.sample(1500, tune=500, step=step, chains=1, cores=1, random_seed=1, **settings)
    ours, theirs = summarized(idata, NUTS.variables).loc[SOME], NUTS.summary()
    assert root_mean_square(apart(ours, theirs)["mean"]) < 2.0
    # A twin that forgets what is drawn of the field.
    assert root_mean_square(apart(ours.assign(mean=0.0)[4:], theirs)["mean"]) > 2.0
