"""Registers the handler of each API that a broker serves."""

from __future__ import annotations

from typing import Final

from tidelog.base.log_limit import LogLimit
from tidelog.broker.api.dispatch import Dispatcher
from tidelog.broker.api.handlers.add_offsets_to_txn import AddOffsetsToTxnHandler
from tidelog.broker.api.handlers.add_partitions_to_txn import AddPartitionsToTxnHandler
from tidelog.broker.api.handlers.alter_configs import ALTER_CONFIGS
from tidelog.broker.api.handlers.alter_replica_log_dirs import AlterReplicaLogDirsHandler
from tidelog.broker.api.handlers.api_versions import ApiVersionsHandler
from tidelog.broker.api.handlers.config_alteration import BrokerChecks, ConfigAlterationForwarder
from tidelog.broker.api.handlers.consumer_group_describe import ConsumerGroupDescribeHandler
from tidelog.broker.api.handlers.consumer_group_heartbeat import ConsumerGroupHeartbeatHandler
from tidelog.broker.api.handlers.delegation_token_changes import (
    DelegationTokenHandlers,
    ForwardedTokenChanges,
)
from tidelog.broker.api.handlers.delete_groups import DeleteGroupsHandler
from tidelog.broker.api.handlers.delete_records import DeleteRecordsHandler
from tidelog.broker.api.handlers.describe_acls import DescribeAclsHandler
from tidelog.broker.api.handlers.describe_client_quotas import DescribeClientQuotasHandler
from tidelog.broker.api.handlers.describe_cluster import DescribeClusterHandler
from tidelog.broker.api.handlers.describe_configs import DescribeConfigsHandler
from tidelog.broker.api.handlers.describe_delegation_token import DescribeDelegationTokenHandler
from tidelog.broker.api.handlers.describe_groups import DescribeGroupsHandler
from tidelog.broker.api.handlers.describe_log_dirs import DescribeLogDirsHandler
from tidelog.broker.api.handlers.describe_producers import DescribeProducersHandler
from tidelog.broker.api.handlers.describe_topic_partitions import DescribeTopicPartitionsHandler
from tidelog.broker.api.handlers.describe_transactions import DescribeTransactionsHandler
from tidelog.broker.api.handlers.describe_user_scram_credentials import DescribeUserScramCredentialsHandler
from tidelog.broker.api.handlers.end_txn import EndTxnHandler
from tidelog.broker.api.handlers.features import features_of
from tidelog.broker.api.handlers.fetch import FetchHandler
from tidelog.broker.api.handlers.find_coordinator import (
    CoordinatorTopic,
    CoordinatorType,
    FindCoordinatorHandler,
)
from tidelog.broker.api.handlers.group_access import GroupAccess
from tidelog.broker.api.handlers.heartbeat import HeartbeatHandler
from tidelog.broker.api.handlers.incremental_alter_configs import INCREMENTAL_ALTER_CONFIGS
from tidelog.broker.api.handlers.init_producer_id import InitProducerIdHandler
from tidelog.broker.api.handlers.join_group import JoinGroupHandler
from tidelog.broker.api.handlers.leave_group import LeaveGroupHandler
from tidelog.broker.api.handlers.list_config_resources import ListConfigResourcesHandler
from tidelog.broker.api.handlers.list_groups import ListGroupsHandler
from tidelog.broker.api.handlers.list_offsets import ListOffsetsHandler
from tidelog.broker.api.handlers.list_transactions import ListTransactionsHandler
from tidelog.broker.api.handlers.logger_changes import LoggerChanges
from tidelog.broker.api.handlers.metadata import MetadataHandler
from tidelog.broker.api.handlers.offset_commit import OffsetCommitHandler
from tidelog.broker.api.handlers.offset_commit_direct import DirectOffsetCommit
from tidelog.broker.api.handlers.offset_delete import OffsetDeleteHandler
from tidelog.broker.api.handlers.offset_fetch import OffsetFetchHandler
from tidelog.broker.api.handlers.offset_for_leader_epoch import OffsetForLeaderEpochHandler
from tidelog.broker.api.handlers.produce import ProduceHandler
from tidelog.broker.api.handlers.produce_append import ProduceAppender
from tidelog.broker.api.handlers.sasl import register_sasl_apis
from tidelog.broker.api.handlers.services import Services
from tidelog.broker.api.handlers.share_acknowledge import ShareAcknowledgeHandler
from tidelog.broker.api.handlers.share_acknowledgements import ShareAcknowledger, ShareTopics
from tidelog.broker.api.handlers.share_fetch import ShareFetchHandler, ShareFetchParts
from tidelog.broker.api.handlers.share_group_describe import ShareGroupDescribeHandler
from tidelog.broker.api.handlers.share_group_heartbeat import ShareGroupHeartbeatHandler
from tidelog.broker.api.handlers.share_group_offsets import ShareGroupOffsetsHandler
from tidelog.broker.api.handlers.share_group_state import register_share_group_state_apis
from tidelog.broker.api.handlers.streams_group_describe import StreamsGroupDescribeHandler
from tidelog.broker.api.handlers.streams_group_heartbeat import StreamsGroupHeartbeatHandler
from tidelog.broker.api.handlers.sync_group import SyncGroupHandler
from tidelog.broker.api.handlers.telemetry import register_telemetry_apis
from tidelog.broker.api.handlers.txn_offset_commit import TxnOffsetCommitHandler
from tidelog.broker.api.handlers.write_txn_markers import MarkerPurgatories, WriteTxnMarkersHandler
from tidelog.broker.coordinators.share.persister import SharePartitionKey
from tidelog.broker.fetching.fetch_options import FetchOptions, FollowerThrottle, PreferredReadReplicas
from tidelog.broker.fetching.replica_selector import find_selector
from tidelog.broker.metadata.internal_topic_creation import InternalTopicCreation
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.observability.logger_levels import LoggerLevels
from tidelog.broker.partitions.current_leaders import CurrentLeaders
from tidelog.cluster.features import (
    consumer_groups_enabled,
    share_groups_enabled,
    streams_groups_enabled,
)
from tidelog.cluster.topic_names import GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from tidelog.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from tidelog.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidelog.protocol.registry import ApiKey

