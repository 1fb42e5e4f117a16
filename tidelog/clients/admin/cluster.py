"""Admin calls about brokers, their log directories, and configurations."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from tidelog.clients.admin.base import AdminBase, name_tuple
from tidelog.clients.admin.types import (
    ClusterDescription,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    LogDirDescription,
    LogDirPartition,
    ResourceType,
)
from tidelog.clients.metadata.cluster_metadata import partitions_by_topic
from tidelog.clients.transport.broker_address import BrokerAddress
from tidelog.clients.transport.failures import failure
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, TopicPartition
from tidelog.protocol.messages import alter_configs, incremental_alter_configs
from tidelog.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tidelog.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from tidelog.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from tidelog.protocol.registry import ApiKey

_FIRST_WITH_FENCED = 2
_BROKER_RESOURCES = (ResourceType.BROKER, ResourceType.BROKER_LOGGER)
_Resources = Iterable[ConfigResource]


class ClusterAdmin(AdminBase):
    """Brokers and configurations."""

    async def describe_cluster(
        self, *, include_fenced: bool = False, timeout_ms: int | None = None
    ) -> ClusterDescription:
        """Which brokers there are and who is the controller.

        `include_fenced`: also those that the controller does not let serve, dead ones for one, where
        the broker asked can tell.
        """
        deadline_ms = self._deadline_ms(timeout_ms)

        async def call() -> DescribeClusterResponse:
            connection = await self._client.network.any_connection()
            version = connection.version_of(ApiKey.DESCRIBE_CLUSTER)
            request = DescribeClusterRequest(
                include_fenced_brokers=include_fenced and version >= _FIRST_WITH_FENCED
            )
            left_ms = self._left_ms(deadline_ms)
            return await connection.request(request, DescribeClusterResponse, timeout_ms=left_ms)

        try:
            response = await self._retrying(call, deadline_ms)
        except KafkaError as error:
            if error.code is not ErrorCode.UNSUPPORTED_VERSION:
                raise
            return await self._cluster_from_metadata(deadline_ms)
        if response.error_code != ErrorCode.NONE:
            raise failure(response.error_code, "describe cluster", response.error_message)
        brokers = tuple(
            BrokerAddress(entry.broker_id, entry.host, entry.port, entry.rack) for entry in response.brokers
        )
        return ClusterDescription(
            cluster_id=response.cluster_id,
            controller_id=response.controller_id,
            brokers=brokers,
            fenced=frozenset(entry.broker_id for entry in response.brokers if entry.is_fenced),
        )

    async def describe_log_dirs(
        self,
        broker_ids: Iterable[BrokerId] | None = None,
        *,
        partitions: Iterable[TopicPartition] | None = None,
        timeout_ms: int | None = None,
    ) -> dict[BrokerId, dict[str, LogDirDescription] | KafkaError]:
        """Per broker (None: all), its log directories by path and what lies in them.

        `partitions` None describes all partitions.
        """
        deadline_ms = self._deadline_ms(timeout_ms)
        wanted = self._client.network.broker_ids if broker_ids is None else tuple(broker_ids)
        topics = None
        if partitions is not None:
            topics = tuple(
                DescribableLogDirTopic(topic=topic, partitions=tuple(numbers))
                for topic, numbers in partitions_by_topic(partitions).items()
            )
        request = DescribeLogDirsRequest(topics=topics)
        answers = await asyncio.gather(*(self._log_dirs_of(id_, request, deadline_ms) for id_ in wanted))
        return dict(zip(wanted, answers, strict=True))

    async def describe_configs(
        self,
        resources: _Resources,
        *,
        keys: Iterable[str] | None = None,
        include_documentation: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[ConfigResource, dict[str, ConfigEntry] | KafkaError]:
        """The configuration of each resource by key; `keys` None means all keys."""
        deadline_ms = self._deadline_ms(timeout_ms)
        wanted_keys = None if keys is None else name_tuple(keys, "keys")
        result: dict[ConfigResource, dict[str, ConfigEntry] | KafkaError] = {}
        for node_id, group in _by_node(resources).items():
            request = DescribeConfigsRequest(
                resources=tuple(
                    DescribeConfigsResource(
                        resource_type=resource.resource_type,
                        resource_name=resource.name,
                        configuration_keys=wanted_keys,
                    )
                    for resource in group
                ),
                include_documentation=include_documentation,
            )
            response = await self._ask_node(node_id, request, DescribeConfigsResponse, deadline_ms)
            for entry in response.results:
                resource = ConfigResource(ResourceType(entry.resource_type), entry.resource_name)
                if entry.error_code != ErrorCode.NONE:
                    subject = f"configuration of {resource.name!r}"
                    result[resource] = failure(entry.error_code, subject, entry.error_message)
                else:
                    result[resource] = {config.name: _config_entry(config) for config in entry.configs}
        return result

    async def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Iterable[ConfigChange]],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[ConfigResource, KafkaError | None]:
        """Change single keys, leaving the others as they are (KIP-339)."""
        deadline_ms = self._deadline_ms(timeout_ms)
        result: dict[ConfigResource, KafkaError | None] = {}
        for node_id, group in _by_node(changes).items():
            request = incremental_alter_configs.IncrementalAlterConfigsRequest(
                resources=tuple(_incremental(resource, changes[resource]) for resource in group),
                validate_only=validate_only,
            )
            response = await self._ask_node(
                node_id, request, incremental_alter_configs.IncrementalAlterConfigsResponse, deadline_ms
            )
            for entry in response.responses:
                resource = ConfigResource(ResourceType(entry.resource_type), entry.resource_name)
                result[resource] = _alter_outcome(resource, entry.error_code, entry.error_message)
        return result

    async def alter_configs(
        self,
        configs: Mapping[ConfigResource, Mapping[str, str | None]],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[ConfigResource, KafkaError | None]:
        """Replace the whole configuration of each resource: keys that are not given go back to defaults."""
        deadline_ms = self._deadline_ms(timeout_ms)
        result: dict[ConfigResource, KafkaError | None] = {}
        for node_id, group in _by_node(configs).items():
            request = alter_configs.AlterConfigsRequest(
                resources=tuple(_replacement(resource, configs[resource]) for resource in group),
                validate_only=validate_only,
            )
            response = await self._ask_node(node_id, request, alter_configs.AlterConfigsResponse, deadline_ms)
            for entry in response.responses:
                resource = ConfigResource(ResourceType(entry.resource_type), entry.resource_name)
                result[resource] = _alter_outcome(resource, entry.error_code, entry.error_message)
        return result

    async def _cluster_from_metadata(self, deadline_ms: int) -> ClusterDescription:
        """For brokers before DescribeCluster."""
        self._client.updater.request_update()
        try:
            await self._client.updater.wait_for_update(deadline_ms)
        except TimeoutError:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "metadata did not come in time") from None
        metadata = self._client.metadata
        return ClusterDescription(
            cluster_id=metadata.cluster_id,
            controller_id=metadata.controller_id,
            brokers=tuple(metadata.brokers.values()),
        )

    async def _log_dirs_of(
        self, broker_id: BrokerId, request: DescribeLogDirsRequest, deadline_ms: int
    ) -> dict[str, LogDirDescription] | KafkaError:
        try:
            response = await self._ask_node(broker_id, request, DescribeLogDirsResponse, deadline_ms)
        except KafkaError as error:
            return error
        if response.error_code != ErrorCode.NONE:
            return failure(response.error_code, f"log directories of broker {broker_id}")
        return {entry.log_dir: _log_dir(entry) for entry in response.results}


def _by_node(resources: _Resources) -> dict[BrokerId | None, list[ConfigResource]]:
    """Whom to ask: a broker's own configuration is known to itself, everything else to all."""
    grouped: dict[BrokerId | None, list[ConfigResource]] = {}
    for resource in resources:
        is_broker = resource.resource_type in _BROKER_RESOURCES and resource.name != ""
        if is_broker and not resource.name.isdigit():
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{resource.name!r} is not a broker id")
        grouped.setdefault(int(resource.name) if is_broker else None, []).append(resource)
    return grouped


