"""The last heartbeats of brokers, and how far they have applied the metadata.

This is soft state of the active controller: it is not in the metadata log, and a new controller
starts as if every unfenced broker had just sent a heartbeat, so a dead one is fenced a session late.

A *session* is a broker id and epoch with a heartbeat within `broker.session.timeout.ms`. It keeps
another process from taking the id. It ends early when the broker may shut down, so that
the next process need not wait (Kafka lets it wait).

Source: KIP-631; BrokerHeartbeatManager and BrokerHeartbeatTracker of Apache Kafka 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.cluster.image import MetadataImage
from tidelog.protocol.ids import BrokerId, Offset


@dataclass(slots=True)
class _Heard:
    """What is known of one registration; `contact_ms` is None once the session ended.

    `fenced_offset`: the end of the metadata at the first heartbeat while the broker was fenced.
    """

    epoch: int
    contact_ms: int | None
    metadata_offset: Offset = -1
    fenced_offset: Offset | None = None
    shutdown_offset: Offset | None = None


class BrokerHeartbeats:
    """Tracks the sessions of brokers. Invariant: at most one registration for each broker id, the latest."""

    def __init__(self, session_timeout_ms: int) -> None:
        self.session_timeout_ms = session_timeout_ms
        self._heard: dict[BrokerId, _Heard] = {}

    def activate(self, image: MetadataImage, now_ms: int) -> None:
        """Start again, as a controller that has just become active."""
        self._heard = {
            broker.id: _Heard(broker.epoch, now_ms) for broker in image.brokers.values() if not broker.fenced
        }

    def contact(self, image: MetadataImage, broker: BrokerId, epoch: int, now_ms: int) -> None:
        """Record a heartbeat; a registration that is not in the image is ignored."""
        registered = image.brokers.get(broker)
        if registered is None or registered.epoch != epoch:
            return
        heard = self._heard.get(broker)
        if heard is None or heard.epoch != epoch:
            heard = self._heard[broker] = _Heard(epoch, now_ms)
        heard.contact_ms = now_ms
        if not registered.fenced:
            heard.fenced_offset = None
        elif heard.fenced_offset is None:
            heard.fenced_offset = image.offset

    def knows_it_is_fenced(self, broker: BrokerId, epoch: int, metadata_offset: Offset) -> bool:
        """Return whether a fenced broker has applied the metadata up to its first heartbeat as fenced.

        A broker that was silent does not know that others lead its partitions. If unfenced before, it would
        take the answer for a proof that it still leads.
        """
        heard = self._heard.get(broker)
        if heard is None or heard.epoch != epoch or heard.fenced_offset is None:
            return False
        return metadata_offset >= heard.fenced_offset

    def excuse(self, stall_ms: int, now_ms: int) -> None:
        """Give everybody the time in which the controller itself did not run.

        Heartbeats that came meanwhile wait to be read. Kafka counts them as they come, in another
        thread.
        """
        for heard in self._heard.values():
            if heard.contact_ms is not None:
                heard.contact_ms = min(heard.contact_ms + stall_ms, now_ms)

    def follow(
        self,
        broker: BrokerId,
        epoch: int,
        *,
        metadata_offset: Offset,
        is_fenced: bool,
        should_shut_down: bool = False,
        shutdown_offset: Offset | None = None,
    ) -> None:
        """Remember what a heartbeat led to.

        `shutdown_offset`: what the other brokers must have seen before this one may stop; the
        first that is given counts, until the broker is fenced.
        """
        heard = self._heard.get(broker)
        if heard is None or heard.epoch != epoch:
            return
        heard.metadata_offset = metadata_offset
        if is_fenced:
            heard.shutdown_offset = None
        elif heard.shutdown_offset is None:
            heard.shutdown_offset = shutdown_offset
        if should_shut_down:
            heard.contact_ms = None

    def has_session(self, broker: BrokerId, epoch: int, now_ms: int) -> bool:
        """Return whether the session of the registration has not expired."""
        heard = self._heard.get(broker)
        if heard is None or heard.epoch != epoch or heard.contact_ms is None:
            return False
        return heard.contact_ms + self.session_timeout_ms >= now_ms

    def shutdown_offset(self, broker: BrokerId, epoch: int) -> Offset | None:
        """Return the offset that others must reach before a broker stops; None if it does not stop."""
        heard = self._heard.get(broker)
        return heard.shutdown_offset if heard is not None and heard.epoch == epoch else None

    def lowest_active_offset(self, image: MetadataImage) -> Offset | None:
        """How far the slowest broker has followed that may lead; None when there is none."""
        offsets = [
            heard.metadata_offset if heard is not None and heard.epoch == broker.epoch else -1
            for broker in image.brokers.values()
            if broker.is_active
            for heard in (self._heard.get(broker.id),)
        ]
        return min(offsets, default=None)

    def stale_broker(self, image: MetadataImage, now_ms: int) -> BrokerId | None:
        """Return the unfenced broker with the oldest heartbeat if its session has expired; else None."""
        silent = min(self._unfenced(image, now_ms), default=None)
        if silent is None or silent[0] + self.session_timeout_ms >= now_ms:
            return None
        return silent[1]

    def next_deadline_ms(self, image: MetadataImage, now_ms: int) -> int | None:
        """Return when the next session expires without a heartbeat; None while no broker is unfenced."""
        silent = min(self._unfenced(image, now_ms), default=None)
        return silent[0] + self.session_timeout_ms + 1 if silent is not None else None

    def _unfenced(self, image: MetadataImage, now_ms: int) -> list[tuple[int, BrokerId]]:
        """Return the last heartbeat of each unfenced broker; `now_ms` for a broker that has sent none."""
        found = []
        for broker in image.brokers.values():
            if broker.fenced:
                continue
            heard = self._heard.get(broker.id)
            if heard is None or heard.epoch != broker.epoch:
                heard = self._heard[broker.id] = _Heard(broker.epoch, now_ms)
            found.append((heard.contact_ms if heard.contact_ms is not None else now_ms, broker.id))
        return found
