"""The configuration of the parts of tiered storage, from the node's configuration. Errors: ConfigError."""

from __future__ import annotations

from typing import Final

from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.config.projection import projection
from tidelog.remote.tasks.settings import RemoteLogManagerSettings

_OLD_FOLLOWER_KEY: Final = "remote.log.manager.thread.pool.size"
_FOLLOWER_KEY: Final = "remote.log.manager.follower.thread.pool.size"


def log_manager_settings(config: BrokerConfig) -> RemoteLogManagerSettings:
    """Return the settings of the RemoteLogManager.

    If only the older key of the follower pool's size is set, it applies (KIP-1157).
    """
    replacements: dict[str, int] = {}
    if _OLD_FOLLOWER_KEY in config.explicit and _FOLLOWER_KEY not in config.explicit:
        follower_threads = config.remote_log_manager_thread_pool_size
        replacements["remote_log_manager_follower_thread_pool_size"] = follower_threads
    return projection(config, RemoteLogManagerSettings, **replacements)


def storage_manager_values(config: BrokerConfig) -> dict[str, str]:
    """Return the configs of the storage manager (`rsm.config.`) by key, without the prefix."""
    return _without_prefix(config, config.remote_log_storage_manager_impl_prefix)


def metadata_manager_values(config: BrokerConfig) -> dict[str, str]:
    """Return the configs of the metadata manager (`rlmm.config.`) by key, without the prefix."""
    return _without_prefix(config, config.remote_log_metadata_manager_impl_prefix)


def _without_prefix(config: BrokerConfig, prefix: str) -> dict[str, str]:
    return {key.removeprefix(prefix): text for key, text in config.explicit.items() if key.startswith(prefix)}
