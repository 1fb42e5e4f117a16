"""`tidelog tier restore --at`: a topic as it was at a time, under a new name and by reference (shell).

Exit status 1 if the topic cannot be restored.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from tidelog.base.dataclass import dataclass
from tidelog.cli.admin import with_admin
from tidelog.cli.connection import ClusterConnection
from tidelog.cli.failures import EXIT_FAILURE, UsageFailure
from tidelog.cli.tier.restore import (
    RestoreOptions,
    RestoreReport,
    apply_plans,
    print_report,
    surveyed_topics,
    target_of,
)
from tidelog.clients.admin.admin import Admin
from tidelog.clients.config.client_config import ConsumerConfig
from tidelog.cluster.topic_names import check_name
from tidelog.protocol.errors import KafkaError
from tidelog.remote.inspection.broker_queries import BrokerQueries
from tidelog.remote.inspection.bucket import Bucket
from tidelog.remote.inspection.cluster import Gatherer
from tidelog.remote.inspection.history import MetadataHistory
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentState, TopicIdPartition
from tidelog.remote.restore.plan import LeftOut, SurveyedPartition, TopicPlan, topic_plan
from tidelog.remote.restore.time_travel import Travel, travelled
from tidelog.remote.tasks.recovered_log import log_position
from tidelog.storage.config.topic_source import SOURCE_KEY, TopicSource

_FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED


@dataclass(frozen=True, slots=True, kw_only=True)
class TravelOptions:
    """The time, the name of the new topic, and the options of a restore of the source."""

    timestamp_ms: int
    name: str
    restore: RestoreOptions


def parse_time(text: str) -> int:
    """Return the milliseconds of an ISO 8601 time, in UTC if it has no zone. Errors: UsageFailure."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise UsageFailure(
            f"--at {text}: allowed are milliseconds since 1970, or a time such as 2026-11-28T12:00:00Z"
        ) from None
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def run_time_travel(bucket: Bucket, cluster: ClusterConnection, options: TravelOptions) -> None:
    """Survey the source, check or restore the new topic, print the report, and exit with its status."""
    try:
        check_name(options.name)
    except KafkaError as error:
        raise UsageFailure(f"--as {options.name}: {error}") from error
    restore = options.restore
    ((_, source_id), partitions), *_ = surveyed_topics(bucket, restore.topics, restore.topic_ids).items()
    with TemporaryDirectory(prefix="tidelog-restore-") as folder:
        if restore.is_offline:
            plan = _plan(
                bucket,
                partitions,
                options,
                Travel(name=options.name, source_id=source_id, timestamp_ms=options.timestamp_ms),
                Path(folder),
            )
            report = RestoreReport([plan], {plan.name: list(plan.problems)})
        else:
            report = with_admin(
                cluster, lambda admin: _work(admin, bucket, cluster, partitions, options, Path(folder))
            )
        print_report(report, restore)
    if not report.is_complete:
        raise typer.Exit(EXIT_FAILURE)


async def _work(
    admin: Admin,
    bucket: Bucket,
    cluster: ClusterConnection,
    partitions: list[SurveyedPartition],
    options: TravelOptions,
    folder: Path,
) -> RestoreReport:
    gatherer = Gatherer(admin, cluster.bootstrap, cluster.client_options(ConsumerConfig))
    source = partitions[0].partition
    if source.topic_id in await BrokerQueries(admin).topic_ids():
        history = await gatherer.history([each.partition for each in partitions])
        partitions = [_finished_only(each, history) for each in partitions]
    travel = await _new_generation(
        gatherer,
        Travel(name=options.name, source_id=source.topic_id, timestamp_ms=options.timestamp_ms),
        partitions,
    )
    plan = _plan(bucket, partitions, options, travel, folder)
    report = RestoreReport([plan])
    await apply_plans(target_of(admin, cluster, bucket), report, executes=options.restore.executes)
    return report


def _finished_only(surveyed: SurveyedPartition, history: MetadataHistory) -> SurveyedPartition:
    """Return the partition without objects that the cluster is copying or deleting."""
    finished = {
        segment.remote_log_segment_id.id
        for segment in history.of(surveyed.partition).cache.segments()
        if segment.state is _FINISHED
    }
    segments = tuple(each for each in surveyed.segments if each.remote_log_segment_id.id in finished)
    newest = max(segments, key=log_position, default=None)
    if newest != surveyed.newest:
        raise UsageFailure(
            f"the segments of {surveyed.partition.topic_partition} changed meanwhile; repeat the command"
        )
    left_out = tuple(
        LeftOut(str(each.remote_log_segment_id), "it is being copied or deleted")
        for each in surveyed.segments
        if each not in segments
    )
    return replace(surveyed, segments=segments, unusable=(*surveyed.unusable, *left_out))


async def _new_generation(
    gatherer: Gatherer, travel: Travel, partitions: Collection[SurveyedPartition]
) -> Travel:
    """Return `travel` with an id of which the cluster has deleted nothing."""
    while True:
        names = [
            TopicIdPartition(travel.topic_id, travel.name, each.partition.partition) for each in partitions
        ]
        history = await gatherer.history(names)
        if not any(history.of(name).deleted or history.of(name).deletion for name in names):
            return travel
        travel = replace(travel, generation=travel.generation + 1)


def _plan(
    bucket: Bucket,
    partitions: list[SurveyedPartition],
    options: TravelOptions,
    travel: Travel,
    folder: Path,
) -> TopicPlan:
    source = TopicSource(
        topic=partitions[0].partition.topic, topic_id=travel.source_id, timestamp_ms=travel.timestamp_ms
    )
    found = [travelled(bucket, each, travel, folder) for each in partitions]
    choices = options.restore.plan
    plan = topic_plan(
        travel.name,
        travel.topic_id,
        [each.surveyed for each in found],
        replace(choices, is_live=True, configs={**choices.configs, SOURCE_KEY: source.text}),
    )
    return replace(plan, tails=tuple(tail for each in found for tail in each.tails), source=source)
