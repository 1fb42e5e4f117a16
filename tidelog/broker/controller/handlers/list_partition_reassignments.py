"""ListPartitionReassignments (key 46), version 0: the reassignments in progress."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.network.request_context import RequestContext
from tidelog.cluster.controller.reassignments import list_partition_reassignments
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from tidelog.protocol.steps import Steps


class ListPartitionReassignmentsHandler:
    """Reads the metadata; `image` returns the committed image."""

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image

    def handle(
        self, context: RequestContext, request: ListPartitionReassignmentsRequest
    ) -> Steps[ListPartitionReassignmentsResponse]:
        """Return the reassignments in the image."""
        return list_partition_reassignments(self._image(), request)
