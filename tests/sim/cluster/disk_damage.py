"""Changed bytes on the disk of a node that has ended: those that its next start must notice.

A start without a shutdown reads all batches that may not have been flushed, and rebuilds their indexes. It
reads producer snapshots with their checksum. Checkpoints have no checksum, and that of a batch does not cover
its offset and leader epoch: these are not damaged.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final, NamedTuple

from tests.sim.cluster.workloads.tiering import TOPIC as TIERED_TOPIC
from tidelog.storage.disk.log_files import SNAPSHOT_SUFFIX, base_offset_of, is_index, is_segment_log
from tidelog.testing.simulation.cluster import SimulatedNode
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

FILES_MAX: Final = 3
_LENGTH_FROM_HERE: Final = 12
"""The length in a batch header, at byte 8, counts the bytes after it."""
_CHECKED_FROM: Final = 21
"""The first byte of a batch that its checksum covers."""
_WITH_OTHER_SNAPSHOTS: Final = ("__cluster_metadata-", f"{TIERED_TOPIC}-")
"""Logs whose snapshots no other file replaces: metadata, and producers before the local part."""


class Bytes(NamedTuple):
    """A part of a file that may be damaged."""

    path: str
    start: int
    end: int


def damage(node: SimulatedNode, random: Random) -> list[str]:
    """Flip one bit in up to three files; return their paths."""
    candidates = list(_candidates(node))
    chosen = random.sample(candidates, min(len(candidates), 1 + random.randrange(FILES_MAX)))
    for path, start, end in chosen:
        node.machine.state.disk.flip_bit(path, random.randrange(8 * start, 8 * end))
    return [each.path for each in chosen]


def _candidates(node: SimulatedNode) -> Iterator[Bytes]:
    disk, root = node.machine.state.disk, node.log_folder
    for name in disk.listdir(root):
        folder = f"{root}/{name}"
        if disk.is_dir(folder) and "." not in name:
            yield from _candidates_in(node, folder, name)


def _candidates_in(node: SimulatedNode, folder: str, name: str) -> Iterator[Bytes]:
    disk = node.machine.state.disk
    files = disk.listdir(folder)
    last = max((base_offset_of(each) or 0 for each in files if is_segment_log(each)), default=0)
    for file in files:
        path = f"{folder}/{file}"
        size, is_damaged = disk.size(path) if not disk.is_dir(path) else 0, False
        if is_segment_log(file):
            yield from _unsynced_batches(disk, path)
        elif is_index(file):
            # The indexes of flushed segments are not read completely.
            is_damaged = base_offset_of(file) == last
        else:
            is_damaged = file.endswith(SNAPSHOT_SUFFIX) and not name.startswith(_WITH_OTHER_SNAPSHOTS)
        if is_damaged and size:
            yield Bytes(path, 0, size)


def _unsynced_batches(disk: CrashFileSystem, path: str) -> Iterator[Bytes]:
    """Yield the bytes below the checksums of the batches that are not synced."""
    first, data, position = disk.first_unsynced(path), disk.read(path), 0
    while first is not None and position + _CHECKED_FROM < len(data):
        end = position + _LENGTH_FROM_HERE + int.from_bytes(data[position + 8 : position + _LENGTH_FROM_HERE])
        if position >= first:
            yield Bytes(path, position + _CHECKED_FROM, min(end, len(data)))
        position = end
