"""Every API of Kafka 4.3: its key, name, versions, listeners and message types.

A module of messages is imported when a type in it is first requested, so that a client imports only the APIs
that it uses.

Source: the request schemas of Apache Kafka 4.3 (apiKey, validVersions, flexibleVersions, listeners).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from importlib import import_module
from types import MappingProxyType
from typing import Final, cast

from tidelog.base.dataclass import dataclass
from tidelog.protocol.schema import ApiMessage


class ApiKey(IntEnum):
    """The number that identifies the API of a request."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


class Listener(IntEnum):
    """The kind of listener on which an API is available."""

    BROKER = 0
    CONTROLLER = 1


_BROKER: Final = frozenset({Listener.BROKER})
_CONTROLLER: Final = frozenset({Listener.CONTROLLER})
_BOTH: Final = frozenset(Listener)


@dataclass(frozen=True, slots=True)
class Api:
    """One API.

    `lowest` and `highest` are the versions in ApiVersions responses. If `flexible_from` is None, no version
    is flexible.
    """

    key: ApiKey
    name: str
    lowest: int
    highest: int
    flexible_from: int | None
    listeners: frozenset[Listener]

    def is_flexible(self, version: int) -> bool:
        """Return whether `version`, which may exceed `highest`, has tagged fields (KIP-482)."""
        return self.flexible_from is not None and version >= self.flexible_from


