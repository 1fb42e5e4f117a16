"""Reads ranges from brokers as Arrow batches, on an executor (shell).

A range contains only offsets, so that it means the same records at every read. If retention has deleted its
start, or an unclean election its end, that is data loss, which fails the task or is skipped.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Generator, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tidelog.clients.consumer.partition_reader import FetchedRange, PartitionReader
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.spark_connector.planning.client_options import ClientOptions
from tidelog.spark_connector.planning.data_loss import DataLossError, after_retention
from tidelog.spark_connector.planning.ranges import OffsetRange
from tidelog.spark_connector.planning.source_options import SourceOptions
from tidelog.spark_connector.reading.loop_thread import LoopThread
from tidelog.spark_connector.reading.tls import tls_values

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger("tidelog.spark")
# The second one when no records arrived until the timeout: the log may end there.
_MAY_BE_LOSS: Final = (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.OFFSET_NOT_AVAILABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSettings:
    """The settings that an executor needs besides the ranges; they are pickled."""

    client: ClientOptions
    include_headers: bool
    fail_on_data_loss: bool
    poll_timeout_ms: int
    max_rows: int = 65_536
    """Of one Arrow batch; more are not faster, and need more memory."""

    @classmethod
    def of(cls, options: SourceOptions) -> ReadSettings:
        """Return the settings of a query."""
        return cls(
            client=options.client,
            include_headers=options.include_headers,
            fail_on_data_loss=options.fail_on_data_loss,
            poll_timeout_ms=options.poll_timeout_ms,
        )


def read_range(settings: ReadSettings, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    """Yield the records of `wanted`.

    Errors: DataLossError; KafkaError if brokers do not respond in time; DecodeError for damaged batches.
    """
    with LoopThread("tidelog-spark-reader") as loop:
        left = wanted
        while left.size > 0:
            done = yield from _read_until_lost(loop, settings, left)
            if done.lost is None:
                return
            left = _after_loss(loop, settings, replace(left, start_offset=done.next_offset), done.lost)


@dataclass(frozen=True, slots=True)
class _Progress:
    """Where reading stopped, and the error that says that the rest is not in the log; None if complete."""

    next_offset: Offset
    lost: KafkaError | None


def _read_until_lost(
    loop: LoopThread, settings: ReadSettings, wanted: OffsetRange
) -> Generator[pa.RecordBatch, None, _Progress]:
    # These imports are slow, and planning does not need them.
    from tidelog.spark_connector.arrow.decoder import ArrowDecoder, DecoderSettings

    defaults = DecoderSettings()
    decoder = ArrowDecoder(
        wanted.topic_partition,
        wanted.start_offset,
        wanted.end_offset,
        DecoderSettings(
            include_headers=settings.include_headers,
            # The reader has checked them.
            check_crcs=False,
            max_rows=settings.max_rows,
            max_decompressed_bytes=settings.client.values.get(
                "max_decompressed_bytes", defaults.max_decompressed_bytes
            ),
        ),
    )
    lost = None
    try:
        for fetched in loop.iterate(_fetched(settings, wanted)):
            yield from decoder.add(fetched.records, fetched.aborted)
    except KafkaError as error:
        if error.code not in _MAY_BE_LOSS:
            raise
        lost = error
    yield from decoder.finish()
    return _Progress(decoder.next_offset, lost)


async def _fetched(settings: ReadSettings, wanted: OffsetRange) -> AsyncGenerator[FetchedRange, None]:
    async with _reader(settings, wanted) as reader:
        async for fetched in reader.fetched_ranges():
            yield fetched


def _reader(settings: ReadSettings, wanted: OffsetRange) -> PartitionReader:
    values: dict[str, Any] = {
        **settings.client.values,
        **tls_values(settings.client),
        "default_api_timeout_ms": settings.poll_timeout_ms,
    }
    return PartitionReader(
        topic_partition=wanted.topic_partition,
        start_offset=wanted.start_offset,
        end_offset=wanted.end_offset,
        **values,
    )


def _after_loss(
    loop: LoopThread, settings: ReadSettings, wanted: OffsetRange, error: KafkaError
) -> OffsetRange:
    """Return the part that can still be read. Raise DataLossError if `failOnDataLoss` is true."""
    log_start_offset, log_end_offset = loop.run(_log_bounds(settings, wanted.topic_partition))
    left, loss = after_retention(wanted, log_start_offset)
    if loss is None:
        if log_end_offset > wanted.start_offset:
            # The records exist: another leader had a shorter log, or this one cannot return them now.
            raise error
        left = replace(wanted, start_offset=wanted.end_offset)
        loss = (
            f"{wanted.topic_partition} should be read from offset {wanted.start_offset} to "
            f"{wanted.end_offset}, but its log ends at {log_end_offset}"
        )
    if settings.fail_on_data_loss:
        raise DataLossError(loss)
    _log.warning("%s: skipped", loss)
    return left


async def _log_bounds(settings: ReadSettings, topic_partition: TopicPartition) -> tuple[Offset, Offset]:
    reader = _reader(settings, OffsetRange(topic_partition, 0, 0))
    async with reader:
        start = await reader.log_start_offset()
        # The later this is requested, the fewer records count as lost.
        return start, await reader.log_end_offset()
