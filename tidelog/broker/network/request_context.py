"""The context of a request, which its handler receives with the message."""

from __future__ import annotations

from typing import Final

from tidelog.base.dataclass import dataclass
from tidelog.broker.network.connected_client import ConnectedClient
from tidelog.protocol.framing import RequestHeader

NODE_PRINCIPAL: Final = "Node:self"
"""The principal of requests of a node to itself. Principals of clients have the type User."""
OWN_LISTENER: Final = ""
"""The name of the listener in the context of a request from the same node."""


@dataclass(slots=True)
class RequestContext:
    """The client, the listener and the time of a request.

    `peer` is host:port, `principal` is e.g. User:ANONYMOUS, `now_ms` is the wall time in milliseconds when
    the handler is called. `client` belongs to the connection, and exists longer than the request.
    `is_forwarded`: a broker has sent the request on behalf of the client, inside an Envelope.
    """

    header: RequestHeader
    listener: str
    peer: str
    principal: str
    now_ms: int
    client: ConnectedClient
    is_forwarded: bool = False

    @property
    def client_host(self) -> str:
        """The peer's address as Kafka shows it in group descriptions: /10.0.0.1."""
        return "/" + self.client_address

    @property
    def client_address(self) -> str:
        """The peer's address without its port: 10.0.0.1."""
        return self.peer.rpartition(":")[0].strip("[]")
