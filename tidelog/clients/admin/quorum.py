"""Admin calls about the quorum of controllers: describe it, add and remove voters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.clients.admin.admin_requests import AdminRequests
from tidelog.clients.transport.failures import raise_for
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, LeaderEpoch, Offset
from tidelog.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from tidelog.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ReplicaState,
    RequestPartitionData,
    RequestTopicData,
)
from tidelog.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from tidelog.protocol.schema import ZERO_UUID

_TOPIC = "__cluster_metadata"


class VoterEndpoint(NamedTuple):
    """The address of one listener of a controller."""

    listener_name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumReplica:
    """A replica of the metadata log, as reported by the leader of the quorum.

    `directory_id` and the timestamps (ms since 1970) are None if the leader does not know them.
    """

    replica_id: BrokerId
    directory_id: UUID | None
    log_end_offset: Offset
    last_fetch_timestamp_ms: int | None
    last_caught_up_timestamp_ms: int | None
    endpoints: tuple[VoterEndpoint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumInfo:
    """The quorum of controllers; observers replicate the metadata log and do not vote."""

    leader_id: BrokerId
    leader_epoch: LeaderEpoch
    high_watermark: Offset
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]


class QuorumAdmin:
    """The quorum of controllers."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    async def describe_metadata_quorum(self, *, timeout_ms: int | None = None) -> QuorumInfo:
        """Return the leader, the voters and the observers, with their log end offsets."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        topic = RequestTopicData(topic_name=_TOPIC, partitions=(RequestPartitionData(),))

        async def call() -> QuorumInfo:
            connection = await self._requests.controller_connection()
            response = await connection.request(
                DescribeQuorumRequest(topics=(topic,)),
                DescribeQuorumResponse,
                timeout_ms=self._requests.remaining_ms(deadline_ms),
            )
            return _quorum_info(response)

        return await self._requests.retry(call, deadline_ms)

    async def add_raft_voter(
        self,
        voter_id: BrokerId,
        directory_id: UUID,
        endpoints: Iterable[VoterEndpoint],
        *,
        timeout_ms: int | None = None,
    ) -> None:
        """Make a controller that already replicates the metadata log a voter (KIP-853)."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        listeners = tuple(
            Listener(name=endpoint.listener_name, host=endpoint.host, port=endpoint.port)
            for endpoint in endpoints
        )

        async def call() -> None:
            connection = await self._requests.controller_connection()
            remaining_ms = self._requests.remaining_ms(deadline_ms)
            request = AddRaftVoterRequest(
                cluster_id=self._requests.client.metadata.cluster_id,
                timeout_ms=remaining_ms,
                voter_id=voter_id,
                voter_directory_id=directory_id,
                listeners=listeners,
            )
            response = await connection.request(request, AddRaftVoterResponse, timeout_ms=remaining_ms)
            raise_for(response.error_code, f"add voter {voter_id}", response.error_message)

        await self._requests.retry(call, deadline_ms)

    async def remove_raft_voter(
        self, voter_id: BrokerId, directory_id: UUID, *, timeout_ms: int | None = None
    ) -> None:
        """Remove a controller from the voters (KIP-853)."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)

        async def call() -> None:
            connection = await self._requests.controller_connection()
            request = RemoveRaftVoterRequest(
                cluster_id=self._requests.client.metadata.cluster_id,
                voter_id=voter_id,
                voter_directory_id=directory_id,
            )
            remaining_ms = self._requests.remaining_ms(deadline_ms)
            response = await connection.request(request, RemoveRaftVoterResponse, timeout_ms=remaining_ms)
            raise_for(response.error_code, f"remove voter {voter_id}", response.error_message)

        await self._requests.retry(call, deadline_ms)


def _quorum_info(response: DescribeQuorumResponse) -> QuorumInfo:
    raise_for(response.error_code, "describe the quorum", response.error_message)
    partitions = [partition for topic in response.topics for partition in topic.partitions]
    if len(partitions) != 1:
        text = f"the DescribeQuorum response has {len(partitions)} partitions, expected 1"
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text)
    (found,) = partitions
    raise_for(found.error_code, "describe the quorum", found.error_message)
    endpoints = {
        node.node_id: tuple(
            VoterEndpoint(listener.name, listener.host, listener.port) for listener in node.listeners
        )
        for node in response.nodes
    }

    def replicas(states: Sequence[ReplicaState]) -> tuple[QuorumReplica, ...]:
        return tuple(_replica(state, endpoints.get(state.replica_id, ())) for state in states)

    return QuorumInfo(
        leader_id=found.leader_id,
        leader_epoch=found.leader_epoch,
        high_watermark=found.high_watermark,
        voters=replicas(found.current_voters),
        observers=replicas(found.observers),
    )


def _replica(state: ReplicaState, endpoints: tuple[VoterEndpoint, ...]) -> QuorumReplica:
    def known(timestamp: int) -> int | None:
        return None if timestamp < 0 else timestamp

    directory_id = state.replica_directory_id
    return QuorumReplica(
        replica_id=state.replica_id,
        directory_id=None if directory_id == ZERO_UUID else directory_id,
        log_end_offset=state.log_end_offset,
        last_fetch_timestamp_ms=known(state.last_fetch_timestamp),
        last_caught_up_timestamp_ms=known(state.last_caught_up_timestamp),
        endpoints=endpoints,
    )
