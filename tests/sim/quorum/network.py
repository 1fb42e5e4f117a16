"""The network between the nodes, which loses, delays and duplicates messages.

A request to a node without a process is refused at once or lost. Each request times out at its sender, so
that every `Send` gets exactly one response, as with the real shell. Cut links have a direction: (0, 1) drops
the messages from 0 to 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.sim.quorum.identity import FIRST_PORT
from tidelog.cluster.quorum.effects import Send
from tidelog.protocol.codec import decode, encode
from tidelog.protocol.messages.vote import VoteRequest
from tidelog.protocol.schema import ApiMessage

if TYPE_CHECKING:
    from tests.sim.quorum.cluster import SimulatedCluster
    from tests.sim.quorum.node import SimNode


@dataclass(slots=True, eq=False)
class Request:
    """A request in flight; it is the `source` to which the receiver responds."""

    sender: int
    sender_life: int
    request_id: int
    receiver: int
    message: ApiMessage
    response_count: int = 0
    """The number of responses of the receiver; a duplicate of the network is a request of its own."""


class Network:
    """Delivers messages between the nodes of one cluster."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.cut_links: set[tuple[int, int]] = set()
        self.only_candidate: int | None = None
        """The only node whose vote requests are delivered; None for all. A scenario elects it in this way."""

    def send(self, node: SimNode, effect: Send) -> None:
        """Send a request and start its timer."""
        cluster = self.cluster
        receiver = effect.to_node
        if receiver < 0 and effect.endpoints:
            receiver = effect.endpoints[0].port - FIRST_PORT
        elif not effect.endpoints or effect.endpoints[0].port - FIRST_PORT != receiver:
            receiver = -1
        node.pending_request_ids.add(effect.request_id)
        cluster.schedule(
            cluster.now + cluster.request_timeout, self._time_out, node, node.life, effect.request_id
        )
        if receiver not in cluster.nodes:
            cluster.schedule(cluster.now + 1, node.receive_response, node.life, effect.request_id, None)
            return
        message = self._encode_and_decode(effect.message)
        if self.only_candidate not in (None, node.id) and isinstance(message, VoteRequest):
            return
        for arrival in self._arrivals(node.id, receiver):
            request = Request(node.id, node.life, effect.request_id, receiver, message)
            cluster.schedule(arrival, self._arrive, request)

    def respond(self, request: Request, message: ApiMessage) -> None:
        """Send a response."""
        cluster = self.cluster
        message = self._encode_and_decode(message)
        for arrival in self._arrivals(request.receiver, request.sender):
            cluster.schedule(
                arrival,
                cluster.nodes[request.sender].receive_response,
                request.sender_life,
                request.request_id,
                message,
            )

    def _arrive(self, request: Request) -> None:
        receiver = self.cluster.nodes[request.receiver]
        if receiver.quorum is not None:
            receiver.receive(request)
        elif self.cluster.random.random() < 0.8:
            sender = self.cluster.nodes[request.sender]
            for arrival in self._arrivals(request.receiver, request.sender):
                self.cluster.schedule(
                    arrival, sender.receive_response, request.sender_life, request.request_id, None
                )

    def _time_out(self, node: SimNode, life: int, request_id: int) -> None:
        if life == node.life and request_id in node.pending_request_ids:
            node.receive_response(life, request_id, None)

    def _arrivals(self, sender: int, receiver: int) -> list[int]:
        """Return the arrival times of a message: none, one, or several."""
        swarm, random, now = self.cluster.swarm, self.cluster.random.random, self.cluster.now
        if (sender, receiver) in self.cut_links or (swarm.drop and random() < swarm.drop):
            return []
        delay = 1 + int(random() * swarm.latency_max)
        if swarm.late and random() < swarm.late:
            delay += int(random() * swarm.late_max)
        if swarm.duplicate and random() < swarm.duplicate:
            return [now + delay, now + delay + int(random() * 10 * swarm.latency_max)]
        return [now + delay]

    def _encode_and_decode(self, message: ApiMessage) -> ApiMessage:
        if not self.cluster.swarm.through_codec:
            return message
        version = message.valid_versions.highest
        assert version is not None
        return decode(type(message), encode(message, version), version)
