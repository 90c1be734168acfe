"""Checks of the observations and parameters of the likelihoods; errors name the values that fail."""

from __future__ import annotations

from typing import Any

import numpy as np

from pmgp.core.numerics.arrays import is_missing

SHOWN = 5
LARGEST_COUNT = 2**53


def _different(values: np.ndarray) -> list[Any]:
    """Return the different values in order, or in alphabetical order if there are text and numbers."""
    try:
        return list(np.unique(values))
    except TypeError:
        return sorted(set(values.tolist()), key=str)


def _shown(value: Any) -> str:
    return repr(str(value)) if isinstance(value, str) else str(value)


def _named(values: np.ndarray) -> str:
    """Show the first few different values, in order."""
    return ", ".join(map(_shown, _different(values)[:SHOWN]))


def marked_rows(wrong: np.ndarray, values: np.ndarray | None = None) -> str:
    """Show the indices, and the values if given, of the first few marked elements.

    Shapes: wrong (n, ...) of bool.
    """
    found = np.argwhere(wrong)
    indices = [str(index[0]) if index.size == 1 else str(tuple(index.tolist())) for index in found[:SHOWN]]
    which = ", ".join(indices) + (f" and {len(found) - SHOWN} more" if len(found) > SHOWN else "")
    where = f"{'row' if len(found) == 1 else 'rows'} {which}"
    if values is None:
        return where
    return f"{where} ({', '.join(str(value) for value in values[wrong][:SHOWN])})"


def _refuse(values: np.ndarray, wrong: np.ndarray, message: str) -> None:
    """Raise a ValueError if any element is marked, with the first few marked values in the message's braces."""
    if wrong.any():
        raise ValueError(message.format(_named(values[wrong])))


def _present(y: np.ndarray) -> tuple[list[Any], bool]:
    """Return the different labels, and whether some are missing: masked, NaN or None."""
    values = np.ma.getdata(y)
    missing = np.ma.getmaskarray(y) | is_missing(values)
    return _different(values[~missing]), bool(missing.any())


def binary_recoding(y: np.ndarray) -> str:
    """Advise on how to turn labels, which may be masked, into 0 and 1, so that none is lost and missing ones remain."""
    found, missing = _present(y)
    if all(value in (0, 1) for value in found):
        return "leave out missing labels"
    if len(found) > 2:
        return "for more than two classes use pmgp.MultinomialLogit, or pmgp.OrdinalProbit if they have an order"
    if len(found) < 2:
        return "recode them as 0 and 1"
    condition = "y > 0" if found == [-1, 1] else f"y == {_shown(found[1])}"
    code = f"np.ma.masked_where(pd.isna(y), {condition})" if missing else f"({condition})"
    low, high = map(_shown, found)
    return f"recode them, for example {code}.astype(int), which makes {low} label 0 and {high} label 1"


def recoding(y: np.ndarray, number: int, order: str = "") -> str:
    """Advise on how to turn labels, which may be masked, into 0, ..., number - 1.

    `order` is code for a list of the labels in order; without it they are numbered in sorted order.
    """
    found, missing = _present(y)
    if set(found) <= set(range(1, number + 1)):
        return "recode them, for example y - 1"
    # As a Series, masked labels are missing too, and both functions number missing ones -1.
    labels = "pd.Series(y)" if missing else "y"
    if order:
        code = f"pd.Categorical({labels}, {order}).codes"
    else:
        code = f"pd.factorize({labels}, sort=True)[0]" if missing else "np.unique(y, return_inverse=True)[1]"
    code = f"np.ma.masked_equal({code}, -1)" if missing else code
    return f"recode them, for example {code}" + ("" if order else ", which numbers them in sorted order")


def check_binary(y: np.ndarray) -> np.ndarray:
    """Refuse labels other than 0 and 1; return all, also what lies under a mask."""
    values = np.asarray(y)
    wrong = ~np.isin(values, (0, 1))
    if wrong.any():
        raise ValueError(f"binary labels must be 0 or 1, found {_named(values[wrong])}; {binary_recoding(y)}")
    return values


def check_counts(y: np.ndarray) -> np.ndarray:
    """Return the counts as floats; refuse negative values, fractions, and counts that floats do not tell apart."""
    y = np.asarray(y, dtype=float)
    sound = np.isfinite(y) & (y >= 0.0) & (y == np.floor(y))
    _refuse(y, ~sound, "counts must be whole numbers, 0 or more, found {}; put rates into the exposure")
    _refuse(y, y > LARGEST_COUNT, "counts must be at most 2**53, found {}; give them in a larger unit")
    return y


