"""The metadata log on disk: `__cluster_metadata-0`, Kafka's own records in Kafka's own batches.

Every opening is a new leader epoch and begins with the LeaderChange record that Kafka's quorum
writes, so that a quorum can later go on with the same log.

I/O: reads and writes through PartitionLog; `flush_plan` may run in any thread.
Errors: CorruptLog for a log that cannot be followed; KafkaError KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from cluster.metadata_log_codec import decode_record, encode_record
from cluster.topic_names import CLUSTER_METADATA_TOPIC
from protocol.batch import iterate_headers
from protocol.control_batch import ControlRecordType, control_batch
from protocol.control_records import LeaderChangeMessage, Voter
from protocol.errors import DecodeError, ErrorCode, KafkaError
from protocol.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from protocol.record import BatchBuilder, read_records
from protocol.schema import MetadataRecord
from storage.checkpoints import PartitionMetadataFile
from storage.config import LogConfig
from storage.files import FileSystem
from storage.flush import FlushPlan
from storage.log import AppendOrigin, PartitionLog

METADATA_PARTITION: Final = TopicPartition(CLUSTER_METADATA_TOPIC, 0)
METADATA_TOPIC_ID: Final = UUID(int=1)

_READ_BYTES: Final = 1024 * 1024
_MAX_BATCH_BYTES: Final = 8 * 1024 * 1024
_FIRST_EPOCH: Final = 1


class MetadataBatch(NamedTuple):
    """One batch of the log; `records` is None for a batch of the quorum's own control records."""

    base_offset: Offset
    last_offset: Offset
    epoch: LeaderEpoch
    records: list[MetadataRecord] | None


class MetadataLog:
    """The log of the metadata partition, written by this node alone."""

    def __init__(self, log: PartitionLog, epoch: LeaderEpoch) -> None:
        self._log = log
        self.epoch = epoch

    @classmethod
    def open(
        cls, fs: FileSystem, directory: str, *, segment_bytes: int, segment_ms: int, now_ms: int
    ) -> MetadataLog:
        """Open the log under `directory`, made when missing, and verify all of it."""
        path = f"{directory}/{METADATA_PARTITION}"
        config = LogConfig(
            segment_bytes=segment_bytes,
            segment_ms=segment_ms,
            max_message_bytes=_MAX_BATCH_BYTES,
            retention_ms=-1,
            retention_bytes=-1,
        )
        fs.makedirs(path)
        if not PartitionMetadataFile(fs, path).exists():
            PartitionMetadataFile(fs, path).write(METADATA_TOPIC_ID)
        log = PartitionLog.open(
            fs, path, METADATA_PARTITION, METADATA_TOPIC_ID, config, now_ms=now_ms, clean=False
        )
        latest = log.leader_epochs.latest_epoch
        return cls(log, _FIRST_EPOCH if latest is None or latest < _FIRST_EPOCH else latest + 1)

    @property
    def end_offset(self) -> Offset:
        """Where the next record goes."""
        return self._log.log_end_offset

    def read_all(self) -> Iterator[MetadataBatch]:
        """Every batch from the start.

        Errors: KafkaError KAFKA_STORAGE_ERROR for a batch that cannot be understood, or for a log whose
        beginning only a snapshot holds: those are read once there is a quorum to write them.
        """
        offset = self._log.log_start_offset
        if offset > 0:
            text = f"{self._log.directory}: the log begins at offset {offset}, snapshots cannot be read yet"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text)
        while offset < self._log.log_end_offset:
            found = self._log.read(offset, _READ_BYTES, at_least_one=True)
            assert found.records is not None, "there are records below the log end"
            for batch in self._decode(found.records.read()):
                yield batch
                offset = batch.last_offset + 1

    def append_leader_change(self, leader: BrokerId, now_ms: int) -> MetadataBatch:
        """Begin this opening's epoch: this node leads, and is the only voter."""
        voters = (Voter(voter_id=leader),)
        message = LeaderChangeMessage(leader_id=leader, voters=voters, granting_voters=voters)
        batch = control_batch(
            [(ControlRecordType.LEADER_CHANGE, message)],
            timestamp=now_ms,
            base_offset=self.end_offset,
            leader_epoch=self.epoch,
        )
        return self._append(batch, now_ms, None)

    def append(self, records: Sequence[MetadataRecord], now_ms: int) -> MetadataBatch:
        """Append records as one batch; durable once a flush plan made afterwards has run."""
        builder = BatchBuilder(base_offset=self.end_offset, leader_epoch=self.epoch)
        try:
            for record in records:
                builder.append(now_ms, None, encode_record(record))
        except ValueError as error:
            # A text that is longer than Kafka's strings, grown by appending to it.
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
        return self._append(builder.build(), now_ms, list(records))

    def flush_plan(self) -> FlushPlan:
        """What makes everything appended so far durable."""
        return self._log.flush_plan()

    def flushed(self, plan: FlushPlan, now_ms: int) -> None:
        """Hear that `plan` has run: what it covers is committed."""
        self._log.flushed(plan, now_ms)
        self._log.advance_high_watermark(plan.end_offset)

    def sync_failed(self, error: OSError | KafkaError) -> KafkaError:
        """Hear that a flush plan failed: nothing is written any more, and nothing synced again."""
        return self._log.storage_error("flush", error, is_final=True)

    def close(self, now_ms: int) -> None:
        """Close the files, flushed unless a flush has failed before."""
        self._log.close(clean=True, now_ms=now_ms)

    def _append(self, batch: bytearray, now_ms: int, records: list[MetadataRecord] | None) -> MetadataBatch:
        if len(batch) > _MAX_BATCH_BYTES:
            text = f"a change of the metadata takes {len(batch)} bytes, allowed are {_MAX_BATCH_BYTES}"
            raise KafkaError(ErrorCode.POLICY_VIOLATION, text)
        info = self._log.append_as_leader(batch, self.epoch, now_ms, origin=AppendOrigin.RAFT)
        return MetadataBatch(info.first_offset, info.last_offset, self.epoch, records)

    def _decode(self, data: bytes) -> Iterator[MetadataBatch]:
        for position, header in iterate_headers(data):
            records: list[MetadataRecord] | None = None
            if not header.is_control:
                records = [
                    self._record(each.offset, each.value) for each in read_records(data, position, header)
                ]
            yield MetadataBatch(
                header.base_offset, header.last_offset, header.partition_leader_epoch, records
            )

    def _record(self, offset: Offset, value: bytes | None) -> MetadataRecord:
        try:
            return decode_record(value or b"")
        except DecodeError as error:
            text = f"{self._log.directory}: the metadata record at offset {offset} is damaged: {error}"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text) from error
