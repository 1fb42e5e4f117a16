"""The unsynced changes of one file that survive a power failure: all, none, some, or a partial last one."""

from __future__ import annotations

import random
from enum import Enum
from typing import Any, NamedTuple

SECTOR_BYTES = 512


class Survival(Enum):
    """The unsynced changes that survive a crash; a seed (int) selects a random part instead."""

    KEEP_ALL = "keep all"
    LOSE_UNSYNCED = "lose all unsynced"
    KEEP_NAMES_ONLY = "keep names, lose unsynced data"
    KEEP_DATA_ONLY = "keep data, lose unsynced names"
    TEAR_LAST = "keep all, tear the last write in the middle"
    ZERO_LAST = "keep all, the last write's bytes are zeros"


EVERY_SURVIVAL: tuple[Survival | int, ...] = tuple(Survival)


class FileWrite(NamedTuple):
    """Bytes that were written at a position."""

    sequence: int
    position: int
    data: bytes


class Truncation(NamedTuple):
    """The smaller size of a file."""

    sequence: int
    size: int


def apply(image: bytearray, change: FileWrite | Truncation) -> None:
    """Make a change in the content of a file."""
    if isinstance(change, Truncation):
        del image[change.size :]
        return
    if len(image) < change.position:
        image.extend(bytes(change.position - len(image)))
    image[change.position : change.position + len(change.data)] = change.data


def surviving_image(
    synced: bytes,
    pending: list[FileWrite | Truncation],
    survival: Survival | int,
    chooser: random.Random | None,
    last_write: int,
) -> bytes:
    """Return the content of a file after a crash; `last_write` is the number of the last write."""
    if survival in (Survival.LOSE_UNSYNCED, Survival.KEEP_NAMES_ONLY):
        return synced
    kept = random_part(pending, chooser) if chooser is not None else list(pending)
    image = bytearray(synced)
    for index, change in enumerate(kept):
        survivor = change
        if isinstance(change, FileWrite):
            if chooser is not None and index == len(kept) - 1:
                survivor = _randomly_torn(change, chooser)
            elif change.sequence == last_write and survival is Survival.TEAR_LAST:
                survivor = change._replace(data=change.data[: len(change.data) // 2])
            elif change.sequence == last_write and survival is Survival.ZERO_LAST:
                survivor = change._replace(data=bytes(len(change.data)))
        apply(image, survivor)
    return bytes(image)


def _randomly_torn(write: FileWrite, chooser: random.Random) -> FileWrite:
    length = len(write.data)
    kind = chooser.randrange(4)
    if kind == 0:  # at any byte
        return write._replace(data=write.data[: chooser.randint(0, length)])
    if kind == 1:  # at a sector
        sectors = (write.position % SECTOR_BYTES + length) // SECTOR_BYTES
        end = chooser.randint(0, sectors) * SECTOR_BYTES - write.position % SECTOR_BYTES
        return write._replace(data=write.data[: max(0, end)])
    if kind == 2:  # the size arrived, some of the data did not
        start = chooser.randint(0, length)
        return write._replace(data=write.data[:start] + bytes(length - start))
    return write


def random_part(changes: list[Any], chooser: random.Random) -> list[Any]:
    """Return all changes, none, the first ones or any of them."""
    kind = chooser.randrange(4)
    if kind == 0:
        return list(changes)
    if kind == 1:
        return []
    if kind == 2:
        return changes[: chooser.randint(0, len(changes))]
    return [change for change in changes if chooser.random() < 0.5]
