"""The last batches of the active producers of a log, which compaction keeps: they contain the sequences."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.protocol.ids import Offset, ProducerEpoch


class LastRecord(NamedTuple):
    """The last batch of an active producer: that with this offset, or with None the marker of this epoch."""

    last_offset: Offset | None
    producer_epoch: ProducerEpoch
