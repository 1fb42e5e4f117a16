"""What holds at every moment between the object store and the metadata of remote segments.

start      a node writes an object only if it knows that the copy of the segment was started
stable     a node copies only records below its last stable offset
deletion   a node deletes an object only if it does not know its segment as finished
existence  a node that knows a segment as finished finds its objects, unless a node has deleted them
"""

from __future__ import annotations

from uuid import UUID

from tests.sim.cluster.replication import partitions_of, running_brokers
from tests.sim.cluster.violation import Violation
from tidelog.cluster.image import TopicImage
from tidelog.remote.objects.layout.object_keys import ObjectKeys, parse_key
from tidelog.remote.ports.metadata_manager import RemoteMetadataError
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from tidelog.testing.simulation.cluster import SimulatedCluster, SimulatedNode
from tidelog.testing.simulation.scheduler import MS
from tidelog.testing.simulation.states import ProcessState

CHECK_EVERY_NS = 300 * MS
FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED


class TierInvariants:
    """Observes the requests to the store, and the segments that the nodes know. A violation ends the run."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._seen_ids: set[UUID] = set()
        """The segments that a node has known at any time."""
        self._deleted: set[str] = set()
        """The objects that a node has begun to delete."""
        self._violation: Violation | None = None
        """Found in a thread of a node, which handles all errors."""

    def start(self, topic: str) -> None:
        """Check from now on."""
        self._cluster.bucket.on_request.append(self._on_request)
        self._check(topic)

    def _on_request(self, process: ProcessState, action: str, key: str) -> None:
        node, name = self._cluster.node_of(process), parse_key(key, "")
        if node is None or node.broker is None or name is None or action not in ("put", "delete"):
            return
        state = _state_of(node, RemoteLogSegmentId(name.partition, name.segment_id))
        if state is not None:
            self._seen_ids.add(name.segment_id)
        if action == "put" and name.segment_id not in self._seen_ids:
            self._violation = Violation(f"node {node.node_id} writes {key}, whose copy was not started")
        if action == "put" and not _is_stable(node, RemoteLogSegmentId(name.partition, name.segment_id)):
            self._violation = Violation(f"node {node.node_id} writes {key} above the last stable offset")
        if action == "delete":
            self._deleted.add(key)
            if state is FINISHED:
                self._violation = Violation(f"node {node.node_id} deletes {key}, which is in use")

    def _check(self, topic: str) -> None:
        if self._violation is not None:
            raise self._violation
        image = self._cluster.image.topics_by_name.get(topic) if any(running_brokers(self._cluster)) else None
        if image is not None:
            for node in running_brokers(self._cluster):
                self._check_node(node, image)
        self._cluster.scheduler.after(CHECK_EVERY_NS, lambda: self._check(topic))

    def _check_node(self, node: SimulatedNode, topic: TopicImage) -> None:
        for number in topic.partitions:
            for segment in segments_of(node, TopicIdPartition(topic.id, topic.name, number)) or ():
                self._seen_ids.add(segment.remote_log_segment_id.id)
                if segment.state is not FINISHED:
                    continue
                for key in ObjectKeys().of(segment).all:
                    if key not in self._cluster.bucket.objects and key not in self._deleted:
                        raise Violation(f"node {node.node_id} knows a finished segment without {key}")


def segments_of(node: SimulatedNode, partition: TopicIdPartition) -> list[RemoteLogSegmentMetadata] | None:
    """Return the segments that a node knows; None if it has not read them yet."""
    if node.broker is None or node.broker.remote is None:
        return None
    try:
        return list(node.broker.remote.metadata.list_remote_log_segments(partition))
    except RemoteMetadataError:
        return None


def _state_of(node: SimulatedNode, segment_id: RemoteLogSegmentId) -> RemoteLogSegmentState | None:
    """Return the state in which a node knows a segment."""
    if node.broker is None or node.broker.remote is None:
        return None
    try:
        return node.broker.remote.metadata.segment_state(segment_id)
    except RemoteMetadataError:
        return None


def _is_stable(node: SimulatedNode, segment_id: RemoteLogSegmentId) -> bool:
    """Return whether all records of a segment that a node copies are below its last stable offset."""
    name = segment_id.topic_id_partition
    ends = [
        segment.end_offset
        for segment in segments_of(node, name) or ()
        if segment.remote_log_segment_id == segment_id
    ]
    return all(
        end < partition.log.last_stable_offset
        for partition in partitions_of(node)
        if (partition.topic_partition.topic, partition.topic_partition.partition)
        == (name.topic, name.partition)
        for end in ends
    )
