"""Batches are applied to the image; transactions are atomic."""

from __future__ import annotations

import pytest

from tests.support.metadata.images import CLUSTER_ID
from tests.support.paths import GOLDEN_FILES
from tidelog.cluster.delta import InconsistentMetadata
from tidelog.cluster.image import MetadataImage
from tidelog.cluster.metadata_loader import MetadataLoader
from tidelog.cluster.metadata_log_codec import decode_record
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.metadata_records.abort_transaction_record import AbortTransactionRecord
from tidelog.protocol.metadata_records.begin_transaction_record import BeginTransactionRecord
from tidelog.protocol.metadata_records.end_transaction_record import EndTransactionRecord
from tidelog.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from tidelog.protocol.record import read_records

GOLDEN = GOLDEN_FILES / "cluster"


def feature(name: str) -> FeatureLevelRecord:
    return FeatureLevelRecord(name=name, feature_level=1)


def loader() -> MetadataLoader:
    return MetadataLoader(MetadataImage(cluster_id=CLUSTER_ID))


def test_a_batch_is_applied_as_one_step() -> None:
    metadata = loader()
    (step,) = metadata.load([feature("a"), feature("b")], 10, 3)
    assert step.image is metadata.image
    assert (step.image.offset, step.image.epoch) == (11, 3)
    assert step.image.features == {"a": 1, "b": 1}


def test_records_of_an_open_transaction_are_not_visible() -> None:
    metadata = loader()
    assert metadata.load([BeginTransactionRecord(), feature("a")], 0, 1) == []
    assert metadata.is_transaction_open
    assert metadata.load([feature("b")], 2, 1) == []
    assert metadata.image.features == {}
    (step,) = metadata.load([feature("c"), EndTransactionRecord()], 3, 1)
    assert step.image.features == {"a": 1, "b": 1, "c": 1}
    assert step.image.offset == 4
    assert not metadata.is_transaction_open


def test_records_of_an_aborted_transaction_are_discarded() -> None:
    metadata = loader()
    metadata.load([feature("before")], 0, 1)
    metadata.load([BeginTransactionRecord(), feature("a")], 1, 1)
    (step,) = metadata.load([AbortTransactionRecord()], 3, 1)
    assert step.image.features == {"before": 1}
    assert step.image.offset == 3


def test_records_before_a_transaction_in_its_batch_are_a_separate_step() -> None:
    metadata = loader()
    (step,) = metadata.load([feature("before"), BeginTransactionRecord(), feature("a")], 5, 1)
    assert step.image.features == {"before": 1}
    assert step.image.offset == 5
    (step,) = metadata.load([AbortTransactionRecord(), feature("after")], 8, 1)
    assert step.image.features == {"before": 1, "after": 1}


@pytest.mark.parametrize("record", [EndTransactionRecord(), AbortTransactionRecord()])
def test_a_transaction_cannot_end_before_it_begins(
    record: EndTransactionRecord | AbortTransactionRecord,
) -> None:
    with pytest.raises(InconsistentMetadata):
        loader().load([record], 0, 1)


def test_transactions_do_not_nest() -> None:
    metadata = loader()
    metadata.load([BeginTransactionRecord()], 0, 1)
    with pytest.raises(InconsistentMetadata):
        metadata.load([BeginTransactionRecord()], 1, 1)


def test_control_batches_advance_the_offset() -> None:
    metadata = loader()
    metadata.load([feature("a")], 0, 1)
    metadata.skip_control_records(1, 2)
    assert (metadata.image.offset, metadata.image.epoch, metadata.image.features) == (1, 2, {"a": 1})
    (step,) = metadata.load([feature("b")], 2, 2)
    assert step.image.features == {"a": 1, "b": 1}


def test_a_control_batch_does_not_end_an_open_transaction() -> None:
    metadata = loader()
    metadata.load([BeginTransactionRecord(), feature("a")], 0, 1)
    metadata.skip_control_records(2, 2)
    (step,) = metadata.load([EndTransactionRecord()], 3, 2)
    assert step.image.features == {"a": 1}


def test_a_kafka_metadata_log_gives_the_expected_image() -> None:
    data = (GOLDEN / "metadata-4.3.1.log").read_bytes()
    metadata = loader()
    for position, header in iterate_headers(data):
        if header.is_control:
            metadata.skip_control_records(header.last_offset, header.partition_leader_epoch)
            continue
        records = [decode_record(record.value or b"") for record in read_records(data, position, header)]
        metadata.load(records, header.base_offset, header.partition_leader_epoch)
    image = metadata.image
    assert list(image.topics_by_name) == ["orders"]
    assert len(image.topics_by_name["orders"].partitions) == 3
    assert image.topic_configs("orders") == {"cleanup.policy": "delete,compact"}
    assert image.cluster_configs() == {"min.insync.replicas": "1", "log.retention.ms": "60000"}
    assert image.configs[32, "readers"] == {"consumer.session.timeout.ms": "50000"}
    assert image.next_producer_id == 1000
    assert image.features["metadata.version"] == 30
    assert list(image.scram_credentials) == [("alice", 1)]
    assert image.brokers[1].fenced
    assert {p.eligible_leader_replicas for p in image.topics_by_name["orders"].partitions.values()} == {(1,)}
