"""Comparison with other probabilistic classifiers: Figures 5, 6 and 7 of the pseudo-marginal article again."""
