"""The folder of a run: its settings, its model and step methods, and a folder for each chain."""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from pymc.util import get_random_generator

from pmgp.interface.executors.versions import versions
from pmgp.interface.sampling import blocks, fingerprint
from pmgp.interface.sampling.address import Address, Folder, StoreError
from pmgp.interface.sampling.chains import chain_folder, recovered, remove
from pmgp.interface.sampling.permit import PERMIT
from pmgp.interface.sampling.plain import BIT_GENERATORS, from_bytes, to_bytes
from pmgp.interface.sampling.stored_chain import Recovered

MANIFEST, START = "run.json", "start"
FORMAT = 1
# The last part of a spawn key that no chain gets, since theirs count from zero.
SEPARATE = 2**32 - 1


@dataclass(frozen=True)
class Seed:
    """The seed of all random numbers of a run.

    `sequence` is the state of the seed sequence from which those of the chains are spawned.
    """

    bit_generator: str
    sequence: dict[str, Any]

    @classmethod
    def from_random_seed(cls, random_seed: Any) -> Seed:
        """Return the seed that PyMC would make from ``random_seed``; None becomes a new seed."""
        generator = get_random_generator(random_seed).bit_generator
        sequence = generator.seed_seq.state
        entropy = sequence["entropy"]
        entropy = entropy if isinstance(entropy, int) else [int(part) for part in np.atleast_1d(entropy)]
        keys = [int(key) for key in sequence["spawn_key"]]
        return cls(type(generator).__name__, sequence | {"entropy": entropy, "spawn_key": keys})

    def generator(self) -> np.random.Generator:
        """Return a generator for PyMC's ``random_seed``."""
        if self.bit_generator not in BIT_GENERATORS:
            raise StoreError(f"{self.bit_generator!r} is not one of NumPy's bit generators")
        return np.random.Generator(getattr(np.random, self.bit_generator)(np.random.SeedSequence(**self.sequence)))

    def separate_generator(self) -> np.random.Generator:
        """Return a generator for draws before the chains begin, which does not affect their streams."""
        key = (*self.sequence["spawn_key"], SEPARATE)
        return np.random.default_rng(np.random.SeedSequence(self.sequence["entropy"], spawn_key=key))

    @property
    def first_key(self) -> int:
        """The last part of the spawn key of the first chain's generator."""
        return self.sequence["n_children_spawned"]


@dataclass(frozen=True)
class RunSettings:
    """The settings that determine the draws of a run, in addition to its model and step methods; see `sample`."""

    draws: int
    tune: int
    chains: int
    cores: int
    ess: float | None
    max_draws: int
    seed: Seed


