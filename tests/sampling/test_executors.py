"""Chains as tasks of an executor: the draws of a run on one machine, also after a worker was killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pytest
from numpy.testing import assert_array_equal

import pmgp
from pmgp.interface.executors import calls as executors
from pmgp.interface.executors.versions import worker_versions
from pmgp.interface.sampling import chain_tasks, chains, permit
from pmgp.interface.sampling.stored_chain import recovered
from tests.sampling.kills import PER_KILL, with_kills
from tests.sampling.runs import QUIET, SETTINGS, assert_same_run, differing, is_running, killed, size
from tests.sampling.workers import by_chain, iterations, limit_files, pool, until

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
def alone(sample):
    return sample()


def test_draws_are_those_of_pymc(sample, alone):
    executor = Here()
    assert_same_run(sample(executor=executor), alone)
    assert executor.submitted == SETTINGS["chains"]


def test_one_bar_shows_the_iterations_of_all_chains(sample, capsys):
    sample(executor=Here(), progressbar=True, quiet=False)
    total = SETTINGS["chains"] * (SETTINGS["tune"] + SETTINGS["draws"])
    assert f"{total} of {total} iterations" in capsys.readouterr().out


def test_a_task_with_the_generator_of_another_chain_is_noticed(sample, alone, monkeypatch):
    made = chain_tasks.tasks

    def exchanged(*args):
        first, second = made(*args)
        return [
            replace(first, rng=second.rng),
            replace(second, rng=first.rng),
        ]

    monkeypatch.setattr("pmgp.interface.sampling.drawing.tasks", exchanged)
    assert "f" in differing(sample(executor=Here()), alone)


def test_a_broken_executor_says_how_to_go_on_and_the_run_goes_on(sample, alone, probit_model, step, tmp_path):
    def dies(number):
        if number == 1:
            raise BrokenExecutor("killed")

    with pytest.raises(pmgp.WorkerError, match=r"a worker died: killed.*pmgp\.resume"):
        sample(executor=Here(dies), out=tmp_path)
    assert recovered(chains.chain_folder(tmp_path, 0)).iterations == 120
    assert_same_run(pmgp.resume(tmp_path, probit_model, step=step, executor=Here(), **QUIET), alone)


def test_executors_that_keep_breaking_end_the_run(sample):
    made = []

    def breaks(number):
        raise BrokenExecutor("no memory")

    def executor():
        made.append(Here(breaks))
        return made[-1]

    with pytest.raises(pmgp.WorkerError, match="no memory"):
        sample(executor=executor)
    assert len(made) == executors.ATTEMPTS


def test_an_interruption_keeps_what_is_there(sample, alone, monkeypatch):
    stop_at = 100

    def interrupted(executor, work):
        work.chains = [replace(chain, draws=stop_at - chain.tune) for chain in work.chains]
        for call in work.begin():
            call()
        raise KeyboardInterrupt

    monkeypatch.setattr(chain_tasks, "run_all", interrupted)
    drawn = sample(executor=Here())
    assert dict(drawn.posterior.sizes)["draw"] == stop_at - SETTINGS["tune"]
    assert_array_equal(drawn.posterior["f"], alone.posterior["f"][:, : stop_at - SETTINGS["tune"]])


@pytest.fixture
def ctrl_c():
    """Ctrl-C interrupts, also where the tests run in the background, with the signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_keeps_what_two_processes_have_drawn(sample, alone, tmp_path):
    """The signal comes when both chains have more draws than the run that they are compared with."""
    enough = SETTINGS["tune"] + SETTINGS["draws"]

    def interrupt():
        try:
            until(lambda: min(by_chain(tmp_path)) > enough)
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    drawn = sample(executor=partial(pool, 2), out=tmp_path, flush_every=0.0, draws=100_000)
    thread.join()
    assert SETTINGS["draws"] < drawn.posterior.sizes["draw"] < 100_000
    assert_array_equal(drawn.posterior["f"][:, : SETTINGS["draws"]], alone.posterior["f"])


def test_chains_stop_when_the_run_is_stopped(sample, tmp_path, monkeypatch):
    """A task that fails ends the others soon, and the store keeps what they drew."""
    monkeypatch.setattr(chain_tasks, "EVERY", 0.01)
    ran = chain_tasks.ChainTask.run

    def fails(task, step, permit):
        if task.number == 0:
            ran(task, step, permit)
        else:
            while not size(tmp_path, 0):
                time.sleep(0.002)
            raise RuntimeError("no more")

    monkeypatch.setattr(chain_tasks.ChainTask, "run", fails)
    begun = time.monotonic()
    with ThreadPoolExecutor(2) as pool, pytest.raises(RuntimeError, match="no more"):
        sample(executor=pool, out=tmp_path, flush_every=0.0, draws=100_000)
    assert time.monotonic() - begun < executors.GRACE
    assert 0 < recovered(chains.chain_folder(tmp_path, 0)).iterations < 100_000
    assert not (tmp_path / permit.PERMIT).exists()


