"""Registers the handlers of a controller: for its listeners and for requests inside an Envelope."""

from __future__ import annotations

from typing import Any

from tidelog.base.clock import Clock
from tidelog.base.dataclass import dataclass
from tidelog.base.randomness import Randomness
from tidelog.broker.api.dispatch import Dispatcher, TypedHandler
from tidelog.broker.api.handlers.alter_configs import ALTER_CONFIGS
from tidelog.broker.api.handlers.api_versions import ApiVersionsHandler
from tidelog.broker.api.handlers.delegation_token_changes import DelegationTokenHandlers
from tidelog.broker.api.handlers.describe_acls import DescribeAclsHandler
from tidelog.broker.api.handlers.describe_configs import DescribeConfigsHandler
from tidelog.broker.api.handlers.features import features_of
from tidelog.broker.api.handlers.incremental_alter_configs import INCREMENTAL_ALTER_CONFIGS
from tidelog.broker.api.handlers.logger_changes import LoggerChanges
from tidelog.broker.api.handlers.sasl import register_sasl_apis
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.controller.handlers.allocate_producer_ids import AllocateProducerIdsHandler
from tidelog.broker.controller.handlers.alter_client_quotas import AlterClientQuotasHandler
from tidelog.broker.controller.handlers.alter_partition import AlterPartitionHandler
from tidelog.broker.controller.handlers.alter_partition_reassignments import (
    AlterPartitionReassignmentsHandler,
)
from tidelog.broker.controller.handlers.alter_user_scram_credentials import AlterUserScramCredentialsHandler
from tidelog.broker.controller.handlers.assign_replicas_to_dirs import AssignReplicasToDirsHandler
from tidelog.broker.controller.handlers.broker_heartbeat import BrokerHeartbeatHandler
from tidelog.broker.controller.handlers.broker_registration import BrokerRegistrationHandler
from tidelog.broker.controller.handlers.config_alteration import ConfigAlterationHandler
from tidelog.broker.controller.handlers.controller_registration import ControllerRegistrationHandler
from tidelog.broker.controller.handlers.create_acls import CreateAclsHandler
from tidelog.broker.controller.handlers.create_partitions import CreatePartitionsHandler
from tidelog.broker.controller.handlers.create_topics import CreateTopicsHandler
from tidelog.broker.controller.handlers.delegation_tokens import TokenCommands
from tidelog.broker.controller.handlers.delete_acls import DeleteAclsHandler
from tidelog.broker.controller.handlers.delete_topics import DeleteTopicsHandler
from tidelog.broker.controller.handlers.describe_controllers import DescribeControllersHandler
from tidelog.broker.controller.handlers.elect_leaders import ElectLeadersHandler
from tidelog.broker.controller.handlers.envelope import EnvelopeHandler
from tidelog.broker.controller.handlers.list_partition_reassignments import ListPartitionReassignmentsHandler
from tidelog.broker.controller.handlers.topic_changes import TopicChangeServices
from tidelog.broker.controller.handlers.unregister_broker import UnregisterBrokerHandler
from tidelog.broker.controller.handlers.update_features import UpdateFeaturesHandler
from tidelog.broker.metadata.settings import controller_settings
from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.observability.logger_levels import LoggerLevels
from tidelog.broker.quotas.mutation_quotas import MutationQuotas
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.cluster.controller.heartbeats import BrokerHeartbeats
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.registry import ApiKey


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerServices:
    """The objects that the controller's handlers use."""

    config: BrokerConfig
    store: MetadataStore
    clock: Clock
    randomness: Randomness
    heartbeats: BrokerHeartbeats
    mutations: MutationQuotas
    authorizer: Authorizer

    def image(self) -> MetadataImage:
        """Return the committed metadata."""
        return self.store.image

    def is_active(self) -> bool:
        """Return whether this node is the active controller."""
        return self.store.active_epoch is not None


def register_controller_apis(dispatcher: Dispatcher, services: ControllerServices) -> None:
    """Register every API that a controller serves, except those of the quorum."""
    _register_brokers(dispatcher, services)
    _register_admin(dispatcher, services)
    _register_security(dispatcher, services)
    register_sasl_apis(dispatcher)
    envelope = EnvelopeHandler(dispatcher, services.is_active)
    dispatcher.register(ApiKey.ENVELOPE, envelope.handle, may_wait=False)
    dispatcher.register(
        ApiKey.API_VERSIONS,
        ApiVersionsHandler(
            dispatcher.apis, lambda: features_of(services.store.image, services.store.kraft_version)
        ),
    )


