"""Metadata images for tests, with brokers and topics, and seeded randomness."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import TypeVar
from uuid import UUID

from tests.support.configs import controller_settings
from tidelog.cluster.controller.bootstrap import bootstrap_records
from tidelog.cluster.controller.create_topics import create_topics
from tidelog.cluster.controller.result import ControllerResult
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tidelog.protocol.metadata_records.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from tidelog.protocol.schema import MetadataRecord
from tidelog.protocol.steps import run_steps

R = TypeVar("R")

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
LISTENER = "PLAINTEXT"


class SeededRandomness(random.Random):
    """Randomness with a seed."""

    def __init__(self, seed: int = 1) -> None:
        super().__init__(seed)


def broker_registration_record(
    broker: int, *, rack: str | None = None, fenced: bool = False, log_dirs: tuple[UUID, ...] = ()
) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker,
        incarnation_id=UUID(int=5000 + broker),
        broker_epoch=100 + broker,
        end_points=(BrokerEndpoint(name=LISTENER, host=f"host{broker}", port=9092 + broker),),
        rack=rack,
        fenced=fenced,
        log_dirs=log_dirs or (UUID(int=9000 + broker),),
    )


def image_after_records(
    records: Iterable[MetadataRecord], image: MetadataImage | None = None, offset: int = 0
) -> MetadataImage:
    """Return the image after `records`."""
    delta = MetadataDelta(image or MetadataImage(cluster_id=CLUSTER_ID))
    for record in records:
        delta.replay(record)
    return delta.image(offset, 1)


def image_with_brokers(*brokers: int, fenced: Iterable[int] = (), features: bool = False) -> MetadataImage:
    """Return an image of brokers with one rack each; `features` default to the levels of a new cluster."""
    fenced_ids = set(fenced)
    records: list[MetadataRecord] = list(bootstrap_records(1)) if features else []
    records += [
        broker_registration_record(broker, rack=f"rack{broker}", fenced=broker in fenced_ids)
        for broker in brokers
    ]
    return image_after_records(records)


def image_after_result(image: MetadataImage, result: ControllerResult[R]) -> MetadataImage:
    """Return the image after the command's records."""
    return image_after_records(result.records, image, image.offset + len(result.records))


def creatable(
    name: str,
    partitions: int = 1,
    replication_factor: int = 1,
    configs: Mapping[str, str | None] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()),
    )


def with_topics(
    image: MetadataImage, *topics: CreatableTopic, settings: ControllerSettings | None = None
) -> MetadataImage:
    """Return `image` with created topics; fail if one is refused."""
    result = run_steps(
        create_topics(
            image,
            settings or controller_settings(node_id=1),
            CreateTopicsRequest(topics=topics),
            SeededRandomness(),
        )
    )
    assert all(topic.error_code == 0 for topic in result.reply.topics), result.reply
    return image_after_result(image, result)
