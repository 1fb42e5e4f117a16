"""Elections on request and from time to time: preferred leaders, and any rather than none."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.configs import controller_settings
from tests.support.metadata.images import applied, creatable, image_with_brokers, replayed, with_topics
from tests.unit.cluster.controller.invariants import check_image, check_step
from tidelog.cluster.controller.elect_leaders import (
    MAX_ELECTIONS,
    ElectionType,
    balance_leaders,
    elect_leaders,
    elect_unclean,
)
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.cluster.image import MetadataImage, PartitionImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.protocol.steps import completed

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


def given(*partitions: dict[str, Any], **configs: str) -> MetadataImage:
    """Brokers 1 and 2, and 3 which is fenced; a topic `orders` with `partitions`."""
    own = {key.replace("_", "."): value for key, value in configs.items()}
    image = with_topics(
        image_with_brokers(1, 2, 3, fenced=(3,), features=True),
        creatable("orders", len(partitions), configs=dict(own)),
    )
    topic_id = image.topics_by_name["orders"].id
    records = [
        PartitionChangeRecord(topic_id=topic_id, partition_id=index, **fields)
        for index, fields in enumerate(partitions)
    ]
    return replayed(records, image, offset=500)


def partition(image: MetadataImage, index: int = 0) -> PartitionImage:
    return image.topics_by_name["orders"].partitions[index]


def elected(
    image: MetadataImage, kind: int, *indexes: int, topic: str = "orders"
) -> tuple[dict[int, int], MetadataImage]:
    """The codes by partition, of all partitions when none is named."""
    named = (TopicPartitions(topic=topic, partitions=indexes),) if indexes else None
    request = ElectLeadersRequest(election_type=kind, topic_partitions=named)
    result = completed(elect_leaders(image, SETTINGS, request))
    after = applied(image, result)
    check_image(after)
    check_step(image, after)
    (answer,) = result.reply.replica_election_results
    assert answer.topic == topic
    return {each.partition_id: each.error_code for each in answer.partition_result}, after


def test_preferred_leaders_are_elected_where_they_can_lead() -> None:
    image = given(UNBALANCED, BALANCED, PREFERRED_IS_BEHIND)
    codes, after = elected(image, ElectionType.PREFERRED, 0, 1, 2, 7)
    assert codes == {
        0: ErrorCode.NONE,
        1: ErrorCode.ELECTION_NOT_NEEDED,
        2: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert [partition(after, index).leader for index in range(3)] == [2, 1, 1]
    assert partition(after).leader_epoch == partition(image).leader_epoch + 1


def test_of_all_partitions_those_that_need_no_election_are_not_told() -> None:
    codes, _ = elected(given(UNBALANCED, BALANCED, PREFERRED_IS_BEHIND), ElectionType.PREFERRED)
    assert codes == {0: ErrorCode.NONE, 2: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}


def test_an_unclean_election_takes_any_living_replica_where_no_replica_leads() -> None:
    image = given(OFFLINE, BALANCED)
    codes, after = elected(image, ElectionType.UNCLEAN, 0, 1)
    assert codes == {0: ErrorCode.NONE, 1: ErrorCode.ELECTION_NOT_NEEDED}
    assert (partition(after).leader, partition(after).isr) == (1, (1,))
    assert partition(after).leader_recovery_state == 1
    assert partition(after).eligible_leader_replicas == ()


def test_no_replica_is_elected_when_every_replica_is_dead() -> None:
    codes, _ = elected(given(OFFLINE | {"replicas": (3,)}), ElectionType.UNCLEAN, 0)
    assert codes == {0: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}


def test_a_topic_that_does_not_exist_has_no_leaders() -> None:
    codes, _ = elected(given(BALANCED), ElectionType.PREFERRED, 0, topic="nowhere")
    assert codes == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_an_unknown_kind_of_election_is_refused() -> None:
    with pytest.raises(KafkaError) as error:
        elected(given(BALANCED), 2, 0)
    assert error.value.code is ErrorCode.INVALID_REQUEST


def test_balancing_elects_what_can_be_and_nothing_twice() -> None:
    image = given(UNBALANCED, BALANCED, PREFERRED_IS_BEHIND, OFFLINE)
    result = balance_leaders(image, SETTINGS)
    after = applied(image, result)
    assert result.reply is False
    assert [partition(after, index).leader for index in range(4)] == [2, 1, 1, -1]
    assert balance_leaders(after, SETTINGS).records == ()


def test_balancing_stops_after_a_thousand_and_says_that_there_is_more() -> None:
    image = given(*[UNBALANCED] * (MAX_ELECTIONS + 5))
    result = balance_leaders(image, SETTINGS)
    assert (len(result.records), result.reply) == (MAX_ELECTIONS, True)
    rest = balance_leaders(applied(image, result), SETTINGS)
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
def test_topics_that_allow_it_get_any_leader_rather_than_none(
    settings: ControllerSettings, configs: dict[str, str], leader: int
) -> None:
    image = given(OFFLINE, BALANCED, **configs)
    result = elect_unclean(image, settings)
    assert result.reply is False
    assert partition(applied(image, result)).leader == leader
    assert partition(applied(image, result), 1) == partition(image, 1)
