"""Orthant integrals for Gaussian process classifiers: Tables 1 to 4 and Figures 1 and 2 of the article again."""
