"""One request at a time to each other node, and a pause after one that led nowhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tidelog.cluster.quorum.outbox import Outbox
from tidelog.cluster.quorum.voter_set import Endpoint
from tidelog.protocol.ids import BrokerId
from tidelog.protocol.schema import ApiMessage


class Asked(NamedTuple):
    """A request that is not answered yet."""

    node_id: BrokerId
    message: ApiMessage
    expires_ms: int


@dataclass(slots=True)
class _Connection:
    request_id: int | None = None
    ready_ms: int = 0
    """Nothing is sent before that."""


class Connections:
    """Which requests are under way, by node.

    Bounds: one request to a node; nodes are voters, the leader and bootstrap servers.
    """

    def __init__(self, outbox: Outbox, *, request_timeout_ms: int, retry_backoff_ms: int) -> None:
        self._outbox = outbox
        self._request_timeout_ms = request_timeout_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._by_node: dict[BrokerId, _Connection] = {}
        self._asked: dict[int, Asked] = {}

    def is_ready(self, node_id: BrokerId, now_ms: int) -> bool:
        """Whether a request may go to the node now."""
        connection = self._by_node.get(node_id)
        return connection is None or (connection.request_id is None and connection.ready_ms <= now_ms)

    def ready_at(self, node_id: BrokerId) -> int | None:
        """When the node may be asked again; None while a request is under way or when it may be asked now."""
        connection = self._by_node.get(node_id)
        return None if connection is None or connection.request_id is not None else connection.ready_ms

    @property
    def any_waiting(self) -> bool:
        """Whether any request is under way."""
        return bool(self._asked)

    def send(
        self,
        node_id: BrokerId,
        endpoints: tuple[Endpoint, ...],
        message: ApiMessage,
        now_ms: int,
        *,
        wait_ms: int = 0,
    ) -> int:
        """Ask; `wait_ms` is how long the other node may wait before it answers."""
        request_id = self._outbox.send(node_id, endpoints, message)
        self._by_node.setdefault(node_id, _Connection()).request_id = request_id
        self._asked[request_id] = Asked(node_id, message, now_ms + wait_ms + self._request_timeout_ms)
        return request_id

    def answered(self, request_id: int) -> Asked | None:
        """The request that was answered; None when nobody waits for it any more."""
        asked = self._asked.pop(request_id, None)
        if asked is not None:
            self._by_node[asked.node_id].request_id = None
        return asked

    def back_off(self, node_id: BrokerId, now_ms: int) -> None:
        """Leave the node alone for a while."""
        self._by_node.setdefault(node_id, _Connection()).ready_ms = now_ms + self._retry_backoff_ms

    def expired(self, now_ms: int) -> list[int]:
        """Requests whose time is over; whoever asks tells each as failed."""
        return [request_id for request_id, asked in self._asked.items() if asked.expires_ms <= now_ms]

    @property
    def next_expiry_ms(self) -> int | None:
        """When the first request under way is given up."""
        return min((asked.expires_ms for asked in self._asked.values()), default=None)

    def reset(self) -> None:
        """Forget all that is under way: another epoch or role has other questions."""
        self._asked.clear()
        self._by_node.clear()
