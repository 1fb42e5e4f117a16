"""CPU time of decoding batches to Arrow, compared with a simple loop and with a source that reads nothing.

Both decoders check checksums. The result is written in Arrow's stream format, as Spark's Python worker does.
The source that reads nothing only writes this format, which is the lower bound.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.figures import Comparison, Figure
from benchmarks.suites.effort import MEGA, MESSAGE_BYTES, Effort, size_name
from tidelog.protocol.batch import crc_is_valid, iterate_headers
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.compression import Compression
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.record import read_records

_BATCH_BYTES = 16 * 1024
_LOG_BYTES = 48 * 1024 * 1024
_TIDES = TopicPartition("tides", 0)
_AT_LEAST_OF_PLAIN = 1.5


def arrow(effort: Effort) -> Iterator[Figure]:
    """Measure records per second of CPU, for small and larger records, with and without compression."""
    for size in MESSAGE_BYTES:
        for compression in (Compression.NONE, Compression.LZ4):
            log, count = _log(int(_LOG_BYTES * effort.scale), size, compression)
            name = f"batches to Arrow, {size_name(size)}, {compression.name.lower()}"
            pairs = [
                (_rate(_decode_log, log, count), _rate(_plain, log, count)) for _ in range(effort.rounds)
            ]
            compared = Comparison.of(pairs)
            yield compared.figure(name, "M records/s", "plain loop", at_least=_AT_LEAST_OF_PLAIN)
            rows = next(_decoded_batches(log))
            pairs = [(_rate(_decode_log, log, count), _ready_rate(rows, count)) for _ in range(effort.rounds)]
            yield Comparison.of(pairs).figure(name, "M records/s", "ready Arrow batches")


def _log(size_bytes: int, value_bytes: int, compression: Compression) -> tuple[bytes, int]:
    """Return full batches whose values are half random, and the number of their records."""
    randomness = random.Random(value_bytes)
    batches: list[bytes] = []
    count = total = 0
    while total < size_bytes:
        builder = BatchBuilder(base_offset=count, compression=compression)
        while builder.estimated_size_bytes < _BATCH_BYTES:
            random_part = randomness.randbytes(value_bytes // 2)
            value = random_part + bytes(value_bytes // 2 - randomness.randrange(value_bytes // 8))
            builder.append(1_700_000_000_000 + count // 10, b"key-%d" % (count % 1000), value)
            count += 1
        total += builder.estimated_size_bytes
        batches.append(bytes(builder.build()))
    return b"".join(batches), count


def _rate(work: Callable[[bytes], None], log: bytes, count: int) -> float:
    start = time.process_time()
    work(log)
    return count / (time.process_time() - start) / MEGA


def _ready_rate(rows: Any, count: int) -> float:
    start = time.process_time()
    written = 0
    while written < count:
        rows.serialize()
        written += rows.num_rows
    return written / (time.process_time() - start) / MEGA


def _plain(log: bytes) -> None:
    for position, header in iterate_headers(log):
        assert crc_is_valid(log, position, header)
        read_records(log, position, header)


def _decode_log(log: bytes) -> None:
    for batch in _decoded_batches(log):
        batch.serialize()


def _decoded_batches(log: bytes) -> Iterator[Any]:
    # Here, so that the other suites need no Arrow.
    from tidelog.spark_connector.arrow.decoder import ArrowDecoder

    decoder = ArrowDecoder(_TIDES, 0, 1 << 62)
    yield from decoder.add(log)
    yield from decoder.finish()
