"""The share session of a member at one broker (KIP-932): the content of its requests.

Pure. One request is in flight at a time, because each has the next epoch. After a lost session the next
request opens another one with epoch 0, which cannot acknowledge: the records will be delivered again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final
from uuid import UUID

from tidelog.clients.config.share_config import RECORD_LIMIT, ShareConsumerConfig
from tidelog.clients.share_consumer.acquired_records import Acknowledgement
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages import share_acknowledge, share_fetch
from tidelog.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from tidelog.protocol.messages.share_fetch import ShareFetchRequest

FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
_EPOCH_MAX: Final = 0x7FFFFFFF
_LOST: Final = frozenset(
    {
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    }
)

PartitionId = tuple[UUID, int]
Acknowledgements = Mapping[PartitionId, Sequence[Acknowledgement]]


class ShareSession:
    """The session; `is_open`: the broker has it, so that the next request may acknowledge."""

    def __init__(self, member_id: str, config: ShareConsumerConfig) -> None:
        self._member_id = member_id
        self._config = config
        self._epoch = INITIAL_EPOCH
        self._partitions: set[PartitionId] = set()

    @property
    def is_open(self) -> bool:
        """Whether the broker has the session."""
        return self._epoch != INITIAL_EPOCH

    def fetch_request(
        self, wanted: Collection[PartitionId], acknowledgements: Acknowledgements
    ) -> ShareFetchRequest:
        """Return the next fetch from `wanted`; acknowledgements need an open session."""
        assert self.is_open or not acknowledgements
        config = self._config
        added = {*wanted} - self._partitions
        forgotten = self._partitions - {*wanted}
        self._partitions = {*wanted}
        topics: defaultdict[UUID, list[share_fetch.FetchPartition]] = defaultdict(list)
        for topic_id, index in sorted(added | acknowledgements.keys()):
            batches = tuple(
                share_fetch.AcknowledgementBatch(
                    first_offset=one.first_offset, last_offset=one.last_offset, acknowledge_types=one.types
                )
                for one in acknowledgements.get((topic_id, index), ())
            )
            topics[topic_id].append(
                share_fetch.FetchPartition(partition_index=index, acknowledgement_batches=batches)
            )
        # A partition of which only acknowledgements are sent must not be fetched.
        forgotten |= acknowledgements.keys() - {*wanted}
        return ShareFetchRequest(
            group_id=config.group_id,
            member_id=self._member_id,
            share_session_epoch=self._epoch,
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            max_records=config.max_poll_records,
            batch_size=config.max_poll_records,
            share_acquire_mode=1 if config.share_acquire_mode == RECORD_LIMIT else 0,
            topics=tuple(
                share_fetch.FetchTopic(topic_id=topic_id, partitions=tuple(partitions))
                for topic_id, partitions in topics.items()
            ),
            forgotten_topics_data=tuple(
                share_fetch.ForgottenTopic(topic_id=topic_id, partitions=indexes)
                for topic_id, indexes in _by_topic(forgotten).items()
            ),
        )

    def acknowledge_request(
        self, acknowledgements: Acknowledgements, *, is_renewal: bool = False, is_last: bool = False
    ) -> ShareAcknowledgeRequest:
        """Return the next request that only acknowledges; the session ends after it if it `is_last`."""
        assert self.is_open
        topics: defaultdict[UUID, list[share_acknowledge.AcknowledgePartition]] = defaultdict(list)
        for (topic_id, index), ranges in acknowledgements.items():
            batches = tuple(
                share_acknowledge.AcknowledgementBatch(
                    first_offset=one.first_offset, last_offset=one.last_offset, acknowledge_types=one.types
                )
                for one in ranges
            )
            topics[topic_id].append(
                share_acknowledge.AcknowledgePartition(partition_index=index, acknowledgement_batches=batches)
            )
        return ShareAcknowledgeRequest(
            group_id=self._config.group_id,
            member_id=self._member_id,
            share_session_epoch=FINAL_EPOCH if is_last else self._epoch,
            is_renew_ack=is_renewal,
            topics=tuple(
                share_acknowledge.AcknowledgeTopic(topic_id=topic_id, partitions=tuple(partitions))
                for topic_id, partitions in topics.items()
            ),
        )

    def on_response(self, code: ErrorCode) -> bool:
        """Continue with the next epoch, or with another session; return whether this one was lost."""
        if code in _LOST:
            self.on_lost()
            return True
        if code is ErrorCode.NONE:
            self._epoch = self._epoch + 1 if self._epoch < _EPOCH_MAX else 1
        else:
            # An error of the whole request: it is unknown what the broker has applied.
            self.on_lost()
        return False

    def on_lost(self) -> None:
        """Open another session with the next request: the connection has ended, for example."""
        self._epoch = INITIAL_EPOCH
        self._partitions = set()


def _by_topic(partitions: Collection[PartitionId]) -> dict[UUID, tuple[int, ...]]:
    grouped: dict[UUID, list[int]] = {}
    for topic_id, index in sorted(partitions):
        grouped.setdefault(topic_id, []).append(index)
    return {topic_id: tuple(indexes) for topic_id, indexes in grouped.items()}