# The lowest version of Produce is reported as 0 because librdkafka requires it (KAFKA-18659).
# Its lowest message version is 3.
# Version 6 of InitProducerId is in the schema but is not stable (KIP-939), so it is not supported.
_TABLE: Final = (
    Api(ApiKey.PRODUCE, "Produce", 0, 13, 9, _BROKER),
    Api(ApiKey.FETCH, "Fetch", 4, 18, 12, _BOTH),
    Api(ApiKey.LIST_OFFSETS, "ListOffsets", 1, 11, 6, _BROKER),
    Api(ApiKey.METADATA, "Metadata", 0, 13, 9, _BROKER),
    Api(ApiKey.OFFSET_COMMIT, "OffsetCommit", 2, 10, 8, _BROKER),
    Api(ApiKey.OFFSET_FETCH, "OffsetFetch", 1, 10, 6, _BROKER),
    Api(ApiKey.FIND_COORDINATOR, "FindCoordinator", 0, 6, 3, _BROKER),
    Api(ApiKey.JOIN_GROUP, "JoinGroup", 0, 9, 6, _BROKER),
    Api(ApiKey.HEARTBEAT, "Heartbeat", 0, 4, 4, _BROKER),
    Api(ApiKey.LEAVE_GROUP, "LeaveGroup", 0, 5, 4, _BROKER),
    Api(ApiKey.SYNC_GROUP, "SyncGroup", 0, 5, 4, _BROKER),
    Api(ApiKey.DESCRIBE_GROUPS, "DescribeGroups", 0, 6, 5, _BROKER),
    Api(ApiKey.LIST_GROUPS, "ListGroups", 0, 5, 3, _BROKER),
    Api(ApiKey.SASL_HANDSHAKE, "SaslHandshake", 0, 1, None, _BOTH),
    Api(ApiKey.API_VERSIONS, "ApiVersions", 0, 4, 3, _BOTH),
    Api(ApiKey.CREATE_TOPICS, "CreateTopics", 2, 7, 5, _BOTH),
    Api(ApiKey.DELETE_TOPICS, "DeleteTopics", 1, 6, 4, _BOTH),
    Api(ApiKey.DELETE_RECORDS, "DeleteRecords", 0, 2, 2, _BROKER),
    Api(ApiKey.INIT_PRODUCER_ID, "InitProducerId", 0, 5, 2, _BROKER),
    Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch", 2, 4, 4, _BROKER),
    Api(ApiKey.ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn", 0, 5, 3, _BROKER),
    Api(ApiKey.ADD_OFFSETS_TO_TXN, "AddOffsetsToTxn", 0, 4, 3, _BROKER),
    Api(ApiKey.END_TXN, "EndTxn", 0, 5, 3, _BROKER),
    Api(ApiKey.WRITE_TXN_MARKERS, "WriteTxnMarkers", 1, 2, 1, _BROKER),
    Api(ApiKey.TXN_OFFSET_COMMIT, "TxnOffsetCommit", 0, 5, 3, _BROKER),
    Api(ApiKey.DESCRIBE_ACLS, "DescribeAcls", 1, 3, 2, _BOTH),
    Api(ApiKey.CREATE_ACLS, "CreateAcls", 1, 3, 2, _BOTH),
    Api(ApiKey.DELETE_ACLS, "DeleteAcls", 1, 3, 2, _BOTH),
    Api(ApiKey.DESCRIBE_CONFIGS, "DescribeConfigs", 1, 4, 4, _BOTH),
    Api(ApiKey.ALTER_CONFIGS, "AlterConfigs", 0, 2, 2, _BOTH),
    Api(ApiKey.ALTER_REPLICA_LOG_DIRS, "AlterReplicaLogDirs", 1, 2, 2, _BROKER),
    Api(ApiKey.DESCRIBE_LOG_DIRS, "DescribeLogDirs", 1, 5, 2, _BROKER),
    Api(ApiKey.SASL_AUTHENTICATE, "SaslAuthenticate", 0, 2, 2, _BOTH),
    Api(ApiKey.CREATE_PARTITIONS, "CreatePartitions", 0, 3, 2, _BOTH),
    Api(ApiKey.CREATE_DELEGATION_TOKEN, "CreateDelegationToken", 1, 3, 2, _BOTH),
    Api(ApiKey.RENEW_DELEGATION_TOKEN, "RenewDelegationToken", 1, 2, 2, _BOTH),
    Api(ApiKey.EXPIRE_DELEGATION_TOKEN, "ExpireDelegationToken", 1, 2, 2, _BOTH),
    Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, "DescribeDelegationToken", 1, 3, 2, _BOTH),
    Api(ApiKey.DELETE_GROUPS, "DeleteGroups", 0, 2, 2, _BROKER),
    Api(ApiKey.ELECT_LEADERS, "ElectLeaders", 0, 2, 2, _BOTH),
    Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs", 0, 1, 1, _BOTH),
    Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "AlterPartitionReassignments", 0, 1, 0, _BOTH),
    Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, "ListPartitionReassignments", 0, 0, 0, _BOTH),
    Api(ApiKey.OFFSET_DELETE, "OffsetDelete", 0, 0, None, _BROKER),
    Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, "DescribeClientQuotas", 0, 1, 1, _BROKER),
    Api(ApiKey.ALTER_CLIENT_QUOTAS, "AlterClientQuotas", 0, 1, 1, _BOTH),
    Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "DescribeUserScramCredentials", 0, 0, 0, _BOTH),
    Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "AlterUserScramCredentials", 0, 0, 0, _BOTH),
    Api(ApiKey.VOTE, "Vote", 0, 2, 0, _CONTROLLER),
    Api(ApiKey.BEGIN_QUORUM_EPOCH, "BeginQuorumEpoch", 0, 1, 1, _CONTROLLER),
    Api(ApiKey.END_QUORUM_EPOCH, "EndQuorumEpoch", 0, 1, 1, _CONTROLLER),
    Api(ApiKey.DESCRIBE_QUORUM, "DescribeQuorum", 0, 2, 0, _BOTH),
    Api(ApiKey.ALTER_PARTITION, "AlterPartition", 2, 3, 0, _CONTROLLER),
    Api(ApiKey.UPDATE_FEATURES, "UpdateFeatures", 0, 2, 0, _BOTH),
    Api(ApiKey.ENVELOPE, "Envelope", 0, 0, 0, _CONTROLLER),
    Api(ApiKey.FETCH_SNAPSHOT, "FetchSnapshot", 0, 1, 0, _CONTROLLER),
    Api(ApiKey.DESCRIBE_CLUSTER, "DescribeCluster", 0, 2, 0, _BOTH),
    Api(ApiKey.DESCRIBE_PRODUCERS, "DescribeProducers", 0, 0, 0, _BROKER),
    Api(ApiKey.BROKER_REGISTRATION, "BrokerRegistration", 0, 4, 0, _CONTROLLER),
    Api(ApiKey.BROKER_HEARTBEAT, "BrokerHeartbeat", 0, 2, 0, _CONTROLLER),
    Api(ApiKey.UNREGISTER_BROKER, "UnregisterBroker", 0, 0, 0, _BOTH),
    Api(ApiKey.DESCRIBE_TRANSACTIONS, "DescribeTransactions", 0, 0, 0, _BROKER),
    Api(ApiKey.LIST_TRANSACTIONS, "ListTransactions", 0, 2, 0, _BROKER),
    Api(ApiKey.ALLOCATE_PRODUCER_IDS, "AllocateProducerIds", 0, 0, 0, _CONTROLLER),
    Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", 0, 1, 0, _BROKER),
    Api(ApiKey.CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribe", 0, 1, 0, _BROKER),
    Api(ApiKey.CONTROLLER_REGISTRATION, "ControllerRegistration", 0, 0, 0, _CONTROLLER),
    Api(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, "GetTelemetrySubscriptions", 0, 0, 0, _BROKER),
    Api(ApiKey.PUSH_TELEMETRY, "PushTelemetry", 0, 0, 0, _BROKER),
    Api(ApiKey.ASSIGN_REPLICAS_TO_DIRS, "AssignReplicasToDirs", 0, 0, 0, _CONTROLLER),
    Api(ApiKey.LIST_CONFIG_RESOURCES, "ListConfigResources", 0, 1, 0, _BROKER),
    Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "DescribeTopicPartitions", 0, 0, 0, _BROKER),
    Api(ApiKey.SHARE_GROUP_HEARTBEAT, "ShareGroupHeartbeat", 1, 1, 0, _BROKER),
    Api(ApiKey.SHARE_GROUP_DESCRIBE, "ShareGroupDescribe", 1, 1, 0, _BROKER),
    Api(ApiKey.SHARE_FETCH, "ShareFetch", 1, 2, 0, _BROKER),
    Api(ApiKey.SHARE_ACKNOWLEDGE, "ShareAcknowledge", 1, 2, 0, _BROKER),
    Api(ApiKey.ADD_RAFT_VOTER, "AddRaftVoter", 0, 1, 0, _BOTH),
    Api(ApiKey.REMOVE_RAFT_VOTER, "RemoveRaftVoter", 0, 0, 0, _BOTH),
    Api(ApiKey.UPDATE_RAFT_VOTER, "UpdateRaftVoter", 0, 0, 0, _CONTROLLER),
    Api(ApiKey.INITIALIZE_SHARE_GROUP_STATE, "InitializeShareGroupState", 0, 0, 0, _BROKER),
    Api(ApiKey.READ_SHARE_GROUP_STATE, "ReadShareGroupState", 0, 0, 0, _BROKER),
    Api(ApiKey.WRITE_SHARE_GROUP_STATE, "WriteShareGroupState", 0, 1, 0, _BROKER),
    Api(ApiKey.DELETE_SHARE_GROUP_STATE, "DeleteShareGroupState", 0, 0, 0, _BROKER),
    Api(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, "ReadShareGroupStateSummary", 0, 1, 0, _BROKER),
    Api(ApiKey.STREAMS_GROUP_HEARTBEAT, "StreamsGroupHeartbeat", 0, 0, 0, _BROKER),
    Api(ApiKey.STREAMS_GROUP_DESCRIBE, "StreamsGroupDescribe", 0, 0, 0, _BROKER),
    Api(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, "DescribeShareGroupOffsets", 0, 1, 0, _BROKER),
    Api(ApiKey.ALTER_SHARE_GROUP_OFFSETS, "AlterShareGroupOffsets", 0, 0, 0, _BROKER),
    Api(ApiKey.DELETE_SHARE_GROUP_OFFSETS, "DeleteShareGroupOffsets", 0, 0, 0, _BROKER),
)

