"""Reassignments are started, validated, cancelled and listed."""

from __future__ import annotations

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
from tidelog.cluster.controller.reassignments import (
    alter_partition_reassignments,
    list_partition_reassignments,
)
from tidelog.cluster.image import MetadataImage, PartitionImage
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
)
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.protocol.steps import run_steps

SETTINGS = controller_settings(node_id=1)


def image_with_partitions(*partitions: dict[str, Any], **configs: str) -> MetadataImage:
    """Return an image with brokers 0 to 4, the last one fenced, and a topic `orders` with `partitions`."""
    topic_configs = {key.replace("_", "."): value for key, value in configs.items()}
    image = with_topics(
        image_with_brokers(0, 1, 2, 3, 4, fenced=(4,), features=True),
        creatable("orders", len(partitions), configs=dict(topic_configs)),
    )
    topic_id = image.topics_by_name["orders"].id
    records = [
        PartitionChangeRecord(topic_id=topic_id, partition_id=index, **fields)
        for index, fields in enumerate(partitions)
    ]
    return image_after_records(records, image, offset=500)


def partition_on(*replicas: int, **fields: Any) -> dict[str, Any]:
    return {"replicas": replicas, "isr": replicas, "leader": replicas[0]} | fields


def partition(image: MetadataImage, index: int = 0) -> PartitionImage:
    return image.topics_by_name["orders"].partitions[index]


def reassign(
    image: MetadataImage,
    targets: dict[int, tuple[int, ...] | None],
    *,
    topic: str = "orders",
    other_factor: bool = True,
) -> tuple[dict[int, int], MetadataImage]:
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=other_factor,
        topics=(
            ReassignableTopic(
                name=topic,
                partitions=tuple(
                    ReassignablePartition(partition_index=index, replicas=replicas)
                    for index, replicas in targets.items()
                ),
            ),
        ),
    )
    result = run_steps(alter_partition_reassignments(image, SETTINGS, request))
    after = image_after_result(image, result)
    check_image(after)
    check_step(image, after)
    assert result.reply.error_code == 0
    assert result.reply.allow_replication_factor_change is other_factor
    (response,) = result.reply.responses
    for each in response.partitions:
        assert (each.error_message is None) == (each.error_code == 0)
    return {each.partition_index: each.error_code for each in response.partitions}, after


def test_replicas_are_added_before_others_are_removed() -> None:
    codes, after = reassign(image_with_partitions(partition_on(1, 2, 3)), {0: (0, 2, 1)})
    assert codes == {0: 0}
    assert partition(after).replicas == (0, 2, 1, 3)
    assert (partition(after).adding_replicas, partition(after).removing_replicas) == ((0,), (3,))
    assert (partition(after).leader, partition(after).isr) == (1, (1, 2, 3))


def test_a_reassignment_without_new_replicas_completes_at_once() -> None:
    codes, after = reassign(
        image_with_partitions(partition_on(1, 2, 3), partition_on(1, 2, 3)), {0: (3, 1), 1: (2, 3, 1)}
    )
    assert codes == {0: 0, 1: 0}
    assert (partition(after).replicas, partition(after).leader) == ((3, 1), 1)
    assert (
        partition(after).leader_epoch
        == partition(image_with_partitions(partition_on(1, 2, 3))).leader_epoch + 1
    )
    assert (partition(after, 1).replicas, partition(after, 1).leader) == ((2, 3, 1), 1)


def test_a_fenced_broker_may_be_a_target() -> None:
    codes, after = reassign(image_with_partitions(partition_on(1, 2)), {0: (1, 4)})
    assert codes == {0: 0}
    assert partition(after).adding_replicas == (4,)


