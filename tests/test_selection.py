"""The quick loop runs something of every file of tests, or it is said here why not."""

from __future__ import annotations

import pytest

from tests.selection import SEEN, files, mark_full, modules_without, names_of_no_case

# Of these the quick loop runs nothing: a test of a chain takes seconds at least, and what is quick to see of the same
# samplers is in other files.
WHY = {
    "blocks/test_block_operators.py": "Geweke's test of operators; see blocks/test_article_samplers.py",
    "fields/test_agreement.py": "moments of long chains; see fields/test_autoregressions.py",
    "fields/test_geweke.py": "Geweke's test of chains; see fields/test_autoregressions.py",
    "latent_updates/test_geweke_operators.py": "Geweke's test of operators; see latent_updates/test_transitions.py",
    "linear_predictors/test_geweke.py": "Geweke's test of chains; see linear_predictors/test_exact.py",
    "linear_predictors/test_geweke_correlated.py": "Geweke's test of chains; see linear_predictors/test_correlated.py",
    "linear_predictors/test_geweke_maps.py": "Geweke's test of chains; see linear_predictors/test_maps.py",
    "linear_predictors/test_workflow.py": "whole runs; see linear_predictors/test_design.py",
    "marginal/test_estimator_agreement.py": "moments of long chains; see marginal/test_pseudo_marginal_chain.py",
    "marginal/test_orthant_agreement.py": "moments of long chains; see estimators/test_orthant.py",
    "marginal/test_posterior_agreement.py": "moments of long chains; see marginal/test_pseudo_marginal_chain.py",
    "marginal/test_route_agreement.py": "moments of long chains; see marginal/test_pseudo_marginal_chain.py",
    "sampling/test_dask.py": "workers in processes of their own; see sampling/test_executors.py",
    "sparse/test_other_samplers.py": "JAX and other packages, which take seconds to import and to compile",
    "steps/test_routes.py": "moments of long chains; see steps/test_contract.py",
    "test_benchmarks.py": "figures that are timed; see test_benchmark_options.py",
    "time_series/test_memory.py": "the memory of a process of its own; see test_benchmark_options.py",
    "theta_updates/test_gibbs_agreement.py": "moments of long chains; see theta_updates/test_theta_operators.py",
}


@pytest.fixture
def collected(request):
    items = request.config.stash[SEEN]
    if {item.path for item in items} != files():
        pytest.skip("not all tests are collected")
    return items


def test_every_file_is_represented_or_it_is_said_why_not(collected):
    assert modules_without(collected) == set(WHY)


def test_representatives_are_cases(collected):
    assert names_of_no_case(collected) == set()


def test_most_tests_are_in_the_quick_loop(collected):
    """What is left out are exceptions."""
    out = sum(1 for item in collected if item.get_closest_marker("slow") or item.get_closest_marker("full"))
    assert out < len(collected) / 2


SAMPLE = """
import pytest

@pytest.mark.representatives("b", "gone")
@pytest.mark.parametrize("case", ["a", "b", "c"])
def test_some(case): ...

@pytest.mark.representatives(but=["b"])
@pytest.mark.parametrize("case", ["a", "b", "c"])
def test_all_but_one(case): ...

@pytest.mark.parametrize("case", ["a", "b"])
def test_all(case): ...
"""


def test_all_but_the_representatives_are_left_out(request, tmp_path):
    path = tmp_path / "test_sample.py"
    path.write_text(SAMPLE)
    items = list(request.session.genitems(pytest.Module.from_parent(request.session, path=path)))
    mark_full(items)
    quick = [item.name for item in items if item.get_closest_marker("full") is None]
    assert quick == ["test_some[b]", "test_all_but_one[a]", "test_all_but_one[c]", "test_all[a]", "test_all[b]"]
    (unknown,) = names_of_no_case(items)
    assert unknown.endswith("::test_some[gone]")


def test_a_file_of_long_tests_alone_is_noticed(request, tmp_path, monkeypatch):
    monkeypatch.setattr("tests.selection.FOLDER", tmp_path)
    items = []
    for name, mark in (("long", "slow"), ("other", "full"), ("short", "filterwarnings")):
        path = tmp_path / f"test_{name}.py"
        path.write_text(f"import pytest\n\n@pytest.mark.{mark}\ndef test_it(): ...\n")
        items += request.session.genitems(pytest.Module.from_parent(request.session, path=path))
    assert modules_without(items) == {"test_long.py", "test_other.py"}