APIS: Final[Mapping[int, Api]] = MappingProxyType({int(api.key): api for api in _TABLE})

NEVER_FLEXIBLE: Final = 0x8000
"""Greater than every version that a request header can contain."""

FLEXIBLE_FROM: Final[Mapping[int, int]] = MappingProxyType(
    {key: NEVER_FLEXIBLE if api.flexible_from is None else api.flexible_from for key, api in APIS.items()}
)
"""The first version with tagged fields, by API key."""

FORWARDABLE: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    }
)
"""The APIs that a broker forwards to the active controller inside an Envelope (KIP-590).

Source: the forwardable entries of ApiKeys in Apache Kafka 4.3.
"""

_types: dict[tuple[int, str], type[ApiMessage]] = {}


def request_type(key: int) -> type[ApiMessage]:
    """Return the class of the requests of API `key`.

    Errors: KeyError for an unknown key.
    """
    return _message_type(key, "Request")


def response_type(key: int) -> type[ApiMessage]:
    """Return the class of the responses of API `key`.

    Errors: KeyError for an unknown key.
    """
    return _message_type(key, "Response")


def request_header_version(key: int, version: int) -> int:
    """Return 2 for a flexible request, else 1.

    Errors: KeyError for an unknown key.
    """
    return 2 if APIS[key].is_flexible(version) else 1


def response_header_version(key: int, version: int) -> int:
    """Return 1 for a flexible response, else 0.

    ApiVersions always uses version 0, so that a client can read the response before it knows which versions
    the broker supports (KIP-511).
    Errors: KeyError for an unknown key.
    """
    return 1 if key != ApiKey.API_VERSIONS and APIS[key].is_flexible(version) else 0


def _message_type(key: int, suffix: str) -> type[ApiMessage]:
    message_type = _types.get((key, suffix))
    if message_type is None:
        name = APIS[key].name
        module = import_module("tidelog.protocol.messages." + _module_name(name))
        message_type = cast(type[ApiMessage], getattr(module, name + suffix))
        _types[key, suffix] = message_type
    return message_type


def _module_name(name: str) -> str:
    """Return the module name of an API, such as init_producer_id for InitProducerId."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
