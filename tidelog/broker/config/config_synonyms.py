"""Synonyms of broker keys: the same setting in other units, and the keys of single listeners.

A key of a listener is `listener.name.<listener>.<key>`, for a few keys also
`listener.name.<listener>.<mechanism>.<key>`. It has the definition of the plain key and overrides it.

Source: DynamicBrokerConfig.brokerConfigSynonyms of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from typing import Final

from tidelog.base.config_definition import ConfigDefinition
from tidelog.broker.config.dynamic_configs import BROKER_DEFINITIONS
from tidelog.broker.config.dynamic_keys import listener_and_base

_UNITS: Final = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
"""Keys of the same setting in different units, in descending precedence."""

_FLUSH: Final = ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
"""The second key is the default of the first; the first does not affect the second."""

_MECHANISM_KEYS: Final = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)
"""Keys that are set for one SASL mechanism of a listener."""


def broker_synonyms(key: str) -> tuple[str, ...]:
    """Return the keys that determine the value of `key`, in descending precedence."""
    listener, base = listener_and_base(key)
    if listener is not None:
        return key, next((each for each in _MECHANISM_KEYS if base.endswith(each)), base)
    if key == _FLUSH[0]:
        return _FLUSH
    return next((names for names in _UNITS if key in names), (key,))


def broker_definition(key: str) -> ConfigDefinition | None:
    """Return the definition of a broker key, also of one for a single listener; None for an unknown one."""
    return next(
        (BROKER_DEFINITIONS[each] for each in (key, *broker_synonyms(key)) if each in BROKER_DEFINITIONS),
        None,
    )
