"""The first log lines of a node: what it is, and which of its settings have no effect."""

from __future__ import annotations

from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.config.settings import BROKER_CONFIGS


def start_banner(config: BrokerConfig, version: str) -> str:
    """Return one line with version, node, roles, directories, listeners and tier."""
    listeners = ", ".join(f"{each.name}://{each.host}:{each.port}" for each in config.own_listeners)
    tier = "enabled" if config.remote_log_storage_system_enable else "disabled"
    return (
        f"Tidelog {version}: node {config.node_id}, {' and '.join(config.process_roles)};"
        f" log directories {', '.join(config.log_directories)}; listeners {listeners};"
        f" tiered storage {tier}"
    )


def keys_without_effect(config: BrokerConfig) -> list[str]:
    """Return the keys that are set to another value than the default and have no effect.

    The documentation of such a key states it.
    """
    return sorted(
        key
        for key in config.explicit
        if (definition := BROKER_CONFIGS.get(key)) is not None
        and "Has no effect" in definition.documentation
        and config.values[key] != definition.default
    )
