"""`tidelog cluster restore`: topics, tiered data and committed offsets of a backup (shell).

Configs, quotas, access control entries and users are in the cluster since its directories were formatted
with `tidelog storage format --backup`. Every step can be repeated: topics that exist with their id and
offsets that a group has committed are kept.
"""

from __future__ import annotations

import asyncio
from dataclasses import field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import typer

from tidelog.base.count_text import count_text
from tidelog.base.dataclass import dataclass
from tidelog.broker.backup.archive import ClusterBackup
from tidelog.broker.backup.catalog import BackupCatalog, BackupEntry
from tidelog.broker.backup.contents import (
    RestoredOffset,
    backup_image,
    backup_topics,
    restored_offsets,
)
from tidelog.cli.admin import with_admin
from tidelog.cli.cluster.restore_checks import missing_metadata
from tidelog.cli.cluster.restore_plans import PlanChoices, topic_plans
from tidelog.cli.connection import ClusterConnection
from tidelog.cli.failures import EXIT_FAILURE, complain, kafka_error_text
from tidelog.cli.output import print_json, print_table
from tidelog.cli.tier.restore import (
    RestoreReport,
    apply_plans,
    partition_document,
    print_obstacles,
    target_of,
    topic_notes,
)
from tidelog.clients.admin.admin import Admin
from tidelog.clients.groups.group_offsets import OffsetAndMetadata
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import NO_LEADER_EPOCH, Offset, TopicPartition
from tidelog.remote.inspection.bucket import Bucket
from tidelog.remote.restore.plan import PartitionPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRestoreOptions:
    """How a cluster is restored; `replication_factor` None is that of each topic in the backup."""

    executes: bool = False
    accepts_gaps: bool = False
    replication_factor: int | None = None
    topics_only: bool = False
    """Whether topics are restored even if the cluster lacks other metadata of the backup."""
    as_json: bool = False


