"""The schemes and operators as PyMC step methods."""

from pmgp.step_methods.pseudo_marginal import PseudoMarginal

__all__ = ["PseudoMarginal"]
