"""One simulated broker: the real Partition, fetch reading and follower state machine with a SimLog.

The simulated cluster replaces sockets, the metadata log and heartbeats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from tests.sim.replication.sim_log import Entries, SimLog
from tests.sim.replication.tier import RemoteLogView
from tests.support.replicas.replica_manager import no_waiting_requests
from tests.support.security.authorizers import ALLOW_EVERYTHING
from tidelog.broker.api.handlers.offset_for_leader_epoch import OffsetForLeaderEpochHandler
from tidelog.broker.fetching.fetch_read import FetchLimits, read_partitions
from tidelog.broker.partitions.leadership import LeaderPartition, Leadership, LeadershipPorts
from tidelog.broker.partitions.partition import FetchIsolation, Partition
from tidelog.cluster.image import NO_LEADER, BrokerImage
from tidelog.cluster.replication.follower_fetcher import FollowerFetcher, FollowerSettings
from tidelog.cluster.replication.follower_state import (
    Action,
    Append,
    FetchAuxiliary,
    LogAction,
    RestartAt,
    RestartFromRemote,
    Truncate,
)
from tidelog.cluster.replication.leader_isr import IsrProposal
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tidelog.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from tidelog.protocol.schema import ApiMessage
from tidelog.protocol.steps import run_steps
from tidelog.protocol.views.fetch_request_view import FetchPartition

if TYPE_CHECKING:
    from tests.sim.replication.cluster import SimulatedCluster

TOPIC, TOPIC_ID = "t", UUID(int=1)
PARTITION = TopicPartition(TOPIC, 0)
UNREGISTERED = -1


class OnePartition:
    """A ReplicaManager with one partition."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition

    def find(self, topic: str | None, topic_id: UUID | None, index: int) -> Partition:
        """Return the only partition."""
        return self._partition

    def partition(self, topic_partition: TopicPartition) -> Partition:
        """Return the only partition."""
        return self._partition


