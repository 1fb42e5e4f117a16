"""Which handler answers which API: the one place that lists what this broker serves."""

from __future__ import annotations

from broker.consumer_offsets import coordinator_topics
from broker.dispatch import Dispatcher
from broker.handlers.alter_configs import AlterConfigsHandler
from broker.handlers.api_versions import ApiVersionsHandler, Features
from broker.handlers.create_partitions import CreatePartitionsHandler
from broker.handlers.create_topics import CreateTopicsHandler
from broker.handlers.delete_groups import DeleteGroupsHandler
from broker.handlers.delete_records import DeleteRecordsHandler
from broker.handlers.delete_topics import DeleteTopicsHandler
from broker.handlers.describe_cluster import DescribeClusterHandler
from broker.handlers.describe_configs import DescribeConfigsHandler
from broker.handlers.describe_groups import DescribeGroupsHandler
from broker.handlers.describe_log_dirs import DescribeLogDirsHandler
from broker.handlers.describe_producers import DescribeProducersHandler
from broker.handlers.describe_topic_partitions import DescribeTopicPartitionsHandler
from broker.handlers.fetch import FetchHandler
from broker.handlers.find_coordinator import FindCoordinatorHandler
from broker.handlers.heartbeat import HeartbeatHandler
from broker.handlers.incremental_alter_configs import IncrementalAlterConfigsHandler
from broker.handlers.init_producer_id import InitProducerIdHandler
from broker.handlers.join_group import JoinGroupHandler
from broker.handlers.leave_group import LeaveGroupHandler
from broker.handlers.list_config_resources import ListConfigResourcesHandler
from broker.handlers.list_groups import ListGroupsHandler
from broker.handlers.list_offsets import ListOffsetsHandler
from broker.handlers.metadata import MetadataHandler
from broker.handlers.offset_commit import OffsetCommitHandler
from broker.handlers.offset_delete import OffsetDeleteHandler
from broker.handlers.offset_fetch import OffsetFetchHandler
from broker.handlers.offset_for_leader_epoch import OffsetForLeaderEpochHandler
from broker.handlers.produce import ProduceHandler
from broker.handlers.sync_group import SyncGroupHandler
from broker.metadata.settings import controller_settings
from broker.replication.current_leaders import CurrentLeaders
from broker.replication.replica_selector import selector_named
from broker.services import Services
from cluster.features import SUPPORTED_FEATURES, finalized_features
from protocol.messages.api_versions import FinalizedFeatureKey, SupportedFeatureKey
from protocol.registry import ApiKey


def register_apis(dispatcher: Dispatcher, services: Services) -> None:
    """Register every API that the node serves."""
    _register_data(dispatcher, services)
    _register_groups(dispatcher, services)
    _register_admin(dispatcher, services)


def _register_data(dispatcher: Dispatcher, services: Services) -> None:
    """Records: in, out, and where they are."""
    replicas, clock = services.replicas, services.clock
    leaders = CurrentLeaders(services.image, replicas)
    produce = ProduceHandler(
        replicas,
        services.produce_purgatory,
        services.fetch_purgatory,
        services.traffic,
        services.flusher,
        leaders,
    )
    fetch = FetchHandler(
        replicas,
        services.sessions,
        services.fetch_purgatory,
        services.traffic,
        clock,
        services.config.fetch_max_bytes,
        leaders,
        selector_named(services.config.replica_selector_class),
        lambda: services.image().brokers,
    )
    dispatcher.register_raw(ApiKey.PRODUCE, produce.handle)
    dispatcher.register_raw(ApiKey.FETCH, fetch.handle)
    dispatcher.register(ApiKey.LIST_OFFSETS, ListOffsetsHandler(replicas).handle)
    dispatcher.register(
        ApiKey.DELETE_RECORDS, DeleteRecordsHandler(replicas, services.delete_records_purgatory).handle
    )
    dispatcher.register(ApiKey.OFFSET_FOR_LEADER_EPOCH, OffsetForLeaderEpochHandler(replicas).handle)
    dispatcher.register(ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsHandler(services.logs).handle)
    dispatcher.register(ApiKey.DESCRIBE_PRODUCERS, DescribeProducersHandler(replicas).handle)
    dispatcher.register(ApiKey.INIT_PRODUCER_ID, InitProducerIdHandler(services.producer_ids.next).handle)


