"""Geweke's test of every scheme with every operator on theta, and broken twins that it must reject."""

from __future__ import annotations

import pytest

from pmgp.core.theta_updates import schemes
from pmgp.core.theta_updates.schemes import (
    AncillaryScheme,
    InterweavingScheme,
    JointScheme,
    Scheme,
    SufficientScheme,
    SurrogateScheme,
)
from pmgp.core.transitions.adaptive import HamiltonianMonteCarlo, ManifoldLangevin, RandomWalk
from tests.theta_updates.gibbs_broken import POOR, TWINS, VARIANCE
from tests.theta_updates.gibbs_geweke import z_score

# Thirteen statistics are compared: the largest of their z-scores exceeds 4 once in 1,200 correct runs.
BOUND = 4.0

OPERATORS = (RandomWalk(), HamiltonianMonteCarlo(max_leapfrog=3), ManifoldLangevin())
EVERY_OPERATOR = [scheme(operator) for scheme in (SufficientScheme, AncillaryScheme) for operator in OPERATORS]
# Interweaving makes the moves of both, one after the other; these need a gradient and a metric.
INTERWOVEN = InterweavingScheme(ManifoldLangevin())
CONJUGATE = [SufficientScheme(variance=VARIANCE), InterweavingScheme(variance=VARIANCE)]
# A poor approximation of p(f|y, theta) makes weights uneven, and a good one must do as well.
RANDOM_WALKS = [SurrogateScheme(), JointScheme(approximation=POOR), JointScheme()]


def replicates_of(scheme: Scheme) -> int:
    """Return the number of draws that rejects the scheme's twins at about twice the bound."""
    conjugate = getattr(scheme, "variance", None) is not None
    if isinstance(scheme, SurrogateScheme) or (isinstance(scheme, InterweavingScheme) and conjugate):
        return 2800
    if isinstance(scheme, InterweavingScheme) or isinstance(scheme.operator, ManifoldLangevin) or conjugate:
        return 1800
    return 1300


def name_of(scheme: Scheme) -> str:
    conjugate = "-conjugate" if getattr(scheme, "variance", None) else ""
    poor = "-poor" if getattr(scheme, "approximation", None) == POOR else ""
    return f"{type(scheme).__name__}-{type(scheme.operator).__name__}{conjugate}{poor}"


def test_every_scheme_is_tested():
    tested = {type(scheme).__name__ for scheme in [*EVERY_OPERATOR, INTERWOVEN, *RANDOM_WALKS]}
    assert tested == set(schemes.__all__) - {"Scheme"}


@pytest.mark.parametrize("scheme", [*EVERY_OPERATOR, INTERWOVEN, *CONJUGATE, *RANDOM_WALKS], ids=name_of)
def test_joint_distribution_is_kept(scheme):
    assert z_score(scheme, replicates_of(scheme)) < BOUND


@pytest.mark.parametrize("mistake", TWINS)
def test_a_broken_twin_is_rejected(mistake, monkeypatch):
    twin = TWINS[mistake]
    twin.breaks(monkeypatch)
    assert z_score(twin.scheme, replicates_of(twin.scheme)) > BOUND