@dataclass(slots=True)
class ClusterReport:
    """The topics, and the offsets of groups: to commit, committed by this run, and rejected.

    `missing` is other metadata of the backup that the cluster lacks; then nothing is restored.
    """

    backup: ClusterBackup
    topics: RestoreReport
    groups: dict[str, dict[TopicPartition, RestoredOffset]] = field(default_factory=dict)
    committed: int = 0
    kept: int = 0
    group_errors: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether nothing was rejected."""
        return self.topics.is_complete and not self.group_errors and not self.missing


def run_cluster_restore(
    bucket: Bucket,
    catalog: BackupCatalog,
    entry: BackupEntry,
    cluster: ClusterConnection,
    options: ClusterRestoreOptions,
) -> None:
    """Check or restore the topics and offsets of a backup, print the report, and exit with its status."""
    backup = catalog.read(entry)
    with TemporaryDirectory(prefix="tidelog-restore-") as folder:
        report = _restored(bucket, catalog, entry, backup, cluster, options, Path(folder))
    _print(report, options)
    if not report.is_complete:
        raise typer.Exit(EXIT_FAILURE)


def _restored(
    bucket: Bucket,
    catalog: BackupCatalog,
    entry: BackupEntry,
    backup: ClusterBackup,
    cluster: ClusterConnection,
    options: ClusterRestoreOptions,
    folder: Path,
) -> ClusterReport:
    """Check or restore the topics and offsets of `backup`; `folder` gets segments that are copied."""
    image = backup_image(backup)
    choices = PlanChoices(accepts_gaps=options.accepts_gaps, replication_factor=options.replication_factor)
    plans = topic_plans(bucket, backup, backup_topics(image), choices, folder)
    report = ClusterReport(backup, RestoreReport(plans))
    ends = {each.partition.topic_partition: each.end_offset for plan in plans for each in plan.partitions}
    report.groups = restored_offsets(backup, ends)

    async def work(admin: Admin) -> None:
        target = target_of(admin, cluster, bucket)
        if not options.topics_only:
            report.missing = await missing_metadata(admin, image)
        if not options.executes or report.missing:
            await apply_plans(target, report.topics, executes=False)
            return
        cluster_id = (await admin.describe_cluster()).cluster_id or backup.cluster_id
        await asyncio.to_thread(catalog.begin_restore, cluster_id, entry)
        await apply_plans(target, report.topics, executes=True)
        await _commit(admin, report)
        if report.is_complete:
            await asyncio.to_thread(catalog.end_restore, cluster_id)

    with_admin(cluster, work)
    return report


async def _commit(admin: Admin, report: ClusterReport) -> None:
    """Commit the offsets of restored topics that their groups do not have."""
    restored = report.topics.outcomes
    for group, offsets in report.groups.items():
        wanted = {name: one for name, one in offsets.items() if name.topic in restored}
        if not wanted:
            continue
        try:
            existing = await admin.list_group_offsets(group, list(wanted))
            missing = {
                name: OffsetAndMetadata(
                    one.committed.offset,
                    one.committed.metadata,
                    NO_LEADER_EPOCH if one.committed.leader_epoch is None else one.committed.leader_epoch,
                )
                for name, one in wanted.items()
                if name not in existing
            }
            results = await admin.alter_group_offsets(group, missing) if missing else {}
        except KafkaError as error:
            report.group_errors.append(f"group {group}: {kafka_error_text(error)}")
            continue
        report.kept += len(existing)
        for name, result in results.items():
            if result is None:
                report.committed += 1
            else:
                report.group_errors.append(f"group {group}, {name}: {kafka_error_text(result)}")


# --- output -------------------------------------------------------------------------------


def lost_range(report: ClusterReport, plan: PartitionPlan) -> tuple[Offset, Offset] | None:
    """Return the offsets (end exclusive) that are in the backup and are lost; None if there are none.

    Records after the backup are lost too; their offsets are not known.
    """
    known = report.backup.partitions.get(plan.partition.topic_partition)
    if known is None:
        return None
    first = max(plan.end_offset, known.start_offset)
    return (first, known.end_offset) if first < known.end_offset else None


def _print(report: ClusterReport, options: ClusterRestoreOptions) -> None:
    partitions = [each for plan in report.topics.plans for each in plan.partitions]
    clamped = [
        (group, name, one)
        for group, offsets in report.groups.items()
        for name, one in offsets.items()
        if one.lost is not None
    ]
    if options.as_json:
        print_json(_document(report))
        return
    rows = []
    for each in partitions:
        name, lost = each.partition.topic_partition, lost_range(report, each)
        text = "" if lost is None else f"{lost[0]}-{lost[1] - 1}"
        rows.append((str(name), each.start_offset, each.end_offset, len(each.segments), text))
    print_table(("partition", "start", "end", "segments", "lost"), rows)
    print("Records that were written after the backup and not tiered are lost as well.")
    for line in topic_notes(report.topics):
        print(line)
    for group, name, one in clamped:
        print(f"clamped: group {group} {name} from {one.lost} to {one.committed.offset}")
    print_obstacles(report.topics)
    for error in (*report.group_errors, *report.missing):
        complain(error)
    if report.missing:
        complain(
            "nothing was restored: format the directories of all nodes with tidelog storage format --backup, "
            "or give --topics-only to restore topics and offsets alone"
        )
    topics, groups = count_text(len(report.topics.plans), "topic"), count_text(len(report.groups), "group")
    if options.executes and not report.missing:
        print(
            f"{len(report.topics.outcomes)} of {topics} restored, {count_text(report.committed, 'offset')} "
            f"of {groups} committed, {report.kept} kept"
        )
    elif not report.missing:
        print(f"dry run: {topics}, {groups}; --execute restores them")


def _document(report: ClusterReport) -> dict[str, Any]:
    topics = report.topics
    return {
        "cluster_id": report.backup.cluster_id,
        "created_ms": report.backup.created_ms,
        "topics": [
            {
                "topic": plan.name,
                "topic_id": plan.topic_id,
                "restored": plan.name in topics.outcomes,
                "obstacles": topics.obstacles.get(plan.name, []),
                "partitions": [
                    {
                        **partition_document(each, topics.outcomes.get(plan.name)),
                        "lost": lost_range(report, each),
                    }
                    for each in plan.partitions
                ],
            }
            for plan in topics.plans
        ],
        "groups": {
            group: [
                {
                    "topic": name.topic,
                    "partition": name.partition,
                    "offset": one.committed.offset,
                    "lost_offset": one.lost,
                }
                for name, one in offsets.items()
            ]
            for group, offsets in report.groups.items()
        },
        "committed": report.committed,
        "kept": report.kept,
        "errors": [*report.group_errors, *report.missing],
    }
