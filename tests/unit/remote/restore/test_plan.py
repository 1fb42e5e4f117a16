"""Plans of restored topics: registered segments, those left out, epochs, producer ids and problems."""

from __future__ import annotations

from dataclasses import replace

from tests.support.tier.segment_metadata import PARTITION, copy_start
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.restore.plan import (
    EPOCH_MARGIN,
    LeftOut,
    PlanOptions,
    SurveyedPartition,
    TopicPlan,
    topic_plan,
)
from tidelog.remote.tasks.recovered_log import log_position
from tidelog.storage.leader_epoch import EpochEntry
from tidelog.storage.producers.producer_entry import ProducerEntry


def survey(
    *segments: RemoteLogSegmentMetadata, checkpoint: tuple[tuple[int, int], ...] = ()
) -> SurveyedPartition:
    return SurveyedPartition(
        partition=PARTITION,
        segments=segments,
        newest=max(segments, key=log_position),
        checkpoint=tuple(EpochEntry(*each) for each in checkpoint),
    )


def plan(partition: SurveyedPartition, options: PlanOptions | None = None) -> TopicPlan:
    return topic_plan(PARTITION.topic, PARTITION.topic_id, [partition], options or PlanOptions())


def test_every_segment_of_the_lineage_is_registered_in_the_order_of_its_copy() -> None:
    first, second = copy_start(1, 0, 49, 5), copy_start(0, 50, 99, 5)
    (partition,) = plan(survey(first, second, checkpoint=((5, 0),))).partitions
    assert partition.segments == (second, first)
    assert (partition.start_offset, partition.end_offset, partition.left_out) == (0, 100, ())


def test_segments_of_another_lineage_are_left_out_with_the_reason() -> None:
    lost = copy_start(2, 50, 119, 6)
    result = plan(
        survey(copy_start(1, 0, 49, 5), lost, copy_start(3, 50, 99, 7), checkpoint=((5, 0), (7, 50)))
    )
    (partition,) = result.partitions
    assert lost not in partition.segments
    assert "another lineage" in partition.left_out[0].reason
    assert not result.problems


def test_a_gap_is_a_problem_unless_it_is_accepted() -> None:
    partition = survey(copy_start(1, 0, 9, 5), copy_start(2, 20, 29, 5), checkpoint=((5, 0),))
    (problem,) = plan(partition).problems
    assert "offsets 10-19" in problem
    accepted = plan(partition, PlanOptions(accepts_gaps=True))
    assert not accepted.problems
    assert [each.start_offset for each in accepted.partitions[0].segments] == [20]
    assert accepted.partitions[0].left_out[0].reason == "before a gap"


def test_segments_that_disagree_about_the_start_of_an_epoch_are_rejected() -> None:
    partition = survey(
        copy_start(1, 0, 99, ((5, 0), (6, 40))), copy_start(2, 100, 199, 6), checkpoint=((5, 0), (6, 50))
    )
    problem, _ = plan(partition).problems
    assert "disagree about leader epochs" in problem


def test_damaged_segments_are_a_problem_unless_they_are_accepted() -> None:
    partition = replace(
        survey(copy_start(1, 0, 9, 5)), unusable=(LeftOut("segment 10-19", "missing"),), is_damaged=True
    )
    assert plan(partition).problems
    assert not plan(partition, PlanOptions(accepts_gaps=True)).problems


def test_objects_of_an_unfinished_copy_are_no_problem() -> None:
    partition = replace(survey(copy_start(1, 0, 9, 5)), unusable=(LeftOut("20.log", "no manifest"),))
    result = plan(partition)
    assert not result.problems
    assert result.partitions[0].left_out == (LeftOut("20.log", "no manifest"),)


def test_new_leader_epochs_are_above_all_in_the_bucket_also_of_other_lineages() -> None:
    result = plan(survey(copy_start(1, 0, 49, 5), copy_start(2, 0, 9, 9), checkpoint=((9, 0),)))
    assert result.identity.leader_epoch == 10 + EPOCH_MARGIN


def test_a_higher_leader_epoch_of_a_backup_is_used() -> None:
    result = plan(survey(copy_start(1, 0, 49, 5)), PlanOptions(leader_epoch=50_000))
    assert result.identity.leader_epoch == 50_000


def test_new_producer_ids_are_above_those_in_the_snapshots() -> None:
    partition = replace(survey(copy_start(1, 0, 9, 5)), producers=(ProducerEntry(7), ProducerEntry(4_000)))
    assert plan(partition).identity.next_producer_id == 5_000
    assert plan(survey(copy_start(1, 0, 9, 5))).identity.next_producer_id == 0


def test_transactions_without_an_end_are_listed() -> None:
    open_one = ProducerEntry(7, transaction_first_offset=3)
    partition = replace(survey(copy_start(1, 0, 9, 5)), producers=(open_one, ProducerEntry(8)))
    assert plan(partition).partitions[0].open_transactions == (open_one,)


def test_partitions_without_segments_are_empty() -> None:
    result = plan(survey(copy_start(1, 0, 9, 5)), PlanOptions(partitions=3))
    assert [each.end_offset for each in result.partitions] == [10, 0, 0]


def test_a_topic_without_known_configs_is_kept_for_ever_by_default() -> None:
    configs = plan(survey(copy_start(1, 0, 9))).configs
    assert configs == {"remote.storage.enable": "true", "retention.ms": "-1", "retention.bytes": "-1"}
