"""The transform of each chunk before it is stored: zstd, then encryption; both are optional."""

from __future__ import annotations

from tidelog.base.dataclass import dataclass
from tidelog.remote.objects.layout.encryption import OVERHEAD_BYTES, DataKey, DecryptError
from tidelog.remote.objects.layout.pieces import Buffer
from tidelog.remote.objects.layout.zstd_frames import BadFrame, compress, decompress


class DamagedChunk(ValueError):
    """The bytes are not those that were written."""


@dataclass(frozen=True, slots=True)
class Transform:
    """The transform of the chunks of one segment."""

    compression: bool = False
    data_key: DataKey | None = None

    @property
    def is_identity(self) -> bool:
        """Whether the stored bytes are the original ones."""
        return not self.compression and self.data_key is None

    def transformed_size(self, size: int) -> int | None:
        """Return the stored size of `size` bytes; None if it is known only after compression."""
        if self.compression:
            return None
        return size if self.data_key is None else size + OVERHEAD_BYTES

    def apply(self, chunk: Buffer) -> Buffer:
        """Return the stored form of `chunk`."""
        if self.compression:
            chunk = compress(chunk)
        return chunk if self.data_key is None else self.data_key.encrypt(chunk)

    def undo(self, stored: Buffer, original_size: int) -> Buffer:
        """Return the chunk whose stored form is `stored`.

        Errors: DamagedChunk if it does not have `original_size` bytes or cannot be decoded.
        """
        chunk = stored
        try:
            if self.data_key is not None:
                chunk = self.data_key.decrypt(chunk)
            if self.compression:
                chunk = decompress(chunk, original_size)
        except (DecryptError, BadFrame) as error:
            raise DamagedChunk(str(error)) from error
        if len(chunk) != original_size:
            raise DamagedChunk(f"the chunk has {len(chunk)} bytes, expected are {original_size}")
        return chunk
