"""Reads ranges from brokers as Arrow batches, on an executor (shell).

A range contains only offsets, so that it means the same records at every read. If retention has deleted its
start, or an unclean election its end, that is data loss, which fails the task or is skipped.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tidelog.base.dataclass import dataclass
from tidelog.clients.consumer.partition_reader import FetchedRange, PartitionReader
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.spark_connector.connections.reader_connection import ReaderConnection
from tidelog.spark_connector.planning.client_options import ClientOptions
from tidelog.spark_connector.planning.data_loss import request_text, trim_to_log_start
from tidelog.spark_connector.planning.ranges import OffsetRange
from tidelog.spark_connector.planning.source_options import SourceOptions
from tidelog.spark_connector.reading.decoder_settings import decoder_settings
from tidelog.spark_connector.reading.losses import report_loss

if TYPE_CHECKING:
    import pyarrow as pa

# The second one when no records arrived until the timeout: the log may end there.
_POSSIBLE_LOSS: Final = (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.OFFSET_NOT_AVAILABLE)


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


def read_range(
    settings: ReadSettings, requested: OffsetRange, connection: ReaderConnection | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the records of `requested`; without a `connection`, open and close one.

    Errors: DataLossError; KafkaError if brokers do not respond in time; DecodeError for damaged batches.
    """
    if connection is None:
        with ReaderConnection(settings.client, settings.poll_timeout_ms) as own_connection:
            yield from read_range(settings, requested, own_connection)
        return
    remaining = requested
    while remaining.size > 0:
        result = yield from _read_until_lost(connection, settings, remaining)
        if result.lost is None:
            return
        remaining = _after_loss(
            connection, settings, replace(remaining, start_offset=result.next_offset), result.lost
        )


@dataclass(frozen=True, slots=True)
class _ReadResult:
    """Where reading stopped, and the error by which the rest is not in the log; None if complete."""

    next_offset: Offset
    lost: KafkaError | None


def _read_until_lost(
    connection: ReaderConnection, settings: ReadSettings, requested: OffsetRange
) -> Generator[pa.RecordBatch, None, _ReadResult]:
    # These imports are slow, and planning does not need them.
    from tidelog.spark_connector.arrow.decoder import ArrowDecoder

    decoder = ArrowDecoder(
        requested.topic_partition,
        requested.start_offset,
        requested.end_offset,
        replace(
            decoder_settings(settings.client, include_headers=settings.include_headers),
            # The reader has checked them.
            check_crcs=False,
            max_rows=settings.max_rows,
        ),
    )
    loss_error = None
    try:
        for fetched_range in connection.loop.iterate(_fetched_ranges(connection, requested)):
            yield from decoder.add(fetched_range.records, fetched_range.aborted)
    except KafkaError as error:
        if error.code not in _POSSIBLE_LOSS:
            raise
        loss_error = error
    yield from decoder.finish()
    return _ReadResult(decoder.next_offset, loss_error)


async def _fetched_ranges(
    connection: ReaderConnection, requested: OffsetRange
) -> AsyncGenerator[FetchedRange, None]:
    async with _reader(connection, requested) as reader:
        async for fetched_range in reader.fetched_ranges():
            yield fetched_range


def _reader(connection: ReaderConnection, requested: OffsetRange) -> PartitionReader:
    return PartitionReader(
        topic_partition=requested.topic_partition,
        start_offset=requested.start_offset,
        end_offset=requested.end_offset,
        client=connection.client,
        **connection.reader_values,
    )


def _after_loss(
    connection: ReaderConnection, settings: ReadSettings, requested: OffsetRange, error: KafkaError
) -> OffsetRange:
    """Return the part that can still be read. Raise DataLossError if `failOnDataLoss` is true."""
    log_start_offset, log_end_offset = connection.loop.run(_log_bounds(connection, requested.topic_partition))
    remaining, loss = trim_to_log_start(requested, log_start_offset)
    if loss is None:
        if log_end_offset > requested.start_offset:
            # The records exist: another leader had a shorter log, or this one cannot return them now.
            raise error
        remaining = replace(requested, start_offset=requested.end_offset)
        loss = f"{request_text(requested)}, but its log ends at {log_end_offset}"
    report_loss(loss, fail_on_data_loss=settings.fail_on_data_loss)
    return remaining


async def _log_bounds(connection: ReaderConnection, topic_partition: TopicPartition) -> tuple[Offset, Offset]:
    reader = _reader(connection, OffsetRange(topic_partition, 0, 0))
    async with reader:
        start = await reader.log_start_offset()
        # The later this is requested, the fewer records count as lost.
        return start, await reader.log_end_offset()
