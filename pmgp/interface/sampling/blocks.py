"""Files that survive a kill: blocks with a checksum, appended one after another, and files replaced as a whole.

Length and checksum show whether a block was cut off or its bytes have changed. A replacement is first written beside
the old file, which then stays under the name `previous` until the next replacement.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

MAGIC = b"pmgp-b01"
HEADER = struct.Struct("<8sQQI")
"""Magic, length, number of the block, and the checksum of the data, the length and the number."""


class Block(NamedTuple):
    """A whole block: its data, the number that was given with it, and its end in the file."""

    data: bytes
    number: int
    end: int


def _framed(data: bytes, number: int) -> bytes:
    return HEADER.pack(MAGIC, len(data), number, _checksum(data, number)) + data


def _checksum(data: bytes, number: int) -> int:
    return zlib.crc32(data, zlib.crc32(struct.pack("<QQ", len(data), number)))


def append(file: BinaryIO, data: bytes, number: int) -> int:
    """Append a block, wait until it is on the disk, and return the end of the file."""
    file.write(_framed(data, number))
    _to_disk(file)
    return file.tell()


def blocks_of(path: Path) -> Iterator[Block]:
    """Yield all blocks up to the first one that is not whole, and none if there is no such file."""
    # Another process may replace the file at any moment, so a check before opening it would not be reliable.
    try:
        opened = path.open("rb")
    except FileNotFoundError:
        return
    with opened as file:
        while (block := _next_block(file)) is not None:
            yield block


def read(path: Path) -> Block | None:
    """Return the first block of a file, or None if there is no file or the block is not whole."""
    return next(blocks_of(path), None)


def _next_block(file: BinaryIO) -> Block | None:
    header = file.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    magic, length, number, checksum = HEADER.unpack(header)
    if magic != MAGIC or length > os.fstat(file.fileno()).st_size - file.tell():
        return None
    data = file.read(length)
    if _checksum(data, number) != checksum:
        return None
    return Block(data, number, file.tell())


def previous(path: Path) -> Path:
    """Return the path of the version of a file before its last replacement."""
    return path.with_name(f"{path.name}.previous")


def written(path: Path) -> list[Path]:
    """Return all paths to which the replacement of a file may write."""
    return [path, previous(path), _temporary(path)]


def replace(path: Path, data: bytes, number: int) -> None:
    """Replace a file with one block and keep the old file, so that a kill at any moment leaves one of the two whole."""
    temporary = _written(path, _framed(data, number))
    if path.exists():
        path.replace(previous(path))
    temporary.replace(path)


def replace_text(path: Path, text: str) -> None:
    """Replace a text file at once, so that it always holds either the old text or the new one."""
    _written(path, text.encode()).replace(path)


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
