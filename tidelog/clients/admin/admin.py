"""The admin client: topics, configurations, groups, offsets and transactions of a cluster (shell).

    async with Admin("localhost:9092") as admin:
        await admin.create_topic("tides", num_partitions=6)
        print(await admin.list_topics())

A call about several items returns a dict with the result or the KafkaError of each item. A call about one
item raises its error. `timeout_ms` limits the whole call (default `default_api_timeout_ms`). Requests are
sent again after retriable errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any
from uuid import UUID

from tidelog.clients.admin.admin_requests import AdminRequests
from tidelog.clients.admin.cluster import ClusterAdmin
from tidelog.clients.admin.configs import ConfigAdmin
from tidelog.clients.admin.features import ClusterFeatures, FeatureAdmin, LevelRange, UpgradeType
from tidelog.clients.admin.groups import GroupAdmin
from tidelog.clients.admin.partitions import ElectionType, PartitionAdmin, PartitionReassignment
from tidelog.clients.admin.quorum import QuorumAdmin, QuorumInfo, QuorumReplica, VoterEndpoint
from tidelog.clients.admin.security import (
    EVERY_ENTRY,
    AclBinding,
    AclFilter,
    QuotaComponent,
    QuotaEntity,
    QuotaMatch,
    SecurityAdmin,
)
from tidelog.clients.admin.share_groups import ShareGroupAdmin
from tidelog.clients.admin.tokens import DelegationToken, TokenAdmin
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
    ReplicaLogDirs,
    ResourceType,
    SharePartitionOffset,
    TopicDescription,
    TopicListing,
    TopicPartitionReplica,
)
from tidelog.clients.admin.users import ScramCredentialInfo, ScramDeletion, ScramUpsertion, UserAdmin
from tidelog.clients.config.client_config import AdminConfig, make_config
from tidelog.clients.config.environment import Environment
from tidelog.clients.groups.group_offsets import OffsetAndMetadata
from tidelog.clients.transport.connection import Authenticator
from tidelog.protocol.access_control import AclOperation, AclResourceType, PatternType, PermissionType
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import BrokerId, LeaderEpoch, Offset, ProducerEpoch, ProducerId, TopicPartition

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
    "DelegationToken",
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
    "ReplicaLogDirs",
    "ResourceType",
    "ScramCredentialInfo",
    "ScramDeletion",
    "ScramUpsertion",
    "SharePartitionOffset",
    "TopicDescription",
    "TopicListing",
    "TopicPartitionReplica",
    "TransactionDescription",
    "TransactionListing",
    "UpgradeType",
    "VoterEndpoint",
]


class Admin:
    """An asyncio admin client; use it as an async context manager, or call `start` and `close`.

    Options: see `AdminConfig` (Kafka's names with underscores). A method for several resources returns a
    dictionary with the result or the KafkaError of each; a failure of the whole call raises KafkaError. Times
    are in milliseconds; `timeout_ms` None means `default_api_timeout_ms`.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] = "localhost:9092",
        *,
        environment: Environment | None = None,
        authenticator: Authenticator | None = None,
        **options: Any,
    ) -> None:
        self.config = make_config(AdminConfig, {"bootstrap_servers": bootstrap_servers, **options})
        requests = self._requests = AdminRequests(self.config, environment, authenticator)
        self._topics = TopicAdmin(requests)
        self._partitions = PartitionAdmin(requests)
        self._cluster = ClusterAdmin(requests)
        self._configs = ConfigAdmin(requests)
        self._features = FeatureAdmin(requests)
        self._quorum = QuorumAdmin(requests)
        self._security = SecurityAdmin(requests)
        self._tokens = TokenAdmin(requests)
        self._users = UserAdmin(requests)
        self._groups = GroupAdmin(requests)
        self._share_groups = ShareGroupAdmin(requests)
        self._transactions = TransactionAdmin(requests)

    async def start(self) -> None:
        """Connect to the cluster; raise KafkaError if no bootstrap server responds in time."""
        await self._requests.start()

    async def close(self) -> None:
        """Close all connections."""
        await self._requests.close()

    async def __aenter__(self) -> Admin:
        await self.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    # --- topics ------------------------------------------------------------------------------

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False, timeout_ms: int | None = None
    ) -> dict[str, CreatedTopic | KafkaError]:
        """Create topics; with `validate_only`, only check whether they can be created."""
        return await self._topics.create_topics(topics, validate_only=validate_only, timeout_ms=timeout_ms)

    async def create_topic(
        self,
        name: str,
        num_partitions: int = -1,
        replication_factor: int = -1,
        *,
        configs: Mapping[str, str] | None = None,
        timeout_ms: int | None = None,
    ) -> CreatedTopic:
        """Create one topic; raise KafkaError if it cannot be created."""
        return await self._topics.create_topic(
            name, num_partitions, replication_factor, configs=configs, timeout_ms=timeout_ms
        )

    async def delete_topics(
        self, topics: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, KafkaError | None]:
        """Delete topics by name; None for each deleted topic."""
        return await self._topics.delete_topics(topics, timeout_ms=timeout_ms)

    async def create_partitions(
        self,
        total_counts: Mapping[str, int],
        *,
        assignments: Mapping[str, Iterable[Iterable[int]]] | None = None,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[str, KafkaError | None]:
        """Add partitions to topics; `total_counts` has the new number of partitions of each topic.

        `assignments` has, for each topic, the broker ids of each new partition. None for each changed topic.
        """
        return await self._topics.create_partitions(
            total_counts, assignments=assignments, validate_only=validate_only, timeout_ms=timeout_ms
        )

    async def list_topics(
        self, *, include_internal: bool = False, timeout_ms: int | None = None
    ) -> dict[str, TopicListing]:
        """Return all topics by name, sorted."""
        return await self._topics.list_topics(include_internal=include_internal, timeout_ms=timeout_ms)

    async def describe_topics(
        self, topics: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, TopicDescription | KafkaError]:
        """Return each topic with its partitions, leaders and replicas."""
        return await self._topics.describe_topics(topics, timeout_ms=timeout_ms)

    async def delete_records(
        self, before: Mapping[TopicPartition, Offset], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, Offset | KafkaError]:
        """Delete the records before each offset (-1: all records); return the new low watermarks."""
        return await self._topics.delete_records(before, timeout_ms=timeout_ms)

    async def list_offsets(
        self,
        specs: Mapping[TopicPartition, int],
        *,
        read_committed: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, ListedOffset | KafkaError]:
        """Return offsets by `OffsetSpec` or by timestamp in ms: the first record that is not older."""
        return await self._topics.list_offsets(specs, read_committed=read_committed, timeout_ms=timeout_ms)

    async def epoch_end_offsets(
        self, epochs: Mapping[TopicPartition, LeaderEpoch], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, EpochEnd | KafkaError]:
        """Return where a leader epoch ends in the log of each partition's leader (KIP-320)."""
        return await self._topics.epoch_end_offsets(epochs, timeout_ms=timeout_ms)

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, tuple[ActiveProducer, ...] | KafkaError]:
        """Return the idempotent and transactional producers with state in each partition."""
        return await self._topics.describe_producers(partitions, timeout_ms=timeout_ms)

    # --- partitions --------------------------------------------------------------------------

    async def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elect leaders of partitions (None: of all that need one); None for each elected leader."""
        return await self._partitions.elect_leaders(election_type, partitions, timeout_ms=timeout_ms)

    async def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[BrokerId] | None],
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Start to move each partition to the given replicas; None cancels its reassignment.

        The result is None for each partition whose reassignment was started or cancelled.
        """
        return await self._partitions.alter_partition_reassignments(targets, timeout_ms=timeout_ms)

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the reassignments in progress of these partitions (None: of all)."""
        return await self._partitions.list_partition_reassignments(partitions, timeout_ms=timeout_ms)

    # --- brokers -----------------------------------------------------------------------------

    async def describe_cluster(
        self, *, include_fenced: bool = False, timeout_ms: int | None = None
    ) -> ClusterDescription:
        """Return the cluster id, the brokers and the controller.

        `include_fenced`: also list fenced brokers, such as stopped ones, if the responding broker supports
        it.
        """
        return await self._cluster.describe_cluster(include_fenced=include_fenced, timeout_ms=timeout_ms)

    async def describe_log_dirs(
        self,
        broker_ids: Iterable[BrokerId] | None = None,
        *,
        partitions: Iterable[TopicPartition] | None = None,
        timeout_ms: int | None = None,
    ) -> dict[BrokerId, dict[str, LogDirDescription] | KafkaError]:
        """Return the log directories of each broker (None: of all brokers) by path.

        Each directory lists the logs of `partitions` (None: of all partitions).
        """
        return await self._cluster.describe_log_dirs(broker_ids, partitions=partitions, timeout_ms=timeout_ms)

    async def alter_replica_log_dirs(
        self, assignment: Mapping[TopicPartitionReplica, str], *, timeout_ms: int | None = None
    ) -> dict[TopicPartitionReplica, KafkaError | None]:
        """Begin to move replicas to other log directories of their brokers; return None or the error of each.

        The current directory of a replica cancels its move. `describe_replica_log_dirs` shows the progress.
        """
        return await self._cluster.alter_replica_log_dirs(assignment, timeout_ms=timeout_ms)

    async def describe_replica_log_dirs(
        self, replicas: Iterable[TopicPartitionReplica], *, timeout_ms: int | None = None
    ) -> dict[TopicPartitionReplica, ReplicaLogDirs | KafkaError]:
        """Return the log directory of each replica, and the one to which it is being moved."""
        return await self._cluster.describe_replica_log_dirs(replicas, timeout_ms=timeout_ms)

    # --- configurations ----------------------------------------------------------------------

    async def list_config_resources(
        self, resource_types: Iterable[ResourceType] = (), *, timeout_ms: int | None = None
    ) -> list[ConfigResource]:
        """Return the resources with configurations of these types; without types, of all (KIP-1142)."""
        return await self._configs.list_resources(resource_types, timeout_ms=timeout_ms)

    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        keys: Iterable[str] | None = None,
        include_documentation: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[ConfigResource, dict[str, ConfigEntry] | KafkaError]:
        """Return the configuration of each resource by key; `keys` None means all keys."""
        return await self._configs.describe_configs(
            resources, keys=keys, include_documentation=include_documentation, timeout_ms=timeout_ms
        )

    async def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Iterable[ConfigChange]],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[ConfigResource, KafkaError | None]:
        """Change single keys; other keys do not change (KIP-339). None for each changed resource."""
        return await self._configs.incremental_alter_configs(
            changes, validate_only=validate_only, timeout_ms=timeout_ms
        )

    async def alter_configs(
        self,
        configs: Mapping[ConfigResource, Mapping[str, str | None]],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[ConfigResource, KafkaError | None]:
        """Replace the whole configuration of each resource; None for each changed resource.

        Keys that are not in it get their default values.
        """
        return await self._configs.alter_configs(configs, validate_only=validate_only, timeout_ms=timeout_ms)

    # --- features ----------------------------------------------------------------------------

    async def describe_features(self, *, timeout_ms: int | None = None) -> ClusterFeatures:
        """Return the finalized feature levels of the cluster and the levels that one broker supports."""
        return await self._features.describe_features(timeout_ms=timeout_ms)

    async def describe_api_versions(
        self, broker_ids: Iterable[BrokerId] | None = None, *, timeout_ms: int | None = None
    ) -> dict[BrokerId, dict[int, LevelRange] | KafkaError]:
        """Return the versions of each API that each broker (None: all brokers) supports, by API key."""
        return await self._features.describe_api_versions(broker_ids, timeout_ms=timeout_ms)

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        upgrade_type: UpgradeType = UpgradeType.UPGRADE,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> None:
        """Change the finalized feature levels, all or none; raise KafkaError if one is rejected."""
        await self._features.update_features(
            levels, upgrade_type=upgrade_type, validate_only=validate_only, timeout_ms=timeout_ms
        )

    async def unregister_broker(self, broker_id: BrokerId, *, timeout_ms: int | None = None) -> None:
        """Remove the registration of a broker that will not return."""
        await self._features.unregister_broker(broker_id, timeout_ms=timeout_ms)

    # --- quorum ------------------------------------------------------------------------------

    async def describe_metadata_quorum(self, *, timeout_ms: int | None = None) -> QuorumInfo:
        """Return the leader, the voters and the observers, with their log end offsets."""
        return await self._quorum.describe_metadata_quorum(timeout_ms=timeout_ms)

    async def add_raft_voter(
        self,
        voter_id: BrokerId,
        directory_id: UUID,
        endpoints: Iterable[VoterEndpoint],
        *,
        timeout_ms: int | None = None,
    ) -> None:
        """Make a controller that already replicates the metadata log a voter (KIP-853)."""
        await self._quorum.add_raft_voter(voter_id, directory_id, endpoints, timeout_ms=timeout_ms)

    async def remove_raft_voter(
        self, voter_id: BrokerId, directory_id: UUID, *, timeout_ms: int | None = None
    ) -> None:
        """Remove a controller from the voters (KIP-853)."""
        await self._quorum.remove_raft_voter(voter_id, directory_id, timeout_ms=timeout_ms)

    # --- quotas and access control -----------------------------------------------------------

    async def describe_client_quotas(
        self,
        components: Iterable[QuotaComponent] = (),
        *,
        strict: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Return the quotas of the entities that match all `components`.

        `strict`: exclude entities that have a further entity type.
        """
        return await self._security.describe_client_quotas(components, strict=strict, timeout_ms=timeout_ms)

    async def alter_client_quotas(
        self,
        quotas: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[QuotaEntity, KafkaError | None]:
        """Set quotas, and remove those whose value is None; None for each entity that was changed."""
        return await self._security.alter_client_quotas(
            quotas, validate_only=validate_only, timeout_ms=timeout_ms
        )

    async def create_acls(
        self, bindings: Iterable[AclBinding], *, timeout_ms: int | None = None
    ) -> dict[AclBinding, KafkaError | None]:
        """Create access control entries; None for each that was created."""
        return await self._security.create_acls(bindings, timeout_ms=timeout_ms)

    async def describe_acls(
        self,
        acl_filter: AclFilter = EVERY_ENTRY,
        *,
        timeout_ms: int | None = None,
    ) -> list[AclBinding]:
        """Return the access control entries that match the filter."""
        return await self._security.describe_acls(acl_filter, timeout_ms=timeout_ms)

    async def delete_acls(
        self, filters: Iterable[AclFilter], *, timeout_ms: int | None = None
    ) -> dict[AclFilter, list[AclBinding] | KafkaError]:
        """Delete the access control entries that match; return the deleted entries of each filter."""
        return await self._security.delete_acls(filters, timeout_ms=timeout_ms)

    async def create_delegation_token(
        self,
        *,
        owner: str | None = None,
        renewers: Iterable[str] = (),
        max_lifetime_ms: int | None = None,
        timeout_ms: int | None = None,
    ) -> DelegationToken:
        """Return a new token of `owner`, by default of the client; principals are type:name (KIP-48).

        `max_lifetime_ms` None: the broker's `delegation.token.max.lifetime.ms`.
        """
        return await self._tokens.create_delegation_token(
            owner=owner, renewers=renewers, max_lifetime_ms=max_lifetime_ms, timeout_ms=timeout_ms
        )

    async def renew_delegation_token(
        self, hmac: bytes, *, renew_period_ms: int | None = None, timeout_ms: int | None = None
    ) -> int:
        """Extend the expiration of a token to `renew_period_ms` from now; return the new expiration.

        `renew_period_ms` None: the broker's `delegation.token.expiry.time.ms`.
        """
        return await self._tokens.renew_delegation_token(
            hmac, renew_period_ms=renew_period_ms, timeout_ms=timeout_ms
        )

    async def expire_delegation_token(
        self, hmac: bytes, *, expiry_period_ms: int | None = None, timeout_ms: int | None = None
    ) -> int:
        """Let a token expire `expiry_period_ms` from now, by default at once; return the expiration."""
        return await self._tokens.expire_delegation_token(
            hmac, expiry_period_ms=expiry_period_ms, timeout_ms=timeout_ms
        )

    async def describe_delegation_tokens(
        self, owners: Iterable[str] | None = None, *, timeout_ms: int | None = None
    ) -> list[DelegationToken]:
        """Return the tokens that the client may describe; `owners` selects those of some principals."""
        return await self._tokens.describe_delegation_tokens(owners, timeout_ms=timeout_ms)

    async def describe_user_scram_credentials(
        self, users: Iterable[str] = (), *, timeout_ms: int | None = None
    ) -> dict[str, list[ScramCredentialInfo] | KafkaError]:
        """Return the credentials of `users`; of all users if it is empty."""
        return await self._users.describe_user_scram_credentials(users, timeout_ms=timeout_ms)

    async def alter_user_scram_credentials(
        self,
        upsertions: Iterable[ScramUpsertion] = (),
        deletions: Iterable[ScramDeletion] = (),
        *,
        timeout_ms: int | None = None,
    ) -> dict[str, KafkaError | None]:
        """Create, replace and delete credentials; None for each user whose credentials were changed."""
        return await self._users.alter_user_scram_credentials(upsertions, deletions, timeout_ms=timeout_ms)

    # --- groups ------------------------------------------------------------------------------

    async def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = (), timeout_ms: int | None = None
    ) -> dict[str, GroupListing]:
        """Return all groups of all brokers by id; `states` and `types` select some of them."""
        return await self._groups.list_groups(states=states, types=types, timeout_ms=timeout_ms)

    async def describe_groups(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, GroupDescription | KafkaError]:
        """Return each group with its members, their subscriptions and assignments."""
        return await self._groups.describe_groups(group_ids, timeout_ms=timeout_ms)

    async def delete_groups(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, KafkaError | None]:
        """Delete groups that have no members, and their offsets; None for each deleted group."""
        return await self._groups.delete_groups(group_ids, timeout_ms=timeout_ms)

    async def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of these partitions (None: of all); omit those without an offset."""
        return await self._groups.list_group_offsets(group_id, partitions, timeout_ms=timeout_ms)

    async def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Set committed offsets of a group that has no members; None for each partition that was set."""
        return await self._groups.alter_group_offsets(group_id, offsets, timeout_ms=timeout_ms)

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, KafkaError | None]:
        """Delete committed offsets of topics that no member subscribes to; None for each partition."""
        return await self._groups.delete_group_offsets(group_id, partitions, timeout_ms=timeout_ms)

    # --- share groups ------------------------------------------------------------------------

    async def describe_share_groups(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, GroupDescription | KafkaError]:
        """Return each share group with its members, their subscriptions and assignments."""
        return await self._share_groups.describe_share_groups(group_ids, timeout_ms=timeout_ms)

    async def list_share_group_offsets(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, dict[TopicPartition, SharePartitionOffset | KafkaError] | KafkaError]:
        """Return the offsets of all partitions of each share group that have been initialized."""
        return await self._share_groups.list_share_group_offsets(group_ids, timeout_ms=timeout_ms)

    async def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, Offset], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, KafkaError | None]:
        """Set start offsets of a share group that has no members; None for each partition that was set."""
        return await self._share_groups.alter_share_group_offsets(group_id, offsets, timeout_ms=timeout_ms)

    async def delete_share_group_offsets(
        self, group_id: str, topics: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, KafkaError | None]:
        """Delete the offsets of topics of a share group that has no members; None for each deleted topic."""
        return await self._share_groups.delete_share_group_offsets(group_id, topics, timeout_ms=timeout_ms)

    # --- transactions ------------------------------------------------------------------------

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[ProducerId] = (),
        duration_ms: int | None = None,
        pattern: str | None = None,
        timeout_ms: int | None = None,
    ) -> dict[str, TransactionListing]:
        """Return the transactional ids of all brokers that match all filters.

        `duration_ms`: the transaction is open for longer; `pattern`: a regular expression for the whole id
        (KIP-1152). Raise KafkaError(UNSUPPORTED_VERSION) if a broker does not support the filter.
        """
        return await self._transactions.list_transactions(
            states=states,
            producer_ids=producer_ids,
            duration_ms=duration_ms,
            pattern=pattern,
            timeout_ms=timeout_ms,
        )

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, TransactionDescription | KafkaError]:
        """Return state, producer and partitions of each id, or KafkaError(TRANSACTIONAL_ID_NOT_FOUND)."""
        return await self._transactions.describe_transactions(transactional_ids, timeout_ms=timeout_ms)

    async def fence_producers(
        self,
        transactional_ids: Iterable[str],
        *,
        transaction_timeout_ms: int = 60_000,
        timeout_ms: int | None = None,
    ) -> dict[str, tuple[ProducerId, ProducerEpoch] | KafkaError]:
        """Fence the producers that use these ids, and abort their open transactions.

        Return the producer id and the new epoch of each.
        """
        return await self._transactions.fence_producers(
            transactional_ids, transaction_timeout_ms=transaction_timeout_ms, timeout_ms=timeout_ms
        )

    async def abort_transaction(
        self,
        partition: TopicPartition,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        coordinator_epoch: int,
        *,
        timeout_ms: int | None = None,
    ) -> None:
        """Abort a hanging transaction of one partition by a marker, without its coordinator.

        The ids and epochs are those of `describe_producers`; a coordinator epoch of -1 is sent as 0.
        """
        await self._transactions.abort_transaction(
            partition, producer_id, producer_epoch, coordinator_epoch, timeout_ms=timeout_ms
        )
