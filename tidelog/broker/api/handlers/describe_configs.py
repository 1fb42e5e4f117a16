"""DescribeConfigs (key 32), versions 1-4: the configs of topics, brokers, groups, loggers and client
metrics subscriptions.

- 1: synonyms, the other values in order of precedence; 3: types and documentation

A sensitive value is null. This broker describes itself and, under the name "", the configs of all brokers.
Unknown keys are treated as sensitive.

Source: ConfigHelper of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from tidelog.base.config_definition import ConfigDefinition, value_text
from tidelog.broker.api.handlers.config_names import check_broker_name, check_own_id
from tidelog.broker.config.config_synonyms import broker_definition, broker_synonyms
from tidelog.broker.config.dynamic_configs import BROKER_DEFINITIONS, broker_layers, effective_config
from tidelog.broker.config.dynamic_keys import DYNAMIC_KEYS
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.observability.logger_levels import LoggerLevels
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.broker.security.authorization.config_access import require_config_access
from tidelog.cluster.client_metrics import CLIENT_METRICS_CONFIGS
from tidelog.cluster.effective_configs import ConfigEntry, ConfigSource, effective_topic_entry
from tidelog.cluster.group_configs import GROUP_CONFIGS
from tidelog.cluster.image import ConfigResource, MetadataImage, ResourceType
from tidelog.cluster.topic_names import check_name
from tidelog.protocol.access_control import AclOperation
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from tidelog.protocol.steps import Steps, map_steps, without_duplicates
from tidelog.storage.config.topic_configs import TOPIC_CONFIGS

_UNKNOWN_TYPE: Final = 0


class DescribeConfigsHandler:
    """Returns configs from the metadata image and the node's own settings."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        config: BrokerConfig,
        levels: LoggerLevels,
        authorizer: Authorizer,
    ) -> None:
        self._authorizer = authorizer
        self._image = image
        self._config = config
        self._levels = levels

    def handle(
        self, context: RequestContext, request: DescribeConfigsRequest
    ) -> Steps[DescribeConfigsResponse]:
        """Return the configs of each distinct resource, or its error."""
        check_access = partial(
            require_config_access, self._authorizer, context, AclOperation.DESCRIBE_CONFIGS
        )
        description = _Description(self._image(), self._config, self._levels, request, check_access)
        results = yield from map_steps(description.result, (yield from without_duplicates(request.resources)))
        return DescribeConfigsResponse(results=results)


