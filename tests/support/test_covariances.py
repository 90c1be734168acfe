"""Each row of docs/support/covariances.csv says what happens."""

import pytest

from tests.support.table import TABLES, differences, read

TABLE = TABLES["covariances"]
ROWS = read("covariances")


def test_the_rows_are_the_cases():
    assert [one[TABLE.heading] for one in ROWS] == list(TABLE.rows)


@pytest.mark.parametrize(("place", "expected"), list(enumerate(ROWS)), ids=[one[TABLE.heading] for one in ROWS])
def test_what_happens_is_what_the_row_says(place, expected):
    assert differences(TABLE, place, expected) == {}
