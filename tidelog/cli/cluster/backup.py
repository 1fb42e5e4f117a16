"""`tidelog backup`: the backups of clusters in the bucket of tiered storage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidelog.cli.failures import UsageFailure
from tidelog.cli.options import AsJson
from tidelog.cli.output import print_json, print_result, print_table, time_text
from tidelog.cli.tier.sources import ConfigFile, Location, StorageValues, open_bucket, storage_values

if TYPE_CHECKING:
    from tidelog.broker.backup.archive import ClusterBackup
    from tidelog.broker.backup.catalog import BackupCatalog, BackupEntry

app = typer.Typer(
    help="List, show and delete backups of clusters in the bucket.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
)

BackupId = Annotated[str, typer.Argument(metavar="BACKUP", help="The id of the backup, or latest.")]
ClusterId = Annotated[
    str | None, typer.Option("--cluster-id", metavar="ID", help="Only backups of this cluster.")
]


@contextmanager
def open_catalog(
    config: Path | None, storage: Sequence[str], location: str | None
) -> Iterator[BackupCatalog]:
    """Open the backups in the bucket of these settings. Errors: ConfigError; UsageFailure."""
    from tidelog.broker.backup.catalog import BackupCatalog, BackupNotFound

    with open_bucket(storage_values(config, storage, location)) as bucket:
        try:
            yield BackupCatalog(bucket.storage.store, bucket.prefix)
        except BackupNotFound as error:
            raise UsageFailure(str(error)) from error


@app.command("list")
def list_backups(
    cluster_id: ClusterId = None,
    location: Location = None,
    config: ConfigFile = None,
    storage: StorageValues = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """List the backups, the oldest first."""
    with open_catalog(config, storage, location) as catalog:
        entries = catalog.entries(cluster_id)
    if as_json:
        print_json([_entry_document(entry) for entry in entries])
        return
    rows = [(each.id, each.cluster_id, each.size_bytes) for each in entries]
    print_table(("backup", "cluster", "bytes"), rows)


@app.command()
def show(
    backup_id: BackupId = "latest",
    cluster_id: ClusterId = None,
    location: Location = None,
    config: ConfigFile = None,
    storage: StorageValues = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Verify a backup, and show its contents without secrets."""
    from tidelog.broker.backup.contents import backup_image, backup_topics

    with open_catalog(config, storage, location) as catalog:
        entry = catalog.find(backup_id, cluster_id)
        backup = catalog.read(entry)
    image = backup_image(backup)
    document = _contents_document(backup, image)
    if as_json:
        topics = [
            {
                "topic": each.name,
                "topic_id": each.topic_id,
                "partitions": each.partitions,
                "replication_factor": each.replication_factor,
                "is_tiered": each.is_tiered,
                "configs": dict(each.configs),
            }
            for each in backup_topics(image)
        ]
        print_json({**_entry_document(entry), **document, "topics": topics, "groups": sorted(backup.groups)})
        return
    print_table(("", ""), [(name.replace("_", " "), value) for name, value in document.items()])


@app.command()
def delete(
    backup_id: Annotated[str, typer.Argument(metavar="BACKUP", help="The id of the backup.")],
    cluster_id: ClusterId = None,
    location: Location = None,
    config: ConfigFile = None,
    storage: StorageValues = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Delete a backup."""
    with open_catalog(config, storage, location) as catalog:
        entry = catalog.find(backup_id, cluster_id)
        catalog.delete(entry)
    print_result(
        as_json,
        f"Deleted backup {entry.id} of cluster {entry.cluster_id}.",
        deleted=entry.id,
        cluster_id=entry.cluster_id,
    )


@app.command()
def resume(
    cluster_id: Annotated[str, typer.Argument(metavar="CLUSTER-ID", help="The id of the cluster.")],
    location: Location = None,
    config: ConfigFile = None,
    storage: StorageValues = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Resume the backups of a cluster whose restore will not be completed."""
    with open_catalog(config, storage, location) as catalog:
        catalog.end_restore(cluster_id)
    print_result(as_json, f"Cluster {cluster_id} writes backups again.", resumed=cluster_id)


def _entry_document(entry: BackupEntry) -> dict[str, Any]:
    return {
        "backup": entry.id,
        "cluster_id": entry.cluster_id,
        "created_ms": entry.created_ms,
        "bytes": entry.size_bytes,
    }


def _contents_document(backup: ClusterBackup, image: Any) -> dict[str, Any]:
    return {
        "cluster_id": backup.cluster_id,
        "created": time_text(backup.created_ms),
        "metadata_offset": backup.metadata_offset,
        "topic_count": len(image.topics_by_name),
        "partition_count": sum(len(topic.partitions) for topic in image.topics_by_name.values()),
        "group_count": len(backup.groups),
        "access_control_entries": len(image.access_control_entries),
        "client_quotas": len(image.client_quotas),
        "scram_credentials": len(image.scram_credentials),
        "features": ", ".join(f"{name}={level}" for name, level in sorted(image.features.items())),
    }
