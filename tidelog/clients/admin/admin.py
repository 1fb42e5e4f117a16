"""The admin client: topics, configurations, groups, offsets and transactions of a cluster (shell).

    async with Admin("localhost:9092") as admin:
        await admin.create_topic("tides", num_partitions=6)
        print(await admin.list_topics())

Calls about several items return a dict in which each item has its result or its KafkaError; calls
about one item raise. All take `timeout_ms` (default `default_api_timeout_ms`) and send again after
errors that may pass.
"""

from __future__ import annotations

from tidelog.clients.admin.cluster import ClusterAdmin
from tidelog.clients.admin.features import ClusterFeatures, FeatureAdmin, LevelRange, UpgradeType
from tidelog.clients.admin.groups import GroupAdmin
from tidelog.clients.admin.partitions import ElectionType, PartitionAdmin, PartitionReassignment
from tidelog.clients.admin.quorum import QuorumAdmin, QuorumInfo, QuorumReplica, VoterEndpoint
from tidelog.clients.admin.security import (
    AclBinding,
    AclFilter,
    QuotaComponent,
    QuotaEntity,
    QuotaMatch,
    SecurityAdmin,
)
from tidelog.clients.admin.topics import TopicAdmin
from tidelog.clients.admin.transactions import TransactionAdmin, TransactionDescription, TransactionListing
from tidelog.clients.admin.types import (
    ActiveProducer,
    AlterOperation,
    ClusterDescription,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    CreatedTopic,
    EpochEnd,
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
from tidelog.protocol.access_control import AclOperation, AclResourceType, PatternType, PermissionType

__all__ = [
    "AclBinding",
    "AclFilter",
    "AclOperation",
    "AclResourceType",
    "ActiveProducer",
    "Admin",
    "AlterOperation",
    "ClusterDescription",
    "ClusterFeatures",
    "ConfigChange",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSource",
    "CreatedTopic",
    "ElectionType",
    "EpochEnd",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "LevelRange",
    "ListedOffset",
    "LogDirDescription",
    "LogDirPartition",
    "NewTopic",
    "OffsetSpec",
    "PartitionReassignment",
    "PatternType",
    "PermissionType",
    "QuorumInfo",
    "QuorumReplica",
    "QuotaComponent",
    "QuotaEntity",
    "QuotaMatch",
    "ResourceType",
    "TopicDescription",
    "TopicListing",
    "TransactionDescription",
    "TransactionListing",
    "UpgradeType",
    "VoterEndpoint",
]


class Admin(
    TopicAdmin,
    PartitionAdmin,
    ClusterAdmin,
    FeatureAdmin,
    QuorumAdmin,
    SecurityAdmin,
    GroupAdmin,
    TransactionAdmin,
):
    """An asyncio admin client; use it as an async context manager, or call `start` and `close`.

    Options are those of `AdminConfig` (Kafka's names with underscores).
    """
