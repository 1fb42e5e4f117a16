"""The configuration of the bundled RemoteStorageManager; the keys are those of Aiven's plugin.

The keys have no prefix `rsm.config.`. Differences from the plugin: `chunk.size` has a default; there is a
chunk cache in memory with read-ahead unless `fetch.chunk.cache.class` is `none` or another cache; readers
fetch indexes and manifests in their own threads, so that the `thread.pool.size` of these caches has no
effect; `copy.verification` exists only here. Unknown keys are logged and ignored, as in Kafka.

Source: RemoteStorageManagerConfig, ChunkCacheConfig, DiskChunkCacheConfig, CacheConfig of Aiven's plugin.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from tidelog.base.config_definition import (
    ConfigDefinition,
    ConfigError,
    ConfigKind,
    ConfigValue,
    parse_values,
    split_list,
    table,
)
from tidelog.remote.objects.chunks.cache import ChunkCache
from tidelog.remote.objects.chunks.cache_settings import CacheSettings
from tidelog.remote.objects.chunks.storage import ChunkStorage, DiskStorage, MemoryStorage
from tidelog.remote.objects.key_files import key_file_names, key_ring
from tidelog.remote.objects.layout.custom_metadata import CustomField
from tidelog.remote.objects.layout.object_keys import ObjectKeys
from tidelog.remote.objects.manager import ObjectStorageManager
from tidelog.remote.objects.manager_settings import ManagerSettings
from tidelog.remote.objects.mounts import MOUNTS, open_mounts
from tidelog.remote.objects.stores.activity import ObservedStore, StoreActivity
from tidelog.remote.objects.stores.backends import object_store, reports_requests
from tidelog.remote.objects.stores.masked import MaskedStore
from tidelog.remote.objects.stores.mounted import MountedStores
from tidelog.remote.objects.stores.port import SYSTEM_PORTS, ObjectStore, OpenStore, StorePorts
from tidelog.remote.objects.verification import Verification

_log = logging.getLogger(__name__)

_INT_MAX: Final = 2**31 - 1
_STORAGE: Final = "storage."
_CHUNKS, _MANIFESTS, _INDEXES = "fetch.chunk.cache.", "fetch.manifest.cache.", "fetch.indexes.cache."
_OLD_MANIFESTS: Final = "segment.manifest.cache."
_THREADS_MIN: Final = 8
"""Threads mostly wait for the network, so a machine with few cores needs more threads than cores."""
_CACHE_CLASSES: Final = {
    "memory": "memory",
    "MemoryChunkCache": "memory",
    "InMemoryChunkCache": "memory",
    "disk": "disk",
    "DiskChunkCache": "disk",
    "DiskBasedChunkCache": "disk",
    "none": "none",
}
"""The kind of a cache by the last part of its class name: current and older plugin names, short names."""


def _cache(prefix: str, size: int, retention_ms: int) -> list[ConfigDefinition]:
    return [
        ConfigDefinition(
            key=f"{prefix}size",
            kind=ConfigKind.LONG,
            default=size,
            minimum=-1,
            documentation=(
                "The maximum size of the cache, in bytes, or in entries for manifests. -1 means no limit."
            ),
        ),
        ConfigDefinition(
            key=f"{prefix}retention.ms",
            kind=ConfigKind.LONG,
            default=retention_ms,
            minimum=-1,
            documentation=(
                "The time in milliseconds without a read after which an entry is removed. -1 means no limit."
            ),
        ),
        ConfigDefinition(
            key=f"{prefix}thread.pool.size",
            kind=ConfigKind.INT,
            default=0,
            minimum=0,
            maximum=1024,
            documentation=(
                "The number of read-ahead threads of the chunk cache. 0 means the number of cores, at "
                "least 8."
            ),
        ),
        ConfigDefinition(
            key=f"{prefix}get.timeout.ms",
            kind=ConfigKind.LONG,
            default=10_000,
            minimum=1,
            documentation="The maximum time in milliseconds to wait for an entry that is being fetched.",
        ),
    ]


CONFIGS: Final = table(
    [
        ConfigDefinition(
            key="storage.backend.class",
            kind=ConfigKind.CLASS,
            required=True,
            non_empty=True,
            documentation=(
                "The object store: filesystem, s3, fsspec, or the class of Aiven's plugin for the first two."
            ),
        ),
        ConfigDefinition(
            key="segment.format",
            kind=ConfigKind.STRING,
            default="kafka",
            valid_values=("kafka",),
            documentation="The format of the segments in remote storage.",
        ),
        ConfigDefinition(
            key="key.prefix",
            kind=ConfigKind.STRING,
            default="",
            documentation="The prefix of the keys of all objects.",
        ),
        ConfigDefinition(
            key="key.prefix.mask",
            kind=ConfigKind.BOOLEAN,
            default=False,
            documentation="Whether the prefix of the keys is hidden in errors and logs.",
        ),
        ConfigDefinition(
            key="chunk.size",
            kind=ConfigKind.INT,
            default=4 * 1024 * 1024,
            minimum=1,
            maximum=_INT_MAX // 2,
            documentation="The size of a chunk of a segment in bytes, before compression.",
        ),
        ConfigDefinition(
            key="compression.enabled",
            kind=ConfigKind.BOOLEAN,
            default=False,
            documentation="Whether the chunks of segments are compressed with zstd.",
        ),
        ConfigDefinition(
            key="compression.heuristic.enabled",
            kind=ConfigKind.BOOLEAN,
            default=False,
            documentation="Whether a segment whose first batch is compressed is not compressed again.",
        ),
        ConfigDefinition(
            key="encryption.enabled",
            kind=ConfigKind.BOOLEAN,
            default=False,
            documentation=(
                "Whether segments are encrypted with AES-256-GCM, with a data key for each segment."
            ),
        ),
        ConfigDefinition(
            key="encryption.key.pair.id",
            kind=ConfigKind.STRING,
            documentation="The id of the RSA key pair that encrypts new data keys.",
        ),
        ConfigDefinition(
            key="encryption.key.pairs",
            kind=ConfigKind.LIST,
            documentation=(
                "The ids of all RSA key pairs, as a comma-separated list. Former key pairs still "
                "decrypt their data keys."
            ),
        ),
        ConfigDefinition(
            key="custom.metadata.fields.include",
            kind=ConfigKind.LIST,
            default=(),
            valid_values=tuple(field.name for field in CustomField),
            documentation=(
                "The fields that are stored in the custom metadata of a segment, as a comma-separated list."
            ),
        ),
        ConfigDefinition(
            key="copy.verification",
            kind=ConfigKind.STRING,
            default=Verification.SIZES.value,
            valid_values=tuple(verification.value for verification in Verification),
            documentation=(
                "What is verified after a copy: the sizes of the objects and the manifest (sizes), all "
                "contents (contents), or nothing (none). Not a key of the plugin."
            ),
        ),
        ConfigDefinition(
            key=f"{_CHUNKS}class",
            kind=ConfigKind.CLASS,
            default="memory",
            non_empty=True,
            documentation="The chunk cache: memory, disk, none, or a class of Aiven's plugin.",
        ),
        ConfigDefinition(
            key=f"{_CHUNKS}prefetch.max.size",
            kind=ConfigKind.INT,
            default=32 * 1024 * 1024,
            minimum=0,
            maximum=_INT_MAX,
            documentation=(
                "The number of bytes after a read that are fetched in advance. 0 disables the read-ahead."
            ),
        ),
        ConfigDefinition(
            key=f"{_CHUNKS}path",
            kind=ConfigKind.STRING,
            non_empty=True,
            documentation=(
                "The directory of a chunk cache on disk. It is required for such a cache, and its "
                "contents are removed at the start."
            ),
        ),
        *_cache(_CHUNKS, 128 * 1024 * 1024, 600_000),
        *_cache(_MANIFESTS, 1000, 3_600_000),
        *_cache(_INDEXES, 10 * 1024 * 1024, 600_000),
    ]
)

UNUSED: Final = (
    "upload.rate.limit.bytes.per.second",
    "metrics.num.samples",
    "metrics.sample.window.ms",
    "metrics.recording.level",
)
"""Keys of the plugin without effect here; remote.log.manager.copy.max.bytes.per.second limits uploads."""


def storage_manager_from_config(
    values: Mapping[str, str],
    ports: StorePorts = SYSTEM_PORTS,
    activity: StoreActivity | None = None,
    open_store: OpenStore = object_store,
) -> ObjectStorageManager:
    """Return the storage manager that `values` configure, which records its calls in `activity`.

    It has no connections yet; its directories are checked. `open_store` returns the store of the cluster.
    Errors: ConfigError, one line with the key, the value and what is allowed.
    """
    values = {_current_name(key): text for key, text in values.items()}
    for key in unknown_keys(values):
        _log.warning("Ignoring config %s: unknown to the remote storage manager", key)
    for key in UNUSED:
        if key in values:
            _log.warning("Ignoring config %s: it has no effect in this remote storage manager", key)
    parsed = parse(values)
    settings = manager_settings(parsed, values)
    backend_class = str(parsed["storage.backend.class"])
    if activity is not None and reports_requests(backend_class):
        ports = replace(ports, on_request=activity.on_request)
    store = open_store(
        backend_class,
        {
            key.removeprefix(_STORAGE): text
            for key, text in values.items()
            if key.startswith(_STORAGE) and key != "storage.backend.class"
        },
        ports,
    )
    if settings.keys.masks_prefix and settings.keys.prefix:
        store = MaskedStore(store, settings.keys.prefix)
    if activity is not None:
        store = ObservedStore(
            store, activity, settings.keys.prefix, calls_are_requests=ports.on_request is None
        )
    try:
        if mounts := open_mounts(values, ports, activity):
            store = MountedStores(store, mounts)
        return ObjectStorageManager(store, settings, _chunk_cache(store, parsed, ports), activity, ports)
    except BaseException:
        store.close()
        raise


def unknown_keys(values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys in `values` that are unknown; the store checks its own keys (`storage.`)."""
    pairs = split_list(values.get("encryption.key.pairs", ""))
    files = {name for pair_id in pairs for name in key_file_names(pair_id)}
    supported_keys = {*CONFIGS, *UNUSED, *files}
    return tuple(
        key for key in values if key not in supported_keys and not key.startswith((_STORAGE, MOUNTS))
    )


