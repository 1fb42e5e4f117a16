"""`tidelog cluster`: the brokers and the health of a cluster, its restore; local clusters."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import typer

from tidelog.cli.admin import succeeded, with_admin
from tidelog.cli.cluster import health
from tidelog.cli.cluster.backup import BackupId, ClusterId
from tidelog.cli.connection import ClusterConnection, connects
from tidelog.cli.failures import UsageFailure
from tidelog.cli.local import local_cluster
from tidelog.cli.options import AsJson
from tidelog.cli.output import print_json, print_table
from tidelog.cli.tier.restore_options import AcceptGaps, Execute
from tidelog.cli.tier.sources import ConfigFile, Location, StorageValues, open_bucket, storage_values
from tidelog.clients.admin.admin import Admin, ClusterDescription, TopicDescription
from tidelog.clients.metadata.cluster_metadata import PartitionMetadata

app = typer.Typer(
    help="Show the health of a cluster; restore one; start and stop a local cluster.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
)


local_cluster.register(app)
health.register(app)


@app.command()
@connects
def restore(
    cluster: ClusterConnection,
    backup_id: BackupId = "latest",
    cluster_id: ClusterId = None,
    execute: Execute = False,
    accept_gaps: AcceptGaps = False,
    replication_factor: Annotated[
        int | None,
        typer.Option("--replication-factor", metavar="N", help="Of all topics; default: as in the backup."),
    ] = None,
    topics_only: Annotated[
        bool,
        typer.Option(
            "--topics-only", help="Accept that the cluster lacks users, access control entries or quotas."
        ),
    ] = False,
    location: Location = None,
    config: ConfigFile = None,
    storage: StorageValues = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Restore topics, tiered data and committed offsets of a backup in an empty cluster.

    Format its directories with `tidelog storage format --backup` first. Without --execute, only report.
    """
    from tidelog.broker.backup.catalog import BackupCatalog, BackupNotFound
    from tidelog.cli.cluster.restore import ClusterRestoreOptions, run_cluster_restore

    options = ClusterRestoreOptions(
        executes=execute,
        accepts_gaps=accept_gaps,
        replication_factor=replication_factor,
        topics_only=topics_only,
        as_json=as_json,
    )
    with open_bucket(storage_values(config, storage, location)) as bucket:
        catalog = BackupCatalog(bucket.storage.store, bucket.prefix)
        try:
            entry = catalog.resolve(backup_id, cluster_id)
        except BackupNotFound as error:
            raise UsageFailure(str(error)) from error
        run_cluster_restore(bucket, catalog, entry, cluster, options)


class PartitionHealth(NamedTuple):
    """The number of partitions, of those without a leader, and of under-replicated ones."""

    partitions: int
    without_leader: int
    under_replicated: int


@app.command()
@connects
def info(cluster: ClusterConnection, as_json: AsJson = False) -> None:
    """Show the cluster id, the brokers and the health of the partitions."""
    description, topics = with_admin(cluster, _describe)
    health = _health(topics)
    if as_json:
        print_json(
            {
                "cluster_id": description.cluster_id,
                "controller_id": description.controller_id,
                "brokers": description.brokers,
                "topics": len(topics),
                **health._asdict(),
            }
        )
        return
    print(f"cluster           {description.cluster_id}")
    print(f"controller        {description.controller_id}")
    print(f"topics            {len(topics)}")
    print(f"partitions        {health.partitions}")
    print(f"without leader    {health.without_leader}")
    print(f"under-replicated  {health.under_replicated}")
    print()
    rows = [(broker.node_id, broker.host, broker.port, broker.rack) for broker in description.brokers]
    print_table(("broker", "host", "port", "rack"), rows)


async def _describe(admin: Admin) -> tuple[ClusterDescription, list[TopicDescription]]:
    description = await admin.describe_cluster()
    names = await admin.list_topics(include_internal=True)
    topics = succeeded(await admin.describe_topics(names)) if names else {}
    return description, list(topics.values())


def _health(topics: list[TopicDescription]) -> PartitionHealth:
    partitions: list[PartitionMetadata] = [entry for topic in topics for entry in topic.partitions]
    return PartitionHealth(
        partitions=len(partitions),
        without_leader=sum(entry.leader < 0 for entry in partitions),
        under_replicated=sum(len(entry.in_sync_replicas) < len(entry.replicas) for entry in partitions),
    )
