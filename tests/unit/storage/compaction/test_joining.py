"""Retained batches as they are written: their bytes, and what the indexes need of them."""

from __future__ import annotations

from random import Random

from tests.support.logs.compaction import keyed_batch
from tidelog.protocol.batch import LOG_OVERHEAD, crc_is_valid, iterate_headers, stamp
from tidelog.storage.compaction.batch_filter import emptied
from tidelog.storage.compaction.batch_window import BatchWindow, read_windows
from tidelog.storage.compaction.joining import Joining
from tidelog.storage.compaction.rebuilding import RetainedBatch
from tidelog.testing.simulation.crash_file_system import CrashFileSystem


def window_of(count: int) -> BatchWindow:
    disk = CrashFileSystem()
    file = disk.open("0.log", create=True)
    for number in range(count):
        batch = keyed_batch([("k", "v" * number)], timestamps=1000 + number)
        stamp(batch, 0, number, 0)
        file.append(batch)
    (window,) = read_windows(file, 0, 1 << 20)
    return window


def test_unchanged_batches_are_not_copied() -> None:
    window = window_of(5)
    retained = Joining(window, 1, 4).joined()
    assert isinstance(retained.data, memoryview) and retained.data.obj is window.data
    assert bytes(retained.data) == b"".join(window.batch(index) for index in (1, 2, 3))
    lengths = [len(window.batch(index)) - LOG_OVERHEAD for index in (1, 2, 3)]
    assert retained.batches == [(1, lengths[0], 1, 1001), (2, lengths[1], 2, 1002), (3, lengths[2], 3, 1003)]


def test_batches_are_replaced_and_removed_in_their_order() -> None:
    random, window = Random(5), window_of(9)
    for _ in range(200):
        first = random.randrange(8)
        end = random.randrange(first + 1, 10)
        joining, expected = Joining(window, first, end), []
        for index in range(first, end):
            header = window.header(index)
            choice = random.randrange(3)
            if choice == 0:
                joining.replace(index, None)
                continue
            replaced = emptied(header) if choice == 1 else RetainedBatch(header, window.batch(index))
            if choice == 1:
                joining.replace(index, replaced)
            expected.append(replaced)
        retained = joining.joined()
        assert bytes(retained.data) == b"".join(data for _, data in expected)
        assert retained.batches == [
            (header.base_offset, len(data) - LOG_OVERHEAD, header.last_offset, header.max_timestamp)
            for header, data in expected
        ]
        assert all(crc_is_valid(retained.data, at, header) for at, header in iterate_headers(retained.data))
