"""The record batches of one partition from one fetch, decoded batch by batch when records are taken.

Pure. With isolation read_committed, records of aborted transactions are omitted. The broker lists the aborted
transactions of the fetched range. From a transaction's first offset, the transactional batches of its
producer are skipped until that producer's abort marker. Control batches are never returned; they only move
the position.

Source: KIP-98; FetchResponse.json (aborted transactions).
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.clients.consumer.consumer_types import ConsumerRecord, TimestampType
from tidelog.protocol.batch import BATCH_OVERHEAD, BatchHeader, crc_is_valid, read_header
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.ids import LeaderEpoch, Offset, ProducerId, TopicPartition
from tidelog.protocol.record import Record, read_records

_ABORT_MARKER = 0
_Batch = tuple[int, BatchHeader]


class FetchedData:
    """The records of one fetched range that were not taken yet.

    `next_offset`, `last_epoch`: the end of the range, and the leader epoch of its last batch.
    Errors: KafkaError(CORRUPT_MESSAGE) for a wrong checksum or records that cannot be decoded;
    KafkaError(RECORD_LIST_TOO_LARGE) if no batch is complete.
    Bounds: one batch is decoded at a time, to at most `max_decompressed_bytes`.
    """

    __slots__ = (
        "_aborted",
        "_aborted_producers",
        "_batches",
        "_check_crcs",
        "_consumed_epoch",
        "_consumed_offset",
        "_decoded",
        "_decoded_at",
        "_max_decompressed_bytes",
        "_next_batch",
        "_records",
        "_topic_partition",
        "last_epoch",
        "next_offset",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        records: bytes | bytearray | memoryview,
        fetch_offset: Offset,
        fetch_epoch: LeaderEpoch,
        *,
        aborted: Iterable[tuple[ProducerId, Offset]] | None,
        check_crcs: bool,
        max_decompressed_bytes: int,
    ) -> None:
        """`aborted` is None if records of aborted transactions are returned, too (read_uncommitted)."""
        self._topic_partition = topic_partition
        self._records = memoryview(records)
        self._aborted = None if aborted is None else sorted(aborted, key=lambda entry: entry[1])
        self._aborted_producers: set[ProducerId] = set()
        self._check_crcs = check_crcs
        self._max_decompressed_bytes = max_decompressed_bytes
        self._batches = self._scan(fetch_offset)
        self._next_batch = 0
        self._decoded: list[ConsumerRecord] = []
        self._decoded_at = 0
        self._consumed_offset = fetch_offset
        self._consumed_epoch = fetch_epoch
        self.next_offset = fetch_offset
        self.last_epoch = fetch_epoch
        if self._batches:
            last = self._batches[-1][1]
            self.next_offset = max(fetch_offset, last.next_offset)
            self.last_epoch = last.partition_leader_epoch

    @property
    def size_bytes(self) -> int:
        """The size of the fetched batches in bytes."""
        return len(self._records)

    @property
    def is_drained(self) -> bool:
        """Whether all records were taken."""
        return self._decoded_at >= len(self._decoded) and self._next_batch >= len(self._batches)

    @property
    def consumed_position(self) -> tuple[Offset, LeaderEpoch]:
        """The offset after the taken records, and the leader epoch of the previous batch."""
        return self._consumed_offset, self._consumed_epoch

    def take(self, max_records: int) -> list[ConsumerRecord]:
        """Return the next records of one batch, at most `max_records`; an empty list if all were taken."""
        while self._decoded_at >= len(self._decoded):
            if self._next_batch >= len(self._batches):
                return []
            self._decode_next()
        start = self._decoded_at
        if start == 0 and len(self._decoded) <= max_records:
            taken = self._decoded
        else:
            taken = self._decoded[start : start + max_records]
        self._decoded_at = start + len(taken)
        header = self._batches[self._next_batch - 1][1]
        if self._decoded_at >= len(self._decoded):
            self._decoded, self._decoded_at = [], 0
            self._consumed_offset = header.next_offset
            self._skip_empty()
        else:
            self._consumed_offset = taken[-1].offset + 1
        self._consumed_epoch = header.partition_leader_epoch
        return taken

    def _scan(self, fetch_offset: Offset) -> list[_Batch]:
        """Return the complete batches; the last one may be incomplete because of the size limit."""
        batches: list[_Batch] = []
        position, size = 0, len(self._records)
        while size - position >= BATCH_OVERHEAD:
            try:
                header = read_header(self._records, position)
            except DecodeError as error:
                raise self._corrupt(str(error)) from error
            if position + header.size_bytes > size:
                break
            if header.last_offset >= fetch_offset:
                batches.append((position, header))
            position += header.size_bytes
        if position == 0 and size > 0:
            text = f"{self._topic_partition}: {size} bytes at offset {fetch_offset} have no complete batch"
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, text)
        return batches

    def _decode_next(self) -> None:
        position, header = self._batches[self._next_batch]
        if self._check_crcs and not crc_is_valid(self._records, position, header):
            raise self._corrupt(f"checksum of the batch at offset {header.base_offset} is wrong")
        records: list[ConsumerRecord] = []
        if header.is_control:
            self._read_marker(position, header)
        elif not self._is_aborted(header):
            records = self._consumer_records(self._read(position, header), header)
        self._next_batch += 1
        self._decoded, self._decoded_at = records, 0
        if not records:
            self._consumed_offset = max(self._consumed_offset, header.next_offset)
            self._consumed_epoch = header.partition_leader_epoch

    def _skip_empty(self) -> None:
        """Skip the following batches that have no records for the application."""
        while self._next_batch < len(self._batches):
            header = self._batches[self._next_batch][1]
            if not header.is_control and header.record_count > 0:
                return
            try:
                self._decode_next()
            except KafkaError:
                return  # the next `take` raises it, after the current records were returned

    def _read(self, position: int, header: BatchHeader) -> list[Record]:
        try:
            limit = self._max_decompressed_bytes
            return read_records(self._records, position, header, max_decompressed_bytes=limit)
        except DecodeError as error:
            raise self._corrupt(str(error)) from error

    def _consumer_records(self, records: list[Record], header: BatchHeader) -> list[ConsumerRecord]:
        topic, partition = self._topic_partition
        is_append_time = header.is_log_append_time
        kind = TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME
        epoch = header.partition_leader_epoch
        new, cls = tuple.__new__, ConsumerRecord
        start = self._consumed_offset
        result = [
            new(cls, (topic, partition, offset, timestamp, kind, key, value, headers, epoch))
            for offset, timestamp, key, value, headers in records
        ]
        if header.base_offset < start:
            result = [record for record in result if record.offset >= start]
        return result

    def _is_aborted(self, header: BatchHeader) -> bool:
        if self._aborted is None or not header.is_transactional:
            return False
        self._begin_aborted(header.last_offset)
        return header.producer_id in self._aborted_producers

    def _begin_aborted(self, up_to: Offset) -> None:
        """Record the producers whose aborted transaction begins at or before `up_to`."""
        assert self._aborted is not None
        while self._aborted and self._aborted[0][1] <= up_to:
            self._aborted_producers.add(self._aborted.pop(0)[0])

    def _read_marker(self, position: int, header: BatchHeader) -> None:
        if self._aborted is None or not header.has_producer_id:
            return
        self._begin_aborted(header.last_offset)
        for record in self._read(position, header):
            key = record.key
            # A marker's key is version int16 and type int16.
            if key is not None and len(key) >= 4 and int.from_bytes(key[2:4], "big") == _ABORT_MARKER:
                self._aborted_producers.discard(header.producer_id)

    def _corrupt(self, reason: str) -> KafkaError:
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self._topic_partition}: {reason}")
