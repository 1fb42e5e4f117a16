"""The plans of `tidelog cluster restore` for the topics of a backup (shell).

A topic that was created by `tidelog tier restore --at` is planned from two topics in the bucket: its own
segments, and the segments of its source up to the time, which are referenced again.

I/O: blocks. Errors: RemoteStorageError if the store does not respond.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.broker.backup.archive import ClusterBackup
from tidelog.broker.backup.contents import BackupTopic
from tidelog.cli.tier.restore import survey_with_progress
from tidelog.protocol.ids import uuid_text
from tidelog.remote.inspection.bucket import Bucket
from tidelog.remote.restore.plan import EPOCH_MARGIN, PlanOptions, SurveyedPartition, TopicPlan, topic_plan
from tidelog.remote.restore.rejoining import rejoined
from tidelog.remote.restore.time_travel import travel_of, travelled
from tidelog.storage.config.topic_source import TopicSource, source_of

Surveyed: TypeAlias = Mapping[tuple[str, UUID], list[SurveyedPartition]]
"""The partitions in the bucket, by name and topic id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChoices:
    """The decisions of the operator; `replication_factor` None is that of each topic in the backup."""

    accepts_gaps: bool
    replication_factor: int | None


def topic_plans(
    bucket: Bucket, backup: ClusterBackup, topics: Iterable[BackupTopic], choices: PlanChoices, folder: Path
) -> list[TopicPlan]:
    """Return the plans of `topics`; `folder` gets the files of segments that are copied."""
    topics = list(topics)
    sources = {topic.name: _source(topic) for topic in topics}
    names = {topic.name for topic in topics if topic.is_tiered}
    names |= {source.topic for source in sources.values() if source is not None}
    found = survey_with_progress(bucket, sorted(names)) if names else {}
    return [
        _plan(topic, found.get((topic.name, topic.topic_id), []), choices)
        if (source := sources[topic.name]) is None
        else _plan_with_source(bucket, backup, topic, source, found, choices, folder)
        for topic in topics
    ]


def _source(topic: BackupTopic) -> TopicSource | None:
    """Return the source of a topic as of a time; mounted topics list theirs themselves."""
    source = source_of(topic.configs)
    return None if source is None or source.mount is not None else source


def _plan(topic: BackupTopic, partitions: list[SurveyedPartition], choices: PlanChoices) -> TopicPlan:
    factor = choices.replication_factor
    return topic_plan(
        topic.name,
        topic.topic_id,
        partitions,
        PlanOptions(
            partitions=topic.partitions,
            replication_factor=topic.replication_factor if factor is None else factor,
            configs=topic.configs,
            leader_epoch=topic.leader_epoch + 1 + EPOCH_MARGIN,
            accepts_gaps=choices.accepts_gaps,
        ),
    )


def _plan_with_source(
    bucket: Bucket,
    backup: ClusterBackup,
    topic: BackupTopic,
    source: TopicSource,
    found: Surveyed,
    choices: PlanChoices,
    folder: Path,
) -> TopicPlan:
    travel = travel_of(topic.name, topic.topic_id, source)
    if travel is None:
        problem = f"{topic.name}: its id {uuid_text(topic.topic_id)} is not that of a topic as of a time"
        return replace(_plan(topic, [], choices), problems=(problem,))
    own = {each.partition.partition: each for each in found.get((topic.name, topic.topic_id), [])}
    partitions = []
    for each in found.get((source.topic, source.topic_id), []):
        by_reference = travelled(bucket, each, travel, folder / topic.name)
        name = by_reference.surveyed.partition
        known = backup.partitions.get(name.topic_partition)
        start_offset = 0 if known is None else known.start_offset
        partitions.append(rejoined(by_reference, own.pop(name.partition, None), start_offset))
    plan = _plan(topic, [*(each.surveyed for each in partitions), *own.values()], choices)
    return replace(plan, tails=tuple(tail for each in partitions for tail in each.tails), source=source)
