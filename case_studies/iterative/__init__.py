"""Iterations of preconditioned conjugate gradients on Concrete, beside the figures of the authors' public repository.

Figure 1 of Cutajar, Osborne, Cunningham and Filippone (2016), Preconditioning kernel matrices.
"""
