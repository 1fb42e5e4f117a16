"""Reads a task's slices from the tier, and handles deleted segments (shell, on executors).

    the object store has no such segment     list the segments again
    no other segment has the offsets         fetch them from brokers (tier=direct)
    retention has deleted the offsets        DataLossError; skip them with failOnDataLoss=false
    the topic was deleted and re-created     the same: the same offsets now have other records
    brokers return another error             raise it: their tier may respond later, nothing is lost

After the planning, retention can delete a segment with its offsets, and merging of small segments can move
them to other objects. Damaged data is never skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import uuid_text
from tidelog.remote.direct.partition_tier import PartitionTier
from tidelog.spark_connector.planning.data_loss import request_text
from tidelog.spark_connector.planning.ranges import OffsetRange
from tidelog.spark_connector.planning.segment_slices import OffsetPositions, SegmentSlice, divide_part
from tidelog.spark_connector.planning.source_options import SourceOptions
from tidelog.spark_connector.planning.tier_options import TierMode
from tidelog.spark_connector.planning.tier_plan import SliceTask
from tidelog.spark_connector.reading.decoder_settings import decoder_settings
from tidelog.spark_connector.reading.losses import report_loss
from tidelog.spark_connector.reading.offset_source import offset_source
from tidelog.spark_connector.reading.range_reader import ReadSettings, read_range
from tidelog.spark_connector.reading.slice_reader import MissingSegmentError, read_slice
from tidelog.spark_connector.reading.tier_storage import open_bucket

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger("tidelog.spark")


def read_slices(options: SourceOptions, task: SliceTask) -> Iterator[pa.RecordBatch]:
    """Yield the records of `task`.

    Errors: DataLossError; DecodeError for damaged data; RemoteStorageError if the store does not respond.
    """
    reader = _TaskReader(options, task)
    for segment_slice in task.slices:
        yield from reader.read(segment_slice)


class _TaskReader:
    """Reads the slices of one task, some of which may be deleted."""

    def __init__(self, options: SourceOptions, task: SliceTask) -> None:
        self._options = options
        self._task = task
        self._missing_segments: dict[object, MissingSegmentError] = {}

    def read(self, segment_slice: SegmentSlice) -> Iterator[pa.RecordBatch]:
        options = self._options
        storage = open_bucket(options.tier).storage
        settings = decoder_settings(options.client, include_headers=options.include_headers)
        try:
            yield from read_slice(storage, segment_slice, settings, aborted=self._task.aborted)
            return
        except MissingSegmentError as missing:
            error = missing
        _log.warning("%s; searching for its offsets in other segments and brokers", error)
        self._missing_segments[segment_slice.metadata.remote_log_segment_id] = error
        remaining = OffsetRange(self._task.topic_partition, error.next_offset, segment_slice.end_offset)
        if remaining.size <= 0:
            return
        tier = self._current_tier()
        if tier is not None and tier.partition != segment_slice.metadata.topic_id_partition:
            self._report_loss(
                f"{request_text(remaining)}, but the topic was re-created: its id was "
                f"{uuid_text(segment_slice.metadata.topic_id_partition.topic_id)} and is now "
                f"{uuid_text(tier.partition.topic_id)}"
            )
            return
        for part in () if tier is None else tier.parts(remaining.start_offset, remaining.end_offset):
            if part.metadata.remote_log_segment_id in self._missing_segments:
                break
            yield from self.read(divide_part(part, OffsetPositions.empty(), 1)[0])
            remaining = replace(remaining, start_offset=part.end_offset)
        if remaining.size > 0:
            yield from self._read_from_brokers(remaining, error)

    def _current_tier(self) -> PartitionTier | None:
        with offset_source(self._options) as source:
            return source.tiers([self._task.topic_partition]).get(self._task.topic_partition)

    def _read_from_brokers(
        self, remaining: OffsetRange, cause: MissingSegmentError
    ) -> Iterator[pa.RecordBatch]:
        segment = cause.segment_slice.metadata.remote_log_segment_id
        reason = f"{request_text(remaining)}, but remote segment {segment} is gone ({cause})"
        if self._options.tier.mode is TierMode.OFFLINE:
            self._report_loss(reason)
            return
        try:
            yield from read_range(ReadSettings.of(self._options), remaining)
        except KafkaError as error:
            # Retention is handled above. A failing tier has the same error code as any other fault.
            raise KafkaError(error.code, f"{reason}, and brokers cannot return them: {error}") from error

    def _report_loss(self, loss: str) -> None:
        report_loss(loss, fail_on_data_loss=self._options.fail_on_data_loss)