class SimBroker:
    """A broker that is running or stopped; only its disk `log` survives a stop."""

    def __init__(self, broker_id: int, cluster: SimulatedCluster) -> None:
        self.id = broker_id
        self.cluster = cluster
        self.log = SimLog(cluster.swarm.min_insync_replicas)
        self.log.remote_log_enabled = cluster.swarm.tiered
        self.epoch = broker_id
        self.clean_epoch: int | None = None
        """The broker epoch that the last clean shutdown wrote to the disk; None without one."""
        self.is_up = True
        self.incarnation = 0
        self.paused_until_ms = 0
        self.applied_version = -1
        """The version of the applied metadata."""
        self._boot()

    def _boot(self) -> None:
        self.view: dict[int, BrokerImage] = {}
        self.tier = RemoteLogView() if self.cluster.swarm.tiered else None
        self.fetcher: FollowerFetcher | None = None
        self.leader_id = NO_LEADER
        self.request_id = 0
        """The number of the request in flight, 0 for none."""
        leadership = Leadership(
            self.id,
            clock=self.cluster,
            brokers=lambda: self.view,
            own_epoch=lambda: self.epoch,
            lag_time_max_ms=self.cluster.swarm.lag_time_max_ms,
            ports=LeadershipPorts(self, no_waiting_requests(self.cluster), lambda log: log),
        )
        self.partition = Partition(PARTITION, TOPIC_ID, cast(Any, self.log), leadership)
        self.pending_produces: list[tuple[int, str]] = []
        """Required offset and value of each record that waits for acks=all."""

    # -- start and stop

    def stop(self) -> None:
        """Stop; the disk is kept."""
        self.is_up = False
        self.incarnation += 1

    def start(self) -> None:
        """Start with the contents of the disk."""
        self.is_up = True
        self.incarnation += 1
        self.paused_until_ms = 0
        self.epoch = UNREGISTERED
        self.applied_version = -1
        self._boot()

    # -- metadata

    def apply(self, version: int) -> None:
        """Apply the metadata up to a version; versions in between may be skipped."""
        partition_image, brokers = self.cluster.controller.versions[version]
        self.applied_version = version
        self.view = brokers
        partition = self.partition
        if partition_image.leader == self.id:
            partition.make_leader(partition_image)
            self._follow(NO_LEADER)
        elif partition.make_follower(partition_image):
            self._follow(partition_image.leader)

    def _follow(self, leader: int) -> None:
        if leader == NO_LEADER:
            self.fetcher, self.leader_id, self.request_id = None, NO_LEADER, 0
            return
        if leader != self.leader_id or self.fetcher is None:
            swarm = self.cluster.swarm
            settings = FollowerSettings(
                replica_id=self.id,
                partition_max_bytes=swarm.fetch_max_entries,
                max_bytes=swarm.fetch_max_entries,
                min_bytes=1,
                max_wait_ms=0,
                backoff_ms=50,
            )
            self.fetcher = FollowerFetcher(settings, tier=self.tier, fetch_version=swarm.fetch_version)
            self.fetcher.prefer_last_tiered_offset(swarm.last_tiered_offset)
            self.leader_id, self.request_id = leader, 0
            self.cluster.fetch_soon(self)
        self.perform(self.fetcher.add(PARTITION, TOPIC_ID, self.partition.leader_epoch, cast(Any, self.log)))

    # -- responses of the leader

    def respond(self, request: ApiMessage, sender_epoch: int) -> ApiMessage:
        """Return the response to a follower whose broker epoch was `sender_epoch` at the request."""
        if isinstance(request, FetchRequest):
            return self._fetch_response(request, sender_epoch)
        if isinstance(request, OffsetForLeaderEpochRequest):
            handler = OffsetForLeaderEpochHandler(
                cast(Any, OnePartition(self.partition)), authorizer=ALLOW_EVERYTHING
            )
            return run_steps(handler.handle(cast(Any, None), request))
        assert isinstance(request, ListOffsetsRequest)
        return self._offsets_response(request)

    def _fetch_response(self, request: FetchRequest, sender_epoch: int) -> FetchResponse:
        (requested_partition,) = request.topics[0].partitions
        state = request.replica_state
        replica = state.replica_id if state.replica_id >= 0 else request.replica_id
        limits = FetchLimits(
            replica, FetchIsolation.LOG_END, 1, request.max_bytes, replica_epoch=sender_epoch
        )
        fetch_partition = FetchPartition(
            TOPIC,
            TOPIC_ID,
            0,
            requested_partition.current_leader_epoch,
            requested_partition.fetch_offset,
            requested_partition.last_fetched_epoch,
            requested_partition.log_start_offset,
            requested_partition.partition_max_bytes,
        )
        ((_, result),) = read_partitions(
            cast(Any, OnePartition(self.partition)), [fetch_partition], limits
        ).results
        diverging = result.diverging_epoch
        data = PartitionData(
            error_code=result.error_code,
            high_watermark=result.high_watermark,
            log_start_offset=result.log_start_offset,
            records=cast(Any, result.records),
            diverging_epoch=EpochEndOffset()
            if diverging is None
            else EpochEndOffset(epoch=diverging[0], end_offset=diverging[1]),
        )
        return FetchResponse(
            responses=(FetchableTopicResponse(topic=TOPIC, topic_id=TOPIC_ID, partitions=(data,)),)
        )

    def _offsets_response(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        (requested_partition,) = request.topics[0].partitions
        code, offset, epoch = ErrorCode.NONE, -1, None
        try:
            self.partition.require_leader(requested_partition.current_leader_epoch)
            offset = self._offset_of(requested_partition.timestamp)
            epoch = self.log.leader_epochs.epoch_for_offset(offset)
        except KafkaError as error:
            code = error.code
        partition_response = ListOffsetsPartitionResponse(
            error_code=code, offset=offset, leader_epoch=-1 if epoch is None else epoch
        )
        return ListOffsetsResponse(
            topics=(ListOffsetsTopicResponse(name=TOPIC, partitions=(partition_response,)),)
        )

    def _offset_of(self, timestamp: int) -> int:
        log = self.log
        if timestamp != -6:
            return {-1: log.log_end_offset, -2: log.log_start_offset, -4: log.base}[timestamp]
        highest = -1 if self.tier is None else self.tier.highest_offset(log)
        if highest < 0:
            return log.log_start_offset if log.base == log.log_start_offset else -1
        return max(highest + 1, log.base)

    def propose(self, partition: LeaderPartition, proposal: IsrProposal, /) -> None:
        """Propose an ISR change to the controller."""
        self.cluster.send_proposal(self, self.partition, proposal)

    # -- actions of the follower

    def perform(self, actions: list[Action]) -> None:
        """Perform actions on the log as `tidelog.broker.replication.follower_log` does."""
        assert self.fetcher is not None
        for action in actions:
            log = self.log
            if isinstance(action, Append):
                entries: list[Any] = action.records if isinstance(action.records, Entries) else []
                assert action.offset == log.log_end_offset
                log.append_as_follower(entries)
                log.advance_high_watermark(action.high_watermark)
                log.advance_log_start_offset(action.log_start_offset)
                self.cluster.ledger.on_append(self.id, log, len(entries))
            elif isinstance(action, Truncate):
                self.cluster.ledger.on_truncation(self.id, log, action.offset)
                log.truncate_to(action.offset)
            elif isinstance(action, RestartAt):
                is_too_early = action.offset > log.log_end_offset or self.cluster.swarm.tiered
                assert is_too_early, "only a log that ends too early is restarted at an offset"
                log.restart_at(action.offset)
            elif isinstance(action, RestartFromRemote):
                log.restart_from_remote(action)
                self.cluster.tier.restart_count += 1
            elif isinstance(action, FetchAuxiliary):
                self.cluster.tier.fetch(self, action)
                continue
            else:
                continue
            self.cluster.trace(f"{self.id}: {_text(action)}")
            self.fetcher.on_action_performed(action)


def _text(action: LogAction) -> str:
    if isinstance(action, Append):
        return f"appends {len(action.records)} at {action.offset}, hw {action.high_watermark}"
    return f"{type(action).__name__} {action.offset}: {action.reason}"
