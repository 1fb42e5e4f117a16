"""A node's checked settings: Kafka's `server.properties`, `KAFKA_…` environment variables and overrides.

A later source replaces an earlier one: defaults, file, environment, overrides. `load` replaces variables by
the values of config providers.

I/O: `load` reads the files of config providers, and logs one warning for each unknown key.
Errors: ConfigError, one line with the key, the value and the allowed values.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from tidelog.base.properties import parse_properties
from tidelog.base.similar_names import did_you_mean
from tidelog.broker.config.checks import check_config, check_listeners
from tidelog.broker.config.dynamic_keys import DYNAMIC_KEYS
from tidelog.broker.config.environment import configs_from_environment
from tidelog.broker.config.quorum_config import check_roles
from tidelog.broker.config.settings import BROKER_CONFIGS, BrokerSettings
from tidelog.security.config_providers import resolve_variables

logger = logging.getLogger(__name__)


class BrokerConfig(BrokerSettings):
    """One node's settings after all checks: a value of this class is valid."""

    def __init__(self, explicit: Mapping[str, str]) -> None:
        """Parse and check the texts of `explicit`. Errors: ConfigError if one is not allowed."""
        super().__init__(explicit)
        check_config(self)
        check_roles(self)
        check_listeners(self)

    @classmethod
    def load(
        cls,
        properties: str = "",
        environment: Mapping[str, str] | None = None,
        overrides: Mapping[str, str] | None = None,
    ) -> BrokerConfig:
        """Return the settings of a file's text, environment variables and overrides; log unknown keys.

        Errors: ConfigError, also for a file of a config provider that cannot be read.
        """
        explicit = {
            **parse_properties(properties),
            **configs_from_environment(environment or {}),
            **(overrides or {}),
        }
        config = cls(resolve_variables(explicit, environment or {}))
        for key in config.unknown_keys:
            # Without the value, because the key may be a misspelt password.
            logger.warning(
                "Ignoring unknown config %s; allowed are the keys of Apache Kafka 4.3 and Tidelog's own%s",
                key,
                did_you_mean(key, BROKER_CONFIGS),
            )
        return config

    def with_dynamic(self, cluster_default: Mapping[str, str], own: Mapping[str, str]) -> BrokerConfig:
        """Return these settings, overridden by the dynamic ones of all brokers, then by this broker's `own`.

        Keys that cannot change while a broker runs are ignored. Errors: ConfigError.
        """
        dynamic = {
            key: text
            for key, text in {**cluster_default, **own}.items()
            if key in DYNAMIC_KEYS or key not in BROKER_CONFIGS
        }
        return BrokerConfig({**self.explicit, **dynamic}) if dynamic else self
