"""For every API a request with tens of thousands of elements in each of its arrays (items 13 and 20)."""

from __future__ import annotations

import time
from functools import partial
from typing import Final

from tests.harness.hostile.attack import Attack
from tests.harness.hostile.attack_context import AttackContext
from tests.harness.hostile.frames import request_frame
from tests.harness.hostile.large_arrays import (
    array_paths,
    existing_topic_id,
    latest_versions,
    wide_request,
)
from tidelog.protocol.registry import ApiKey, request_type

ELEMENTS: Final = 40_000

SERVED: Final = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.LEAVE_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.LIST_GROUPS,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.DELETE_RECORDS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.DELETE_GROUPS,
    ApiKey.ELECT_LEADERS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.OFFSET_DELETE,
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.UPDATE_FEATURES,
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.LIST_CONFIG_RESOURCES,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.ALTER_REPLICA_LOG_DIRS,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_DESCRIBE,
    ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.WRITE_SHARE_GROUP_STATE,
    ApiKey.DELETE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    ApiKey.STREAMS_GROUP_HEARTBEAT,
    ApiKey.STREAMS_GROUP_DESCRIBE,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS,
)
"""APIs with arrays in their requests."""


def _send_wide_requests(key: ApiKey, context: AttackContext) -> None:
    versions = dict(latest_versions(context.target.address))
    if key not in versions:
        context.note("not served")
        return
    version = versions[key]
    topic_id = existing_topic_id(context.target.address)
    count = context.size(ELEMENTS, 50)
    frames = {}
    for path in array_paths(request_type(key), version):
        for is_distinct in (True, False):
            request = wide_request(key, version, path, count, is_distinct=is_distinct, topic_id=topic_id)
            name = ".".join(path) + (" distinct" if is_distinct else " repeated")
            frames[name] = request_frame(request, version)
    client = context.client()
    slowest: dict[str, float] = {}
    context.begin()
    while True:
        for name, frame in frames.items():
            started_s = time.monotonic()
            if context.exchange(client, frame) is None:
                client.close()
                client = context.client()
            slowest[name] = max(time.monotonic() - started_s, slowest.get(name, 0.0))
        if context.has_ended:
            break
    for name, seconds in sorted(slowest.items(), key=lambda pair: -pair[1])[:3]:
        context.note(f"{name}: {len(frames[name]):,} bytes, at most {seconds * 1000:,.0f} ms")


def _name_of(key: ApiKey) -> str:
    return key.name.lower().replace("_", "-")


ATTACKS = tuple(
    Attack(
        name=f"wide-{_name_of(key)}",
        item="20",
        actions=f"{_name_of(key)} with 40,000 elements in each of its arrays, distinct and repeated",
        run=partial(_send_wide_requests, key),
        memory_mib=160,
        log_lines_max=200,
    )
    for key in SERVED
)