def _current_name(key: str) -> str:
    """Return the plugin's current name of `key`, which may be a name of older versions."""
    return _MANIFESTS + key.removeprefix(_OLD_MANIFESTS) if key.startswith(_OLD_MANIFESTS) else key


def parse(values: Mapping[str, str]) -> Mapping[str, ConfigValue]:
    """Return the value of each key of `CONFIGS`. Errors: ConfigError."""
    parsed = parse_values(CONFIGS, values)
    if parsed["compression.heuristic.enabled"] and not parsed["compression.enabled"]:
        raise ConfigError("compression.heuristic.enabled", "true", "compression.enabled must also be true")
    return parsed


def manager_settings(parsed: Mapping[str, ConfigValue], values: Mapping[str, str]) -> ManagerSettings:
    """Return the settings of the manager; `parsed` contains the keys of `CONFIGS` in `values`."""
    fields = parsed["custom.metadata.fields.include"]
    assert isinstance(fields, tuple)
    return ManagerSettings(
        keys=ObjectKeys(str(parsed["key.prefix"]), bool(parsed["key.prefix.mask"])),
        chunk_size=_number(parsed, "chunk.size"),
        compression=bool(parsed["compression.enabled"]),
        compression_heuristic=bool(parsed["compression.heuristic.enabled"]),
        key_ring=key_ring(parsed, values) if parsed["encryption.enabled"] else None,
        custom_fields=tuple(CustomField[name] for name in fields),
        manifest_cache=_cache_settings(parsed, _MANIFESTS),
        index_cache=_cache_settings(parsed, _INDEXES),
        verification=Verification(str(parsed["copy.verification"])),
    )


