"""Convert columns of dates to days since the first date."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pmgp.datasets.dataset import DatasetError

if TYPE_CHECKING:
    import pandas as pd

DATES = ("ISO8601", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y")
"""Formats of dates, in the notation of pandas."""


def days(cells: pd.Series) -> pd.Series | None:
    """Return days since the first date, or None if the cells are not all dates in one format.

    Dates whose day and month cannot be told apart are refused.
    """
    import pandas as pd

    readings = [pd.to_datetime(cells, format=form, errors="coerce", utc=True) for form in DATES]
    readings = [reading for reading in readings if reading.notna().all()]
    if len(readings) > 1 and not readings[0].equals(readings[1]):
        raise DatasetError(
            f"column {cells.name!r} holds dates such as {cells.iloc[0]!r}, whose day and month cannot be told apart: "
            "write year-month-day, as in 2024-12-31, or a number of days"
        )
    return (readings[0] - readings[0].min()) / pd.Timedelta(days=1) if readings else None
