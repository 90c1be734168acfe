"""Figures of speed and efficiency; run with ``python -m benchmarks``."""
