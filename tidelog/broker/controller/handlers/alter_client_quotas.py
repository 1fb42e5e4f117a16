"""AlterClientQuotas (key 49), versions 0-1: quotas of users, clients and addresses (KIP-546)."""

from __future__ import annotations

import asyncio

from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.scheduling.bounded_gather import bounded_gather
from tidelog.broker.scheduling.slices import Slices
from tidelog.cluster.client_quotas import IP, is_address
from tidelog.cluster.controller.client_quotas import QuotaOutcome, alter_client_quotas
from tidelog.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    ResponseEntityData,
    ResponseEntryData,
)
from tidelog.protocol.steps import Steps, map_items


class AlterClientQuotasHandler:
    """Submits the request as a command that changes the metadata."""

    def __init__(self, store: MetadataStore, slices: Slices) -> None:
        self._store = store
        self._slices = slices

    async def handle(
        self, context: RequestContext, request: AlterClientQuotasRequest
    ) -> AlterClientQuotasResponse:
        """Return the outcome of each entity when the quotas are durable."""
        names = await self._slices.complete(_host_names(request))
        is_resolvable = await bounded_gather(map(_is_host, names))
        hosts = frozenset(name for name, is_host in zip(names, is_resolvable, strict=True) if is_host)
        outcomes = await self._store.submit(lambda image: alter_client_quotas(image, request, hosts))
        entries = await self._slices.complete(map_items(_response, outcomes))
        self._slices.release_later(outcomes)
        return AlterClientQuotasResponse(entries=entries)


def _response(outcome: QuotaOutcome) -> ResponseEntryData:
    return ResponseEntryData(
        error_code=outcome.outcome.code,
        error_message=outcome.outcome.text,
        entity=tuple(
            ResponseEntityData(entity_type=kind, entity_name=name) for kind, name in outcome.entity.items()
        ),
    )


def _host_names(request: AlterClientQuotasRequest) -> Steps[set[str]]:
    """Return the names among the ip entities that are no addresses."""
    names: set[str] = set()
    for entry in request.entries:
        yield None
        for entity in entry.entity:
            name = entity.entity_name
            if entity.entity_type == IP and name and not is_address(name):
                names.add(name)
    return names


async def _is_host(name: str) -> bool:
    try:
        await asyncio.get_running_loop().getaddrinfo(name, None)
    except (OSError, UnicodeError):
        return False
    return True