@pytest.mark.parametrize(
    ("targets", "code"),
    [
        ({0: ()}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({0: (1, 1)}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({0: (1, 9)}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({0: (1, -2)}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({5: (1, 2)}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({0: None}, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_an_invalid_reassignment_is_refused(
    targets: dict[int, tuple[int, ...] | None], code: ErrorCode
) -> None:
    image = image_with_partitions(partition_on(1, 2))
    codes, after = reassign(image, targets)
    assert list(codes.values()) == [code]
    assert after == image


def test_an_unknown_topic_is_refused() -> None:
    codes, _ = reassign(image_with_partitions(partition_on(1, 2)), {0: (1, 3)}, topic="nowhere")
    assert codes == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_a_change_of_the_replication_factor_can_be_refused() -> None:
    image = image_with_partitions(
        partition_on(1, 2), partition_on(1, 2, 3, adding_replicas=(), removing_replicas=(3,), isr=(1, 3))
    )
    codes, _ = reassign(image, {0: (1,), 1: (1, 2, 3)}, other_factor=False)
    assert codes == dict.fromkeys((0, 1), ErrorCode.INVALID_REPLICATION_FACTOR)
    codes, _ = reassign(image, {0: (2, 3), 1: (1, 0)}, other_factor=False)
    assert codes == {0: 0, 1: 0}


def test_a_reassignment_is_cancelled() -> None:
    image = image_with_partitions(
        partition_on(0, 2, 1, 3, isr=(1, 2, 3), leader=1, adding_replicas=(0,), removing_replicas=(3,))
    )
    codes, after = reassign(image, {0: None})
    assert codes == {0: 0}
    assert (partition(after).replicas, partition(after).isr, partition(after).leader) == (
        (2, 1, 3),
        (1, 2, 3),
        1,
    )
    assert (partition(after).adding_replicas, partition(after).removing_replicas) == ((), ())
    assert partition(after).leader_epoch == partition(image).leader_epoch + 1


def test_a_leader_that_was_being_added_is_replaced_on_cancellation() -> None:
    image = image_with_partitions(partition_on(0, 1, 2, isr=(0, 2), leader=0, adding_replicas=(0,)))
    _, after = reassign(image, {0: None})
    assert (partition(after).leader, partition(after).isr) == (2, (2,))


@pytest.mark.parametrize(("allowed", "code"), [("false", ErrorCode.INVALID_REPLICA_ASSIGNMENT), ("true", 0)])
def test_cancellation_to_replicas_outside_the_isr_needs_unclean_election(allowed: str, code: int) -> None:
    image = image_with_partitions(
        partition_on(0, 1, 2, isr=(0,), leader=0, adding_replicas=(0,)),
        unclean_leader_election_enable=allowed,
    )
    codes, after = reassign(image, {0: None})
    assert codes == {0: code}
    assert partition(after).leader == (0 if code else 1)


def test_a_reassignment_is_replaced_by_another() -> None:
    _, first = reassign(image_with_partitions(partition_on(1, 2, 3)), {0: (0, 2, 1)})
    _, second = reassign(first, {0: (1, 2, 3)})
    assert partition(second).replicas == (1, 2, 3)
    assert not partition(second).adding_replicas and not partition(second).removing_replicas


def list_reassignments(
    image: MetadataImage, topics: tuple[ListPartitionReassignmentsTopics, ...] | None
) -> dict[str, list[OngoingPartitionReassignment]]:
    reply = run_steps(list_partition_reassignments(image, ListPartitionReassignmentsRequest(topics=topics)))
    return {topic.name: list(topic.partitions) for topic in reply.topics}


def test_a_long_list_of_reassignments_is_built_in_steps() -> None:
    many = 1_000
    requested = ListPartitionReassignmentsTopics(name="orders", partition_indexes=tuple(range(many)))
    request = ListPartitionReassignmentsRequest(topics=(requested,))
    steps = list_partition_reassignments(image_with_partitions(*[partition_on(1, 2)] * many), request)
    assert sum(1 for _ in steps) >= many


def test_reassignments_in_progress_are_listed() -> None:
    _, image = reassign(
        image_with_partitions(partition_on(1, 2), partition_on(1, 2), partition_on(1, 2)), {1: (0, 1)}
    )
    ongoing = OngoingPartitionReassignment(
        partition_index=1, replicas=(0, 1, 2), adding_replicas=(0,), removing_replicas=(2,)
    )
    assert list_reassignments(image, None) == {"orders": [ongoing]}
    requested = ListPartitionReassignmentsTopics(name="orders", partition_indexes=(0, 1, 9))
    assert list_reassignments(image, (requested,)) == {"orders": [ongoing]}
    idle = ListPartitionReassignmentsTopics(name="orders", partition_indexes=(0,))
    nowhere = ListPartitionReassignmentsTopics(name="nowhere", partition_indexes=(0,))
    assert list_reassignments(image, (idle, nowhere)) == {}
