"""`tidelog tier restore`: surveys a bucket, prints the plan, and executes it (shell).

| status | |
|---|---|
| 0 | every topic was restored, or can be restored |
| 1 | a topic cannot be restored; the others were restored |
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any
from uuid import UUID

import typer

from tidelog.base.count_text import count_text
from tidelog.base.dataclass import dataclass
from tidelog.cli.admin import with_admin
from tidelog.cli.connection import ClusterConnection
from tidelog.cli.failures import EXIT_FAILURE, UsageFailure, complain, kafka_error_text
from tidelog.cli.output import print_json, print_table
from tidelog.cli.progress import bar
from tidelog.clients.admin.admin import Admin
from tidelog.clients.config.client_config import ConsumerConfig, ProducerConfig
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import uuid_text
from tidelog.remote.inspection.bucket import Bucket
from tidelog.remote.inspection.findings import offsets_text
from tidelog.remote.restore.execution import RestoreError, RestoreOutcome, Target, TopicRestore
from tidelog.remote.restore.plan import PartitionPlan, PlanOptions, SurveyedPartition, TopicPlan, topic_plan
from tidelog.remote.restore.survey import survey


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOptions:
    """The options of one restore."""

    topics: Sequence[str]
    """Empty for all."""
    topic_ids: Collection[UUID] = ()
    plan: PlanOptions
    is_offline: bool = False
    executes: bool = False
    as_json: bool = False


@dataclass(slots=True)
class RestoreReport:
    """The plans, why they cannot be executed, and the outcomes of those that were."""

    plans: list[TopicPlan]
    obstacles: dict[str, list[str]] = field(default_factory=dict)
    outcomes: dict[str, RestoreOutcome] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether no topic has an obstacle."""
        return not any(self.obstacles.values())


def run_restore(bucket: Bucket, cluster: ClusterConnection, options: RestoreOptions) -> None:
    """Survey the bucket, check or restore the topics, print the report, and exit with its status."""
    report = RestoreReport(_plans(bucket, options))
    if options.is_offline:
        report.obstacles = {plan.name: list(plan.problems) for plan in report.plans}
    else:
        with_admin(
            cluster,
            lambda admin: apply_plans(target_of(admin, cluster, bucket), report, executes=options.executes),
        )
    print_report(report, options)
    if not report.is_complete:
        raise typer.Exit(EXIT_FAILURE)


def survey_with_progress(
    bucket: Bucket, topics: Collection[str]
) -> dict[tuple[str, UUID], list[SurveyedPartition]]:
    """Survey the bucket, and show the number of manifests that were read."""
    done = 0
    with bar("manifests", None) as show:

        def on_segment() -> None:
            nonlocal done
            done += 1
            show(done, "")

        return survey(bucket, topics, on_segment)


def _plans(bucket: Bucket, options: RestoreOptions) -> list[TopicPlan]:
    return [
        topic_plan(name, topic_id, partitions, options.plan)
        for (name, topic_id), partitions in surveyed_topics(bucket, options.topics, options.topic_ids).items()
    ]


def surveyed_topics(
    bucket: Bucket, topics: Collection[str], topic_ids: Collection[UUID]
) -> dict[tuple[str, UUID], list[SurveyedPartition]]:
    """Return the topics in the bucket in order, with one id for each name. Errors: UsageFailure."""
    found = survey_with_progress(bucket, topics)
    names = {name for name, _ in found}
    missing = [name for name in topics if name not in names]
    if missing or not found:
        raise UsageFailure(f"the bucket has no segments of {', '.join(missing) or 'any topic'}")
    return dict(sorted(_of_one_id(found, topic_ids).items()))


def _of_one_id(
    found: Mapping[tuple[str, UUID], list[SurveyedPartition]], requested: Collection[UUID]
) -> dict[tuple[str, UUID], list[SurveyedPartition]]:
    """Return the topics with one id for each name. Raise UsageFailure if a choice is missing."""
    ids: dict[str, list[UUID]] = {}
    for name, topic_id in found:
        ids.setdefault(name, []).append(topic_id)
    chosen = {}
    for name, candidates in ids.items():
        wanted = [each for each in candidates if each in requested]
        if len(candidates) > 1 and len(wanted) != 1:
            texts = ", ".join(sorted(map(uuid_text, candidates)))
            raise UsageFailure(f"topic {name} was re-created: give --topic-id with one of {texts}")
        topic_id = wanted[0] if wanted else candidates[0]
        chosen[name, topic_id] = found[name, topic_id]
    return chosen


def target_of(admin: Admin, cluster: ClusterConnection, bucket: Bucket) -> Target:
    """Return the cluster in which topics are restored from `bucket`."""
    return Target(
        admin=admin,
        bucket=bucket,
        bootstrap_servers=cluster.bootstrap,
        consumer_options=cluster.client_options(ConsumerConfig),
        producer_options=cluster.client_options(ProducerConfig),
    )


