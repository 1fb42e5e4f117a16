"""Administrative requests that create many resources, or have large responses (review)."""

from __future__ import annotations

from tests.harness.hostile.attack import Attack
from tests.harness.hostile.attack_context import AttackContext
from tests.harness.hostile.frames import request_frame
from tidelog.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from tidelog.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tidelog.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    RequestCursor,
    TopicRequest,
)
from tidelog.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
GROUP_RESOURCE = 32
PARTITIONS_OF_A_WIDE_TOPIC = 1000
RECORDS_MAX = 10_000
"""As many as one change of the metadata may have."""


def _create_topics_by_metadata(context: AttackContext) -> None:
    """Metadata creates the topics that it names, where auto.create.topics.enable is on."""
    client = context.client()
    per_request = context.size(5000, 5)
    context.begin()
    number = 0
    while True:
        topics = tuple(MetadataRequestTopic(name=f"auto-{number}-{index}") for index in range(per_request))
        if context.exchange(client, request_frame(MetadataRequest(topics=topics), 9)) is None:
            break
        number += 1
        if context.has_ended:
            break
    context.note(f"{number * per_request:,} names")


def _create_many_topics(context: AttackContext) -> None:
    topics = tuple(
        CreatableTopic(name=f"created-{number}", num_partitions=1, replication_factor=1)
        for number in range(context.size(20_000, 10))
    )
    frame = request_frame(CreateTopicsRequest(topics=topics, timeout_ms=30_000, validate_only=True), 7)
    context.begin()
    context.repeat(frame)


def _describe_configs_many_times(context: AttackContext) -> None:
    """Send a small request that names one topic many times; each time, all of its configs are returned."""
    _describe_configs(context, TOPIC_RESOURCE, "plain", context.size(20_000, 20))


def _describe_broker_configs_many_times(context: AttackContext) -> None:
    _describe_configs(context, BROKER_RESOURCE, "1", context.size(2000, 5))


def _describe_configs(context: AttackContext, kind: int, name: str, count: int) -> None:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    request = DescribeConfigsRequest(
        resources=(resource,) * count, include_synonyms=True, include_documentation=True
    )
    client = context.client()
    frame = request_frame(request, 4)
    context.begin()
    response = context.exchange(client, frame)
    if response is not None:
        context.note(f"{len(frame):,} bytes of request, {len(response):,} bytes of response")
    context.repeat(frame, client)


def _name_a_wide_topic_many_times(context: AttackContext) -> None:
    """Metadata and DescribeTopicPartitions of a topic of 1,000 partitions, named 2,000 times."""
    partitions = context.size(PARTITIONS_OF_A_WIDE_TOPIC, 10)
    context.target.create_topic("wide", partitions)
    count = context.size(2000, 10)
    metadata = MetadataRequest(topics=(MetadataRequestTopic(name="wide"),) * count)
    describe = DescribeTopicPartitionsRequest(
        topics=(TopicRequest(name="wide"),) * count, response_partition_limit=2**31 - 1
    )
    cursor = DescribeTopicPartitionsRequest(
        topics=tuple(TopicRequest(name=f"wide{number}") for number in range(context.size(100_000, 50))),
        response_partition_limit=1,
        cursor=RequestCursor(topic_name="wide", partition_index=2**31 - 1),
    )
    client = context.client()
    context.begin()
    for request, version in ((metadata, 9), (describe, 0), (cursor, 0)):
        context.repeat(request_frame(request, version), client)


def _describe_all_topics_without_pause(context: AttackContext) -> None:
    """Request metadata of all topics, with many partitions."""
    context.target.create_topic("wide", context.size(PARTITIONS_OF_A_WIDE_TOPIC, 10))
    client = context.client()
    context.begin()
    context.repeat(request_frame(MetadataRequest(topics=None), 9), client)


def _reassign_many_partitions(context: AttackContext) -> None:
    topics = (
        ReassignableTopic(
            name="plain",
            partitions=tuple(
                ReassignablePartition(partition_index=number, replicas=tuple(range(100)))
                for number in range(context.size(20_000, 20))
            ),
        ),
    )
    frame = request_frame(AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=30_000), 0)
    context.begin()
    context.repeat(frame)


