"""The requests of a follower to one leader, and the handling of the responses.

One fetcher copies any number of partitions from one broker, with one pending request. A round is:
`build_epoch_request`, `build_offsets_request` and `build_fetch`, each None if there is nothing to request.
A response results in a list of actions. The shell performs each, and calls `on_action_performed` or
`on_action_failed`. Only FetchAuxiliary takes time. Until it is complete, the fetcher continues with the other
partitions.

| response | effect on the partition |
|---|---|
| records, or none | appends them, then applies high watermark and log start |
| a diverging epoch | truncates its log there, and continues to fetch |
| OFFSET_OUT_OF_RANGE | requests the start and end of the leader's log |
| OFFSET_MOVED_TO_TIERED_STORAGE | restarts with state from the remote tier, see follower_aux |
| FENCED_LEADER_EPOCH | waits for its metadata, which has a newer leader epoch |
| any other error, or none received | repeats the request after at most replica.fetch.backoff.ms |

Bounds: the partitions that were added.
I/O: none; monotonic times come as arguments.
Source: AbstractFetcherThread and RemoteLeaderEndPoint of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from tidelog.clients.transport.failures import known_code
from tidelog.cluster.replication.follower_aux import AuxBuilder, RemoteTier
from tidelog.cluster.replication.follower_fetches import FetchThrottle, FollowerFetches, FollowerSettings
from tidelog.cluster.replication.follower_queries import FollowerQueries
from tidelog.cluster.replication.follower_state import (
    Action,
    Append,
    FetchAuxiliary,
    FollowedPartition,
    LocalLog,
    LogAction,
    PartitionDelayed,
    PartitionFailed,
    ReplicaState,
    RestartAt,
    RestartFromRemote,
    Truncate,
)
from tidelog.cluster.replication.follower_truncation import truncation_state
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import LeaderEpoch, Offset, TopicPartition
from tidelog.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from tidelog.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from tidelog.storage.disk.errors import StorageFailure

__all__ = ["FetchThrottle", "FollowerFetcher", "FollowerSettings"]

FIRST_FETCH_VERSION_WITH_DIVERGING_EPOCH: Final = 12
NEWEST_FETCH_VERSION: Final = 18

# A later append may succeed after corruption in transit, a concurrent truncation or a full disk.
_TRANSIENT_ON_APPEND: Final = frozenset(
    {ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD, ErrorCode.KAFKA_STORAGE_ERROR}
)


def _is_transient(error: KafkaError) -> bool:
    """Return whether a later append may succeed; a log accepts no writes after a StorageFailure."""
    return error.code in _TRANSIENT_ON_APPEND and not isinstance(error, StorageFailure)


class FollowerFetcher:
    """The partitions that are copied from one broker.

    `fetch_version` is the version of Fetch on the connection. Below 12 a response cannot contain a diverging
    epoch. In this case partitions first request the end of their last epoch.
    """

    def __init__(
        self,
        settings: FollowerSettings,
        *,
        throttle: FetchThrottle | None = None,
        tier: RemoteTier | None = None,
        fetch_version: int = NEWEST_FETCH_VERSION,
    ) -> None:
        self.fetch_version = fetch_version
        self.partitions: dict[TopicPartition, FollowedPartition] = {}
        self.failed: dict[TopicPartition, str] = {}
        """The partitions that are not fetched until their metadata changes, with the reasons."""
        self._settings = settings
        self._fetches = FollowerFetches(settings, self.partitions, throttle)
        self._queries = FollowerQueries(settings.replica_id, self.partitions)
        self._aux = AuxBuilder(tier, self._fetches.delay)

    # -- adding and removing partitions

    def add(
        self, topic_partition: TopicPartition, topic_id: UUID, leader_epoch: LeaderEpoch, log: LocalLog
    ) -> list[Action]:
        """Follow a partition in `leader_epoch`; a partition that is already followed in it is unchanged.

        Returns Truncate for a log whose records have no epoch. It is truncated without a request.
        """
        known = self.partitions.get(topic_partition)
        if known is not None and known.leader_epoch == leader_epoch and known.topic_id == topic_id:
            return []
        self.remove(topic_partition)
        partition = FollowedPartition(
            topic_partition, topic_id, leader_epoch, log, ReplicaState.FETCHING, log.log_end_offset
        )
        self.partitions[topic_partition] = partition
        self._fetches.add_topic_name(topic_id, topic_partition.topic)
        return self._start_following(partition)

    def _start_following(self, partition: FollowedPartition) -> list[Action]:
        """Start to follow; find a divergence from the leader's log first unless a fetch detects it."""
        topic_partition = partition.topic_partition
        partition.restart(compares_epochs=self._compares_epochs)
        self._queries.discard(topic_partition)
        self._fetches.mark_changed(topic_partition)
        return self._find_divergence(partition)

    def _find_divergence(self, partition: FollowedPartition) -> list[Action]:
        """Start to find the divergence from the leader's log before the first fetch of an epoch (KIP-279)."""
        topic_partition, log = partition.topic_partition, partition.log
        has_epochs = self._has_epochs(log)
        if not has_epochs and log.high_watermark < log.log_end_offset:
            return [Truncate(partition, log.high_watermark, True, "the local log has no leader epochs")]
        if has_epochs and not self._compares_epochs:
            partition.start_truncation()
            self._queries.add(topic_partition)
        return []

    @property
    def _compares_epochs(self) -> bool:
        """Whether the leader compares the epochs of the two logs at each fetch."""
        return self.fetch_version >= FIRST_FETCH_VERSION_WITH_DIVERGING_EPOCH

    def _has_epochs(self, log: LocalLog) -> bool:
        """Return whether the log can be truncated by leader epoch (KIP-101), not by its high watermark."""
        return log.leader_epochs.latest_epoch is not None

    def remove(self, topic_partition: TopicPartition) -> FollowedPartition | None:
        """Stop following a partition; responses to pending requests are ignored for it."""
        self.failed.pop(topic_partition, None)
        self._queries.discard(topic_partition)
        self._fetches.remove(topic_partition)
        return self.partitions.pop(topic_partition, None)

    def is_current(self, partition: FollowedPartition) -> bool:
        """Return whether `partition` is still followed, in this leader epoch."""
        return self.partitions.get(partition.topic_partition) is partition

    def on_connected(self, fetch_version: int) -> None:
        """Start a new fetch session on a new connection, which uses this version of Fetch."""
        compared_epochs = self._compares_epochs
        self.fetch_version = fetch_version
        self._fetches.session.on_failure(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if self._compares_epochs != compared_epochs:
            for partition in self.partitions.values():
                if partition.log.leader_epochs.latest_epoch is not None:
                    self._start_following(partition)

    def prefer_last_tiered_offset(self, enabled: bool) -> None:
        """Set follower.fetch.last.tiered.offset.enable."""
        self._aux.prefer_last_tiered_offset(enabled)

    def next_ready_ms(self, now_ms: int) -> int | None:
        """Return the time at which the next delay ends; None if no partition is delayed or throttled."""
        return self._fetches.next_ready_ms(now_ms)

    @property
    def max_lag(self) -> Offset:
        """The largest lag of all partitions, in records."""
        return max((partition.lag or 0 for partition in self.partitions.values()), default=0)

    # -- Fetch

    def build_fetch(self, now_ms: int, broker_epoch: int = -1) -> FetchRequest | None:
        """Return the next Fetch; None if no partition is ready. Its response goes to `on_fetch`."""
        return self._fetches.build(now_ms, broker_epoch, self.fetch_version)

    def on_fetch(self, response: FetchResponse, now_ms: int) -> list[Action]:
        """Handle the response to the last Fetch."""
        code = known_code(response.error_code)
        if code is not ErrorCode.NONE:
            return list(self._fetches.on_fetch_failed(code, now_ms))
        self._fetches.session.on_response(response.session_id)
        actions: list[Action] = []
        for topic in response.responses:
            name = topic.topic or self._fetches.topic_name(topic.topic_id)
            if name is None:
                continue
            for data in topic.partitions:
                action = self._on_data(TopicPartition(name, data.partition_index), data, now_ms)
                if action is not None:
                    actions.append(action)
        return actions

    def on_fetch_failed(self, now_ms: int) -> None:
        """Delay all partitions and start a new session: the last Fetch got no response."""
        self._fetches.on_fetch_failed(ErrorCode.NETWORK_EXCEPTION, now_ms)

    def _on_data(self, topic_partition: TopicPartition, data: PartitionData, now_ms: int) -> Action | None:
        partition = self.partitions.get(topic_partition)
        sent = self._fetches.session.sent.get(topic_partition)
        if partition is None or sent is None or not partition.is_ready(ReplicaState.FETCHING, now_ms):
            return None
        # Since the request, it may have been removed and added again, in another epoch or with another end.
        if sent[:3] != (partition.topic_id, partition.leader_epoch, partition.fetch_offset):
            return None
        code = known_code(data.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            partition.transition(ReplicaState.RESETTING)
            self._queries.add(topic_partition)
            self._fetches.mark_changed(topic_partition)
            return None
        if code is ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE and self._aux.can_build(partition):
            self._start_aux_build(partition)
            return None
        if code is not ErrorCode.NONE:
            return self._on_error(partition, code, now_ms)
        partition.on_fetched()
        diverging = data.diverging_epoch
        if diverging.end_offset >= 0:
            return self._truncate_to_epoch_end(partition, diverging.epoch, diverging.end_offset)
        records = b"" if data.records is None else data.records
        return Append(partition, partition.fetch_offset, records, data.high_watermark, data.log_start_offset)

    def _truncate_to_epoch_end(
        self, partition: FollowedPartition, epoch: LeaderEpoch, leader_end_offset: Offset
    ) -> Truncate | None:
        truncation = truncation_state(partition.log, epoch, leader_end_offset)
        return self._truncate(partition, truncation.offset, truncation.is_complete, truncation.reason)

    def _truncate(
        self, partition: FollowedPartition, offset: Offset, is_complete: bool, reason: str
    ) -> Truncate | None:
        if self._needs_remote_state(partition, offset):
            self._start_aux_build(partition)
            return None
        return Truncate(partition, offset, is_complete, reason)

    def _needs_remote_state(self, partition: FollowedPartition, offset: Offset) -> bool:
        """Return whether a truncation to `offset` would remove the whole local log of a tiered partition.

        Only the remote tier then has the state of the producers at `offset`.
        """
        log = partition.log
        is_remote = log.log_start_offset < offset < log.local_log_start_offset
        return is_remote and self._aux.can_build(partition)

    def _start_aux_build(self, partition: FollowedPartition) -> None:
        """Start to build the auxiliary state from the tier; the first request goes to the leader."""
        partition.transition(ReplicaState.BUILDING_REMOTE_LOG_AUX)
        partition.set_lag(None)
        self._queries.add(partition.topic_partition)
        self._fetches.mark_changed(partition.topic_partition)

    # -- OffsetForLeaderEpoch and ListOffsets

    def build_epoch_request(self, now_ms: int) -> OffsetForLeaderEpochRequest | None:
        """Return the request for ends of epochs, if any; its response goes to `on_epochs`."""
        return self._queries.epoch_request(now_ms)

    def on_epochs(self, response: OffsetForLeaderEpochResponse, now_ms: int) -> list[Action]:
        """Handle the response to `build_epoch_request`."""
        actions: list[Action | None] = []
        for partition, result in self._queries.epoch_results(response):
            code = known_code(result.error_code)
            if code is not ErrorCode.NONE:
                actions.append(self._on_error(partition, code, now_ms))
            elif partition.state is ReplicaState.TRUNCATING:
                actions.append(self._truncate_to_epoch_end(partition, result.leader_epoch, result.end_offset))
            else:
                epoch, end_offset = result.leader_epoch, result.end_offset
                actions.append(self._aux.on_epoch_end(partition, epoch, end_offset, now_ms))
        return [action for action in actions if action is not None]

    def build_offsets_request(self, now_ms: int) -> ListOffsetsRequest | None:
        """Return the request for offsets of the leader's log, if any; its response goes to `on_offsets`."""
        return self._queries.offsets_request(now_ms)

    def on_offsets(self, response: ListOffsetsResponse, now_ms: int) -> list[Action]:
        """Handle the response to `build_offsets_request`."""
        actions: list[Action | None] = []
        for partition, result in self._queries.offset_results(response):
            code = known_code(result.error_code)
            if code is ErrorCode.UNSUPPORTED_VERSION and self._aux.skip_pending_upload(partition):
                continue
            if code is not ErrorCode.NONE:
                actions.append(self._on_error(partition, code, now_ms))
            elif partition.state is ReplicaState.RESETTING:
                actions.append(self._on_leader_offset(partition, result.offset, now_ms))
            else:
                epoch = result.leader_epoch
                actions.append(self._aux.on_offset(partition, result.offset, epoch, now_ms))
        return [action for action in actions if action is not None]

    def _on_leader_offset(
        self, partition: FollowedPartition, leader_offset: Offset, now_ms: int
    ) -> Action | None:
        own_end = partition.log.log_end_offset
        if partition.leader_end_offset is None:
            if leader_offset < own_end:
                # The epochs of the two logs cannot be compared, as after an unclean election.
                reason = f"the fetch offset is out of range; the leader's log ends at {leader_offset}"
                return self._truncate(partition, leader_offset, True, reason)
            if leader_offset > 0 and self._aux.must_start_at_last_tiered_offset(partition):
                self._start_aux_build(partition)
                return None
            partition.set_leader_end_offset(leader_offset)
            return None
        if leader_offset > own_end:
            return RestartAt(partition, leader_offset, f"the leader's log starts at {leader_offset}")
        self._resume_fetching(partition)
        return self._fetches.delay(partition, ErrorCode.OFFSET_OUT_OF_RANGE, now_ms)

    def on_query_failed(self, now_ms: int) -> None:
        """Delay the partitions of the last epoch or offsets request, which got no response."""
        for partition in self._queries.take_pending():
            self._fetches.delay(partition, ErrorCode.NETWORK_EXCEPTION, now_ms)

    # -- the remote tier

    def on_auxiliary_fetched(
        self,
        action: FetchAuxiliary,
        leader_epochs: Iterable[tuple[LeaderEpoch, Offset]],
        producer_snapshot: bytes | None,
        now_ms: int,
    ) -> RestartFromRemote | PartitionDelayed | None:
        """Handle the auxiliary state of a segment; return None if it is not needed any more."""
        partition = action.partition
        if not self._is_current_build(action):
            return None
        return self._aux.restart_from_segment(partition, leader_epochs, producer_snapshot, now_ms)

    def on_auxiliary_failed(
        self, action: FetchAuxiliary, reason: str, now_ms: int
    ) -> PartitionDelayed | None:
        """Delay the partition, because its auxiliary state could not be read; the build then restarts."""
        if not self._is_current_build(action):
            return None
        return self._aux.wait(action.partition, reason, now_ms)

    def _is_current_build(self, action: FetchAuxiliary) -> bool:
        return self.is_current(action.partition) and action.partition.aux is action.build

    # -- results of actions

    def on_action_performed(self, action: LogAction) -> None:
        """Continue from the end of the log after a successful action."""
        partition = action.partition
        if not self.is_current(partition):
            return
        if isinstance(action, Append):
            self._on_appended(partition, action.high_watermark)
        elif isinstance(action, Truncate) and self._must_query_again(action):
            partition.transition(ReplicaState.TRUNCATING)
        else:
            self._resume_fetching(partition)

    def _must_query_again(self, action: Truncate) -> bool:
        if action.is_complete or self._compares_epochs:
            return False
        return action.partition.log.leader_epochs.latest_epoch is not None

    def _on_appended(self, partition: FollowedPartition, leader_high_watermark: Offset) -> None:
        before = partition.fetch_offset
        partition.follow_log(compares_epochs=self._compares_epochs)
        partition.set_lag(max(0, leader_high_watermark - partition.fetch_offset))
        self._fetches.mark_changed(partition.topic_partition)
        if partition.fetch_offset != before:
            # A partition with data moves to the end, so that all partitions get a share of each response.
            self.partitions[partition.topic_partition] = self.partitions.pop(partition.topic_partition)

    def _resume_fetching(self, partition: FollowedPartition) -> None:
        """Fetch from the end of the log."""
        partition.transition(ReplicaState.FETCHING)
        partition.follow_log(compares_epochs=self._compares_epochs)
        self._queries.discard(partition.topic_partition)
        self._fetches.mark_changed(partition.topic_partition)

    def on_action_failed(
        self, action: LogAction, error: KafkaError, now_ms: int
    ) -> PartitionDelayed | PartitionFailed | None:
        """Delay the partition after a transient error, such as a full disk; otherwise stop following it."""
        partition = action.partition
        if not self.is_current(partition):
            return None
        if isinstance(action, Append) and _is_transient(error):
            # Some of the records may have been appended.
            partition.follow_log(compares_epochs=self._compares_epochs)
            return self._fetches.delay(partition, error.code, now_ms)
        return self._fail(partition, error.code, str(error))

    # -- errors

    def _on_error(self, partition: FollowedPartition, code: ErrorCode, now_ms: int) -> Action:
        if code is ErrorCode.FENCED_LEADER_EPOCH:
            return self._fail(partition, code, "the leader is in a newer epoch")
        return self._fetches.delay(partition, code, now_ms)

    def _fail(self, partition: FollowedPartition, code: ErrorCode, reason: str) -> PartitionFailed:
        self.remove(partition.topic_partition)
        self.failed[partition.topic_partition] = reason
        return PartitionFailed(partition, code, reason)