async def apply_plans(target: Target, report: RestoreReport, *, executes: bool) -> None:
    """Check whether the cluster can restore the topics of `report`, and restore them if `executes`."""
    total = sum(plan.segment_count for plan in report.plans)
    before = 0
    with bar("segments", total) as show:
        for plan in report.plans:
            restore = TopicRestore(target, plan)
            obstacles = await restore.obstacles()
            if executes and not obstacles:

                def on_progress(step: str, done: int, before: int = before, plan: TopicPlan = plan) -> None:
                    show(before + (done if step == "register" else plan.segment_count), plan.name)

                try:
                    report.outcomes[plan.name] = await restore.run(on_progress)
                except RestoreError as error:
                    obstacles = [str(error)]
                except KafkaError as error:
                    obstacles = [f"{plan.name}: {kafka_error_text(error)}; repeat the command to continue"]
                except TimeoutError:
                    obstacles = [
                        f"{plan.name}: not every leader recovered its log within {target.wait_s:g} s; "
                        "repeat the command to continue"
                    ]
            report.obstacles[plan.name] = obstacles
            before += plan.segment_count
            show(before, plan.name)


# --- output -------------------------------------------------------------------------------


def print_report(report: RestoreReport, options: RestoreOptions) -> None:
    """Print the plan of each partition, what is left out, and the outcome."""
    if options.as_json:
        print_json([_topic_document(plan, report) for plan in report.plans])
        return
    rows = [_row(each, report) for plan in report.plans for each in plan.partitions]
    print_table(("partition", "start", "end", "segments", "bytes", "left out", "state"), rows)
    for line in topic_notes(report):
        print(line)
    print_obstacles(report)
    ready = [plan for plan in report.plans if not report.obstacles.get(plan.name)]
    topics = count_text(len(report.plans), "topic")
    if options.executes:
        print(f"{len(report.outcomes)} of {topics} restored")
    else:
        print(f"dry run: {len(ready)} of {topics} can be restored; --execute restores them")


def print_obstacles(report: RestoreReport) -> None:
    """Print why topics cannot be restored, on standard error."""
    for obstacle in (text for texts in report.obstacles.values() for text in texts):
        complain(obstacle)


def _row(plan: PartitionPlan, report: RestoreReport) -> tuple[object, ...]:
    name = plan.partition.topic_partition
    outcome = report.outcomes.get(name.topic)
    state = "rejected" if report.obstacles.get(name.topic) else "ready"
    if outcome is not None:
        state = "restored"
    return (
        str(name),
        plan.start_offset,
        plan.end_offset,
        len(plan.segments),
        plan.size_bytes,
        len(plan.left_out),
        state,
    )


def topic_notes(report: RestoreReport) -> Iterable[str]:
    """Return lines about left out segments, gaps and open transactions."""
    for plan in report.plans:
        for each in plan.partitions:
            name = each.partition.topic_partition
            for left_out in each.left_out:
                yield f"left out: {name} {left_out.name}: {left_out.reason}"
            for gap in () if each.log is None else each.log.gaps:
                yield f"lost: {name} {offsets_text(gap.start_offset, gap.end_offset - 1)}: in no segment"
            for producer in each.open_transactions:
                yield (
                    f"open transaction: {name} producer {producer.producer_id} from offset "
                    f"{producer.transaction_first_offset}: its end was lost, it is aborted"
                )


def _topic_document(plan: TopicPlan, report: RestoreReport) -> dict[str, Any]:
    outcome = report.outcomes.get(plan.name)
    return {
        "topic": plan.name,
        "topic_id": plan.topic_id,
        "leader_epoch": plan.leader_epoch,
        "configs": dict(plan.configs),
        "restored": outcome is not None,
        "obstacles": report.obstacles.get(plan.name, []),
        "partitions": [partition_document(each, outcome) for each in plan.partitions],
    }


def partition_document(plan: PartitionPlan, outcome: RestoreOutcome | None) -> dict[str, Any]:
    """Return the plan of a partition, and the offsets of its leader, for JSON."""
    name = plan.partition.topic_partition
    offsets = None if outcome is None else outcome.offsets.get(name)
    return {
        "partition": name.partition,
        "start_offset": plan.start_offset,
        "end_offset": plan.end_offset,
        "segments": len(plan.segments),
        "bytes": plan.size_bytes,
        "left_out": [{"name": each.name, "reason": each.reason} for each in plan.left_out],
        "gaps": [] if plan.log is None else [list(gap) for gap in plan.log.gaps],
        "open_transactions": [
            {"producer_id": each.producer_id, "first_offset": each.transaction_first_offset}
            for each in plan.open_transactions
        ],
        "log_start_offset": None if offsets is None else offsets[0],
        "log_end_offset": None if offsets is None else offsets[1],
    }
