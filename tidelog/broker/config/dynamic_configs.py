"""A broker's settings while it runs: those of server.properties, overridden by dynamic configs.

The image contains the dynamic configs, for all brokers or for one. `effective_config` returns the resulting
settings. The broker that receives a change checks it before it is recorded (`dynamic_checks`). This may be a
node of Apache Kafka or of another release, which accepts more configs. If this broker cannot use a stored
config, it ignores only this config.

Source: KIP-226; DynamicBrokerConfig and ConfigAdminManager of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from tidelog.base.config_definition import HIDDEN_VALUE, ConfigDefinition, ConfigError
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

logger = logging.getLogger(__name__)

BROKER_DEFINITIONS: Final[Mapping[str, ConfigDefinition]] = {**BROKER_CONFIGS, **DYNAMIC_ONLY_CONFIGS}
"""The definitions of all broker keys, static and dynamic."""

# Kafka has no defaults for these keys.
_REQUIRED_KEYS: Final = ("node.id", "process.roles", "controller.listener.names")
_DEFAULT_TEXTS: Final = {
    key: text
    for key, definition in BROKER_CONFIGS.items()
    if (text := definition.default_text) is not None and key not in _REQUIRED_KEYS
}


class DynamicBrokerConfig:
    """The current settings of a node, updated as a subscriber of the metadata.

    Each change replaces `current` and `topic_defaults`: read them when they are needed, do not store them.
    """

    def __init__(self, config: BrokerConfig, *, logs_problems: bool = True) -> None:
        """`logs_problems`: whether `apply` logs the configs that cannot be used."""
        self._logs_problems = logs_problems
        self.static = config
        self.current = config
        self.topic_defaults: Mapping[str, str] = config.topic_defaults()

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> bool:
        """Apply one delta of the metadata.

        Return whether the broker's configs, and with them the defaults of topics, may have changed.
        """
        own = str(self.static.node_id)
        if not any(kind == ResourceType.BROKER and name in ("", own) for kind, name in delta.changed_configs):
            return False
        self.current, problems = _effective(self.static, image)
        for problem in problems if self._logs_problems else ():
            logger.error("Ignoring a dynamic config of broker %s: %s", own, problem)
        self.topic_defaults = self.current.topic_defaults()
        return True


def effective_config(config: BrokerConfig, image: MetadataImage) -> BrokerConfig:
    """Return `config` overridden by the dynamic configs that can be used."""
    return _effective(config, image)[0]


def usable_configs(configs: Mapping[str, str], *, of_one_broker: bool) -> dict[str, str]:
    """Return the stored `configs`, of one broker or of all, without those that a broker cannot use."""
    return {key: text for key, text in configs.items() if _problem(key, text, of_one_broker) is None}


def _effective(config: BrokerConfig, image: MetadataImage) -> tuple[BrokerConfig, list[str]]:
    """Return the effective settings, and the reasons why configs were ignored."""
    problems: list[str] = []
    layers = []
    for configs, of_one_broker in (
        (image.cluster_configs(), False),
        (image.broker_configs(config.node_id), True),
    ):
        problem_by_key = {key: _problem(key, text, of_one_broker) for key, text in configs.items()}
        problems += filter(None, problem_by_key.values())
        layers.append({key: configs[key] for key, problem in problem_by_key.items() if problem is None})
    while True:
        try:
            return config.with_dynamic(*layers), problems
        except ConfigError as error:
            problems.append(str(error))
            for key in _causes(config, layers, error):
                for layer in layers:
                    layer.pop(key, None)


def _causes(config: BrokerConfig, layers: Sequence[Mapping[str, str]], error: ConfigError) -> list[str]:
    """Return the dynamic configs because of which `layers` cannot be used.

    The error may name a static config that contradicts a dynamic one: the cause is then the dynamic config
    without which all others can be used, or all of them if there is none.
    """
    keys = list(dict.fromkeys(key for layer in layers for key in layer))
    if error.key in keys:
        return [error.key]
    for suspect in keys:
        try:
            config.with_dynamic(*({key: layer[key] for key in layer if key != suspect} for layer in layers))
        except ConfigError:
            continue
        return [suspect]
    return keys


def _problem(key: str, text: str, of_one_broker: bool) -> str | None:
    """Return the reason why a stored config cannot be used; None if it can be used."""
    base = listener_and_base(key).base
    definition = BROKER_DEFINITIONS.get(base)
    value = HIDDEN_VALUE if definition is None else definition.shown_text(text)
    if key in BROKER_CONFIGS and key not in DYNAMIC_KEYS:
        return str(ConfigError(key, value, "the key is allowed only in server.properties"))
    if key in LISTENER_SECURITY_KEYS:
        return str(ConfigError(key, value, f"only listener.name.<listener>.{key} is allowed"))
    if not of_one_broker and is_of_one_broker(key):
        return str(ConfigError(key, value, "the key is allowed only for a single broker, not for all"))
    try:
        if definition is not None and base in DYNAMIC_KEYS:
            definition.parse(text)
    except ConfigError as error:
        return str(error)
    return None


def broker_layers(config: BrokerConfig, image: MetadataImage) -> BrokerLayers:
    """Return a broker's configs by their source, without those that it cannot use."""
    node_id = str(config.node_id)
    return BrokerLayers(
        own=usable_configs(image.broker_configs(config.node_id), of_one_broker=True),
        cluster=usable_configs(image.cluster_configs(), of_one_broker=False),
        static={**config.explicit, "node.id": node_id, "broker.id": node_id},
        defaults=_DEFAULT_TEXTS,
    )
