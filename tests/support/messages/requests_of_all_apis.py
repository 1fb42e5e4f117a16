"""A valid request of every API and version for the cluster of `cluster_of_all_apis`."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from tests.support.messages.cluster_of_all_apis import (
    GROUP,
    TOPIC,
    ClusterFixture,
    join_request,
    offset_commit,
    produce_request,
)
from tidelog.broker.coordinators.share.persister import (
    InitialState,
    SharePartitionKey,
    ShareStateBatch,
    StateRead,
    StateWrite,
)
from tidelog.broker.coordinators.share.state_messages import DELETE, INITIALIZE, READ, READ_SUMMARY, WRITE
from tidelog.protocol.messages import (
    alter_configs,
    describe_quorum,
    incremental_alter_configs,
    share_acknowledge,
    share_fetch,
)
from tidelog.protocol.messages import describe_topic_partitions as topic_partitions
from tidelog.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tidelog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tidelog.protocol.messages.add_raft_voter import AddRaftVoterRequest
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
from tidelog.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from tidelog.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from tidelog.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from tidelog.protocol.messages.api_versions import ApiVersionsRequest
from tidelog.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tidelog.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tidelog.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tidelog.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from tidelog.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tidelog.protocol.messages.delete_groups import DeleteGroupsRequest
from tidelog.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidelog.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from tidelog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.protocol.messages.describe_acls import DescribeAclsRequest
from tidelog.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from tidelog.protocol.messages.describe_cluster import DescribeClusterRequest
from tidelog.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tidelog.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from tidelog.protocol.messages.describe_groups import DescribeGroupsRequest
from tidelog.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from tidelog.protocol.messages.describe_producers import DescribeProducersRequest
from tidelog.protocol.messages.describe_producers import TopicRequest as ProducersTopic
from tidelog.protocol.messages.describe_quorum import DescribeQuorumRequest
from tidelog.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from tidelog.protocol.messages.describe_transactions import DescribeTransactionsRequest
from tidelog.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from tidelog.protocol.messages.elect_leaders import ElectLeadersRequest
from tidelog.protocol.messages.elect_leaders import TopicPartitions as ElectLeadersTopic
from tidelog.protocol.messages.end_txn import EndTxnRequest
from tidelog.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest
from tidelog.protocol.messages.heartbeat import HeartbeatRequest
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest
from tidelog.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tidelog.protocol.messages.list_groups import ListGroupsRequest
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tidelog.protocol.messages.list_transactions import ListTransactionsRequest
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tidelog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tidelog.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tidelog.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from tidelog.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from tidelog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from tidelog.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tidelog.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from tidelog.protocol.messages.share_fetch import ShareFetchRequest
from tidelog.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from tidelog.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tidelog.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from tidelog.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)
from tidelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tidelog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tidelog.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tidelog.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tidelog.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tidelog.protocol.registry import ApiKey
from tidelog.protocol.schema import ApiMessage

TOPIC_RESOURCE = 2
TOKEN_APIS = (
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
)
SHARE_STATE_APIS = (
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.WRITE_SHARE_GROUP_STATE,
    ApiKey.DELETE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
)


def list_offsets(cluster: ClusterFixture, version: int) -> ListOffsetsRequest:
    timestamps = (-1, -2, -3, -4, -5, -6, 0, 2**62)
    return ListOffsetsRequest(
        replica_id=-1,
        topics=tuple(
            ListOffsetsTopic(
                name=TOPIC, partitions=(ListOffsetsPartition(partition_index=0, timestamp=timestamp),)
            )
            for timestamp in timestamps[version % len(timestamps) :][:1]
        ),
    )


def offset_fetch(cluster: ClusterFixture, version: int) -> OffsetFetchRequest:
    topics = (OffsetFetchRequestTopics(name=TOPIC, topic_id=cluster.topic_id, partition_indexes=(0, 1)),)
    return OffsetFetchRequest(
        group_id=f"{GROUP}-offsets",
        topics=(OffsetFetchRequestTopic(name=TOPIC, partition_indexes=(0, 1)),),
        groups=(OffsetFetchRequestGroup(group_id=f"{GROUP}-offsets", topics=topics),),
    )


def fetch(cluster: ClusterFixture, version: int) -> FetchRequest:
    partitions = tuple(
        FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=2**20) for number in (0, 1)
    )
    topic = FetchTopic(topic=TOPIC, topic_id=cluster.topic_id, partitions=partitions)
    return FetchRequest(max_wait_ms=100, min_bytes=1, topics=(topic,), session_epoch=0)


def sync(cluster: ClusterFixture, version: int) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=GROUP,
        generation_id=1,
        member_id=cluster.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=(SyncGroupRequestAssignment(member_id=cluster.member_id, assignment=b"\0\0"),),
    )


def metadata(cluster: ClusterFixture, version: int) -> MetadataRequest:
    return MetadataRequest(
        topics=(MetadataRequestTopic(name=TOPIC),),
        allow_auto_topic_creation=version >= 4 and version % 2 == 0,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )


def delete_topics(cluster: ClusterFixture, version: int) -> DeleteTopicsRequest:
    with cluster.client() as client:
        topic = CreatableTopic(name="gone", num_partitions=1, replication_factor=1)
        client.send_request(CreateTopicsRequest(topics=(topic,)), 7, CreateTopicsResponse)
    return DeleteTopicsRequest(
        topics=(DeleteTopicState(name="gone"),), topic_names=("gone",), timeout_ms=1000
    )


def alter(cluster: ClusterFixture, version: int) -> alter_configs.AlterConfigsRequest:
    config = alter_configs.AlterableConfig(name="retention.ms", value="600000")
    resource = alter_configs.AlterConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=TOPIC, configs=(config,)
    )
    return alter_configs.AlterConfigsRequest(resources=(resource,))


def incremental(
    cluster: ClusterFixture, version: int
) -> incremental_alter_configs.IncrementalAlterConfigsRequest:
    config = incremental_alter_configs.AlterableConfig(name="retention.ms", value="600001")
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=TOPIC, configs=(config,)
    )
    return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=(resource,))


Ask = Callable[[ClusterFixture, int], ApiMessage]
TXN_TOPICS = (AddPartitionsToTxnTopic(name=TOPIC, partitions=(0,)),)


def share_partition(cluster: ClusterFixture) -> SharePartitionKey:
    """Return a partition of the topic as a share group reads it."""
    return SharePartitionKey(GROUP, cluster.topic_id, 0)


def share_fetch_request(topic_id: UUID) -> ShareFetchRequest:
    """Return the first request of a share session."""
    partition = share_fetch.FetchPartition(partition_index=0)
    return ShareFetchRequest(
        group_id=GROUP,
        member_id="m",
        topics=(share_fetch.FetchTopic(topic_id=topic_id, partitions=(partition,)),),
        max_records=10,
        batch_size=10,
    )


def share_acknowledge_request(topic_id: UUID) -> ShareAcknowledgeRequest:
    """Return a request that ends a share session."""
    partition = share_acknowledge.AcknowledgePartition(partition_index=0)
    return ShareAcknowledgeRequest(
        group_id=GROUP,
        member_id="m",
        share_session_epoch=-1,
        topics=(share_acknowledge.AcknowledgeTopic(topic_id=topic_id, partitions=(partition,)),),
    )


def state_read(cluster: ClusterFixture) -> StateRead:
    """Return a read of the state of `share_partition`."""
    return StateRead(share_partition=share_partition(cluster), leader_epoch=1)


REQUESTS: dict[ApiKey, Ask] = {
    ApiKey.PRODUCE: lambda cluster, _: produce_request(cluster.topic_id),
    ApiKey.FETCH: fetch,
    ApiKey.LIST_OFFSETS: list_offsets,
    ApiKey.METADATA: metadata,
    ApiKey.OFFSET_COMMIT: lambda cluster, _: offset_commit(cluster.topic_id),
    ApiKey.OFFSET_FETCH: offset_fetch,
    ApiKey.FIND_COORDINATOR: lambda cluster, _: FindCoordinatorRequest(key=GROUP, coordinator_keys=(GROUP,)),
    ApiKey.JOIN_GROUP: lambda cluster, version: join_request(f"{GROUP}-{version}"),
    ApiKey.HEARTBEAT: lambda cluster, _: HeartbeatRequest(
        group_id=GROUP, generation_id=1, member_id=cluster.member_id
    ),
    ApiKey.LEAVE_GROUP: lambda cluster, version: LeaveGroupRequest(
        group_id=f"{GROUP}-{version}", member_id="unknown", members=(MemberIdentity(member_id="unknown"),)
    ),
    ApiKey.SYNC_GROUP: sync,
    ApiKey.DESCRIBE_GROUPS: lambda cluster, _: DescribeGroupsRequest(
        groups=(GROUP,), include_authorized_operations=True
    ),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: lambda cluster, version: ConsumerGroupHeartbeatRequest(
        group_id=f"{GROUP}-consumer-{version}",
        member_id="m",
        rebalance_timeout_ms=1000,
        subscribed_topic_names=(TOPIC,),
        topic_partitions=(),
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: lambda cluster, _: ConsumerGroupDescribeRequest(
        group_ids=(f"{GROUP}-unknown",), include_authorized_operations=True
    ),
    ApiKey.LIST_GROUPS: lambda cluster, _: ListGroupsRequest(states_filter=(), types_filter=("classic",)),
    ApiKey.API_VERSIONS: lambda cluster, _: ApiVersionsRequest(
        client_software_name="test", client_software_version="1"
    ),
    ApiKey.CREATE_TOPICS: lambda cluster, version: CreateTopicsRequest(
        topics=(CreatableTopic(name=f"new-{version}", num_partitions=1, replication_factor=1),)
    ),
    ApiKey.DELETE_TOPICS: delete_topics,
    ApiKey.DELETE_RECORDS: lambda cluster, version: DeleteRecordsRequest(
        topics=(
            DeleteRecordsTopic(name=TOPIC, partitions=(DeleteRecordsPartition(partition_index=0, offset=0),)),
        ),
        timeout_ms=1000,
    ),
    ApiKey.UPDATE_FEATURES: lambda cluster, _: UpdateFeaturesRequest(
        feature_updates=(FeatureUpdateKey(feature="transaction.version", max_version_level=2),)
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: lambda cluster, _: AlterClientQuotasRequest(
        entries=(
            RequestEntryData(
                entity=(RequestEntityData(entity_type="user", entity_name="alice"),),
                ops=(OpData(key="producer_byte_rate", value=1024.0),),
            ),
        )
    ),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: lambda cluster, _: DescribeClientQuotasRequest(),
    ApiKey.CREATE_ACLS: lambda cluster, _: CreateAclsRequest(
        creations=(
            AclCreation(
                resource_type=2,
                resource_name=TOPIC,
                principal="User:alice",
                host="*",
                operation=3,
                permission_type=3,
            ),
        )
    ),
    ApiKey.DESCRIBE_ACLS: lambda cluster, _: DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    ),
    ApiKey.DELETE_ACLS: lambda cluster, version: DeleteAclsRequest(
        filters=(
            DeleteAclsFilter(
                resource_type_filter=2,
                resource_name_filter=f"none-{version}",
                principal_filter=None,
                host_filter=None,
                operation=1,
                permission_type=1,
            ),
        )
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: lambda cluster, _: AlterUserScramCredentialsRequest(
        upsertions=(
            ScramCredentialUpsertion(
                name="alice", mechanism=1, iterations=4096, salt=b"salt", salted_password=b"secret"
            ),
        )
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: lambda cluster, _: DescribeUserScramCredentialsRequest(
        users=None
    ),
    ApiKey.ELECT_LEADERS: lambda cluster, _: ElectLeadersRequest(
        topic_partitions=(ElectLeadersTopic(topic=TOPIC, partitions=(0,)),)
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: lambda cluster, _: AlterPartitionReassignmentsRequest(
        topics=(ReassignableTopic(name=TOPIC, partitions=(ReassignablePartition(partition_index=0),)),)
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: lambda cluster, _: ListPartitionReassignmentsRequest(topics=None),
    ApiKey.UNREGISTER_BROKER: lambda cluster, _: UnregisterBrokerRequest(broker_id=99),
    ApiKey.DESCRIBE_QUORUM: lambda cluster, _: DescribeQuorumRequest(
        topics=(
            describe_quorum.RequestTopicData(
                topic_name="__cluster_metadata", partitions=(describe_quorum.RequestPartitionData(),)
            ),
        )
    ),
    ApiKey.ADD_RAFT_VOTER: lambda cluster, _: AddRaftVoterRequest(
        cluster_id=None, voter_id=2, voter_directory_id=UUID(int=1234), timeout_ms=1000
    ),
    ApiKey.REMOVE_RAFT_VOTER: lambda cluster, _: RemoveRaftVoterRequest(
        cluster_id=None, voter_id=1, voter_directory_id=UUID(int=1234)
    ),
    ApiKey.INIT_PRODUCER_ID: lambda cluster, _: InitProducerIdRequest(transactional_id=None),
    ApiKey.ADD_PARTITIONS_TO_TXN: lambda cluster, _: AddPartitionsToTxnRequest(
        transactions=(AddPartitionsToTxnTransaction(transactional_id="tides", topics=TXN_TOPICS),),
        v3_and_below_transactional_id="tides",
        v3_and_below_topics=TXN_TOPICS,
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: lambda cluster, _: AddOffsetsToTxnRequest(
        transactional_id="tides", group_id=GROUP
    ),
    ApiKey.END_TXN: lambda cluster, _: EndTxnRequest(transactional_id="tides"),
    ApiKey.DESCRIBE_TRANSACTIONS: lambda cluster, _: DescribeTransactionsRequest(
        transactional_ids=("tides",)
    ),
    ApiKey.LIST_TRANSACTIONS: lambda cluster, _: ListTransactionsRequest(
        state_filters=("Empty",), transactional_id_pattern="t.*"
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: lambda cluster, _: OffsetForLeaderEpochRequest(
        replica_id=-1,
        topics=(
            OffsetForLeaderTopic(
                topic=TOPIC, partitions=(OffsetForLeaderPartition(partition=0, leader_epoch=0),)
            ),
        ),
    ),
    ApiKey.DESCRIBE_CONFIGS: lambda cluster, _: DescribeConfigsRequest(
        resources=(
            DescribeConfigsResource(
                resource_type=TOPIC_RESOURCE, resource_name=TOPIC, configuration_keys=None
            ),
            DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None),
        ),
        include_synonyms=True,
        include_documentation=True,
    ),
    ApiKey.ALTER_CONFIGS: alter,
    ApiKey.ALTER_REPLICA_LOG_DIRS: lambda cluster, _: AlterReplicaLogDirsRequest(
        dirs=(
            AlterReplicaLogDir(
                path="/no/such/directory", topics=(AlterReplicaLogDirTopic(name=TOPIC, partitions=(0,)),)
            ),
        )
    ),
    ApiKey.DESCRIBE_LOG_DIRS: lambda cluster, _: DescribeLogDirsRequest(topics=None),
    ApiKey.CREATE_PARTITIONS: lambda cluster, _: CreatePartitionsRequest(
        topics=(CreatePartitionsTopic(name=TOPIC, count=2, assignments=None),)
    ),
    ApiKey.CREATE_DELEGATION_TOKEN: lambda cluster, _: CreateDelegationTokenRequest(),
    ApiKey.RENEW_DELEGATION_TOKEN: lambda cluster, _: RenewDelegationTokenRequest(hmac=b"hmac"),
    ApiKey.EXPIRE_DELEGATION_TOKEN: lambda cluster, _: ExpireDelegationTokenRequest(hmac=b"hmac"),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: lambda cluster, _: DescribeDelegationTokenRequest(owners=None),
    ApiKey.DELETE_GROUPS: lambda cluster, _: DeleteGroupsRequest(groups_names=("no-such-group",)),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental,
    ApiKey.OFFSET_DELETE: lambda cluster, _: OffsetDeleteRequest(
        group_id=f"{GROUP}-offsets",
        topics=(
            OffsetDeleteRequestTopic(
                name=TOPIC, partitions=(OffsetDeleteRequestPartition(partition_index=1),)
            ),
        ),
    ),
    ApiKey.WRITE_TXN_MARKERS: lambda cluster, _: WriteTxnMarkersRequest(
        markers=(
            WritableTxnMarker(
                producer_id=77, topics=(WritableTxnMarkerTopic(name=TOPIC, partition_indexes=(0,)),)
            ),
        )
    ),
    ApiKey.TXN_OFFSET_COMMIT: lambda cluster, _: TxnOffsetCommitRequest(
        transactional_id="every-version",
        group_id=f"{GROUP}-offsets",
        producer_id=77,
        topics=(
            TxnOffsetCommitRequestTopic(
                name=TOPIC, partitions=(TxnOffsetCommitRequestPartition(committed_offset=1),)
            ),
        ),
    ),
    ApiKey.DESCRIBE_CLUSTER: lambda cluster, _: DescribeClusterRequest(
        include_cluster_authorized_operations=True
    ),
    ApiKey.DESCRIBE_PRODUCERS: lambda cluster, _: DescribeProducersRequest(
        topics=(ProducersTopic(name=TOPIC, partition_indexes=(0,)),)
    ),
    ApiKey.LIST_CONFIG_RESOURCES: lambda cluster, _: ListConfigResourcesRequest(),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: lambda cluster, _: topic_partitions.DescribeTopicPartitionsRequest(
        topics=(topic_partitions.TopicRequest(name=TOPIC),)
    ),
    ApiKey.SHARE_GROUP_HEARTBEAT: lambda cluster, _: ShareGroupHeartbeatRequest(
        group_id=f"{GROUP}-share", member_id="m", subscribed_topic_names=(TOPIC,)
    ),
    ApiKey.SHARE_GROUP_DESCRIBE: lambda cluster, _: ShareGroupDescribeRequest(
        group_ids=(f"{GROUP}-share",), include_authorized_operations=True
    ),
    ApiKey.STREAMS_GROUP_HEARTBEAT: lambda cluster, _: StreamsGroupHeartbeatRequest(
        group_id=f"{GROUP}-streams",
        member_id="m",
        rebalance_timeout_ms=1000,
        topology=Topology(subtopologies=(Subtopology(subtopology_id="0", source_topics=(TOPIC,)),)),
        process_id="p",
        active_tasks=(),
        standby_tasks=(),
        warmup_tasks=(),
    ),
    ApiKey.STREAMS_GROUP_DESCRIBE: lambda cluster, _: StreamsGroupDescribeRequest(
        group_ids=(f"{GROUP}-streams",), include_authorized_operations=True
    ),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: lambda cluster, _: DescribeShareGroupOffsetsRequest(
        groups=(DescribeShareGroupOffsetsRequestGroup(group_id=f"{GROUP}-share", topics=None),)
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: lambda cluster, _: AlterShareGroupOffsetsRequest(
        group_id=f"{GROUP}-share"
    ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: lambda cluster, _: DeleteShareGroupOffsetsRequest(
        group_id=f"{GROUP}-share"
    ),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: lambda cluster, _: INITIALIZE.create_request(
        GROUP, [InitialState(share_partition=share_partition(cluster), state_epoch=1)]
    ),
    ApiKey.READ_SHARE_GROUP_STATE: lambda cluster, _: READ.create_request(GROUP, [state_read(cluster)]),
    ApiKey.WRITE_SHARE_GROUP_STATE: lambda cluster, _: WRITE.create_request(
        GROUP,
        [
            StateWrite(
                share_partition=share_partition(cluster),
                state_epoch=1,
                leader_epoch=1,
                start_offset=0,
                delivery_complete_count=2,
                batches=(ShareStateBatch(0, 4, 2, 1),),
            )
        ],
    ),
    ApiKey.DELETE_SHARE_GROUP_STATE: lambda cluster, _: DELETE.create_request(
        GROUP, [share_partition(cluster)]
    ),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: lambda cluster, _: READ_SUMMARY.create_request(
        GROUP, [state_read(cluster)]
    ),
    ApiKey.SHARE_FETCH: lambda cluster, _: share_fetch_request(cluster.topic_id),
    ApiKey.SHARE_ACKNOWLEDGE: lambda cluster, _: share_acknowledge_request(cluster.topic_id),
    ApiKey.SASL_HANDSHAKE: lambda cluster, _: SaslHandshakeRequest(mechanism="PLAIN"),
    ApiKey.SASL_AUTHENTICATE: lambda cluster, _: SaslAuthenticateRequest(auth_bytes=b"\0user\0password"),
}