@dataclass(frozen=True)
class StoredRun:
    """A run in a folder.

    `model` and `steps` are the results of `fingerprint`, and `versions` those of the packages on which results depend.
    """

    folder: Folder
    settings: RunSettings
    model: dict[str, Any]
    steps: list[str]
    versions: dict[str, str]

    @classmethod
    def create(cls, folder: Folder, settings: RunSettings, model: Any, step: Any, initvals: Any) -> StoredRun:
        """Begin a run in a new or an empty folder, with the current state of its step methods.

        ``initvals`` must be made of numbers, names and arrays.
        """
        check_free(folder)
        folder.mkdir(parents=True, exist_ok=True)
        if isinstance(folder, Address):
            folder.check_creates_once()
        run = cls(folder, settings, fingerprint.of_model(model), fingerprint.of_steps(step), versions())
        run.begin(step, initvals)
        run._write()
        return run

    def begin(self, step: Any, initvals: Any) -> None:
        """Store the state of the step methods and the initial values, in place of those that there were."""
        blocks.replace_at_once(self.folder / START, blocks.framed(to_bytes((step.sampling_state, initvals)), 0))

    @classmethod
    def load(cls, folder: Folder) -> StoredRun:
        """Return the run in a folder."""
        try:
            document = json.loads((folder / MANIFEST).read_bytes())
        except FileNotFoundError:
            raise StoreError(f"{folder} holds no run: {MANIFEST} is missing") from None
        except ValueError as error:
            raise StoreError(f"{folder / MANIFEST} is damaged: {error}") from None
        return cls(folder, **_checked(document, folder))

    def _write(self) -> None:
        run = {name: value for name, value in asdict(self).items() if name != "folder"}
        document = {"format": FORMAT, "checksum": _checksum(run), "run": run}
        blocks.replace_text(self.folder / MANIFEST, json.dumps(document, indent=1) + "\n")

    def aiming_at(self, draws: int, ess: float | None, most: int) -> StoredRun:
        """Return the run with another goal: draws, or effective draws from at most `most` times as many draws."""
        run = replace(self, settings=replace(self.settings, draws=draws, ess=ess, max_draws=most * draws))
        run._write()
        return run

    def start(self) -> tuple[Any, Any]:
        """Return the state of the step methods before the first chain, and the ``initvals`` given to `sample`."""
        block = blocks.read(self.folder / START)
        if block is None:
            raise StoreError(f"{self.folder / START} is damaged: the starting points of the chains are lost")
        return from_bytes(block.data)

    def chains(self) -> list[Recovered]:
        """Return the part of each chain that is whole."""
        return [recovered(chain_folder(self.folder, chain)) for chain in range(self.settings.chains)]

    def check(self, model: Any, step: Any) -> None:
        """Refuse a model or step methods that are not those of the run."""
        different = fingerprint.differences(self.model, fingerprint.of_model(model))
        if different:
            raise StoreError(f"the run in {self.folder} was made with another model: {'; '.join(different)}")
        steps = fingerprint.of_steps(step)
        if steps != self.steps:
            raise StoreError(
                f"the run in {self.folder} was made with other step methods or settings: {'; '.join(self.steps)}; not "
                f"{'; '.join(steps)}"
            )

    def other_versions(self) -> list[str]:
        """Return the packages whose versions have changed since the run began, with both versions."""
        now = versions()
        return [f"{name} {now[name]} and not {old}" for name, old in self.versions.items() if now.get(name) != old]


def check_free(folder: Folder) -> None:
    """Refuse a folder that is not empty."""
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{folder} is a file: give a folder as out=")
    if folder.exists() and _occupied(folder):
        raise StoreError(f"{folder} is not empty: continue its run with pmgp.resume, or give another folder as out=")


def delete(folder: Folder) -> None:
    """Delete a stored run, but no other files in its folder."""
    chains = _chain_folders(folder)
    for chain in chains:
        remove(chain)
    for path in [path for name in (START, MANIFEST, PERMIT) for path in blocks.written(folder / name)]:
        path.unlink(missing_ok=True)
    for emptied in (*chains, folder):
        if emptied.is_dir() and not any(emptied.iterdir()):
            emptied.rmdir()


def any_chain(folder: Folder) -> bool:
    """Return whether a chain of the run in a folder has begun."""
    return bool(_chain_folders(folder))


def _chain_folders(folder: Folder) -> list[Folder]:
    there: list[Folder] = [*folder.iterdir()] if folder.is_dir() else []
    return [path for path in there if path.name.startswith("chain-") and path.is_dir()]


def _occupied(folder: Folder) -> bool:
    """Return whether a folder holds a run, or anything except the remains of one that was killed before it began."""
    unbegun = {*blocks.written(folder / START), *blocks.written(folder / MANIFEST)} - {folder / MANIFEST}
    return any(path not in unbegun for path in folder.iterdir())


def _checked(document: Any, folder: Folder) -> dict[str, Any]:
    if not isinstance(document, dict) or "run" not in document:
        raise StoreError(f"{folder / MANIFEST} describes no run")
    if document.get("format") != FORMAT:
        raise StoreError(f"the run in {folder} is of format {document.get('format')}; this version reads {FORMAT}")
    run = document["run"]
    if document.get("checksum") != _checksum(run):
        raise StoreError(f"{folder / MANIFEST} is damaged: its checksum is wrong")
    settings = run.pop("settings")
    return run | {"settings": RunSettings(**settings | {"seed": Seed(**settings["seed"])})}


def _checksum(run: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(run, sort_keys=True).encode())