def _register_groups(dispatcher: Dispatcher, services: Services) -> None:
    """Consumer groups of the classic protocol."""
    groups, image = services.groups, services.image
    find = FindCoordinatorHandler(coordinator_topics(groups), image, services.topic_creation)
    dispatcher.register(ApiKey.FIND_COORDINATOR, find.handle)
    dispatcher.register(ApiKey.JOIN_GROUP, JoinGroupHandler(groups).handle, parks=True)
    dispatcher.register(ApiKey.SYNC_GROUP, SyncGroupHandler(groups).handle, parks=True)
    dispatcher.register(ApiKey.HEARTBEAT, HeartbeatHandler(groups).handle)
    dispatcher.register(ApiKey.LEAVE_GROUP, LeaveGroupHandler(groups).handle)
    dispatcher.register(ApiKey.OFFSET_COMMIT, OffsetCommitHandler(groups, image).handle)
    dispatcher.register(ApiKey.OFFSET_FETCH, OffsetFetchHandler(groups, image).handle)
    dispatcher.register(ApiKey.OFFSET_DELETE, OffsetDeleteHandler(groups, image).handle)
    dispatcher.register(ApiKey.LIST_GROUPS, ListGroupsHandler(groups).handle)
    dispatcher.register(ApiKey.DESCRIBE_GROUPS, DescribeGroupsHandler(groups).handle)
    dispatcher.register(ApiKey.DELETE_GROUPS, DeleteGroupsHandler(groups).handle)


def _register_admin(dispatcher: Dispatcher, services: Services) -> None:
    """What the broker is and what is configured."""

    def features() -> Features:
        finalized = finalized_features(services.store.image)
        return Features(
            supported=tuple(
                SupportedFeatureKey(name=name, min_version=levels.lowest, max_version=levels.highest)
                for name, levels in SUPPORTED_FEATURES.items()
            ),
            finalized=tuple(
                FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
                for name, level in finalized.levels.items()
            ),
            epoch=finalized.epoch,
        )

    store, image, randomness, config = services.store, services.image, services.randomness, services.config
    settings = controller_settings(config)
    creation = services.topic_creation if config.auto_create_topics_enable else None
    dispatcher.register(ApiKey.METADATA, MetadataHandler(image, config.node_id, creation).handle)
    create = CreateTopicsHandler(store, settings, randomness)
    dispatcher.register(ApiKey.CREATE_TOPICS, create.handle)
    dispatcher.register(ApiKey.DELETE_TOPICS, DeleteTopicsHandler(store, settings).handle)
    dispatcher.register(ApiKey.CREATE_PARTITIONS, CreatePartitionsHandler(store, randomness).handle)
    dispatcher.register(ApiKey.DESCRIBE_CLUSTER, DescribeClusterHandler(image, config.node_id).handle)
    dispatcher.register(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        DescribeTopicPartitionsHandler(image, config.max_request_partition_size_limit).handle,
    )
    dispatcher.register(ApiKey.DESCRIBE_CONFIGS, DescribeConfigsHandler(image, config).handle)
    dispatcher.register(ApiKey.ALTER_CONFIGS, AlterConfigsHandler(store, settings, config).handle)
    incremental = IncrementalAlterConfigsHandler(store, settings, config)
    dispatcher.register(ApiKey.INCREMENTAL_ALTER_CONFIGS, incremental.handle)
    dispatcher.register(ApiKey.LIST_CONFIG_RESOURCES, ListConfigResourcesHandler(image).handle)
    dispatcher.register(ApiKey.API_VERSIONS, ApiVersionsHandler(dispatcher.apis, features))
