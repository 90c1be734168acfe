"""MCMC for variationally sparse Gaussian processes: the article's experiments, and the exact chain beside them."""
