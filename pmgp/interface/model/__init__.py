"""A PyMC model taken apart for the core: f, theta, K, the terms of the likelihood and their derivatives.

May import: core, interface.graphs, interface.covariance, interface.distributions.
"""
