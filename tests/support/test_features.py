"""Each row of docs/support/features.csv says what happens."""

import pytest

from tests.support.table import TABLES, read, row

TABLE = TABLES["features"]
ROWS = read("features")


def test_the_rows_are_the_cases():
    assert [one[TABLE.heading] for one in ROWS] == list(TABLE.rows)


# New processes load PyMC anew, for every chain of every column.
SLOW = ('`mp_ctx="spawn"`',)
PROCESSES = ("`cores=2`", *SLOW)
CASES = [pytest.param(one, marks=pytest.mark.slow if one[TABLE.heading] in SLOW else ()) for one in ROWS]


@pytest.mark.representatives(
    "no hyper-parameters", "a discrete hyper-parameter of the covariance", "f whitened by `gp.prior`"
)
@pytest.mark.parametrize("expected", CASES, ids=[one[TABLE.heading] for one in ROWS])
def test_what_happens_is_what_the_row_says(expected):
    name = expected[TABLE.heading]
    # Each class of steps has tests of its own with worker processes (`steps/`).
    columns = TABLE.columns[:1] if name in PROCESSES else TABLE.columns
    found = row(TABLE, name, columns)
    assert found == {column: expected[column] for column in found}
