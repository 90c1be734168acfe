"""Each row of docs/support/covariances.csv says what happens."""

import pytest

from tests.support.table import TABLES, read, row

TABLE = TABLES["covariances"]
ROWS = read("covariances")


def test_the_rows_are_the_cases():
    assert [one[TABLE.heading] for one in ROWS] == list(TABLE.rows)


@pytest.mark.representatives("`pm.gp.HSGP`", "`pm.MvNormal(chol=...)`")
@pytest.mark.parametrize("expected", ROWS, ids=lambda one: one[TABLE.heading])
def test_what_happens_is_what_the_row_says(expected):
    assert row(TABLE, expected[TABLE.heading]) == expected
