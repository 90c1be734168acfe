"""Data sets of the articles, a reader for the user's own data, and the preparation that both need.

May import: core.numerics.
"""

from pmgp.datasets.dataset import Category, Dataset, DatasetError, Dates
from pmgp.datasets.from_csv import read_csv
from pmgp.datasets.load import available, load
from pmgp.datasets.new_rows import read_new_rows
from pmgp.datasets.split import train_test_split
from pmgp.datasets.standardize import Standardizer

__all__ = [
    "Category",
    "Dataset",
    "DatasetError",
    "Dates",
    "Standardizer",
    "available",
    "load",
    "read_csv",
    "read_new_rows",
    "train_test_split",
]
