"""One partition of this node: who may append and read, and how far readers may see.

Every check that answers "may this request touch this partition now" stands here; the log below
knows only bytes and offsets. A partition has one of two roles, as the metadata says:

    leader     `leader` keeps the followers' positions, the ISR and what they commit
    (tidelog.cluster.replication);
               appends are taken, and the high watermark follows from what followers have fetched
    follower   `leader` is None; the fetcher appends, and gives the high watermark the leader told

A request that needs the leader and does not find it here is NOT_LEADER_OR_FOLLOWER; one made at another
leader epoch is fenced before that (KIP-320).

Invariant: high_watermark <= log_end_offset; leader_epoch and partition_epoch never fall.
I/O: through the log it holds. Errors: KafkaError with the code for the reply.
"""

from __future__ import annotations

from enum import Enum
from uuid import UUID

from tidelog.broker.partitions.leadership import Leadership
from tidelog.cluster.image import NO_LEADER, PartitionImage
from tidelog.cluster.replication.leader_isr import IsrCommitted, IsrOutcome, IsrProposal
from tidelog.cluster.replication.leader_state import LeaderState
from tidelog.cluster.topic_names import is_internal
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import (
    NO_LEADER_EPOCH,
    BrokerId,
    LeaderEpoch,
    Offset,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
)
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.log.partition_log import AppendInfo, AppendOrigin, PartitionLog
from tidelog.storage.log.validation_rules import ValidatedBatch
from tidelog.storage.producers.verification import NO_VERIFICATION, Verification


