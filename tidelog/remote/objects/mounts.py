"""The mounts in the configs of the storage manager: buckets and prefixes of other clusters.

    mounts.west.storage.backend.class=s3      another store, with all of its settings
    mounts.west.storage.s3.bucket.name=...
    mounts.west.key.prefix=west/

Without storage.backend.class, a mount is in the store of this cluster: its own settings replace those of the
store. Errors: ConfigError.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tidelog.base.config_definition import ConfigError
from tidelog.remote.objects.stores.activity import ObservedStore, StoreActivity
from tidelog.remote.objects.stores.backends import object_store, reports_requests
from tidelog.remote.objects.stores.mounted import Mount
from tidelog.remote.objects.stores.port import StorePorts
from tidelog.storage.config.topic_source import MOUNT_NAME

MOUNTS: Final = "mounts."
_STORAGE: Final = "storage."
_CLASS: Final = "storage.backend.class"
_PREFIX: Final = "key.prefix"


def mount_values(values: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the settings of each mount by name: those of its store, and its key.prefix."""
    own = {key: text for key, text in values.items() if key.startswith(_STORAGE)}
    mounts: dict[str, dict[str, str]] = {}
    for key, text in values.items():
        if not key.startswith(MOUNTS):
            continue
        name, _, setting = key.removeprefix(MOUNTS).partition(".")
        if MOUNT_NAME.fullmatch(name) is None:
            raise ConfigError(key, text, "the name of a mount has 1 to 64 letters, digits and underscores")
        if setting != _PREFIX and not setting.startswith(_STORAGE):
            raise ConfigError(key, text, f"a mount has the settings {_PREFIX} and {_STORAGE}...")
        mounts.setdefault(name, {})[setting] = text
    return {name: own | each if _CLASS not in each else each for name, each in mounts.items()}


def open_mounts(
    values: Mapping[str, str], ports: StorePorts, activity: StoreActivity | None = None
) -> dict[str, Mount]:
    """Return the stores of all mounts by name, which record their calls in `activity`."""
    mounts: dict[str, Mount] = {}
    for name, settings in mount_values(values).items():
        backend_class = settings.get(_CLASS, "")
        counts_requests = activity is not None and reports_requests(backend_class)
        on_request = activity.on_request if activity is not None and counts_requests else None
        storage = {
            key.removeprefix(_STORAGE): text
            for key, text in settings.items()
            if key.startswith(_STORAGE) and key != _CLASS
        }
        try:
            store = object_store(backend_class, storage, replace(ports, on_request=on_request))
        except ConfigError as error:
            for mount in mounts.values():
                mount.store.close()
            raise ConfigError(f"{MOUNTS}{name}.{error.key}", error.value, error.allowed) from error
        prefix = settings.get(_PREFIX, "")
        if activity is not None:
            store = ObservedStore(store, activity, prefix, calls_are_requests=not counts_requests, mount=name)
        mounts[name] = Mount(store, prefix)
    return mounts
