"""What is done to each chunk on its way to the store and back: zstd, then encryption, each or none."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.remote.objects.layout.encryption import OVERHEAD_BYTES, DataKey, DecryptError
from tidelog.remote.objects.layout.pieces import Buffer
from tidelog.remote.objects.layout.zstd_frames import BadFrame, compress, decompress


class DamagedChunk(ValueError):
    """Bytes that are not what was written."""


@dataclass(frozen=True, slots=True)
class Transform:
    """How the chunks of one segment are stored."""

    compression: bool = False
    data_key: DataKey | None = None

    @property
    def is_identity(self) -> bool:
        """Whether stored bytes are the original ones."""
        return not self.compression and self.data_key is None

    def transformed_size(self, size: int) -> int | None:
        """What `size` bytes become; None when that is known only afterwards."""
        if self.compression:
            return None
        return size if self.data_key is None else size + OVERHEAD_BYTES

    def apply(self, chunk: Buffer) -> Buffer:
        """The stored form of `chunk`."""
        if self.compression:
            chunk = compress(chunk)
        return chunk if self.data_key is None else self.data_key.encrypt(chunk)

    def undo(self, stored: Buffer, original_size: int) -> Buffer:
        """The chunk that became `stored`, of `original_size` bytes; DamagedChunk when it is another."""
        chunk = stored
        try:
            if self.data_key is not None:
                chunk = self.data_key.decrypt(chunk)
            if self.compression:
                chunk = decompress(chunk, original_size)
        except (DecryptError, BadFrame) as error:
            raise DamagedChunk(str(error)) from error
        if len(chunk) != original_size:
            raise DamagedChunk(f"{len(chunk)} bytes where {original_size} were written")
        return chunk
