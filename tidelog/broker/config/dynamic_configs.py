"""A broker's settings while it runs: those of server.properties under what was set since.

The image holds what was set, for all brokers or for one; the settings that result are
`effective_config`. Changes are checked before they become records (`dynamic_checks`), but by the broker that
was asked: a node of Apache Kafka or of another release may have accepted more. A stored config that this
broker cannot use is left out by itself.

Source: KIP-226; DynamicBrokerConfig and ConfigAdminManager of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from tidelog.base.config_definition import ConfigDefinition, ConfigError
from tidelog.broker.config.dynamic_keys import (
    DYNAMIC_KEYS,
    DYNAMIC_ONLY_CONFIGS,
    LISTENER_SECURITY_KEYS,
    is_of_one_broker,
    listener_and_base,
)
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.config.settings import BROKER_CONFIGS
from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.effective_configs import BrokerLayers
from tidelog.cluster.image import MetadataImage, ResourceType
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.config.topic_configs import log_config_from

logger = logging.getLogger(__name__)

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
        """Follow one step of the metadata, and report the configs that cannot be used.

        Returns whether `current` changed, and with it every topic's defaults.
        """
        own = str(self.static.node_id)
        if not any(kind == ResourceType.BROKER and name in ("", own) for kind, name in delta.changed_configs):
            return False
        self.current, problems = _effective(self.static, image)
        for problem in problems:
            logger.error("A dynamic broker config cannot be used and is left out: %s", problem)
        self.topic_defaults = self.current.topic_defaults()
        return True

    def log_config(self, image: MetadataImage, topic: str) -> LogConfig:
        """What a topic's logs work with: its own configs over this broker's."""
        return log_config_from({**self.topic_defaults, **image.topic_configs(topic)})


def effective_config(config: BrokerConfig, image: MetadataImage) -> BrokerConfig:
    """Return `config` under what was set while the broker ran, without what cannot be used."""
    return _effective(config, image)[0]


def usable_configs(configs: Mapping[str, str], *, of_one_broker: bool) -> dict[str, str]:
    """Return those of the stored `configs`, of one broker or of all, that a broker can use."""
    return {key: text for key, text in configs.items() if _problem(key, text, of_one_broker) is None}


def _effective(config: BrokerConfig, image: MetadataImage) -> tuple[BrokerConfig, list[str]]:
    """Return the settings in force, and what is wrong with configs that do not count."""
    problems: list[str] = []
    layers = []
    for configs, of_one_broker in (
        (image.cluster_configs(), False),
        (image.broker_configs(config.node_id), True),
    ):
        found = {key: _problem(key, text, of_one_broker) for key, text in configs.items()}
        problems += filter(None, found.values())
        layers.append({key: configs[key] for key, problem in found.items() if problem is None})
    while True:
        try:
            return config.with_dynamic(*layers), problems
        except ConfigError as error:
            problems.append(str(error))
            if not [layer.pop(error.key) for layer in layers if error.key in layer]:
                return config, problems


def _problem(key: str, text: str, of_one_broker: bool) -> str | None:
    """Return why a stored config cannot be used, None if it can."""
    if key in BROKER_CONFIGS and key not in DYNAMIC_KEYS:
        return f"{key} does not change while the broker runs"
    if key in LISTENER_SECURITY_KEYS:
        return f"{key} changes for a listener only, with its prefix"
    if not of_one_broker and is_of_one_broker(key):
        return f"{key} is set for all brokers, it can be set for single ones"
    base = listener_and_base(key).base
    definition = BROKER_DEFINITIONS.get(base) if base in DYNAMIC_KEYS else None
    try:
        if definition is not None:
            definition.parse(text)
    except ConfigError as error:
        return str(error)
    return None


def broker_layers(config: BrokerConfig, image: MetadataImage) -> BrokerLayers:
    """Return a broker's configs by where they come from, without what it cannot use."""
    node_id = str(config.node_id)
    return BrokerLayers(
        own=usable_configs(image.broker_configs(config.node_id), of_one_broker=True),
        cluster=usable_configs(image.cluster_configs(), of_one_broker=False),
        static={**config.explicit, "node.id": node_id, "broker.id": node_id},
        defaults=_DEFAULT_TEXTS,
    )
