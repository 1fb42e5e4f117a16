"""The limits of one Fetch request: what its sender may read, how much, and from which replica.

Source: KIP-98 (isolation), KIP-392 (reading from followers), KIP-903 (broker epochs).
"""

from __future__ import annotations

from functools import partial
from typing import Final

from tidelog.broker.fetching.fetch_options import FetchOptions
from tidelog.broker.fetching.fetch_read import FetchLimits
from tidelog.broker.network.request import Request
from tidelog.broker.partitions.partition import FetchIsolation
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.security.authorization.access import may_access_cluster, require_access
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.views.fetch_request_view import FetchPartition, FetchRequestView

READ_COMMITTED: Final = 1
FIRST_VERSION_WITH_RACK: Final = 11


def limits_of_request(
    request: Request, view: FetchRequestView, options: FetchOptions, replicas: ReplicaManager
) -> FetchLimits:
    """Return the limits of a request, and what its sender may read."""
    max_bytes = min(view.max_bytes, options.max_bytes)
    min_bytes = min(view.min_bytes, max_bytes)
    if view.replica_id >= 0:
        return _follower_limits(request, view, options, min_bytes, max_bytes)
    if request.quota is not None:
        max_bytes = min(max_bytes, request.quota.fetch_bytes_max())
        min_bytes = min(min_bytes, max_bytes)
    committed = view.isolation_level == READ_COMMITTED
    isolation = FetchIsolation.READ_COMMITTED if committed else FetchIsolation.READ_UNCOMMITTED
    limits = FetchLimits(view.replica_id, isolation, min_bytes, max_bytes)
    if options.authorizer.is_enabled:
        limits.check_access = partial(_check_client_access, request, options.authorizer, replicas)
    if options.remote is not None:
        limits.remote = options.remote.reader
    limits.leader_only = request.header.api_version < FIRST_VERSION_WITH_RACK
    if view.rack_id and options.preferred_read_replicas is not None:
        limits.preferred_replica = options.preferred_read_replicas.for_client(view.rack_id, request.listener)
    return limits


def _follower_limits(
    request: Request, view: FetchRequestView, options: FetchOptions, min_bytes: int, max_bytes: int
) -> FetchLimits:
    limits = FetchLimits(view.replica_id, FetchIsolation.LOG_END, min_bytes, max_bytes)
    if not may_access_cluster(options.authorizer, request, AclOperation.CLUSTER_ACTION):
        limits.check_access = _deny_follower
    limits.replica_epoch = view.replica_epoch
    if options.throttle is not None and options.throttle.is_active:
        limits.is_throttled = options.throttle.is_throttled
    if request.quota is not None:
        request.quota.exempt()
    return limits


def _check_client_access(
    request: Request, authorizer: Authorizer, replicas: ReplicaManager, requested: FetchPartition
) -> None:
    """Raise KafkaError if a client may not read a partition; an unknown topic has its own error."""
    name = requested.topic
    if requested.topic_id is not None and not name:
        name = replicas.topic_name(requested.topic_id)
    if name is not None:
        require_access(authorizer, request, AclOperation.READ, AclResourceType.TOPIC, name)


def _deny_follower(requested: FetchPartition) -> None:
    """Raise KafkaError: the sender may not read as a replica of another broker (CVE-2018-1288)."""
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    raise KafkaError(code, code.text)
