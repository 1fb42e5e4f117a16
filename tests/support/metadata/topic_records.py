"""The metadata records of a topic."""

from __future__ import annotations

from uuid import UUID

from tidelog.protocol.metadata_records.partition_record import PartitionRecord
from tidelog.protocol.metadata_records.topic_record import TopicRecord
from tidelog.protocol.schema import MetadataRecord


def topic_records(name: str, number: int, *epochs: int) -> tuple[MetadataRecord, ...]:
    topic_id = UUID(int=1_000 + number)
    return (
        TopicRecord(name=name, topic_id=topic_id),
        *(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=(1, 2),
                isr=(1, 2),
                leader=1,
                leader_epoch=epoch,
                partition_epoch=3,
                directories=(UUID(int=5), UUID(int=6)),
            )
            for index, epoch in enumerate(epochs)
        ),
    )
