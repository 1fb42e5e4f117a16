"""The metadata contains this controller, also if another incarnation was registered before."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

from tests.support.metadata.single_controller import store_with_brokers, write
from tests.support.metadata.stores import channel_of
from tests.support.waiting import eventually
from tidelog.base.clock import SystemClock
from tidelog.broker.config.listeners import Listener, SecurityProtocol
from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.registration.controller_registration import ControllerRegistration
from tidelog.protocol.metadata_records.register_controller_record import RegisterControllerRecord

OWN = UUID(int=77)


@asynccontextmanager
async def run_registration(store: MetadataStore) -> AsyncIterator[ControllerRegistration]:
    registration = ControllerRegistration(
        channel_of(store),
        store,
        SystemClock(),
        node_id=1,
        incarnation_id=OWN,
        listeners=[Listener("CONTROLLER", "host1", 9093, SecurityProtocol.PLAINTEXT)],
    )
    registration.start()
    try:
        yield registration
    finally:
        await registration.close()


def incarnation(store: MetadataStore) -> UUID | None:
    controller = store.image.controllers.get(1)
    return None if controller is None else controller.incarnation_id


async def test_a_controller_registers_with_its_listeners_and_features() -> None:
    async with store_with_brokers(1) as store, run_registration(store):
        await eventually(lambda: incarnation(store) == OWN)
        record = store.image.controllers[1]
        assert [(each.name, each.host, each.port) for each in record.end_points] == [
            ("CONTROLLER", "host1", 9093)
        ]
        assert "metadata.version" in {feature.name for feature in record.features}


async def test_a_registration_of_a_former_incarnation_is_replaced() -> None:
    async with store_with_brokers(1) as store, run_registration(store):
        await eventually(lambda: incarnation(store) == OWN)
        await write(store, [RegisterControllerRecord(controller_id=1, incarnation_id=UUID(int=5))])
        await eventually(lambda: incarnation(store) == OWN)
        offset = store.image.offset
        await write(store, [RegisterControllerRecord(controller_id=2, incarnation_id=UUID(int=6))])
        assert store.image.offset == offset + 1


async def test_nothing_is_sent_after_stop() -> None:
    async with store_with_brokers(1) as store:
        async with run_registration(store):
            await eventually(lambda: incarnation(store) == OWN)
        await write(store, [RegisterControllerRecord(controller_id=1, incarnation_id=UUID(int=5))])
        assert incarnation(store) == UUID(int=5)
