"""A cache, another process or a folder that cannot be written to changes nothing that kernels compute."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

import pmgp
from pmgp.core.approximations import ExpectationPropagation
from pmgp.core.approximations.moment_matching import matched_sites
from pmgp.core.gaussians import Conditioning, DensePrior
from pmgp.core.likelihoods import BernoulliProbit
from pmgp.core.numerics.compiled import ordinal, probit
from pmgp.core.numerics.compiled.declaration import digest_of
from tests.kernels.references import by_numpy
from tests.truths import low_rank_problem

# Prints the bytes of q's mean, of draws, of the evidence and of an estimate of it, which all kernels take part in.
FIT = """
import numpy as np
from pmgp.core.approximations import ExpectationPropagation
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.approximations.moment_matching import matched_sites
from pmgp.core.gaussians import Conditioning, DensePrior
from pmgp.core.likelihoods import BernoulliProbit
X = np.random.default_rng(0).normal(size=(40, 2))
K = np.asfortranarray(4.0 * np.exp(-0.5 * np.square(X[:, None] - X).sum(axis=-1)) + 1e-6 * np.eye(40))
likelihood = BernoulliProbit(X[:, 0] > 0.2)
q = ExpectationPropagation(tolerance=1e-3).fit(DensePrior(np.zeros(40), K).factorized(), likelihood)
estimate = ImportanceSampling(4).estimate(np.random.default_rng(2), q, likelihood)
values = [q.log_evidence, estimate.log_evidence]
print(np.concatenate([q.mean, *q.sample(np.random.default_rng(1), 3), values]).tobytes().hex())
"""
# As where neither the package's folder, nor the user's, nor one that is named can be written to.
NOWHERE = """
import numba.core.caching
numba.core.caching.CacheImpl._locator_classes = []
"""


def run(code, folder=None, **environment):
    """What a fresh interpreter prints, and its warnings."""
    settings = {"OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "always", **environment}
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, **settings},
    )
    return done.stdout.strip(), done.stderr


def test_a_cold_cache_a_warm_one_and_none_give_the_same_bits(tmp_path):
    """What is compiled is stored by the first process and read by the second; the third finds no place for it."""
    cache = {"NUMBA_CACHE_DIR": str(tmp_path)}
    cold, first = run(FIT, **cache)
    stored = sorted(tmp_path.rglob("*.nbc"))
    times = [path.stat().st_mtime_ns for path in stored]
    warm, second = run(FIT, **cache)
    nowhere, third = run(NOWHERE + FIT, **cache)
    assert len(stored) > 5
    # One that is made for a likelihood from another kernel, and is stored under its name.
    assert any("probit_estimated" in path.name or "probit_weighed" in path.name for path in stored)
    assert [path.stat().st_mtime_ns for path in sorted(tmp_path.rglob("*.nbc"))] == times
    assert cold == warm == nowhere
    assert "NUMBA_CACHE_DIR" not in first + second
    assert third.count("set the environment variable NUMBA_CACHE_DIR to a writable folder") == 1


@pytest.mark.parametrize("name", ["weighed", "estimated", "slice_move", "renewed", "log_ratios"])
@pytest.mark.parametrize("module", [ordinal, probit])
def test_what_is_made_of_a_kernel_is_known_by_the_name_that_it_has_beside_it(module, name):
    made = getattr(module, name)
    assert pickle.loads(pickle.dumps(made)) is made


def test_both_ways_give_the_same_q_to_rounding():
    prior, y, _ = low_rank_problem(50)
    prior, results = prior.factorized(), []
    for chosen in (nullcontext, by_numpy):
        with chosen():
            q = ExpectationPropagation(tolerance=1e-3).fit(prior, BernoulliProbit(y))
            results.append(np.concatenate([q.mean, *q.sample(np.random.default_rng(1), 3), [q.log_evidence]]))
    np.testing.assert_allclose(*results, rtol=1e-10, atol=1e-12)


def test_arrays_that_cannot_be_written_to_are_taken():
    prior, y, _ = low_rank_problem(20)
    for array in (prior.mean, prior.covariance):
        array.flags.writeable = False
    frozen = DensePrior(prior.mean, prior.covariance)
    assert np.isfinite(ExpectationPropagation().fit(frozen, BernoulliProbit(y)).log_evidence)


def test_arrays_in_any_order_are_taken():
    """Every second element of a longer array, a matrix in C's order and whole numbers."""
    n, rng = 10, np.random.default_rng(0)
    covariance = np.diag(np.arange(1.0, n + 1.0)) + 0.5
    apart, whole = rng.normal(size=2 * n)[::2], np.arange(n)
    linear, precision = np.empty((n, 2)).T, np.arange(1, n + 1)
    linear[:] = 1.0
    results = []
    for prior, sites_given in (
        (DensePrior(apart, np.ascontiguousarray(covariance)), (linear[0], precision)),
        (DensePrior(apart.copy(), np.asfortranarray(covariance)), (np.ones(n), precision.astype(float))),
    ):
        conditioned = Conditioning(prior)
        assert conditioned.on(*sites_given)
        q = conditioned.approximation(0.0, 1)
        likelihood = BernoulliProbit(whole % 2)
        matched = matched_sites(q, likelihood)
        results.append([q.mean, q.sample(np.random.default_rng(1), 3), matched.linear, q.log_ratio(likelihood, apart)])
    for one, other in zip(*results, strict=True):
        assert np.array_equal(one, other)


