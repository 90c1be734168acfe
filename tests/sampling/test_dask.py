"""Chains on the workers of a Dask cluster on the loopback address: the draws of a run without it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import dask
import pytest
from dask.distributed import Client, LocalCluster
from numpy.testing import assert_array_equal

import pmgp
from case_studies.tools.spread import spread
from pmgp.interface.executors import executor_of, workers
from tests.case_studies.test_spread import UNITS, squared
from tests.posix import requires_posix
from tests.sampling.runs import assert_same_run, size
from tests.sampling.test_evidences import QUICK, model
from tests.sampling.workers import until

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

PAGE = Path(__file__).parents[2] / "docs" / "more_than_one_machine.md"
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
    requires_posix()
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


def test_commands_of_the_page_run_the_demo_and_leave_no_process(tmp_path):
    """With a free port, and fewer draws than most pictures need; what the commands start is in a session of its own."""
    [block] = re.findall(r"```bash\n(dask scheduler.*?)```", PAGE.read_text(), re.DOTALL)
    with socket.create_server(("127.0.0.1", 0)) as free:
        commands = block.replace("8786", str(free.getsockname()[1]))
    few = f"pmgp run crabs --draws 5 --tune 20 --chains 2 --cores 1 --out {tmp_path / 'run'}"
    environment = os.environ | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": f"{ROOM}s",
    }
    with (tmp_path / "output").open("wb") as output:
        shell = subprocess.Popen(
            ["bash", "-ec", commands.replace("pmgp run crabs", few)],
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = shell.wait(timeout=3 * ROOM)
            until(lambda: not in_session(shell.pid))
        finally:
            for process in in_session(shell.pid):
                os.kill(process, signal.SIGKILL)
    said = (tmp_path / "output").read_text()
    assert code == 0, said
    assert len(set(re.findall(r"^chain \d+ .*, process (\d+) ", said, re.MULTILINE))) == 2, said
    assert (tmp_path / "run" / "report.html").exists()


def in_session(leader):
    """Processes of a session, without those that have ended and wait for someone to ask."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, session = path.read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and state != "Z":
                found.append(int(path.parent.name))
    return found


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
