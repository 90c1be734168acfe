"""Stochastic volatility: a notebook, and the stored chains of one of its sections, 65 years of daily returns."""
