"""Chains as tasks of an executor: the draws of a run on one machine, also after a worker was killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import pytest
from numpy.testing import assert_array_equal

import pmgp
from pmgp.interface.sampling import chain_tasks, recorded_step
from pmgp.interface.sampling.stored_chain import recovered
from tests.sampling.runs import QUIET, SETTINGS, assert_same_run, differing, size

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


class Here(Executor):
    """An executor without workers, which calls `before` with the number of each task."""

    def __init__(self, before=lambda number: None):
        self.before = before
        self.submitted = 0

    def submit(self, function, /, *args, **others):
        future: Future = Future()
        try:
            self.before(self.submitted)
            future.set_result(function(*args, **others))
        except BaseException as error:
            future.set_exception(error)
        self.submitted += 1
        return future


@pytest.fixture(scope="module")
def step(probit_model):
    return pmgp.PseudoMarginal(model=probit_model)


@pytest.fixture(scope="module")
def sample(probit_model, step):
    def call(**settings):
        return pmgp.sample(probit_model, **SETTINGS | QUIET | {"step": step} | settings)

    return call


@pytest.fixture(scope="module")
def alone(sample):
    return sample()


def test_draws_are_those_of_pymc(sample, alone):
    executor = Here()
    assert_same_run(sample(executor=executor), alone)
    assert executor.submitted == SETTINGS["chains"]


def test_a_task_with_the_generator_of_another_chain_is_noticed(sample, alone, monkeypatch):
    made = chain_tasks.tasks

    def exchanged(*args):
        first, second = made(*args)
        return [
            chain_tasks.ChainTask(first.number, second.rng, first.start, first.tune, first.draws),
            chain_tasks.ChainTask(second.number, first.rng, second.start, second.tune, second.draws),
        ]

    monkeypatch.setattr("pmgp.interface.sampling.drawing.tasks", exchanged)
    assert "f" in differing(sample(executor=Here()), alone)


@pytest.mark.full
def test_a_killed_worker_is_replaced_and_its_chain_goes_on(sample, tmp_path):
    """One spawned worker draws both chains, and is killed in the second one."""
    pools = []

    def made():
        pools.append(ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")))
        return pools[-1]

    def kill():
        deadline = time.monotonic() + 120.0
        while size(tmp_path, 1) == 0 and time.monotonic() < deadline:
            time.sleep(0.002)
        os.kill(next(iter(pools[0]._processes)), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    drawn = sample(executor=made, out=tmp_path, flush_every=0.0, draws=200)
    killer.join()
    assert len(pools) == 2
    assert_same_run(drawn, sample(draws=200))


def test_a_broken_executor_says_how_to_go_on_and_the_run_goes_on(sample, alone, probit_model, step, tmp_path):
    def dies(number):
        if number == 1:
            raise chain_tasks.BrokenExecutor("killed")

    with pytest.raises(pmgp.WorkerError, match=r"a worker died: killed.*pmgp\.resume"):
        sample(executor=Here(dies), out=tmp_path)
    assert recovered(recorded_step.chain_folder(tmp_path, 0)).iterations == 120
    assert_same_run(pmgp.resume(tmp_path, probit_model, step=step, executor=Here(), **QUIET), alone)


def test_executors_that_keep_breaking_end_the_run(sample):
    made = []

    def breaks(number):
        raise chain_tasks.BrokenExecutor("no memory")

    def executor():
        made.append(Here(breaks))
        return made[-1]

    with pytest.raises(pmgp.WorkerError, match="no memory"):
        sample(executor=executor)
    assert len(made) == chain_tasks.ATTEMPTS


def test_an_interruption_keeps_what_is_there(sample, alone, monkeypatch):
    stop_at = 100
    monkeypatch.setattr(chain_tasks, "EVERY", 0.0)

    def interrupted(executor, sent, run, chains, show):
        for chain in chains:
            shorter = chain_tasks.ChainTask(chain.number, chain.rng, chain.start, chain.tune, stop_at - chain.tune)
            chain_tasks.run_task(chain_tasks.versions(), sent, shorter)
        raise KeyboardInterrupt

    monkeypatch.setattr(chain_tasks, "_run_all", interrupted)
    drawn = sample(executor=Here())
    assert dict(drawn.posterior.sizes)["draw"] == stop_at - SETTINGS["tune"]
    assert_array_equal(drawn.posterior["f"], alone.posterior["f"][:, : stop_at - SETTINGS["tune"]])


def test_chains_stop_when_the_run_is_stopped(sample, tmp_path, monkeypatch):
    """A task that fails ends the others soon, and the store keeps what they drew."""
    monkeypatch.setattr(chain_tasks, "EVERY", 0.01)
    ran = chain_tasks.ChainTask.run

    def fails(task, step):
        if task.number == 0:
            ran(task, step)
        else:
            while not size(tmp_path, 0):
                time.sleep(0.002)
            raise RuntimeError("a full disk")

    monkeypatch.setattr(chain_tasks.ChainTask, "run", fails)
    begun = time.monotonic()
    with ThreadPoolExecutor(2) as pool, pytest.raises(RuntimeError, match="a full disk"):
        sample(executor=pool, out=tmp_path, flush_every=0.0, draws=100_000)
    assert time.monotonic() - begun < chain_tasks.GRACE
    assert 0 < recovered(recorded_step.chain_folder(tmp_path, 0)).iterations < 100_000
    assert not (tmp_path / chain_tasks.STOP).exists()


def test_chains_that_have_not_begun_are_not_waited_for(tmp_path):
    begun = time.monotonic()
    chain_tasks._stop({Future()}, tmp_path)
    assert time.monotonic() - begun < chain_tasks.GRACE / 2


@pytest.mark.full
def test_chains_go_on_until_there_are_enough_effective_draws(sample):
    one = sample(executor=Here(), ess=40, max_draws=240)
    assert_same_run(one, sample(ess=40, max_draws=240))


def test_other_versions_of_a_worker_are_named(sample, monkeypatch):
    found = chain_tasks.versions()
    answers = iter([found | {"numpy": "1.0"}])
    monkeypatch.setattr(chain_tasks, "versions", lambda: next(answers, found))
    with pytest.raises(pmgp.WorkerError, match=r"the worker has numpy .* and not 1\.0"):
        sample(executor=Here())


def test_a_missing_package_is_named(sample):
    def lacks(number):
        raise ModuleNotFoundError("No module named 'pmgp'", name="pmgp")

    with pytest.raises(pmgp.WorkerError, match="a worker lacks pmgp"):
        sample(executor=Here(lacks))


def test_a_step_that_cannot_be_pickled_is_named(sample, monkeypatch):
    monkeypatch.setattr(pmgp.PseudoMarginal, "__reduce__", _refuse)
    with pytest.raises(pmgp.WorkerError, match="pseudo_marginal cannot be sent to workers"):
        sample(executor=Here())


def _refuse(step):
    raise TypeError("a socket")


def test_a_store_that_is_not_shared_is_named(sample, tmp_path):
    class Elsewhere(Here):
        def submit(self, function, /, *args, **others):
            future: Future = Future()
            future.set_result(None)
            return future

    with pytest.raises(pmgp.StoreError, match="chain 0 has ended, but its draws are not in"):
        sample(executor=Elsewhere(), out=tmp_path)


def test_what_makes_no_executor_is_refused(sample):
    with pytest.raises(TypeError, match=r"client\.get_executor"):
        sample(executor=4)
