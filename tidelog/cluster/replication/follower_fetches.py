"""Builds the next Fetch of a follower: the partitions that changed since the last Fetch and can be fetched.

A partition that is delayed after an error is included after its delay, a throttled one when the quota allows.

Bounds: the followed partitions, and the names of some removed topics.
Source: AbstractFetcherThread and RemoteLeaderEndPoint of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol
from uuid import UUID

from tidelog.base.backoff import ExponentialBackoff
from tidelog.base.dataclass import dataclass
from tidelog.cluster.replication.follower_session import FollowerSession, SentPartition
from tidelog.cluster.replication.follower_state import FollowedPartition, PartitionDelayed, ReplicaState
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import NO_LEADER_EPOCH, BrokerId, TopicPartition
from tidelog.protocol.messages.fetch import FetchRequest
from tidelog.protocol.messages.fetch import ReplicaState as SenderState

FIRST_FETCH_VERSION_WITH_REPLICA_STATE: Final = 15
_SESSION_ERRORS: Final = frozenset(
    {ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH}
)
# Usually a broker has not received an election, a topic or an upload yet, which takes only a short time.
_SHORT_DELAY_ERRORS: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
_FIRST_DELAY_MS: Final = 20
_STALE_TOPIC_NAMES_MAX: Final = 100


class FetchThrottle(Protocol):
    """The replication quota of throttled partitions."""

    def is_exceeded(self, now_ms: int) -> bool:
        """Return whether the throttled partitions exceed their rate."""

    def is_throttled(self, topic_partition: TopicPartition) -> bool:
        """Return whether the partition is throttled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerSettings:
    """The values of the replica.fetch.* configs, and the id of this broker."""

    replica_id: BrokerId
    partition_max_bytes: int
    max_bytes: int
    min_bytes: int
    max_wait_ms: int
    backoff_ms: int


