"""The documents of the pages, read by the admin client; most have the form of those of `--json`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tidelog.cli.cluster.health import cluster_health
from tidelog.cli.groups.group import describe_groups, group_document
from tidelog.cli.groups.share_group import share_group_document
from tidelog.cli.security.acl import acl_document
from tidelog.cli.security.quota import entity_text
from tidelog.cli.topics.description import describe_topics, topic_document
from tidelog.clients.admin.admin import Admin, ListedOffset, OffsetSpec, TopicDescription
from tidelog.clients.admin.security import AclFilter
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, TopicPartition, uuid_text


async def overview(admin: Admin) -> dict[str, Any]:
    """Return the health of the cluster and its nodes."""
    health = await cluster_health(admin)
    return {"healthy": not health.problems, "problems": health.problems, **asdict(health)}


async def topics(admin: Admin) -> list[dict[str, Any]]:
    """Return all topics: states of partitions, the sum of the end offsets, sizes of the leaders' logs."""
    names = sorted(await admin.list_topics(include_internal=True))
    if not names:
        return []
    descriptions = await admin.describe_topics(names)
    found = [topic for topic in descriptions.values() if not isinstance(topic, KafkaError)]
    ends, sizes = await _end_offsets(admin, found), await _leader_sizes(admin, found)
    return [
        {
            "name": topic.name,
            "topic_id": uuid_text(topic.topic_id),
            "is_internal": topic.is_internal,
            "partitions": len(topic.partitions),
            "replication_factor": max((len(each.replicas) for each in topic.partitions), default=0),
            "without_leader": sum(each.leader < 0 for each in topic.partitions),
            "under_replicated": sum(
                len(each.in_sync_replicas) < len(each.replicas) for each in topic.partitions
            ),
            "end_offsets": ends.get(topic.name),
            "leader_sizes_bytes": [
                sizes.get((each.leader, TopicPartition(topic.name, each.partition)))
                for each in topic.partitions
            ],
        }
        for topic in found
    ]


async def _end_offsets(admin: Admin, topics: list[TopicDescription]) -> dict[str, int]:
    """Return the sum of the end offsets of each topic; without topics of which one is unknown."""
    partitions = [
        TopicPartition(topic.name, each.partition)
        for topic in topics
        for each in topic.partitions
        if each.leader >= 0
    ]
    listed = await admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    sums: dict[str, int] = {}
    for topic in topics:
        ends = [listed.get(TopicPartition(topic.name, each.partition)) for each in topic.partitions]
        known = [end.offset for end in ends if isinstance(end, ListedOffset)]
        if len(known) == len(ends):
            sums[topic.name] = sum(known)
    return sums


async def _leader_sizes(
    admin: Admin, topics: list[TopicDescription]
) -> dict[tuple[BrokerId, TopicPartition], int]:
    """Return the size of each log on the disk of its leader; without those of brokers that return none."""
    leaders = {
        (each.leader, TopicPartition(topic.name, each.partition))
        for topic in topics
        for each in topic.partitions
        if each.leader >= 0
    }
    return {
        (broker, partition): log.size_bytes
        for broker, directories in (await admin.describe_log_dirs({leader for leader, _ in leaders})).items()
        if not isinstance(directories, KafkaError)
        for directory in directories.values()
        for partition, log in directory.partitions.items()
        if (broker, partition) in leaders and not log.is_future
    }


async def require_topic(admin: Admin, name: str) -> TopicDescription:
    """Return the metadata of a topic. Errors: KafkaError if it does not exist, or may not be described."""
    description = (await admin.describe_topics([name]))[name]
    if isinstance(description, KafkaError):
        raise description
    return description


async def topic(admin: Admin, name: str) -> dict[str, Any]:
    """Return a topic with the offsets of its partitions. Errors: KafkaError."""
    await require_topic(admin, name)
    described = await describe_topics(admin, [name])
    if not described:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} was deleted")
    return {**topic_document(described[0]), "is_tiered": described[0].is_tiered}


async def groups(admin: Admin) -> list[Any]:
    """Return all groups."""
    listings = await admin.list_groups()
    return [listings[name] for name in sorted(listings)]


async def group(admin: Admin, name: str) -> dict[str, Any]:
    """Return a group with its members and its lag. Errors: KafkaError."""
    described = await describe_groups(admin, [name])
    if not described:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"cannot describe group {name!r}")
    return group_document(*described[0])


async def share_group(admin: Admin, name: str) -> dict[str, Any]:
    """Return a share group with its members, and the start offset and lag of each partition."""
    return await share_group_document(admin, name)


async def transactions(admin: Admin) -> list[Any]:
    """Return all transactional ids."""
    listings = await admin.list_transactions()
    return [listings[name] for name in sorted(listings)]


async def quotas(admin: Admin) -> list[dict[str, Any]]:
    """Return the quotas of all entities."""
    values = await admin.describe_client_quotas([])
    return sorted(
        ({"entity": entity_text(entity), "quotas": quotas} for entity, quotas in values.items()),
        key=lambda document: str(document["entity"]),
    )


async def acls(admin: Admin) -> dict[str, Any]:
    """Return all access control entries, and whether the cluster has an authorizer."""
    try:
        bindings = await admin.describe_acls(AclFilter())
    except KafkaError as error:
        if error.code is not ErrorCode.SECURITY_DISABLED:
            raise
        return {"is_enabled": False, "entries": []}
    return {"is_enabled": True, "entries": [acl_document(binding) for binding in sorted(bindings)]}
