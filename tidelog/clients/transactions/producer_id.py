"""The id and epoch under which a producer writes."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.protocol.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerEpoch, ProducerId


class ProducerIdAndEpoch(NamedTuple):
    """The result of InitProducerId; the defaults mean that the producer has no id yet."""

    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH

    @property
    def is_valid(self) -> bool:
        """Whether there is a producer id."""
        return self.producer_id != NO_PRODUCER_ID
