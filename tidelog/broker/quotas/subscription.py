"""Passes changed client quotas of the metadata to the objects that enforce them."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.metadata.store import Subscriber
from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.image import ClientQuotas, MetadataImage


def on_changed_quotas(update: Callable[[ClientQuotas], None]) -> Subscriber:
    """Return a subscriber of the metadata store that calls `update` when a quota has changed."""

    def on_metadata_changed(delta: MetadataDelta, image: MetadataImage) -> None:
        if image.client_quotas is not delta.base.client_quotas:
            update(image.client_quotas)

    return on_metadata_changed
