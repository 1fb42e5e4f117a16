"""The effective value of a config, and its source.

In order of precedence: the topic's or group's config, the broker's dynamic config, the dynamic default of all
brokers, server.properties, Kafka's default.

Source: KIP-226; ConfigHelper and KafkaConfigSchema of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from itertools import dropwhile
from typing import NamedTuple

from tidelog.base.config_definition import ConfigDefinition, Synonym, value_text
from tidelog.base.dataclass import dataclass


class ConfigSource(IntEnum):
    """The source of a value; the numbers of DescribeConfigs responses."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_CLUSTER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigEntry(NamedTuple):
    """A value with the key that sets it; the value is None if it must not be shown."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLayers:
    """A broker's configs by source, each as text by key.

    `own`: its dynamic configs. `cluster`: the dynamic defaults of all brokers. `static`: server.properties.
    """

    own: Mapping[str, str]
    cluster: Mapping[str, str]
    static: Mapping[str, str]
    defaults: Mapping[str, str]

    def entries(self, names: Sequence[str]) -> list[ConfigEntry]:
        """Return every value of the synonyms `names` in order of precedence."""
        layers = (
            (self.own, ConfigSource.DYNAMIC_BROKER),
            (self.cluster, ConfigSource.DYNAMIC_CLUSTER),
            (self.static, ConfigSource.STATIC_BROKER),
            (self.defaults, ConfigSource.DEFAULT),
        )
        return [
            ConfigEntry(name, layer[name], source)
            for layer, source in layers
            for name in names
            if name in layer
        ]

    def entries_from(self, name: str, names: Sequence[str]) -> list[ConfigEntry]:
        """Return the values of `names` in order of precedence, beginning with the first value of `name`.

        Kafka describes synonyms this way: a value of log.retention.hours is reported only together with one
        of log.retention.ms.
        """
        return list(dropwhile(lambda entry: entry.name != name, self.entries(names)))


def effective_topic_entry(
    definition: ConfigDefinition, own: Mapping[str, str], layers: BrokerLayers
) -> ConfigEntry:
    """Return the effective value of a topic config; `own` are the configs of the topic itself."""
    if definition.key in own:
        text = value_text(definition.parse(own[definition.key]))
        return ConfigEntry(definition.key, text, ConfigSource.TOPIC)
    factors = {synonym.key: synonym for synonym in definition.synonyms}
    entries = layers.entries([synonym.key for synonym in definition.synonyms])
    if not entries:
        return ConfigEntry(definition.key, definition.default_text, ConfigSource.DEFAULT)
    effective = entries[0]
    assert effective.value is not None
    text = value_text(definition.parse(convert_unit(factors[effective.name], effective.value)))
    return ConfigEntry(definition.key, text, effective.source)


def convert_unit(synonym: Synonym, text: str) -> str:
    """Return the value `text` of a broker config in the unit of the topic config; -1 for a negative value."""
    if synonym.factor == 1:
        return text
    number = int(text)
    return str(number * synonym.factor) if number >= 0 else "-1"