class FetchIsolation(Enum):
    """How far a reader may see; the values of `isolation_level` for clients."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1
    LOG_END = 2


ACKS_ALL = -1


class Partition:
    """A partition with a replica here, and its role."""

    __slots__ = (
        "_leadership",
        "is_internal",
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
        self.leader: LeaderState | None = None
        """What the leader knows; None while this node follows."""
        self.leader_id: BrokerId = NO_LEADER
        self.leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
        self.partition_epoch = -1
        self._leadership = leadership

    # ---- roles

    def make_leader(self, placed: PartitionImage) -> bool:
        """Lead, or go on leading, as the metadata says; True when a leader epoch begins.

        The epoch is noted in the log before any record of it, so that followers can truncate by it
        (KIP-279).
        """
        if placed.partition_epoch < self.partition_epoch:
            return False
        shared = self._leadership
        is_new_epoch = placed.leader_epoch > self.leader_epoch
        if is_new_epoch:
            self._note_leader_epoch(placed.leader_epoch)
            self.log.forget_remote_log()
        leader = self.leader or shared.new_state(self.log.config.min_insync_replicas)
        leader.follow_metadata(placed, self.log.log_end_offset, shared.clock.monotonic_ms())
        self._take_over(placed)
        self.leader = leader
        self._progress()
        return is_new_epoch

    def _note_leader_epoch(self, leader_epoch: LeaderEpoch) -> None:
        """Write the start of a leader epoch to the log before the epoch has any record (KIP-279)."""
        self.log.note_leader_epoch(leader_epoch, self.log.log_end_offset)

    def make_follower(self, placed: PartitionImage) -> bool:
        """Follow `placed.leader`, who may be nobody; True when the fetcher must start anew."""
        if placed.partition_epoch < self.partition_epoch:
            return False
        is_new_epoch = placed.leader_epoch > self.leader_epoch
        if is_new_epoch:
            self.log.forget_remote_log()
        self._take_over(placed)
        self.leader = None
        self.log.producers.forget_verifications()
        return is_new_epoch

    def retire(self) -> None:
        """Lead and follow no more: the partition is not here any longer; who still waits will hear it."""
        self.leader = None
        self.leader_id = NO_LEADER

    def _take_over(self, placed: PartitionImage) -> None:
        self.leader_id = placed.leader
        self.leader_epoch = max(self.leader_epoch, placed.leader_epoch)
        self.partition_epoch = placed.partition_epoch

    def update_config(self, config: LogConfig) -> None:
        """Follow changed settings of the topic."""
        self.log.update_config(config)
        leader = self.leader
        if leader is not None and leader.min_insync_replicas != config.min_insync_replicas:
            leader.use_min_insync_replicas(config.min_insync_replicas)
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
        """Append one produce request's records; NOT_ENOUGH_REPLICAS when acks=all cannot be promised.

        `verification` and `transaction_version` as in `append_as_leader`.
        """
        leader = self.leader
        if leader is None:
            raise self._not_leader()
        if required_acks == ACKS_ALL and leader.is_under_min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.topic_partition}: {len(leader.isr)} in-sync replicas, "
                f"min.insync.replicas is {leader.effective_min_insync_replicas}",
            )
        log = self.log
        has_uncommitted = log.high_watermark < log.log_end_offset
        info = log.append_as_leader(
            records,
            self.leader_epoch,
            now_ms,
            origin=origin,
            transaction_version=transaction_version,
            verification=verification,
            validated=validated,
        )
        if leader.is_alone:
            log.advance_high_watermark(log.log_end_offset)
        elif not leader.waits_for_followers and self._advance_high_watermark(leader) and has_uncommitted:
            # A follower held those back; nobody else would tell who waits for them.
            self._leadership.progressed(self.topic_partition)
        return info

    def begin_verification(
        self,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        sequence: int,
        now_ms: int,
        *,
        supports_epoch_bump: bool,
    ) -> Verification:
        """Begin the verification of a producer's transaction; NO_VERIFICATION when it is open.

        Errors: KafkaError NOT_LEADER_OR_FOLLOWER, INVALID_PRODUCER_EPOCH.
        """
        self.led()
        begun = self.log.producers.begin_verification(
            producer_id, producer_epoch, sequence, now_ms, supports_epoch_bump=supports_epoch_bump
        )
        return begun or NO_VERIFICATION

    def committed(self, required_offset: Offset) -> ErrorCode | None:
        """Whether what ends at `required_offset`, appended with acks=all, may be answered, and with what.

        None: not yet. NOT_LEADER_OR_FOLLOWER when leadership was lost: the records may yet be committed.
        """
        leader = self.leader
        if leader is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.log.high_watermark < required_offset:
            return None
        return ErrorCode.NONE if leader.keeps_acks_all else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    @property
    def is_led(self) -> bool:
        """Whether this node is the leader, as far as it knows."""
        return self.leader is not None

    def is_followed_since(self, since_ms: int) -> bool:
        """Whether this node leads and every other in-sync replica followed it at `since_ms` or later."""
        return self.leader is not None and self.leader.is_followed_since(since_ms)

    # ---- followers and the ISR

    def record_follower_fetch(
        self, broker_id: BrokerId, fetch_offset: Offset, log_start_offset: Offset, broker_epoch: int
    ) -> None:
        """An assigned follower has fetched from its log end: it may join the ISR, and commit records."""
        leader, shared = self.leader, self._leadership
        assert leader is not None, f"{self.topic_partition} is not led here"
        log = self.log
        now_ms = shared.clock.monotonic_ms()
        deletions_wait = shared.deletions_wait
        low_watermark = leader.low_watermark(log.log_start_offset) if deletions_wait else 0
        grew = leader.record_fetch(
            broker_id, fetch_offset, log_start_offset, log.log_end_offset, broker_epoch, now_ms
        )
        if leader.pending is None and broker_id not in leader.isr and shared.can_propose:
            proposal = leader.propose_expansion(broker_id, log.high_watermark)
            if proposal is not None:
                shared.propose(self, proposal)
        if (grew and self._advance_high_watermark(leader)) or (
            deletions_wait and leader.low_watermark(log.log_start_offset) > low_watermark
        ):
            shared.progressed(self.topic_partition)

    def check_isr(self) -> IsrProposal | None:
        """Every now and then: propose to drop followers that lag; those that wait no more free records."""
        leader, shared = self.leader, self._leadership
        if leader is None or leader.is_alone:
            return None
        proposal = None
        if shared.can_propose:
            proposal = leader.propose_shrink(self.log.log_end_offset, shared.clock.monotonic_ms())
            if proposal is not None:
                shared.propose(self, proposal)
        self._progress()
        return proposal

    @property
    def pending_isr(self) -> IsrProposal | None:
        """The change of the ISR that is under way."""
        return None if self.leader is None else self.leader.pending

    def on_isr_response(self, proposal: IsrProposal, answer: IsrCommitted | ErrorCode) -> bool:
        """The controller answered; True when the proposal is to be sent again."""
        leader, shared = self.leader, self._leadership
        if leader is None:
            return False
        outcome = leader.answered(proposal, answer)
        if outcome is IsrOutcome.COMMITTED:
            self.partition_epoch = leader.partition_epoch
            if proposal.is_expansion:
                shared.isr_expands += 1
            else:
                shared.isr_shrinks += 1
            self._progress()
        elif not isinstance(answer, IsrCommitted) or leader.pending is proposal:
            shared.failed_isr_updates += 1
            # Who was to join and was refused holds nothing back any more.
            self._progress()
        return outcome is IsrOutcome.RETRY

    def _progress(self) -> None:
        """Advance the high watermark if the ISR lets it, and answer who waited for that."""
        if self.leader is not None and self._advance_high_watermark(self.leader):
            self._leadership.progressed(self.topic_partition)

    def _advance_high_watermark(self, leader: LeaderState) -> bool:
        log = self.log
        reached = leader.high_watermark(log.log_end_offset, self._leadership.clock.monotonic_ms())
        return reached is not None and log.advance_high_watermark(reached)

    # ---- what requests ask

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

    def led(self, current_leader_epoch: LeaderEpoch = NO_LEADER_EPOCH) -> LeaderState:
        """The leader's state, for a request that only the leader can answer.

        Errors: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER.
        """
        self.check_leader_epoch(current_leader_epoch)
        if self.leader is None:
            raise self._not_leader()
        return self.leader

    def _not_leader(self) -> KafkaError:
        return KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"{self.topic_partition} is led by broker {self.leader_id} in epoch {self.leader_epoch}",
        )

    def check_follower(self, broker_id: BrokerId, current_leader_epoch: LeaderEpoch) -> None:
        """Refuse a fetch of a broker that has no replica, as far as we know.

        With a leader epoch that is ours it may be a replica that we have not heard of yet: it will try
        again on UNKNOWN_LEADER_EPOCH.
        """
        leader = self.led(current_leader_epoch)
        if broker_id not in leader.followers:
            code = (
                ErrorCode.UNKNOWN_LEADER_EPOCH
                if current_leader_epoch >= 0
                else ErrorCode.NOT_LEADER_OR_FOLLOWER
            )
            raise KafkaError(code, f"broker {broker_id} has no replica of {self.topic_partition}")

    def check_high_watermark_known(self) -> None:
        """Refuse to name an end to clients before this epoch has committed anything (KIP-207).

        Until then the high watermark may lag behind what readers have seen: OFFSET_NOT_AVAILABLE.
        """
        leader = self.leader
        if leader is not None and leader.epoch_start_offset > self.log.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"{self.topic_partition}: the high watermark {self.log.high_watermark} has not reached "
                f"{leader.epoch_start_offset}, where leader epoch {self.leader_epoch} starts",
            )

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
        if fetch_offset < self.log.log_start_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition}: offset {fetch_offset} is below {self.log.log_start_offset}",
            )
        if epoch < last_fetched_epoch or end_offset < fetch_offset:
            return epoch, end_offset
        return None

    # ---- deleting records

    def delete_records_before(self, offset: Offset) -> Offset:
        """Make `offset` (-1: the high watermark) the log start; return what the low watermark must reach."""
        self.led()
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
        return target

    @property
    def low_watermark(self) -> Offset:
        """Before this no replica that is alive keeps records; NOT_LEADER_OR_FOLLOWER at a follower."""
        return self.led().low_watermark(self.log.log_start_offset)
