"""Which cluster, node and directory each log directory belongs to: read, checked, and written when new.

A directory without `meta.properties` is taken into the cluster of the others; when all are new
the cluster is new too.

I/O: reads and writes `meta.properties`. Errors: ConfigError when directories disagree with each
other or with the settings; CorruptCheckpoint for a damaged file.
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


class Identity(NamedTuple):
    """Who this node is: its cluster, and the id of each of its usable directories by path."""

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
) -> Identity:
    """Make and mark the directories; `cluster_id` is for a new cluster, None takes one by chance.

    Without `may_be_new` there must be a cluster id: other nodes have it, and chance would not find it.
    A directory that the disk refuses is left out and reported; at least one must remain.
    """
    found: dict[str, MetaProperties | None] = {}
    refused: list[str] = []
    for path in directories:
        try:
            make_durably(fs, path)
            file = MetaPropertiesFile(fs, path)
            found[path] = file.read() if file.exists() else None
        except (OSError, StorageFailure) as error:
            refused.append(f"{path}: {error}")
    if not found:
        raise ConfigError("log.dirs", ",".join(directories), f"none can be used ({'; '.join(refused)})")
    for reason in refused:
        logger.error("log directory cannot be used: %s", reason)
    known = _cluster_id(found, cluster_id)
    if known is None and not may_be_new:
        allowed = "needs the id of the cluster, by `tidelog storage format` or CLUSTER_ID in the environment"
        raise ConfigError("log.dirs", ",".join(directories), allowed)
    chosen = known or cluster_id or uuid_text(new_uuid(randomness))
    ids: dict[str, UUID] = {}
    for path, properties in found.items():
        if properties is not None:
            _check_node(path, properties, node_id)
        ids[path] = _mark(fs, path, properties, chosen, node_id, randomness)
    _check_distinct(ids)
    return Identity(chosen, ids)


def make_durably(fs: FileSystem, path: str) -> None:
    """Make the directory; a crash must not take the names of new ones, and all that is in them, away."""
    missing = []
    current = path.rstrip("/")
    while current and not fs.exists(current):
        missing.append(current)
        current = current.rpartition("/")[0]
    fs.makedirs(path)
    for new in reversed(missing):
        parent, separator, _ = new.rpartition("/")
        fs.fsync_dir(parent or separator or ".")


def _cluster_id(found: Mapping[str, MetaProperties | None], given: str | None) -> str | None:
    known: str | None = given
    for path, properties in found.items():
        if properties is None or properties.cluster_id is None:
            continue
        if known is not None and properties.cluster_id != known:
            allowed = f"{path} belongs to this cluster, others to {known}"
            raise ConfigError("cluster.id", properties.cluster_id, allowed)
        known = properties.cluster_id
    return known


def _check_node(path: str, properties: MetaProperties, node_id: BrokerId) -> None:
    if properties.node_id is not None and properties.node_id != node_id:
        raise ConfigError("node.id", node_id, f"{path} belongs to node {properties.node_id}")


def _mark(
    fs: FileSystem,
    path: str,
    properties: MetaProperties | None,
    cluster_id: str,
    node_id: BrokerId,
    randomness: Randomness,
) -> UUID:
    if properties is not None and properties.version == 1 and properties.directory_id is not None:
        return properties.directory_id
    directory_id = properties.directory_id if properties is not None else None
    directory_id = directory_id or new_uuid(randomness)
    marked = MetaProperties(cluster_id=cluster_id, node_id=node_id, directory_id=directory_id)
    MetaPropertiesFile(fs, path).write(marked)
    return directory_id


def _check_distinct(ids: Mapping[str, UUID]) -> None:
    paths: dict[UUID, str] = {}
    for path, directory_id in ids.items():
        if directory_id in paths:
            allowed = f"has the directory.id of {paths[directory_id]}: one of them is a copy"
            raise ConfigError("log.dirs", path, allowed)
        paths[directory_id] = path
