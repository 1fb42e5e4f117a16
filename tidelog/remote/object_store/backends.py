"""Object stores by the name of their class, Aiven's or a short one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidelog.base.config_definition import ConfigError
from tidelog.remote.object_store.local_directory import LocalDirectoryStore
from tidelog.remote.object_store.port import ObjectStore

_AIVEN: Final = "io.aiven.kafka.tieredstorage.storage."
_KINDS: Final = {
    "filesystem": "filesystem",
    "s3": "s3",
    "fsspec": "fsspec",
    f"{_AIVEN}filesystem.FileSystemStorage": "filesystem",
    f"{_AIVEN}s3.S3Storage": "s3",
}


def object_store(backend_class: str, values: Mapping[str, str]) -> ObjectStore:
    """The store of that class, made from `values` (keys without `storage.`).

    Libraries are imported only for the store that is asked for. Errors: ConfigError.
    """
    kind = _KINDS.get(backend_class.strip())
    if kind == "filesystem":
        return LocalDirectoryStore.from_config(values)
    if kind == "s3":
        from tidelog.remote.object_store.s3 import S3Store

        return S3Store.from_config(values)
    if kind == "fsspec":
        from tidelog.remote.object_store.fsspec_store import FsspecStore

        return FsspecStore.from_config(values)
    raise ConfigError("storage.backend.class", backend_class, f"allowed is one of: {', '.join(_KINDS)}")
