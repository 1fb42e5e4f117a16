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
from tidelog.spark_connector.planning.data_loss import DataLossError
from tidelog.spark_connector.planning.ranges import OffsetRange
from tidelog.spark_connector.planning.segment_slices import OffsetPositions, SegmentSlice, slices
from tidelog.spark_connector.planning.source_options import SourceOptions
from tidelog.spark_connector.planning.tier_options import TierMode
from tidelog.spark_connector.planning.tier_plan import SliceTask
from tidelog.spark_connector.reading.offset_source import offset_source
from tidelog.spark_connector.reading.range_reader import ReadSettings, read_range
from tidelog.spark_connector.reading.slice_reader import SegmentGone, read_slice
from tidelog.spark_connector.reading.tier_storage import opened_bucket

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.spark_connector.arrow.decoder import DecoderSettings

_log = logging.getLogger("tidelog.spark")


def read_slices(options: SourceOptions, task: SliceTask) -> Iterator[pa.RecordBatch]:
    """Yield the records of `task`.

    Errors: DataLossError; DecodeError for damaged data; RemoteStorageError if the store does not respond.
    """
    reader = _TaskReader(options, task)
    for one in task.slices:
        yield from reader.read(one)


class _TaskReader:
    """Reads the slices of one task, some of which may be deleted."""

    def __init__(self, options: SourceOptions, task: SliceTask) -> None:
        self._options = options
        self._task = task
        self._missing_segments: dict[object, SegmentGone] = {}

    def read(self, wanted: SegmentSlice) -> Iterator[pa.RecordBatch]:
        storage = opened_bucket(self._options.tier).storage
        try:
            yield from read_slice(storage, wanted, self._decoder(), aborted=self._task.aborted)
            return
        except SegmentGone as gone:
            error = gone
        _log.warning("%s; searching for its offsets in other segments and brokers", error)
        self._missing_segments[wanted.metadata.remote_log_segment_id] = error
        left = OffsetRange(self._task.topic_partition, error.next_offset, wanted.end_offset)
        if left.size <= 0:
            return
        tier = self._tier_now()
        if tier is not None and tier.partition != wanted.metadata.topic_id_partition:
            self._note(
                f"{_description(left)}, but the topic was re-created: its id was "
                f"{uuid_text(wanted.metadata.topic_id_partition.topic_id)} and is now "
                f"{uuid_text(tier.partition.topic_id)}"
            )
            return
        for part in () if tier is None else tier.parts(left.start_offset, left.end_offset):
            if part.metadata.remote_log_segment_id in self._missing_segments:
                break
            yield from self.read(slices(part, OffsetPositions.none(), 1)[0])
            left = replace(left, start_offset=part.end_offset)
        if left.size > 0:
            yield from self._elsewhere(left, error)

    def _tier_now(self) -> PartitionTier | None:
        with offset_source(self._options) as source:
            return source.tiers([self._task.topic_partition]).get(self._task.topic_partition)

    def _elsewhere(self, left: OffsetRange, gone: SegmentGone) -> Iterator[pa.RecordBatch]:
        segment = gone.wanted.metadata.remote_log_segment_id
        missing = f"{_description(left)}, but remote segment {segment} is gone ({gone})"
        if self._options.tier.mode is TierMode.OFFLINE:
            self._note(missing)
            return
        try:
            yield from read_range(ReadSettings.of(self._options), left)
        except KafkaError as error:
            # Retention is handled above. A failing tier has the same error code as any other fault.
            raise KafkaError(error.code, f"{missing}, and brokers cannot give them: {error}") from error

    def _note(self, loss: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(loss)
        _log.warning("%s: skipped", loss)

    def _decoder(self) -> DecoderSettings:
        from tidelog.spark_connector.arrow.decoder import DecoderSettings

        defaults = DecoderSettings()
        values = self._options.client.values
        return DecoderSettings(
            include_headers=self._options.include_headers,
            check_crcs=values.get("check_crcs", defaults.check_crcs),
            max_decompressed_bytes=values.get("max_decompressed_bytes", defaults.max_decompressed_bytes),
        )


def _description(left: OffsetRange) -> str:
    return f"{left.topic_partition} should be read from offset {left.start_offset} to {left.end_offset}"
