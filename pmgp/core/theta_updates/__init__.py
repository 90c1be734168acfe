"""Updates of theta that alternate with updates of f: sufficient, ancillary, interweaving, surrogate and joint.

May import: core.numerics, core.likelihoods, core.gaussians, core.joint_density, core.transitions, core.adaptation,
core.approximations.
"""
