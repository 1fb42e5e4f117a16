"""A snapshot of an image gives an equal image after any commands."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.metadata.image_commands import COMMANDS, perform
from tests.support.metadata.images import (
    SeededRandomness,
    image_after_records,
    image_after_result,
    image_with_brokers,
)
from tidelog.cluster.image import MetadataImage
from tidelog.cluster.image_records import image_records
from tidelog.cluster.metadata_log_codec import decode_record, encode_record
from tidelog.protocol.metadata_records.access_control_entry_record import AccessControlEntryRecord
from tidelog.protocol.metadata_records.client_quota_record import ClientQuotaRecord, EntityData
from tidelog.protocol.metadata_records.delegation_token_record import DelegationTokenRecord
from tidelog.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from tidelog.protocol.metadata_records.register_controller_record import RegisterControllerRecord
from tidelog.protocol.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from tidelog.protocol.schema import MetadataRecord


def assert_is_sound(image: MetadataImage) -> None:
    assert {topic.id for topic in image.topics_by_name.values()} == set(image.topics_by_id)
    for topic in image.topics_by_name.values():
        assert image.topics_by_id[topic.id] is topic
        assert list(topic.partitions) == list(range(len(topic.partitions)))
        for partition in topic.partitions.values():
            assert set(partition.isr) <= set(partition.replicas)
            assert partition.leader == -1 or partition.leader in partition.isr
            assert len(partition.directories) == len(partition.replicas)
    assert all(configs for configs in image.configs.values())
    assert all(name in image.topics_by_name for kind, name in image.configs if kind == 2)


@given(st.lists(COMMANDS, max_size=25), st.integers(0, 1000))
@settings(max_examples=150, deadline=None)
def test_a_snapshot_of_a_random_history_gives_the_same_image(
    commands: list[tuple[object, ...]], seed: int
) -> None:
    chance = SeededRandomness(seed)
    image = image_with_brokers(1, 2, features=True)
    history: list[MetadataRecord] = [*image_records(image)]
    for command in commands:
        for result in perform(image, command, chance):
            history += [decode_record(encode_record(record)) for record in result.records]
            image = image_after_result(image, result)
            assert_is_sound(image)
    bare = replace(image, offset=0, epoch=1)
    assert image_after_records(history) == bare
    assert image_after_records(image_records(image)) == bare


def test_a_snapshot_holds_every_kind_of_metadata() -> None:
    image = image_after_records(
        [
            FeatureLevelRecord(name="group.version", feature_level=1),
            FeatureLevelRecord(name="metadata.version", feature_level=30),
            RegisterControllerRecord(controller_id=1, incarnation_id=UUID(int=3)),
            ClientQuotaRecord(
                entity=(EntityData(entity_type="user", entity_name=None),), key="rate", value=1.5
            ),
            AccessControlEntryRecord(id=UUID(int=4), principal="User:a"),
            UserScramCredentialRecord(name="a", mechanism=1),
            DelegationTokenRecord(token_id="t"),
        ]
    )
    records = list(image_records(image))
    assert image_after_records(records) == image
    assert records[0] == FeatureLevelRecord(name="metadata.version", feature_level=30)
