"""Updates of theta with f integrated out: the pseudo-marginal chain, its proposals and its tuning.

May import: core.numerics, core.likelihoods, core.gaussians, core.joint_density, core.transitions, core.adaptation,
core.approximations, core.estimators, core.latent_updates.
"""

from pmgp.core.marginal.pseudo_marginal import PseudoMarginalChain

__all__ = ["PseudoMarginalChain"]