def _register_brokers(dispatcher: Dispatcher, services: ControllerServices) -> None:
    """Register the APIs for brokers."""
    store, heartbeats, clock = services.store, services.heartbeats, services.clock
    settings = controller_settings(services.config)
    handlers: dict[ApiKey, TypedHandler[Any]] = {
        ApiKey.BROKER_REGISTRATION: BrokerRegistrationHandler(store, settings, heartbeats, clock).handle,
        ApiKey.BROKER_HEARTBEAT: BrokerHeartbeatHandler(store, settings, heartbeats, clock).handle,
        ApiKey.ALTER_PARTITION: AlterPartitionHandler(store, settings).handle,
        ApiKey.ALLOCATE_PRODUCER_IDS: AllocateProducerIdsHandler(store).handle,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: AssignReplicasToDirsHandler(store, settings).handle,
        ApiKey.CONTROLLER_REGISTRATION: ControllerRegistrationHandler(store).handle,
    }
    for key, handler in handlers.items():
        dispatcher.register(key, handler, may_wait=False)


def _register_admin(dispatcher: Dispatcher, services: ControllerServices) -> None:
    """Register the APIs for administration, which clients mostly send through a broker."""
    store, config, randomness = services.store, services.config, services.randomness
    settings, slices, authorizer = controller_settings(config), dispatcher.slices, services.authorizer
    topics = TopicChangeServices(
        store=store, settings=settings, quotas=services.mutations, slices=slices, authorizer=authorizer
    )
    create = CreateTopicsHandler(topics, randomness)
    dispatcher.register(ApiKey.CREATE_TOPICS, create.handle)
    delete = DeleteTopicsHandler(topics)
    dispatcher.register(ApiKey.DELETE_TOPICS, delete.handle)
    create_partitions = CreatePartitionsHandler(topics, randomness)
    dispatcher.register(ApiKey.CREATE_PARTITIONS, create_partitions.handle)
    alter_configs = ConfigAlterationHandler(ALTER_CONFIGS, store, settings, slices, authorizer=authorizer)
    dispatcher.register(ApiKey.ALTER_CONFIGS, alter_configs.handle)
    loggers = LoggerChanges(config.node_id, LoggerLevels())
    incremental_alter_configs = ConfigAlterationHandler(
        INCREMENTAL_ALTER_CONFIGS, store, settings, slices, authorizer, loggers
    )
    dispatcher.register(ApiKey.INCREMENTAL_ALTER_CONFIGS, incremental_alter_configs.handle)
    describe_configs = DescribeConfigsHandler(services.image, config, LoggerLevels(), authorizer)
    dispatcher.register(ApiKey.DESCRIBE_CONFIGS, describe_configs.handle)
    dispatcher.register(ApiKey.UNREGISTER_BROKER, UnregisterBrokerHandler(store, settings).handle)
    dispatcher.register(ApiKey.ELECT_LEADERS, ElectLeadersHandler(store, settings).handle)
    reassign = AlterPartitionReassignmentsHandler(store, settings)
    dispatcher.register(ApiKey.ALTER_PARTITION_REASSIGNMENTS, reassign.handle)
    reassignments = ListPartitionReassignmentsHandler(services.image)
    dispatcher.register(ApiKey.LIST_PARTITION_REASSIGNMENTS, reassignments.handle)
    dispatcher.register(ApiKey.UPDATE_FEATURES, UpdateFeaturesHandler(store, settings).handle)
    describe = DescribeControllersHandler(services.image, lambda: store.leader, authorizer)
    dispatcher.register(ApiKey.DESCRIBE_CLUSTER, describe.handle)


def _register_security(dispatcher: Dispatcher, services: ControllerServices) -> None:
    """Register the APIs for quotas, access control and credentials."""
    store, config, image = services.store, services.config, services.image
    dispatcher.register(ApiKey.ALTER_CLIENT_QUOTAS, AlterClientQuotasHandler(store, dispatcher.slices).handle)
    create = CreateAclsHandler(store, config, services.randomness)
    dispatcher.register(ApiKey.CREATE_ACLS, create.handle)
    dispatcher.register(ApiKey.DELETE_ACLS, DeleteAclsHandler(store, config).handle)
    dispatcher.register(ApiKey.DESCRIBE_ACLS, DescribeAclsHandler(image, config).handle)
    credentials = AlterUserScramCredentialsHandler(store, dispatcher.slices)
    dispatcher.register(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, credentials.handle)
    commands = TokenCommands(store, config, services.randomness)
    tokens = DelegationTokenHandlers(config, services.authorizer, commands)
    dispatcher.register(ApiKey.CREATE_DELEGATION_TOKEN, tokens.create)
    dispatcher.register(ApiKey.RENEW_DELEGATION_TOKEN, tokens.renew)
    dispatcher.register(ApiKey.EXPIRE_DELEGATION_TOKEN, tokens.expire)
