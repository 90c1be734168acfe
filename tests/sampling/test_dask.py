"""Chains on the workers of a Dask cluster on the loopback address: the draws of a run without it."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import dask
import pytest
from dask.distributed import Client, LocalCluster
from numpy.testing import assert_array_equal

import pmgp
from case_studies.tools.spread import spread
from pmgp.interface.executors import executor_of, workers
from tests.case_studies.test_spread import UNITS, squared
from tests.sampling.runs import assert_same_run, size
from tests.sampling.test_evidences import QUICK, model

pytestmark = [pytest.mark.filterwarnings("ignore::UserWarning"), pytest.mark.full]

ROOM = 180.0
"""Seconds that connections may take. The default, 30, may pass while this process compiles and answers no worker."""


@pytest.fixture(scope="module")
def client():
    room = {f"distributed.comm.timeouts.{name}": f"{ROOM}s" for name in ("connect", "tcp")}
    with (
        dask.config.set(room),
        LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as cluster,
        Client(cluster, timeout=ROOM) as client,
    ):
        client.wait_for_workers(2, timeout=ROOM)
        yield client


def test_draws_are_those_of_a_run_without_a_cluster(sample, client):
    assert_same_run(sample(executor=client.get_executor()), sample())


def test_the_chain_of_a_killed_worker_goes_on(sample, client, tmp_path):
    """Both chains have begun when one of the two workers is killed."""
    before = set(client.run(os.getpid).values())
    sizes = []

    def kill():
        deadline = time.monotonic() + ROOM
        while not (size(tmp_path, 0) and size(tmp_path, 1)) and time.monotonic() < deadline:
            time.sleep(0.002)
        os.kill(min(before), signal.SIGKILL)
        sizes.extend(size(tmp_path, chain) for chain in (0, 1))

    killer = threading.Thread(target=kill)
    killer.start()
    drawn = sample(executor=client.get_executor(), out=tmp_path, flush_every=0.0, draws=300)
    killer.join()
    assert max(sizes) < size(tmp_path, 0) / 2
    assert_same_run(drawn, sample(draws=300))
    assert min(before) not in client.run(os.getpid).values()


def test_the_address_of_a_scheduler_makes_an_executor(client):
    made = executor_of(None, client.scheduler.address)
    with made.__self__, made() as executor:
        assert executor.submit(os.getpid).result(timeout=ROOM) in client.run(os.getpid).values()


def test_models_and_units_of_a_study_travel_to_workers(client):
    """Both are pickled by value, and what they give is what this process gives."""
    models = {"narrow": model(0.5)}
    found = pmgp.evidences(models, executor=client.get_executor(), **QUICK)
    assert_array_equal(found.log_evidence, pmgp.evidences(models, **QUICK).log_evidence)
    kept = {}
    spread(UNITS[:2], squared, kept.__setitem__, client.get_executor())
    assert kept == {UNITS[0]: 0, UNITS[1]: 1}


def test_an_address_without_a_scheduler_is_named(monkeypatch):
    monkeypatch.setattr(workers, "CONNECTION", 1.0)
    with pytest.raises(OSError, match=r"127\.0\.0\.1:1"):
        executor_of(None, "tcp://127.0.0.1:1")


def test_a_package_that_a_worker_lacks_is_named(sample, client):
    client.run(_without, "pmgp.interface.executors.calls")
    try:
        with pytest.raises(pmgp.WorkerError, match="a worker lacks pmgp"):
            sample(executor=client.get_executor(), stall_limit=ROOM)
    finally:
        client.run(_with, "pmgp.interface.executors.calls")


def _without(module):
    sys.modules[module] = None


def _with(module):
    del sys.modules[module]
