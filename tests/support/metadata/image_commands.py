"""Random commands that change a metadata image."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from tests.support.configs import controller_settings
from tests.support.metadata.images import (
    CLUSTER_ID,
    SeededRandomness,
    creatable,
)
from tidelog.cluster.controller import broker_changes
from tidelog.cluster.controller.brokers import register_broker, supported_features
from tidelog.cluster.controller.configs import (
    TOPIC_AND_GROUP_DEFINITIONS,
    ConfigChange,
    ConfigOperation,
    ResourceChange,
    alter_configs,
    replace_configs,
)
from tidelog.cluster.controller.create_partitions import create_partitions
from tidelog.cluster.controller.create_topics import create_topics
from tidelog.cluster.controller.delete_topics import delete_topics
from tidelog.cluster.controller.producer_ids import allocate_producer_ids
from tidelog.cluster.controller.result import ControllerResult
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.messages.broker_registration import BrokerRegistrationRequest, Listener
from tidelog.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tidelog.protocol.messages.create_topics import CreateTopicsRequest
from tidelog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.protocol.steps import run_steps

SETTINGS = controller_settings(node_id=1, num_partitions=2)
NAMES = st.sampled_from(["a", "b", "a.b", "a_b", "__consumer_offsets", "bad name", ""])
CONFIGS = st.dictionaries(
    st.sampled_from(["retention.ms", "cleanup.policy", "segment.bytes", "nonsense"]),
    st.sampled_from(["1", "compact", "1048576", "-1", ""]),
    max_size=2,
)
COMMANDS = st.one_of(
    st.tuples(st.just("create"), NAMES, st.integers(-2, 4), st.integers(-2, 4), CONFIGS),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.just("partitions"), NAMES, st.integers(0, 6)),
    st.tuples(st.just("configs"), NAMES, st.sampled_from(ConfigOperation), CONFIGS),
    st.tuples(st.just("replace"), NAMES, CONFIGS),
    st.tuples(st.just("register"), st.integers(1, 4), st.integers(0, 2)),
    st.tuples(st.just("unfence"), st.integers(1, 4)),
    st.tuples(st.just("fence"), st.integers(1, 4)),
    st.tuples(st.just("ids"), st.integers(1, 4)),
)


def perform(image: MetadataImage, command: Any, chance: SeededRandomness) -> list[ControllerResult[object]]:
    """Return the command's results; none if the whole request is refused."""
    try:
        return _perform(image, command, chance)
    except KafkaError:
        return []


def _perform(image: MetadataImage, command: Any, chance: SeededRandomness) -> list[ControllerResult[Any]]:
    match command:
        case ("create", name, partitions, factor, configs):
            request = CreateTopicsRequest(topics=(creatable(name, partitions, factor, configs),))
            return [run_steps(create_topics(image, SETTINGS, request, chance))]
        case ("delete", name):
            deletion = DeleteTopicsRequest(topics=(DeleteTopicState(name=name),))
            return [run_steps(delete_topics(image, SETTINGS, deletion, 6))]
        case ("partitions", name, count):
            topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
            return [
                run_steps(
                    create_partitions(image, SETTINGS, CreatePartitionsRequest(topics=(topic,)), chance)
                )
            ]
        case ("configs", name, operation, configs):
            changes = tuple(ConfigChange(key, operation, value) for key, value in configs.items())
            requested = [ResourceChange((2, name), changes)]
            return [run_steps(alter_configs(image, SETTINGS, requested, TOPIC_AND_GROUP_DEFINITIONS))]
        case ("replace", name, configs):
            changes = tuple(ConfigChange(key, ConfigOperation.SET, value) for key, value in configs.items())
            return [run_steps(replace_configs(image, SETTINGS, [ResourceChange((2, name), changes)]))]
        case ("register", broker, incarnation):
            registration = BrokerRegistrationRequest(
                broker_id=broker,
                cluster_id=CLUSTER_ID,
                incarnation_id=UUID(int=incarnation + 1),
                listeners=(Listener(name="PLAINTEXT", host="h", port=1),),
                features=supported_features(),
                log_dirs=(UUID(int=broker + 300),),
            )
            return [run_steps(register_broker(image, SETTINGS, registration, has_session=False))]
        case ("unfence" | "fence" as event, broker) if broker in image.brokers:
            change = broker_changes.unfence_records if event == "unfence" else broker_changes.fence_records
            records = run_steps(change(image, SETTINGS, image.brokers[broker]))
            return [ControllerResult(tuple(records), None)]
        case ("ids", broker):
            epoch = image.brokers[broker].epoch if broker in image.brokers else 0
            return [allocate_producer_ids(image, broker, epoch)]
    return []
