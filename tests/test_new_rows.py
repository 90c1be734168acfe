"""Rows of a CSV file that are to be predicted are coded as those of the data set."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from pmgp.app.problem import prepare
from pmgp.app.settings import Settings
from pmgp.datasets import DatasetError, read_csv, read_new_rows

N = 12
CELLS = pd.DataFrame(
    {
        "size": np.arange(N) % 5 + 0.5,
        "color": np.array(["red", "green", "blue"])[np.arange(N) % 3],
        "fresh": np.where(np.arange(N) < 4, "no", "yes"),
        "day": pd.date_range("2024-02-20", periods=N)[::-1].strftime("%d.%m.%Y"),
        "hours": np.arange(N) + 1.0,
        "sales": np.arange(N) % 4,
    }
)


def written(folder, name, cells, **options):
    cells.to_csv(folder / name, index=False, **options)
    return folder / name


@pytest.fixture
def data(tmp_path):
    return read_csv(written(tmp_path, "data.csv", CELLS), kind="counts", exposure="hours")


def read(tmp_path, data, cells=CELLS, **options):
    return read_new_rows(written(tmp_path, "new.csv", cells), data, **options)


def test_the_same_cells_are_coded_alike_in_any_order_and_without_labels(tmp_path, data):
    new = read(tmp_path, data, CELLS[["day", "fresh", "hours", "color", "size"]], exposure="hours")
    assert new.y is None
    assert new.feature_names == data.feature_names
    assert_array_equal(new.X, data.X)
    assert_array_equal(new.exposure, CELLS["hours"])


def test_a_few_rows_keep_the_codes_of_the_data(tmp_path, data):
    """By themselves, one color would be no category, and the first day another one."""
    new = read(tmp_path, data, CELLS.iloc[[7]])
    assert_array_equal(new.X, data.X[[7]])


def test_separators_and_decimal_commas_may_differ(tmp_path, data):
    path = written(tmp_path, "other.csv", CELLS, sep=";", decimal=",")
    assert_array_equal(read_new_rows(path, data).X, data.X)


def test_gaps_are_filled_from_the_data_or_left_out(tmp_path, data):
    cells = CELLS.astype(object).copy()
    cells.loc[2, ["size", "fresh"]] = ""
    cells.loc[5, "color"] = "NA"
    with pytest.raises(DatasetError, match=r"3 missing cells, the first in row 2 of column 'size' .* --missing drop"):
        read(tmp_path, data, cells)
    dropped = read(tmp_path, data, cells, missing="drop")
    assert_array_equal(dropped.rows, np.delete(np.arange(N), [2, 5]))
    assert dropped.notices == ("2 of 12 rows of new.csv have missing cells and are left out",)
    expected = data.X.copy()
    # The median of the sizes and the most frequent values of the data; the colors are equally frequent.
    expected[2, 0] = np.median(CELLS["size"])
    expected[2, data.feature_names.index("fresh=yes")] = 1.0
    colors = [data.feature_names.index(f"color={color}") for color in ("blue", "green", "red")]
    expected[5, colors] = 1.0, 0.0, 0.0
    assert_array_equal(read(tmp_path, data, cells, missing="median").X, expected)
    with pytest.raises(DatasetError, match=r"each of the 1 rows of .* has a missing cell"):
        read(tmp_path, data, cells.iloc[[2]], missing="drop")


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("color", "pink", "has 'pink' in row 1 of column 'color' .* where the data have 'blue', 'green', 'red'"),
        ("size", "large", "has 'large' in row 1 of column 'size' .* not a finite number, unlike the cells of data"),
        ("size", "inf", "has 'inf' in row 1 of column 'size' .* not a finite number"),
        ("day", "soon", "has 'soon' in row 1 of column 'day' .* not a date"),
        ("hours", "0", "exposures must be positive numbers, but column 'hours' holds '0' in row 1"),
    ],
)
def test_cells_that_the_data_cannot_have_are_refused(tmp_path, data, column, value, words):
    cells = CELLS.astype(object).copy()
    cells.loc[1, column] = value
    with pytest.raises(DatasetError, match=words):
        read(tmp_path, data, cells, exposure="hours")


def test_a_column_that_is_absent_is_named(tmp_path, data):
    with pytest.raises(DatasetError, match=r"no column 'color', 'hours', which data has; it has 'size', 'fresh'"):
        read(tmp_path, data, CELLS.drop(columns=["color", "hours"]), exposure="hours")


def test_a_single_feature_needs_no_other_column(tmp_path):
    data = read_csv(written(tmp_path, "data.csv", CELLS[["size", "fresh"]]))
    new = read(tmp_path, data, CELLS[["size"]])
    assert_array_equal(new.X[:, 0], CELLS["size"])


def test_columns_without_names_are_found_by_their_place(tmp_path):
    data = read_csv(written(tmp_path, "data.csv", CELLS[["size", "fresh"]], header=False), header=False)
    path = written(tmp_path, "new.csv", CELLS[["size"]], header=False)
    assert_array_equal(read_new_rows(path, data, header=False).X, data.X)


def test_times_that_look_like_numbers_are_dates(tmp_path):
    days = pd.date_range("2024-01-30", periods=N)
    data = read_csv(
        written(tmp_path, "data.csv", pd.DataFrame({"day": days.strftime("%Y%m%d"), "fresh": CELLS["fresh"]})),
        time="day",
    )
    later = pd.DataFrame({"day": (days + pd.Timedelta(days=N)).strftime("%Y%m%d")})
    assert_array_equal(read(tmp_path, data, later).X[:, 0], N + np.arange(N))


def test_rows_far_from_the_training_part_are_announced(tmp_path):
    cells = CELLS.drop(columns=["day", "hours"])
    far = cells.astype({"size": float}).copy()
    far.loc[[0, 3], "size"] = 99.0, -99.0
    settings = Settings(
        data=str(written(tmp_path, "data.csv", cells)),
        out=tmp_path / "out",
        likelihood="poisson",
        test_fraction=0.0,
        predict=str(written(tmp_path, "new.csv", far)),
    )
    [notice] = [one for one in prepare(settings).notices if "new rows" in one]
    assert notice.startswith("2 of 12 new rows are outside the range of the training part in 'size'")


def test_dates_are_read_as_those_of_the_data(tmp_path):
    """The first twelve days of a month alone could be read in two ways, and the thirteenth in one way, a wrong one."""
    days = pd.DataFrame({"when": ["30/11/2024", "31/12/2024", "05/01/2025"], "z": [1, 2, 4], "y": [0.1, 0.3, 0.2]})
    data = read_csv(written(tmp_path, "data.csv", days), kind="measurements")
    new = pd.DataFrame({"when": ["01/02/2025"], "z": [3]})
    assert_array_equal(read(tmp_path, data, new).X, [[63.0, 3.0]])
    with pytest.raises(DatasetError, match=r"has '01/13/2025' in row 0 of column 'when' .*not a date written like"):
        read(tmp_path, data, new.assign(when="01/13/2025"))
    both_ways = days.assign(when=["05/05/2024", "06/06/2024", "07/07/2024"])
    either = read_csv(written(tmp_path, "data.csv", both_ways), kind="measurements")
    with pytest.raises(DatasetError, match="whose day and month cannot be told apart"):
        read(tmp_path, either, new)


def test_a_single_column_may_have_decimal_commas(tmp_path):
    (tmp_path / "data.csv").write_text("x;y\n1,5;0\n2,5;1\n3;1\n")
    (tmp_path / "new.csv").write_text("x\n1,5\n4,25\n")
    data = read_csv(tmp_path / "data.csv")
    assert_array_equal(read_new_rows(tmp_path / "new.csv", data).X, [[1.5], [4.25]])
    (tmp_path / "new.csv").write_text("x\n1,500\n2,500\n")
    with pytest.raises(DatasetError, match=r"has '1,500' in row 0 of column 'x' .* not a finite number"):
        read_new_rows(tmp_path / "new.csv", data)


def test_a_single_column_may_have_a_comma_in_its_name(tmp_path):
    (tmp_path / "data.csv").write_text('"size, cm",y\n1.5,0\n2.5,1\n3,1\n')
    (tmp_path / "new.csv").write_text('"size, cm"\n1.5\n4.25\n')
    assert_array_equal(read_new_rows(tmp_path / "new.csv", read_csv(tmp_path / "data.csv")).X, [[1.5], [4.25]])
