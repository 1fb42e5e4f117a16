"""A node that handles requests for topics and configs."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.support.messages.request_contexts import over_the_wire, request_context
from tests.support.metadata.images import SeededRandomness, creatable
from tests.support.metadata.stores import running_store
from tests.support.security.authorizers import ALLOW_EVERYTHING
from tidelog.base.clock import SystemClock
from tidelog.base.sampled_rate import Windows
from tidelog.broker.api.handlers.alter_configs import ALTER_CONFIGS
from tidelog.broker.api.handlers.config_alteration import BrokerChecks, ConfigAlterationForwarder
from tidelog.broker.api.handlers.describe_configs import DescribeConfigsHandler
from tidelog.broker.api.handlers.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
)
from tidelog.broker.api.handlers.logger_changes import LoggerChanges
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.controller.handlers.config_alteration import ConfigAlterationHandler
from tidelog.broker.controller.handlers.create_partitions import CreatePartitionsHandler
from tidelog.broker.controller.handlers.create_topics import CreateTopicsHandler
from tidelog.broker.controller.handlers.delete_topics import DeleteTopicsHandler
from tidelog.broker.controller.handlers.topic_changes import TopicChangeServices
from tidelog.broker.metadata.settings import controller_settings
from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.observability.logger_levels import LoggerLevels
from tidelog.broker.quotas.mutation_quotas import MutationQuotas
from tidelog.broker.scheduling.slices import Slices
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages import alter_configs, incremental_alter_configs
from tidelog.protocol.messages.alter_configs import AlterConfigsRequest
from tidelog.protocol.messages.create_topics import CreateTopicsRequest
from tidelog.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from tidelog.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tidelog.protocol.steps import run_steps

SET, DELETE, APPEND, SUBTRACT = range(4)
CONFIG = BrokerConfig(
    {
        "node.id": "1",
        "log.segment.bytes": "2097152",
        "sasl.jaas.config": "secret",
        "my.own.key": "1",
        "delete.topic.enable": "true",
    }
)


class ConfigAdmin:
    """The admin handlers of one node."""

    def __init__(
        self, store: MetadataStore, config: BrokerConfig = CONFIG, slices: Slices | None = None
    ) -> None:
        settings = controller_settings(config)
        self.store = store
        root = logging.RootLogger(logging.INFO)
        self.loggers = logging.Manager(root)
        self.loggers.getLogger("tidelog.broker.network.listener")
        levels = LoggerLevels(self.loggers)
        loggers = LoggerChanges(config.node_id, levels)
        self._describe = DescribeConfigsHandler(
            lambda: store.image, config, levels, authorizer=ALLOW_EVERYTHING
        )
        slices = slices or Slices(SystemClock())
        alter = ConfigAlterationHandler(ALTER_CONFIGS, store, settings, slices, ALLOW_EVERYTHING)
        self._alter = ConfigAlterationForwarder(
            ALTER_CONFIGS,
            lambda: store.image,
            config,
            alter.handle,
            slices,
            BrokerChecks(authorizer=ALLOW_EVERYTHING),
        )
        self.controller = ConfigAlterationHandler(
            INCREMENTAL_ALTER_CONFIGS, store, settings, slices, ALLOW_EVERYTHING, loggers
        )
        self._incremental = ConfigAlterationForwarder(
            INCREMENTAL_ALTER_CONFIGS,
            lambda: store.image,
            config,
            self.controller.handle,
            slices,
            BrokerChecks(loggers=loggers, authorizer=ALLOW_EVERYTHING),
        )
        quotas = MutationQuotas(SystemClock(), Windows(11, 1_000))
        topics = TopicChangeServices(
            store=store, settings=settings, quotas=quotas, slices=slices, authorizer=ALLOW_EVERYTHING
        )
        self.create = CreateTopicsHandler(topics, SeededRandomness())
        self.delete = DeleteTopicsHandler(topics)
        self.grow = CreatePartitionsHandler(topics, SeededRandomness())

    def describe(
        self,
        kind: int,
        name: str,
        *keys: str,
        version: int = 4,
        documentation: bool = False,
        copies: int = 1,
    ) -> DescribeConfigsResult:
        request = DescribeConfigsRequest(
            resources=(
                DescribeConfigsResource(
                    resource_type=kind, resource_name=name, configuration_keys=keys or None
                ),
            )
            * copies,
            include_synonyms=True,
            include_documentation=documentation,
        )
        response = run_steps(self._describe.handle(request_context(version), over_the_wire(request, version)))
        (result,) = over_the_wire(response, version).results
        return result

    def entry(self, kind: int, name: str, key: str) -> DescribeConfigsResourceResult:
        (entry,) = self.describe(kind, name, key).configs
        return entry

    async def change(
        self, kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
    ) -> ErrorCode:
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=tuple(
                incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=value)
                for key, operation, value in changes
            ),
        )
        (code,) = await self.change_all(resource, validate_only=validate_only)
        return code

    async def change_all(
        self, *resources: incremental_alter_configs.AlterConfigsResource, validate_only: bool = False
    ) -> list[ErrorCode]:
        request = IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)
        response = await self._incremental.handle(request_context(1), over_the_wire(request, 1))
        responses = over_the_wire(response, 1).responses
        assert [(each.resource_type, each.resource_name) for each in responses] == [
            (each.resource_type, each.resource_name) for each in resources
        ]
        assert all((each.error_message is None) == (each.error_code == 0) for each in responses)
        return [ErrorCode(each.error_code) for each in responses]

    async def replace(self, kind: int, name: str, values: dict[str, str | None], **flags: bool) -> ErrorCode:
        resource = alter_configs.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=tuple(
                alter_configs.AlterableConfig(name=key, value=value) for key, value in values.items()
            ),
        )
        request = AlterConfigsRequest(resources=(resource,), **flags)
        response = await self._alter.handle(request_context(2), over_the_wire(request, 2))
        (resource_response,) = over_the_wire(response, 2).responses
        return ErrorCode(resource_response.error_code)


@asynccontextmanager
async def admin(config: BrokerConfig = CONFIG) -> AsyncIterator[ConfigAdmin]:
    async with running_store() as store:
        admin = ConfigAdmin(store, config)
        request = CreateTopicsRequest(topics=(creatable("orders", 2, 1, {"retention.ms": "5000"}),))
        await admin.create.handle(request_context(7), request)
        yield admin
