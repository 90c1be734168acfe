"""Files that survive a kill: blocks with a checksum, appended one after another, and files replaced as a whole.

A block that was cut off, or whose bytes have changed, is recognized by its length and checksum. A file that is replaced
is written beside the old one first, which stays under the name `previous` until the next time.
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
"""Magic, length, first iteration, checksum of the rest and of these two."""


class Block(NamedTuple):
    """A whole block: what it holds, a number that was given with it, and where it ends."""

    data: bytes
    number: int
    end: int


def _framed(data: bytes, number: int) -> bytes:
    return HEADER.pack(MAGIC, len(data), number, _checksum(data, number)) + data


def _checksum(data: bytes, number: int) -> int:
    return zlib.crc32(data, zlib.crc32(struct.pack("<QQ", len(data), number)))


def append(file: BinaryIO, data: bytes, number: int) -> int:
    """Append a block, and return where the file ends once the block is on the disk."""
    file.write(_framed(data, number))
    _to_disk(file)
    return file.tell()


def blocks_of(path: Path) -> Iterator[Block]:
    """All blocks up to the first one that is not whole; none where there is no such file."""
    # A process that replaces the file may do so at any moment, so that to ask first would not do.
    try:
        opened = path.open("rb")
    except FileNotFoundError:
        return
    with opened as file:
        while (block := _next_block(file)) is not None:
            yield block


def read(path: Path) -> Block | None:
    """The only block of a file, or None where it is not there or not whole."""
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
    """Return the path of the last version but one of a replaced file."""
    return path.with_name(f"{path.name}.previous")


def written(path: Path) -> list[Path]:
    """All names under which something may be where a file is replaced."""
    return [path, previous(path), _temporary(path)]


def replace(path: Path, data: bytes, number: int) -> None:
    """Write a file of one block, and keep the one before it: a kill at any moment leaves one of the two, whole."""
    temporary = _written(path, _framed(data, number))
    if path.exists():
        path.replace(previous(path))
    temporary.replace(path)


def replace_text(path: Path, text: str) -> None:
    """Write a text file at once: it holds the old text or the new one."""
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
