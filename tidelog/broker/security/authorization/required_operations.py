"""The operations that each API requires, and the resources on which it requires them.

    REQUEST    checked before the handler is called; a denial is an error of the whole request
    ELEMENT    checked by the handler for each topic, group, transactional id or config resource, or for a
               part of the request only

All rows of an API are required, in their order. A client may have `alternative` instead of the operation.
Source: KafkaApis and ControllerApis of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final, NamedTuple, TypeAlias

from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.registry import ApiKey

_VERSION_MAX: Final = 2**15 - 1


class Scope(Enum):
    """Where an operation is checked."""

    REQUEST = auto()
    ELEMENT = auto()


class RequiredOperation(NamedTuple):
    """An operation that an API requires.

    `name_field` is the field of the request with the name of the resource; the cluster has none. The row
    applies to the versions from `lowest` to `highest`. `alternative` is another operation that suffices.
    """

    operation: AclOperation
    resource_type: AclResourceType
    scope: Scope
    name_field: str = ""
    alternative: AclOperation | None = None
    lowest: int = 0
    highest: int = _VERSION_MAX


Requirements: TypeAlias = tuple[RequiredOperation, ...]


def _cluster(operation: AclOperation, alternative: AclOperation | None = None) -> RequiredOperation:
    return RequiredOperation(operation, AclResourceType.CLUSTER, Scope.REQUEST, alternative=alternative)


def _group(operation: AclOperation) -> RequiredOperation:
    return RequiredOperation(operation, AclResourceType.GROUP, Scope.REQUEST, "group_id")


def _transactional_id(name_field: str = "transactional_id", highest: int = _VERSION_MAX) -> RequiredOperation:
    return RequiredOperation(
        AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, Scope.REQUEST, name_field, highest=highest
    )


def _each_topic(operation: AclOperation) -> RequiredOperation:
    return RequiredOperation(operation, AclResourceType.TOPIC, Scope.ELEMENT)


def _each_group(operation: AclOperation) -> RequiredOperation:
    return RequiredOperation(operation, AclResourceType.GROUP, Scope.ELEMENT)


def _each_transactional_id(operation: AclOperation) -> RequiredOperation:
    return RequiredOperation(operation, AclResourceType.TRANSACTIONAL_ID, Scope.ELEMENT)


def _cluster_for_a_part(operation: AclOperation) -> RequiredOperation:
    return RequiredOperation(operation, AclResourceType.CLUSTER, Scope.ELEMENT)


def _token_owner(operation: AclOperation) -> RequiredOperation:
    return RequiredOperation(operation, AclResourceType.USER, Scope.ELEMENT)


def _each_config_resource(operation: AclOperation) -> Requirements:
    return (_each_topic(operation), _each_group(operation), _cluster_for_a_part(operation))


_BATCHED_TRANSACTIONS_FROM: Final = 4
_CLUSTER_ACTION: Final[Requirements] = (_cluster(AclOperation.CLUSTER_ACTION),)
_ALTER_CLUSTER: Final[Requirements] = (_cluster(AclOperation.ALTER),)
_DESCRIBE_CLUSTER: Final[Requirements] = (_cluster(AclOperation.DESCRIBE),)
_READ_GROUP: Final[Requirements] = (_group(AclOperation.READ),)
_NONE: Final[Requirements] = ()
# Only for tokens of another owner.
_CREATE_TOKENS: Final[Requirements] = (_token_owner(AclOperation.CREATE_TOKENS),)

BROKER_OPERATIONS: Final[Mapping[ApiKey, Requirements]] = {
    ApiKey.PRODUCE: (_each_transactional_id(AclOperation.WRITE), _each_topic(AclOperation.WRITE)),
    ApiKey.FETCH: (_each_topic(AclOperation.READ), _cluster_for_a_part(AclOperation.CLUSTER_ACTION)),
    ApiKey.LIST_OFFSETS: (_each_topic(AclOperation.DESCRIBE),),
    ApiKey.METADATA: (
        _each_topic(AclOperation.DESCRIBE),
        _cluster_for_a_part(AclOperation.CREATE),
        _each_topic(AclOperation.CREATE),
        _cluster_for_a_part(AclOperation.DESCRIBE),
    ),
    ApiKey.OFFSET_COMMIT: (*_READ_GROUP, _each_topic(AclOperation.READ)),
    ApiKey.OFFSET_FETCH: (_each_group(AclOperation.DESCRIBE), _each_topic(AclOperation.DESCRIBE)),
    ApiKey.FIND_COORDINATOR: (
        _each_group(AclOperation.DESCRIBE),
        _each_transactional_id(AclOperation.DESCRIBE),
        _cluster_for_a_part(AclOperation.CLUSTER_ACTION),
    ),
    ApiKey.JOIN_GROUP: _READ_GROUP,
    ApiKey.HEARTBEAT: _READ_GROUP,
    ApiKey.LEAVE_GROUP: _READ_GROUP,
    ApiKey.SYNC_GROUP: _READ_GROUP,
    ApiKey.DESCRIBE_GROUPS: (_each_group(AclOperation.DESCRIBE),),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (*_READ_GROUP, _each_topic(AclOperation.DESCRIBE)),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (
        _each_group(AclOperation.DESCRIBE),
        _each_topic(AclOperation.DESCRIBE),
    ),
    ApiKey.SHARE_FETCH: (_each_group(AclOperation.READ), _each_topic(AclOperation.READ)),
    ApiKey.SHARE_ACKNOWLEDGE: (*_READ_GROUP, _each_topic(AclOperation.READ)),
    ApiKey.LIST_GROUPS: (_cluster_for_a_part(AclOperation.DESCRIBE), _each_group(AclOperation.DESCRIBE)),
    ApiKey.SASL_HANDSHAKE: _NONE,
    ApiKey.API_VERSIONS: _NONE,
    ApiKey.DELETE_RECORDS: (_each_topic(AclOperation.DELETE),),
    ApiKey.INIT_PRODUCER_ID: (
        _each_transactional_id(AclOperation.WRITE),
        _cluster_for_a_part(AclOperation.IDEMPOTENT_WRITE),
        _each_topic(AclOperation.WRITE),
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (
        _cluster_for_a_part(AclOperation.CLUSTER_ACTION),
        _each_topic(AclOperation.DESCRIBE),
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        _cluster(AclOperation.CLUSTER_ACTION)._replace(lowest=_BATCHED_TRANSACTIONS_FROM),
        _transactional_id("v3_and_below_transactional_id", highest=_BATCHED_TRANSACTIONS_FROM - 1),
        _each_topic(AclOperation.WRITE),
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: (_transactional_id(), *_READ_GROUP),
    ApiKey.END_TXN: (_transactional_id(),),
    ApiKey.WRITE_TXN_MARKERS: (_cluster(AclOperation.CLUSTER_ACTION, alternative=AclOperation.ALTER),),
    ApiKey.TXN_OFFSET_COMMIT: (_transactional_id(), *_READ_GROUP, _each_topic(AclOperation.READ)),
    ApiKey.DESCRIBE_ACLS: _DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_CONFIGS: _each_config_resource(AclOperation.DESCRIBE_CONFIGS),
    ApiKey.ALTER_CONFIGS: _each_config_resource(AclOperation.ALTER_CONFIGS),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (_cluster_for_a_part(AclOperation.ALTER),),
    ApiKey.DESCRIBE_LOG_DIRS: (_cluster_for_a_part(AclOperation.DESCRIBE),),
    ApiKey.SASL_AUTHENTICATE: _NONE,
    ApiKey.CREATE_DELEGATION_TOKEN: _CREATE_TOKENS,
    ApiKey.RENEW_DELEGATION_TOKEN: _NONE,
    ApiKey.EXPIRE_DELEGATION_TOKEN: _NONE,
    # Only for tokens of other owners; one of the operations is sufficient.
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (
        RequiredOperation(AclOperation.DESCRIBE, AclResourceType.DELEGATION_TOKEN, Scope.ELEMENT),
        _token_owner(AclOperation.DESCRIBE_TOKENS),
    ),
    ApiKey.DELETE_GROUPS: (_each_group(AclOperation.DELETE),),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _each_config_resource(AclOperation.ALTER_CONFIGS),
    ApiKey.OFFSET_DELETE: (_group(AclOperation.DELETE), _each_topic(AclOperation.READ)),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (_cluster(AclOperation.DESCRIBE_CONFIGS),),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_CLUSTER: (_cluster_for_a_part(AclOperation.DESCRIBE),),
    ApiKey.DESCRIBE_PRODUCERS: (_each_topic(AclOperation.READ),),
    ApiKey.DESCRIBE_TRANSACTIONS: (
        _each_transactional_id(AclOperation.DESCRIBE),
        _each_topic(AclOperation.DESCRIBE),
    ),
    ApiKey.LIST_TRANSACTIONS: (_each_transactional_id(AclOperation.DESCRIBE),),
    ApiKey.LIST_CONFIG_RESOURCES: (_cluster(AclOperation.DESCRIBE_CONFIGS),),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: _NONE,
    ApiKey.PUSH_TELEMETRY: _NONE,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (_each_topic(AclOperation.DESCRIBE),),
    ApiKey.SHARE_GROUP_HEARTBEAT: (*_READ_GROUP, _each_topic(AclOperation.DESCRIBE)),
    ApiKey.SHARE_GROUP_DESCRIBE: (_each_group(AclOperation.DESCRIBE), _each_topic(AclOperation.DESCRIBE)),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (
        _each_group(AclOperation.DESCRIBE),
        _each_topic(AclOperation.DESCRIBE),
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: (*_READ_GROUP, _each_topic(AclOperation.READ)),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: (_group(AclOperation.DELETE), _each_topic(AclOperation.READ)),
    ApiKey.STREAMS_GROUP_HEARTBEAT: (
        *_READ_GROUP,
        _each_topic(AclOperation.DESCRIBE),
        _cluster_for_a_part(AclOperation.CREATE),
        _each_topic(AclOperation.CREATE),
    ),
    ApiKey.STREAMS_GROUP_DESCRIBE: (_each_group(AclOperation.DESCRIBE), _each_topic(AclOperation.DESCRIBE)),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: _CLUSTER_ACTION,
    ApiKey.READ_SHARE_GROUP_STATE: _CLUSTER_ACTION,
    ApiKey.WRITE_SHARE_GROUP_STATE: _CLUSTER_ACTION,
    ApiKey.DELETE_SHARE_GROUP_STATE: _CLUSTER_ACTION,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: _CLUSTER_ACTION,
}
"""The APIs that a broker serves itself. It forwards others to the active controller, which checks them."""

CONTROLLER_OPERATIONS: Final[Mapping[ApiKey, Requirements]] = {
    ApiKey.FETCH: _CLUSTER_ACTION,
    ApiKey.API_VERSIONS: _NONE,
    ApiKey.SASL_HANDSHAKE: _NONE,
    ApiKey.SASL_AUTHENTICATE: _NONE,
    ApiKey.CREATE_TOPICS: (
        _cluster_for_a_part(AclOperation.CREATE),
        _each_topic(AclOperation.CREATE),
        _each_topic(AclOperation.DESCRIBE_CONFIGS),
    ),
    ApiKey.DELETE_TOPICS: (
        _cluster_for_a_part(AclOperation.DELETE),
        _each_topic(AclOperation.DESCRIBE),
        _each_topic(AclOperation.DELETE),
    ),
    ApiKey.DESCRIBE_ACLS: _DESCRIBE_CLUSTER,
    ApiKey.CREATE_ACLS: _ALTER_CLUSTER,
    ApiKey.DELETE_ACLS: _ALTER_CLUSTER,
    ApiKey.DESCRIBE_CONFIGS: _each_config_resource(AclOperation.DESCRIBE_CONFIGS),
    ApiKey.ALTER_CONFIGS: _each_config_resource(AclOperation.ALTER_CONFIGS),
    ApiKey.CREATE_PARTITIONS: (_each_topic(AclOperation.ALTER),),
    ApiKey.CREATE_DELEGATION_TOKEN: _CREATE_TOKENS,
    # The owner and the renewers of a token may change it. They are part of the token: no entry is needed.
    ApiKey.RENEW_DELEGATION_TOKEN: _NONE,
    ApiKey.EXPIRE_DELEGATION_TOKEN: _NONE,
    ApiKey.ELECT_LEADERS: _ALTER_CLUSTER,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (
        *_each_config_resource(AclOperation.ALTER_CONFIGS),
        _cluster_for_a_part(AclOperation.CLUSTER_ACTION),
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _ALTER_CLUSTER,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _DESCRIBE_CLUSTER,
    ApiKey.ALTER_CLIENT_QUOTAS: (_cluster(AclOperation.ALTER_CONFIGS),),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _ALTER_CLUSTER,
    ApiKey.VOTE: _CLUSTER_ACTION,
    ApiKey.BEGIN_QUORUM_EPOCH: _CLUSTER_ACTION,
    ApiKey.END_QUORUM_EPOCH: _CLUSTER_ACTION,
    ApiKey.DESCRIBE_QUORUM: _DESCRIBE_CLUSTER,
    ApiKey.ALTER_PARTITION: _CLUSTER_ACTION,
    ApiKey.UPDATE_FEATURES: _ALTER_CLUSTER,
    ApiKey.ENVELOPE: _CLUSTER_ACTION,
    ApiKey.FETCH_SNAPSHOT: _CLUSTER_ACTION,
    ApiKey.DESCRIBE_CLUSTER: _ALTER_CLUSTER,
    ApiKey.BROKER_REGISTRATION: _CLUSTER_ACTION,
    ApiKey.BROKER_HEARTBEAT: _CLUSTER_ACTION,
    ApiKey.UNREGISTER_BROKER: _ALTER_CLUSTER,
    ApiKey.ALLOCATE_PRODUCER_IDS: _CLUSTER_ACTION,
    ApiKey.CONTROLLER_REGISTRATION: _CLUSTER_ACTION,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: _CLUSTER_ACTION,
    ApiKey.ADD_RAFT_VOTER: _ALTER_CLUSTER,
    ApiKey.REMOVE_RAFT_VOTER: _ALTER_CLUSTER,
    ApiKey.UPDATE_RAFT_VOTER: _CLUSTER_ACTION,
}
"""The APIs that a controller serves, on its listeners and inside an Envelope."""
