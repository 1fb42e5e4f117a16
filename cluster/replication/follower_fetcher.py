"""What a follower asks one leader for, and what it does with the answers.

One fetcher copies any number of partitions from one broker, with one request under way. A round is:
`build_epoch_request`, `build_offsets_request` and `build_fetch`, each None when there is nothing to ask.
An answer becomes a list of actions; the shell performs each and calls `performed`, or `action_failed`.

| the leader answers | the partition |
|---|---|
| records, or none | appends them, then follows high watermark and log start |
| a diverging epoch | cuts its log there, and fetches on |
| OFFSET_OUT_OF_RANGE | asks where the leader's log starts and ends |
| FENCED_LEADER_EPOCH | waits for its metadata: a newer leader epoch is on its way |
| OFFSET_MOVED_TO_TIERED_STORAGE | waits; tiered storage will rebuild it from the remote tier |
| any other error, or nothing | asks again after at most replica.fetch.backoff.ms |

Bounds: the partitions that were added, and some topics of the past.
I/O: none; monotonic times come as arguments.
Source: AbstractFetcherThread and RemoteLeaderEndPoint of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol
from uuid import UUID

from clients.failures import known_code
from cluster.replication.follower_questions import FollowerQuestions
from cluster.replication.follower_session import FollowerSession, SentPartition
from cluster.replication.follower_state import (
    Action,
    Append,
    Delayed,
    Failed,
    FollowedPartition,
    LocalLog,
    ReplicaState,
    RestartAt,
    Truncate,
)
from cluster.replication.follower_truncation import cut_for
from cluster.replication.safeguards import NONE_DISABLED, Safeguard, SafeguardSet
from protocol.errors import ErrorCode, KafkaError
from protocol.ids import NO_LEADER_EPOCH, BrokerId, LeaderEpoch, Offset, TopicPartition
from protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from protocol.messages.fetch import ReplicaState as SenderState
from protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)

FIRST_FETCH_VERSION_WITH_DIVERGING_EPOCH: Final = 12
FIRST_FETCH_VERSION_WITH_REPLICA_STATE: Final = 15
NEWEST_FETCH_VERSION: Final = 18

# The bytes may be right the next time: damage on the way, or a log that was just being cut.
_TRANSIENT_ON_APPEND: Final = frozenset({ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD})
_SESSION_ERRORS: Final = frozenset(
    {ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH}
)
# Mostly one of the two has not heard of an election or a topic yet, which takes a moment only.
_SOON_OVER: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
_FIRST_DELAY_MS: Final = 20
_TOPICS_FORGOTTEN_LATE: Final = 100


class FetchThrottle(Protocol):
    """Which partitions must not use more than their share of the network just now."""

    def is_exceeded(self, now_ms: int) -> bool:
        """Whether the throttled partitions have used up their rate."""

    def is_throttled(self, topic_partition: TopicPartition) -> bool:
        """Whether this partition shares in the rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerSettings:
    """The replica.fetch.* keys, and who we are."""

    replica_id: BrokerId
    partition_max_bytes: int
    max_bytes: int
    min_bytes: int
    max_wait_ms: int
    backoff_ms: int


