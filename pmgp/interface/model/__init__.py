"""A PyMC model as the parts that the core needs: f, theta, K, the terms of the likelihood and their derivatives.

May import: core, interface.graphs, interface.covariance, interface.distributions.
"""