class FollowerFetches:
    """Builds the Fetch requests of one fetcher, at most one of which is pending."""

    def __init__(
        self,
        settings: FollowerSettings,
        partitions: Mapping[TopicPartition, FollowedPartition],
        throttle: FetchThrottle | None,
    ) -> None:
        self.session = FollowerSession()
        self._settings = settings
        self._short_delays = ExponentialBackoff(
            min(_FIRST_DELAY_MS, settings.backoff_ms), settings.backoff_ms
        )
        self._partitions = partitions
        self._throttle = throttle
        self._changed: dict[TopicPartition, None] = {}
        self._delayed: dict[TopicPartition, None] = {}
        self._throttled: dict[TopicPartition, None] = {}
        self._topic_names: dict[UUID, str] = {}

    # -- changes of partitions

    def add_topic_name(self, topic_id: UUID, topic: str) -> None:
        """Store the name of a topic id, because responses may contain only the id."""
        self._topic_names[topic_id] = topic
        if len(self._topic_names) > 2 * len(self._partitions) + _STALE_TOPIC_NAMES_MAX:
            self._topic_names = {
                partition.topic_id: topic_partition.topic
                for topic_partition, partition in self._partitions.items()
            }

    def topic_name(self, topic_id: UUID) -> str | None:
        """Return the name of the topic with the id `topic_id`; None if it is not known."""
        return self._topic_names.get(topic_id)

    def mark_changed(self, topic_partition: TopicPartition) -> None:
        """Mark the partition as changed, so that the next request updates or removes it."""
        self._changed[topic_partition] = None

    def delay(self, partition: FollowedPartition, code: ErrorCode, now_ms: int) -> PartitionDelayed:
        """Delay a partition because of an error; consecutive errors increase the delay."""
        if partition.delayed_until_ms <= now_ms:
            delay_ms = self._settings.backoff_ms
            if code in _SHORT_DELAY_ERRORS:
                delay_ms = self._short_delays.base_delay_ms(partition.failures)
            partition.delay(delay_ms, now_ms)
            self._delayed[partition.topic_partition] = self._changed[partition.topic_partition] = None
        if partition.state is ReplicaState.BUILDING_REMOTE_LOG_AUX:
            # The start of the leader's log may change during the delay: repeat all steps.
            partition.transition(ReplicaState.BUILDING_REMOTE_LOG_AUX)
        return PartitionDelayed(partition, code)

    def on_fetch_failed(self, code: ErrorCode, now_ms: int) -> Sequence[PartitionDelayed]:
        """Delay all partitions after a failed Fetch, except those that wait for the tier."""
        self.session.on_failure(code)
        if code in _SESSION_ERRORS:
            return []
        fetching = [partition for partition in self._partitions.values() if not partition.waits_for_tier]
        return [self.delay(partition, code, now_ms) for partition in fetching]

    def remove(self, topic_partition: TopicPartition) -> None:
        """Remove a partition from the next request."""
        self._delayed.pop(topic_partition, None)
        self._throttled.pop(topic_partition, None)
        self._changed[topic_partition] = None

    def next_ready_ms(self, now_ms: int) -> int | None:
        """Return the time at which the next delay ends; None if no partition is delayed or throttled."""
        if self._throttled:
            return now_ms + self._settings.backoff_ms
        return min((self._partitions[each].delayed_until_ms for each in self._delayed), default=None)

    # -- the request

    def build(self, now_ms: int, broker_epoch: int, version: int) -> FetchRequest | None:
        """Return the next Fetch; None if no partition can be fetched."""
        for topic_partition in [
            each for each in self._delayed if self._partitions[each].delayed_until_ms <= now_ms
        ]:
            partition = self._partitions[topic_partition]
            self._changed[topic_partition] = None
            # A partition with an open query stays: its delay may have ended after that request was built.
            if partition.state is ReplicaState.FETCHING or partition.waits_for_tier:
                del self._delayed[topic_partition]
        fetched, removed = self._select_partitions(now_ms)
        session = self.session
        session_id, session_epoch = session.session_id, session.epoch
        topics, forgotten = session.change(fetched, removed)
        if not session.sent:
            # There is nothing to fetch; the leader closes an unused session.
            session.on_failure(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            return None
        replica_id = self._settings.replica_id
        has_state = version >= FIRST_FETCH_VERSION_WITH_REPLICA_STATE
        state = SenderState(replica_id=replica_id, replica_epoch=broker_epoch) if has_state else SenderState()
        return FetchRequest(
            replica_id=-1 if has_state else replica_id,
            replica_state=state,
            max_wait_ms=self._settings.max_wait_ms,
            min_bytes=self._settings.min_bytes,
            max_bytes=self._settings.max_bytes,
            session_id=session_id,
            session_epoch=session_epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
        )

    def _select_partitions(
        self, now_ms: int
    ) -> tuple[dict[TopicPartition, SentPartition], list[TopicPartition]]:
        """Return the changed partitions that the next request adds or updates, and those that it removes."""
        self._exclude_throttled(now_ms)
        candidates: Iterable[TopicPartition] = self._partitions if self.session.is_full else self._changed
        fetched: dict[TopicPartition, SentPartition] = {}
        removed: list[TopicPartition] = []
        for topic_partition in candidates:
            partition = self._partitions.get(topic_partition)
            if (
                partition is None
                or topic_partition in self._throttled
                or not partition.is_ready(ReplicaState.FETCHING, now_ms)
            ):
                removed.append(topic_partition)
            else:
                fetched[topic_partition] = self._sent_partition(partition)
        self._changed = {}
        return fetched, removed

    def _sent_partition(self, partition: FollowedPartition) -> SentPartition:
        epoch = partition.last_fetched_epoch
        return SentPartition(
            partition.topic_id,
            partition.leader_epoch,
            partition.fetch_offset,
            NO_LEADER_EPOCH if epoch is None else epoch,
            partition.log.log_start_offset,
            self._settings.partition_max_bytes,
        )

    def _exclude_throttled(self, now_ms: int) -> None:
        """Exclude throttled partitions, except those in sync, which must not leave the ISR."""
        throttle = self._throttle
        if throttle is None:
            return
        is_exceeded = throttle.is_exceeded(now_ms)
        before = self._throttled
        if is_exceeded:
            self._throttled = {
                topic_partition: None
                for topic_partition, partition in self._partitions.items()
                if not partition.is_in_sync and throttle.is_throttled(topic_partition)
            }
        elif before:
            self._throttled = {}
        self._changed.update(before)
        self._changed.update(self._throttled)
