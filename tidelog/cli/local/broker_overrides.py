"""The option --override of commands that start brokers."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.broker.config.known_keys import require_known_keys
from tidelog.cli.options import key_values


def broker_overrides(texts: Iterable[str]) -> dict[str, str]:
    """Return the settings in `key=value` texts.

    Errors: UsageFailure for other texts; ConfigError, also for an unknown key.
    """
    settings = key_values(texts, "--override")
    require_known_keys(settings)
    return settings
