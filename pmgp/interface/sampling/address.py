"""Folders that `fsspec` reaches by an address, such as ``s3://bucket/run``: stores of whole objects.

An address has those methods of `pathlib.Path` that stored runs need. It is a string, so it can be sent to workers; each
process connects by itself, with the credentials of its own machine.
"""

from __future__ import annotations

import io
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

LOOK = 5.0
"""Seconds between two looks at a store of objects, each of which is a request."""


class StoreError(ValueError):
    """A stored run that cannot be read or continued, or a folder that holds another run.

    Examples
    --------
    >>> import tempfile, pmgp
    >>> model = pmgp.models.classifier([[0.0], [1.0]], [0, 1])
    >>> try:
    ...     pmgp.resume(tempfile.mkdtemp(), model)
    ... except pmgp.StoreError:
    ...     print("there is no run in this folder")
    there is no run in this folder
    """


@dataclass(frozen=True)
class Address:
    """A folder, or an object in it, in a store that `fsspec` reaches.

    `process` is the process in whose memory the store is, or None if other processes see it too. Errors are OSErrors
    with the address.
    """

    url: str
    process: int | None = None

    def __str__(self) -> str:
        return self.url

    def __truediv__(self, name: str) -> Address:
        return Address(f"{self.url}/{name}", self.process)

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.url.rpartition("/")[2]

    def absolute(self) -> Address:
        """Return the address, which is the same in all working directories."""
        return self

    def exists(self) -> bool:
        """Return whether there is an object or a folder."""
        return self._is_there("exists")

    def is_dir(self) -> bool:
        """Return whether this is a folder."""
        return self._is_there("isdir")

    def is_file(self) -> bool:
        """Return whether this is an object."""
        return self._is_there("isfile")

    def _is_there(self, kind: str) -> bool:
        with self._store("looked for") as (store, path):
            store.invalidate_cache()
            return getattr(store, kind)(path)

    def mkdir(self, *, parents: bool = True, exist_ok: bool = True) -> None:
        """Make a folder where a store has folders; no bucket is made."""
        with self._store("made") as (store, path), suppress(FileExistsError):
            store.mkdir(path, create_parents=False)

    def iterdir(self) -> list[Address]:
        """Return what is in the folder, and nothing if there is no folder."""
        with self._store("listed") as (store, path):
            store.invalidate_cache()
            try:
                found = store.ls(path, detail=False)
            except FileNotFoundError:
                return []
        return [self / one.rstrip("/").rpartition("/")[2] for one in sorted(found)]

    def read_bytes(self) -> bytes:
        """Return an object."""
        with self._store("read", FileNotFoundError) as (store, path):
            return store.cat_file(path)

    def open(self, mode: str = "rb") -> io.BytesIO:
        """Return an object as a file in memory."""
        return io.BytesIO(self.read_bytes())

    def read_folder(self) -> dict[str, bytes]:
        """Return all objects in the folder by their names, read at the same time where the store can do that."""
        names = [one.name for one in self.iterdir()]
        with self._store("read") as (store, path):
            found = store.cat([f"{path}/{name}" for name in names]) if names else {}
        return {one.rpartition("/")[2]: data for one, data in found.items()}

    def write_bytes(self, data: bytes) -> None:
        """Write an object, in place of one that is there."""
        with self._store("written") as (store, path):
            store.pipe_file(path, data)

    def create(self, data: bytes) -> None:
        """Write a new object; if there is one already, raise a FileExistsError."""
        with self._store("written", FileExistsError) as (store, path), store.open(path, "xb") as file:
            file.write(data)

    def unlink(self, *, missing_ok: bool = False) -> None:
        """Remove an object."""
        with self._store("removed") as (store, path):
            try:
                store.rm_file(path)
            except FileNotFoundError:
                if not missing_ok:
                    raise

    def remove(self, names: list[str]) -> None:
        """Remove objects in the folder."""
        if names:
            with self._store("removed") as (store, path):
                store.rm([f"{path}/{name}" for name in names])

    def rmdir(self) -> None:
        """Remove the folder, where a store has folders."""
        with self._store("removed") as (store, path):
            store.rmdir(path)

    def check_creates_once(self) -> None:
        """Refuse a store that replaces an object where it is to create one, since two writers would not be noticed."""
        probe = self / f"probe-{uuid.uuid4().hex}"
        probe.create(b"first")
        try:
            probe.create(b"second")
        except FileExistsError:
            return
        finally:
            probe.unlink(missing_ok=True)
        raise StoreError(
            f"the store of {self} replaces an object that is to be created, so two processes that write the same chain "
            "would not be noticed: set out= to a folder, or to an address in another store"
        )

    def check_seen(self, processes: int = 1) -> None:
        """Refuse a store in the memory of another process, or of this one if there are several."""
        if self.process is not None and (processes > 1 or self.process != os.getpid()):
            raise StoreError(
                f"{self} is in the memory of one process, and others do not see it: give cores=1 and no executor of "
                "processes, or set out= to a folder or an address that all of them see"
            )

    @contextmanager
    def _store(self, doing: str, passed: type[OSError] | tuple[()] = ()) -> Iterator[tuple[Any, str]]:
        """Give the file system and the path in it, and name the address in errors other than those that are `passed`.

        File systems have errors of their own, which need not be OSErrors.
        """
        try:
            from fsspec.core import url_to_fs
        except ImportError as error:
            raise ImportError("an address as out= needs fsspec: pip install 'pmgp[cluster]'") from error
        try:
            yield url_to_fs(self.url)
        except passed:
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            raise OSError(f"{self} could not be {doing}, {why}") from error


type Folder = Path | Address


def folder_of(out: str | Path | Address) -> Folder:
    """Return the folder that `out` names, on a disk or by an address; ``file://`` names one on a disk."""
    if isinstance(out, Address) or "://" not in str(out):
        return out if isinstance(out, Address) else Path(out)
    url = urlsplit(str(out))
    if url.scheme == "file":
        return Path(url2pathname(url.path))
    return Address(str(out).rstrip("/"), os.getpid() if url.scheme == "memory" else None)
