"""The error response of each API: the error at the top level, or at every requested item.

Most responses have a top-level `error_code`. The others, and some that have both, repeat the items of the
request (topics, partitions, groups, resources) with the error at the innermost level. `_MIRRORS` defines for
each API which array of the response repeats which array of the request.

Source: the getErrorResponse methods of Apache Kafka 4.3's requests, for the shape only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final, cast, get_type_hints

from tidelog.base.dataclass import dataclass
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.registry import ApiKey, response_type
from tidelog.protocol.schema import ApiMessage, Array, Kind, Struct
from tidelog.protocol.steps import Steps


@dataclass(frozen=True, slots=True)
class _Mirror:
    """One array of a response that repeats an array of the request.

    `response_array` repeats `request_array`, or several arrays whose names are separated by spaces. `copied`
    maps fields of the response's items to those of the request's items; "" is the item itself if the request
    has plain values. `inner` mirrors the next level; `fixed` has the values that mean "unknown". Versions
    above `highest` have no array.
    """

    response_array: str
    request_array: str
    copied: Mapping[str, str]
    inner: _Mirror | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict)
    error: str = "error_code"
    highest: int = 2**15 - 1


def _same_names(*names: str) -> dict[str, str]:
    return {name: name for name in names}


_PARTITION_INDEX: Final = {"partition_index": "partition_index"}
_PARTITIONS: Final = _Mirror("partitions", "partitions", _PARTITION_INDEX)
_TOPICS: Final = _Mirror("topics", "topics", _same_names("name"), _PARTITIONS)
_RESOURCE: Final = _same_names("resource_type", "resource_name")
_NO_NODE: Final = {"node_id": -1, "port": -1}
_GROUP_IDS: Final = (_Mirror("groups", "group_ids", {"group_id": ""}),)

_SHARE_STATE: Final = _Mirror(
    "results",
    "topics",
    _same_names("topic_id"),
    _Mirror("partitions", "partitions", _same_names("partition")),
)

# Of several mirrors of one API, the first whose arrays exist in the version of the request is used.
_MIRRORS: Final[Mapping[int, tuple[_Mirror, ...]]] = {
    ApiKey.PRODUCE: (
        _Mirror(
            "responses",
            "topic_data",
            _same_names("name", "topic_id"),
            _Mirror("partition_responses", "partition_data", _same_names("index"), fixed={"base_offset": -1}),
        ),
    ),
    ApiKey.FETCH: (
        _Mirror(
            "responses",
            "topics",
            _same_names("topic", "topic_id"),
            _Mirror(
                "partitions", "partitions", {"partition_index": "partition"}, fixed={"high_watermark": -1}
            ),
            highest=12,
        ),
    ),
    ApiKey.LIST_OFFSETS: (_TOPICS,),
    ApiKey.METADATA: (_Mirror("topics", "topics", _same_names("name", "topic_id")),),
    ApiKey.OFFSET_COMMIT: (_Mirror("topics", "topics", _same_names("name", "topic_id"), _PARTITIONS),),
    ApiKey.OFFSET_FETCH: (
        _Mirror("groups", "groups", _same_names("group_id")),
        _Mirror(
            "topics",
            "topics",
            _same_names("name"),
            _Mirror(
                "partitions", "partition_indexes", {"partition_index": ""}, fixed={"committed_offset": -1}
            ),
        ),
    ),
    ApiKey.FIND_COORDINATOR: (_Mirror("coordinators", "coordinator_keys", {"key": ""}, fixed=_NO_NODE),),
    ApiKey.DESCRIBE_GROUPS: (_Mirror("groups", "groups", {"group_id": ""}),),
    ApiKey.CREATE_TOPICS: (_Mirror("topics", "topics", _same_names("name")),),
    ApiKey.DELETE_TOPICS: (
        _Mirror("responses", "topics", _same_names("name", "topic_id")),
        _Mirror("responses", "topic_names", {"name": ""}),
    ),
    ApiKey.DELETE_RECORDS: (
        _Mirror(
            "topics",
            "topics",
            _same_names("name"),
            _Mirror("partitions", "partitions", _PARTITION_INDEX, fixed={"low_watermark": -1}),
        ),
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (
        _Mirror(
            "topics",
            "topics",
            _same_names("topic"),
            _Mirror("partitions", "partitions", _same_names("partition")),
        ),
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        _Mirror(
            "results_by_topic_v3_and_below",
            "v3_and_below_topics",
            _same_names("name"),
            _Mirror(
                "results_by_partition", "partitions", {"partition_index": ""}, error="partition_error_code"
            ),
        ),
    ),
    ApiKey.WRITE_TXN_MARKERS: (
        _Mirror(
            "markers",
            "markers",
            _same_names("producer_id"),
            _Mirror(
                "topics",
                "topics",
                _same_names("name"),
                _Mirror("partitions", "partition_indexes", {"partition_index": ""}),
            ),
        ),
    ),
    ApiKey.TXN_OFFSET_COMMIT: (_TOPICS,),
    ApiKey.DESCRIBE_CONFIGS: (_Mirror("results", "resources", _RESOURCE),),
    ApiKey.ALTER_CONFIGS: (_Mirror("responses", "resources", _RESOURCE),),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (_Mirror("responses", "resources", _RESOURCE),),
    ApiKey.ELECT_LEADERS: (
        _Mirror(
            "replica_election_results",
            "topic_partitions",
            _same_names("topic"),
            _Mirror("partition_result", "partitions", {"partition_id": ""}),
        ),
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (_Mirror("responses", "topics", _same_names("name"), _PARTITIONS),),
    ApiKey.CREATE_PARTITIONS: (_Mirror("results", "topics", _same_names("name")),),
    ApiKey.DELETE_GROUPS: (_Mirror("results", "groups_names", {"group_id": ""}),),
    ApiKey.DESCRIBE_PRODUCERS: (
        _Mirror(
            "topics",
            "topics",
            _same_names("name"),
            _Mirror("partitions", "partition_indexes", {"partition_index": ""}),
        ),
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: (
        _Mirror("transaction_states", "transactional_ids", {"transactional_id": ""}),
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (_Mirror("topics", "topics", _same_names("name")),),
    ApiKey.CONSUMER_GROUP_DESCRIBE: _GROUP_IDS,
    ApiKey.SHARE_GROUP_DESCRIBE: _GROUP_IDS,
    ApiKey.STREAMS_GROUP_DESCRIBE: _GROUP_IDS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (_Mirror("results", "deletions upsertions", {"user": "name"}),),
    ApiKey.ALTER_CLIENT_QUOTAS: (_Mirror("entries", "entries", _same_names("entity")),),
    ApiKey.CREATE_ACLS: (_Mirror("results", "creations", {}),),
    ApiKey.DELETE_ACLS: (_Mirror("filter_results", "filters", {}),),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (_Mirror("groups", "groups", _same_names("group_id")),),
    **dict.fromkeys(
        (
            ApiKey.INITIALIZE_SHARE_GROUP_STATE,
            ApiKey.READ_SHARE_GROUP_STATE,
            ApiKey.WRITE_SHARE_GROUP_STATE,
            ApiKey.DELETE_SHARE_GROUP_STATE,
            ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        ),
        (_SHARE_STATE,),
    ),
}

_FIXED: Final[Mapping[int, Mapping[str, Any]]] = {
    ApiKey.CREATE_DELEGATION_TOKEN: {
        "principal_type": "User",
        "principal_name": "ANONYMOUS",
        "token_requester_principal_type": "User",
        "token_requester_principal_name": "ANONYMOUS",
        "issue_timestamp_ms": -1,
        "expiry_timestamp_ms": -1,
        "max_timestamp_ms": -1,
    },
}
"""Values of fields of the response itself that mean "unknown", and differ from their defaults."""

_kinds_of: Final[dict[type[Struct], dict[str, Kind]]] = {}
"""The wire kinds of the fields of each struct, computed when they are first needed."""


def error_response_in_steps(
    request: ApiMessage, version: int, code: ErrorCode, message: str
) -> Steps[ApiMessage | None]:
    """Return the response with `code` for all items of `request`; None if the API has no such response.

    Return None also for a produce request with acks=0, which has no response. As in Kafka, its connection is
    closed instead.
    """
    if request.api_key == ApiKey.PRODUCE and getattr(request, "acks", None) == 0:
        return None
    response = response_type(request.api_key)
    values = _error_fields(response, version, code, message, "error_code")
    fixed = _FIXED.get(request.api_key, {})
    values |= {name: value for name, value in fixed.items() if _exists(response, name, version)}
    for mirror in _MIRRORS.get(request.api_key, ()):
        names = mirror.request_array.split()
        if version > mirror.highest:
            continue
        if _exists(type(request), names[0], version) and _exists(response, mirror.response_array, version):
            requested = [item for name in names for item in getattr(request, name) or ()]
            values[mirror.response_array] = yield from _reflect(
                mirror, response, requested, version, code, message
            )
            break
    return response(**values) if values else None


def needed_for_error(request: ApiMessage) -> ApiMessage:
    """Return the part of `request` that `error_response_in_steps` needs: all of it, or an empty message.

    A request that waits keeps only this part.
    """
    return request if request.api_key in _MIRRORS else type(request)()


def _reflect(
    mirror: _Mirror,
    parent: type[Struct],
    requested: Sequence[Any],
    version: int,
    code: ErrorCode,
    message: str,
) -> Steps[tuple[Struct, ...]]:
    """Return the items of the response for the items of the request."""
    kind = _kinds(parent)[mirror.response_array]
    assert isinstance(kind, Array)
    item_type = cast(type[Struct], kind.element)
    inner = mirror.inner
    common = {name: value for name, value in mirror.fixed.items() if _exists(item_type, name, version)}
    if inner is None:
        common |= _error_fields(item_type, version, code, message, mirror.error)
    items = []
    for item in requested:
        values = {to: getattr(item, name) if name else item for to, name in mirror.copied.items()}
        if inner is not None:
            of_item = getattr(item, inner.request_array)
            values[inner.response_array] = yield from _reflect(
                inner, item_type, of_item, version, code, message
            )
        items.append(item_type(**values, **common))
        yield None
    return tuple(items)


def _error_fields(
    owner: type[Struct], version: int, code: ErrorCode, message: str, name: str
) -> dict[str, Any]:
    """Return the values of the error field `name` and of the error message, if the version has them."""
    if not _exists(owner, name, version):
        return {}
    fields: dict[str, Any] = {name: int(code)}
    if _exists(owner, "error_message", version):
        fields["error_message"] = message
    return fields


def _exists(owner: type[Struct], name: str, version: int) -> bool:
    kind = _kinds(owner).get(name)
    return kind is not None and version in kind.present


def _kinds(owner: type[Struct]) -> dict[str, Kind]:
    """Return the declared wire kinds of a struct's fields."""
    kinds = _kinds_of.get(owner)
    if kinds is None:
        hints = get_type_hints(owner, include_extras=True)
        kinds = {name: hint.__metadata__[0] for name, hint in hints.items() if hasattr(hint, "__metadata__")}
        _kinds_of[owner] = kinds
    return kinds
