"""The page "The record" is what the stored results make, and counts what is missing and what differs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from case_studies import record
from case_studies.latent_operators import record as latent_operators
from case_studies.latent_operators import results
from case_studies.tools.record import Article, Entry, Finding, Numbers, Remark, Share, made_by
from case_studies.tools.record_page import agreement, page, section, totals

ARTICLE = Article("Somebody", 2000, "something")
COUNTS = {
    "a comparison of samplers": (6, 0), "several sources of features": (5, 5), "pseudo-marginal chains": (3, 7),
    "annealing": (1, 2), "orthant probabilities": (4, 2), "inducing inputs": (1, 10), "preconditioners": (0, 3),
    "Langevin dynamics without factorizations": (0, 6), "deep processes": (1, 9),
}  # fmt: skip
"""Tables and figures of each article, counted in it."""


def numbers(ours, **more):
    """Three cells of an article, 10, 20 and 30, with deviations of 5, and ours."""
    index = pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)], names=["method", "n"])
    frame = pd.DataFrame({"ours": ours, "article": [10.0, 20.0, 30.0], "deviation": 5.0}, index)
    return Numbers(frame, **more)


def entry(**more):
    return Entry(ARTICLE, "Table 1", "something", study="/case_studies/some_study", **more)


@pytest.fixture(scope="module")
def entries():
    """The page that the stored results make."""
    return record.all_entries()


@pytest.fixture
def stored(monkeypatch, tmp_path):
    """A copy of the results of a study, which a test may change; returns its path and the text of the entries."""
    for name in ("paper", "article", "sensitivity"):
        (tmp_path / f"{name}.csv").write_bytes((results.FOLDER / f"{name}.csv").read_bytes())
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    return tmp_path / "paper.csv", lambda: section(ARTICLE, latent_operators.entries())


def test_the_committed_page_is_what_the_results_make(entries):
    assert record.PAGE.read_text(encoding="utf-8") == record.text(entries), "run python -m case_studies.record"


def test_a_result_that_changes_changes_the_page(stored):
    """The twin of the test above: one number of one line."""
    path, text = stored
    before, lines = latent_operators.entries()[1].numbers, pd.read_csv(path)
    agreeing = f"{before.agree.sum()} of {len(before.there)} within"
    assert agreeing in text()
    lines.loc[0, "ess_ar_mean"] *= 100.0
    lines.to_csv(path, index=False)
    assert f"{before.agree.sum() - 1} of {len(before.there)} within" in text()
    assert agreeing not in text()


def test_a_cell_that_is_missing_is_counted_as_missing(stored):
    path, text = stored
    lines, before = pd.read_csv(path), len(latent_operators.entries()[1].numbers.there)
    chosen = (lines["operator"] == "ELL-SS") & (lines["model"] == "LRG") & (lines["d"] == 2) & (lines["n"] == 100)
    lines[~chosen].to_csv(path, index=False)
    table = latent_operators.entries()[1]
    assert len(table.numbers.there) == before - 1
    assert f"{before - 1} of 96 numbers of the article" in text()
    assert table.extent[0].of == 960


def test_every_table_and_figure_of_the_articles_is_listed_once(entries):
    assert len({(one.article, one.item) for one in entries}) == len(entries)
    for article in record.ORDER:
        kinds = [one.kind for one in entries if one.article == article]
        tables, figures = COUNTS[article.about]
        assert kinds == [(False, k + 1) for k in range(tables)] + [(True, k + 1) for k in range(figures)]


def test_files_that_entries_name_are_there(entries):
    there = record.files(entries)
    named = {name for one in entries for name in one.files}
    assert named <= set(there)
    lines = len(pd.read_csv(results.FOLDER / "paper.csv"))
    assert there["latent_operators/results/paper.csv"] == (lines, "Table 1, Table 2")


@pytest.mark.parametrize(("ours", "agreeing"), [(5.0, True), (20.0, True), (4.9, False), (20.1, False)])
def test_a_factor_of_two_agrees_and_more_does_not(ours, agreeing):
    found = numbers([ours, np.nan, np.nan])
    assert found.agree.tolist() == [agreeing]
    assert len(found.differing) == (not agreeing)


def test_numbers_that_are_missing_agree_with_nothing():
    found = numbers([np.nan, 21.0, np.nan])
    assert (len(found.there), len(found.frame), int(found.agree.sum())) == (1, 3, 1)
    assert agreement(entry(numbers=found)) == "1 of 3 numbers: 1 agree"
    assert entry(numbers=numbers([np.nan] * 3)).empty
    assert not entry(numbers=found).empty


def test_zero_agrees_with_zero_only():
    index = pd.MultiIndex.from_tuples([("a", 1), ("a", 2)])
    found = Numbers(pd.DataFrame({"ours": [0.0, 0.0], "article": [0.0, 1.0]}, index))
    assert found.agree.tolist() == [True, False]


def test_deviations_are_those_of_the_article():
    assert numbers([20.0, 30.1, 30.0]).within_deviations.tolist() == [True, False, True]


def test_speeds_are_not_judged():
    found = numbers([1000.0, 2000.0, 3000.0], speeds=True)
    assert found.differing.empty
    text = section(ARTICLE, [entry(numbers=found)])
    assert "not judged" in text
    assert "dropdown" not in text
    assert "Of 0 printed numbers" in totals([entry(numbers=found)])


def test_a_remark_is_counted_for_the_cells_that_it_is_about():
    """The first cell is within two deviations as well; what a remark is about is not counted twice."""
    one = entry(numbers=numbers([1.0, 2.0, 3.0]), remarks=[Remark("the data are others.", {"method": ["a"]})])
    text = section(ARTICLE, [one])
    assert "- (1) 2 cells differ: the data are others." in text
    assert "- One cell differs: not explained." in text
    assert "differ by more, 2 are explained below, 0 are within two of the article's deviations, and 1 are" in totals(
        [one]
    )


def test_cells_within_the_deviations_are_a_reason_of_their_own():
    one = entry(numbers=numbers([1.0, 2.0, 3.0]))
    assert "- One cell differs: within two of the article's deviations." in section(ARTICLE, [one])
    assert "- 2 cells differ: not explained." in section(ARTICLE, [one])
    assert "| a | 1 | 1 | 10 | 0.1 | deviations |" in section(ARTICLE, [one])


def test_a_remark_about_cells_that_agree_is_not_printed():
    one = entry(numbers=numbers([10.0, 20.0, 3.0]), remarks=[Remark("the data are others.", {"method": ["a"]})])
    assert "others" not in section(ARTICLE, [one])
    assert "One cell differs: not explained." in section(ARTICLE, [one])


def test_shares_count_the_lines_that_are_wanted():
    wanted = pd.DataFrame({"n": [1, 2, 3]})
    assert str(Share.counted(pd.DataFrame({"n": [2, 2, 9], "x": 0.0}), wanted, "cells")) == "1 of 3 cells"


def test_lines_without_a_stream_say_so():
    lines = pd.DataFrame(
        {"scale": "paper", "chains": 10, "draws": 2000, "seed": 7, "version": "1", "machine": "m"}, [0]
    )
    assert made_by(lines) == "paper; 10 × 2,000 draws; seed 7; 1; m; random streams by position"
    assert made_by(lines.assign(streams="by name")) == "paper; 10 × 2,000 draws; seed 7; 1; m"


def test_a_reason_stands_where_there_is_nothing():
    one = Entry(ARTICLE, "Figure 2", "p(y|f)", missing="the data are not public")
    text = page("A title", "Words.", [entry(findings=[Finding("it holds", True)]), one], {"a.csv": (3, "Table 1")})
    assert "The articles have 2 tables and figures.\nThe studies have something of 1." in text
    assert "| Figure\N{NO-BREAK SPACE}2 | " r"p(y\|f) | – | the data are not public |" in text
    assert "- ✓ it holds" in text