def test_chains_go_on_until_there_are_enough_effective_draws(sample):
    one = sample(executor=Here(), ess=40, max_draws=240)
    assert_same_run(one, sample(ess=40, max_draws=240))


def test_other_versions_of_a_worker_are_named(sample, monkeypatch):
    expected = worker_versions() | {"numpy": "1.0"}
    monkeypatch.setattr(executors, "worker_versions", lambda: expected)
    with pytest.raises(pmgp.WorkerError, match=r"the worker on .* has numpy .* and not 1\.0: install the same"):
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
            future.set_result(executors.Ended(self.submitted, None, "elsewhere", 0.0))
            self.submitted += 1
            return future

    with pytest.raises(pmgp.StoreError, match="chain 0 has ended, but its draws are not in"):
        sample(executor=Elsewhere(), out=tmp_path)


def test_a_folder_that_a_worker_does_not_see_is_named(sample, tmp_path):
    def moves(number):
        (tmp_path / permit.PERMIT).unlink(missing_ok=True)

    with pytest.raises(pmgp.StoreError, match="does not find this run in"):
        sample(executor=Here(moves), out=tmp_path)


def test_a_worker_that_nobody_reaches_stops_when_its_permit_is_that_of_a_later_call(tmp_path):
    first = permit.Permit.given(tmp_path)
    assert first.holds()
    second = permit.Permit.given(tmp_path)
    assert second.holds()
    assert not first.holds()


def test_a_full_disk_is_named_and_the_run_goes_on_when_there_is_room(sample, alone, probit_model, step, tmp_path):
    with (
        pool(initializer=limit_files) as limited,
        pytest.raises(pmgp.StoreError, match=r"chain 0 could not be stored by the process on .* File too large"),
    ):
        sample(executor=limited, out=tmp_path, flush_every=0.0)
    assert 0 < recovered(chains.chain_folder(tmp_path, 0)).iterations < 120
    assert_same_run(pmgp.resume(tmp_path, probit_model, step=step, executor=Here(), **QUIET), alone)


class Apart(Executor):
    """An executor with a process for each task, which ends with it; a folder gets a file for each, with its number."""

    def __init__(self, numbers):
        self.numbers = numbers

    def submit(self, function, /, *args, **others):
        process = multiprocessing.get_context("fork").Process(target=function, args=args, kwargs=others)
        process.start()
        (self.numbers / str(process.pid)).touch()
        return Future()


def test_workers_whose_parent_was_killed_leave_their_chains_to_a_run_without_an_executor(
    sample, alone, probit_model, step, tmp_path
):
    """They draw on until they no longer find their permit."""
    run, numbers = tmp_path / "run", tmp_path / "numbers"
    numbers.mkdir()
    long = {"draws": 100_000, "flush_every": 0.02, "out": run}
    killed(lambda: sample(executor=Apart(numbers), **long), when=lambda: min(by_chain(run)) > 20)
    before = by_chain(run)
    until(lambda: min(by_chain(run)) > max(before))

    def interrupt(trace, draw):
        if draw.draw_idx == 119:
            raise KeyboardInterrupt

    drawn = pmgp.resume(run, probit_model, step=step, cores=1, callback=interrupt, **QUIET)
    assert_array_equal(drawn["posterior"]["f"][0, :59], alone["posterior"]["f"][0, :59])
    until(lambda: not any(is_running(int(number.name)) for number in numbers.iterdir()))


def test_chains_that_stall_are_reported_and_nothing_is_lost(sample, alone, probit_model, step, tmp_path, monkeypatch):
    monkeypatch.setattr(executors, "GRACE", 0.1)
    ran, go_on = chain_tasks.ChainTask.run, threading.Event()

    def stalls(task, step, permit):
        ran(replace(task, draws=10), step, permit)
        go_on.wait(60.0)

    monkeypatch.setattr(chain_tasks.ChainTask, "run", stalls)
    with ThreadPoolExecutor(1) as one:
        try:
            with pytest.raises(pmgp.WorkerError, match=r"for 1 seconds; tasks 0, 1 .*pmgp\.resume .*stall_limit="):
                sample(executor=one, out=tmp_path, flush_every=0.0, stall_limit=1.0)
        finally:
            go_on.set()
    monkeypatch.setattr(chain_tasks.ChainTask, "run", ran)
    # On a busy machine the limit may pass before the first iteration.
    assert iterations(tmp_path) <= 70
    assert_same_run(pmgp.resume(tmp_path, probit_model, step=step, executor=Here(), **QUIET), alone)


def test_a_limit_below_the_time_between_two_writes_is_refused(sample):
    with pytest.raises(ValueError, match="stall_limit=5 must be above 10"):
        sample(executor=Here(), stall_limit=5.0, flush_every=10.0)


def test_draws_survive_workers_that_are_killed_at_random_moments(sample, tmp_path):
    assert with_kills(sample, tmp_path, kills=2, seed=1) == (set(), 2, 4 * PER_KILL)


def test_what_makes_no_executor_is_refused(sample):
    with pytest.raises(TypeError, match=r"client\.get_executor"):
        sample(executor=4)
