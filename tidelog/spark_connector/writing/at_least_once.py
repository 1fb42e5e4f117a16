"""Delivery at least once: each task has an idempotent producer with acks=all and waits for its deliveries.

The rows that a task reports are written and replicated. A task or micro-batch that is repeated after a
failure writes its rows again; nothing is removed. The order within a partition is that of the task's rows.

Bounds: the producer's `buffer_memory`, in which `write` waits for space; and the futures of records without
an acknowledgement, which are limited by that memory and checked each time their number has doubled.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tidelog.clients.producer.producer import DeliveryFuture, Producer
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.spark_connector.connections.loop_thread import LoopThread
from tidelog.spark_connector.connections.tls import tls_values
from tidelog.spark_connector.planning.client_options import ClientOptions
from tidelog.spark_connector.planning.sink_columns import SinkColumns
from tidelog.spark_connector.writing.delivery import TaskId, TaskReport
from tidelog.spark_connector.writing.rows import OutgoingRecord, outgoing_slices

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger("tidelog.spark")
_SWEEP_MIN: Final = 16_384


class SinkError(RuntimeError):
    """A record could not be written; the text names the topic, the partition if known, and the reason."""


class AtLeastOnce:
    """Delivers the rows of one query; Spark calls the methods in the order that `delivery` describes."""

    def __init__(self, client: ClientOptions, columns: SinkColumns) -> None:
        self._client = client
        self._columns = columns

    def open_task(self, task: TaskId) -> ProducerTask:
        """Start a task that writes rows; the first row opens the connection."""
        return ProducerTask(task, self._client, self._columns)

    def commit(self, reports: Sequence[TaskReport | None], batch_id: int | None) -> None:
        """Log the number of records. Nothing else remains to be done: reported rows are written."""
        records = sum(report.records for report in reports if report is not None)
        _log.info("%s: %d records written by %d tasks", _batch_name(batch_id), records, len(reports))

    def abort(self, reports: Sequence[TaskReport | None], batch_id: int | None) -> None:
        """Log the failure. Written rows remain, and are written again if the batch is repeated."""
        completed = sum(report is not None for report in reports)
        _log.warning(
            "%s failed with %d of %d tasks completed; their rows remain",
            _batch_name(batch_id),
            completed,
            len(reports),
        )


class ProducerTask:
    """Writes the rows of one task with a producer of its own, on an event loop in a thread."""

    def __init__(self, task: TaskId, client: ClientOptions, columns: SinkColumns) -> None:
        self._task = task
        self._client = client
        self._columns = columns
        self._records = 0
        self._outstanding: list[DeliveryFuture] = []
        self._sweep_at = _SWEEP_MIN
        self._loop = LoopThread("tidelog-spark-writer")
        # After a shuffle, many tasks have no rows.
        self._producer: Producer | None = None

    def write(self, rows: pa.RecordBatch) -> None:
        """Send the rows; wait for space in `buffer_memory`.

        Errors: RowError; SinkError, also for a row that was sent before; KafkaError if no broker responds.
        """
        for records in outgoing_slices(rows, self._columns):
            self._loop.run(self._send(records))
            self._records += len(records)

    def finish(self) -> TaskReport:
        """Wait until all rows are written. Raise SinkError for the first that failed."""
        if self._producer is not None:
            self._loop.run(self._wait_for_deliveries(self._producer))
        return TaskReport(self._task, self._records)

    def close(self) -> None:
        """Disconnect, and discard buffered rows."""
        try:
            if self._producer is not None:
                self._loop.run(self._producer.close(timeout_ms=0))
        finally:
            self._loop.close()

    async def _connect(self) -> Producer:
        if self._producer is None:
            producer = Producer(**self._client.values, **tls_values(self._client))
            await producer.start()
            self._producer = producer
        return self._producer

    async def _send(self, records: Sequence[OutgoingRecord]) -> None:
        producer = await self._connect()
        for record in records:
            try:
                future = await producer.send(
                    record.topic,
                    record.value,
                    key=record.key,
                    headers=record.headers,
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                )
            except KafkaError as error:
                raise _rejection(record, error) from error
            self._outstanding.append(future)
        if len(self._outstanding) >= self._sweep_at:
            self._outstanding = [one for one in self._outstanding if not _is_written(one)]
            self._sweep_at = max(_SWEEP_MIN, 2 * len(self._outstanding))

    async def _wait_for_deliveries(self, producer: Producer) -> None:
        await producer.flush()
        for future in self._outstanding:
            _is_written(future)
        self._outstanding.clear()


def _is_written(future: DeliveryFuture) -> bool:
    """Return whether the record is written. Raise SinkError if its delivery failed."""
    if not future.done():
        return False
    error = future.exception()
    if error is not None:
        # Names the partition and how many records.
        raise SinkError(f"not written: {error}{_advice(error)}") from error
    return True


def _rejection(record: OutgoingRecord, error: KafkaError) -> SinkError:
    partition = "" if record.partition is None else f", partition {record.partition}"
    return SinkError(f"not written: a record for topic {record.topic!r}{partition}: {error}{_advice(error)}")


def _advice(error: BaseException) -> str:
    if isinstance(error, KafkaError) and error.code is ErrorCode.MESSAGE_TOO_LARGE:
        return "; limits are kafka.max.request.size here, and max.message.bytes of the topic"
    return ""


def _batch_name(batch_id: int | None) -> str:
    return "a batch" if batch_id is None else f"micro-batch {batch_id}"
