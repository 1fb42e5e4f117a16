"""Acknowledgements as runs: consecutive offsets with the same type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset
from tidelog.protocol.share_groups.acknowledge_type import AcknowledgeType


class AcknowledgedBatch(NamedTuple):
    """Acknowledged offsets, inclusive; one type for all of them, or one for each."""

    first_offset: Offset
    last_offset: Offset
    types: Sequence[int]

    def from_offset(self, offset: Offset) -> AcknowledgedBatch:
        """Return the part of the batch from `offset` on, which is at most its last offset."""
        if offset <= self.first_offset:
            return self
        types = self.types if len(self.types) == 1 else self.types[offset - self.first_offset :]
        return AcknowledgedBatch(offset, self.last_offset, types)


class AcknowledgedRun(NamedTuple):
    """Offsets [`first_offset`, `end_offset`) with the same acknowledgement."""

    first_offset: Offset
    end_offset: Offset
    type: AcknowledgeType


_TYPES: Final = {int(each): each for each in AcknowledgeType}


def runs_of(batch: AcknowledgedBatch) -> Iterator[AcknowledgedRun]:
    """Yield the runs of a batch. Errors: KafkaError INVALID_REQUEST for an unknown type."""
    types = batch.types
    if len(types) == 1:
        yield AcknowledgedRun(batch.first_offset, batch.last_offset + 1, _type_of(types[0]))
        return
    begin = 0
    for index in range(1, len(types) + 1):
        if index == len(types) or types[index] != types[begin]:
            first = batch.first_offset
            yield AcknowledgedRun(first + begin, first + index, _type_of(types[begin]))
            begin = index


def _type_of(value: int) -> AcknowledgeType:
    try:
        return _TYPES[value]
    except KeyError:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"acknowledge type {value} is not one of 0 to 4"
        ) from None


def check_batches(batches: Sequence[AcknowledgedBatch], *, supports_renewal: bool, is_renewal: bool) -> None:
    """Raise KafkaError INVALID_REQUEST unless batches are sorted and have one type, or one for each offset.

    `supports_renewal`: the version of the request has the type RENEW. `is_renewal`: the request may use it.
    """
    previous_last_offset = -1
    types_allowed = set(range(5 if supports_renewal and is_renewal else 4))
    for first, last, types in batches:
        if first > last:
            reason = f"its first offset {first} is above its last offset {last}"
        elif first < previous_last_offset:
            reason = f"its first offset {first} is below the last offset {previous_last_offset} before it"
        elif not types or (len(types) > 1 and len(types) != last - first + 1):
            reason = f"it has {len(types)} types for {last - first + 1} offsets"
        elif not types_allowed.issuperset(types):
            reason = f"its types are not all of {sorted(types_allowed)}"
        else:
            previous_last_offset = last
            continue
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"invalid acknowledgement batch: {reason}")