def _chunk_cache(
    store: ObjectStore, parsed: Mapping[str, ConfigValue], ports: StorePorts
) -> ChunkCache | None:
    name = str(parsed[f"{_CHUNKS}class"])
    kind = _CACHE_CLASSES.get(name.rpartition(".")[2])
    storage: ChunkStorage
    if kind == "none":
        return None
    if kind == "memory":
        storage = MemoryStorage()
    elif kind == "disk":
        path = parsed[f"{_CHUNKS}path"]
        if path is None:
            raise ConfigError(f"{_CHUNKS}path", None, "a value is required for a chunk cache on disk")
        storage = DiskStorage(Path(str(path)))
    else:
        raise ConfigError(f"{_CHUNKS}class", name, f"allowed is one of: {', '.join(_CACHE_CLASSES)}")
    settings = _cache_settings(parsed, _CHUNKS)
    read_ahead_bytes = _number(parsed, f"{_CHUNKS}prefetch.max.size")
    return ChunkCache(store, storage, settings, read_ahead_bytes, ports)


def _cache_settings(parsed: Mapping[str, ConfigValue], prefix: str) -> CacheSettings:
    size, retention_ms = _number(parsed, f"{prefix}size"), _number(parsed, f"{prefix}retention.ms")
    return CacheSettings(
        size=None if size == -1 else size,
        retention_ms=None if retention_ms == -1 else retention_ms,
        get_timeout_ms=_number(parsed, f"{prefix}get.timeout.ms"),
        threads=_number(parsed, f"{prefix}thread.pool.size") or max(_THREADS_MIN, os.cpu_count() or 1),
    )


def _number(parsed: Mapping[str, ConfigValue], key: str) -> int:
    value = parsed[key]
    assert isinstance(value, int), key
    return value