def _config_entry(config: DescribeConfigsResourceResult) -> ConfigEntry:
    known = config.config_source in ConfigSource.__members__.values()
    return ConfigEntry(
        name=config.name,
        value=config.value,
        source=ConfigSource(config.config_source) if known else ConfigSource.UNKNOWN,
        is_read_only=config.read_only,
        is_sensitive=config.is_sensitive,
        documentation=config.documentation or None,
    )


def _incremental(
    resource: ConfigResource, changes: Iterable[ConfigChange]
) -> incremental_alter_configs.AlterConfigsResource:
    configs = tuple(
        incremental_alter_configs.AlterableConfig(
            name=change.name, config_operation=change.operation, value=change.value
        )
        for change in changes
    )
    return incremental_alter_configs.AlterConfigsResource(
        resource_type=resource.resource_type, resource_name=resource.name, configs=configs
    )


def _replacement(
    resource: ConfigResource, values: Mapping[str, str | None]
) -> alter_configs.AlterConfigsResource:
    configs = tuple(alter_configs.AlterableConfig(name=name, value=value) for name, value in values.items())
    return alter_configs.AlterConfigsResource(
        resource_type=resource.resource_type, resource_name=resource.name, configs=configs
    )


def _alter_outcome(resource: ConfigResource, error_code: int, message: str | None) -> KafkaError | None:
    if error_code == ErrorCode.NONE:
        return None
    return failure(error_code, f"configuration of {resource.name!r}", message)


def _log_dir(entry: DescribeLogDirsResult) -> LogDirDescription:
    error = None
    if entry.error_code != ErrorCode.NONE:
        error = failure(entry.error_code, f"log directory {entry.log_dir!r}")
    partitions = {
        TopicPartition(topic.name, one.partition_index): LogDirPartition(
            size_bytes=one.partition_size, offset_lag=one.offset_lag, is_future=one.is_future_key
        )
        for topic in entry.topics
        for one in topic.partitions
    }
    return LogDirDescription(
        path=entry.log_dir,
        error=error,
        partitions=partitions,
        total_bytes=entry.total_bytes,
        usable_bytes=entry.usable_bytes,
    )
