"""The value of a key for one listener, or for one SASL mechanism of one listener.

    listener.name.<listener>.<key>, then <key>
    listener.name.<listener>.<mechanism>.<key>, then listener.name.<listener>.<key>, then <mechanism>.<key>,
    then <key>

Source: ConfigurationUtils, ListenerName and AbstractConfig.valuesWithPrefixOverride of Apache Kafka 4.3.
"""

from __future__ import annotations

from tidelog.base.config_definition import ConfigValue
from tidelog.broker.config.settings import BROKER_CONFIGS, BrokerSettings


def mechanism_value(config: BrokerSettings, listener: str, mechanism: str, key: str) -> ConfigValue:
    """Return the parsed value of `key`, by default that for all listeners. Errors: ConfigError."""
    full_key = explicit_key(config, listener, mechanism, key)
    return config.values[key] if full_key is None else BROKER_CONFIGS[key].parse(config.explicit[full_key])


def explicit_key(config: BrokerSettings, listener: str, mechanism: str, key: str) -> str | None:
    """Return the key with the longest prefix that is set; None if no key with a prefix is set."""
    prefix, mechanism_key = f"listener.name.{listener.lower()}.", f"{mechanism.lower()}.{key}"
    candidates = (prefix + mechanism_key, prefix + key, mechanism_key)
    return next((each for each in candidates if each in config.explicit), None)


def listener_value(config: BrokerSettings, listener: str, key: str) -> ConfigValue:
    """Return the parsed value of `key` for a listener, by default that for all. Errors: ConfigError."""
    text = config.explicit.get(f"listener.name.{listener.lower()}.{key}")
    return config.values[key] if text is None else BROKER_CONFIGS[key].parse(text)
