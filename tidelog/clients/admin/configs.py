"""Admin calls about configurations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidelog.clients.admin.admin_requests import AdminRequests, error_or_none, unique_names
from tidelog.clients.admin.types import ConfigChange, ConfigEntry, ConfigResource, ConfigSource, ResourceType
from tidelog.clients.transport.failures import failure
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId
from tidelog.protocol.messages import alter_configs, incremental_alter_configs
from tidelog.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from tidelog.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_BROKER_RESOURCES = (ResourceType.BROKER, ResourceType.BROKER_LOGGER)


class ConfigAdmin:
    """Configurations of topics, brokers, groups, loggers and client metrics."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    async def list_resources(
        self, resource_types: Iterable[ResourceType], *, timeout_ms: int | None = None
    ) -> list[ConfigResource]:
        """Return the resources with configurations of these types; of all types if there are none."""
        request = ListConfigResourcesRequest(resource_types=tuple(resource_types))
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        response = await self._requests.send(request, ListConfigResourcesResponse, deadline_ms)
        if response.error_code != ErrorCode.NONE:
            raise failure(response.error_code, "list of resources with configurations")
        return [
            ConfigResource(ResourceType(each.resource_type), each.resource_name)
            for each in response.config_resources
        ]

    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        keys: Iterable[str] | None = None,
        include_documentation: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[ConfigResource, dict[str, ConfigEntry] | KafkaError]:
        """Return the configuration of each resource by key; `keys` None means all keys."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        key_names = None if keys is None else unique_names(keys, "keys")
        result: dict[ConfigResource, dict[str, ConfigEntry] | KafkaError] = {}
        for node_id, group in _by_node(resources).items():
            request = DescribeConfigsRequest(
                resources=tuple(
                    DescribeConfigsResource(
                        resource_type=resource.resource_type,
                        resource_name=resource.name,
                        configuration_keys=key_names,
                    )
                    for resource in group
                ),
                include_documentation=include_documentation,
            )
            response = await self._requests.send(
                request, DescribeConfigsResponse, deadline_ms, node_id=node_id
            )
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
        """Change single keys; other keys do not change (KIP-339). None for each changed resource."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        result: dict[ConfigResource, KafkaError | None] = {}
        for node_id, group in _by_node(changes).items():
            request = incremental_alter_configs.IncrementalAlterConfigsRequest(
                resources=tuple(_incremental(resource, changes[resource]) for resource in group),
                validate_only=validate_only,
            )
            response = await self._requests.send(
                request,
                incremental_alter_configs.IncrementalAlterConfigsResponse,
                deadline_ms,
                node_id=node_id,
            )
            for entry in response.responses:
                resource = ConfigResource(ResourceType(entry.resource_type), entry.resource_name)
                result[resource] = error_or_none(
                    entry.error_code, f"configuration of {resource.name!r}", entry.error_message
                )
        return result

    async def alter_configs(
        self,
        configs: Mapping[ConfigResource, Mapping[str, str | None]],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[ConfigResource, KafkaError | None]:
        """Replace the whole configuration of each resource; None for each changed resource."""
        deadline_ms = self._requests.deadline_ms(timeout_ms)
        result: dict[ConfigResource, KafkaError | None] = {}
        for node_id, group in _by_node(configs).items():
            request = alter_configs.AlterConfigsRequest(
                resources=tuple(_replacement(resource, configs[resource]) for resource in group),
                validate_only=validate_only,
            )
            response = await self._requests.send(
                request, alter_configs.AlterConfigsResponse, deadline_ms, node_id=node_id
            )
            for entry in response.responses:
                resource = ConfigResource(ResourceType(entry.resource_type), entry.resource_name)
                result[resource] = error_or_none(
                    entry.error_code, f"configuration of {resource.name!r}", entry.error_message
                )
        return result


def _by_node(resources: Iterable[ConfigResource]) -> dict[BrokerId | None, list[ConfigResource]]:
    """Group resources by the broker to send to: a broker's own configuration, or None for any broker."""
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
