"""The network between the nodes, which loses, delays and duplicates messages.

A request that finds no process is refused at once or vanishes. Each request times out at its sender, so every
`Send` is answered once, as the shell promises. Cut links are directed: (0, 1) keeps what 0 says from 1.
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
    answers: int = 0
    """How often the receiver answered; a duplicate on the way is a request of its own."""


class Network:
    """Carries messages between the nodes of one world."""

    def __init__(self, world: SimulatedCluster) -> None:
        self.world = world
        self.cut: set[tuple[int, int]] = set()
        self.may_stand: int | None = None
        """Scenarios choose who is elected: what others ask for votes is lost."""

    def send(self, node: SimNode, effect: Send) -> None:
        """Send a request and start its timer."""
        world = self.world
        receiver = effect.to_node
        if receiver < 0 and effect.endpoints:
            receiver = effect.endpoints[0].port - FIRST_PORT
        elif not effect.endpoints or effect.endpoints[0].port - FIRST_PORT != receiver:
            receiver = -1
        node.waiting.add(effect.request_id)
        world.at(world.now + world.request_timeout, self._time_out, node, node.life, effect.request_id)
        if receiver not in world.nodes:
            world.at(world.now + 1, node.answered, node.life, effect.request_id, None)
            return
        message = self._through_codec(effect.message)
        if self.may_stand not in (None, node.id) and isinstance(message, VoteRequest):
            return
        for arrival in self._arrivals(node.id, receiver):
            request = Request(node.id, node.life, effect.request_id, receiver, message)
            world.at(arrival, self._arrive, request)

    def respond(self, request: Request, message: ApiMessage) -> None:
        """Send a response."""
        world = self.world
        message = self._through_codec(message)
        for arrival in self._arrivals(request.receiver, request.sender):
            world.at(
                arrival,
                world.nodes[request.sender].answered,
                request.sender_life,
                request.request_id,
                message,
            )

    def _arrive(self, request: Request) -> None:
        receiver = self.world.nodes[request.receiver]
        if receiver.quorum is not None:
            receiver.received(request)
        elif self.world.random.random() < 0.8:
            sender = self.world.nodes[request.sender]
            for arrival in self._arrivals(request.receiver, request.sender):
                self.world.at(arrival, sender.answered, request.sender_life, request.request_id, None)

    def _time_out(self, node: SimNode, life: int, request_id: int) -> None:
        if life == node.life and request_id in node.waiting:
            node.answered(life, request_id, None)

    def _arrivals(self, sender: int, receiver: int) -> list[int]:
        """Return the arrival times of a message: none, one, or several."""
        swarm, random, now = self.world.swarm, self.world.random.random, self.world.now
        if (sender, receiver) in self.cut or (swarm.drop and random() < swarm.drop):
            return []
        delay = 1 + int(random() * swarm.latency_max)
        if swarm.late and random() < swarm.late:
            delay += int(random() * swarm.late_max)
        if swarm.duplicate and random() < swarm.duplicate:
            return [now + delay, now + delay + int(random() * 10 * swarm.latency_max)]
        return [now + delay]

    def _through_codec(self, message: ApiMessage) -> ApiMessage:
        if not self.world.swarm.through_codec:
            return message
        version = message.valid_versions.highest
        assert version is not None
        return decode(type(message), encode(message, version), version)
