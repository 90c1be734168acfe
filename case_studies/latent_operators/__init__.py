"""Sampling f given theta: Table 2 of the comparative evaluation again, with time and operations beside it."""
