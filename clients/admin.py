"""The admin client: topics, configurations, groups and offsets of a cluster (shell).

    async with Admin("localhost:9092") as admin:
        await admin.create_topic("tides", num_partitions=6)
        print(await admin.list_topics())

Calls about several items return a dict in which each item has its result or its KafkaError; calls
about one item raise. All take `timeout_ms` (default `default_api_timeout_ms`) and send again after
errors that may pass.
"""

from __future__ import annotations

from clients.admin_cluster import ClusterAdmin
from clients.admin_groups import GroupAdmin
from clients.admin_topics import TopicAdmin
from clients.admin_types import (
    ActiveProducer,
    AlterOperation,
    ClusterDescription,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    CreatedTopic,
    GroupDescription,
    GroupListing,
    GroupMember,
    ListedOffset,
    LogDirDescription,
    LogDirPartition,
    NewTopic,
    OffsetSpec,
    ResourceType,
    TopicDescription,
    TopicListing,
)

__all__ = [
    "ActiveProducer",
    "Admin",
    "AlterOperation",
    "ClusterDescription",
    "ConfigChange",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSource",
    "CreatedTopic",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "ListedOffset",
    "LogDirDescription",
    "LogDirPartition",
    "NewTopic",
    "OffsetSpec",
    "ResourceType",
    "TopicDescription",
    "TopicListing",
]


class Admin(TopicAdmin, ClusterAdmin, GroupAdmin):
    """An asyncio admin client; use it as an async context manager, or call `start` and `close`.

    Options are those of `AdminConfig` (Kafka's names with underscores).
    """
