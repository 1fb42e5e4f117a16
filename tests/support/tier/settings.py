"""Remote storage settings for tests: the defaults of the keys, with changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.tier.settings import log_manager_settings
from tidelog.remote.objects.chunks.cache_settings import CacheSettings
from tidelog.remote.objects.config import manager_settings as configured_manager_settings
from tidelog.remote.objects.config import parse
from tidelog.remote.objects.manager_settings import ManagerSettings
from tidelog.remote.tasks.settings import RemoteLogManagerSettings

_DEFAULTS = log_manager_settings(BrokerConfig({"node.id": "1"}))
_STORAGE_DEFAULTS = {"storage.backend.class": "filesystem"}


def remote_settings(**changes: Any) -> RemoteLogManagerSettings:
    """Return Kafka's defaults with `changes`."""
    return replace(_DEFAULTS, **changes)


def manager_settings(**changes: Any) -> ManagerSettings:
    """Return the settings of the storage manager."""
    return replace(configured_manager_settings(parse(_STORAGE_DEFAULTS), _STORAGE_DEFAULTS), **changes)


def cache_settings(**changes: Any) -> CacheSettings:
    """Return the settings of the index cache of the storage manager."""
    return replace(manager_settings().index_cache, **changes)
