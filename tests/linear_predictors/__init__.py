"""Sums of latent variables in linear predictors."""
