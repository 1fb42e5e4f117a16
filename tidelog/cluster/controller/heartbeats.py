"""The last heartbeats of brokers, and the metadata offsets up to which they have applied the metadata.

This is soft state of the active controller: it is not in the metadata log. A new controller starts as if
every unfenced broker had just sent a heartbeat, so that a dead broker is fenced one session timeout late.

A *session* is a broker id and epoch with a heartbeat within `broker.session.timeout.ms`. Meanwhile no other
process can register the id. The session ends early when the broker may shut down, so that the next process
need not wait (in Kafka it waits).

Source: KIP-631; BrokerHeartbeatManager and BrokerHeartbeatTracker of Apache Kafka 4.3.
"""

from __future__ import annotations

from tidelog.base.dataclass import dataclass
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.ids import BrokerId, Offset


@dataclass(slots=True)
class _Session:
    """The session of one registration; `last_heartbeat_ms` is None after its end.

    `fenced_offset`: the end of the metadata at the first heartbeat while the broker was fenced.
    """

    epoch: int
    last_heartbeat_ms: int | None
    metadata_offset: Offset = -1
    fenced_offset: Offset | None = None
    shutdown_offset: Offset | None = None


class BrokerHeartbeats:
    """Tracks the sessions of brokers. Invariant: at most one registration for each broker id, the latest."""

    def __init__(self, session_timeout_ms: int) -> None:
        self.session_timeout_ms = session_timeout_ms
        self._sessions: dict[BrokerId, _Session] = {}

    def activate(self, image: MetadataImage, now_ms: int) -> None:
        """Reset all sessions when this controller becomes active."""
        self._sessions = {
            broker.id: _Session(broker.epoch, now_ms)
            for broker in image.brokers.values()
            if not broker.fenced
        }

    def record_heartbeat(self, image: MetadataImage, broker: BrokerId, epoch: int, now_ms: int) -> None:
        """Record a heartbeat; ignore it if the registration is not in the image."""
        registered = image.brokers.get(broker)
        if registered is None or registered.epoch != epoch:
            return
        session = self._sessions.get(broker)
        if session is None or session.epoch != epoch:
            session = self._sessions[broker] = _Session(epoch, now_ms)
        session.last_heartbeat_ms = now_ms
        if not registered.fenced:
            session.fenced_offset = None
        elif session.fenced_offset is None:
            session.fenced_offset = image.offset

    def has_applied_fencing(self, broker: BrokerId, epoch: int, metadata_offset: Offset) -> bool:
        """Return whether a fenced broker has applied the metadata up to its first heartbeat as fenced.

        A broker that sent no heartbeats does not know that other replicas lead its partitions. If it were
        unfenced before it knows, it would conclude from the response that it still leads them.
        """
        session = self._sessions.get(broker)
        if session is None or session.epoch != epoch or session.fenced_offset is None:
            return False
        return metadata_offset >= session.fenced_offset

    def extend_sessions(self, stall_ms: int, now_ms: int) -> None:
        """Extend all sessions by the time in which the controller itself did not run.

        Heartbeats that arrived in that time have not been read yet. Kafka reads them in another thread.
        """
        for session in self._sessions.values():
            if session.last_heartbeat_ms is not None:
                session.last_heartbeat_ms = min(session.last_heartbeat_ms + stall_ms, now_ms)

    def apply_reply(
        self,
        broker: BrokerId,
        epoch: int,
        *,
        metadata_offset: Offset,
        is_fenced: bool,
        should_shut_down: bool = False,
        shutdown_offset: Offset | None = None,
    ) -> None:
        """Record the result of a heartbeat.

        `shutdown_offset`: the offset that the other brokers must have applied before this one may stop; the
        first one is kept until the broker is fenced.
        """
        session = self._sessions.get(broker)
        if session is None or session.epoch != epoch:
            return
        session.metadata_offset = metadata_offset
        if is_fenced:
            session.shutdown_offset = None
        elif session.shutdown_offset is None:
            session.shutdown_offset = shutdown_offset
        if should_shut_down:
            session.last_heartbeat_ms = None

    def has_session(self, broker: BrokerId, epoch: int, now_ms: int) -> bool:
        """Return whether the session of the registration has not expired."""
        session = self._sessions.get(broker)
        if session is None or session.epoch != epoch or session.last_heartbeat_ms is None:
            return False
        return session.last_heartbeat_ms + self.session_timeout_ms >= now_ms

    def shutdown_offset(self, broker: BrokerId, epoch: int) -> Offset | None:
        """Return the offset that others must apply before this broker stops; None if it is not stopping."""
        session = self._sessions.get(broker)
        return session.shutdown_offset if session is not None and session.epoch == epoch else None

    def lowest_active_offset(self, image: MetadataImage) -> Offset | None:
        """Return the lowest metadata offset of the active brokers; None if there are none."""
        offsets = [
            session.metadata_offset if session is not None and session.epoch == broker.epoch else -1
            for broker in image.brokers.values()
            if broker.is_active
            for session in (self._sessions.get(broker.id),)
        ]
        return min(offsets, default=None)

    def stale_broker(self, image: MetadataImage, now_ms: int) -> BrokerId | None:
        """Return the unfenced broker with the oldest heartbeat if its session has expired; else None."""
        oldest = min(self._unfenced_heartbeats(image, now_ms), default=None)
        if oldest is None or oldest[0] + self.session_timeout_ms >= now_ms:
            return None
        return oldest[1]

    def next_deadline_ms(self, image: MetadataImage, now_ms: int) -> int | None:
        """Return the time at which the next session expires without a heartbeat; None if all are fenced."""
        oldest = min(self._unfenced_heartbeats(image, now_ms), default=None)
        return oldest[0] + self.session_timeout_ms + 1 if oldest is not None else None

    def _unfenced_heartbeats(self, image: MetadataImage, now_ms: int) -> list[tuple[int, BrokerId]]:
        """Return the last heartbeat of each unfenced broker; `now_ms` for a broker that has sent none."""
        heartbeats = []
        for broker in image.brokers.values():
            if broker.fenced:
                continue
            session = self._sessions.get(broker.id)
            if session is None or session.epoch != broker.epoch:
                session = self._sessions[broker.id] = _Session(broker.epoch, now_ms)
            heartbeats.append(
                (session.last_heartbeat_ms if session.last_heartbeat_ms is not None else now_ms, broker.id)
            )
        return heartbeats
