"""One share group whose members acknowledge each record, across all restarts (KIP-932).

Two members stay for the whole run. The third one leaves and joins again all the time. Members release one of
twenty records at its first delivery, and accept the others. At the end a last member accepts what is left.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from tests.harness.soak.consumers import MOST_PER_POLL, POLL_S
from tests.harness.soak.history import History
from tests.harness.soak.values import writer_of
from tidelog import ShareConsumer
from tidelog.clients.admin.admin import Admin, ConfigChange, ConfigResource, ResourceType
from tidelog.clients.consumer.consumer_types import ConsumerRecord
from tidelog.local_cluster.client_settings import ClientSettings
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.share_groups.acknowledge_type import AcknowledgeType

GROUP: Final = "soak-share-group"
GROUP_CONFIG: Final = {
    "share.auto.offset.reset": "earliest",
    "share.delivery.count.limit": "10",
    "share.record.lock.duration.ms": "5000",
    "share.session.timeout.ms": "10000",
}
"""No record may reach the limit of deliveries: it would count as processed then."""
STAY_S: Final = 8.0
RELEASED_OF: Final = 20
BROKER_SETTINGS: Final = {
    "group.share.min.record.lock.duration.ms": "5000",
    "group.share.min.session.timeout.ms": "10000",
}
DRAIN_S_MAX: Final = 90.0
IDLE_S_MAX: Final = 20.0
"""All locks and sessions expire within this time; the session of a member whose last heartbeat was lost, too.

A record that is not delivered then was accepted without a response.
"""
AFTERWARDS_S: Final = 2.0


async def configure_group(admin: Admin) -> None:
    """Set the configs of the group before its first member joins."""
    changes = [ConfigChange(name=key, value=value) for key, value in GROUP_CONFIG.items()]
    resource = ConfigResource(ResourceType.GROUP, GROUP)
    error = (await admin.incremental_alter_configs({resource: changes}))[resource]
    if error is not None:
        raise error


class ShareMember:
    """One member, which records its deliveries and acknowledgements in the history."""

    def __init__(self, clients: ClientSettings, topic: str, history: History, name: str) -> None:
        self._clients = clients
        self._topic = topic
        self._history = history
        self._process = f"{GROUP}/{name}"
        self.accepted: dict[int, set[int]] = {}
        """The offsets whose acceptance the brokers have confirmed, by partition."""
        self._delivered_at_s = time.monotonic()

    @property
    def idle_s(self) -> float:
        """The time since the last delivery."""
        return time.monotonic() - self._delivered_at_s

    async def run_until(self, must_stop: Callable[[], bool], stay_s: float = float("inf")) -> None:
        """Deliver and acknowledge until `must_stop` returns true or `stay_s` have passed."""
        leave_at_s = time.monotonic() + stay_s
        async with ShareConsumer(
            **self._clients.tidelog,
            group_id=GROUP,
            max_poll_records=MOST_PER_POLL,
            share_acknowledgement_mode="explicit",
        ) as consumer:
            self._history.add(self._process, "join", "ok")
            consumer.subscribe([self._topic])
            while not must_stop() and time.monotonic() < leave_at_s:
                await self._poll(consumer)

    async def _poll(self, consumer: ShareConsumer) -> None:
        try:
            records = await consumer.poll(int(POLL_S * 1000))
        except KafkaError:
            return
        accepted: dict[int, list[int]] = {}
        for topic_partition, each in records.items():
            partition = topic_partition.partition
            values = [(record.offset, *writer_of(record.value)) for record in each]
            self._history.add(self._process, "deliver", "ok", (partition, values))
            accepted[partition] = self._decide(consumer, each)
        if not accepted:
            return
        self._delivered_at_s = time.monotonic()
        for partition, offsets in accepted.items():
            self._history.add(self._process, "accept", "invoke", (partition, offsets))
        results = await consumer.commit()
        failed = {each.partition for each, error in results.items() if error is not None}
        for partition, offsets in accepted.items():
            is_ok = partition not in failed
            self._history.add(self._process, "accept", "ok" if is_ok else "info", (partition, offsets))
            if is_ok:
                self.accepted.setdefault(partition, set()).update(offsets)

    @staticmethod
    def _decide(consumer: ShareConsumer, records: list[ConsumerRecord]) -> list[int]:
        """Release some records and accept the others; return the offsets of the accepted ones."""
        accepted = []
        for record in records:
            is_released = record.offset % RELEASED_OF == 0 and consumer.delivery_count(record) == 1
            consumer.acknowledge(record, AcknowledgeType.RELEASE if is_released else AcknowledgeType.ACCEPT)
            if not is_released:
                accepted.append(record.offset)
        return accepted


class ShareGroup:
    """All members of the group, and which records they have accepted together."""

    def __init__(self, clients: ClientSettings, topic: str, history: History) -> None:
        self._clients = clients
        self._topic = topic
        self._history = history
        self._members: list[ShareMember] = []

    async def run_staying(self, number: int, stop: threading.Event) -> None:
        """Run one member until `stop` is set."""
        await self._create(f"staying-{number}").run_until(stop.is_set)

    async def run_returning(self, stop: threading.Event) -> None:
        """Run one member after the other until `stop` is set; each leaves after `STAY_S`."""
        number = 0
        while not stop.is_set():
            await self._create(f"returning-{number}").run_until(stop.is_set, STAY_S)
            number += 1

    async def drain(self, ends: dict[int, int]) -> None:
        """Accept the records up to `ends` that are left, until no more are delivered."""
        last = self._create("last")
        await last.run_until(lambda: last.idle_s > IDLE_S_MAX or self._has_accepted_all(ends), DRAIN_S_MAX)
        # A member that joins now gets no records, except those whose acceptance was forgotten.
        await self._create("afterwards").run_until(lambda: False, AFTERWARDS_S)

    def _create(self, name: str) -> ShareMember:
        member = ShareMember(self._clients, self._topic, self._history, name)
        self._members.append(member)
        return member

    def _has_accepted_all(self, ends: dict[int, int]) -> bool:
        return all(
            sum(len(member.accepted.get(partition, ())) for member in self._members) >= end
            for partition, end in ends.items()
        )
