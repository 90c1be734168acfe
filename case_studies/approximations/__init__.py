"""When is an approximation good enough? Twenty posteriors by approximations, by NUTS and by the exact chain.

The notebook shows what ``python -m case_studies.approximations`` has written, and two signs that need no exact run.
"""