class _Description:
    """Describes the resources of one request."""

    def __init__(
        self,
        image: MetadataImage,
        config: BrokerConfig,
        levels: LoggerLevels,
        request: DescribeConfigsRequest,
        check_access: Callable[[ConfigResource], None],
    ) -> None:
        self._check_access = check_access
        self._image = image
        self._config = config
        self._levels = levels
        self._request = request
        self._layers = broker_layers(config, image)

    def result(self, resource: DescribeConfigsResource) -> Steps[DescribeConfigsResult]:
        """Return the configs of one resource, or its error."""
        keys = frozenset(resource.configuration_keys or ())
        try:
            self._check_access((resource.resource_type, resource.resource_name))
            configs = []
            for described in self._configs(resource.resource_type, resource.resource_name):
                if not keys or described.name in keys:
                    configs.append(described)
                yield None
        except KafkaError as error:
            return DescribeConfigsResult(
                error_code=error.code,
                error_message=str(error),
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        return DescribeConfigsResult(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=tuple(configs),
        )

    def _configs(self, resource_type: int, name: str) -> Iterable[DescribeConfigsResourceResult]:
        if resource_type == ResourceType.TOPIC:
            return self._topic(name)
        if resource_type == ResourceType.BROKER:
            check_broker_name(self._config.node_id, name)
            return self._broker() if name else self._cluster()
        if resource_type == ResourceType.GROUP:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "the configs of a group require the group's name")
            return self._group(name)
        if resource_type == ResourceType.BROKER_LOGGER:
            check_own_id(self._config.node_id, name, str(self._config.node_id))
            return self._loggers()
        if resource_type == ResourceType.CLIENT_METRICS:
            if not name:
                text = "Client metrics subscription name must not be empty"
                raise KafkaError(ErrorCode.INVALID_REQUEST, text)
            return self._client_metrics(name)
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"resource type {resource_type} is unknown")

    def _topic(self, name: str) -> Iterable[DescribeConfigsResourceResult]:
        check_name(name)
        if name not in self._image.topics_by_name:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
        own = self._image.topic_configs(name)
        for key, definition in TOPIC_CONFIGS.items():
            if definition.internal and key not in own:
                continue
            effective = effective_topic_entry(definition, own, self._layers)
            entries = [effective] if key in own else []
            if definition.synonyms:
                first = definition.synonyms[0].key
                entries += self._layers.entries_from(first, broker_synonyms(first))
            yield self._config_result(definition, key, effective.value, entries)

    def _broker(self) -> Iterable[DescribeConfigsResourceResult]:
        effective = effective_config(self._config, self._image)
        for key in dict.fromkeys([*BROKER_DEFINITIONS, *effective.explicit]):
            definition = broker_definition(key)
            is_explicit = key in effective.explicit
            if not is_explicit and (
                key not in effective.values or (definition is not None and definition.internal)
            ):
                continue
            value = effective.explicit.get(key)
            if key in effective.values:
                value = value_text(effective.values[key])
            entries = self._layers.entries_from(key, broker_synonyms(key))
            yield self._config_result(definition, key, value, entries, is_read_only=key not in DYNAMIC_KEYS)

    def _cluster(self) -> Iterable[DescribeConfigsResourceResult]:
        for key, text in self._layers.cluster.items():
            entries = [
                entry
                for entry in self._layers.entries_from(key, broker_synonyms(key))
                if entry.source is ConfigSource.DYNAMIC_CLUSTER
            ]
            definition = broker_definition(key)
            yield self._config_result(definition, key, text, entries, is_read_only=key not in DYNAMIC_KEYS)

    def _group(self, name: str) -> Iterable[DescribeConfigsResourceResult]:
        own = self._image.configs.get((ResourceType.GROUP, name), {})
        effective = effective_config(self._config, self._image)
        for key, definition in GROUP_CONFIGS.items():
            broker_keys = [synonym.key for synonym in definition.synonyms]
            inherited = self._layers.entries(broker_keys)
            if key in own:
                value = value_text(definition.parse(own[key]))
                entries = [ConfigEntry(key, value, ConfigSource.GROUP), *inherited]
            elif inherited:
                value = value_text(effective.values[broker_keys[0]])
                entries = inherited
            else:
                value = definition.default_text
                entries = [ConfigEntry(key, value, ConfigSource.DEFAULT)]
            yield self._config_result(definition, key, value, entries)

    def _client_metrics(self, name: str) -> Iterable[DescribeConfigsResourceResult]:
        own = self._image.configs.get((ResourceType.CLIENT_METRICS, name), {})
        for key, definition in CLIENT_METRICS_CONFIGS.items():
            value = value_text(definition.parse(own[key])) if key in own else definition.default_text
            entries = [ConfigEntry(key, value, ConfigSource.CLIENT_METRICS)] if key in own else []
            yield self._config_result(definition, key, value, entries)

    def _loggers(self) -> Iterable[DescribeConfigsResourceResult]:
        for name, level in self._levels.levels().items():
            yield DescribeConfigsResourceResult(
                name=name, value=level, config_source=ConfigSource.BROKER_LOGGER
            )

    def _config_result(
        self,
        definition: ConfigDefinition | None,
        key: str,
        value: str | None,
        entries: Sequence[ConfigEntry],
        *,
        is_read_only: bool = False,
    ) -> DescribeConfigsResourceResult:
        is_secret = definition is None or definition.is_sensitive
        documentation = definition.documentation if definition is not None else None
        return DescribeConfigsResourceResult(
            name=key,
            value=None if is_secret else value,
            read_only=is_read_only,
            config_source=entries[0].source if entries else ConfigSource.DEFAULT,
            is_sensitive=is_secret,
            synonyms=self._synonyms(entries, is_secret),
            config_type=_UNKNOWN_TYPE if definition is None else definition.kind,
            documentation=documentation if self._request.include_documentation else None,
        )

    def _synonyms(
        self, entries: Sequence[ConfigEntry], is_secret: bool
    ) -> tuple[DescribeConfigsSynonym, ...]:
        if not self._request.include_synonyms:
            return ()
        return tuple(
            DescribeConfigsSynonym(
                name=entry.name, value=None if is_secret else entry.value, source=entry.source
            )
            for entry in entries
        )