FORWARDED: Final = (
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.ELECT_LEADERS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.UPDATE_FEATURES,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
)
"""The APIs that clients send to any broker and that only the active controller serves."""


def register_apis(dispatcher: Dispatcher, services: Services) -> None:
    """Register the handlers of every API that the node serves."""
    _register_data(dispatcher, services)
    _register_groups(dispatcher, services)
    _register_share_delivery(dispatcher, services)
    _register_parts_of_transactions(dispatcher, services)
    _register_transactions(dispatcher, services)
    _register_admin(dispatcher, services)
    _register_forwarded(dispatcher, services)
    _register_share_groups(dispatcher, services)
    _register_streams_groups(dispatcher, services)
    if services.client_telemetry is not None:
        register_telemetry_apis(dispatcher, services.client_telemetry)
    register_sasl_apis(dispatcher)


def _register_data(dispatcher: Dispatcher, services: Services) -> None:
    """Register the APIs of records and offsets in logs."""
    replicas, clock, authorizer = services.replicas, services.clock, services.authorizer
    leaders, log_limit = CurrentLeaders(services.image, replicas), LogLimit(clock.monotonic_ms)
    appender = ProduceAppender(replicas, services.readers, services.traffic, log_limit, services.authorizer)
    produce = ProduceHandler(
        appender,
        replicas,
        services.produce_purgatory,
        services.flusher,
        leaders,
        services.verifier,
        services.slices,
    )
    fetch = FetchHandler(
        replicas,
        services.sessions,
        services.fetch_purgatory,
        services.traffic,
        clock,
        leaders,
        _fetch_options(services),
    )
    dispatcher.register_raw(ApiKey.PRODUCE, produce.handle, may_wait=False)
    dispatcher.register_raw(ApiKey.FETCH, fetch.handle)
    dispatcher.register(
        ApiKey.LIST_OFFSETS,
        ListOffsetsHandler(replicas, services.slices, authorizer, services.remote).handle,
    )
    dispatcher.register(
        ApiKey.DELETE_RECORDS,
        DeleteRecordsHandler(replicas, services.delete_records_purgatory, services.slices, authorizer).handle,
    )
    dispatcher.register(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        OffsetForLeaderEpochHandler(replicas, authorizer).handle,
        may_wait=False,
    )
    dispatcher.register(ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsHandler(services.logs, authorizer).handle)
    dispatcher.register(
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        AlterReplicaLogDirsHandler(services.log_dir_moves, authorizer, log_limit).handle,
    )
    dispatcher.register(ApiKey.DESCRIBE_PRODUCERS, DescribeProducersHandler(replicas, authorizer).handle)


