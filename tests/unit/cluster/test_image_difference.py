"""The difference of two images contains exactly their differences."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.metadata.image_commands import COMMANDS, perform
from tests.support.metadata.images import (
    SeededRandomness,
    creatable,
    image_after_records,
    image_after_result,
    image_with_brokers,
    with_topics,
)
from tidelog.cluster.image import MetadataImage
from tidelog.cluster.image_difference import difference, difference_records
from tidelog.protocol.metadata_records.access_control_entry_record import AccessControlEntryRecord
from tidelog.protocol.metadata_records.client_quota_record import ClientQuotaRecord, EntityData
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.delegation_token_record import DelegationTokenRecord
from tidelog.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from tidelog.protocol.metadata_records.partition_record import PartitionRecord
from tidelog.protocol.metadata_records.producer_ids_record import ProducerIdsRecord
from tidelog.protocol.metadata_records.register_controller_record import RegisterControllerRecord
from tidelog.protocol.metadata_records.remove_topic_record import RemoveTopicRecord
from tidelog.protocol.metadata_records.topic_record import TopicRecord
from tidelog.protocol.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from tidelog.protocol.schema import MetadataRecord


def bare(image: MetadataImage) -> MetadataImage:
    return replace(image, offset=0, epoch=1)


def image_after(
    image: MetadataImage, commands: list[tuple[object, ...]], chance: SeededRandomness
) -> MetadataImage:
    for command in commands:
        for result in perform(image, command, chance):
            image = image_after_result(image, result)
    return image


def has_topic_that_loses_partitions(old: MetadataImage, new: MetadataImage) -> bool:
    """Return whether a topic has fewer partitions in `new` than in `old`, which no history contains."""
    return any(
        len(topic.partitions) < len(old.topics_by_id[topic_id].partitions)
        for topic_id, topic in new.topics_by_id.items()
        if topic_id in old.topics_by_id
    )


def assert_leads(old: MetadataImage, new: MetadataImage) -> None:
    assert bare(image_after_records(difference_records(old, new), old)) == bare(new)
    assert list(difference_records(new, new)) == []


@given(*[st.lists(COMMANDS, max_size=12)] * 3, st.integers(0, 1000))
@settings(max_examples=150, deadline=None)
def test_applying_the_difference_of_two_images_gives_the_second(
    common: list[tuple[object, ...]],
    one: list[tuple[object, ...]],
    other: list[tuple[object, ...]],
    seed: int,
) -> None:
    chance = SeededRandomness(seed)
    image = image_after(image_with_brokers(1, 2, features=True), common, chance)
    left, right = image_after(image, one, chance), image_after(image, other, chance)
    assert_leads(image, left)
    for old, new in ((left, image), (left, right)):
        if not has_topic_that_loses_partitions(old, new):
            assert_leads(old, new)


def test_a_topic_keeps_the_partitions_that_only_the_older_image_has() -> None:
    few = with_topics(image_with_brokers(1), creatable("a"))
    many = image_after(few, [("partitions", "a", 2)], SeededRandomness(0))
    assert has_topic_that_loses_partitions(many, few)
    assert list(difference_records(many, few)) == []


def quota(value: float) -> ClientQuotaRecord:
    entity = (EntityData(entity_type="user", entity_name=None),)
    return ClientQuotaRecord(entity=entity, key="rate", value=value)


def test_every_kind_of_metadata_is_added_changed_and_removed() -> None:
    full: list[MetadataRecord] = [
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        ConfigRecord(resource_type=4, resource_name="", name="k", value="v"),
        quota(1.5),
        AccessControlEntryRecord(id=UUID(int=4), principal="User:a"),
        UserScramCredentialRecord(name="a", mechanism=1, iterations=1),
        DelegationTokenRecord(token_id="t", owner="a"),
        ProducerIdsRecord(broker_id=1, next_producer_id=1000),
    ]
    changed: list[MetadataRecord] = [
        FeatureLevelRecord(name="metadata.version", feature_level=29),
        ConfigRecord(resource_type=4, resource_name="", name="k", value="w"),
        quota(2.5),
        UserScramCredentialRecord(name="a", mechanism=1, iterations=2),
        DelegationTokenRecord(token_id="t", owner="b"),
        ProducerIdsRecord(broker_id=1, next_producer_id=2000),
    ]
    nothing, first, second = (
        image_after_records([]),
        image_after_records(full),
        image_after_records(changed, image_after_records(full)),
    )
    for old, new in ((nothing, first), (first, second), (second, nothing), (second, first)):
        assert_leads(old, new)
    controller = RegisterControllerRecord(controller_id=1, incarnation_id=UUID(int=3))
    assert_leads(nothing, image_after_records([controller]))


def test_a_topic_that_was_recreated_is_reported_as_deleted_and_new() -> None:
    old = with_topics(image_with_brokers(1), creatable("a", configs={"retention.ms": "1"}), creatable("b"))
    topic_id = old.topics_by_name["a"].id
    records: list[MetadataRecord] = [
        RemoveTopicRecord(topic_id=topic_id),
        TopicRecord(name="a", topic_id=UUID(int=77)),
        PartitionRecord(topic_id=UUID(int=77), replicas=(1,), isr=(1,), leader=1),
        ConfigRecord(resource_type=2, resource_name="a", name="retention.ms", value="1"),
    ]
    new = image_after_records(records, old)
    delta = difference(old, new)
    assert [topic.id for topic in delta.deleted_topics] == [topic_id]
    assert delta.changed_topics == ("a",)
    assert_leads(old, new)
