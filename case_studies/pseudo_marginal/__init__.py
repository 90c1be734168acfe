"""The pseudo-marginal article's section 4 again: how importance densities and their number of samples matter."""