def _fetch_options(services: Services) -> FetchOptions:
    config = services.config
    selector = find_selector(config.replica_selector_class)
    return FetchOptions(
        max_bytes=config.fetch_max_bytes,
        slices=services.slices,
        preferred_read_replicas=None
        if selector is None
        else PreferredReadReplicas(selector, lambda: services.image().brokers),
        throttle=FollowerThrottle(services.throttles.leader, services.clock),
        remote=services.remote,
        authorizer=services.authorizer,
    )


def _register_groups(dispatcher: Dispatcher, services: Services) -> None:
    """Register the APIs of groups of both protocols."""
    groups, image, slices = services.groups, services.image, services.slices
    share_coordinator = services.share_coordinator
    transactions, authorizer, topics = services.transactions, services.authorizer, services.topic_access()
    coordinators = {
        CoordinatorType.GROUP: CoordinatorTopic(GROUP_METADATA_TOPIC, groups.partition_for),
        CoordinatorType.TRANSACTION: CoordinatorTopic(TRANSACTION_STATE_TOPIC, transactions.partition_for),
        CoordinatorType.SHARE: CoordinatorTopic(
            SHARE_GROUP_STATE_TOPIC,
            lambda key: share_coordinator.partition_for(SharePartitionKey.from_coordinator_key(key)),
        ),
    }
    find_coordinator = FindCoordinatorHandler(coordinators, image, services.topic_creation, authorizer)
    dispatcher.register(ApiKey.FIND_COORDINATOR, find_coordinator.handle)
    dispatcher.register(
        ApiKey.JOIN_GROUP, JoinGroupHandler(groups).handle, uses_slot=False, is_cancellable=True
    )
    dispatcher.register(
        ApiKey.SYNC_GROUP, SyncGroupHandler(groups).handle, uses_slot=False, is_cancellable=True
    )
    dispatcher.register(ApiKey.HEARTBEAT, HeartbeatHandler(groups).handle)
    dispatcher.register(ApiKey.LEAVE_GROUP, LeaveGroupHandler(groups).handle)
    dispatcher.register(
        ApiKey.OFFSET_COMMIT,
        OffsetCommitHandler(groups.offset_commits, topics).handle,
        direct=DirectOffsetCommit(groups.offset_commits, topics).handle,
    )
    dispatcher.register(ApiKey.OFFSET_FETCH, OffsetFetchHandler(groups, topics).handle)
    dispatcher.register(ApiKey.OFFSET_DELETE, OffsetDeleteHandler(groups, topics).handle)
    dispatcher.register(ApiKey.LIST_GROUPS, ListGroupsHandler(groups, authorizer).handle)
    dispatcher.register(ApiKey.DESCRIBE_GROUPS, DescribeGroupsHandler(groups, authorizer).handle)
    dispatcher.register(ApiKey.DELETE_GROUPS, DeleteGroupsHandler(groups, slices, authorizer).handle)
    consumer_groups = groups.consumer_groups
    serves_consumer_groups = "consumer" in services.config.group_coordinator_rebalance_protocols

    def is_enabled() -> bool:
        return serves_consumer_groups and consumer_groups_enabled(image())

    access = GroupAccess(authorizer, slices, is_enabled)
    heartbeat = ConsumerGroupHeartbeatHandler(consumer_groups, access)
    dispatcher.register(ApiKey.CONSUMER_GROUP_HEARTBEAT, heartbeat.handle)
    describe = ConsumerGroupDescribeHandler(consumer_groups, access)
    dispatcher.register(ApiKey.CONSUMER_GROUP_DESCRIBE, describe.handle)