def check_categories(y: np.ndarray, categories: int) -> np.ndarray:
    """Return the labels as integers; refuse labels that are not among 0, ..., categories - 1."""
    what = f"ordinal labels must be whole numbers from 0 to {categories - 1} (one more label than thresholds)"
    return _check_labels(y, categories, what, "give other thresholds", "[LOWEST, ..., HIGHEST]")


def check_classes(y: np.ndarray, classes: int) -> np.ndarray:
    """Return the labels as integers; refuse labels that are not among 0, ..., classes - 1."""
    what = f"class labels must be whole numbers from 0 to {classes - 1}, with a latent process for each"
    return _check_labels(y, classes, what, "give more processes")


def _check_labels(y: np.ndarray, number: int, what: str, instead: str, order: str = "") -> np.ndarray:
    values = np.asarray(y)
    wrong = ~np.isin(values, np.arange(number))
    if wrong.any():
        raise ValueError(f"{what}, found {_named(values[wrong])}; {recoding(y, number, order)}, or {instead}")
    return values.astype(np.intp)


def check_class_counts(y: np.ndarray, classes: int | None = None) -> np.ndarray:
    """Return counts as floats, (n, classes); refuse labels not among 0, ..., classes - 1, and invalid counts.

    - `y` (n,) or (n, classes): labels, or counts of each class
    - `classes`: number of classes; by default the number of columns, or one more than the largest label
    """
    values = np.asarray(y)
    if values.ndim == 2:
        counts = check_counts(values)
        _check_class_number(counts.shape[1], classes)
        return counts
    wrong = values[~np.isin(values, np.arange(_largest(values) + 1 if classes is None else classes))]
    if wrong.size:
        allowed = "0, 1, 2, ..." if classes is None else f"0 to {classes - 1}, one for each latent vector"
        raise ValueError(
            f"labels of classes must be whole numbers among {allowed}, found {_named(wrong)}; "
            f"{recoding(y, classes or 0)}"
        )
    number = _largest(values) + 1 if classes is None else classes
    _check_class_number(number, classes)
    return (values[:, None] == np.arange(number)).astype(float)


def _largest(y: np.ndarray) -> int:
    finite = y[np.isfinite(y)] if y.dtype.kind in "iufb" else np.empty(0)
    return int(finite.max(initial=0))


def _check_class_number(found: int, wanted: int | None) -> None:
    if wanted is not None and found != wanted:
        raise ValueError(f"there are counts of {found} classes, but {wanted} latent vectors, one for each class")
    if found < 2:
        raise ValueError(f"there must be at least 2 classes, not {found}; for two, pmgp.BernoulliLogit is faster")


def check_finite(y: np.ndarray) -> np.ndarray:
    """Return the observations as floats; refuse NaN and infinity."""
    y = np.asarray(y, dtype=float)
    _refuse(y, ~np.isfinite(y), "observations must be finite, found {}; leave these sites out")
    return y


def check_positive(name: str, value: np.ndarray | float) -> np.ndarray:
    """Return a parameter as floats; refuse elements that are not positive and finite."""
    value = np.asarray(value, dtype=float)
    sound = np.isfinite(value) & (value > 0.0)
    _refuse(value, ~sound, name + " must be positive and finite, found {}; correct or leave out these sites")
    return value


def check_same_length(name: str, value: np.ndarray, y: np.ndarray) -> None:
    """Refuse a parameter that is neither a scalar nor as long as the observations."""
    if value.size != 1 and value.shape != y.shape[-value.ndim :]:
        raise ValueError(
            f"{name} has shape {value.shape}, but there are {y.size} observations; give a scalar or one value for each"
        )


def check_thresholds(thresholds: np.ndarray) -> np.ndarray:
    """Return the thresholds as floats; refuse them if empty, not finite, or not strictly increasing."""
    thresholds = np.asarray(thresholds, dtype=float)
    if thresholds.ndim != 1 or thresholds.size == 0:
        raise ValueError(f"thresholds must be a vector of at least one number, not of shape {thresholds.shape}")
    if not np.isfinite(thresholds).all() or np.any(np.diff(thresholds) <= 0.0):
        raise ValueError(
            f"thresholds must be finite and increase strictly, found {', '.join(str(value) for value in thresholds)}; "
            "sort them and leave out infinite ones; if they are inferred, give them "
            "transform=pm.distributions.transforms.ordered and an increasing initval"
        )
    return thresholds
