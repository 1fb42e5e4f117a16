"""Batches are applied to the image; transactions are atomic."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.support.metadata.images import CLUSTER_ID
from tests.support.paths import GOLDEN_FILES
from tidelog.cluster.delta import InconsistentMetadata
from tidelog.cluster.image import MetadataImage
from tidelog.cluster.metadata_loader import MetadataLoader, PublishedChange
from tidelog.cluster.metadata_log_codec import decode_record
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.metadata_records.abort_transaction_record import AbortTransactionRecord
from tidelog.protocol.metadata_records.begin_transaction_record import BeginTransactionRecord
from tidelog.protocol.metadata_records.end_transaction_record import EndTransactionRecord
from tidelog.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from tidelog.protocol.record import read_records
from tidelog.protocol.schema import MetadataRecord
from tidelog.protocol.steps import run_steps

GOLDEN = GOLDEN_FILES / "cluster"


def feature(name: str) -> FeatureLevelRecord:
    return FeatureLevelRecord(name=name, feature_level=1)


def loader() -> MetadataLoader:
    return MetadataLoader(MetadataImage(cluster_id=CLUSTER_ID))


def load(
    metadata: MetadataLoader, records: Sequence[MetadataRecord], base_offset: int, epoch: int
) -> list[PublishedChange]:
    """Replay one batch at once."""
    return run_steps(metadata.load(records, base_offset, epoch))


def test_a_batch_is_applied_as_one_step() -> None:
    metadata = loader()
    (step,) = load(metadata, [feature("a"), feature("b")], 10, 3)
    assert step.image is metadata.image
    assert (step.image.offset, step.image.epoch) == (11, 3)
    assert step.image.features == {"a": 1, "b": 1}


def test_records_of_an_open_transaction_are_not_visible() -> None:
    metadata = loader()
    assert load(metadata, [BeginTransactionRecord(), feature("a")], 0, 1) == []
    assert metadata.is_transaction_open
    assert load(metadata, [feature("b")], 2, 1) == []
    assert metadata.image.features == {}
    (step,) = load(metadata, [feature("c"), EndTransactionRecord()], 3, 1)
    assert step.image.features == {"a": 1, "b": 1, "c": 1}
    assert step.image.offset == 4
    assert not metadata.is_transaction_open


def test_records_of_an_aborted_transaction_are_discarded() -> None:
    metadata = loader()
    load(metadata, [feature("before")], 0, 1)
    load(metadata, [BeginTransactionRecord(), feature("a")], 1, 1)
    (step,) = load(metadata, [AbortTransactionRecord()], 3, 1)
    assert step.image.features == {"before": 1}
    assert step.image.offset == 3


def test_records_before_a_transaction_in_its_batch_are_a_separate_step() -> None:
    metadata = loader()
    (step,) = load(metadata, [feature("before"), BeginTransactionRecord(), feature("a")], 5, 1)
    assert step.image.features == {"before": 1}
    assert step.image.offset == 5
    (step,) = load(metadata, [AbortTransactionRecord(), feature("after")], 8, 1)
    assert step.image.features == {"before": 1, "after": 1}


@pytest.mark.parametrize("record", [EndTransactionRecord(), AbortTransactionRecord()])
def test_a_transaction_cannot_end_before_it_begins(
    record: EndTransactionRecord | AbortTransactionRecord,
) -> None:
    with pytest.raises(InconsistentMetadata):
        load(loader(), [record], 0, 1)


def test_transactions_do_not_nest() -> None:
    metadata = loader()
    load(metadata, [BeginTransactionRecord()], 0, 1)
    with pytest.raises(InconsistentMetadata):
        load(metadata, [BeginTransactionRecord()], 1, 1)


def test_control_batches_advance_the_offset() -> None:
    metadata = loader()
    load(metadata, [feature("a")], 0, 1)
    metadata.skip_control_records(1, 2)
    assert (metadata.image.offset, metadata.image.epoch, metadata.image.features) == (1, 2, {"a": 1})
    (step,) = load(metadata, [feature("b")], 2, 2)
    assert step.image.features == {"a": 1, "b": 1}


def test_a_control_batch_does_not_end_an_open_transaction() -> None:
    metadata = loader()
    load(metadata, [BeginTransactionRecord(), feature("a")], 0, 1)
    metadata.skip_control_records(2, 2)
    (step,) = load(metadata, [EndTransactionRecord()], 3, 2)
    assert step.image.features == {"a": 1}


def test_a_kafka_metadata_log_gives_the_expected_image() -> None:
    data = (GOLDEN / "metadata-4.3.1.log").read_bytes()
    metadata = loader()
    for position, header in iterate_headers(data):
        if header.is_control:
            metadata.skip_control_records(header.last_offset, header.partition_leader_epoch)
            continue
        records = [decode_record(record.value or b"") for record in read_records(data, position, header)]
        load(metadata, records, header.base_offset, header.partition_leader_epoch)
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
