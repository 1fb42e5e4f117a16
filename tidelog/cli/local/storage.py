"""`tidelog storage`: formats the log directories of a node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidelog.base.clock import SystemClock
from tidelog.base.randomness import SYSTEM_RANDOMNESS, new_uuid
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.metadata.formatting import (
    FormatError,
    InitialVoter,
    NewCluster,
    format_directories,
    parse_initial_voters,
)
from tidelog.broker.metadata.scram_arguments import ScramArgumentError, parse_scram_argument
from tidelog.broker.node.process import load_config
from tidelog.cli.failures import UsageFailure
from tidelog.cli.options import AsJson, key_values
from tidelog.cli.output import print_json, print_lines, print_table
from tidelog.cli.tier.sources import Location, location_values, open_bucket
from tidelog.protocol.ids import uuid_text
from tidelog.protocol.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from tidelog.storage.directories.meta_properties import MetaPropertiesFile
from tidelog.storage.disk.os_files import OsFileSystem

if TYPE_CHECKING:
    from tidelog.broker.backup.archive import ClusterBackup

app = typer.Typer(
    help="Format the log directories of a node.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
)

ConfigFile = Annotated[
    str, typer.Option("-c", "--config", metavar="FILE", help="The server.properties of the node.")
]
Overrides = Annotated[
    list[str], typer.Option("--override", metavar="KEY=VALUE", help="A setting that overrides the file.")
]


ClusterId = Annotated[
    str | None,
    typer.Option("-t", "--cluster-id", help="The cluster id; by default that of the backup."),
]
InitialControllers = Annotated[
    str | None,
    typer.Option(
        "-I",
        "--initial-controllers",
        metavar="ID@HOST:PORT:DIRECTORY-ID,...",
        help="The initial voters; the same value for all of them.",
    ),
]
ScramCredentials = Annotated[
    list[str],
    typer.Option(
        "-S",
        "--add-scram",
        metavar="MECHANISM=[name=USER,password=PASSWORD]",
        help="A SCRAM credential of the new cluster; may be given several times.",
    ),
]
BackupId = Annotated[
    str | None,
    typer.Option(
        "--backup",
        metavar="BACKUP",
        help="Restore configs, quotas, access control entries and users of this backup, or of latest.",
    ),
]


@app.command("random-uuid")
def random_uuid() -> None:
    """Print a new id for a cluster or a directory."""
    print(uuid_text(new_uuid(SYSTEM_RANDOMNESS)))


@app.command("format")
def format_storage(
    config: ConfigFile,
    cluster_id: ClusterId = None,
    standalone: Annotated[
        bool, typer.Option("-s", "--standalone", help="Make this controller the only initial voter.")
    ] = False,
    initial_controllers: InitialControllers = None,
    no_initial_controllers: Annotated[
        bool,
        typer.Option("-N", "--no-initial-controllers", help="Join an existing quorum with dynamic voters."),
    ] = False,
    ignore_formatted: Annotated[
        bool, typer.Option("-g", "--ignore-formatted", help="Ignore directories that are already formatted.")
    ] = False,
    add_scram: ScramCredentials = [],  # noqa: B006
    backup: BackupId = None,
    location: Location = None,
    override: Overrides = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Format the log directories of a node."""
    node = load_config(config, key_values(override, "--override"))
    if sum((standalone, initial_controllers is not None, no_initial_controllers)) > 1:
        raise UsageFailure(
            "--standalone, --initial-controllers and --no-initial-controllers exclude each other"
        )
    try:
        saved = None if backup is None else _read_backup(node, backup, location, cluster_id)
        if cluster_id is None and saved is None:
            raise UsageFailure("give --cluster-id, or --backup")
        credentials = [parse_scram_argument(each, SYSTEM_RANDOMNESS) for each in add_scram]
        voters = _voters(node, standalone, initial_controllers)
        is_dynamic = node.is_controller and not node.controller_quorum_voters and not node.has_own_quorum
        if is_dynamic and not voters and not no_initial_controllers:
            raise FormatError(
                "controller.quorum.voters is not set on this controller: give --standalone, "
                "--initial-controllers or --no-initial-controllers"
            )
        lines = format_directories(
            OsFileSystem(),
            node,
            _new_cluster(cluster_id, voters, credentials, saved),
            ignore_formatted=ignore_formatted,
            randomness=SYSTEM_RANDOMNESS,
            now_ms=SystemClock().wall_ms(),
        )
        if as_json:
            print_json(lines)
        else:
            print_lines(lines)
    except (FormatError, ScramArgumentError) as error:
        raise UsageFailure(str(error)) from error


