"""A broker's settings while it runs: those of server.properties under what was set since.

The image holds what was set, for all brokers or for one; the settings that result are
`effective_config`. Changes are checked before they become records.

Errors: KafkaError INVALID_REQUEST, as Kafka answers for brokers.
Source: KIP-226; DynamicBrokerConfig and ConfigAdminManager of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Final

from broker.config import BROKER_CONFIGS, BrokerConfig
from broker.dynamic_keys import CLUSTER_WIDE_KEYS, DYNAMIC_KEYS, DYNAMIC_ONLY_CONFIGS, PER_BROKER_KEYS
from cluster.controller.config_rules import check_local_retention
from cluster.delta import MetadataDelta
from cluster.effective_configs import BrokerLayers
from cluster.image import MetadataImage, ResourceType
from protocol.errors import ErrorCode, KafkaError
from storage.config import LogConfig
from storage.config_definition import ConfigDefinition, ConfigError, split_list
from storage.topic_configs import log_config_from

logger = logging.getLogger(__name__)

_OF_ONE_LISTENER: Final = re.compile(r"listener\.name\.[^.]*\.(.*)")
_SECURITY_PREFIXES: Final = ("ssl.", "sasl.")

BROKER_DEFINITIONS: Final[Mapping[str, ConfigDefinition]] = {**BROKER_CONFIGS, **DYNAMIC_ONLY_CONFIGS}
"""Every key that a broker knows, in its file or while it runs."""

# Kafka has no defaults for these.
_ALWAYS_GIVEN: Final = ("node.id", "process.roles", "controller.listener.names")
_DEFAULT_TEXTS: Final = {
    key: text
    for key, definition in BROKER_CONFIGS.items()
    if (text := definition.default_text) is not None and key not in _ALWAYS_GIVEN
}


class DynamicBrokerConfig:
    """A node's settings now, kept up to date as a subscriber of the metadata.

    `current` is to be read each time it is needed; `topic_defaults` belongs to it.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self.static = config
        self.current = config
        self.topic_defaults: Mapping[str, str] = config.topic_defaults()

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> bool:
        """Follow one step of the metadata; whether `current` changed, and with it every topic's defaults."""
        own = str(self.static.node_id)
        if not any(kind == ResourceType.BROKER and name in ("", own) for kind, name in delta.changed_configs):
            return False
        self.current = effective_config(self.static, image)
        self.topic_defaults = self.current.topic_defaults()
        return True

    def log_config(self, image: MetadataImage, topic: str) -> LogConfig:
        """What a topic's logs work with: its own configs over this broker's."""
        return log_config_from({**self.topic_defaults, **image.topic_configs(topic)})


def effective_config(config: BrokerConfig, image: MetadataImage) -> BrokerConfig:
    """`config` under what was set while the broker ran; what does not fit is left out and reported."""
    cluster, own = image.cluster_configs(), image.broker_configs(config.node_id)
    try:
        return config.with_dynamic(cluster, own)
    except ConfigError as error:
        logger.error("dynamic broker configs do not fit and are left out: %s", error)
        return config


def broker_layers(config: BrokerConfig, image: MetadataImage) -> BrokerLayers:
    """A broker's configs by where they come from."""
    node_id = str(config.node_id)
    return BrokerLayers(
        own=image.broker_configs(config.node_id),
        cluster=image.cluster_configs(),
        static={**config.explicit, "node.id": node_id, "broker.id": node_id},
        defaults=_DEFAULT_TEXTS,
    )


def check_broker_change(
    config: BrokerConfig, image: MetadataImage, name: str, configs: Mapping[str, str]
) -> None:
    """Whether `configs` may be all that is set for broker `name`, "" being all brokers."""
    fixed = [key for key in configs if key in BROKER_CONFIGS and key not in DYNAMIC_KEYS]
    if fixed:
        raise _refused(f"{', '.join(fixed)}: cannot change while the broker runs")
    if _changes_listeners(config, configs):
        raise _refused(f"listeners: stay as they were at the start, {','.join(config.listeners)}")
    unbound = [key for key in configs if key in PER_BROKER_KEYS and key.startswith(_SECURITY_PREFIXES)]
    if unbound:
        raise _refused(f"{', '.join(unbound)}: can change only as listener.name.<name>.<key>")
    if not name:
        own = [key for key in configs if _is_of_one_broker(key)]
        if own:
            raise _refused(f"{', '.join(own)}: can change for one broker only")
    try:
        for key, text in configs.items():
            definition = BROKER_DEFINITIONS.get(_base_key(key))
            if definition is not None:
                definition.parse(text)
        if name:
            changed = config.with_dynamic(image.cluster_configs(), configs)
        else:
            changed = config.with_dynamic(configs, image.broker_configs(config.node_id))
        if config.remote_log_storage_system_enable:
            check_local_retention(log_config_from(changed.topic_defaults()))
    except (ConfigError, KafkaError) as error:
        raise _refused(str(error)) from None


def _changes_listeners(config: BrokerConfig, configs: Mapping[str, str]) -> bool:
    """Whether listeners would have to be opened or closed, which takes a start."""
    text = configs.get("listeners")
    return text is not None and split_list(text) != config.listeners


def _is_of_one_broker(key: str) -> bool:
    if key in PER_BROKER_KEYS:
        return True
    match = _OF_ONE_LISTENER.fullmatch(key)
    return match is not None and match[1] not in CLUSTER_WIDE_KEYS


def _base_key(key: str) -> str:
    match = _OF_ONE_LISTENER.fullmatch(key)
    return key if match is None else match[1]


def _refused(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)