CONDITION = """
import numpy as np
from pmgp.core.numerics.conditioning import condition
K = np.asfortranarray(np.array([[2.0, 1.0], [1.0, 3.0]]))
mean, _ = condition(K, np.zeros(2), np.ones(2), np.ones(2), np.empty((2, 2), order="F"))
print(repr(mean))
"""


ORTHANT = """
import pmgp
print(repr(pmgp.orthants.log_probability(0.0, 1.0, 0.0, [[1.0, 0.5], [0.5, 1.0]], random_seed=1)))
"""


@pytest.mark.parametrize(
    ("module", "part", "changed_part", "code"),
    [
        ("numerics/compiled/routines.py", '"LLRNTNU"', '"LLRNNNU"', CONDITION),
        ("orthants/compiled_normal.py", "SQRT_HALF = math.sqrt(0.5)", "SQRT_HALF = math.sqrt(0.6)", ORTHANT),
    ],
)
def test_a_change_behind_a_stored_kernel_is_seen(tmp_path, module, part, changed_part, code):
    """The change is in a module that the kernel's own file imports: a flag for transposition, or a constant."""
    shutil.copytree(Path(pmgp.__file__).parent, tmp_path / "pmgp", ignore=shutil.ignore_patterns("__pycache__"))
    imported = tmp_path / "pmgp/core" / module
    settings = {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    before, _ = run(code, tmp_path, **settings)
    source = imported.read_text()
    assert part in source
    imported.write_text(source.replace(part, changed_part))
    changed, _ = run(code, tmp_path, **settings)
    imported.write_text(source)
    again, _ = run(code, tmp_path, **settings)
    assert before == again != changed


def test_the_digest_changes_with_each_module(tmp_path):
    (tmp_path / "one.py").write_text("a")
    (tmp_path / "two.py").write_text("b")
    digests = [digest_of(tmp_path)]
    for change in ({"one.py": "c"}, {"one.py": "ab", "two.py": ""}, {"one.py": "", "two.py": "ab"}):
        for name, text in change.items():
            (tmp_path / name).write_text(text)
        digests.append(digest_of(tmp_path))
    (tmp_path / "two.py").rename(tmp_path / "three.py")
    digests.append(digest_of(tmp_path))
    assert len(set(digests)) == len(digests)