def _alter_configs_of_many_keys(context: AttackContext) -> None:
    configs = tuple(
        AlterableConfig(name=f"unknown.key.{number}", config_operation=0, value="v" * 100)
        for number in range(context.size(20_000, 20))
    )
    resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name="plain", configs=configs)
    long = AlterConfigsResource(
        resource_type=TOPIC_RESOURCE,
        resource_name="plain",
        configs=(AlterableConfig(name="cleanup.policy", config_operation=2, value="compact," * 4000),),
    )
    client = context.client()
    context.begin()
    for resources in ((resource,), (long,), tuple([long] * context.size(100, 2))):
        frame = request_frame(IncrementalAlterConfigsRequest(resources=resources), 1)
        context.repeat(frame, client)


def _alter_configs_of_many_groups(context: AttackContext) -> None:
    """Change the configs of all groups in every request, in one batch of the metadata log."""

    def frame_with(value: str) -> bytes:
        configs = (AlterableConfig(name="consumer.session.timeout.ms", config_operation=0, value=value),)
        resources = tuple(
            AlterConfigsResource(
                resource_type=GROUP_RESOURCE, resource_name=f"group-{number}", configs=configs
            )
            for number in range(context.size(RECORDS_MAX, 20))
        )
        return request_frame(IncrementalAlterConfigsRequest(resources=resources), 1)

    frames = frame_with("45000"), frame_with("50000")
    client = context.client()
    context.begin()
    while not context.has_ended:
        for frame in frames:
            context.expect(context.exchange(client, frame) is not None, "no response")


def _set_quotas_of_many_clients(context: AttackContext) -> None:
    entries = tuple(
        RequestEntryData(
            entity=(RequestEntityData(entity_type="client-id", entity_name=f"client-{number}"),),
            ops=(OpData(key="producer_byte_rate", value=1e9),),
        )
        for number in range(context.size(20_000, 20))
    )
    frame = request_frame(AlterClientQuotasRequest(entries=entries, validate_only=True), 1)
    context.begin()
    context.repeat(frame)


ATTACKS = (
    Attack(
        name="topics-created-by-metadata",
        item="review",
        actions="Metadata names 5,000 new topics per request, which are created",
        run=_create_topics_by_metadata,
        memory_mib=512,
        memory_kept_mib=512,
        descriptors_kept=16_000,
        is_short=False,
    ),
    Attack(
        name="create-many-topics",
        item="review",
        actions="a CreateTopics of 20,000 topics, to be validated only",
        run=_create_many_topics,
        memory_mib=128,
    ),
    Attack(
        name="describe-topic-configs-amplified",
        item="review",
        actions="a DescribeConfigs names a topic 20,000 times",
        run=_describe_configs_many_times,
        memory_mib=256,
    ),
    Attack(
        name="describe-broker-configs-amplified",
        item="review",
        actions="a DescribeConfigs names the broker 2,000 times",
        run=_describe_broker_configs_many_times,
        memory_mib=256,
    ),
    Attack(
        name="wide-topic-named-many-times",
        item="review",
        actions="Metadata and DescribeTopicPartitions name a topic of 1,000 partitions 2,000 times",
        run=_name_a_wide_topic_many_times,
        memory_mib=256,
        descriptors_kept=3100,
        is_short=False,
    ),
    Attack(
        name="metadata-of-all-topics",
        item="review",
        actions="Metadata for all topics of 1,000 partitions, repeatedly",
        run=_describe_all_topics_without_pause,
        descriptors_kept=3100,
        is_short=False,
    ),
    Attack(
        name="reassign-many-partitions",
        item="review",
        actions="AlterPartitionReassignments of 20,000 partitions to 100 replicas each",
        run=_reassign_many_partitions,
        memory_mib=128,
    ),
    Attack(
        name="alter-configs-of-many-keys",
        item="review",
        actions="IncrementalAlterConfigs with 20,000 unknown keys, and with list values of 32 kB",
        run=_alter_configs_of_many_keys,
        memory_mib=128,
    ),
    Attack(
        name="alter-configs-of-many-groups",
        item="review",
        actions="IncrementalAlterConfigs that change the configs of 10,000 groups",
        run=_alter_configs_of_many_groups,
        memory_mib=128,
        memory_kept_mib=128,
    ),
    Attack(
        name="quotas-of-many-clients",
        item="review",
        actions="AlterClientQuotas of 20,000 clients, to be validated only",
        run=_set_quotas_of_many_clients,
        memory_mib=128,
    ),
)
