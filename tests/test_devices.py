"""Two devices, of one process or of two, have the products and gradients of one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

jax = pytest.importorskip("jax")
from pmgp.core.tiles import blocks  # noqa: E402
from pmgp.core.tiles import products as tiles  # noqa: E402
from tests.devices import by_tiles, fitted, gradients  # noqa: E402
from tests.quick_compilation import quick_compilation  # noqa: E402, F401

ROOT = Path(__file__).parent.parent
# XLA optimizes these programs for longer than they run.
QUICK = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "true", "JAX_PLATFORMS": "cpu"}


def start(*arguments, **environment):
    command = [sys.executable, "-m", "tests.devices", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, env=os.environ | QUICK | environment, stderr=subprocess.PIPE, text=True)


def finish(process):
    try:
        _, said = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 0, said


@pytest.fixture(scope="module")
def one():
    with jax.enable_x64(True):
        return gradients(None)


def agree(found, one):
    assert set(found) == set(one)
    for name, expected in one.items():
        assert_allclose(found[name], expected, rtol=0.0, atol=1e-12 * np.abs(expected).max(), err_msg=name)


def test_two_devices_of_one_process(tmp_path, one):
    finish(start(tmp_path / "two.npz", XLA_FLAGS="--xla_force_host_platform_device_count=2"))
    agree(np.load(tmp_path / "two.npz"), one)


def test_two_processes(tmp_path, one):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    processes = [start(tmp_path / f"{number}.npz", address, number, XLA_FLAGS="") for number in (0, 1)]
    for process in processes:
        finish(process)
    with jax.enable_x64(True):
        expected = one | fitted(None)
    for number in (0, 1):
        agree(np.load(tmp_path / f"{number}.npz"), expected)


def test_pairs_of_tiles_are_dealt_once():
    i, j, own, mirrored = blocks.pairs(5, 4)
    assert len(i) == 16
    counted = np.zeros((5, 5))
    np.add.at(counted, (i, j), own)
    np.add.at(counted, (j, i), mirrored)
    assert np.array_equal(counted, np.ones((5, 5)))


def test_a_tile_that_is_lost_is_noticed(monkeypatch, one):
    def lost(number, devices):
        i, j, own, mirrored = blocks.pairs(number, devices)
        return i[:-1], j[:-1], own[:-1], mirrored[:-1]

    monkeypatch.setattr(tiles, "pairs", lost)
    jax.clear_caches()
    with jax.enable_x64(True), pytest.raises(AssertionError, match="gradient"):
        agree(by_tiles(None), {name: one[name] for name in ("gradient", "product")})
    jax.clear_caches()
