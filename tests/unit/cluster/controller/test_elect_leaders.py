"""Elections on request and periodic ones: preferred and unclean."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.configs import controller_settings
from tests.support.metadata.images import (
    creatable,
    image_after_records,
    image_after_result,
    image_with_brokers,
    with_topics,
)
from tests.unit.cluster.controller.invariants import check_image, check_step
from tidelog.cluster.controller.elect_leaders import (
    MAX_ELECTIONS,
    ElectionType,
    balance_leaders,
    elect_leaders,
    elect_unclean,
)
from tidelog.cluster.controller.result import MAX_RECORDS_PER_COMMAND
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.cluster.image import MetadataImage, PartitionImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.protocol.steps import run_steps

SETTINGS = controller_settings(node_id=1)
UNCLEAN_SETTINGS = controller_settings(node_id=1, static_configs={"unclean.leader.election.enable": "true"})
OFFLINE: dict[str, Any] = {
    "replicas": (3, 1, 2),
    "isr": (),
    "leader": -1,
    "eligible_leader_replicas": (3,),
    "last_known_elr": (3,),
}
UNBALANCED: dict[str, Any] = {"replicas": (2, 1), "isr": (1, 2), "leader": 1}
PREFERRED_IS_BEHIND: dict[str, Any] = {"replicas": (2, 1), "isr": (1,), "leader": 1}
BALANCED: dict[str, Any] = {"replicas": (1, 2), "isr": (1, 2), "leader": 1}


def image_with_partitions(*partitions: dict[str, Any], **configs: str) -> MetadataImage:
    """Return an image with brokers 1 and 2, a fenced broker 3, and a topic `orders` with `partitions`."""
    topic_configs = {key.replace("_", "."): value for key, value in configs.items()}
    image = with_topics(
        image_with_brokers(1, 2, 3, fenced=(3,), features=True),
        creatable("orders", len(partitions), configs=dict(topic_configs)),
    )
    topic_id = image.topics_by_name["orders"].id
    records = [
        PartitionChangeRecord(topic_id=topic_id, partition_id=index, **fields)
        for index, fields in enumerate(partitions)
    ]
    return image_after_records(records, image, offset=500)


def partition(image: MetadataImage, index: int = 0) -> PartitionImage:
    return image.topics_by_name["orders"].partitions[index]


def elect(
    image: MetadataImage, kind: int, *indexes: int, topic: str = "orders"
) -> tuple[dict[int, int], MetadataImage]:
    """Return the error codes by partition; without `indexes`, those of all partitions."""
    named = (TopicPartitions(topic=topic, partitions=indexes),) if indexes else None
    request = ElectLeadersRequest(election_type=kind, topic_partitions=named)
    result = run_steps(elect_leaders(image, SETTINGS, request))
    after = image_after_result(image, result)
    check_image(after)
    check_step(image, after)
    (topic_result,) = result.reply.replica_election_results
    assert topic_result.topic == topic
    return {each.partition_id: each.error_code for each in topic_result.partition_result}, after


def test_preferred_replicas_become_leader_if_they_are_alive_and_in_sync() -> None:
    image = image_with_partitions(UNBALANCED, BALANCED, PREFERRED_IS_BEHIND)
    codes, after = elect(image, ElectionType.PREFERRED, 0, 1, 2, 7)
    assert codes == {
        0: ErrorCode.NONE,
        1: ErrorCode.ELECTION_NOT_NEEDED,
        2: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert [partition(after, index).leader for index in range(3)] == [2, 1, 1]
    assert partition(after).leader_epoch == partition(image).leader_epoch + 1


def test_an_election_of_all_partitions_omits_those_with_the_preferred_leader() -> None:
    codes, _ = elect(image_with_partitions(UNBALANCED, BALANCED, PREFERRED_IS_BEHIND), ElectionType.PREFERRED)
    assert codes == {0: ErrorCode.NONE, 2: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}


def test_an_election_of_more_partitions_than_a_batch_holds_is_written_in_several_batches() -> None:
    image = image_with_partitions(*[UNBALANCED] * 2)
    topic = image.topics_by_name["orders"]
    count = MAX_RECORDS_PER_COMMAND + 1
    many = replace(topic, partitions=dict.fromkeys(range(count), topic.partitions[0]))
    image = replace(image, topics_by_name={"orders": many}, topics_by_id={topic.id: many})
    request = ElectLeadersRequest(election_type=ElectionType.PREFERRED, topic_partitions=None)
    result = run_steps(elect_leaders(image, SETTINGS, request))
    assert sum(map(len, result.batches())) == count


def test_unclean_election_elects_any_live_replica_of_an_offline_partition() -> None:
    image = image_with_partitions(OFFLINE, BALANCED)
    codes, after = elect(image, ElectionType.UNCLEAN, 0, 1)
    assert codes == {0: ErrorCode.NONE, 1: ErrorCode.ELECTION_NOT_NEEDED}
    assert (partition(after).leader, partition(after).isr) == (1, (1,))
    assert partition(after).leader_recovery_state == 1
    assert partition(after).eligible_leader_replicas == ()


def test_no_leader_is_elected_without_a_live_replica() -> None:
    codes, _ = elect(image_with_partitions(OFFLINE | {"replicas": (3,)}), ElectionType.UNCLEAN, 0)
    assert codes == {0: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}


def test_an_unknown_topic_is_reported() -> None:
    codes, _ = elect(image_with_partitions(BALANCED), ElectionType.PREFERRED, 0, topic="nowhere")
    assert codes == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_an_unknown_election_type_is_refused() -> None:
    with pytest.raises(KafkaError) as error:
        elect(image_with_partitions(BALANCED), 2, 0)
    assert error.value.code is ErrorCode.INVALID_REQUEST


def test_rebalancing_moves_leadership_to_preferred_replicas_once() -> None:
    image = image_with_partitions(UNBALANCED, BALANCED, PREFERRED_IS_BEHIND, OFFLINE)
    result = balance_leaders(image, SETTINGS)
    after = image_after_result(image, result)
    assert result.reply is False
    assert [partition(after, index).leader for index in range(4)] == [2, 1, 1, -1]
    assert balance_leaders(after, SETTINGS).records == ()


def test_rebalancing_moves_at_most_1000_partitions_and_reports_more() -> None:
    image = image_with_partitions(*[UNBALANCED] * (MAX_ELECTIONS + 5))
    result = balance_leaders(image, SETTINGS)
    assert (len(result.records), result.reply) == (MAX_ELECTIONS, True)
    rest = balance_leaders(image_after_result(image, result), SETTINGS)
    assert (len(rest.records), rest.reply) == (5, False)


@pytest.mark.parametrize(
    ("settings", "configs", "leader"),
    [
        (SETTINGS, {}, -1),
        (SETTINGS, {"unclean_leader_election_enable": "true"}, 1),
        (UNCLEAN_SETTINGS, {}, 1),
        (UNCLEAN_SETTINGS, {"unclean_leader_election_enable": "false"}, -1),
    ],
)
def test_topics_with_unclean_leader_election_get_any_live_replica_as_leader(
    settings: ControllerSettings, configs: dict[str, str], leader: int
) -> None:
    image = image_with_partitions(OFFLINE, BALANCED, **configs)
    result = elect_unclean(image, settings)
    assert result.reply is False
    assert partition(image_after_result(image, result)).leader == leader
    assert partition(image_after_result(image, result), 1) == partition(image, 1)
