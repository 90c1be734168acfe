"""One call that samples: the draws of PyMC, going on, stored runs, and what they refuse."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import signal
import time
from itertools import pairwise

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_array_equal
from pymc.exceptions import SamplingError

import pmgp
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.sampling import NoDrawsError, blocks, recorded_step
from pmgp.interface.sampling.chains import recovered, seconds_spent
from pmgp.interface.sampling.drawing import Run
from pmgp.interface.sampling.plain import from_bytes
from pmgp.interface.sampling.run import _assembled
from pmgp.interface.sampling.stored_run import MANIFEST, Seed
from tests.posix import requires_posix
from tests.sampling.runs import (
    QUIET,
    SETTINGS,
    assert_same_run,
    differing,
    is_running,
    kill_at,
    kill_when_all_have,
    killed,
    resumed,
    size,
)
from tests.sampling.workers import forkserver, limit_files

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(autouse=True)
def without_waiting_for_the_disk(monkeypatch):
    """What a killed process has written is there, on the disk or not; only a machine that fails could tell."""
    monkeypatch.setattr(blocks.os, "fsync", lambda descriptor: None)


@pytest.fixture(scope="module")
def uninterrupted(sample):
    return sample()


@pytest.fixture(scope="module")
def stored(sample, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stored")
    sample(out=folder)
    return folder


# What is drawn


def test_draws_are_those_of_pymc(probit_model, step, uninterrupted):
    settings = SETTINGS | QUIET | {"compute_convergence_checks": False}
    assert_same_run(uninterrupted, pm.sample(model=probit_model, step=step, **settings))


@pytest.mark.parametrize(("cores", "flush_every"), [(1, 100.0), (2, 0.0)])
def test_a_store_changes_no_draw(sample, uninterrupted, tmp_path, cores, flush_every):
    assert_same_run(uninterrupted, sample(out=tmp_path, cores=cores, flush_every=flush_every))


def test_spawned_workers_write_too(sample, uninterrupted, probit_model, step, tmp_path):
    assert_same_run(uninterrupted, sample(out=tmp_path, cores=2, mp_ctx=forkserver()))
    assert_same_run(uninterrupted, resumed(tmp_path, probit_model, step=step))


@pytest.mark.parametrize("seed", [None, [1, 2], "generator", "spawned"])
def test_seeds_of_every_kind_are_kept(seed):
    given = seed
    if seed in ("generator", "spawned"):
        given = np.random.Generator(np.random.MT19937(3))
        given.spawn(5 if seed == "spawned" else 1)
    kept = Seed.from_random_seed(given)
    kept = Seed(**json.loads(json.dumps(vars(kept))))
    first, second = kept.generator(), kept.generator()
    keys = [child.bit_generator.seed_seq.spawn_key[-1] - kept.first_key for child in first.spawn(3)]
    assert keys == [0, 1, 2]
    assert_array_equal(first.spawn(1)[0].normal(size=2), second.spawn(4)[3].normal(size=2))
    if seed is not None:
        expected = pm.util.get_random_generator(given).spawn(1)[0]
        assert_array_equal(kept.generator().spawn(1)[0].normal(size=3), expected.normal(size=3))


def test_without_a_step_method_the_recommended_one_is_used(probit_model, uninterrupted, caplog):
    caplog.set_level(logging.INFO, logger="pymc")
    idata = pmgp.sample(probit_model, **SETTINGS, progressbar=False)
    assert_same_run(uninterrupted, idata)
    assert "pmgp.PseudoMarginal()" in caplog.text
    assert idata.attrs["pmgp_report"] in caplog.text
    assert "effective draws" in idata.attrs["pmgp_report"]


# Going on


def test_chains_go_on_until_there_are_enough_effective_draws(sample):
    idata = sample(ess=120)
    draws = idata["posterior"].sizes["draw"]
    assert draws > SETTINGS["draws"]
    found = pmgp.interface.sampling.report(idata, 120).convergence
    assert found.ess >= 120
    # The chains of one longer run.
    assert_same_run(idata, sample(draws=draws))


def test_going_on_ends_at_the_most_draws(sample, caplog):
    idata = sample(ess=1e6, max_draws=80, quiet=False)
    assert idata["posterior"].sizes["draw"] == 80
    assert "effective draws instead of 1000000" in idata.attrs["pmgp_report"]


def test_an_interruption_while_going_on_keeps_what_there_is(sample, uninterrupted, monkeypatch):
    def interrupted(self, trace, draw):
        if draw.draw_idx == 40:
            raise KeyboardInterrupt

    monkeypatch.setattr("pmgp.interface.sampling.effective_draws.EffectiveDraws.__call__", interrupted)
    assert_same_run(uninterrupted, sample(ess=1e6))


# Interrupted runs


@pytest.mark.parametrize("iteration", [0, 59, 60])
def test_a_killed_run_loses_what_was_not_written_and_gives_the_same_draws(
    sample, uninterrupted, probit_model, step, tmp_path, iteration
):
    killed(lambda: sample(out=tmp_path, flush_every=0.0, callback=kill_at(iteration, chain=1)))
    assert recovered(tmp_path / "chain-0").iterations == 120
    assert recovered(tmp_path / "chain-1").iterations == iteration + 1
    assert_same_run(uninterrupted, resumed(tmp_path, probit_model, step=step))


@pytest.mark.parametrize("fraction", [0.3, 0.9])
def test_killed_workers_give_the_same_draws(sample, uninterrupted, probit_model, step, stored, tmp_path, fraction):
    folder, limit = tmp_path / "run", fraction * size(stored, 1)
    killed(lambda: sample(out=folder, cores=2, flush_every=0.005), when=lambda: size(folder, 1) > limit)
    assert_same_run(uninterrupted, resumed(folder, probit_model, step=step))


def test_workers_end_with_a_killed_parent(sample, uninterrupted, probit_model, step, tmp_path):
    """PyMC's own would wait for ever, with the chain's files in their hands."""

    def kill(trace, draw):
        if (draw.chain, draw.draw_idx) == (1, 20):
            workers = [process.pid for process in multiprocessing.active_children()]
            (tmp_path / "workers").write_text(json.dumps(workers))
            os.kill(os.getpid(), signal.SIGKILL)

    killed(lambda: sample(out=tmp_path / "run", cores=2, flush_every=0.0, callback=kill))
    workers = json.loads((tmp_path / "workers").read_text())
    assert len(workers) == 2
    deadline = time.monotonic() + 20.0
    while any(is_running(worker) for worker in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(is_running(worker) for worker in workers)
    assert_same_run(uninterrupted, resumed(tmp_path / "run", probit_model, step=step))


def test_a_run_killed_at_five_moments_gives_the_same_draws(sample, probit_model, step, tmp_path):
    """Killed again and again: each time it goes on, until both chains have made some more iterations."""
    long = {"draws": 1200, "tune": 150, "cores": 2}
    expected = sample(**long)
    folder, counts = tmp_path / "run", []
    for iterations in 250 * np.arange(5) + np.random.default_rng(15).integers(50, 150, size=5):
        rest = {"flush_every": 0.02, "callback": kill_when_all_have(iterations)}
        if counts:
            killed(lambda rest=rest: resumed(folder, probit_model, step=step, **rest))
        else:
            killed(lambda rest=rest: sample(out=folder, **long, **rest))
        counts.append([recovered(folder / f"chain-{number}").iterations for number in range(2)])
    assert all(before <= after for chain in zip(*counts, strict=True) for before, after in pairwise(chain))
    assert all(min(before) < min(after) for before, after in pairwise(counts))
    assert_same_run(expected, resumed(folder, probit_model, step=step))


def test_a_chain_whose_generator_is_not_restored_is_noticed(
    sample, uninterrupted, probit_model, step, tmp_path, monkeypatch
):
    """A broken twin of the restoring: the comparison above has to fail for it."""
    killed(lambda: sample(out=tmp_path, flush_every=0.0, callback=kill_at(80, chain=0)))

    def with_another_generator(data):
        seconds, state = from_bytes(data)
        state.methods[0].rng.bit_generator_state["state"]["inc"] += 2
        return seconds, state

    monkeypatch.setattr(recorded_step, "from_bytes", with_another_generator)
    broken = resumed(tmp_path, probit_model, step=step)
    assert {"f", "log_marginal_likelihood"} <= differing(uninterrupted, broken)


def test_an_interrupted_run_returns_what_there_is_and_goes_on(sample, uninterrupted, probit_model, step, tmp_path):
    def interrupt(trace, draw):
        if draw.draw_idx == 100:
            raise KeyboardInterrupt

    idata = sample(out=tmp_path, callback=interrupt)
    assert idata["posterior"].sizes["draw"] == 41
    assert_array_equal(idata["posterior"]["f"], uninterrupted["posterior"]["f"][:, :41])
    assert_same_run(uninterrupted, resumed(tmp_path, probit_model, step=step))


def test_an_interruption_while_tuning_says_how_to_go_on(sample, uninterrupted, probit_model, step, tmp_path):
    def interrupt(trace, draw):
        if draw.draw_idx == 20:
            raise KeyboardInterrupt

    with pytest.raises(SamplingError, match=r"interrupted while tuning, .*pmgp\.resume\('"):
        sample(out=tmp_path, callback=interrupt)
    assert_same_run(uninterrupted, resumed(tmp_path, probit_model, step=step))


def test_the_time_before_an_interruption_counts(sample, probit_model, step, tmp_path):
    first = sample(out=tmp_path)
    spent = sum(seconds_spent(tmp_path / f"chain-{chain}") for chain in range(2))
    assert 0.0 < spent < first["posterior"].attrs["sampling_time"]
    again = resumed(tmp_path, probit_model, step=step)
    for group in ("posterior", "sample_stats"):
        assert again[group].attrs["sampling_time"] > spent


def test_a_finished_run_can_be_made_longer(sample, probit_model, step, tmp_path):
    sample(out=tmp_path)
    longer = resumed(tmp_path, probit_model, step=step, draws=90)
    assert_same_run(sample(draws=90), longer)
    # That is what the run is for from now on.
    assert_same_run(longer, resumed(tmp_path, probit_model, step=step))


def test_going_on_can_be_interrupted_too(sample, probit_model, step, tmp_path):
    expected = sample(ess=120)
    first = SETTINGS["tune"] + SETTINGS["draws"]

    def goes_on():
        return recovered(tmp_path / "chain-0").iterations > first

    killed(lambda: sample(ess=120, out=tmp_path, flush_every=0.005), when=goes_on)
    assert goes_on()
    assert_same_run(expected, resumed(tmp_path, probit_model, step=step))


def test_starting_points_are_kept(sample, probit_model, step, tmp_path):
    starts = [{"lengthscale": np.array(0.5)}, {"variance": 3.0, "f": np.ones(20)}]
    expected = sample(initvals=starts)
    killed(lambda: sample(initvals=starts, out=tmp_path, flush_every=100.0, callback=kill_at(5, chain=0)))
    assert recovered(tmp_path / "chain-0").iterations == 0
    assert_same_run(expected, resumed(tmp_path, probit_model, step=step))


def several_steps(model, nuts):
    theta = [model["lengthscale"], model["variance"]]
    if nuts:
        other = pm.NUTS(theta, model=model, mode=INTERPRETED)
    else:
        other = pm.Slice(theta, model=model, compile_kwargs={"mode": INTERPRETED})
    return [pmgp.EllipticalSlice(model=model), other]


@pytest.mark.parametrize("nuts", [False, True])
def test_several_step_methods_go_on_together(probit_model, tmp_path, nuts):
    settings = SETTINGS | QUIET | {"chains": 1, "tune": 60, "draws": 30}
    steps, fresh = several_steps(probit_model, nuts), several_steps(probit_model, nuts)
    # PyTensor's functions may round otherwise in the process that compiles them than in those that read them from disk.
    killed(lambda: pmgp.sample(probit_model, **settings, step=fresh, callback=kill_at(1, chain=0)))
    iterations = (30, 75)
    for iteration in iterations:
        # The process that is killed has a copy, so that these stay fresh.
        stored = settings | {"step": fresh, "out": tmp_path / str(iteration), "flush_every": 0.0}
        killed(lambda s=stored, at=iteration: pmgp.sample(probit_model, **s, callback=kill_at(at, chain=0)))
    expected = pmgp.sample(probit_model, step=fresh, **settings)
    assert_same_run(expected, pm.sample(model=probit_model, step=steps, compute_convergence_checks=False, **settings))
    for iteration in iterations:
        # Those were used for another run, and PyMC's do not forget by themselves what they learned there.
        assert_same_run(expected, resumed(tmp_path / str(iteration), probit_model, step=steps))


# What is refused, and what is damaged


def classifier(X, y, prior=2, kernel=pm.gp.cov.ExpQuad) -> pm.Model:
    with pm.Model() as model:
        lengthscale = pm.Gamma("lengthscale", prior, 1)
        variance = pm.Gamma("variance", 2, 0.5)
        gp = pm.gp.Latent(cov_func=variance * kernel(2, ls=lengthscale))
        f = gp.prior("f", X=X, reparameterize=False)
        pmgp.BernoulliProbit("y", f, observed=y)
    return model


def test_the_same_model_built_again_is_the_same(binary_data, stored, uninterrupted):
    assert_same_run(uninterrupted, resumed(stored, classifier(*binary_data)))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda X, y: classifier(X[:19], y[:19]), r"the variable 'f' is of shape \(19,\), float64, but was of"),
        (lambda X, y: classifier(X, 1 - y), "the observed variable 'y' has other values"),
        (lambda X, y: classifier(X + 1e-9, y), "its priors, its covariance function, its inputs"),
        (lambda X, y: classifier(X, y, prior=2.5), "its priors"),
        (lambda X, y: classifier(X, y, kernel=pm.gp.cov.Matern52), "its covariance function"),
    ],
)
def test_another_model_is_refused(binary_data, stored, change, words, monkeypatch):
    # The model is looked at before the step methods, which would take time to construct.
    monkeypatch.setattr("pmgp.interface.sampling.run._assembled", lambda *_: pm.step_methods.compound.CompoundStep([]))
    with pytest.raises(pmgp.StoreError, match=rf"was made with another model: .*{words}"):
        resumed(stored, change(*binary_data))


def test_other_step_methods_are_refused(probit_model, stored):
    other = pmgp.PseudoMarginal(model=probit_model, latent_moves=2)
    with pytest.raises(
        pmgp.StoreError, match=r"other step methods or settings: .*latent_moves=1.*; not .*latent_moves=2"
    ):
        resumed(stored, probit_model, step=other)


def test_a_folder_that_holds_something_is_refused(sample, probit_model, stored, tmp_path):
    with pytest.raises(pmgp.StoreError, match="is a file: give a folder"):
        pmgp.sample(probit_model, out=__file__)
    with pytest.raises(pmgp.StoreError, match=r"is not empty: continue its run with pmgp\.resume"):
        sample(out=stored)
    with pytest.raises(pmgp.StoreError, match="holds no run"):
        resumed(tmp_path, probit_model)


def test_what_failed_before_a_chain_began_leaves_no_run(sample, tmp_path):
    folder = tmp_path / "run"
    with pytest.raises((TypeError, ValueError), match="no_option"):
        sample(out=folder, no_option=1)
    assert not folder.exists()


def test_what_was_interrupted_before_a_chain_began_can_go_on(sample, tmp_path, monkeypatch):
    def interrupted(run):
        raise NoDrawsError("interrupted")

    monkeypatch.setattr(Run, "completed", interrupted)
    with pytest.raises(NoDrawsError):
        sample(out=tmp_path / "run")
    assert (tmp_path / "run" / MANIFEST).exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text[:200], "is damaged"),
        (lambda text: text.replace('"tune": 60', '"tune": 61'), "is damaged: its checksum is wrong"),
        (lambda text: text.replace('"format": 1', '"format": 9'), "is of format 9; this version reads 1"),
        (lambda text: "[]", "describes no run"),
    ],
)
def test_a_damaged_description_is_an_error(probit_model, stored, tmp_path, change, words):
    (tmp_path / MANIFEST).write_text(change((stored / MANIFEST).read_text()))
    with pytest.raises(pmgp.StoreError, match=words):
        resumed(tmp_path, probit_model)


def test_damaged_draws_are_named_and_drawn_again(sample, uninterrupted, probit_model, step, tmp_path, caplog):
    sample(out=tmp_path, flush_every=0.0)
    for name, place in (("chain-0/state", 100), ("chain-1/draws", 5000)):
        data = bytearray((tmp_path / name).read_bytes())
        data[place] ^= 1
        (tmp_path / name).write_bytes(data)
    assert_same_run(uninterrupted, resumed(tmp_path, probit_model, step=step, quiet=False))
    assert "Chain 0 of the run in" in caplog.text
    assert "its file 'state' is damaged. It continues from the last intact state, at iteration 119" in caplog.text
    assert "its draws are damaged after iteration 1 of 120" in caplog.text


@pytest.mark.parametrize("cores", [1, 2])
def test_a_full_disk_is_named_and_the_run_goes_on_when_there_is_room(
    sample, uninterrupted, probit_model, step, tmp_path, cores
):
    requires_posix()
    words = r"chain \d could not be stored by the process on .* File too large.* contents of .*run.*pmgp\.resume"
    try:
        limit_files()
        with pytest.raises(pmgp.StoreError, match=words):
            sample(out=tmp_path / "run", cores=cores, flush_every=0.0)
    finally:
        limit_files(-1)
    assert 0 < recovered(tmp_path / "run" / "chain-0").iterations < 120
    assert_same_run(uninterrupted, resumed(tmp_path / "run", probit_model, step=step))


def test_a_chain_that_cannot_be_opened_is_named(sample, probit_model, step, tmp_path):
    sample(out=tmp_path)
    draws = tmp_path / "chain-0" / "draws"
    draws.unlink()
    draws.mkdir()
    with pytest.raises(pmgp.StoreError, match=r"chain 0 could not be stored .*Is a directory"):
        resumed(tmp_path, probit_model, step=step)


def test_another_writer_is_named_by_workers_too(sample, probit_model, step, tmp_path, monkeypatch):
    """In PyMC's workers an error gets another class, and a message of theirs."""
    fcntl = pytest.importorskip("fcntl")
    sample(out=tmp_path)
    monkeypatch.setattr("pmgp.interface.sampling.stored_chain.PATIENCE", 0.1)
    with (tmp_path / "chain-1" / "draws").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(pmgp.StoreError, match=r"^another process writes to .*chain-1"):
            resumed(tmp_path, probit_model, step=step, cores=2)