def _register_share_delivery(dispatcher: Dispatcher, services: Services) -> None:
    """Register the APIs by which members of share groups get and acknowledge records."""
    replicas, partitions = services.replicas, services.share_partitions
    leaders = CurrentLeaders(services.image, replicas)
    topics = ShareTopics(replicas, services.image, services.authorizer)
    acknowledger = ShareAcknowledger(partitions, topics)

    def is_enabled() -> bool:
        return share_groups_enabled(services.image())

    fetch = ShareFetchHandler(
        ShareFetchParts(
            replicas=replicas,
            share_partitions=partitions,
            sessions=services.share_sessions,
            topics=topics,
            acknowledger=acknowledger,
            leaders=leaders,
            authorizer=services.authorizer,
            slices=services.slices,
            traffic=services.traffic,
            remote=services.remote,
            max_bytes=services.config.fetch_max_bytes,
            is_enabled=is_enabled,
        )
    )
    dispatcher.register_raw(ApiKey.SHARE_FETCH, fetch.handle)
    acknowledge = ShareAcknowledgeHandler(
        acknowledger, services.share_sessions, partitions.ports.settings, leaders, is_enabled
    )
    dispatcher.register(ApiKey.SHARE_ACKNOWLEDGE, acknowledge.handle, uses_slot=False)


def _register_share_groups(dispatcher: Dispatcher, services: Services) -> None:
    """Register the APIs of share groups, and of the states of their partitions.

    Changes of offsets wait for the share coordinators, which are other brokers whose requests may wait, too.
    """
    groups = services.groups.share_groups
    access = GroupAccess(services.authorizer, services.slices, lambda: share_groups_enabled(services.image()))
    heartbeat = ShareGroupHeartbeatHandler(groups, access)
    dispatcher.register(ApiKey.SHARE_GROUP_HEARTBEAT, heartbeat.handle)
    describe = ShareGroupDescribeHandler(groups, access)
    dispatcher.register(ApiKey.SHARE_GROUP_DESCRIBE, describe.handle)
    offsets = ShareGroupOffsetsHandler(groups, access)
    dispatcher.register(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, offsets.describe, uses_slot=False)
    dispatcher.register(ApiKey.ALTER_SHARE_GROUP_OFFSETS, offsets.alter, uses_slot=False)
    dispatcher.register(ApiKey.DELETE_SHARE_GROUP_OFFSETS, offsets.delete, uses_slot=False)
    register_share_group_state_apis(dispatcher, services.share_coordinator, services.slices)


def _register_streams_groups(dispatcher: Dispatcher, services: Services) -> None:
    """Register the APIs of streams groups."""
    groups, image = services.groups.streams_groups, services.image
    is_served = "streams" in services.config.group_coordinator_rebalance_protocols
    access = GroupAccess(
        services.authorizer, services.slices, lambda: is_served and streams_groups_enabled(image())
    )
    creation = InternalTopicCreation(services.topic_creation, services.clock)
    heartbeat = StreamsGroupHeartbeatHandler(groups, access, creation)
    dispatcher.register(ApiKey.STREAMS_GROUP_HEARTBEAT, heartbeat.handle)
    describe = StreamsGroupDescribeHandler(groups, access)
    dispatcher.register(ApiKey.STREAMS_GROUP_DESCRIBE, describe.handle)


def _register_parts_of_transactions(dispatcher: Dispatcher, services: Services) -> None:
    """Register the APIs that write to partitions for transactions."""
    groups = services.group_transactions
    markers = WriteTxnMarkersHandler(
        services.replicas,
        groups,
        MarkerPurgatories(services.produce_purgatory, services.readers),
        services.clock,
        services.config.request_timeout_ms,
        services.slices,
    )
    dispatcher.register(ApiKey.WRITE_TXN_MARKERS, markers.handle, uses_slot=False, may_wait=False)
    commit_offsets = TxnOffsetCommitHandler(groups, services.topic_access())
    dispatcher.register(ApiKey.TXN_OFFSET_COMMIT, commit_offsets.handle, uses_slot=False)


def _register_transactions(dispatcher: Dispatcher, services: Services) -> None:
    """Register the APIs of transactional producers.

    Changes park: they wait for the coordinator's log, and brokers whose requests wait send requests to each
    other.
    """
    transactions, groups, authorizer = services.transactions, services.groups, services.authorizer
    init_producer_id = InitProducerIdHandler(services.producer_ids.next, transactions, authorizer)
    dispatcher.register(ApiKey.INIT_PRODUCER_ID, init_producer_id.handle, uses_slot=False)
    add_partitions = AddPartitionsToTxnHandler(transactions, services.topic_access())
    dispatcher.register(ApiKey.ADD_PARTITIONS_TO_TXN, add_partitions.handle, uses_slot=False, may_wait=False)
    add_offsets = AddOffsetsToTxnHandler(
        transactions, groups.partition_for, services.image, services.topic_creation
    )
    dispatcher.register(ApiKey.ADD_OFFSETS_TO_TXN, add_offsets.handle, uses_slot=False)
    dispatcher.register(ApiKey.END_TXN, EndTxnHandler(transactions).handle, uses_slot=False)
    describe = DescribeTransactionsHandler(transactions, authorizer)
    dispatcher.register(ApiKey.DESCRIBE_TRANSACTIONS, describe.handle)
    dispatcher.register(ApiKey.LIST_TRANSACTIONS, ListTransactionsHandler(transactions, authorizer).handle)