def _read_backup(
    node: BrokerConfig, backup_id: str, location: str | None, cluster_id: str | None
) -> ClusterBackup:
    """Return a backup in the node's bucket, or at `location`; no others are written until it is restored."""
    from tidelog.broker.backup.catalog import BackupCatalog, BackupNotFound
    from tidelog.broker.tier.settings import storage_manager_values

    values = storage_manager_values(node)
    located_values = {} if location is None else location_values(location)
    with open_bucket({**values, **located_values}) as bucket:
        catalog = BackupCatalog(bucket.storage.store, bucket.prefix)
        try:
            entry = catalog.resolve(backup_id, cluster_id)
            saved = catalog.read(entry)
            catalog.begin_restore(cluster_id or saved.cluster_id, entry)
            return saved
        except BackupNotFound as error:
            raise UsageFailure(str(error)) from error


def _new_cluster(
    cluster_id: str | None,
    voters: tuple[InitialVoter, ...],
    credentials: Sequence[UserScramCredentialRecord],
    saved: ClusterBackup | None,
) -> NewCluster:
    if saved is None:
        assert cluster_id is not None
        return NewCluster(cluster_id, voters, credentials)
    from tidelog.broker.backup.contents import backup_image, first_records

    records = tuple(first_records(backup_image(saved)))
    return NewCluster(cluster_id or saved.cluster_id, voters, credentials, records)


def _voters(
    node: BrokerConfig, standalone: bool, initial_controllers: str | None
) -> tuple[InitialVoter, ...]:
    if initial_controllers is not None:
        return parse_initial_voters(initial_controllers)
    if not standalone:
        return ()
    if not node.is_controller or not node.controller_listeners:
        raise FormatError("--standalone needs a controller with a listener of controller.listener.names")
    if node.controller_quorum_voters:
        raise FormatError("--standalone needs dynamic voters, without controller.quorum.voters")
    listener = node.advertised_controllers("localhost", {})[0]
    return (InitialVoter(node.node_id, listener.host, listener.port, new_uuid(SYSTEM_RANDOMNESS)),)


@app.command()
def info(config: ConfigFile, override: Overrides = [], as_json: AsJson = False) -> None:  # noqa: B006
    """Show the ids in the log directories of a node."""
    node = load_config(config, key_values(override, "--override"))
    fs = OsFileSystem()
    directories: list[dict[str, Any]] = []
    for path in sorted({*node.log_directories, node.metadata_log_directory}):
        file = MetaPropertiesFile(fs, path)
        properties = file.read() if file.exists() else None
        directories.append(
            {
                "directory": path,
                "formatted": properties is not None,
                "cluster_id": properties.cluster_id if properties else None,
                "node_id": properties.node_id if properties else None,
                "directory_id": properties.directory_id if properties else None,
            }
        )
    if as_json:
        print_json(directories)
        return
    rows = [
        (
            each["directory"],
            each["cluster_id"] if each["formatted"] else "not formatted",
            each["node_id"],
            each["directory_id"] and uuid_text(each["directory_id"]),
        )
        for each in directories
    ]
    print_table(("directory", "cluster", "node", "directory id"), rows)
