"""DescribeClientQuotas (key 48), versions 0-1: the quotas that a filter selects (KIP-546)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidelog.broker.network.request_context import RequestContext
from tidelog.cluster.client_quotas import FilterComponent, matching_quotas
from tidelog.cluster.image import MetadataImage, QuotaEntity
from tidelog.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from tidelog.protocol.steps import Steps, map_items


class DescribeClientQuotasHandler:
    """Returns quotas of the image."""

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image

    def handle(
        self, context: RequestContext, request: DescribeClientQuotasRequest
    ) -> Steps[DescribeClientQuotasResponse]:
        """Return the quotas of the selected entities. Raise INVALID_REQUEST, UNSUPPORTED_VERSION."""
        components = (
            FilterComponent(each.entity_type, each.match_type, each.match) for each in request.components
        )
        quotas = yield from matching_quotas(self._image(), components, strict=request.strict)
        entries = yield from map_items(_entry, quotas)
        return DescribeClientQuotasResponse(error_message=None, entries=entries)


def _entry(entity_quotas: tuple[QuotaEntity, Mapping[str, float]]) -> EntryData:
    entity, quotas = entity_quotas
    return EntryData(
        entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity),
        values=tuple(ValueData(key=key, value=value) for key, value in quotas.items()),
    )
