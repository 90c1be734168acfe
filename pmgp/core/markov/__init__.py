"""Gaussians with a sparse precision: blocks in time, any other pattern, and q on the same pattern.

x ~ N(m, Q^-1) is the latent process, and f = A x + c its values at the observations. Everything is O(n) for blocks in
time; other patterns need a sparse factorization. The loops, compiled by numba, and qdldl are loaded when first needed.

May import: core.numerics, core.likelihoods, core.gaussians, core.estimators.
"""

from pmgp.core.markov.base import Factor, Pattern
from pmgp.core.markov.chain import ChainPattern
from pmgp.core.markov.coupled import CoupledPosterior, CoupledPrecisionPrior
from pmgp.core.markov.paths import PathSampling, SampledPaths
from pmgp.core.markov.prior import PrecisionPosterior, PrecisionPrior
from pmgp.core.markov.sparse import SparsePattern
from pmgp.core.markov.spectra import Line, Part, lines_of
from pmgp.core.markov.state_space import StatePattern, Times, log_density, sample_path, transitions

__all__ = [
    "ChainPattern",
    "CoupledPosterior",
    "CoupledPrecisionPrior",
    "Factor",
    "Line",
    "Part",
    "PathSampling",
    "Pattern",
    "PrecisionPosterior",
    "PrecisionPrior",
    "SampledPaths",
    "SparsePattern",
    "StatePattern",
    "Times",
    "lines_of",
    "log_density",
    "sample_path",
    "transitions",
]
