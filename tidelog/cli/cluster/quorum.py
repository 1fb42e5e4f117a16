"""`tidelog quorum`: describes the controller quorum, and adds and removes voters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

import typer

from tidelog.broker.node.process import load_config
from tidelog.cli.admin import with_admin
from tidelog.cli.connection import ClusterConnection, connects
from tidelog.cli.failures import UsageFailure
from tidelog.cli.options import AsJson, key_values
from tidelog.cli.output import NOTHING, print_json, print_result, print_table
from tidelog.clients.admin.admin import Admin, ClusterDescription, QuorumInfo, QuorumReplica, VoterEndpoint
from tidelog.protocol.ids import uuid_from_text, uuid_text
from tidelog.storage.directories.meta_properties import MetaPropertiesFile
from tidelog.storage.disk.os_files import OsFileSystem

app = typer.Typer(
    help="Describe the controller quorum; add and remove controllers.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
)

DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the change without making it.")]


@app.command()
@connects
def describe(
    cluster: ClusterConnection,
    status: Annotated[bool, typer.Option("--status", help="Show a summary (default).")] = False,
    replication: Annotated[
        bool, typer.Option("--replication", help="Show the offsets of each replica of the metadata log.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the leader, the voters and the observers."""
    if status and replication:
        raise UsageFailure("--status and --replication exclude each other")
    cluster_description, quorum = with_admin(cluster, _describe)
    if as_json:
        print_json({"cluster_id": cluster_description.cluster_id, **_json(quorum)})
    elif replication:
        _print_replication(quorum)
    else:
        _print_status(cluster_description, quorum)


async def _describe(admin: Admin) -> tuple[ClusterDescription, QuorumInfo]:
    return await admin.describe_cluster(), await admin.describe_metadata_quorum()


def _json(quorum: QuorumInfo) -> dict[str, object]:
    return {
        "leader_id": quorum.leader_id,
        "leader_epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
        "voters": quorum.voters,
        "observers": quorum.observers,
    }


def _leader(quorum: QuorumInfo) -> QuorumReplica | None:
    return next((voter for voter in quorum.voters if voter.replica_id == quorum.leader_id), None)


def _print_status(cluster: ClusterDescription, quorum: QuorumInfo) -> None:
    leader = _leader(quorum)
    slowest = min(quorum.voters, key=lambda voter: voter.log_end_offset, default=None)
    lag: int | str = "-"
    if leader is not None and slowest is not None:
        lag = leader.log_end_offset - slowest.log_end_offset
    print(f"cluster           {cluster.cluster_id}")
    print(f"leader            {quorum.leader_id}")
    print(f"leader epoch      {quorum.leader_epoch}")
    print(f"high watermark    {quorum.high_watermark}")
    print(f"max follower lag  {lag}")
    _print_replicas("voters", quorum.voters)
    _print_replicas("observers", quorum.observers)


def _print_replicas(heading: str, replicas: Sequence[QuorumReplica]) -> None:
    """Print one replica per line: its endpoints can be long."""
    for replica in map(_replica_text, replicas) if replicas else (NOTHING,):
        print(f"{heading:<16}  {replica}")
        heading = ""


def _replica_text(replica: QuorumReplica) -> str:
    places = " ".join(f"{each.listener_name}://{each.host}:{each.port}" for each in replica.endpoints)
    return f"{replica.replica_id} ({places})" if places else str(replica.replica_id)


def _print_replication(quorum: QuorumInfo) -> None:
    leader = _leader(quorum)
    end_offset = leader.log_end_offset if leader is not None else quorum.high_watermark
    rows = []
    for replica in sorted(quorum.voters, key=lambda voter: voter.replica_id != quorum.leader_id):
        rows.append(_row(replica, "leader" if replica is leader else "follower", end_offset))
    rows += [_row(replica, "observer", end_offset) for replica in quorum.observers]
    columns = ("node", "directory id", "log end offset", "lag", "last fetch", "last caught up", "status")
    print_table(columns, rows, is_wide=True)


def _row(replica: QuorumReplica, status: str, end_offset: int) -> tuple[object, ...]:
    return (
        replica.replica_id,
        None if replica.directory_id is None else uuid_text(replica.directory_id),
        replica.log_end_offset,
        end_offset - replica.log_end_offset,
        replica.last_fetch_timestamp_ms,
        replica.last_caught_up_timestamp_ms,
        status,
    )


@app.command("add-controller")
@connects
def add_controller(
    config: Annotated[
        str,
        typer.Option("-c", "--config", metavar="FILE", help="The server.properties of the new controller."),
    ],
    cluster: ClusterConnection,
    dry_run: DryRun = False,
    override: Annotated[
        list[str], typer.Option("--override", metavar="KEY=VALUE", help="A setting that overrides the file.")
    ] = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Make a running controller a voter.

    The controller must already replicate the metadata log.
    """
    node = load_config(config, key_values(override, "--override"))
    if not node.is_controller or not node.controller_listeners:
        raise UsageFailure(
            f"{config} does not configure a controller with a listener of controller.listener.names"
        )
    file = MetaPropertiesFile(OsFileSystem(), node.metadata_log_directory)
    directory_id = file.read().directory_id if file.exists() else None
    if directory_id is None:
        raise UsageFailure(f"{node.metadata_log_directory} is not formatted, or has no directory id")
    endpoints = [
        VoterEndpoint(listener.name, listener.host, listener.port)
        for listener in node.advertised_controllers("localhost", {})
    ]
    if not dry_run:
        with_admin(cluster, lambda admin: admin.add_raft_voter(node.node_id, directory_id, endpoints))
    places = ", ".join(f"{each.listener_name}://{each.host}:{each.port}" for each in endpoints)
    done = "Would add" if dry_run else "Added"
    print_result(
        as_json,
        f"{done} controller {node.node_id} with directory id {uuid_text(directory_id)} at {places}.",
        added=node.node_id,
        directory_id=directory_id,
        endpoints=endpoints,
        dry_run=dry_run,
    )


@app.command("remove-controller")
@connects
def remove_controller(
    controller_id: Annotated[int, typer.Argument(metavar="ID", help="The node id of the controller.")],
    directory_id: Annotated[
        str, typer.Argument(metavar="DIRECTORY-ID", help="The directory id, as in `describe --replication`.")
    ],
    cluster: ClusterConnection,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Remove a controller from the voters."""
    parsed_id = _directory_id(directory_id)
    if not dry_run:
        with_admin(cluster, lambda admin: admin.remove_raft_voter(controller_id, parsed_id))
    done = "Would remove" if dry_run else "Removed"
    print_result(
        as_json,
        f"{done} controller {controller_id} with directory id {directory_id}.",
        removed=controller_id,
        directory_id=directory_id,
        dry_run=dry_run,
    )


def _directory_id(text: str) -> UUID:
    try:
        return uuid_from_text(text)
    except ValueError as error:
        raise UsageFailure(f"DIRECTORY-ID {text!r}: {error}") from error
