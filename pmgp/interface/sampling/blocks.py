"""Files that survive a kill: blocks with a checksum, appended one after another, and files replaced as a whole.

Length and checksum show whether a block was cut off or its bytes have changed. A replacement is first written beside
the old file, which then stays under the name `previous` until the next replacement. Stores of objects replace an object
at once, so none stays beside it there.
"""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from pmgp.interface.sampling.address import Address, Folder

MAGIC = b"pmgp-b01"
HEADER = struct.Struct("<8sQQI")
"""Magic, length, number of the block, and the checksum of the data, the length and the number."""


class Block(NamedTuple):
    """A whole block: its data, the number that was given with it, and its end in the file."""

    data: bytes
    number: int
    end: int


def framed(data: bytes, number: int) -> bytes:
    """Return a block with its header."""
    return HEADER.pack(MAGIC, len(data), number, _checksum(data, number)) + data


def _checksum(data: bytes, number: int) -> int:
    return zlib.crc32(data, zlib.crc32(struct.pack("<QQ", len(data), number)))


def append(file: BinaryIO, data: bytes, number: int) -> int:
    """Append a block, wait until it is on the disk, and return the end of the file."""
    file.write(framed(data, number))
    _to_disk(file)
    return file.tell()


def blocks_of(path: Folder) -> Iterator[Block]:
    """Yield all blocks up to the first one that is not whole, and none if there is no such file."""
    # Another process may replace the file at any moment, so only its opening tells whether there is one.
    try:
        opened = path.open("rb")
    except FileNotFoundError:
        return
    with opened as file:
        yield from _blocks_of_file(file)


def first_of(path: Folder) -> list[Block | None]:
    """Return the first block of a file, or None for one that is not whole, in a list that is empty without a file."""
    try:
        opened = path.open("rb")
    except FileNotFoundError:
        return []
    with opened as file:
        return [next(_blocks_of_file(file), None)]


def _blocks_of_file(file: BinaryIO) -> Iterator[Block]:
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    while (block := _next_block(file, size)) is not None:
        yield block


def blocks_in(data: bytes) -> list[Block]:
    """Return all blocks up to the first one that is not whole."""
    file = io.BytesIO(data)
    return list(iter(lambda: _next_block(file, len(data)), None))


def read(path: Folder) -> Block | None:
    """Return the first block of a file, or None if there is no file or the block is not whole."""
    return next(blocks_of(path), None)


def _next_block(file: BinaryIO, size: int) -> Block | None:
    header = file.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    magic, length, number, checksum = HEADER.unpack(header)
    if magic != MAGIC or length > size - file.tell():
        return None
    data = file.read(length)
    if _checksum(data, number) != checksum:
        return None
    return Block(data, number, file.tell())


def previous(path: Path) -> Path:
    """Return the path of the version of a file before its last replacement."""
    return path.with_name(f"{path.name}.previous")


def written(path: Folder) -> list[Folder]:
    """Return all paths to which the replacement of a file may write."""
    if isinstance(path, Address):
        return [path]
    return [path, previous(path), _temporary(path)]


def replace(path: Folder, data: bytes, number: int) -> None:
    """Replace a file with one block and keep the old file, so that a kill at any moment leaves one of the two whole."""
    if isinstance(path, Address):
        path.write_bytes(framed(data, number))
        return
    temporary = _written(path, framed(data, number))
    if path.exists():
        path.replace(previous(path))
    temporary.replace(path)


def replace_at_once(path: Folder, data: bytes) -> None:
    """Replace a file at once and keep no other, so that it always holds either the old bytes or the new ones."""
    if isinstance(path, Address):
        path.write_bytes(data)
        return
    _written(path, data).replace(path)


def replace_text(path: Folder, text: str) -> None:
    """Replace a text file at once."""
    replace_at_once(path, text.encode())


def _temporary(path: Path) -> Path:
    return path.with_name(f"{path.name}.tmp")


def _written(path: Path, data: bytes) -> Path:
    temporary = _temporary(path)
    with temporary.open("wb") as file:
        file.write(data)
        _to_disk(file)
    return temporary


def _to_disk(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
