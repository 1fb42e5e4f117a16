"""Which records of a log are the latest of their keys.

The offset map was filled from the dirty part of the log. A record of that part is therefore the latest of its
key if its offset is in the map, under any key: one flag for each dirty offset. Only the keys of older records
are looked up.

Bounds: _FLAGS_MAX bytes; if the dirty part has more offsets, all keys are looked up.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from tidelog.protocol.ids import Offset
from tidelog.protocol.record_columns.key_columns import KeyColumns
from tidelog.storage.compaction.offset_map import OffsetMap

_FLAGS_MAX: Final = 32 * 1024 * 1024


class LatestRecords:
    """Finds the latest records after `offsets` was filled from `first_dirty_offset` on."""

    def __init__(self, offsets: OffsetMap, first_dirty_offset: Offset) -> None:
        self._offsets = offsets
        self._first = first_dirty_offset
        count = offsets.latest_offset + 1 - first_dirty_offset
        self._flags: NDArray[np.bool_] = np.zeros(count if 0 < count <= _FLAGS_MAX else 0, dtype=np.bool_)
        if len(self._flags):
            # Offsets after the flags are those of a batch that did not fit completely.
            places = offsets.all_latest() - first_dirty_offset
            self._flags[places[places < count]] = True

    @property
    def end_offset(self) -> Offset:
        """The offset after the last one whose key was added."""
        return self._offsets.latest_offset + 1

    def among(self, columns: KeyColumns) -> NDArray[np.bool_]:
        """Return for each record whether it is the latest of its key; False without a key."""
        has_key = columns.key_lengths >= 0
        places = columns.offsets - self._first
        has_flag = (places >= 0) & (places < len(self._flags))
        if has_flag.all():
            return np.asarray(has_key & self._flags[places])
        is_latest = np.zeros(len(places), dtype=np.bool_)
        is_latest[has_flag] = self._flags[places[has_flag]]
        rows = np.flatnonzero(~has_flag & has_key)
        hashes = self._offsets.hasher.hashes(
            columns.data, columns.key_starts[rows], columns.key_lengths[rows]
        )
        is_latest[rows] = self._offsets.latest(hashes) <= columns.offsets[rows]
        return np.asarray(is_latest & has_key)
