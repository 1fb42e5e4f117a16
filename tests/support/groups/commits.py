"""Commits of offsets as the handler performs them."""

from __future__ import annotations

import asyncio

from tidelog.broker.coordinators.groups.service import GroupService
from tidelog.broker.scheduling.slices import Slices
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse


async def commit_offsets(
    service: GroupService, slices: Slices, request: OffsetCommitRequest, version: int
) -> OffsetCommitResponse:
    """Commit the offsets of topics with names and ids. Raise KafkaError with the error of all partitions."""
    prepared = await slices.complete(service.offset_commits.prepare(request, request.topics))
    committed: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    service.offset_commits.commit(request, version, prepared.writes, committed.set_result)
    error = await committed
    if error is not ErrorCode.NONE:
        raise KafkaError(error)
    return prepared.response
