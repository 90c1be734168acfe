"""Kernels and links for the thyroid data, whose file comes with no package: what the notebook shows is stored.

The notebook `which_kernel_which_link` compares models of crabs and of coal mining disasters where it runs. For the
thyroid data it shows what ``python -m case_studies.which_kernel`` has written.
"""
