"""The metadata store of the only controller, for tests of handlers and tasks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from tests.support.metadata.images import broker_registration_record
from tests.support.metadata.stores import running_store
from tidelog.broker.metadata.store import MetadataStore
from tidelog.cluster.controller.result import ControllerResult
from tidelog.protocol.schema import MetadataRecord


async def write(store: MetadataStore, records: Iterable[MetadataRecord]) -> None:
    """Commit records without validation."""
    fixed = tuple(records)
    await store.submit(lambda image: ControllerResult(fixed, None))


@asynccontextmanager
async def store_with_brokers(*brokers: int) -> AsyncIterator[MetadataStore]:
    """Yield the store of an active controller with unfenced brokers."""
    async with running_store(registered=False) as store:
        await write(store, [broker_registration_record(broker) for broker in brokers])
        yield store
