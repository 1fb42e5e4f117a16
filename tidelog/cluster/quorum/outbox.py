"""The effects of one step, in order; `Persist` precedes the effects that depend on it."""

from __future__ import annotations

from tidelog.cluster.quorum.effects import Effect, Persist, Respond, Send
from tidelog.cluster.quorum.events import RequestReceived
from tidelog.cluster.quorum.quorum_record import QuorumRecord
from tidelog.cluster.quorum.voter_set import Endpoint
from tidelog.protocol.ids import BrokerId, Offset
from tidelog.protocol.schema import ApiMessage


class Outbox:
    """Collects effects until `take`.

    A step has at most one `Persist`, before all effects that depend on it: later ones are merged into it.
    """

    def __init__(self) -> None:
        self._effects: list[Effect] = []
        self._persist: Persist | None = None
        self._last_ticket = 0
        self._last_request_id = 0

    def persist(self, *, record: QuorumRecord | None = None, flush_to: Offset | None = None) -> int:
        """Make `record`, and the log up to `flush_to`, durable before all effects that are added later.

        Returns the ticket of the `Persist` effect.
        """
        effect = self._persist
        if effect is None:
            self._last_ticket += 1
            effect = self._persist = Persist(self._last_ticket, None, None)
            self._effects.append(effect)
        effect.merge(record, flush_to)
        return effect.ticket

    def add(self, effect: Effect) -> None:
        """Add an effect other than `Persist`."""
        self._effects.append(effect)

    def respond(self, request: RequestReceived, message: ApiMessage) -> None:
        """Add the response to a request."""
        self._effects.append(Respond(request.source, message))

    def send(self, to_node: BrokerId, endpoints: tuple[Endpoint, ...], message: ApiMessage) -> int:
        """Add a request to another node; return the request's id."""
        self._last_request_id += 1
        self._effects.append(Send(self._last_request_id, to_node, endpoints, message))
        return self._last_request_id

    def take(self) -> list[Effect]:
        """Return the effects since the last call."""
        effects, self._effects = self._effects, []
        self._persist = None
        return effects
