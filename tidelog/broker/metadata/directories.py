"""The identity of a node: its cluster, and the id of each log directory, from the files `meta.properties`.

A directory without `meta.properties` joins the cluster of the other directories. If all directories are new,
the cluster is new too.

I/O: reads and writes `meta.properties`. Errors: ConfigError if directories contradict each other or the
configuration; CorruptCheckpoint for a damaged file.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from tidelog.base.config_definition import ConfigError
from tidelog.base.randomness import Randomness, new_uuid
from tidelog.protocol.ids import BrokerId, uuid_text
from tidelog.storage.directories.meta_properties import MetaProperties, MetaPropertiesFile
from tidelog.storage.disk.errors import StorageFailure
from tidelog.storage.disk.files import FileSystem

logger = logging.getLogger(__name__)


class NodeIdentity(NamedTuple):
    """The cluster id of a node, and the ids of its usable directories by path."""

    cluster_id: str
    directory_ids: Mapping[str, UUID]


def prepare_directories(
    fs: FileSystem,
    directories: Sequence[str],
    node_id: BrokerId,
    cluster_id: str | None,
    randomness: Randomness,
    *,
    may_be_new: bool = True,
) -> NodeIdentity:
    """Create the directories and write their `meta.properties`; return the identity.

    `cluster_id` is for a new cluster; if it is None, a random id is generated. Without `may_be_new` a cluster
    id is required, because the other nodes have it already. A directory that cannot be used is logged and
    ignored; at least one must be usable.
    """
    properties_of: dict[str, MetaProperties | None] = {}
    unusable: list[str] = []
    for path in directories:
        try:
            create_directory_durably(fs, path)
            file = MetaPropertiesFile(fs, path)
            properties_of[path] = file.read() if file.exists() else None
        except (OSError, StorageFailure) as error:
            unusable.append(f"{path}: {error}")
    if not properties_of:
        raise ConfigError(
            "log.dirs", ",".join(directories), f"no directory can be used ({'; '.join(unusable)})"
        )
    for reason in unusable:
        logger.error("Cannot use log directory %s", reason)
    existing_cluster_id = _cluster_id(properties_of, cluster_id)
    if existing_cluster_id is None and not may_be_new:
        allowed = "a cluster id is required; use `tidelog storage format`, or CLUSTER_ID in the environment"
        raise ConfigError("log.dirs", ",".join(directories), allowed)
    new_cluster_id = existing_cluster_id or cluster_id or uuid_text(new_uuid(randomness))
    ids: dict[str, UUID] = {}
    for path, properties in properties_of.items():
        if properties is not None:
            _check_node(path, properties, node_id)
        ids[path] = _write_properties(fs, path, properties, new_cluster_id, node_id, randomness)
    _check_distinct(ids)
    return NodeIdentity(new_cluster_id, ids)


def create_directory_durably(fs: FileSystem, path: str) -> None:
    """Create a directory and its parents, and fsync their parents, so that they survive a crash."""
    missing = []
    current = path.rstrip("/")
    while current and not fs.exists(current):
        missing.append(current)
        current = current.rpartition("/")[0]
    fs.makedirs(path)
    for new in reversed(missing):
        parent, separator, _ = new.rpartition("/")
        fs.fsync_dir(parent or separator or ".")


def _cluster_id(properties_of: Mapping[str, MetaProperties | None], configured_id: str | None) -> str | None:
    """Return the cluster id of the directories or of the configuration; None if there is none.

    Errors: ConfigError if two of them differ.
    """
    cluster_id = configured_id
    for path, properties in properties_of.items():
        if properties is None or properties.cluster_id is None:
            continue
        if cluster_id is not None and properties.cluster_id != cluster_id:
            allowed = f"{path} belongs to this cluster, other directories to {cluster_id}"
            raise ConfigError("cluster.id", properties.cluster_id, allowed)
        cluster_id = properties.cluster_id
    return cluster_id


def _check_node(path: str, properties: MetaProperties, node_id: BrokerId) -> None:
    if properties.node_id is not None and properties.node_id != node_id:
        raise ConfigError("node.id", node_id, f"{path} belongs to node {properties.node_id}")


def _write_properties(
    fs: FileSystem,
    path: str,
    properties: MetaProperties | None,
    cluster_id: str,
    node_id: BrokerId,
    randomness: Randomness,
) -> UUID:
    """Write `meta.properties` of version 1 unless it exists; return the id of the directory."""
    if properties is not None and properties.version == 1 and properties.directory_id is not None:
        return properties.directory_id
    directory_id = properties.directory_id if properties is not None else None
    directory_id = directory_id or new_uuid(randomness)
    new_properties = MetaProperties(cluster_id=cluster_id, node_id=node_id, directory_id=directory_id)
    MetaPropertiesFile(fs, path).write(new_properties)
    return directory_id


def _check_distinct(ids: Mapping[str, UUID]) -> None:
    """Raise ConfigError if two directories have the same id."""
    paths: dict[UUID, str] = {}
    for path, directory_id in ids.items():
        if directory_id in paths:
            allowed = f"it has the directory.id of {paths[directory_id]}: one of them is a copy"
            raise ConfigError("log.dirs", path, allowed)
        paths[directory_id] = path