class FollowerFetcher:
    """The partitions that are copied from one broker; see the module for how it is driven.

    `fetch_version` is what the connection speaks: below 12 the leader cannot tell of divergence in its
    answers, so that partitions begin by asking where their last epoch ends.
    """

    def __init__(
        self,
        settings: FollowerSettings,
        *,
        throttle: FetchThrottle | None = None,
        fetch_version: int = NEWEST_FETCH_VERSION,
        disabled: SafeguardSet = NONE_DISABLED,
    ) -> None:
        self.fetch_version = fetch_version
        self.partitions: dict[TopicPartition, FollowedPartition] = {}
        self.failed: dict[TopicPartition, str] = {}
        """Those that are given up until their metadata changes, and why."""
        self._settings = settings
        self._throttle = throttle
        self._disabled = disabled
        self._session = FollowerSession()
        self._questions = FollowerQuestions(settings.replica_id, self.partitions)
        self._changed: dict[TopicPartition, None] = {}
        self._delayed: dict[TopicPartition, None] = {}
        self._held_back: dict[TopicPartition, None] = {}
        self._topic_names: dict[UUID, str] = {}

    # -- partitions come and go

    def add(
        self, topic_partition: TopicPartition, topic_id: UUID, leader_epoch: LeaderEpoch, log: LocalLog
    ) -> list[Action]:
        """Follow a partition in `leader_epoch`; one that is followed in that epoch already goes on as it is.

        Truncate is answered for a log that has to be cut without asking: its records have no epoch.
        """
        known = self.partitions.get(topic_partition)
        if known is not None and known.leader_epoch == leader_epoch and known.topic_id == topic_id:
            return []
        self.remove(topic_partition)
        partition = FollowedPartition(
            topic_partition, topic_id, leader_epoch, log, ReplicaState.FETCHING, log.log_end_offset
        )
        self.partitions[topic_partition] = partition
        self._name_topic(topic_id, topic_partition.topic)
        return self._begin(partition)

    def _name_topic(self, topic_id: UUID, topic: str) -> None:
        self._topic_names[topic_id] = topic
        if len(self._topic_names) > 2 * len(self.partitions) + _TOPICS_FORGOTTEN_LATE:
            self._topic_names = {
                partition.topic_id: topic_partition.topic
                for topic_partition, partition in self.partitions.items()
            }

    def _begin(self, partition: FollowedPartition) -> list[Action]:
        """Find out first where the log leaves the leader's, unless each fetch lets the leader see that."""
        topic_partition, log = partition.topic_partition, partition.log
        partition.state = ReplicaState.FETCHING
        partition.follow_log(compares_epochs=self._compares_epochs)
        self._questions.discard(topic_partition)
        self._changed[topic_partition] = None
        if Safeguard.TRUNCATION_BEFORE_FETCHING in self._disabled:
            return []
        has_epochs = (
            log.leader_epochs.latest_epoch is not None and Safeguard.TRUNCATION_BY_EPOCH not in self._disabled
        )
        if not has_epochs and log.high_watermark < log.log_end_offset:
            return [Truncate(partition, log.high_watermark, True, "no leader epochs are known here")]
        if has_epochs and not self._compares_epochs:
            partition.state = ReplicaState.TRUNCATING
            self._questions.add(topic_partition)
        return []

    @property
    def _compares_epochs(self) -> bool:
        """Whether each fetch lets the leader compare the epochs of the two logs."""
        return (
            self.fetch_version >= FIRST_FETCH_VERSION_WITH_DIVERGING_EPOCH
            and Safeguard.TRUNCATION_BY_EPOCH not in self._disabled
            and Safeguard.TRUNCATION_BEFORE_FETCHING not in self._disabled
        )

    def remove(self, topic_partition: TopicPartition) -> FollowedPartition | None:
        """Stop following a partition; answers that are under way no longer count for it."""
        self.failed.pop(topic_partition, None)
        self._delayed.pop(topic_partition, None)
        self._held_back.pop(topic_partition, None)
        self._questions.discard(topic_partition)
        partition = self.partitions.pop(topic_partition, None)
        if partition is not None:
            self._changed[topic_partition] = None
        return partition

    def is_current(self, partition: FollowedPartition) -> bool:
        """Whether this is still what is followed, and not an earlier epoch of it."""
        return self.partitions.get(partition.topic_partition) is partition

    def connected(self, fetch_version: int) -> None:
        """There is a new connection, on which Fetch has this version: the session starts over."""
        compared_epochs = self._compares_epochs
        self.fetch_version = fetch_version
        self._session.failed(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if self._compares_epochs != compared_epochs:
            for partition in self.partitions.values():
                if partition.log.leader_epochs.latest_epoch is not None:
                    self._begin(partition)

    def next_due_ms(self, now_ms: int) -> int | None:
        """When to look again although nothing was to be asked; None when nothing is due by itself."""
        if self._held_back:
            return now_ms + self._settings.backoff_ms
        return min((self.partitions[each].delayed_until_ms for each in self._delayed), default=None)

    @property
    def max_lag(self) -> Offset:
        """How far the partition that is furthest behind is behind."""
        return max((partition.lag or 0 for partition in self.partitions.values()), default=0)

    # -- Fetch

    def build_fetch(self, now_ms: int, broker_epoch: int = -1) -> FetchRequest | None:
        """The next Fetch; None when no partition is to be fetched. Its answer goes to `on_fetch`."""
        for topic_partition in [
            each for each in self._delayed if self.partitions[each].delayed_until_ms <= now_ms
        ]:
            del self._delayed[topic_partition]
            self._changed[topic_partition] = None
        wanted, unwanted = self._wanted(now_ms)
        session = self._session
        session_id, session_epoch = session.session_id, session.epoch
        topics, forgotten = session.change(wanted, unwanted)
        if not session.sent:
            # Nothing is left to fetch; the leader drops a session that is not used.
            session.failed(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            return None
        own = self._settings.replica_id
        has_state = self.fetch_version >= FIRST_FETCH_VERSION_WITH_REPLICA_STATE
        state = SenderState(replica_id=own, replica_epoch=broker_epoch) if has_state else SenderState()
        return FetchRequest(
            replica_id=-1 if has_state else own,
            replica_state=state,
            max_wait_ms=self._settings.max_wait_ms,
            min_bytes=self._settings.min_bytes,
            max_bytes=self._settings.max_bytes,
            session_id=session_id,
            session_epoch=session_epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
        )

    def _wanted(self, now_ms: int) -> tuple[dict[TopicPartition, SentPartition], list[TopicPartition]]:
        """What the next request says of those that may have changed, and which of them it does not want."""
        self._hold_back(now_ms)
        candidates: Iterable[TopicPartition] = self.partitions if self._session.is_full else self._changed
        wanted: dict[TopicPartition, SentPartition] = {}
        unwanted: list[TopicPartition] = []
        for topic_partition in candidates:
            partition = self.partitions.get(topic_partition)
            if (
                partition is None
                or topic_partition in self._held_back
                or not partition.is_due(ReplicaState.FETCHING, now_ms)
            ):
                unwanted.append(topic_partition)
            else:
                wanted[topic_partition] = self._said_of(partition)
        self._changed = {}
        return wanted, unwanted

    def _said_of(self, partition: FollowedPartition) -> SentPartition:
        epoch = partition.last_fetched_epoch
        return SentPartition(
            partition.topic_id,
            partition.leader_epoch,
            partition.fetch_offset,
            NO_LEADER_EPOCH if epoch is None else epoch,
            partition.log.log_start_offset,
            self._settings.partition_max_bytes,
        )

    def _hold_back(self, now_ms: int) -> None:
        """Leave those out that are throttled; not the ones in sync, which must not fall out of the ISR."""
        throttle = self._throttle
        if throttle is None:
            return
        is_exceeded = throttle.is_exceeded(now_ms)
        before = self._held_back
        if is_exceeded:
            self._held_back = {
                topic_partition: None
                for topic_partition, partition in self.partitions.items()
                if not partition.is_in_sync and throttle.is_throttled(topic_partition)
            }
        elif before:
            self._held_back = {}
        self._changed.update(before)
        self._changed.update(self._held_back)

    def on_fetch(self, response: FetchResponse, now_ms: int) -> list[Action]:
        """The answer to the Fetch built last."""
        code = known_code(response.error_code)
        if code is not ErrorCode.NONE:
            self._session.failed(code)
            if code in _SESSION_ERRORS:
                return []
            return [self._delay(partition, code, now_ms) for partition in self.partitions.values()]
        self._session.answered(response.session_id)
        actions: list[Action] = []
        for topic in response.responses:
            name = topic.topic or self._topic_names.get(topic.topic_id)
            if name is None:
                continue
            for data in topic.partitions:
                action = self._on_data(TopicPartition(name, data.partition_index), data, now_ms)
                if action is not None:
                    actions.append(action)
        return actions

    def on_fetch_lost(self, now_ms: int) -> None:
        """The Fetch built last has no answer: everything waits, and the session starts over."""
        self._session.failed(ErrorCode.NETWORK_EXCEPTION)
        for partition in self.partitions.values():
            self._delay(partition, ErrorCode.NETWORK_EXCEPTION, now_ms)

    def _on_data(self, topic_partition: TopicPartition, data: PartitionData, now_ms: int) -> Action | None:
        partition = self.partitions.get(topic_partition)
        asked = self._session.sent.get(topic_partition)
        if partition is None or asked is None or not partition.is_due(ReplicaState.FETCHING, now_ms):
            return None
        # It may have been removed and added again, in another epoch or with another end, in the meantime.
        if asked[:3] != (partition.topic_id, partition.leader_epoch, partition.fetch_offset):
            return None
        code = known_code(data.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            partition.transition(ReplicaState.RESETTING)
            self._questions.add(topic_partition)
            self._changed[topic_partition] = None
            return None
        if code is not ErrorCode.NONE:
            return self._on_error(partition, code, now_ms)
        partition.failures = 0
        diverging = data.diverging_epoch
        if diverging.end_offset >= 0:
            return self._cut(partition, diverging.epoch, diverging.end_offset)
        records = b"" if data.records is None else data.records
        return Append(partition, partition.fetch_offset, records, data.high_watermark, data.log_start_offset)

    def _cut(self, partition: FollowedPartition, epoch: LeaderEpoch, leader_end_offset: Offset) -> Truncate:
        iterates = Safeguard.EPOCHS_ITERATED not in self._disabled
        cut = cut_for(partition.log, epoch, leader_end_offset, iterates=iterates)
        return Truncate(partition, cut.offset, cut.is_complete, cut.reason)

    # -- OffsetForLeaderEpoch and ListOffsets

    def build_epoch_request(self, now_ms: int) -> OffsetForLeaderEpochRequest | None:
        """Where the last epochs of those end that are TRUNCATING; the answer goes to `on_epochs`."""
        return self._questions.epoch_request(now_ms)

    def on_epochs(self, response: OffsetForLeaderEpochResponse, now_ms: int) -> list[Action]:
        """The answer to the request of `build_epoch_request`."""
        actions: list[Action] = []
        for partition, answer in list(self._questions.epoch_answers(response)):
            code = known_code(answer.error_code)
            if code is not ErrorCode.NONE:
                actions.append(self._on_error(partition, code, now_ms))
            else:
                actions.append(self._cut(partition, answer.leader_epoch, answer.end_offset))
        return actions

    def build_offsets_request(self, now_ms: int) -> ListOffsetsRequest | None:
        """Where the leader's log ends, then where it starts, of those RESETTING; see `on_offsets`."""
        return self._questions.offsets_request(now_ms)

    def on_offsets(self, response: ListOffsetsResponse, now_ms: int) -> list[Action]:
        """The answer to the request of `build_offsets_request`."""
        actions: list[Action] = []
        for partition, answer in list(self._questions.offsets_answers(response)):
            code = known_code(answer.error_code)
            action: Action | None
            if code is not ErrorCode.NONE:
                action = self._on_error(partition, code, now_ms)
            else:
                action = self._on_bound(partition, answer.offset, now_ms)
            if action is not None:
                actions.append(action)
        return actions

    def _on_bound(self, partition: FollowedPartition, leader_offset: Offset, now_ms: int) -> Action | None:
        own_end = partition.log.log_end_offset
        if partition.leader_end_offset is None:
            if leader_offset < own_end:
                # The epochs of the two logs cannot be compared, as after an unclean election.
                reason = f"out of range; the leader's log ends at {leader_offset}"
                return Truncate(partition, leader_offset, True, reason)
            partition.leader_end_offset = leader_offset
            return None
        if leader_offset > own_end:
            return RestartAt(partition, leader_offset, f"the leader's log starts at {leader_offset}")
        self._settle(partition)
        return self._delay(partition, ErrorCode.OFFSET_OUT_OF_RANGE, now_ms)

    def on_question_lost(self, now_ms: int) -> None:
        """The epoch or offsets request under way has no answer: what it was about waits."""
        for partition in self._questions.lost():
            self._delay(partition, ErrorCode.NETWORK_EXCEPTION, now_ms)

    # -- what became of the actions

    def performed(self, action: Append | Truncate | RestartAt) -> None:
        """The action is done: go on from where the log ends now."""
        partition = action.partition
        if not self.is_current(partition):
            return
        if isinstance(action, Append):
            self._appended(partition, action.high_watermark)
        elif self._asks_again(action):
            partition.transition(ReplicaState.TRUNCATING)
        else:
            self._settle(partition)

    def _asks_again(self, action: Truncate | RestartAt) -> bool:
        if isinstance(action, RestartAt) or action.is_complete or self._compares_epochs:
            return False
        return action.partition.log.leader_epochs.latest_epoch is not None

    def _appended(self, partition: FollowedPartition, leader_high_watermark: Offset) -> None:
        before = partition.fetch_offset
        partition.follow_log(compares_epochs=self._compares_epochs)
        partition.lag = max(0, leader_high_watermark - partition.fetch_offset)
        self._changed[partition.topic_partition] = None
        if partition.fetch_offset != before:
            # Those that gave data go to the end, so that each gets its turn at the bytes of an answer.
            self.partitions[partition.topic_partition] = self.partitions.pop(partition.topic_partition)

    def _settle(self, partition: FollowedPartition) -> None:
        """Fetch from where the log ends."""
        partition.transition(ReplicaState.FETCHING)
        partition.follow_log(compares_epochs=self._compares_epochs)
        self._questions.discard(partition.topic_partition)
        self._changed[partition.topic_partition] = None

    def action_failed(
        self, action: Append | Truncate | RestartAt, error: KafkaError, now_ms: int
    ) -> Delayed | Failed | None:
        """The action was refused: damaged bytes are fetched again, else the partition is given up."""
        partition = action.partition
        if not self.is_current(partition):
            return None
        if isinstance(action, Append) and error.code in _TRANSIENT_ON_APPEND:
            return self._delay(partition, error.code, now_ms)
        return self._give_up(partition, error.code, str(error))

    # -- errors

    def _on_error(self, partition: FollowedPartition, code: ErrorCode, now_ms: int) -> Action:
        if code is ErrorCode.FENCED_LEADER_EPOCH:
            return self._give_up(partition, code, "the leader is in a newer epoch; waiting for the metadata")
        return self._delay(partition, code, now_ms)

    def _delay(self, partition: FollowedPartition, code: ErrorCode, now_ms: int) -> Delayed:
        if partition.delayed_until_ms <= now_ms:
            delay_ms = self._settings.backoff_ms
            if code in _SOON_OVER:
                delay_ms = min(delay_ms, _FIRST_DELAY_MS << min(partition.failures, 16))
            partition.failures += 1
            partition.delayed_until_ms = now_ms + delay_ms
            self._delayed[partition.topic_partition] = None
            self._changed[partition.topic_partition] = None
        return Delayed(partition, code)

    def _give_up(self, partition: FollowedPartition, code: ErrorCode, reason: str) -> Failed:
        self.remove(partition.topic_partition)
        self.failed[partition.topic_partition] = reason
        return Failed(partition, code, reason)
