"""Updates of the hyper-parameters theta."""

from pmgp.schemes.pseudo_marginal import PseudoMarginal

__all__ = ["PseudoMarginal"]
