"""Reads a complete topic as a consumer does, and the same bytes directly from the object store.

The reader receives responses into one buffer and reads only the lengths of batches, so that mainly the broker
is measured. Each partition is read by a separate thread with its own connection.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Any, Final

from benchmarks.delayed_store import delayed
from benchmarks.frames import FETCH_VERSION, SIZE_BYTES, batch, fetch_frame, produce_frame
from benchmarks.loads.options import main
from benchmarks.loads.pipelined import connect, send_and_receive
from tidelog.protocol.batch import LOG_OVERHEAD, read_header
from tidelog.protocol.codec import decode
from tidelog.protocol.framing import read_response_header
from tidelog.protocol.messages.fetch import FetchResponse, PartitionData
from tidelog.protocol.registry import ApiKey
from tidelog.remote.objects.stores.backends import object_store

BUFFER_BYTES: Final = 8 * 1024 * 1024
_BATCH_HEAD: Final = struct.Struct(">qi")
_SIZE: Final = struct.Struct(">i")


def tier(kind: str, **options: Any) -> dict[str, Any]:
    """Run the load called `kind`."""
    loads: dict[str, Callable[..., dict[str, Any]]] = {"fill": fill, "read": read, "gets": gets, "puts": puts}
    return loads[kind](**options)


def fill(
    host: str, port: int, topic: str, partitions: int, partition_bytes: int, batch_bytes: int
) -> dict[str, Any]:
    """Append at least `partition_bytes` to each partition of an existing topic."""
    frame = produce_frame(topic, partitions, batch(batch_bytes, 1000))
    count = partition_bytes // batch_bytes + 1
    with connect(host, port) as connection:
        for _ in range(count):
            send_and_receive(connection, frame)
    return {"batches": count * partitions}


def read(host: str, port: int, places: Sequence[tuple[str, int, int]], max_bytes: int) -> dict[str, Any]:
    """Read each (topic, partition, end offset) from offset 0; return bytes of records per second."""
    started = time.perf_counter()
    total = _in_threads([partial(_read_one, host, port, *place, max_bytes) for place in places])
    return {"bytes_per_s": total / (time.perf_counter() - started), "bytes": total}


def gets(
    backend: str, values: dict[str, str], keys: Sequence[str], part_bytes: int, threads: int, delay_ms: float
) -> dict[str, Any]:
    """Run ranged GETs of `part_bytes` with `threads` threads; keep all results in memory until the end.

    A chunk cache keeps them, too. If each part replaced the previous one in the same memory, a GET that is a
    copy from the page cache would cost a seventh of the CPU, because new memory is allocated page by page.
    """
    store = delayed(object_store(backend, values), delay_ms)
    parts = [(key, start) for key in keys for start in range(0, store.size(key), part_bytes)]

    def get(part: tuple[str, int]) -> bytes:
        key, start = part
        with closing(store.get(key, start, start + part_bytes - 1)) as stream:
            return stream.read(part_bytes)

    with ThreadPoolExecutor(threads) as pool:
        started = time.perf_counter()
        total = sum(map(len, list(pool.map(get, parts))))
        elapsed = time.perf_counter() - started
    store.close()
    return {"bytes_per_s": total / elapsed, "gets": len(parts)}


def puts(
    backend: str, values: dict[str, str], prefix: str, object_bytes: int, count: int, threads: int
) -> dict[str, Any]:
    """Put `count` objects of `object_bytes`, `threads` at a time, and delete them."""
    store = object_store(backend, values)
    content = bytes(range(256)) * (object_bytes // 256)
    keys = [f"{prefix}/{number}" for number in range(count)]
    with ThreadPoolExecutor(threads) as pool:
        started = time.perf_counter()
        list(pool.map(lambda key: store.put(key, content, len(content)), keys))
        elapsed = time.perf_counter() - started
    store.delete(keys)
    store.close()
    return {"bytes_per_s": count * len(content) / elapsed}


def _in_threads(calls: Sequence[Callable[[], int]]) -> int:
    with ThreadPoolExecutor(len(calls)) as pool:
        return sum(future.result() for future in [pool.submit(call) for call in calls])


def _read_one(host: str, port: int, topic: str, partition: int, end: int, max_bytes: int) -> int:
    buffer = memoryview(bytearray(BUFFER_BYTES))
    total, offset = 0, 0
    with connect(host, port) as connection:
        while offset < end:
            connection.sendall(fetch_frame(topic, partition, offset, max_bytes))
            response = _receive_partition(connection, buffer)
            if response.error_code:
                raise RuntimeError(f"{topic}-{partition} at {offset}: error {response.error_code}")
            records = memoryview(response.records or b"")
            if records:
                offset = read_header(records[_last_batch(records) :]).next_offset
                total += len(records)
    return total


def _receive_partition(connection: socket.socket, buffer: memoryview) -> PartitionData:
    _receive_into(connection, buffer[:SIZE_BYTES])
    frame = buffer[: _SIZE.unpack_from(buffer)[0]]
    _receive_into(connection, frame)
    _, body = read_response_header(frame, ApiKey.FETCH, FETCH_VERSION)
    return decode(FetchResponse, frame[body:], FETCH_VERSION).responses[0].partitions[0]


def _receive_into(connection: socket.socket, target: memoryview) -> None:
    while target:
        received = connection.recv_into(target, 0, socket.MSG_WAITALL)
        if not received:
            raise ConnectionError("the server closed the connection")
        target = target[received:]


def _last_batch(records: memoryview) -> int:
    """Return the position of the last complete batch."""
    position, last = 0, 0
    while position + LOG_OVERHEAD <= len(records):
        last = position
        position += LOG_OVERHEAD + _BATCH_HEAD.unpack_from(records, position)[1]
    return last


if __name__ == "__main__":
    main(tier)
