"""Moves that leave a given density invariant; they know nothing of Gaussian processes.

Plain ones are functions of a step size. Adaptive ones (`AdaptiveTransition`) learn while a chain tunes: a random walk,
Hamiltonian Monte Carlo and Langevin proposals in coordinates that they learn, a mixture with independent proposals, and
turns of that and of trajectories.

May import: core.numerics, core.adaptation.
"""
