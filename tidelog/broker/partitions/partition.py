"""One partition of this node: its role, and the checks of requests that append to it or read it.

The log contains bytes and offsets, and has no role. A partition has one of two roles, according to the
metadata:

    leader     `leader` has the followers' positions and the ISR (tidelog.cluster.replication); appends are
               accepted, and the high watermark is computed from the followers' positions
    follower   `leader` is None; the fetcher appends, and sets the high watermark from the leader's responses

A request that needs the leader gets NOT_LEADER_OR_FOLLOWER from a follower. A request with another leader
epoch is fenced before that (KIP-320).

Invariant: high_watermark <= log_end_offset; leader_epoch and partition_epoch never decrease.
I/O: through the log. Errors: KafkaError with the error code of the response.
"""

from __future__ import annotations

from enum import Enum
from typing import Final
from uuid import UUID

from tidelog.broker.partitions.leadership import Leadership
from tidelog.cluster.image import NO_LEADER, PartitionImage
from tidelog.cluster.replication.leader_isr import CommittedIsr, IsrOutcome, IsrProposal
from tidelog.cluster.replication.leader_state import LeaderState
from tidelog.cluster.topic_names import is_internal
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import (
    NO_LEADER_EPOCH,
    BrokerId,
    LeaderEpoch,
    Offset,
    TopicPartition,
)
from tidelog.storage.append_origin import AppendOrigin
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.log.partition_log import AppendInfo, PartitionLog
from tidelog.storage.log.truncation import RemoteState
from tidelog.storage.log.validation_rules import ValidatedBatch
from tidelog.storage.producers.verification import Verification


