"""A group service that serves one client, for tests of the handlers of consumer, share and streams groups."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from tests.support.clocks.virtual_time import VirtualTime
from tests.support.configs import group_config
from tests.support.groups.ports import group_ports
from tests.support.groups.state_log import MemoryStateLog
from tests.support.loops.yields import loop_iterations
from tests.support.metadata.images import LISTENER, image_after_records
from tests.support.security.authorizers import DenyingAuthorizer
from tidelog.broker.api.handlers.group_access import GroupAccess
from tidelog.broker.coordinators.groups.service import GroupService
from tidelog.broker.network.connected_client import ConnectedClient
from tidelog.broker.network.request_context import RequestContext
from tidelog.protocol.framing import RequestHeader
from tidelog.protocol.metadata_records.partition_record import PartitionRecord
from tidelog.protocol.metadata_records.topic_record import TopicRecord
from tidelog.protocol.schema import MetadataRecord

PRINCIPAL = "User:alice"


class ServedGroups:
    """A service and what its handlers need, in a cluster with topics of one partition each.

    `denied` are the resources that the client may not access. `is_enabled` is whether the APIs are served.
    """

    def __init__(self, *topics: str) -> None:
        self.time = VirtualTime()
        image = image_after_records(_topic_records(topics))
        ports = group_ports(MemoryStateLog(1), self.time, self.time, image=image)
        self.service = GroupService(group_config(), ports)
        self.is_enabled = True
        self.denied: set[str] = set()
        self._slices = ports.slices

    async def start(self) -> None:
        """Become the coordinator of all groups."""
        self.service.start()
        self.service.on_leadership(0)
        await loop_iterations(20)

    async def stop(self) -> None:
        await self.service.stop()

    def access(self, authorizer: DenyingAuthorizer | None = None) -> GroupAccess:
        """Return the access of the client; by default, the authorizer denies only `denied`."""
        return GroupAccess(
            authorizer or DenyingAuthorizer(self.denied), self._slices, lambda: self.is_enabled
        )

    def context(self, api_key: int, version: int) -> RequestContext:
        """Return the context of a request of the client."""
        return RequestContext(
            header=RequestHeader(api_key, version, 1, "me"),
            listener=LISTENER,
            peer="10.0.0.1:4711",
            principal=PRINCIPAL,
            now_ms=self.time.wall_ms(),
            client=ConnectedClient(),
        )


def _topic_records(names: Iterable[str]) -> list[MetadataRecord]:
    records: list[MetadataRecord] = []
    for number, name in enumerate(names, 1):
        topic_id = UUID(int=number)
        records.append(TopicRecord(name=name, topic_id=topic_id))
        records.append(PartitionRecord(topic_id=topic_id, replicas=(1,), isr=(1,), leader=1))
    return records
