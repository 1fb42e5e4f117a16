"""Settings of the RemoteLogManager for tests: Kafka's defaults, with changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.tier.settings import log_manager_settings
from tidelog.remote.tasks.settings import RemoteLogManagerSettings

_DEFAULTS = log_manager_settings(BrokerConfig({"node.id": "1"}))


def remote_settings(**changes: Any) -> RemoteLogManagerSettings:
    """Return Kafka's defaults with `changes`."""
    return replace(_DEFAULTS, **changes)
