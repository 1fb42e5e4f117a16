"""Formats the directories of a node for a cluster, as `kafka-storage format` does.

Each directory gets `bootstrap.checkpoint`, the first records of a new cluster, and then `meta.properties`,
which marks it as formatted. With dynamic voters (KIP-853) the metadata directory also gets
`__cluster_metadata-0/00000000000000000000-0000000000.checkpoint`, which contains the voters.

I/O: synchronous and durable; after a crash the directory is not formatted.
Errors: FormatError in one line; OSError, StorageFailure.
Source: Formatter, BootstrapDirectory and DynamicVoter of Apache Kafka 4.3; KIP-853.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.base.randomness import Randomness, new_uuid
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.config.quorum_config import controller_listener_name
from tidelog.broker.metadata.directories import create_directory_durably
from tidelog.broker.raft.log import metadata_directory
from tidelog.broker.raft.snapshot_format import SnapshotHead, read_snapshot, snapshot_batches
from tidelog.broker.raft.snapshots import BOOTSTRAP_SNAPSHOT, SnapshotFiles
from tidelog.cluster.controller.bootstrap import feature_records
from tidelog.cluster.quorum.voter_set import KRAFT_VERSION_DYNAMIC, Endpoint, ReplicaKey, Voter, VoterSet
from tidelog.protocol.ids import BrokerId, uuid_from_text
from tidelog.protocol.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from tidelog.protocol.schema import ZERO_UUID, MetadataRecord
from tidelog.storage.directories.meta_properties import MetaProperties, MetaPropertiesFile
from tidelog.storage.disk.files import FileSystem, write_atomically

BOOTSTRAP_CHECKPOINT: Final = "bootstrap.checkpoint"


class FormatError(Exception):
    """A directory cannot be formatted; the text is one line."""


class InitialVoter(NamedTuple):
    """A voter in `--initial-controllers`."""

    id: BrokerId
    host: str
    port: int
    directory_id: UUID


class NewCluster(NamedTuple):
    """The cluster that directories are formatted for.

    No `voters` means static or still unknown voters. `credentials` are those of the first users.
    `first_records` is the metadata of a backup; None: the feature levels of this release. Both must be the
    same on all controllers.
    """

    id: str
    voters: Sequence[InitialVoter] = ()
    credentials: Sequence[UserScramCredentialRecord] = ()
    first_records: Sequence[MetadataRecord] | None = None

    @property
    def bootstrap(self) -> tuple[MetadataRecord, ...]:
        """The first records of the cluster."""
        records = feature_records() if self.first_records is None else self.first_records
        return (*records, *self.credentials)


def parse_initial_voters(text: str) -> tuple[InitialVoter, ...]:
    """Parse `id@host:port:directory-id,...`; an IPv6 host is in brackets. Raise FormatError."""
    voters: dict[BrokerId, InitialVoter] = {}
    for item in text.split(","):
        voter = _initial_voter(item.strip())
        if voter.id in voters:
            raise FormatError(f"controller {voter.id} is named twice")
        voters[voter.id] = voter
    return tuple(voters.values())


def _initial_voter(text: str) -> InitialVoter:
    """Parse one voter, id@host:port:directory-id. Raise FormatError."""
    error = FormatError(f"{text!r} is not id@host:port:directory-id")
    number, _, rest = text.partition("@")
    if rest.startswith("["):
        host, _, rest = rest[1:].partition("]")
        colon, _, rest = rest.partition(":")
        rest = "" if colon else rest
    else:
        host, _, rest = rest.partition(":")
    port, _, directory = rest.partition(":")
    numbers = (number, port)
    if not host or not all(each.isascii() and each.isdigit() for each in numbers) or int(port) > 65_535:
        raise error
    try:
        directory_id = uuid_from_text(directory)
    except ValueError:
        raise error from None
    if directory_id == ZERO_UUID or int(number) >= 2**31:
        raise error
    return InitialVoter(int(number), host, int(port), directory_id)


def voter_set(voters: Iterable[InitialVoter], listener_name: str) -> VoterSet:
    """Return the voters as the log contains them, with the versions that this software supports."""
    return VoterSet.of(
        Voter(
            key=ReplicaKey(voter.id, voter.directory_id),
            endpoints=(Endpoint(listener_name, voter.host, voter.port),),
            kraft_version_max=KRAFT_VERSION_DYNAMIC,
        )
        for voter in voters
    )


def format_directories(
    fs: FileSystem,
    config: BrokerConfig,
    cluster: NewCluster,
    *,
    ignore_formatted: bool,
    randomness: Randomness,
    now_ms: int,
) -> Iterator[str]:
    """Format the directories for `cluster`, and yield a line for each."""
    cluster_id, voters = cluster.id, cluster.voters
    directories = sorted({*config.log_directories, config.metadata_log_directory})
    formatted = [path for path in directories if _is_formatted(fs, path, cluster_id, config.node_id)]
    if formatted and not ignore_formatted:
        raise FormatError(
            f"{formatted[0]} is already formatted; use --ignore-formatted to skip formatted directories"
        )
    for path in directories:
        if path in formatted:
            continue
        create_directory_durably(fs, path)
        directory_id = new_uuid(randomness)
        if path == config.metadata_log_directory:
            own = next((voter for voter in voters if voter.id == config.node_id), None)
            directory_id = own.directory_id if own is not None else directory_id
            if voters:
                initial_voters = voter_set(voters, controller_listener_name(config))
                write_voters(fs, path, initial_voters, now_ms)
        write_bootstrap(fs, path, cluster.bootstrap, now_ms)
        MetaPropertiesFile(fs, path).write(
            MetaProperties(cluster_id=cluster_id, node_id=config.node_id, directory_id=directory_id)
        )
        kind = "metadata directory" if path == config.metadata_log_directory else "log directory"
        yield f"Formatted {kind} {path} for node {config.node_id} of cluster {cluster_id}."
    if len(formatted) == len(directories):
        yield "All of the log directories are already formatted."


def _is_formatted(fs: FileSystem, path: str, cluster_id: str, node_id: BrokerId) -> bool:
    """Return whether a directory is formatted. Raise FormatError if it belongs to another node or cluster."""
    file = MetaPropertiesFile(fs, path)
    if not file.exists():
        return False
    properties = file.read()
    if properties.cluster_id not in (None, cluster_id) or properties.node_id not in (None, node_id):
        raise FormatError(f"{path} belongs to node {properties.node_id} of cluster {properties.cluster_id}")
    return True


def write_voters(fs: FileSystem, path: str, voters: VoterSet, now_ms: int) -> None:
    """Write the first voters of a dynamic quorum into the metadata directory, durably."""
    directory = metadata_directory(path)
    create_directory_durably(fs, directory)
    head = SnapshotHead(now_ms, KRAFT_VERSION_DYNAMIC, voters.to_record())
    batches = snapshot_batches((), head, epoch=BOOTSTRAP_SNAPSHOT.epoch, now_ms=now_ms)
    SnapshotFiles(fs, directory).write(BOOTSTRAP_SNAPSHOT, batches)


def write_bootstrap(fs: FileSystem, path: str, records: Iterable[MetadataRecord], now_ms: int) -> None:
    """Write the first records of a new cluster into a log directory, durably."""
    data = b"".join(snapshot_batches(records, SnapshotHead(now_ms), epoch=0, now_ms=now_ms))
    write_atomically(fs, f"{path}/{BOOTSTRAP_CHECKPOINT}", data)


def read_bootstrap(fs: FileSystem, path: str) -> tuple[MetadataRecord, ...]:
    """Return the records in `bootstrap.checkpoint`, or those of this release if there is no file."""
    file = f"{path}/{BOOTSTRAP_CHECKPOINT}"
    if not fs.exists(file):
        return feature_records()
    snapshot = read_snapshot(file, fs.read(file))
    return tuple(record for batch in snapshot.batches for record in batch)
