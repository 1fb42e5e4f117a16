"""Updates a member, the topology and the epoch of its group in a heartbeat.

Source: the steps 1 to 3 of GroupMetadataManager.streamsGroupHeartbeat of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

from tidelog.broker.coordinators.groups.consumer.topics import Topics
from tidelog.broker.coordinators.groups.records.coordinator_records import CoordinatorRecord
from tidelog.broker.coordinators.groups.streams.group import StreamsGroup
from tidelog.broker.coordinators.groups.streams.heartbeat_checks import check_tasks
from tidelog.broker.coordinators.groups.streams.member import StreamsMember
from tidelog.broker.coordinators.groups.streams.records import group_epoch, member_metadata, topology_record
from tidelog.broker.coordinators.groups.streams.topic_configuration import ConfiguredTopology, configure
from tidelog.broker.coordinators.groups.streams.topology import StreamsTopology
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest

logger = logging.getLogger(__name__)

_NOT_VALIDATED: Final = -1


class GroupChange(NamedTuple):
    """A group with the change of a heartbeat that is not replayed yet: its new epoch, topology and member."""

    group: StreamsGroup
    epoch: int
    configured: ConfiguredTopology
    member: StreamsMember


class GroupUpdate:
    """Adds the records of a changed member, of a first topology, and of a new group epoch."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    def update(
        self,
        group: StreamsGroup,
        members: tuple[StreamsMember, StreamsMember],
        request: StreamsGroupHeartbeatRequest,
        assignment_configs: Mapping[str, str],
        records: list[CoordinatorRecord],
    ) -> GroupChange:
        """Return the change of a heartbeat; `members` are the member before and after.

        Raise STREAMS_INVALID_TOPOLOGY, or INVALID_REQUEST for a changed topology and for a task that does not
        exist.
        """
        previous, member = members
        starts_epoch = previous != member
        if starts_epoch:
            records.append(member_metadata(group.group_id, member))
        topology = self._topology(group, request, records)
        metadata_hash, configured = self._configured(group, topology)
        validated_epoch = _NOT_VALIDATED
        if configured.is_ready and configured.subtopologies is not None:
            validated_epoch = topology.epoch
            check_tasks(request, configured.subtopologies)
        starts_epoch = (
            starts_epoch
            or metadata_hash != group.epochs.metadata_hash
            or validated_epoch != group.validated_topology_epoch
            or assignment_configs != group.assignment_configs
        )
        epoch = group.epochs.group_epoch
        if starts_epoch:
            epoch += 1
            records.append(
                group_epoch(group.group_id, epoch, metadata_hash, validated_epoch, assignment_configs)
            )
            logger.info("Group %s: group epoch %d, by member %s", group.group_id, epoch, member.member_id)
        group.epochs.on_metadata_checked(epoch)
        return GroupChange(group, epoch, configured, member)

    def configured(self, group: StreamsGroup) -> ConfiguredTopology | None:
        """Return the topology of a group, compared with the topics that exist; None if it has none.

        Raise STREAMS_INVALID_TOPOLOGY.
        """
        if group.configured is None and group.topology is not None:
            self._configure(group, group.topology)
        return group.configured

    def _topology(
        self,
        group: StreamsGroup,
        request: StreamsGroupHeartbeatRequest,
        records: list[CoordinatorRecord],
    ) -> StreamsTopology:
        """Return the topology of the group; the first member provides it."""
        if request.topology is None:
            if group.topology is None:
                text = f"Group {group.group_id} has no topology."
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text)
            return group.topology
        topology = StreamsTopology.from_request(request.topology)
        if group.topology is None:
            group.memory.check(topology.size_bytes)
            records.append(topology_record(group.group_id, topology))
            return topology
        if group.topology.epoch <= topology.epoch and group.topology != topology:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
        return group.topology

    def _configured(self, group: StreamsGroup, topology: StreamsTopology) -> tuple[int, ConfiguredTopology]:
        """Return the hash of the metadata of the topics, and the topology as compared with them."""
        if (
            group.topology is not None
            and group.configured is not None
            and not group.epochs.must_check_metadata
        ):
            return group.epochs.metadata_hash, group.configured
        metadata_hash = self._topics.hash_of(topology.required_topics)
        if group.configured is None or metadata_hash != group.epochs.metadata_hash:
            return metadata_hash, self._configure(group, topology)
        return metadata_hash, group.configured

    def _configure(self, group: StreamsGroup, topology: StreamsTopology) -> ConfiguredTopology:
        configured = configure(group.group_id, topology, self._partition_count)
        group.set_configured(configured)
        return configured

    def _partition_count(self, name: str) -> int | None:
        topic = self._topics.by_name(name)
        return None if topic is None else len(topic.partitions)
