"""One partition that this node leads: who may append and read, and how far readers may see.

Every check that answers "may this request touch this partition now" stands here; the log
below knows only bytes and offsets. The high watermark is the smallest log end offset of the
in-sync replicas, which for a partition with one replica is the log end itself.

Invariant: high_watermark <= log_end_offset.
I/O: through the log it holds. Errors: KafkaError with the code for the reply.
"""

from __future__ import annotations

from enum import Enum
from uuid import UUID

from cluster.image import NO_LEADER, PartitionImage
from cluster.topic_names import is_internal
from protocol.errors import ErrorCode, KafkaError
from protocol.ids import NO_LEADER_EPOCH, BrokerId, LeaderEpoch, Offset, TopicPartition
from storage.log import AppendInfo, AppendOrigin, PartitionLog


class FetchIsolation(Enum):
    """How far a reader may see; the values of `isolation_level` for clients."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1
    LOG_END = 2


ACKS_ALL = -1


class Partition:
    """A led partition and the replicas that must have a record before it is committed."""

    __slots__ = (
        "in_sync_replicas",
        "is_internal",
        "leader_epoch",
        "leader_id",
        "log",
        "topic_id",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition, topic_id: UUID, log: PartitionLog) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.is_internal = is_internal(topic_partition.topic)
        self.log = log
        self.leader_id: BrokerId = NO_LEADER
        self.leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
        self.in_sync_replicas: tuple[BrokerId, ...] = ()

    def follow_metadata(self, placed: PartitionImage) -> None:
        """Take over leader, epoch and in-sync replicas; a new epoch is noted in the log before any record.

        Nothing has changed when the epoch cannot be noted, which is a KafkaError.
        """
        if placed.leader_epoch > self.leader_epoch:
            with self.log.storage_errors("noting of a leader epoch"):
                self.log.assign_leader_epoch(placed.leader_epoch, self.log.log_end_offset)
            self.leader_epoch = placed.leader_epoch
        self.leader_id = placed.leader
        self.in_sync_replicas = placed.isr
        self._advance_high_watermark()

    def append(
        self,
        records: memoryview | bytearray,
        required_acks: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> AppendInfo:
        """Append one produce request's records; NOT_ENOUGH_REPLICAS when acks=all cannot be promised."""
        if required_acks == ACKS_ALL and len(self.in_sync_replicas) < self.log.config.min_insync_replicas:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.topic_partition}: {len(self.in_sync_replicas)} in-sync replicas, "
                f"min.insync.replicas is {self.log.config.min_insync_replicas}",
            )
        info = self.log.append_as_leader(records, self.leader_epoch, now_ms, origin=origin)
        self._advance_high_watermark()
        return info

    def _advance_high_watermark(self) -> None:
        log = self.log
        log.advance_high_watermark(log.log_end_offset)

    @property
    def must_flush(self) -> bool:
        """Whether flush.messages asks for the log to be durable before anything more is answered."""
        log = self.log
        return log.log_end_offset - log.recovery_point >= log.config.flush_messages

    def upper_bound(self, isolation: FetchIsolation) -> Offset:
        """The offset before which `isolation` lets a reader see records (exclusive)."""
        if isolation is FetchIsolation.READ_COMMITTED:
            return self.log.last_stable_offset
        if isolation is FetchIsolation.READ_UNCOMMITTED:
            return self.log.high_watermark
        return self.log.log_end_offset

    def check_leader_epoch(self, current_leader_epoch: LeaderEpoch) -> None:
        """Fence a client whose metadata is older or newer than ours (KIP-320); -1 asks for no check."""
        if current_leader_epoch < 0 or current_leader_epoch == self.leader_epoch:
            return
        code = (
            ErrorCode.FENCED_LEADER_EPOCH
            if current_leader_epoch < self.leader_epoch
            else ErrorCode.UNKNOWN_LEADER_EPOCH
        )
        raise KafkaError(code, f"{self.topic_partition} is at leader epoch {self.leader_epoch}")

    def diverging_epoch(
        self, last_fetched_epoch: LeaderEpoch, fetch_offset: Offset
    ) -> tuple[LeaderEpoch, Offset] | None:
        """Where the reader's log leaves ours, or None when its last epoch reaches up to `fetch_offset`.

        Source: KIP-595, `DivergingEpoch` of a fetch response.
        """
        if last_fetched_epoch < 0:
            return None
        epoch, end_offset = self.log.leader_epochs.end_offset_for(last_fetched_epoch, self.log.log_end_offset)
        if epoch < 0 or end_offset < 0:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition}: leader epoch {last_fetched_epoch} is not known here",
            )
        if epoch < last_fetched_epoch or end_offset < fetch_offset:
            return epoch, end_offset
        return None

    def delete_records_before(self, offset: Offset) -> Offset:
        """Make `offset` (-1: the high watermark) the log start; return the new log start offset."""
        if "delete" not in self.log.config.cleanup_policy:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"{self.topic_partition}: records can only be deleted when cleanup.policy has delete, "
                f"it is {','.join(self.log.config.cleanup_policy)}",
            )
        target = self.log.high_watermark if offset == -1 else offset
        if target < 0 or target > self.log.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition}: {offset} is not within 0 and the high watermark "
                f"{self.log.high_watermark}",
            )
        self.log.advance_log_start_offset(target)
        return self.log.log_start_offset