def test_other_versions_are_named(probit_model, step, stored, monkeypatch, caplog):
    monkeypatch.setattr("pmgp.interface.executors.versions.__version__", "9.9")
    resumed(stored, probit_model, step=step, quiet=False)
    assert "This is pmgp 9.9 and not" in caplog.text


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"draws": 0}, "draws must be an integer of at least 1, not 0"),
        ({"draws": 5.7}, r"draws must be an integer of at least 1, not 5\.7"),
        ({"chains": True}, "chains must be an integer of at least 1, not True"),
        ({"tune": -1}, "tune must be an integer of at least 0, not -1"),
        ({"chains": 0}, "chains must be an integer of at least 1, not 0"),
        ({"cores": 0}, "cores must be an integer of at least 1, not 0"),
        ({"ess": -1}, "ess must be positive"),
        ({"ess": float("inf")}, "ess must be positive and finite, not inf"),
        ({"var_names": []}, "var_names is empty"),
        ({"max_draws": 10}, "max_draws=10 needs ess"),
        ({"ess": 10, "max_draws": 10}, "must be at least draws=60"),
        ({"flush_every": float("nan")}, "flush_every must be"),
        ({"return_inferencedata": False}, "return_inferencedata cannot be given"),
        ({"target_accept": 0.9}, "target_accept cannot be given"),
        ({"ess": 10, "callback": print}, "callback cannot be given together with ess"),
        ({"initvals": {"nothing": 1.0}}, "initvals has 'nothing', which the model does not have"),
        ({"initvals": [{"variance": 1.0}, {"nothing": 1.0}]}, "initvals has 'nothing', .* free variables: .*variance"),
    ],
)
def test_settings_out_of_range_are_refused(sample, settings, words):
    with pytest.raises(ValueError, match=words):
        sample(**settings)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"draws": 0}, "draws must be an integer of at least 1, not 0"),
        ({"cores": 0}, "cores must be an integer of at least 1, not 0"),
        ({"chains": 3}, "chains is that of the run"),
        ({"ess": 10, "max_draws": 80}, "max_draws is that of the run"),
        ({"draws": 2}, r"has \d+ draws of a chain, and draws=2 is their total number"),
    ],
)
def test_what_cannot_change_leaves_a_run_as_it_is(stored, probit_model, step, settings, words):
    before = (stored / MANIFEST).read_bytes()
    with pytest.raises(ValueError, match=words):
        resumed(stored, probit_model, step=step, **settings)
    assert (stored / MANIFEST).read_bytes() == before


def test_numbers_of_numpy_are_stored(sample, tmp_path):
    sample(draws=np.int64(5), tune=np.int64(4), ess=np.float32(1.0), out=tmp_path)
    settings = json.loads((tmp_path / MANIFEST).read_bytes())["run"]["settings"]
    assert (settings["draws"], settings["tune"], settings["ess"]) == (5, 4, 1.0)


def test_no_process_is_left():
    assert multiprocessing.active_children() == []


def test_two_pseudo_marginal_methods_are_refused_before_they_run(probit_model, step):
    other = pmgp.PseudoMarginal(model=probit_model)
    with pytest.raises(ValueError, match="two step methods of class PseudoMarginal move 'f': give one"):
        pmgp.sample(probit_model, step=[step, other], **SETTINGS | QUIET)


def test_variables_without_a_step_method_get_pymc_s():
    with pm.Model() as model:
        first, second = (pm.Bernoulli(name, 0.5) for name in ("first", "second"))
        step, other = pm.BinaryMetropolis([first]), pm.BinaryMetropolis([second])
    made = _assembled(model, step, {})
    assert [value.name for method in made.methods for value in method.vars] == ["first", "second"]
    assert made.methods[0] is step
    assert _assembled(model, [step, other], {}).methods == [step, other]
