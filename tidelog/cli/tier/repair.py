"""`tidelog tier repair`: finds damaged segments and writes them again from replicas (shell).

| status | |
|---|---|
| 0 | no segment is damaged, or all were repaired; without --execute, all can be |
| 1 | a segment cannot be repaired |
| 2 | remote storage could not be checked |
"""

from __future__ import annotations

from collections.abc import Sequence

import typer

from tidelog.base.count_text import count_text
from tidelog.cli.admin import with_admin
from tidelog.cli.connection import ClusterConnection
from tidelog.cli.failures import EXIT_FAILURE
from tidelog.cli.output import print_json
from tidelog.cli.tier.fsck import FsckOptions, check
from tidelog.clients.admin.admin import Admin
from tidelog.clients.config.client_config import ConsumerConfig
from tidelog.protocol.ids import BrokerId, TopicPartition
from tidelog.remote.inspection.broker_queries import BrokerQueries
from tidelog.remote.inspection.bucket import Bucket
from tidelog.remote.inspection.findings import segment_name
from tidelog.remote.repair.repair import (
    DamagedRemoteSegment,
    RepairOutcome,
    SegmentRepair,
    damaged_segments,
)


def run_repair(
    bucket: Bucket, cluster: ClusterConnection, topics: Sequence[str], *, executes: bool, as_json: bool
) -> None:
    """Check every byte of the topics (none: of all), repair the damaged segments, and print the outcomes."""
    options = FsckOptions(cluster=cluster, topics=topics, is_deep=True)
    report = check(bucket, options)
    segments = damaged_segments(report.findings, report.views)

    async def work(admin: Admin) -> list[RepairOutcome]:
        return await _repair_all(admin, bucket, cluster, segments, executes=executes)

    outcomes = with_admin(cluster, work) if segments else []
    if as_json:
        print_json([_document(outcome) for outcome in outcomes])
    else:
        for outcome in outcomes:
            print(_line(outcome))
        failed = sum(bool(outcome.problem) for outcome in outcomes)
        damaged = count_text(len(outcomes), "damaged segment")
        print(f"{count_text(report.bytes_read, 'byte')} read, {damaged}, {failed} not repairable")
    if any(outcome.problem for outcome in outcomes):
        raise typer.Exit(EXIT_FAILURE)


async def _repair_all(
    admin: Admin,
    bucket: Bucket,
    cluster: ClusterConnection,
    segments: Sequence[DamagedRemoteSegment],
    *,
    executes: bool,
) -> list[RepairOutcome]:
    topics = {segment.metadata.topic_id_partition.topic for segment in segments}
    replicas = {
        TopicPartition(topic.name, partition.partition): _leader_first(
            partition.leader, partition.in_sync_replicas
        )
        for topic in await BrokerQueries(admin).topics(topics)
        for partition in topic.partitions
    }
    repair = SegmentRepair(
        bucket.storage, cluster.bootstrap, cluster.client_options(ConsumerConfig), executes=executes
    )
    return [
        await repair.repair(segment, replicas[segment.metadata.topic_id_partition.topic_partition])
        for segment in segments
    ]


def _leader_first(leader: BrokerId, in_sync_replicas: Sequence[BrokerId]) -> list[BrokerId]:
    return sorted(in_sync_replicas, key=lambda replica: replica != leader)


def _line(outcome: RepairOutcome) -> str:
    metadata = outcome.segment.metadata
    name = f"{metadata.topic_id_partition.topic_partition} {segment_name(metadata)}"
    if outcome.problem:
        return f"cannot repair {name}: {outcome.problem}"
    verb = "repaired" if outcome.is_written else "can repair"
    return f"{verb} {name} from broker {outcome.source}: {outcome.segment.findings[0]}"


def _document(outcome: RepairOutcome) -> dict[str, object]:
    metadata = outcome.segment.metadata
    return {
        "topic": metadata.topic_id_partition.topic,
        "partition": metadata.topic_id_partition.partition,
        "segment_id": metadata.remote_log_segment_id.id,
        "start_offset": metadata.start_offset,
        "end_offset": metadata.end_offset,
        "findings": [str(finding) for finding in outcome.segment.findings],
        "source": outcome.source,
        "is_repaired": outcome.is_written,
        "problem": outcome.problem or None,
    }
