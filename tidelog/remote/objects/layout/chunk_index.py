"""Which chunk of a transformed log contains which bytes of the original log.

    original     |-- original_chunk_size --|-- original_chunk_size --|- rest -|
    transformed  |-- size 0 --|-- size 1 ------|- final -|

Positions and sizes are in bytes, ends are exclusive. Chunks without compression all have the same size except
the last one ("fixed"); each compressed chunk has its own size ("variable").

Source: FixedSizeChunkIndex and VariableSizeChunkIndex of Aiven's RemoteStorageManager.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from tidelog.base.dataclass import dataclass


class Chunk(NamedTuple):
    """The position and size of chunk `number` in the original and in the transformed log."""

    number: int
    original_position: int
    original_size: int
    transformed_position: int
    transformed_size: int

    @property
    def original_end(self) -> int:
        """The original position after the chunk."""
        return self.original_position + self.original_size

    @property
    def transformed_end(self) -> int:
        """The transformed position after the chunk."""
        return self.transformed_position + self.transformed_size


def chunk_count(original_chunk_size: int, original_file_size: int) -> int:
    """Return the number of chunks of a file."""
    return -(-original_file_size // original_chunk_size)


@dataclass(frozen=True, slots=True)
class _ChunkIndex:
    original_chunk_size: int
    original_file_size: int

    @property
    def count(self) -> int:
        """The number of chunks."""
        return chunk_count(self.original_chunk_size, self.original_file_size)

    def index_at(self, position: int) -> int:
        """Return the number of the chunk that contains the original `position`."""
        assert 0 <= position < self.original_file_size, position
        return position // self.original_chunk_size

    def _original(self, index: int) -> tuple[int, int]:
        assert 0 <= index < self.count, index
        position = index * self.original_chunk_size
        return position, min(self.original_chunk_size, self.original_file_size - position)


@dataclass(frozen=True, slots=True)
class FixedChunkIndex(_ChunkIndex):
    """Transformed chunks of the same size, except the last one."""

    transformed_chunk_size: int
    final_transformed_chunk_size: int

    def chunk(self, index: int) -> Chunk:
        """Return chunk `index`, which must exist."""
        position, size = self._original(index)
        is_last = index == self.count - 1
        transformed_size = self.final_transformed_chunk_size if is_last else self.transformed_chunk_size
        return Chunk(index, position, size, index * self.transformed_chunk_size, transformed_size)


@dataclass(frozen=True, slots=True)
class VariableChunkIndex(_ChunkIndex):
    """Transformed chunks, each with its own size."""

    transformed_sizes: Sequence[int]
    _positions: list[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        assert len(self.transformed_sizes) == self.count, (len(self.transformed_sizes), self.count)
        object.__setattr__(self, "_positions", list(accumulate(self.transformed_sizes, initial=0)))

    def chunk(self, index: int) -> Chunk:
        """Return chunk `index`, which must exist."""
        position, size = self._original(index)
        return Chunk(index, position, size, self._positions[index], self.transformed_sizes[index])


ChunkIndex: TypeAlias = FixedChunkIndex | VariableChunkIndex
