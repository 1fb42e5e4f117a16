"""Rejects unknown configuration keys.

A file may have keys of other programs, which cause a warning; a test or a command may not.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.base.config_definition import ConfigError
from tidelog.base.similar_names import did_you_mean
from tidelog.broker.config.settings import BROKER_CONFIGS, BrokerSettings


def require_known_keys(explicit: Mapping[str, str]) -> None:
    """Raise ConfigError for an unknown key or a text that cannot be parsed.

    The value of an unknown key is not shown: it may be a secret.
    """
    for key in BrokerSettings(explicit).unknown_keys:
        raise ConfigError(key, "[not shown]", f"the key is unknown{did_you_mean(key, BROKER_CONFIGS)}")
