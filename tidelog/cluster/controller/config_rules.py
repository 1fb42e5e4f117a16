"""Validation of configs of topics, brokers, groups and client metrics: names, values, and combinations.

Errors: KafkaError, INVALID_CONFIG unless stated otherwise.
Source: ControllerConfigurationValidator, LogConfig and GroupConfigManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.base.config_definition import ConfigError
from tidelog.cluster.client_metrics import check_client_metrics
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.cluster.effective_configs import BrokerLayers, effective_topic_entry
from tidelog.cluster.group_configs import GROUP_CONFIGS, limits_of
from tidelog.cluster.image import MetadataImage, ResourceType
from tidelog.cluster.topic_names import check_name
from tidelog.cluster.topic_references import check_unreferenced, references
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.config.topic_configs import TOPIC_CONFIGS, log_config_from, unknown_topic_config

_FOLLOW_TOTAL_RETENTION = -2
_NO_LIMIT = -1


def check_configs(
    image: MetadataImage,
    settings: ControllerSettings,
    resource_type: int,
    name: str,
    configs: Mapping[str, str],
) -> None:
    """Raise KafkaError if `configs`, all configs of the resource after a change, are invalid.

    The error is INVALID_REQUEST if the metadata log has no configs of the resource type.
    """
    if resource_type == ResourceType.TOPIC:
        _check_topic(image, settings, name, configs)
    elif resource_type == ResourceType.BROKER:
        _check_broker_name(name)
    elif resource_type == ResourceType.GROUP:
        _check_group(settings, name, configs)
    elif resource_type == ResourceType.CLIENT_METRICS:
        check_client_metrics(name, configs)
    else:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unknown resource type {resource_type}; allowed are topics, brokers, groups and client metrics",
        )


def _check_topic(
    image: MetadataImage, settings: ControllerSettings, name: str, configs: Mapping[str, str]
) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    check_name(name)
    try:
        for key, text in configs.items():
            definition = TOPIC_CONFIGS.get(key)
            if definition is None:
                raise unknown_topic_config(key, text)
            definition.parse(text)
        config = log_config_from(_effective(image, settings, configs))
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
    existing = image.topic_configs(name) if name in image.topics_by_name else {}
    if config.is_mounted and not config.remote_storage_enable:
        text = "remote.storage.enable=false: a mounted topic is only in remote storage"
        raise KafkaError(ErrorCode.INVALID_CONFIG, text)
    if config.remote_storage_enable:
        _check_tiered(settings, config)
    elif (
        existing.get("remote.storage.enable", "").strip().lower() == "true"
        and not config.remote_log_delete_on_disable
    ):
        text = (
            "remote.storage.enable=false: requires remote.log.delete.on.disable=true, it deletes remote data"
        )
        raise KafkaError(ErrorCode.INVALID_CONFIG, text)
    elif existing and existing.get("remote.storage.enable", "").strip().lower() == "true":
        check_unreferenced(
            image, references(image), image.topics_by_name[name].id, "disable remote storage of"
        )


def _effective(
    image: MetadataImage, settings: ControllerSettings, configs: Mapping[str, str]
) -> dict[str, str]:
    layers = broker_layers(image, settings)
    entries = (effective_topic_entry(definition, configs, layers) for definition in TOPIC_CONFIGS.values())
    return {entry.name: entry.value for entry in entries if entry.value is not None}


def broker_layers(image: MetadataImage, settings: ControllerSettings) -> BrokerLayers:
    """Return the broker configs that topics inherit; the defaults are those of the topic configs."""
    return BrokerLayers(
        own=image.broker_configs(settings.node_id),
        cluster=image.cluster_configs(),
        static=settings.static_configs,
        defaults={},
    )


def _check_tiered(settings: ControllerSettings, config: LogConfig) -> None:
    if not settings.remote_storage_system_enable:
        text = "remote.storage.enable=true: requires remote.log.storage.system.enable=true on the brokers"
        raise KafkaError(ErrorCode.INVALID_CONFIG, text)
    if config.is_compacted:
        text = "remote.storage.enable=true: requires cleanup.policy=delete or an empty cleanup.policy"
        raise KafkaError(ErrorCode.INVALID_CONFIG, text)
    check_local_retention(config)
    _check_copy_lag("ms", config.remote_copy_lag_ms, config.effective_local_retention_ms)
    _check_copy_lag("bytes", config.remote_copy_lag_bytes, config.effective_local_retention_bytes)


def check_local_retention(config: LogConfig) -> None:
    """Raise KafkaError INVALID_CONFIG if local retention exceeds total retention."""
    _check_local_limit("ms", config.local_retention_ms, config.retention_ms, config)
    _check_local_limit("bytes", config.local_retention_bytes, config.retention_bytes, config)


def _check_local_limit(unit: str, local: int, total: int, config: LogConfig) -> None:
    if local in (_FOLLOW_TOTAL_RETENTION, total):
        return
    key = f"local.retention.{unit}={local}"
    if config.remote_log_copy_disable:
        text = f"{key}: must be -2 or retention.{unit} ({total}) with remote.log.copy.disable=true"
        raise KafkaError(ErrorCode.INVALID_CONFIG, text)
    if total > _NO_LIMIT and (local == _NO_LIMIT or local > total):
        text = f"{key}: must be at most retention.{unit} ({total})"
        raise KafkaError(ErrorCode.INVALID_CONFIG, text)


def _check_copy_lag(unit: str, lag: int, local: int) -> None:
    """Raise KafkaError INVALID_CONFIG if local retention is shorter than the copy lag (KIP-1241)."""
    if _NO_LIMIT < local < lag:
        text = f"remote.copy.lag.{unit}={lag}: must be at most local.retention.{unit} ({local})"
        raise KafkaError(ErrorCode.INVALID_CONFIG, text)


def _check_broker_name(name: str) -> None:
    if name and not (name.isascii() and name.isdigit()):
        text = f"Unable to parse broker name {name!r} as a base 10 number; it is empty for all brokers"
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)


def _check_group(settings: ControllerSettings, name: str, configs: Mapping[str, str]) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    for key, text in configs.items():
        definition = GROUP_CONFIGS.get(key)
        if definition is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{key}={text}: there is no group config of this name")
        try:
            value = definition.parse(text)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
        if isinstance(value, int):
            _check_group_limits(settings, key, value)


def _check_group_limits(settings: ControllerSettings, key: str, value: int) -> None:
    limits = limits_of(key)
    lowest = settings.group_limits.get(limits.lowest) if limits.lowest else None
    highest = settings.group_limits.get(limits.highest) if limits.highest else None
    if isinstance(lowest, int) and value < lowest:
        text = f"{key}={value}: must be at least {limits.lowest} ({lowest})"
        raise KafkaError(ErrorCode.INVALID_CONFIG, text)
    if isinstance(highest, int) and value > highest:
        text = f"{key}={value}: must be at most {limits.highest} ({highest})"
        raise KafkaError(ErrorCode.INVALID_CONFIG, text)
