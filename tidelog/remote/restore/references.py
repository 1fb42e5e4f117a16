"""Steps of a restore that are needed only for topics that refer to the segments of others (shell).

Errors: KafkaError; RemoteStorageError if the store does not respond.
"""

from __future__ import annotations

from typing import Final

from tidelog.clients.admin.admin import Admin, ConfigResource, ResourceType
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.remote.inspection.bucket import Bucket
from tidelog.remote.objects.layout.object_keys import is_reference
from tidelog.remote.ports.storage_manager import RemoteResourceNotFound
from tidelog.remote.restore.plan import PartitionPlan, TopicPlan

_OWN_KEY: Final = "tidelog.backup.interval.ms"
"""A config that every Tidelog broker has, and no other."""


async def foreign_brokers(admin: Admin) -> str:
    """Return why brokers of the cluster cannot serve references; empty if all can.

    Apache Kafka's broker would look for the objects under the name of the new topic.
    """
    brokers = (await admin.describe_cluster()).brokers
    resources = [ConfigResource(ResourceType.BROKER, str(each.node_id)) for each in brokers]
    configs = await admin.describe_configs(resources, keys=(_OWN_KEY,))
    foreign = [
        resource.name
        for resource, entries in configs.items()
        if isinstance(entries, KafkaError) or _OWN_KEY not in entries
    ]
    if not foreign:
        return ""
    return f"brokers {', '.join(sorted(foreign))} are not Tidelog brokers, which alone can read references"


def store_tails(bucket: Bucket, plan: TopicPlan) -> None:
    """Store the segments of `plan` that are copied; those of an interrupted restore are replaced."""
    for tail in plan.tails:
        bucket.storage.copy_log_segment_data(tail.metadata, tail.files)


def first_existing_offsets(bucket: Bucket, plan: TopicPlan) -> dict[TopicPartition, Offset]:
    """Return the first offset of each partition from which the objects exist.

    The source deletes its oldest segments first: the search ends at the first manifest that exists.
    """
    return {
        each.partition.topic_partition: _first_existing(bucket, each)
        for each in plan.partitions
        if each.log is not None
    }


def _first_existing(bucket: Bucket, plan: PartitionPlan) -> Offset:
    start = plan.start_offset
    for segment in sorted(plan.segments, key=lambda segment: segment.start_offset):
        if not is_reference(segment):
            break
        try:
            bucket.storage.store.size(bucket.keys(segment).manifest)
            break
        except RemoteResourceNotFound:
            start = max(start, segment.end_offset + 1)
    return start
