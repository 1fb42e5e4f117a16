"""Object stores by class name: the name of Aiven's class or a short name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidelog.base.config_definition import ConfigError
from tidelog.base.extras import missing_packages
from tidelog.remote.objects.stores.local_directory import LocalDirectoryStore
from tidelog.remote.objects.stores.port import SYSTEM_PORTS, ObjectStore, StorePorts

_AIVEN: Final = "io.aiven.kafka.tieredstorage.storage."
_PACKAGES: Final = {"s3": "boto3", "fsspec": "fsspec"}
_KINDS: Final = {
    "filesystem": "filesystem",
    "s3": "s3",
    "fsspec": "fsspec",
    f"{_AIVEN}filesystem.FileSystemStorage": "filesystem",
    f"{_AIVEN}s3.S3Storage": "s3",
}


def object_store(
    backend_class: str, values: Mapping[str, str], ports: StorePorts = SYSTEM_PORTS
) -> ObjectStore:
    """Return a store of class `backend_class`, configured with `values` (keys without `storage.`).

    The store's library is imported here, and only for the class that is used.

    Raises ConfigError for an unknown class, for an invalid value, and if the library is not installed.
    """
    kind = _KINDS.get(backend_class.strip())
    if kind is None:
        raise ConfigError("storage.backend.class", backend_class, f"allowed is one of: {', '.join(_KINDS)}")
    _require_library(kind, backend_class)
    if kind == "s3":
        from tidelog.remote.objects.stores.s3 import S3Store

        return S3Store.from_config(values, ports)
    if kind == "fsspec":
        from tidelog.remote.objects.stores.fsspec_store import FsspecStore

        return FsspecStore.from_config(values, ports)
    return LocalDirectoryStore.from_config(values, ports)


def reports_requests(backend_class: str) -> bool:
    """Return whether stores of the class call `StorePorts.on_request`."""
    return _KINDS.get(backend_class.strip()) == "s3"


def _require_library(kind: str, backend_class: str) -> None:
    """Raise ConfigError if the library of this kind of store is not installed."""
    package = _PACKAGES.get(kind)
    missing = package and missing_packages(kind, package)
    if missing:
        raise ConfigError("storage.backend.class", backend_class, missing)
