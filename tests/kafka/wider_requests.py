"""Requests for resources that a client may access together with hidden and missing ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, Final
from uuid import UUID

from tests.kafka.authorized_nodes import HIDDEN, TRANSACTIONAL_ID, AuthorizedNode
from tests.support.messages.cluster_of_all_apis import GROUP, TOPIC
from tidelog.protocol.messages import alter_configs, incremental_alter_configs
from tidelog.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from tidelog.protocol.messages.create_topics import CreateTopicsRequest
from tidelog.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tidelog.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from tidelog.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest
from tidelog.protocol.messages.list_groups import ListGroupsRequest
from tidelog.protocol.messages.list_transactions import ListTransactionsRequest
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tidelog.protocol.schema import ApiMessage, Struct

MISSING_ID: Final = UUID(int=0x1234567890)
_TOPICS: Final = (TOPIC, "gone")
_TOPIC, _BROKER, _BROKER_LOGGER, _CLIENT_METRICS, _GROUP = 2, 4, 8, 16, 32
_RESOURCES: Final = (
    (_TOPIC, TOPIC),
    (_TOPIC, HIDDEN),
    (_TOPIC, "missing"),
    (_BROKER, "1"),
    (_BROKER, ""),
    (_BROKER_LOGGER, "1"),
    (_CLIENT_METRICS, "subscription"),
    (_GROUP, GROUP),
    (_GROUP, "hidden-group"),
)


def widen_request(request: ApiMessage, node: AuthorizedNode) -> ApiMessage:
    """Return a request with hidden and missing topics, groups and transactional ids added."""
    ids = node.topic_ids
    hidden: dict[object, object] = dict.fromkeys(_TOPICS, HIDDEN) | {ids[TOPIC]: ids[HIDDEN]}
    missing: dict[object, object] = dict.fromkeys(_TOPICS, "missing") | {ids[TOPIC]: MISSING_ID}
    others: dict[object, object] = {
        f"{GROUP}{end}": "hidden-group" for end in ("-offsets", *(f"-{n}" for n in range(20)))
    }
    hidden |= others | {TRANSACTIONAL_ID: "hidden-id", "no-such-group": "hidden-group"}
    missing[TRANSACTIONAL_ID] = "missing-id"
    if isinstance(request, CreateTopicsRequest):
        hidden |= {request.topics[0].name: HIDDEN}
        request = replace(request, validate_only=True)
    changes = {
        field.name: _widen(getattr(request, field.name), (hidden, missing))
        for field in fields(request)  # type: ignore[arg-type]
    }
    return replace(request, **changes)  # type: ignore[type-var]


def _widen(value: Any, substitutes: tuple[Mapping[object, object], ...]) -> Any:
    if not isinstance(value, tuple):
        return value
    copies = [_replace(each, names) for names in substitutes for each in value]
    return (*value, *(each for number, each in enumerate(copies) if each not in (*value, *copies[:number])))


def _replace(value: Any, names: Mapping[object, object]) -> Any:
    if isinstance(value, tuple):
        return tuple(_replace(each, names) for each in value)
    if isinstance(value, Struct):
        changes = {each.name: _replace(getattr(value, each.name), names) for each in fields(value)}  # type: ignore[arg-type]
        return replace(value, **changes)  # type: ignore[type-var]
    return names.get(value, value) if isinstance(value, (str, UUID)) else value


def _metadata_by_id(node: AuthorizedNode) -> ApiMessage:
    ids = (*node.topic_ids.values(), MISSING_ID)
    return MetadataRequest(topics=tuple(MetadataRequestTopic(topic_id=each, name=None) for each in ids))


def _alter_configs(_: AuthorizedNode) -> ApiMessage:
    return alter_configs.AlterConfigsRequest(
        validate_only=True,
        resources=tuple(
            alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=())
            for kind, name in _RESOURCES
            if kind != _BROKER_LOGGER
        ),
    )


def _incremental_alter_configs(_: AuthorizedNode) -> ApiMessage:
    return incremental_alter_configs.IncrementalAlterConfigsRequest(
        validate_only=True,
        resources=tuple(
            incremental_alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=())
            for kind, name in _RESOURCES
        ),
    )


def _describe_configs(_: AuthorizedNode) -> ApiMessage:
    return DescribeConfigsRequest(
        resources=tuple(
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
            for kind, name in _RESOURCES
        )
    )


OTHER_REQUESTS: Final[dict[str, Callable[[AuthorizedNode], ApiMessage]]] = {
    "metadata of all topics": lambda _: MetadataRequest(
        topics=None, include_topic_authorized_operations=True
    ),
    "metadata by id": _metadata_by_id,
    "partitions of all topics": lambda _: DescribeTopicPartitionsRequest(),
    "all groups": lambda _: ListGroupsRequest(),
    "all transactions": lambda _: ListTransactionsRequest(),
    "all offsets of groups": lambda _: OffsetFetchRequest(
        groups=tuple(
            OffsetFetchRequestGroup(group_id=name, topics=None)
            for name in (f"{GROUP}-offsets", "hidden-group")
        )
    ),
    "coordinators of transactions": lambda _: FindCoordinatorRequest(
        key_type=1, coordinator_keys=(TRANSACTIONAL_ID, "hidden-id")
    ),
    "producer id of a transactional id": lambda _: InitProducerIdRequest(
        transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=60_000
    ),
    "producer id of a hidden transactional id": lambda _: InitProducerIdRequest(
        transactional_id="hidden-id", transaction_timeout_ms=60_000
    ),
    "token of another owner": lambda _: CreateDelegationTokenRequest(
        owner_principal_type="User", owner_principal_name="bob", max_lifetime_ms=-1
    ),
    "tokens of other owners": lambda _: DescribeDelegationTokenRequest(
        owners=(DescribeDelegationTokenOwner(principal_type="User", principal_name="bob"),)
    ),
    "configs of all kinds": _describe_configs,
    "changes of configs of all kinds": _incremental_alter_configs,
    "replacement of configs of all kinds": _alter_configs,
}
"""Descriptions of requests, and functions that create them."""