class FetchIsolation(Enum):
    """The upper bound of a read; the first two values are those of `isolation_level` in client requests."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1
    LOG_END = 2


ACKS_ALL: Final = -1
"""The value of `acks` of a Produce that waits for all in-sync replicas."""


class Partition:
    """A partition with a replica on this node."""

    __slots__ = (
        "_leadership",
        "is_internal",
        "is_read_only",
        "leader",
        "leader_epoch",
        "leader_id",
        "log",
        "partition_epoch",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self, topic_partition: TopicPartition, topic_id: UUID, log: PartitionLog, leadership: Leadership
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.is_internal = is_internal(topic_partition.topic)
        self.log = log
        self.is_read_only = log.config.is_mounted
        """Whether records come only from another cluster: the topic is mounted."""
        self.leader: LeaderState | None = None
        """The leader's state; None while this node is a follower."""
        self.leader_id: BrokerId = NO_LEADER
        self.leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
        self.partition_epoch = -1
        self._leadership = leadership

    # ---- roles

    def make_leader(self, partition_image: PartitionImage) -> bool:
        """Become or remain the leader, according to the metadata; return whether a new leader epoch starts.

        The start of the epoch is recorded in the log before any record of the epoch, so that followers can
        truncate by it (KIP-279).
        """
        if partition_image.partition_epoch < self.partition_epoch:
            return False
        leadership = self._leadership
        is_new_epoch = partition_image.leader_epoch > self.leader_epoch
        if is_new_epoch:
            self._note_leader_epoch(partition_image.leader_epoch)
            self.log.remote_border.forget()
        leader = self.leader or leadership.create_leader_state(self.log.config.min_insync_replicas)
        leader.apply_metadata(partition_image, self.log.log_end_offset, leadership.clock.monotonic_ms())
        self._set_metadata(partition_image)
        self.leader = leader
        self._request_required_flush()
        self._progress()
        return is_new_epoch

    def _note_leader_epoch(self, leader_epoch: LeaderEpoch) -> None:
        """Write the start of a leader epoch to the log before the epoch has any record (KIP-279)."""
        self.log.epoch_file.note(leader_epoch, self.log.log_end_offset)

    def make_follower(self, partition_image: PartitionImage) -> bool:
        """Follow `partition_image.leader`, if there is one; return whether a new leader epoch starts.

        The fetcher must then restart.
        """
        if partition_image.partition_epoch < self.partition_epoch:
            return False
        is_new_epoch = partition_image.leader_epoch > self.leader_epoch
        if is_new_epoch:
            self.log.remote_border.forget()
        self._set_metadata(partition_image)
        self.leader = None
        self.log.producers.forget_verifications()
        return is_new_epoch

    def end_role(self) -> None:
        """Have no role: the partition has left this node, or its log is recovered from remote storage.

        Waiting requests complete with NOT_LEADER_OR_FOLLOWER. The next leader epoch has not begun.
        """
        self.leader = None
        self.leader_id = NO_LEADER

    def _set_metadata(self, partition_image: PartitionImage) -> None:
        self.leader_id = partition_image.leader
        self.leader_epoch = max(self.leader_epoch, partition_image.leader_epoch)
        self.partition_epoch = partition_image.partition_epoch

    def update_config(self, config: LogConfig) -> None:
        """Apply changed configs of the topic."""
        self.log.update_config(config)
        self.is_read_only = config.is_mounted
        leader = self.leader
        if leader is not None:
            if leader.min_insync_replicas != config.min_insync_replicas:
                leader.set_min_insync_replicas(config.min_insync_replicas)
            self._request_required_flush()
            self._progress()

    # ---- appending

    def append(
        self,
        records: memoryview | bytearray,
        required_acks: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        *,
        verification: Verification | None = None,
        validated: ValidatedBatch | None = None,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """Append the records of one produce request.

        If flush.messages requires a flush, it begins; the high watermark advances after it (`on_flushed`).
        `verification`, `validated` and `transaction_version` are those of `append_as_leader`.
        Errors: NOT_LEADER_OR_FOLLOWER; NOT_ENOUGH_REPLICAS if the ISR is too small for acks=all.
        """
        leader = self.leader
        if leader is None:
            raise self._not_leader()
        if self.is_read_only:
            raise self._read_only()
        if required_acks == ACKS_ALL and leader.is_under_min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.topic_partition} has {len(leader.isr)} in-sync replicas; "
                f"min.insync.replicas is {leader.effective_min_insync_replicas}",
            )
        log = self.log
        has_uncommitted = not leader.is_only_replica and log.high_watermark < log.log_end_offset
        info = log.append_as_leader(
            records,
            self.leader_epoch,
            now_ms,
            origin=origin,
            transaction_version=transaction_version,
            verification=verification,
            validated=validated,
        )
        if log.durability.must_flush:
            self._leadership.request_flush(log)
        elif leader.is_only_replica:
            log.advance_high_watermark(log.log_end_offset)
        elif not leader.waits_for_followers and self._advance_high_watermark(leader) and has_uncommitted:
            # Earlier records waited for a follower, and no later event completes the requests for them.
            self._leadership.complete_waiting_requests(self.topic_partition)
        return info

    def _request_required_flush(self) -> None:
        """Begin a flush of the log if flush.messages requires one; the high watermark waits for it."""
        if self.log.durability.must_flush:
            self._leadership.request_flush(self.log)

    def on_flushed(self) -> None:
        """Advance the high watermark after a flush of the log; it may have waited for the flush."""
        if self.leader is not None:
            self._request_required_flush()
            self._progress()

    def continue_after_remote(self, state: RemoteState, now_ms: int) -> None:
        """Continue a mounted log, as its leader, after segments that have appeared in remote storage.

        All of its records are committed: they are in the bucket of another cluster.
        """
        leader = self.leader
        assert leader is not None and self.is_read_only, self.topic_partition
        self.log.restart_from_remote(state, now_ms)
        self._note_leader_epoch(self.leader_epoch)
        leader.restart_epoch_at(self.log.log_end_offset)
        self._leadership.complete_waiting_requests(self.topic_partition)

    def commit_outcome(self, required_offset: Offset) -> ErrorCode | None:
        """Return the response code of an acks=all append that ends at `required_offset`.

        None if the outcome is not known yet. NOT_LEADER_OR_FOLLOWER if this node is no longer the leader;
        the records may still be committed.
        """
        leader = self.leader
        if leader is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.log.high_watermark < required_offset:
            return None
        return (
            ErrorCode.NONE
            if leader.has_enough_in_sync_replicas
            else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        )

    @property
    def is_leader(self) -> bool:
        """Whether this node is the leader, according to its metadata."""
        return self.leader is not None

    def is_followed_since(self, since_ms: int) -> bool:
        """Return whether this node is leader and all in-sync followers fetched at `since_ms` or later."""
        return self.leader is not None and self.leader.is_followed_since(since_ms)

    # ---- followers and the ISR

    def record_follower_fetch(
        self, broker_id: BrokerId, fetch_offset: Offset, log_start_offset: Offset, broker_epoch: int
    ) -> None:
        """Record a follower's fetch position, which may advance the high watermark or expand the ISR."""
        leader, leadership = self.leader, self._leadership
        assert leader is not None, f"{self.topic_partition} has another leader"
        log = self.log
        now_ms = leadership.clock.monotonic_ms()
        has_waiting_deletions = leadership.has_waiting_deletions
        low_watermark = leader.low_watermark(log.log_start_offset) if has_waiting_deletions else 0
        has_advanced = leader.record_fetch(
            broker_id, fetch_offset, log_start_offset, log.log_end_offset, broker_epoch, now_ms
        )
        if leader.pending is None and broker_id not in leader.isr:
            proposal = leader.propose_expansion(broker_id, log.high_watermark)
            if proposal is not None:
                leadership.propose(self, proposal)
        if (has_advanced and self._advance_high_watermark(leader)) or (
            has_waiting_deletions and leader.low_watermark(log.log_start_offset) > low_watermark
        ):
            leadership.complete_waiting_requests(self.topic_partition)

    def check_isr(self) -> IsrProposal | None:
        """Propose to remove lagging followers from the ISR; return the proposal, None if there is none.

        Called periodically. The high watermark may advance when lagging followers no longer count.
        """
        leader, leadership = self.leader, self._leadership
        if leader is None or leader.is_only_replica:
            return None
        proposal = leader.propose_shrink(self.log.log_end_offset, leadership.clock.monotonic_ms())
        if proposal is not None:
            leadership.propose(self, proposal)
        self._progress()
        return proposal

    @property
    def pending_isr(self) -> IsrProposal | None:
        """The change of the ISR in progress; None if there is none."""
        return None if self.leader is None else self.leader.pending

    def on_isr_response(self, proposal: IsrProposal, response: CommittedIsr | ErrorCode) -> bool:
        """Apply the controller's response; return True if the proposal must be sent again."""
        leader, leadership = self.leader, self._leadership
        if leader is None:
            return False
        outcome = leader.on_isr_response(proposal, response)
        if outcome is IsrOutcome.COMMITTED:
            self.partition_epoch = leader.partition_epoch
            leadership.on_isr_changed(proposal)
            self._progress()
        elif not isinstance(response, CommittedIsr) or leader.pending is proposal:
            leadership.on_isr_update_failed()
            # The high watermark no longer waits for a new member that was rejected.
            self._progress()
        return outcome is IsrOutcome.RETRY

    def _progress(self) -> None:
        """Advance the high watermark if the ISR allows it, and complete the requests that wait for it."""
        if self.leader is not None and self._advance_high_watermark(self.leader):
            self._leadership.complete_waiting_requests(self.topic_partition)

    def _advance_high_watermark(self, leader: LeaderState) -> bool:
        """Advance the high watermark as far as the ISR allows; return whether it has advanced."""
        log = self.log
        high_watermark = leader.high_watermark(
            log.log_end_offset, log.durability.committable_end, self._leadership.clock.monotonic_ms()
        )
        return high_watermark is not None and log.advance_high_watermark(high_watermark)

    # ---- checks of requests

    def upper_bound(self, isolation: FetchIsolation) -> Offset:
        """Return the end offset (exclusive) of the records that a reader with this isolation may read."""
        if isolation is FetchIsolation.READ_COMMITTED:
            return self.log.last_stable_offset
        if isolation is FetchIsolation.READ_UNCOMMITTED:
            return self.log.high_watermark
        return self.log.log_end_offset

    def check_leader_epoch(self, current_leader_epoch: LeaderEpoch) -> None:
        """Raise if the client's leader epoch differs from ours (KIP-320); -1 means no check.

        Errors: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH.
        """
        if current_leader_epoch < 0 or current_leader_epoch == self.leader_epoch:
            return
        code = (
            ErrorCode.FENCED_LEADER_EPOCH
            if current_leader_epoch < self.leader_epoch
            else ErrorCode.UNKNOWN_LEADER_EPOCH
        )
        raise KafkaError(code, f"{self.topic_partition} is at leader epoch {self.leader_epoch}")

    def require_leader(self, current_leader_epoch: LeaderEpoch = NO_LEADER_EPOCH) -> LeaderState:
        """Return the leader's state, for a request that only the leader may serve.

        Errors: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER.
        """
        self.check_leader_epoch(current_leader_epoch)
        if self.leader is None:
            raise self._not_leader()
        return self.leader

    def _read_only(self) -> KafkaError:
        source = self.log.config.tidelog_source
        assert source is not None
        return KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"{self.topic_partition} is read-only: it is topic {source.topic} of mount {source.mount}",
        )

    def _not_leader(self) -> KafkaError:
        return KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"the leader of {self.topic_partition} is broker {self.leader_id} in epoch {self.leader_epoch}",
        )

    def check_high_watermark_known(self) -> None:
        """Raise OFFSET_NOT_AVAILABLE if no record of this leader epoch is committed yet (KIP-207).

        Until then the high watermark may be lower than the offsets that consumers have read.
        """
        leader = self.leader
        if leader is not None and leader.epoch_start_offset > self.log.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"{self.topic_partition}: the high watermark {self.log.high_watermark} has not reached "
                f"{leader.epoch_start_offset}, where leader epoch {self.leader_epoch} starts",
            )

    # ---- deleting records

    def delete_records_before(self, offset: Offset) -> Offset:
        """Make `offset` the log start offset; return the offset that the low watermark must reach.

        The offset -1 means the high watermark.
        Errors: NOT_LEADER_OR_FOLLOWER, POLICY_VIOLATION, OFFSET_OUT_OF_RANGE.
        """
        self.require_leader()
        if self.is_read_only:
            raise self._read_only()
        if "delete" not in self.log.config.cleanup_policy:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"{self.topic_partition}: cannot delete records with cleanup.policy="
                f"{','.join(self.log.config.cleanup_policy)}; the policy must contain delete",
            )
        target = self.log.high_watermark if offset == -1 else offset
        if target < 0 or target > self.log.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition}: offset {offset} is not between 0 and the high watermark "
                f"{self.log.high_watermark}",
            )
        self.log.advance_log_start_offset(target)
        return target

    @property
    def low_watermark(self) -> Offset | None:
        """The smallest log start offset of all live replicas; None if this node is not the leader."""
        return None if self.leader is None else self.leader.low_watermark(self.log.log_start_offset)