def _register_admin(dispatcher: Dispatcher, services: Services) -> None:
    """Register the APIs that describe brokers, topics and configs."""
    image, config, authorizer = services.image, services.config, services.authorizer
    creation = services.topic_creation if config.auto_create_topics_enable else None
    metadata = MetadataHandler(image, config.node_id, creation, authorizer)
    dispatcher.register(ApiKey.METADATA, metadata.handle)
    describe_cluster = DescribeClusterHandler(image, config.node_id, authorizer)
    dispatcher.register(ApiKey.DESCRIBE_CLUSTER, describe_cluster.handle)
    dispatcher.register(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        DescribeTopicPartitionsHandler(image, config.max_request_partition_size_limit, authorizer).handle,
    )
    describe_configs = DescribeConfigsHandler(image, config, LoggerLevels(), authorizer)
    dispatcher.register(ApiKey.DESCRIBE_CONFIGS, describe_configs.handle)
    dispatcher.register(ApiKey.DESCRIBE_CLIENT_QUOTAS, DescribeClientQuotasHandler(image).handle)
    dispatcher.register(ApiKey.DESCRIBE_ACLS, DescribeAclsHandler(image, config).handle)
    credentials = DescribeUserScramCredentialsHandler(image)
    dispatcher.register(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, credentials.handle)
    describe_tokens = DescribeDelegationTokenHandler(image, config, authorizer)
    dispatcher.register(ApiKey.DESCRIBE_DELEGATION_TOKEN, describe_tokens.handle)
    dispatcher.register(ApiKey.LIST_CONFIG_RESOURCES, ListConfigResourcesHandler(image).handle)
    dispatcher.register(
        ApiKey.API_VERSIONS,
        ApiVersionsHandler(
            lambda: services.forwarder.supported_apis(dispatcher.apis()),
            lambda: features_of(image(), services.store.kraft_version),
        ),
    )


def _register_forwarded(dispatcher: Dispatcher, services: Services) -> None:
    """Register the APIs that only the active controller serves."""
    forwarder, image, config = services.forwarder, services.image, services.config
    for key in FORWARDED:
        dispatcher.register_raw(key, forwarder.handle)
    tokens = DelegationTokenHandlers(config, services.authorizer, ForwardedTokenChanges(forwarder))
    dispatcher.register(ApiKey.CREATE_DELEGATION_TOKEN, tokens.create, uses_slot=False)
    dispatcher.register(ApiKey.RENEW_DELEGATION_TOKEN, tokens.renew, uses_slot=False)
    dispatcher.register(ApiKey.EXPIRE_DELEGATION_TOKEN, tokens.expire, uses_slot=False)

    async def alter(context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
        return await forwarder.forward(context, request, AlterConfigsResponse)

    async def alter_incrementally(
        context: RequestContext, request: IncrementalAlterConfigsRequest
    ) -> IncrementalAlterConfigsResponse:
        return await forwarder.forward(context, request, IncrementalAlterConfigsResponse)

    check = services.check_certificates
    alter_configs = ConfigAlterationForwarder(
        ALTER_CONFIGS,
        image,
        config,
        alter,
        services.slices,
        BrokerChecks(check_certificates=check, authorizer=services.authorizer),
    )
    dispatcher.register(ApiKey.ALTER_CONFIGS, alter_configs.handle, uses_slot=False)
    loggers = LoggerChanges(config.node_id, LoggerLevels())
    incremental_alter_configs = ConfigAlterationForwarder(
        INCREMENTAL_ALTER_CONFIGS,
        image,
        config,
        alter_incrementally,
        services.slices,
        BrokerChecks(loggers=loggers, check_certificates=check, authorizer=services.authorizer),
    )
    dispatcher.register(ApiKey.INCREMENTAL_ALTER_CONFIGS, incremental_alter_configs.handle, uses_slot=False)
