"""Requests in flight to other nodes: at most one to each node, with a backoff after a failure."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.base.dataclass import dataclass
from tidelog.cluster.quorum.outbox import Outbox
from tidelog.cluster.quorum.voter_set import Endpoint
from tidelog.protocol.ids import BrokerId
from tidelog.protocol.schema import ApiMessage


class PendingRequest(NamedTuple):
    """A request that has no response yet."""

    node_id: BrokerId
    message: ApiMessage
    expires_ms: int


@dataclass(slots=True)
class _Connection:
    request_id: int | None = None
    ready_ms: int = 0
    """No request is sent before this time."""


class Connections:
    """Tracks the pending requests by node.

    Bounds: one request for each node; nodes are voters, the leader and bootstrap servers.
    """

    def __init__(self, outbox: Outbox, *, request_timeout_ms: int, retry_backoff_ms: int) -> None:
        self._outbox = outbox
        self._request_timeout_ms = request_timeout_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._by_node: dict[BrokerId, _Connection] = {}
        self._pending: dict[int, PendingRequest] = {}

    def is_ready(self, node_id: BrokerId, now_ms: int) -> bool:
        """Return whether a request may be sent to the node now."""
        connection = self._by_node.get(node_id)
        return connection is None or (connection.request_id is None and connection.ready_ms <= now_ms)

    def ready_at(self, node_id: BrokerId) -> int | None:
        """Return the end of a node's backoff; None if a request is pending or there was no backoff."""
        connection = self._by_node.get(node_id)
        return None if connection is None or connection.request_id is not None else connection.ready_ms

    @property
    def has_pending(self) -> bool:
        """Whether any request is pending."""
        return bool(self._pending)

    def send(
        self,
        node_id: BrokerId,
        endpoints: tuple[Endpoint, ...],
        message: ApiMessage,
        now_ms: int,
        *,
        wait_ms: int = 0,
    ) -> int:
        """Send a request and return its id; the node may delay its response for `wait_ms`."""
        request_id = self._outbox.send(node_id, endpoints, message)
        self._by_node.setdefault(node_id, _Connection()).request_id = request_id
        self._pending[request_id] = PendingRequest(
            node_id, message, now_ms + wait_ms + self._request_timeout_ms
        )
        return request_id

    def complete(self, request_id: int) -> PendingRequest | None:
        """Remove and return the request after its response; return None if it is no longer pending."""
        request = self._pending.pop(request_id, None)
        if request is not None:
            self._by_node[request.node_id].request_id = None
        return request

    def back_off(self, node_id: BrokerId, now_ms: int) -> None:
        """Send no request to the node for `retry_backoff_ms`."""
        self._by_node.setdefault(node_id, _Connection()).ready_ms = now_ms + self._retry_backoff_ms

    def expired_requests(self, now_ms: int) -> list[int]:
        """Return the ids of requests that have timed out; the caller completes each as failed."""
        return [request_id for request_id, each in self._pending.items() if each.expires_ms <= now_ms]

    @property
    def next_expiry_ms(self) -> int | None:
        """The time at which the next pending request times out; None if no request is pending."""
        return min((each.expires_ms for each in self._pending.values()), default=None)

    def reset(self) -> None:
        """Remove all pending requests and backoffs after a change of state."""
        self._pending.clear()
        self._by_node.clear()
